"""Figure `people-change`: a human whose driving changes halfway, and learners that forget or do not."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from cede.experiments import style
from cede.experiments.drawing import draw_band, episode_axis, finish
from cede.experiments.figure import Figure, Options, Outcome, Part, Row
from cede.experiments.runs.people_change import FORGETTING
from cede.experiments.statistics import over_repeats
from cede.experiments.tables import select

EPISODES, QUICK_EPISODES = 6000, 100
REPEATS, QUICK_REPEATS = 5, 2
CHANGES = ((4.0, 0.3), (0.3, 4.0))  # sigma before and after: learns to drive, gets tired
TITLES = {4.0: "the human learns to drive: σ from 4 to 0.3", 0.3: "the human gets tired: σ from 0.3 to 4"}
COLOURS = dict(zip(FORGETTING, ("#999999", "#D55E00", "#0072B2"), strict=True))
LINES = dict(zip(FORGETTING, ("-", "-", (0, (5, 1))), strict=True))
SMOOTH = 4  # points of a curve that are averaged


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


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(CHANGES), width=7.6, height=3.3, sharey=True)
    for axes, (before, _) in zip(panels, CHANGES, strict=True):
        for name in FORGETTING:
            x, mean, half = over_repeats(select(rows, before=before, forgetting=name), y="rate")
            kernel = np.ones(min(SMOOTH, len(x))) / min(SMOOTH, len(x))
            x, mean, half = (np.convolve(column, kernel, mode="valid") for column in (x, mean, half))
            draw_band(axes, x, mean, half, COLOURS[name], linestyle=LINES[name], linewidth=1.5, label=name)
        axes.axvline(rows[0]["episodes"] / 2, color="black", linewidth=0.8, linestyle=":")
        axes.set_title(TITLES[before], fontsize=9)
        episode_axis(axes, rows)
        axes.set_yscale("log")
        axes.set_ylim(1e-3, None)
    panels[0].set_ylabel("regret per episode")
    panels[0].legend(fontsize=8, loc="upper right")
    note = "Lane driving, no costs, machine known, posterior sampling with structure. Regret is to the best policy for the human "
    note += "as they drive at the time. The learner is not told of the change."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "people-change",
    "A human who changes, and learners that forget or do not",
    "Who never forgets keeps judging people by how they drove before. Who has learned to drive is not asked any more, and "
    "nobody finds out. Forgetting costs a little all the time, and pays when people change.",
    parts,
    table,
    draw,
)
