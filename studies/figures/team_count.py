"""Figure `team-count`: UCRL2-MC's regret relative to UCRL2's, and to its own without sharing, as the number of teams grows.

Nested fleets (runs/sharing.py): the teams of a small fleet are the first ones of every larger one. The paper has five repeats. They
do not decide whether the ratio falls, because it depends more on which teams are added than on how many there are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.drawing import draw_ratios
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.figures import sharing as nested
from studies.figures.ratio_figure import EPISODES, QUICK_EPISODES, QUICK_SIZES, SIZES
from studies.runs import sharing

REPEATS, QUICK_REPEATS = 20, 2


def parts(options: Options) -> list[Part]:
    episodes, sizes = options.choose("episodes", EPISODES, QUICK_EPISODES), QUICK_SIZES if options.quick else SIZES
    result = []
    for seed in options.seeds(REPEATS, QUICK_REPEATS):
        runs = [(sharing.OURS, n) for n in sizes] + [(name, sizes[-1]) for name in nested.BASELINES]
        result += [sharing.part(name, sharing.PRINTED, n, [episodes], seed) for name, n in runs]
    return result


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    """Add up the regret of teams, as in the figure `sharing`; every row is the end of its run.

    The column "first" has the regret of the teams of the smallest fleet, who are in all of them.
    """
    every = [row for _, outcome in outcomes for row in outcome["team"]]
    few = min(row["teams"] for row in every)
    first: dict[tuple[Any, ...], float] = {}
    for row in every:
        key = (row["learner"], row["teams"], row["seed"])
        first[key] = first.get(key, 0.0) + (row["regret"] if row["team"] < few else 0.0)
    most = max(row["teams"] for row in every)
    result = []
    for row in nested.table(outcomes):
        ran = row["teams"] if row["learner"] == sharing.OURS else most  # who does not share has one run for all sizes
        result.append({**row, "episode": row["episodes"], "first": first[row["learner"], ran, row["seed"]]})
    return result


def draw(rows: list[Row], path: Path) -> list[Path]:
    note = (
        "RiverSwim; each team has two agents, who swim right with probability p and 1 - p, where p is drawn for each team, uniform "
        "in (0, 1). Fleets are nested. Radii as printed; teams that share exchange their counts after every episode."
    )
    return draw_ratios(rows, "teams", "number of teams", path, note, baselines=nested.BASELINES)


FIGURE = Figure(
    "team-count",
    "Ratio of UCRL2-MC's regret to UCRL2's as teams are added",
    "Teams that use UCRL2-MC share their counts of the environment. Does its advantage over UCRL2, and over the same teams "
    "without sharing, grow as teams are added?",
    parts,
    table,
    draw,
)
