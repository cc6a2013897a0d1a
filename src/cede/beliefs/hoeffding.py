"""L1 balls from Hoeffding's inequality for each outcome: all p with |p - q|_1 <= sqrt(beta / max(1, n)) around the frequencies q,

    beta = outcomes^2 / 2 * log( 4 rows outcomes t_k^3 / delta ),    t_k = max(1, (k - 1) L) steps before episode k.

The frequency of one outcome after n draws is further than epsilon from its probability with probability at most
2 exp(-2 n epsilon^2), and |p - q|_1 is at most `outcomes` times the largest of these errors. Summed over all outcomes, rows,
n <= t_k and t_k = 1, 2, ..., the probability of any failure is at most delta / 2 * pi^2 / 6 < delta.

They may be used for two layers, and not for counts that fade: the inequality is about n whole draws.
"""

from math import log

from cede._kernels.compiling import kernel
from cede.beliefs.kind import BeliefKind
from cede.beliefs.l1 import l1_width

LOG_4 = log(4.0)


@kernel
def hoeffding_constant(steps, rows, outcomes, values, delta):
    """Return beta."""
    return outcomes * outcomes / 2.0 * (LOG_4 + log(rows) + log(outcomes) + 3.0 * log(steps) - log(delta))


HOEFFDING = BeliefKind(
    "hoeffding",
    "l1",
    about="L1 balls from Hoeffding's inequality for each outcome",
    assumes="The steps of a row are independent draws from one distribution.",
    allows=frozenset(("two layers", "bounds", "greedy planning", "guarantee")),
    constant=hoeffding_constant,
    width=l1_width,
)
