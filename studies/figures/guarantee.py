"""Figure `guarantee`: what Theorem 2 promises beside what is measured, in RiverSwim with the printed radii."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from studies import style
from studies.drawing import draw_line, finish, legend_above
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.runs import river
from studies.statistics import over_repeats
from studies.tables import select

AGENTS = (0.3, 0.7)
EPISODES, QUICK_EPISODES = 20_000, 400
REPEATS, QUICK_REPEATS = 5, 2
RUNS, QUICK_RUNS, RUN_EPISODES = 60, 5, 60  # short runs in which the confidence sets are checked before every episode
LEARNERS = (*river.LEARNERS, "p=0.3", "p=0.7")
HORIZON = 20  # steps of an episode of RiverSwim


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
    picture, axes = style.figure(1, width=4.8, height=3.4)
    curves = select(rows, kind="curve")
    for name in LEARNERS:
        colour, line = style.COLOURS.get(name, "#888888"), style.LINES.get(name, ":" if name == "p=0.3" else (0, (4, 2, 1, 2)))
        draw_line(axes, select(curves, learner=name), colour, line, style.label(name))
    x, bound, _ = over_repeats(select(curves, learner="UCRL2-MC"), y="bound")
    axes.plot(x, bound, color="black", linewidth=1.2, label="bound of Theorem 2 for UCRL2-MC")
    axes.plot(x, x * HORIZON, color="black", linewidth=0.8, linestyle=":", label="all steps cost 1, the best policy 0")
    axes.set(xscale="log", yscale="log", xlabel="episode", ylabel="total regret")
    axes.set_xlim(x[0], x[-1])
    legend_above(picture, axes, columns=2)
    looked = select(rows, kind="coverage")[0]
    note = (
        f"RiverSwim, {HORIZON} steps an episode, two agents, who swim right with probability {AGENTS[0]} and {AGENTS[1]}. Radii as "
    )
    note += f"printed. The truth left UCRL2-MC's confidence sets in {looked['left']} of {looked['runs']} runs of "
    return finish(picture, curves, f"{note}{looked['run_episodes']} episodes.", path)


FIGURE = Figure(
    "guarantee",
    "The bound of Theorem 2 beside the regret",
    "The bound of the theorem, the measured regret, and the largest possible regret (dotted): a bound above the dotted line "
    "is trivially true.",
    parts,
    table,
    draw,
)
