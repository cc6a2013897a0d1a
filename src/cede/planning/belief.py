"""What is believed of a table: a centre and, around each row, an L1 ball of some width, or an interval around each outcome.

Radii of balls have the form sqrt(constant / max(1, n)) with n the visits of the row. The constants of the paper, with
t_k = max(1, (k - 1) L) the steps seen before episode k:

    printed    2 log( t_k^7 rows 2^(outcomes + 1) / delta )     Section 3; `printed_constant`
    appendix   14 outcomes log( 2 t_k rows / delta )            Algorithm 2; `appendix_constant`
    cost       7/2 log( 2 t_k rows / delta )                    Jaksch et al. 2010, of a mean with range 1; `cost_constant`

with rows = |S||D| and outcomes = |A| for the agents, rows = |S||A| and outcomes = |S| for the environment. UCRL2's table has
rows = |S||D| and outcomes = |S|; with the printed form we call its radius "same-form". Everything is computed from logarithms:
2^(|S| + 1) has no place in a float. With a declared structure, rows and outcomes are those of its cases.

Bernstein's intervals are, around the frequency p of each outcome of a row,

    sqrt(2 p (1 - p) x / n) + 3 x / n,    x = log( 6 rows outcomes n (n + 1) / delta ).

Audibert, Munos and Szepesvari (2009, Theorem 1): of one mean of n values in [0, 1] they fail with probability 3 exp(-x). The sum
over n = 1, 2, ... of 1 / (n (n + 1)) is 1, so that over all n, outcomes and rows of a layer it is delta / 2: the sets hold at all
times, whatever decides when a row is visited, and t_k does not occur. The formulas are in _kernels/radii.py.
"""

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Floats, Ints, distinct_rows
from cede._kernels import radii as kernels
from cede._kernels.model import BeliefArrays
from cede._kernels.tables import Table
from cede.problem.model import Environment, TwoLayerMDP


@dataclass(frozen=True, eq=False)
class Belief:
    """One layer as a set of tables: every row within `width` (L1) of its centre.

    Width 0 is certainty, 2 or more says nothing. `row` tells which row of the centre serves which place, so that places may
    share one: (slots, S) for the agents (slots of agent d: one, or one per time step or previous agent), (S, A) for the
    environment.

    If `linear` is not 0, the set is another one: around each outcome's probability p an interval of
    sqrt(2 p (1 - p) width) + linear width to both sides. closed: the outcomes of a row of the centre, those of weight 0 too, are
    all that can be.
    """

    centre: Table
    width: Floats  # (rows,)
    row: Ints  # agents: (slots, S); environment: (S, A)
    linear: float = 0.0
    closed: bool = False

    @classmethod
    def of(cls, centre: ArrayLike | sp.sparray, width: ArrayLike, places: tuple[int, int]) -> "Belief":
        """From an array or SciPy matrix with one row per place; rows of zeros have not been seen (uniform)."""
        matrix = sp.csr_array(centre, dtype=np.float64)
        if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
            worst = matrix.data[~(matrix.data >= 0) | ~np.isfinite(matrix.data)][0]
            check.fail("Belief", "a weight of centre", worst, "finite and at least 0")
        table = Table.of(matrix)
        widths = check.array("Belief", "width", np.broadcast_to(width, table.n_rows), (table.n_rows,), "(rows,)")
        if (widths < 0).any():
            where = int(np.argmax(widths < 0))
            check.fail("Belief", f"width[{where}]", widths[where], "at least 0")
        if places[0] * places[1] != table.n_rows:
            check.fail("Belief", "the number of rows of centre", table.n_rows, f"{places[0]} x {places[1]}")
        return cls(table, widths, np.arange(table.n_rows).reshape(places))

    def copy(self) -> "Belief":
        """Its own arrays, which nobody changes."""
        return Belief(self.centre.packed(), self.width.copy(), self.row.copy(), self.linear, self.closed)

    @cached_property
    def arrays(self) -> BeliefArrays:
        """The belief as the compiled planner reads it."""
        return BeliefArrays(table=self.centre, width=self.width, row=self.row, linear=self.linear, closed=int(self.closed))


def snapshot(belief: BeliefArrays) -> Belief:
    """Return what the compiled planner reads as a belief with arrays of its own."""
    table = belief.table.packed()
    return Belief(table, belief.width.copy(), belief.row.copy(), belief.linear, bool(belief.closed))


_truths: "WeakKeyDictionary[TwoLayerMDP, tuple[Belief, Belief]]" = WeakKeyDictionary()
_true_environments: "WeakKeyDictionary[Environment, Belief]" = WeakKeyDictionary()


def true_beliefs(mdp: TwoLayerMDP) -> tuple[Belief, Belief]:
    """Return the true tables of a problem, agents and environment, as beliefs of width 0."""
    if mdp not in _truths:
        tables = np.concatenate([policy.reshape(-1, mdp.task.n_actions) for policy in mdp.policies])
        slots = len(tables) // mdp.task.n_states
        _truths[mdp] = Belief.of(tables, 0.0, (slots, mdp.task.n_states)), true_environment(mdp.environment)
    return _truths[mdp]


def true_environment(environment: Environment) -> Belief:
    """Return the true table of an environment as a belief of width 0. Equal rows are kept, and planned with, once."""
    if environment not in _true_environments:
        rows, which = distinct_rows(environment.transition)
        places = which.reshape(environment.n_states, environment.n_actions)
        _true_environments[environment] = Belief(Table.of(rows), np.zeros(rows.shape[0]), places)
    return _true_environments[environment]


def holds(belief: Belief, truth: Belief) -> bool:
    """Does every true row lie in its set? (The event of Lemma 3; `truth` has width 0.)"""
    total = belief.centre.total[:, None]
    uniform = 1.0 / belief.centre.n_columns
    centre = np.where(total > 0, belief.centre.matrix().toarray() / np.maximum(total, 1e-300), uniform)
    apart = np.abs(centre[belief.row] - truth.centre.matrix().toarray()[truth.row])
    width = belief.width[belief.row]
    if belief.linear == 0.0:
        return bool((apart.sum(axis=-1) <= width + 1e-12).all())
    seen = (total > 0)[belief.row]
    half = np.sqrt(2 * (centre * (1 - centre))[belief.row] * width[..., None]) + belief.linear * width[..., None]
    return bool(((apart <= half + 1e-12) | ~seen).all())


RADII = {"printed": kernels.PRINTED, "appendix": kernels.APPENDIX, "bernstein": kernels.BERNSTEIN, None: kernels.NO_RADIUS}


def radii(visits: Floats, constant: float, *, scale: float = 1.0) -> Floats:
    """Return the width of each row: scale sqrt(constant / max(1, visits))."""
    widths, n = np.empty(len(visits)), len(visits)
    kernels.radii(kernels.PRINTED, visits, np.arange(n), n, constant, np.zeros(n), scale, widths)
    return widths
