"""What a claim came to: the claim, what was measured, how sure that is, by which rule it was decided, and the verdict."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from studies.claims.rules import WITHIN_BOUND

HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"
TRIVIAL = "holds trivially"  # no run could have refuted it
PAPER, OURS = "paper", "ours"  # whose claim it is
LATER = "statistic chosen after a first look"  # stands beside the rule where another statistic was computed and seen before
BASELINES = ("UCRL2 (same-form)", "UCRL2 (appendix)")


@dataclass(frozen=True)
class Finding:
    """A claim, what we measured, and the verdict. All text, ready to be shown."""

    claim: str
    figure: str  # whose table was used
    statistic: str  # what was computed from it
    measured: str
    uncertainty: str
    verdict: str
    rule: str  # by which it was decided: its name in `rules.RULES`, and LATER where that is so
    whose: str = PAPER


def of_bound(worst: float, least: float) -> str:
    """Say whether a bound holds. worst: the largest regret / bound; least: the least bound / what could be lost, above which no
    run could have broken it.
    """
    return FAILS if worst >= WITHIN_BOUND.limit else TRIVIAL if least > WITHIN_BOUND.limit else HOLDS


def all_of(verdicts: Sequence[str]) -> str:
    """Join verdicts on parts of a claim that must all hold: one that does not hold decides, else one that is undecided."""
    return FAILS if FAILS in verdicts else OPEN if OPEN in verdicts else HOLDS


def joined(verdicts: Mapping[str, str]) -> str:
    """Join verdicts on different cases: one word if they agree, else one for each case. verdicts: by what the case is called."""
    different = set(verdicts.values())
    return different.pop() if len(different) == 1 else "; ".join(f"{name}: {word}" for name, word in verdicts.items())


def both(verdicts: Mapping[str, str]) -> str:
    """Join the verdicts on both radii of UCRL2: one word if they agree, else one for each radius. verdicts: by name of learner."""
    return joined({short(name): word for name, word in verdicts.items()})


def short(baseline: str) -> str:
    """Return what tells a baseline from others of its kind: of "UCRL2 (appendix)" the radius, of "UCRL2-MC, not shared" the end."""
    return re.split(r"\(|, ", baseline)[1].rstrip(")")
