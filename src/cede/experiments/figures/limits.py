"""Figure `limits`: a learner that may hand control to the human only so often, in the obstacle task."""

from itertools import product
from pathlib import Path

from cede.experiments import style
from cede.experiments.drawing import draw_band, episode_axis, finish, legend_above
from cede.experiments.figure import Figure, Options, Part, Row
from cede.experiments.runs.limits_and_baseline import METHODS
from cede.experiments.statistics import over_repeats
from cede.experiments.tables import all_rows, select, values

EPISODES, QUICK_EPISODES = 5000, 100
REPEATS, QUICK_REPEATS = 3, 1
COSTS = (0.2, 0.1)
LIMITS = (("at_most", 0.02), ("at_most", 0.05), ("at_least", 0.3))
COLOURS = dict(zip(LIMITS, ("#0072B2", "#D55E00", "#009E73"), strict=True))
LINES = dict(zip(METHODS, ("-", (0, (4, 1.5))), strict=True))
WORDS = {"at_most": "at most", "at_least": "at least"}


def parts(options: Options) -> list[Part]:
    episodes, result = options.choose("episodes", EPISODES, QUICK_EPISODES), []
    for name, (side, share) in product(METHODS, LIMITS):
        for seed in options.seeds(REPEATS, QUICK_REPEATS):
            arguments = {"learner": name, "side": side, "share": share, "episodes": episodes, "seed": seed, "costs": list(COSTS)}
            result.append(Part("runs.limits_and_baseline:limited_run", arguments, episodes, f"{name}, {WORDS[side]} {share:.0%}"))
    return result


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(2, width=7.6, height=3.4)
    for (side, limit), colour in COLOURS.items():
        here = select(rows, side=side, limit=limit)
        panels[0].axhline(limit, color=colour, linewidth=0.7)
        panels[1].axhline(here[0]["best_cost"], color=colour, linewidth=0.7)
        for name in values(here, "learner"):
            for axes, column in zip(panels, ("share_so_far", "cost"), strict=True):
                x, mean, half = over_repeats(select(here, learner=name), y=column)
                label = f"{WORDS[side]} {limit:.0%}, {name.split(',')[0]}"
                draw_band(axes, x, mean, half, colour, shade=0.15, linestyle=LINES[name], linewidth=1.3, label=label)
    panels[0].set_ylabel("share of human control so far")
    panels[0].set_ylim(0, 0.45)
    panels[1].set_ylabel("expected cost of an episode")
    for axes in panels:
        episode_axis(axes, rows)
        axes.locator_params(axis="x", nbins=5)
    legend_above(picture, panels[1], columns=3, fontsize=7)
    note = f"Lane driving, σ = 2, human control costs {COSTS[0]}, a hand-over {COSTS[1]}, machine known, "
    note += "structure declared. Thin lines: the limits, and what the best mixture of policies within "
    note += "them costs (exact). Without limits the best share is 10%."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "limits",
    "Learners with limits of human control",
    "What control costs is adjusted after every episode. The share of human control comes to its limit, and the cost to that of "
    "the best that can be done within it.",
    parts,
    all_rows,
    draw,
)
