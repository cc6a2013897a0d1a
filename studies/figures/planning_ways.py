"""Figure `planning`: what planning less costs in regret, and what it saves."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from studies import style
from studies.drawing import draw_line, episode_axis, finish, legend_above
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.runs import lane
from studies.runs.planning_ways import WAYS
from studies.tables import select

EPISODES, QUICK_EPISODES = 20_000, 120
REPEATS, QUICK_REPEATS = 3, 1
AGENTS = (0.3, 0.7)  # RiverSwim
COSTS = (0.2, 0.1)  # lane driving
PANELS = {
    ("RiverSwim", "printed"): "RiverSwim\nradii as printed",
    ("lane driving", "schedule"): "lane driving\nauthors' schedule",
    ("lane driving", "constant"): "lane driving\nradii times 0.1 and 0.01",
}
COLOURS = {"every episode": style.RED, "every 10 episodes": style.BLUE, "doubling": style.GREEN, "greedy": style.PINK}
LINES: dict[str, Any] = {"every episode": "-", "every 10 episodes": "--", "doubling": "-.", "greedy": (0, (1, 1))}


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    result = []
    for way, seed in product(WAYS, options.seeds(REPEATS, QUICK_REPEATS)):
        shared = {"way": way, "episodes": episodes, "seed": seed}
        result.append(
            Part("runs.river:planning_run", {**shared, "agents": list(AGENTS)}, 2 * episodes, f"RiverSwim, planning {way}")
        )
        for radii in ("schedule", "constant"):
            arguments = {**shared, "radii": radii, "costs": list(COSTS)}
            label = f"lane driving, {radii}, planning {way}"
            result.append(Part("runs.lane:planning_run", arguments, 2 * episodes * lane.effort(radii), label))
    return result


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [{"kind": kind, **row} for _, outcome in outcomes for kind in ("curve", "work") for row in outcome[kind]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(3, rows=2, width=style.WIDTH, height=4.6, height_ratios=[3, 2])
    for j, ((world, radii), title) in enumerate(PANELS.items()):
        here = select(rows, world=world, radii=radii)
        draw_regret(panels[0, j], select(here, kind="curve"), title)
        draw_work(panels[1, j], select(here, kind="work"))
    panels[0, 0].set_ylabel("total regret")
    for axes in panels[1]:
        axes.set_xlabel("next states looked at\nper episode")
    for axes in panels[1, 1:]:
        axes.set_yticklabels([])
    legend_above(picture, panels[0, 0], title="a new plan")
    note = f"UCRL2-MC; RiverSwim: agents who swim right with probability {AGENTS[0]} and {AGENTS[1]}; lane driving: σ = "
    note += f"{lane.SIGMA:g}, machine known; {style.costs(*COSTS)}. Below, on a logarithmic scale: possible next states that "
    note += "planning read (with those for the optimum and one evaluation), means over repeats. Doubling: when some row has "
    note += "been visited as often since the last plan as before it. Greedy: only the states that are visited are backed up."
    return finish(picture, select(rows, kind="curve"), note, path)


def draw_regret(axes: Any, rows: list[Row], title: str) -> None:
    """Draw the regret over episodes, one line for each way of planning."""
    for way in WAYS:
        draw_line(axes, select(rows, way=way), COLOURS[way], LINES[way], way)
    axes.set_title(title)
    episode_axis(axes, rows)
    axes.set_ylim(0, None)


def draw_work(axes: Any, rows: list[Row]) -> None:
    """Draw the next states that planning looks at per episode, one point with its number for each way."""
    for i, way in enumerate(WAYS):
        touched = np.mean([row["outcomes_per_episode"] for row in select(rows, way=way)])
        axes.plot(touched, i, "o", color=COLOURS[way])
        axes.annotate(
            f"{touched:,.{0 if touched >= 10 else 1}f}",
            (touched, i),
            (0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=style.SMALL,
        )
    axes.set_xscale("log")
    axes.margins(x=0.25)
    axes.set_ylim(len(WAYS) - 0.5, -0.9)
    axes.set_yticks(range(len(WAYS)), WAYS)


FIGURE = Figure(
    "planning",
    "What planning less costs in regret, and what it saves",
    "A new plan for every episode against a new plan now and then, the doubling rule of UCRL2, and greedy planning, which backs "
    "up only the states that it visits. Above: regret. Below: the work of planning.",
    parts,
    table,
    draw,
)
