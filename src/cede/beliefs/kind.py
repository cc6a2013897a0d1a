"""A kind of belief: its form, formulas, assumptions and permitted uses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from cede._base.arrays import Floats

# l1: all p with |p - q|_1 <= width. intervals: |p_i - q_i| <= sqrt(2 q_i (1 - q_i) width) + linear width for every outcome i.
# kl: all p with KL(q || p) <= width. sample: one table drawn at random. point: one table.
Form = Literal["l1", "intervals", "kl", "sample", "point"]
SETS = ("l1", "intervals", "kl")  # forms that are sets of distributions

Use = Literal[
    "two layers",  # UCRL2-MC: agents and environment
    "one table",  # UCRL2: p(s' | s, agent)
    "bounds",  # bounds of costs from both sides, and baselines; a set without this is for optimism only
    "fading",  # counts that fade, where visits need not be whole numbers
    "greedy planning",  # the width of a row follows from this row alone
    "guarantee",  # scale 1 carries a proof that holds with probability 1 - delta
]


@dataclass(frozen=True)
class BeliefKind:
    """One kind of belief. Sets are around the frequencies q of a row with n visits; delta: the probability of any failure."""

    name: str
    form: Form
    about: str  # one line for users
    assumes: str  # one sentence: conditions of the guarantee
    allows: frozenset[Use] = frozenset()
    constant: Callable[..., Any] | None = None  # kernel (steps, rows, outcomes, values, delta) -> constant of a layer
    width: Callable[..., Any] | None = None  # kernel (visits, constant, scale) -> width of a row
    linear: float = 0.0  # of intervals, at scale 1
    # (outcomes of each row, the most of any row, functions of each row that plans use) -> what is added to each row's constant:
    # less where a row has fewer outcomes, more where several places use it
    more: Callable[[Floats, int, Floats], Floats] | None = None
    surprise: bool = False  # whether the constant of a row grows by `kl.surprise` of its counts
    part: tuple[float, float] = (0.0, 0.0)  # agents, environment: the scale is this over sqrt(rows met in an episode); 0: it is not
    unseen: tuple[float, float] = (0.0, 0.0)  # agents, environment: width of rows without visits, over the constant; 0: by `width`

    @property
    def is_set(self) -> bool:
        """Return whether the belief is a set of distributions, with a constant and a width."""
        return self.form in SETS
