"""Figure `people-change`: a human whose driving changes halfway, and learners that forget or do not."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from cede.experiments import style
from cede.experiments.core import Figure, Options, Outcome, Part, Row
from cede.experiments.curves import finish, over_repeats, select
from cede.experiments.runs import contest

EPISODES, QUICK_EPISODES = 6000, 100
REPEATS, QUICK_REPEATS = 5, 2
CHANGES = ((4.0, 0.3), (0.3, 4.0))  # sigma before and after: learns to drive, gets tired
TITLES = {4.0: "the human learns to drive: σ from 4 to 0.3", 0.3: "the human gets tired: σ from 0.3 to 4"}
COLOURS = dict(zip(contest.FORGETTING, ("#999999", "#D55E00", "#0072B2"), strict=True))
LINES = dict(zip(contest.FORGETTING, ("-", "-", (0, (5, 1))), strict=True))
SMOOTH = 4  # points of a curve that are averaged


def parts(options: Options) -> list[Part]:
    episodes, result = options.choose("episodes", EPISODES, QUICK_EPISODES), []
    for sigmas, name in product(CHANGES, contest.FORGETTING):
        for seed in options.seeds(REPEATS, QUICK_REPEATS):
            arguments = {"forgetting": name, "sigmas": list(sigmas), "episodes": episodes, "seed": seed}
            result.append(Part("runs.contest:human_changes", arguments, episodes, f"σ {sigmas[0]:g} to {sigmas[1]:g}, {name}"))
    return result


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    """With the regret per episode since the point before, which shows what total regret hides."""
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
        for name in contest.FORGETTING:
            x, mean, half = over_repeats(select(rows, before=before, forgetting=name), y="rate")
            kernel = np.ones(min(SMOOTH, len(x))) / min(SMOOTH, len(x))
            smooth = [np.convolve(part, kernel, mode="valid") for part in (x, mean, half)]
            axes.plot(smooth[0], smooth[1], color=COLOURS[name], linestyle=LINES[name], linewidth=1.5, label=name)
            axes.fill_between(smooth[0], smooth[1] - smooth[2], smooth[1] + smooth[2], color=COLOURS[name], alpha=0.2, linewidth=0)
        axes.axvline(rows[0]["episodes"] / 2, color="black", linewidth=0.8, linestyle=":")
        axes.set_title(TITLES[before], fontsize=9)
        axes.set_xlim(0, rows[0]["episodes"])
        axes.set_xlabel("episode $k$")
        axes.set_yscale("log")
        axes.set_ylim(1e-3, None)
    panels[0].set_ylabel("regret per episode")
    panels[0].legend(fontsize=8, loc="upper right")
    note = "Lane driving, no costs, machine known, posterior sampling with structure. Regret is to the best policy for the human "
    note += "as they drive at the time. The learner is not told of the change."
    finish(picture, rows, note)
    return style.save(picture, path)


FIGURE = Figure(
    "people-change",
    "A human who changes, and learners that forget or do not",
    "Who never forgets keeps judging people by how they drove before. Who has learned to drive is not asked any more, and "
    "nobody finds out. Forgetting costs a little all the time, and pays when people change.",
    parts,
    table,
    draw,
)
