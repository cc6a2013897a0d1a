"""Figure `team-size`: UCRL2-MC's regret relative to UCRL2's as the team grows."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from cede.experiments.core import Figure, Options, Outcome, Part, Row
from cede.experiments.curves import draw_ratios
from cede.experiments.runs import river

SIZES, QUICK_SIZES = tuple(range(3, 11)), (3, 6, 10)
EPISODES, QUICK_EPISODES = 20_000, 300
REPEATS, QUICK_REPEATS = 5, 2


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    runs = product(QUICK_SIZES if options.quick else SIZES, river.LEARNERS, options.seeds(REPEATS, QUICK_REPEATS))
    return [river.team_part(name, [i / (n - 1) for i in range(n)], episodes, seed) for n, name, seed in runs]


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [row for _, outcome in outcomes for row in outcome["curve"] if row["episode"] == row["episodes"]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    note = "RiverSwim, printed radii, one team of n agents that swim right with probability i / (n - 1)."
    return draw_ratios(rows, "agents", "number of agents $n$", path, note)


FIGURE = Figure(
    "team-size",
    "Ratio of UCRL2-MC's regret to UCRL2's for 3 to 10 agents",
    "Every new agent costs UCRL2 a table of its own for the environment; UCRL2-MC has to learn only what the agent does.",
    parts,
    table,
    draw,
)
