"""People change: counts that fade, so that what was seen long ago weighs less than what was seen now.

With a half-life of h episodes every count is multiplied with 2^(-1/h) after each episode; with a window of w episodes a step
counts for the w episodes from its own on, and then no more. Radii follow from the sum of what is left. For weights of at most 1
that is never more than the effective number of samples (sum of weights)^2 / (sum of squares), on which Hoeffding's inequality
for weighted means rests: against someone who does not change the radii are as valid as before, and wider. Against one who does
they promise nothing, but what was learned of the old habits is forgotten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Ints
from cede._kernels import Fading

MOST_WINDOW = 10**6  # episodes: their steps are kept


@dataclass(frozen=True)
class HalfLife:
    """Counts fade to one half in so many episodes."""

    episodes: float

    def __post_init__(self) -> None:
        if not check.number("HalfLife", "episodes", self.episodes, least=0.0) > 0:
            check.fail("HalfLife", "episodes", self.episodes, "more than 0")


@dataclass(frozen=True)
class Window:
    """Only the last so many episodes count."""

    episodes: int

    def __post_init__(self) -> None:
        check.integer("Window", "episodes", self.episodes, 1, MOST_WINDOW)


Forget = HalfLife | Window

NO_ROWS = np.empty(0, dtype=np.int64)
NEVER_FADES = Fading(np.empty(0), NO_ROWS, NO_ROWS, np.empty((0, 0), dtype=np.int64))


def checked_forget(owner: str, forget: Any, agents: Sequence[str]) -> dict[str, Forget]:
    """By agent; given as a mapping, or as one rule for all agents."""
    if forget is None:
        return {}
    if isinstance(forget, HalfLife | Window):
        return dict.fromkeys(agents, forget)
    if not isinstance(forget, Mapping):
        check.fail(owner, "forget", check.show(forget), "a HalfLife or a Window, or one by agent: {'human': HalfLife(500)}")
    for name, rule in forget.items():
        if name not in agents:
            check.fail(owner, "an agent of forget", repr(name), "one of " + ", ".join(map(repr, agents)))
        checked_rule(owner, f"forget[{name!r}]", rule)
    return {name: rule for name, rule in forget.items() if rule is not None}


def checked_rule(owner: str, place: str, rule: Any) -> Any:
    if rule is not None and not isinstance(rule, HalfLife | Window):
        check.fail(owner, place, check.show(rule), "a HalfLife or a Window")
    return rule


def fading_of(rules: Sequence[tuple[int, Forget | None]], horizon: int, recent: Ints | None = None) -> Fading:
    """For the kernels. rules: so many rows, one after the other, and how they forget. recent: the last steps, if there were any."""
    if all(rule is None for _, rule in rules):
        return NEVER_FADES
    factor = [2.0 ** (-1.0 / rule.episodes) if isinstance(rule, HalfLife) else 1.0 for _, rule in rules]
    window = [rule.episodes if isinstance(rule, Window) else 0 for _, rule in rules]
    rows = [n for n, _ in rules]
    lengths = np.unique([w for w in window if w > 0]).astype(np.int64)
    if recent is None or not recent.size:
        recent = np.full((int(lengths.max()) if len(lengths) else 0, horizon), -1, dtype=np.int64)
    return Fading(np.repeat(factor, rows), np.repeat(np.array(window, dtype=np.int64), rows), lengths, recent)
