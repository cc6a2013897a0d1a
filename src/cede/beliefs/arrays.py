"""The belief of one layer for compiled code."""

from cede._kernels.bundle import Bundle, Float1, Int2
from cede._kernels.tables import Table

ANYTHING = 1e300  # width of a set that excludes nothing
NOTHING = 700.0  # a ball of relative entropy this large excludes nothing that a float could tell


class BeliefArrays(Bundle):
    """One layer as sets of distributions, one around each row of a table.

    The set of a row is the L1 ball of radius `width` around weight / total. If linear > 0 it is another one: around each outcome's
    probability p an interval of sqrt(2 p (1 - p) width) + linear width to both sides. If kl is 1 it is a ball of relative entropy:
    all p with KL(weight / total || p) <= width.
    """

    table: Table
    width: Float1  # (rows,)
    row: Int2  # agents: (slots, S); environment: (periods * S, A): which row serves which place
    linear: float
    kl: int
    closed: int  # 1: the outcomes of a row, those of weight 0 too, are all that can be
