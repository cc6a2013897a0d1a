"""Figure `together`: a machine and a human share a car, told what is alike on the road: what it saves, and who drives where."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cede.worlds.pictures import DRIVER_COLOURS, draw_drive, legend_handles
from studies import style
from studies.drawing import draw_band, draw_level, finish
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.figures.trajectories import drive_of
from studies.runs import lane
from studies.statistics import over_repeats
from studies.tables import select, values

EPISODES, QUICK_EPISODES = 300, 40
REPEATS, QUICK_REPEATS = 4, 1
COSTS = lane.COSTS[0]
KINDS = ("cost", "drive", "place", "why")
TOGETHER = "#D55E00"
NOTE = (
    "The recommended learner knows the machine's policy and the structure; it has no guarantee. Left: the "
    "road with the median saving of 99 that begin in heavy traffic. Right, above: expected cost, exact; the peaks are trial "
    "episodes of a single driver. Right, below: the last policy; small numbers: how often each situation occurs."
)


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    return [
        Part(
            "runs.first_look:together",
            {"costs": list(COSTS), "episodes": episodes, "seed": seed},
            episodes * lane.effort("constant"),
            "two drivers, one car",
        )
        for seed in options.seeds(REPEATS, QUICK_REPEATS)
    ]


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [{"kind": kind, **row} for kind in KINDS for _, outcome in outcomes for row in outcome[kind]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    first = select(rows, kind="drive", seed=rows[0]["seed"])
    drives = values(first, "learner")
    layout, ratios = [[*drives, "cost"], [*drives, "map"]], (1, 1, 1, 3.1)
    picture, panels = style.mosaic(layout, width=style.WIDTH, height=4.4, width_ratios=ratios)
    for name in drives:
        driven = drive_of(select(first, learner=name))
        draw_drive(panels[name], driven, title=f"{name}\ncost {driven.cost:.1f}")
    draw_costs(panels["cost"], select(rows, kind="cost"))
    draw_places(panels["map"], select(rows, kind="place"))
    picture.legend(handles=legend_handles(), loc="outside upper center", ncols=6)
    note = f"Lane driving: a step of the human costs {COSTS[0]}, a hand-over {COSTS[1]}. " + NOTE
    return finish(picture, select(rows, kind="cost"), note, path)


def draw_costs(axes: Any, rows: Sequence[Row]) -> None:
    """Draw what an episode costs while the learner learns, beside each driver alone and the best possible."""
    own = select(rows, learner="together")
    episode, mean, half = over_repeats(own, y="cost")
    draw_band(axes, episode, mean, half, TOGETHER, linewidth=1.6)
    axes.set_xscale("log")
    axes.set_xlim(1, episode[-1])
    for name in values(rows, "learner")[1:]:
        cost = select(rows, learner=name)[0]["cost"]
        colour = DRIVER_COLOURS.get(name.removesuffix(" alone"), "#222222")
        draw_level(axes, cost, f"{name} {cost:.1f}", colour, above=name != "best possible")
    axes.set_ylim(0, max(row["cost"] for row in rows) * 1.12)
    axes.set_xticks([1, 3, 10, 30, 100, 300][: int(np.searchsorted([1, 3, 10, 30, 100, 300], episode[-1], side="right"))])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    axes.set_xlabel("episode")
    axes.set_title("expected cost of an episode")


def draw_places(axes: Any, rows: Sequence[Row]) -> None:
    """Draw how much the human drives by traffic and by what lies straight ahead; blank where that does not come up."""
    traffic, ahead = values(rows, "traffic"), [cell for cell in values(rows, "ahead") if cell != "wall"]
    for y, level in enumerate(traffic):
        for x, cell in enumerate(ahead):
            here = select(rows, traffic=level, ahead=cell)
            steps = float(np.mean([row["steps"] for row in here]))
            if steps == 0:
                continue
            share = sum(row["human_share"] * row["steps"] for row in here) / sum(row["steps"] for row in here)
            axes.add_patch(box(x, y, DRIVER_COLOURS["human"], share))
            axes.text(x + 0.5, y + 0.56, percent(share), ha="center", va="center", fontsize=10)
            axes.text(x + 0.5, y + 0.2, percent(steps), ha="center", va="center", fontsize=7, color="#777777")
    axes.set_xlim(0, len(ahead))
    axes.set_ylim(0, len(traffic))
    axes.set_xticks(np.arange(len(ahead)) + 0.5, ahead)
    axes.set_yticks(np.arange(len(traffic)) + 0.5, [str(level).replace("-", " ") for level in traffic])
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("straight ahead")
    axes.set_ylabel("traffic")
    axes.set_title("the human's share of driving")


def box(x: float, y: float, colour: str, share: float) -> Any:
    """Return a cell of a map as a patch of Matplotlib, the darker the higher the share."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch

    look: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.06", "edgecolor": "#BBBBBB", "linewidth": 0.6}
    return FancyBboxPatch((x + 0.05, y + 0.05), 0.9, 0.9, facecolor=to_rgba(colour, share), **look)


def percent(share: float) -> str:
    """Return a share as whole percent; one that is not zero is not shown as zero."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


FIGURE = Figure(
    "together",
    "Two drivers, one car",
    "A machine that was trained without traffic and a human who sees badly share a car. After a few drives an episode costs about "
    "half of what either driver alone costs, in the mean over all roads, because the human is called only where it pays.",
    parts,
    table,
    draw,
)
