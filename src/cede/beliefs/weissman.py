"""Weissman's L1 balls, at all times: all p with |p - q|_1 <= sqrt(2 x / n) around the frequencies q of n visits,

    x = log( 2^(outcomes + 1) rows n (n + 1) / delta ).

By Weissman, Ordentlich, Seroussi, Verdu and Weinberger (2003, Theorem 2.1) the ball of one n fails with probability at most
2^outcomes exp(-x). The sum over n = 1, 2, ... of 1 / (n (n + 1)) is 1, so over all n and rows of a layer the probability of any
failure is at most delta / 2. t_k does not occur: beside the paper's 7 log t_k there is about 2 log n, and planning takes no longer.

They may be used for everything except fading counts: the theorem is about n whole draws.
"""

from math import log

from cede._kernels.compiling import kernel
from cede.beliefs.kind import BeliefKind
from cede.beliefs.l1 import l1_width

LOG_2 = log(2.0)


@kernel
def weissman_constant(steps, rows, outcomes, values, delta):
    """Return log(2^(outcomes + 1) rows / delta)."""
    return (outcomes + 1) * LOG_2 + log(rows) - log(delta)


@kernel
def weissman_width(visits, constant, scale):
    """Return scale sqrt(2 x / n) with x = constant + log(n (n + 1))."""
    n = max(1.0, visits)
    return l1_width(n, 2.0 * (constant + log(n) + log(n + 1.0)), scale)


WEISSMAN = BeliefKind(
    "weissman",
    "l1",
    about="the paper's balls, smaller: valid at all times without t",
    assumes="The steps of a row are independent draws from one distribution, and are counted whole.",
    allows=frozenset(("two layers", "bounds", "greedy planning", "guarantee")),
    constant=weissman_constant,
    width=weissman_width,
    more=lambda outcomes, most, functions: (outcomes - most) * LOG_2,
)
