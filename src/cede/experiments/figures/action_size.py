"""Figure `action-size`: UCRL2-MC's regret relative to UCRL2's as the action space grows."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from cede.experiments.core import Figure, Options, Outcome, Part, Row
from cede.experiments.curves import draw_ratios
from cede.experiments.runs import river

MACRO = (1, 2, 3, 4)  # steps per decision: 2, 4, 8, 16 actions
AGENTS = (0.0, 1.0)
EPISODES, QUICK_EPISODES = 20_000, 400
REPEATS, QUICK_REPEATS = 5, 2


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    runs = product(MACRO, river.LEARNERS, options.seeds(REPEATS, QUICK_REPEATS))
    return [river.team_part(name, AGENTS, episodes, seed, macro=macro) for macro, name, seed in runs]


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [row for _, outcome in outcomes for row in outcome["curve"] if row["episode"] == row["episodes"]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    note = "RiverSwim in macro steps of m = 1 to 4 steps (20 macro steps an episode), printed radii, agents p = 0 and 1. "
    note += "A macro step can cost up to 4, which lies outside Theorem 2."
    return draw_ratios(rows, "actions", "number of actions", path, note, ticks=[2**m for m in MACRO])


FIGURE = Figure(
    "action-size",
    "Ratio of UCRL2-MC's regret to UCRL2's for 2, 4, 8 and 16 actions",
    "UCRL2-MC learns a table for every action, so its advantage shrinks as actions are added, but it stays in scale.",
    parts,
    table,
    draw,
)
