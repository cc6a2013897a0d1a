"""Public classes of beliefs: sets around the rows of one layer, and intervals around costs.

The kinds of sets have a file each in this package, with their formulas.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Floats, Ints, read_only
from cede._base.remade import Remade
from cede._kernels.tables import BeliefArrays, Table
from cede.beliefs.kl import NOTHING
from cede.problem.takeover import price_of_members
from cede.problem.task import Task


@dataclass(frozen=True, eq=False)
class Belief(Remade):
    """The confidence sets of one layer: all tables whose rows lie within `width` (L1) of the rows of `centre`.

    `Learner.beliefs` returns, and `optimistic_plan` takes, one for the agents and one for the environment; `Belief.of` makes one
    from arrays. Width 0 is certainty; 2 or more excludes nothing.

    A *place* is where something is drawn: (slot, s) for the agents, (s, a) for the environment. An agent has one slot, or one for
    each time step or previous agent if its policy varies with that. `row` says which row of the centre serves each place, so that
    places may share a row.

    If `linear` is not 0, the set consists of intervals instead: around each probability p of the centre, to both sides,
    sqrt(2 p (1 - p) width) + linear width. If `kl`, it is a ball of relative entropy: all p with KL(centre || p) <= width. If
    `closed`, only the outcomes stored in a row of the centre are possible, also those of weight 0; else any outcome is.

    A row of zeros has no visits. Its ball is around the uniform distribution, with the given width. Intervals of such a row exclude
    nothing: there are no frequencies to centre them on.
    """

    centre: Table
    width: Floats  # (rows,) radius of each ball; of intervals x / n, times the square of the scale
    row: Ints  # agents: (slots, S); environment: (S, A), or (P * S, A) if it has P tables
    linear: float = 0.0
    closed: bool = False
    kl: bool = False

    def __post_init__(self) -> None:
        check.instance("Belief", "centre", self.centre, Table, "; Belief.of makes one")
        rows = self.centre.n_rows
        width = check.array("Belief", "width", self.width, (rows,), "(rows,)")
        if width.min() < 0:
            where = int(np.argmin(width))
            check.fail("Belief", f"width[{where}]", width[where], "at least 0")
        row = check.integers("Belief", "row", self.row, 2)
        if not row.size or row.min() < 0 or row.max() >= rows:
            bad = np.argwhere((row < 0) | (row >= rows))
            place = check.place_of("row", bad[0]) if len(bad) else "row"
            check.fail("Belief", place, row[tuple(bad[0])] if len(bad) else "empty", f"an integer from 0 to {rows - 1}")
        row.setflags(write=False)
        put = object.__setattr__
        put(self, "width", width)
        put(self, "row", row)
        put(self, "linear", check.number("Belief", "linear", self.linear, least=0.0))
        put(self, "closed", check.truth("Belief", "closed", self.closed))
        put(self, "kl", check.truth("Belief", "kl", self.kl))
        if self.kl and self.linear > 0.0:
            check.fail("Belief", "linear", self.linear, "0 with kl: a set is a ball, or an interval around each outcome")
        self.centre.freeze()

    @classmethod
    def of(cls, centre: Any, width: ArrayLike, places: tuple[int, int]) -> "Belief":
        """Make a belief with one row for each place.

        centre: a (rows, outcomes) array or SciPy matrix of weights, which are normalised row by row; a row of zeros has no visits:
        its ball is around the uniform distribution. (With intervals, as in `dataclasses.replace(belief, linear=3.0)`, any
        distribution is possible.) width: (rows,) or one number for all. places: (slots, S) for the agents, (S, A) for the
        environment, whose product is the number of rows.
        """
        owner = "Belief.of"
        if sp.issparse(centre):
            if centre.ndim != 2 or 0 in centre.shape or centre.dtype.kind not in "fiub":
                shape_and_type = f"of shape {centre.shape} and {centre.dtype}"
                check.fail(owner, "centre", shape_and_type, "a (rows, outcomes) matrix of numbers, no side empty")
            matrix = sp.csr_array(centre, dtype=np.float64)
        else:
            matrix = sp.csr_array(check.array(owner, "centre", centre, (None, None), "(rows, outcomes)"))
        if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
            worst = matrix.data[~(matrix.data >= 0) | ~np.isfinite(matrix.data)][0]
            check.fail(owner, "a weight of centre", worst, "finite and at least 0")
        if not np.isfinite(matrix.sum(axis=1)).all():
            check.fail(owner, "the sum of a row of centre", "infinite", "a finite number")
        table = Table.of(matrix)
        sides = check.integers(owner, "places", places, 1)
        if sides.shape != (2,) or (sides < 1).any() or int(sides[0]) * int(sides[1]) != table.n_rows:
            check.fail(owner, "places", check.show(places), f"two numbers whose product is {table.n_rows}, the rows of centre")
        if check.ndim(width) == 0:
            width = np.full(table.n_rows, check.number(owner, "width", width, least=0.0))
        return cls(table, width, np.arange(table.n_rows).reshape(tuple(sides)))  # type: ignore[arg-type]

    @cached_property
    def distances(self) -> Floats:
        """Return the L1 radius of each row's set, (rows,); for balls of relative entropy a bound, by Pinsker's inequality. A radius
        of 2 or more excludes nothing. For intervals, return the width.
        """
        result: Floats = np.minimum(np.sqrt(2.0 * self.width), 2.0) if self.kl else self.width
        return result

    @cached_property
    def arrays(self) -> BeliefArrays:
        """Return the belief in the form that compiled code reads (cached)."""
        form = {"linear": self.linear, "kl": int(self.kl), "closed": int(self.closed)}
        return BeliefArrays(table=self.centre, width=self.width, row=self.row, **form)


COSTS = {  # kinds of costs: the task's field, its possible numbers of axes, and their letters
    "": ("env_cost", (2,), "(S, A)"),
    "enter_": ("enter_cost", (1,), "(S,)"),
    "control_": ("control_cost", (1, 2), "(D,) or (S, D)"),
    "switch_": ("switch_cost", (2, 3), "(D, D) or (S, D, D)"),
}


@dataclass(frozen=True, eq=False)
class CostBelief(Remade):
    """Intervals around the mean costs. Known costs are intervals of width 0.

    `Learner.costs` returns it, and `optimistic_plan` takes it. Each kind of costs has its least, its greatest, and the mean of what
    was observed (without any, the middle of the range; by default, of the interval). None: these costs of the task are known.
    """

    low: Floats  # (S, A) of actions
    high: Floats
    mean: Floats | None = None
    enter_low: Floats | None = None  # (S,) of arriving
    enter_high: Floats | None = None
    enter_mean: Floats | None = None
    control_low: Floats | None = None  # (D,) or (S, D) of control
    control_high: Floats | None = None
    control_mean: Floats | None = None
    switch_low: Floats | None = None  # (D, D) or (S, D, D) of hand-overs; infinity where one is not possible
    switch_high: Floats | None = None
    switch_mean: Floats | None = None

    def __post_init__(self) -> None:
        owner = "CostBelief"
        for kind, (_, axes, letters) in COSTS.items():
            names = [f"{kind}{end}" for end in ("low", "high", "mean")]
            low, high, mean = (getattr(self, name) for name in names)
            if kind and low is None and high is None:
                continue
            barred = np.isinf(check.copied(owner, names[0], low, letters)) if kind == "switch_" else np.zeros((), dtype=np.bool_)
            shape: tuple[int | None, ...] = (None,) * (check.ndim(low) if check.ndim(low) in axes else axes[0])
            found: list[Floats] = []
            for name, given in zip(names, (low, high, mean), strict=True):
                value = (found[0] + found[1]) / 2 if given is None and len(found) == 2 else given
                if barred.any() and check.copied(owner, name, value, letters).shape == barred.shape:
                    value = np.where(barred, 0.0, value)
                found.append(check.array(owner, name, value, shape, letters))
                shape = found[0].shape
            if (found[0] > found[1]).any():
                where = np.argwhere(found[0] > found[1])[0]
                expected = f"at most {found[1][tuple(where)]}, its {names[1]}"
                check.fail(owner, check.place_of(names[0], where), found[0][tuple(where)], expected)
            for name, array in zip(names, found, strict=True):
                object.__setattr__(self, name, read_only(np.where(barred, np.inf, array)) if barred.any() else array)

    def least(self, owner: str, task: Task) -> Task:
        """Return the task with the least possible costs."""
        return self._put(owner, task, "low")

    def most(self, owner: str, task: Task) -> Task:
        """Return the task with the greatest possible costs."""
        return self._put(owner, task, "high")

    def middle(self, owner: str, task: Task) -> Task:
        """Return the task with the mean observed costs."""
        return self._put(owner, task, "mean")

    def _put(self, owner: str, task: Task, end: str) -> Task:
        """Return the task with one end of the intervals as its costs."""
        costs = {name: getattr(self, f"{kind}{end}") for kind, (name, _, _) in COSTS.items()}
        if costs["env_cost"].shape != task.env_cost.shape:
            check.fail(owner, "the shape of costs", costs["env_cost"].shape, f"{task.env_cost.shape}, as of the task")
        known = {name: array for name, array in costs.items() if array is not None}
        if task.grab_cost is not None and "switch_cost" in known:
            prices = price_of_members(known["switch_cost"], task.layout.aim)
            known["grab_cost"] = np.where(np.isnan(task.grab_cost), prices, task.grab_cost)
        return replace(task, **known)


def snapshot(belief: BeliefArrays) -> Belief:
    """Return a copy of a belief in compiled form as a `Belief`, which does not change when the learner continues."""
    table = belief.table.packed()
    return Belief(table, belief.width, belief.row, belief.linear, bool(belief.closed), bool(belief.kl))


def holds(belief: Belief, truth: Belief) -> bool:
    """Return whether every true row lies in its set: the event of Lemma 3. truth: the true table, a belief of width 0."""
    total = belief.centre.total[:, None]
    uniform = 1.0 / belief.centre.n_columns
    centre = np.where(total > 0, belief.centre.matrix().toarray() / np.maximum(total, 1e-300), uniform)
    apart = np.abs(centre[belief.row] - truth.centre.matrix().toarray()[truth.row])
    width = belief.width[belief.row]
    if belief.kl:
        true, q = truth.centre.matrix().toarray()[truth.row], centre[belief.row]
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(q > 0, q * (np.log(q) - np.log(true)), 0.0)
        return bool(((apart.sum(axis=-1) <= width * (1 + 1e-12) + 1e-12) | (width >= NOTHING)).all())
    if belief.linear == 0.0:
        return bool((apart.sum(axis=-1) <= width + 1e-12).all())
    seen = (total > 0)[belief.row]
    half = np.sqrt(2 * (centre * (1 - centre))[belief.row] * width[..., None]) + belief.linear * width[..., None]
    return bool(((apart <= half + 1e-12) | ~seen).all())
