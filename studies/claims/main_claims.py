"""The paper's main claims, for the first screen of the page of verdicts: one short sentence, one word, one number each.

Every cell but the sentence is taken from a row of claims.csv: nothing is computed here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from studies.claims.finding import FAILS, HOLDS, OPEN, TRIVIAL
from studies.figure import Row

NUMBER = r"([+-]?\d[\d.,e-]*\d|\d)(?: of \d+)?"
INTERVALS = re.compile(r"-?[\d.e-]+ to -?[\d.e-]+|± [\d.e-]+")  # in the uncertainty of a finding
WORDS = {HOLDS: "holds", TRIVIAL: "holds trivially", FAILS: "fails", OPEN: "undecided"}
MIXED = "partly"  # the verdict differs between cases


@dataclass(frozen=True)
class MainClaim:
    """A claim of the paper on the first screen, and where its number stands in its row of claims.csv."""

    sentence: str  # the claim in short
    claim: str  # of the row in claims.csv, word for word
    number: str  # what the number is; after it stand number and interval
    after: str = ""  # a pattern of what stands before the number in `measured`; empty: it comes first
    interval: int | None = 0  # which of the intervals in `uncertainty` is the number's; None: the whole text is shown
    case: str = ""  # for which case the number is, where there are several
    of_interval: str = ""  # what the interval is of, where it is not the number's own


COMPARABLE = "With one team UCRL2-MC and UCRL2 have comparable regret (within a factor 2), authors' schedule"
WELL_BELOW = "With 10 teams UCRL2-MC is well below UCRL2 in the obstacle task (ratio < 0.8), authors' schedule"
SHARED = "100 teams greatly benefit from sharing (they lose less than half), printed radii"
TEAMS = "The ratio falls with the number of teams, from 3 to 10"
NEWCOMER = "A new team loses less with the fleet's counts of the environment"
SCHEDULE = "authors' schedule, with costs"
SAME_FORM = "same-form radii"
MAIN = (
    MainClaim(
        "The regret of UCRL2-MC is sublinear in RiverSwim.",
        "UCRL2-MC has sublinear regret in RiverSwim with the printed radii",
        "exponent",
    ),
    MainClaim(
        "The bound of Theorem 2 is never violated.",
        "The bound of Theorem 2 is never violated",
        "regret / bound",
        interval=None,
    ),
    MainClaim(
        "The regret of UCRL2-MC is sublinear in the obstacle task.",
        "UCRL2-MC has sublinear regret in the obstacle task",
        "exponent",
        after="schedule ",
        interval=2,
        case=SCHEDULE,
    ),
    MainClaim(
        "UCRL2-MC loses less than each driver alone.",
        "UCRL2-MC loses less than each driver alone",
        "ratio of regrets",
        after="schedule ",
        interval=2,
        case=SCHEDULE,
    ),
    MainClaim(
        "With one team, UCRL2-MC and UCRL2 have comparable regret in the obstacle task.",
        COMPARABLE,
        "ratio of regrets",
        after="same-form ",
        case=f"{SAME_FORM}, {SCHEDULE}",
    ),
    MainClaim(
        "With 10 teams, UCRL2-MC is well below UCRL2 in the obstacle task.",
        WELL_BELOW,
        "ratio of regrets",
        after="same-form ",
        case=f"{SAME_FORM}, {SCHEDULE}",
    ),
    MainClaim(
        "The advantage over UCRL2 grows with the number of teams (RiverSwim, 3 to 10).",
        TEAMS,
        "change of the ratio per team",
        after="same-form ",
        interval=1,
        case=SAME_FORM,
    ),
    MainClaim(
        "100 teams that share lose less than half of what they lose separately (RiverSwim).",
        SHARED,
        "ratio of regrets",
        after="20,000 episodes: ",
        interval=4,
        case="printed radii, after 20,000 episodes",
    ),
    MainClaim(
        "The human drives more in heavier traffic.",
        "More human control in heavier traffic",
        "human share in heavy traffic",
        after=r"schedule \S+ / \S+ / ",
        interval=5,
        case=SCHEDULE,
        of_interval="increase from light traffic",
    ),
    MainClaim(
        "The advantage over UCRL2 shrinks as actions are added.",
        "The ratio grows with the action space",
        "change of the ratio per doubling",
        after="same-form ",
        case=SAME_FORM,
    ),
    MainClaim(
        "With many agents in the team, UCRL2-MC loses less than UCRL2.",
        "UCRL2-MC outperforms UCRL2 with many agents",
        "ratio of regrets",
        after="same-form ",
        case=f"{SAME_FORM}, 10 agents",
    ),
    MainClaim(
        "A new team loses less with the fleet's counts of the environment.",
        NEWCOMER,
        "ratio of regrets",
        after="agents 0.1 and 0.9: ",
        case="RiverSwim, agents 0.1 and 0.9",
    ),
)


def main_rows(rows: Sequence[Row]) -> list[tuple[str, str, str, str]]:
    """Return sentence, verdict, number with its interval, and name of the figure of the main claims whose rows are there.

    rows: of claims.csv, as text.
    """
    by_claim = {row["claim"]: row for row in rows}
    present = [(one, by_claim[one.claim]) for one in MAIN if one.claim in by_claim]
    return [(one.sentence, WORDS.get(row["verdict"], MIXED), number_text(one, row), row["figure"]) for one, row in present]


def number_text(one: MainClaim, row: Row) -> str:
    """Return the number of a main claim with its interval, as stored in its row."""
    measured = re.search(one.after + NUMBER, row["measured"])
    if measured is None:
        raise ValueError(f"main_claims: measured is {row['measured']!r}, must hold a number after {one.after!r}")
    interval = row["uncertainty"] if one.interval is None else INTERVALS.findall(row["uncertainty"])[one.interval]
    about = f"{one.of_interval}: {interval}" if one.of_interval else interval
    number = f"{one.number} {measured[1]}"
    shown = f"{number} {about}" if about.startswith("±") else f"{number} ({about})"
    return f"{shown}; {one.case}" if one.case else shown
