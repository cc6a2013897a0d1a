"""Empirical-Bernstein intervals: around the frequency q_i of each outcome of a row with n visits, to both sides,

    sqrt(2 q_i (1 - q_i) x / n) + 3 x / n,    x = log( 6 rows outcomes n (n + 1) / delta ).

The interval of a mean of n values in [0, 1] fails with probability at most 3 exp(-x) (Theorem 1 of Audibert, Munos and Szepesvari
2009). The sum over n = 1, 2, ... of 1 / (n (n + 1)) is 1, so over all n, outcomes and rows of a layer the probability of any
failure is at most delta / 2. The sets hold at all times, for any rule of visiting rows, and t_k does not occur.

They may be used for everything except fading counts: the theorem is about n whole draws. A scale multiplies both terms: the width
holds its square, and `linear` divides by it once.
"""

from math import log

import numpy as np

from cede._kernels.compiling import kernel
from cede.beliefs.kind import BeliefKind
from cede.beliefs.kl import ANYTHING

LOG_6 = log(6.0)


@kernel
def bernstein_constant(steps, rows, outcomes, values, delta):
    """Return log(6 rows outcomes / delta)."""
    return LOG_6 + log(rows) + log(outcomes) - log(delta)


@kernel
def bernstein_width(visits, constant, scale):
    """Return scale^2 x / n with x = constant + log(n (n + 1))."""
    if visits <= 0.0:
        return ANYTHING if scale > 0.0 else 0.0
    n = max(1.0, visits)
    return scale * scale * (constant + log(n) + log(n + 1.0)) / n


BERNSTEIN = BeliefKind(
    "bernstein",
    "intervals",
    about="an interval around the probability of each outcome",
    assumes="The steps of a row are independent draws from one distribution, and are counted whole.",
    allows=frozenset(("two layers", "bounds", "greedy planning", "guarantee")),
    constant=bernstein_constant,
    width=bernstein_width,
    linear=3.0,
    more=lambda outcomes, most, functions: np.log(outcomes / most),
)
