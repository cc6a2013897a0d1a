"""Figure `guarantee`: what Theorem 2 promises beside what is measured, in RiverSwim with the printed radii."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from cede.experiments import style
from cede.experiments.drawing import draw_line, finish, legend_above
from cede.experiments.figure import Figure, Options, Outcome, Part, Row
from cede.experiments.runs import river
from cede.experiments.statistics import over_repeats
from cede.experiments.tables import select

AGENTS = (0.3, 0.7)
EPISODES, QUICK_EPISODES = 20_000, 400
REPEATS, QUICK_REPEATS = 5, 2
RUNS, QUICK_RUNS, RUN_EPISODES = 60, 5, 60  # short runs in which the confidence sets are checked before every episode
LEARNERS = (*river.LEARNERS, "p=0.3", "p=0.7")
NAMES = {"p=0.3": "agent p = 0.3 alone", "p=0.7": "agent p = 0.7 alone"}


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    seeds = options.seeds(REPEATS, QUICK_REPEATS)
    result = [river.team_part(name, AGENTS, episodes, seed) for name, seed in product(LEARNERS, seeds)]
    runs = QUICK_RUNS if options.quick else RUNS
    looks = {"agents": list(AGENTS), "runs": runs, "episodes": RUN_EPISODES, "seed": options.seed}
    result.append(Part("runs.river:coverage", looks, runs * RUN_EPISODES, "guarantee, coverage"))
    return result


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    curves = [{"kind": "curve", **row} for _, outcome in outcomes for row in outcome.get("curve", [])]
    return curves + [{"kind": "coverage", **row} for _, outcome in outcomes for row in outcome.get("coverage", [])]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, axes = style.figure(1, width=5.2, height=3.6)
    curves = select(rows, kind="curve")
    for name in LEARNERS:
        colour, line = style.COLOURS.get(name, "#999999"), style.LINES.get(name, ":" if name == "p=0.3" else "-.")
        draw_line(axes, select(curves, learner=name), colour, line, NAMES.get(name, name))
    x, bound, _ = over_repeats(select(curves, learner="UCRL2-MC"), y="bound")
    axes.plot(x, bound, color="black", linewidth=1.0, label="bound of Theorem 2 for UCRL2-MC")
    steps = x * 20
    axes.plot(x, steps, color="black", linewidth=0.8, linestyle=":", label="worst possible, $T$")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("episode $k$")
    axes.set_ylabel("total regret")
    legend_above(picture, axes, columns=3, fontsize=7)
    axes.set_ylim(1, None)
    looked = select(rows, kind="coverage")[0]
    note = "RiverSwim, agents 0.3 and 0.7, radii as printed. The truth left UCRL2-MC's sets in "
    note += f"{looked['left']} of {looked['runs']} runs of {looked['run_episodes']} episodes."
    return finish(picture, curves, note, path)


FIGURE = Figure(
    "guarantee",
    "The bound of Theorem 2 beside the regret",
    "The regret stays far below the bound. The bound itself lies above the worst possible regret for every number of episodes "
    "shown: the guarantee is true, and loose.",
    parts,
    table,
    draw,
)
