"""Figure `people-change`: a human whose driving changes halfway, and learners that forget or do not."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from studies import style
from studies.arrays import Floats
from studies.drawing import draw_band, episode_axis, finish, legend_above
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.runs.people_change import FORGETTING
from studies.statistics import half_width
from studies.tables import select, values

EPISODES, QUICK_EPISODES = 6000, 100
REPEATS, QUICK_REPEATS = 5, 2
CHANGES = ((4.0, 0.3), (0.3, 4.0))  # sigma before and after: learns to drive, gets tired
TITLES = {4.0: "the human learns to drive", 0.3: "the human gets tired"}
COLOURS = dict(zip(FORGETTING, ("#777777", style.RED, style.BLUE), strict=True))
LINES = dict(zip(FORGETTING, ("-", "-", (0, (5, 1))), strict=True))
SMOOTH = 5  # rows of the table between two points of a curve


def parts(options: Options) -> list[Part]:
    episodes, result = options.choose("episodes", EPISODES, QUICK_EPISODES), []
    for sigmas, name in product(CHANGES, FORGETTING):
        for seed in options.seeds(REPEATS, QUICK_REPEATS):
            arguments = {"forgetting": name, "sigmas": list(sigmas), "episodes": episodes, "seed": seed}
            label = f"σ {sigmas[0]:g} to {sigmas[1]:g}, {name}"
            result.append(Part("runs.people_change:human_changes", arguments, episodes, label))
    return result


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    """Make a table of all curves, with the regret per episode since the row before in the column "rate"."""
    rows = []
    for _, outcome in outcomes:
        before: Row = {"episode": 0, "regret": 0.0}
        for row in outcome["curve"]:
            rows.append({**row, "rate": (row["regret"] - before["regret"]) / (row["episode"] - before["episode"])})
            before = row
    return rows


def rates(rows: Sequence[Row]) -> tuple[Floats, Floats, Floats]:
    """Return the regret per episode between points of the curves that lie SMOOTH rows apart: middles, means and half widths."""
    runs = [[{"episode": 0, "regret": 0.0}, *select(rows, seed=seed)] for seed in values(rows, "seed")]
    ends = [*range(0, len(runs[0]) - 1, SMOOTH), len(runs[0]) - 1]
    episodes = np.array([runs[0][i]["episode"] for i in ends], dtype=float)
    regret = np.array([[run[i]["regret"] for run in runs] for i in ends])  # (points, seeds)
    found = np.diff(regret, axis=0) / np.diff(episodes)[:, None]
    return (episodes[1:] + episodes[:-1]) / 2, found.mean(axis=1), half_width(found)


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(CHANGES), width=style.WIDTH, height=3.0, sharey=True)
    lowest = []
    for axes, (before, after) in zip(panels, CHANGES, strict=True):
        for name in FORGETTING:
            x, mean, half = rates(select(rows, before=before, forgetting=name))
            draw_band(axes, x, mean, half, COLOURS[name], linestyle=LINES[name], linewidth=1.5, label=name, shade=0.15)
            lowest += [value for value in mean if value > 0]
        axes.axvline(rows[0]["episodes"] / 2, color="black", linewidth=0.8, linestyle=":")
        axes.set_title(f"{TITLES[before]}: σ from {before:g} to {after:g}")
        episode_axis(axes, rows)
        axes.set_yscale("log")
    panels[0].set_ylim(0.7 * min(lowest), None)
    panels[0].set_ylabel("regret per episode")
    legend_above(picture, panels[0])
    note = (
        "Lane driving, control and hand-overs are free, machine known; posterior sampling, structured. Regret: cost above the best "
    )
    note += "policy's for the human at that time. Dotted: the human changes; the learner does not know. A shade that "
    note += "reaches the "
    return finish(picture, rows, f"{note}lower edge reaches zero.", path)


FIGURE = Figure(
    "people-change",
    "A human who changes, and learners that forget or do not",
    "Without forgetting, old data dominate. The learner hardly ever chooses a human who drove badly, so it notices late that "
    "the human has improved. Forgetting costs a little all the time, and pays when people change.",
    parts,
    table,
    draw,
)
