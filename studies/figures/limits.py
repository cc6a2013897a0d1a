"""Figure `limits`: a learner that may hand control to the human only so often, in the obstacle task."""

from itertools import product
from pathlib import Path

from studies import style
from studies.drawing import draw_band, episode_axis, finish, legend_above
from studies.figure import Figure, Options, Part, Row
from studies.runs.limits_and_baseline import METHODS
from studies.statistics import over_repeats
from studies.tables import all_rows, select, values

EPISODES, QUICK_EPISODES = 5000, 100
REPEATS, QUICK_REPEATS = 3, 1
COSTS = (0.2, 0.1)
LIMITS = (("at_most", 0.02), ("at_most", 0.05), ("at_least", 0.3))
WORDS = {"at_most": "at most", "at_least": "at least"}


def parts(options: Options) -> list[Part]:
    episodes, result = options.choose("episodes", EPISODES, QUICK_EPISODES), []
    for name, (side, share) in product(METHODS, LIMITS):
        for seed in options.seeds(REPEATS, QUICK_REPEATS):
            arguments = {"learner": name, "side": side, "share": share, "episodes": episodes, "seed": seed, "costs": list(COSTS)}
            result.append(Part("runs.limits_and_baseline:limited_run", arguments, episodes, f"{name}, {WORDS[side]} {share:.0%}"))
    return result


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(LIMITS), rows=2, width=style.WIDTH, height=4.4, sharex=True)
    for column, (side, limit) in enumerate(LIMITS):
        upper, lower = panels[:, column]
        here = select(rows, side=side, limit=limit)
        for axes, name, exact in ((upper, "share_so_far", limit), (lower, "cost", here[0]["best_cost"])):
            highest = 1.5 * exact
            for learner in values(here, "learner"):
                short = learner.split(",")[0]
                x, mean, half = over_repeats(select(here, learner=learner), y=name)
                draw_band(axes, x, mean, half, style.COLOURS[short], linestyle=style.LINES[short], linewidth=1.3, label=learner)
                highest = max(highest, 1.1 * mean.max())
            axes.axhline(exact, color="black", linewidth=1.0, label="the limit; the least cost within it")
            axes.set_ylim(0, highest)
        upper.set_title(f"human control: {WORDS[side]} {limit:.0%}")
        upper.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        episode_axis(lower, rows)
    panels[0, 0].set_ylabel("share of human\ncontrol so far")
    panels[1, 0].set_ylabel("expected cost\nof an episode")
    legend_above(picture, panels[1, 0])
    note = f"Lane driving, σ = 2, machine known; {style.costs(*COSTS)}. Radii of UCRL2-MC as printed. The least cost within a "
    note += "limit is that of the best mixture of policies (exact); a learner above the limit may cost less."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "limits",
    "Learners with limits of human control",
    "The learner adjusts the price of control after every episode. Above: does the share of human control converge to its limit? "
    "Below: does the cost converge to the best possible within the limit?",
    parts,
    all_rows,
    draw,
)
