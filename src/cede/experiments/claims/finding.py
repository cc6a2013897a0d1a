"""What a claim came to: the claim, what was measured, how sure that is, by which rule it was decided, and the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HOLDS, FAILS, SCALED, OPEN = "holds", "does not hold", "holds with scaled radii only", "undecided"
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
    """Return the radius of a UCRL2 from its name: "UCRL2 (appendix)" gives "appendix"."""
    return baseline.split("(")[1].rstrip(")")


def by_radii(verdicts: Mapping[str, str]) -> str:
    """Join the verdicts on each kind of radii. The printed ones decide; if it does not hold with them, it may with scaled ones."""
    printed, scaled = verdicts["printed"], [word for radii, word in verdicts.items() if radii != "printed"]
    if printed != FAILS:
        return printed
    return SCALED if HOLDS in scaled else OPEN if OPEN in scaled else FAILS
