"""UCRL2's L1 balls (Algorithm 2 in the paper's appendix): all p with |p - q|_1 <= sqrt(beta / max(1, n)),

    beta = 14 outcomes log( 2 t_k rows / delta ),    t_k = max(1, (k - 1) L) steps before episode k

with rows = |S||D| and outcomes = |S|: the table p(s' | s, agent), in which agents and environment are one layer.
"""

from math import log

from cede._kernels.compiling import kernel
from cede.beliefs.kind import BeliefKind
from cede.beliefs.l1 import l1_width

LOG_2 = log(2.0)


@kernel
def appendix_constant(steps, rows, outcomes, values, delta):
    """Return beta."""
    return 14 * outcomes * (LOG_2 + log(steps) + log(rows) - log(delta))


APPENDIX = BeliefKind(
    "appendix",
    "l1",
    about="the L1 balls of UCRL2",
    assumes="The steps of a row are independent draws from one distribution.",
    allows=frozenset(("one table", "bounds", "fading", "greedy planning", "guarantee")),
    constant=appendix_constant,
    width=l1_width,
)
