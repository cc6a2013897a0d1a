"""Counts that fade, for agents that change: old visits weigh less than recent ones.

With a half-life of h episodes every count is multiplied with 2^(-1/h) after each episode. With a window of w episodes a step counts
in w episodes, its own the first, and then no more. Radii follow from the sum of the weights that are left. For weights of at most 1
this sum is never more than the effective number of samples (sum of weights)^2 / (sum of squares), on which Hoeffding's inequality
for weighted means rests. So for an agent that does not change the radii are as valid as before, and wider. For an agent that does
change they guarantee nothing, but its old behaviour is forgotten.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cede._base import check
from cede._base.arrays import Ints
from cede.rows.counting import Forgetting

FADED_UNIT = 1024.0  # counts that fade at once are whole multiples of 1 / FADED_UNIT, so that they add exactly
MOST_WINDOW = 10**6  # episodes; all their steps are kept in memory


@dataclass(frozen=True)
class HalfLife:
    """A rule to forget: counts fade to one half in so many episodes. Given to a learner as `forget=` or `forget_environment=`."""

    episodes: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "episodes", check.number("HalfLife", "episodes", self.episodes, least=0.0))
        if self.episodes <= 0:
            check.fail("HalfLife", "episodes", self.episodes, "more than 0")


@dataclass(frozen=True)
class Window:
    """A rule to forget: only the last so many episodes count. Given to a learner as `forget=` or `forget_environment=`."""

    episodes: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "episodes", check.integer("Window", "episodes", self.episodes, 1, MOST_WINDOW))


Forget = HalfLife | Window


def longest_window(rules: Iterable[Forget | None]) -> int:
    """Return the number of episodes of the longest Window among some rules; 0 if there is none."""
    return max((rule.episodes for rule in rules if isinstance(rule, Window)), default=0)


def forgetting_arrays(rules: Sequence[tuple[int, Forget | None]], horizon: int, recent: Ints) -> Forgetting:
    """Return rules in the form that kernels read.

    rules: for one block of rows after the other the number of rows and the rule by which they fade, None for not at all. recent:
    (longest window, L) keys of the last steps, as in `Forgetting`; empty without any.
    """
    no_rows, no_steps = np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.int64)
    if all(rule is None for _, rule in rules):
        return Forgetting(factor=np.empty(0), window=no_rows, lengths=no_rows, recent=no_steps)
    factor = [2.0 ** (-1.0 / rule.episodes) if isinstance(rule, HalfLife) else 1.0 for _, rule in rules]
    window = [rule.episodes if isinstance(rule, Window) else 0 for _, rule in rules]
    rows = [n for n, _ in rules]
    if not recent.size:
        recent = np.full((max(window), horizon), -1, dtype=np.int64)
    return Forgetting(
        factor=np.repeat(factor, rows),
        window=np.repeat(np.array(window, dtype=np.int64), rows),
        lengths=np.unique([w for w in window if w > 0]).astype(np.int64),
        recent=recent,
    )
