"""Figure `planning`: what planning less costs in regret, and what it saves."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from cede.experiments import style
from cede.experiments.drawing import draw_line, finish
from cede.experiments.figure import Figure, Options, Outcome, Part, Row
from cede.experiments.runs import lane
from cede.experiments.runs.planning_ways import WAYS
from cede.experiments.tables import select

EPISODES, QUICK_EPISODES = 20_000, 120
REPEATS, QUICK_REPEATS = 3, 1
AGENTS = (0.3, 0.7)  # RiverSwim
COSTS = (0.2, 0.1)  # lane driving
PANELS = {
    ("RiverSwim", "printed"): "RiverSwim\nradii as printed",
    ("lane driving", "schedule"): "lane driving\nauthors' schedule",
    ("lane driving", "constant"): "lane driving\nconstant scales 0.1, 0.01",
}
COLOURS = {"every episode": "#D55E00", "every 10 episodes": "#0072B2", "doubling": "#009E73", "greedy": "#CC79A7"}
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
    picture, panels = style.figure(3, rows=2, width=7.6, height=5.0, height_ratios=[3, 2])
    for j, ((world, radii), title) in enumerate(PANELS.items()):
        here = select(rows, world=world, radii=radii)
        draw_regret(panels[0, j], select(here, kind="curve"), title)
        draw_work(panels[1, j], select(here, kind="work"))
    panels[0, 0].set_ylabel("total regret")
    panels[1, 0].set_ylabel("outcomes touched\nper episode")
    handles, names = panels[0, 0].get_legend_handles_labels()
    picture.legend(handles, [f"plan: {name}" for name in names], loc="outside upper center", ncols=len(names), fontsize=8)
    note = f"UCRL2-MC; lane driving with σ = {lane.SIGMA:g}, c_c(H) = {COSTS[0]}, c_x = {COSTS[1]}, machine known. Below: outcomes "
    note += "gathered in planning (with the optimum and one evaluation), mean over repeats; how many times fewer; log scale."
    return finish(picture, select(rows, kind="curve"), note, path)


def draw_regret(axes: Any, rows: list[Row], title: str) -> None:
    """Draw the regret over episodes, one line for each way of planning."""
    for way in WAYS:
        draw_line(axes, select(rows, way=way), COLOURS[way], LINES[way], way)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("episode $k$")
    axes.set_ylim(0, None)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useMathText=True)


def draw_work(axes: Any, rows: list[Row]) -> None:
    """Draw the outcomes that planning touches per episode, one bar for each way; over a bar, how many times fewer they are."""
    touched = [np.mean([row["outcomes_per_episode"] for row in select(rows, way=way)]) for way in WAYS]
    axes.bar(range(len(WAYS)), touched, color=[COLOURS[way] for way in WAYS], width=0.7)
    for i, value in enumerate(touched):
        axes.text(i, value, f"{touched[0] / value:.0f}×" if i else f"{value:,.0f}", ha="center", va="bottom", fontsize=7)
    axes.set_yscale("log")
    axes.set_axisbelow(True)
    axes.set_ylim(min(touched) / 3, max(touched) * 4)
    axes.set_xticks(range(len(WAYS)), [way.replace(" episode", "\nepisode") for way in WAYS], fontsize=7)
    axes.grid(axis="x", visible=False)


FIGURE = Figure(
    "planning",
    "What planning less costs in regret, and what it saves",
    "A new plan for every episode against a new plan every ten episodes, the doubling rule of UCRL2, and greedy planning, which "
    "backs up only the states that it visits. Above: regret. Below: the work of planning, and how many times less it is.",
    parts,
    table,
    draw,
)
