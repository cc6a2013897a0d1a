"""The paper's L1 balls (Section 3): all p with |p - q|_1 <= sqrt(beta / max(1, n)) around the frequencies q of n visits,

    beta = 2 log( t_k^7 rows 2^(outcomes + 1) / delta ),    t_k = max(1, (k - 1) L) steps before episode k

with rows = |S||D| and outcomes = |A| for the agents, rows = |S||A| and outcomes = |S| for the environment. For the one table of
UCRL2, with rows = |S||D| and outcomes = |S|, this radius is called "same-form".

With probability at least 1 - delta the truth is in all balls at all times (Lemma 3). They may be used for everything.
"""

from math import log

from cede._kernels.compiling import kernel
from cede.beliefs.kind import BeliefKind
from cede.beliefs.l1 import l1_width

LOG_2 = log(2.0)


@kernel
def printed_constant(steps, rows, outcomes, values, delta):
    """Return beta, from logarithms: 2^(|S| + 1) would overflow a float."""
    return 2 * (7 * log(steps) + log(rows) + (outcomes + 1) * LOG_2 - log(delta))


PRINTED = BeliefKind(
    "printed",
    "l1",
    about="the L1 balls of the paper",
    assumes="The steps of a row are independent draws from one distribution.",
    allows=frozenset(("two layers", "one table", "bounds", "fading", "greedy planning", "guarantee")),
    constant=printed_constant,
    width=l1_width,
    more=lambda outcomes, most, functions: 2 * (outcomes - most) * LOG_2,
)
