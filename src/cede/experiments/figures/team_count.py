"""Figure `team-count`: UCRL2-MC's regret relative to UCRL2's as the number of teams grows."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from cede.experiments.core import Figure, Options, Outcome, Part, Row
from cede.experiments.curves import draw_ratios
from cede.experiments.runs import river

TEAMS, QUICK_TEAMS = tuple(range(3, 11)), (3, 6, 10)
EPISODES, QUICK_EPISODES = 20_000, 300
REPEATS, QUICK_REPEATS = 5, 2


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    runs = product(QUICK_TEAMS if options.quick else TEAMS, river.LEARNERS, options.seeds(REPEATS, QUICK_REPEATS))
    return [river.fleet_part(name, teams, episodes, seed) for teams, name, seed in runs]


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    """The end of every curve, and the point half-way: the run with a hundred teams is half as long."""
    rows = []
    for _, outcome in outcomes:
        curve = outcome["curve"]
        middle = min(curve, key=lambda row: abs(row["episode"] - row["episodes"] / 2))
        rows += [middle, curve[-1]] if len(curve) > 1 else curve
    return rows


def draw(rows: list[Row], path: Path) -> list[Path]:
    note = "RiverSwim, printed radii, agents p and 1 - p with p uniform per team, synchronous rounds."
    return draw_ratios(rows, "teams", "number of teams $N$", path, note)


FIGURE = Figure(
    "team-count",
    "Ratio of UCRL2-MC's regret to UCRL2's for 3 to 10 teams",
    "The more teams share one environment, the more UCRL2-MC gains on UCRL2.",
    parts,
    table,
    draw,
)
