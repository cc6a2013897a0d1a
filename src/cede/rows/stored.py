"""Stored counts: for each layer, by its name, the count of each outcome of each row.

Layers of a team (`places.Places.shapes` lists them):

    agent/NAME    (slots * cases, A)   N(s, d, a) of one agent, Section 3 of the paper
    environment   (S * A, S)           N'(s, a, s'); for UCRL2, which ignores actions, (S * slots, S); or (cases, outcomes)
    costs         (rows, 4)            of each learned cost, from 0 to 1 in its range: count, sum in two parts, sum of squares
    start         (1, S)               counts of the first states of episodes

Counts add layer by layer. Any split of the same episodes, counted separately and added in any order, gives the same counts. Files
hold the same keys and numbers; matrices are views for users.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Floats, Ints, canonical, read_only
from cede._base.remade import Remade
from cede._base.reprs import plural, short_repr
from cede._kernels.tables import Table
from cede.problem.structure import Outcomes, Structure
from cede.problem.task import Task
from cede.rows.cost_sums import N_SUMS
from cede.rows.places import AGENT, COSTS, ENVIRONMENT, START, Places, Shape

MOST_COUNT = 2**62


@dataclass(frozen=True, eq=False)
class LayerCounts:
    """Counts of one layer; only counts above 0 take memory."""

    shape: Shape  # rows, columns
    key: Ints  # (n,) ascending, row * columns + column
    number: Floats  # (n,) above 0; whole unless counts fade or are sums of costs

    @classmethod
    def empty(cls, shape: Shape) -> "LayerCounts":
        """Return counts of nothing."""
        return cls(shape, np.empty(0, dtype=np.int64), np.empty(0))

    @classmethod
    def of_matrix(cls, matrix: sp.csr_array) -> "LayerCounts":
        """Take the entries of a sparse matrix."""
        rows = canonical(matrix)
        row = np.repeat(np.arange(rows.shape[0], dtype=np.int64), np.diff(rows.indptr))
        return cls(rows.shape, row * rows.shape[1] + rows.indices, rows.data.astype(np.float64))

    @classmethod
    def of_row(cls, numbers: Floats) -> "LayerCounts":
        """Take the entries of one row, (columns,)."""
        key = np.flatnonzero(numbers)
        return cls((1, len(numbers)), key, numbers[key].astype(np.float64))

    @classmethod
    def of_table(cls, table: Table, n_rows: int | None = None) -> "LayerCounts":
        """Take the first n_rows rows (all by default) of a working table."""
        row, column, weight = table.entries(n_rows)
        return cls((table.n_rows if n_rows is None else n_rows, table.n_columns), row * table.n_columns + column, weight)

    def table(self, known: sp.csr_array | None = None) -> Table:
        """Return a working table with these rows. known: rows of probabilities that are appended."""
        return Table.of_keys(self.shape, self.key, self.number, known)

    @property
    def matrix(self) -> sp.csr_array:
        """Return a sparse matrix, of integers if all numbers are whole."""
        row, column = np.divmod(self.key, max(self.shape[1], 1))
        indptr = np.searchsorted(row, np.arange(self.shape[0] + 1))
        data = self.number if (self.number != np.floor(self.number)).any() else self.number.astype(np.int64)
        return sp.csr_array((data.copy(), column.astype(np.int32), indptr), shape=self.shape)

    @property
    def first_row(self) -> Floats:
        """Return the first row, (columns,)."""
        result = np.zeros(self.shape[1])
        inside = self.key < self.shape[1]
        result[self.key[inside]] = self.number[inside]
        return result

    @property
    def total(self) -> float:
        """Return the sum of all numbers."""
        return float(self.number.sum())

    def __add__(self, other: "LayerCounts") -> "LayerCounts":
        """Add the counts of the same layer."""
        key, place = np.unique(np.concatenate([self.key, other.key]), return_inverse=True)
        number = np.bincount(place, weights=np.concatenate([self.number, other.number]), minlength=len(key))
        return LayerCounts(self.shape, key, number.astype(np.float64))


def below_one_another(layers: Mapping[str, LayerCounts], shapes: Mapping[str, Shape]) -> LayerCounts:
    """Return one layer with the rows of these layers, which have the same number of columns. A missing layer has no counts."""
    end, keys, numbers = 0, [], []
    for name, shape in shapes.items():
        if name in layers:
            keys.append(layers[name].key + end * shape[1])
            numbers.append(layers[name].number)
        end += shape[0]
    if not keys:
        return LayerCounts.empty((end, shape[1]))
    return LayerCounts((end, shape[1]), np.concatenate(keys), np.concatenate(numbers))


def apart(layer: LayerCounts, rows: Iterable[int]) -> list[LayerCounts]:
    """Return the inverse of `below_one_another`: layers with so many rows each."""
    columns, result = layer.shape[1], []
    ends = np.cumsum([0, *rows])
    cuts = np.searchsorted(layer.key, ends * columns)
    for (first, last), (begin, end) in zip(pairwise(ends.tolist()), pairwise(cuts.tolist()), strict=True):
        part = slice(begin, end)
        result.append(LayerCounts((last - first, columns), layer.key[part] - first * columns, layer.number[part]))
    return result


@dataclass(frozen=True, eq=False)
class Counts(Remade):
    """Counts of episodes, by layer. `count` counts episodes, `Learner.counts` returns those of a learner, and `+` adds.

    `agents`, `environment`, `costs` and `starts` are read-only views as SciPy matrices and an array.
    """

    layers: Mapping[str, LayerCounts]  # agents first, as in `task.tables`; without START if first states were not counted
    episodes: int
    environment_episodes: int  # counted into `environment`; more than `episodes` in a fleet, whose teams share it
    others_episodes: int = 0  # of other teams, counted into agents that were shared with them

    def __post_init__(self) -> None:
        if not isinstance(self.layers, Mapping) or not all(isinstance(layer, LayerCounts) for layer in self.layers.values()):
            check.fail("Counts", "layers", check.show(self.layers), "LayerCounts by name; Counts.of makes counts from matrices")
        for name in ("episodes", "environment_episodes", "others_episodes"):
            object.__setattr__(self, name, check.integer("Counts", name, getattr(self, name), 0, MOST_COUNT))

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            shown = (("agents", self.all_agents), (ENVIRONMENT, self.layers[ENVIRONMENT]))
            seen = (f"{name}: {layer.total:,.6g} steps in {len(layer.key):,} places" for name, layer in shown)
            return plural(self.episodes, "episode"), *seen

        return short_repr(self, parts)

    @classmethod
    def zeros(cls, task: Task, *, flat: bool = False, structure: Structure | None = None) -> "Counts":
        """Make counts of nothing for a task. flat: for UCRL2. structure: as declared, or None."""
        shapes = Places(task, flat, structure).shapes
        return cls({name: LayerCounts.empty(shape) for name, shape in shapes.items()}, 0, 0)

    @classmethod
    def of(
        cls,
        task: Task,
        agents: Any,
        environment: Any,
        episodes: int,
        environment_episodes: int | None = None,
        costs: Any = None,
        starts: Any = None,
        *,
        flat: bool = False,
        structure: Structure | None = None,
    ) -> "Counts":
        """Make counts from matrices, which are checked.

        agents: SciPy matrix, (rows, A), the agents of `task.tables` below one another. environment: SciPy matrix, (rows, columns).
        costs: SciPy matrix, (rows, 4). starts: (S,). episodes, environment_episodes: counted; by default the same. flat, structure:
        as for `zeros`.
        """
        shapes = Places(task, flat, structure).shapes
        names = [name for name in shapes if name.startswith(AGENT)]
        rows = [shapes[name][0] for name in names]
        all_agents = checked_matrix("Counts", "agents", agents, (sum(rows), task.n_actions))
        layers = dict(zip(names, apart(all_agents, rows), strict=True))
        layers[ENVIRONMENT] = checked_matrix("Counts", ENVIRONMENT, environment, shapes[ENVIRONMENT])
        layers[COSTS] = LayerCounts.empty(shapes[COSTS])
        if costs is not None:
            layers[COSTS] = checked_matrix("Counts", COSTS, sp.csr_array(costs), shapes[COSTS])
        check_sums("Counts", layers[COSTS])
        if starts is not None:
            layers[START] = LayerCounts.of_row(checked_starts("Counts", starts, task.n_states))
        done = check.integer("Counts", "episodes", episodes, 0, MOST_COUNT)
        shared = episodes if environment_episodes is None else environment_episodes
        return cls(layers, done, check.integer("Counts", "environment_episodes", shared, 0, MOST_COUNT))

    def completed(self, shapes: Mapping[str, Shape]) -> "Counts":
        """Return the counts of exactly these layers, in this order. A layer that is missing has no counts."""
        layers = {name: self.layers.get(name) or LayerCounts.empty(shape) for name, shape in shapes.items()}
        return Counts(layers, self.episodes, self.environment_episodes, self.others_episodes)

    @property
    def agent_layers(self) -> dict[str, LayerCounts]:
        """Return the layers of the agents, by the name of the agent."""
        return {name.removeprefix(AGENT): layer for name, layer in self.layers.items() if name.startswith(AGENT)}

    @property
    def all_agents(self) -> LayerCounts:
        """Return the layers of all agents below one another, as in `task.tables`."""
        return below_one_another(self.layers, {name: layer.shape for name, layer in self.layers.items() if name.startswith(AGENT)})

    @cached_property
    def agents(self) -> sp.csr_array:
        """Return the counts of all agents, (slots * S, A): row slot * S + s, with one slot for each policy of `task.tables`, or one
        for each time step or previous agent if the policy varies with that; with a structure rows are cases.
        """
        return frozen(self.all_agents.matrix)

    @cached_property
    def environment(self) -> sp.csr_array:
        """Return the counts of the environment, (S * A, S): row s * A + a; for UCRL2 (S * slots, S); with a structure (cases,
        outcomes).
        """
        return frozen(self.layers[ENVIRONMENT].matrix)

    @cached_property
    def costs(self) -> sp.csr_array:
        """Return the sums of learned costs, (rows, 4)."""
        return frozen(self.layers[COSTS].matrix.astype(np.float64))

    @cached_property
    def starts(self) -> Floats:
        """Return the counts of first states of episodes, (S,); empty if they were not counted."""
        return read_only(self.layers[START].first_row if START in self.layers else np.empty(0))

    def __add__(self, other: "Counts") -> "Counts":
        """Add the counts of other episodes of the same layers."""
        if not isinstance(other, Counts):
            return NotImplemented
        for name in dict.fromkeys((*self.layers, *other.layers)):
            if name != START or (name in self.layers and name in other.layers):
                mine, theirs = (None if name not in counts.layers else counts.layers[name].shape for counts in (self, other))
                if mine != theirs:
                    check.fail("Counts +", f"the shape of {name}", theirs, f"{mine}, as on the left")
        layers = {
            name: layer + other.layers[name] if name in other.layers else layer
            for name, layer in {**other.layers, **self.layers}.items()
        }
        order = [*(name for name in layers if name.startswith(AGENT)), ENVIRONMENT, COSTS, *([START] if START in layers else [])]
        return Counts(
            {name: layers[name] for name in order},
            self.episodes + other.episodes,
            self.environment_episodes + other.environment_episodes,
            self.others_episodes + other.others_episodes,
        )


def own_layers(counts: Counts, shared: Collection[str] = ()) -> dict[str, LayerCounts]:
    """Return the layers that a team does not share with its fleet: its agents, but for the layers `shared`, and first states."""
    return {name: layer for name, layer in counts.layers.items() if name not in (ENVIRONMENT, COSTS) and name not in shared}


NOTHING = Counts({}, 0, 0)  # no layer was counted


def frozen(matrix: sp.csr_array) -> sp.csr_array:
    """Make a sparse matrix read-only, and return it."""
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.setflags(write=False)
    return matrix


# ------------------------------------------------------------------------------------------------- checks at the border


def checked_matrix(owner: str, layer: str, given: Any, shape: Shape) -> LayerCounts:
    """Check a sparse matrix of counts, finite numbers of at least 0, and return it as stored counts."""
    if not sp.issparse(given) or given.ndim != 2 or given.dtype.kind not in "iuf":
        check.fail(owner, layer, check.show(given), "a SciPy matrix of counts, (rows, columns)")
    if given.shape != shape:
        check.fail(owner, f"the shape of {layer}", given.shape, str(shape))
    data = np.asarray(given.data, dtype=np.float64) if given.nnz else np.empty(0)
    wrong = ~(np.isfinite(data) & (data >= 0) & (data <= MOST_COUNT))
    if wrong.any():
        check.fail(owner, f"a count of {layer}", data[wrong][0], f"a number from 0 to {MOST_COUNT}")
    return LayerCounts.of_matrix(sp.csr_array(given))


def checked_starts(owner: str, given: Any, n_states: int) -> Floats:
    """Check the counts of first states of episodes, (S,), and return a copy."""
    result = check.copied(owner, "starts", given, "(S,)")
    if result.shape != (n_states,) or not ((result >= 0.0) & (result <= MOST_COUNT)).all():
        check.fail(owner, "starts", check.show(given), f"({n_states},) of numbers from 0 to {MOST_COUNT}")
    return result


def check_layer(owner: str, name: str, layer: LayerCounts, owners: Ints | None = None) -> None:
    """Check counts from outside: ascending keys of a table of this shape, with finite numbers above 0.

    owner, name: named in errors. owners: (n,) ascending, the team of each count, if the counts of several teams are concatenated.
    """
    key, number = layer.key, layer.number
    if key.dtype != np.int64 or number.dtype != np.float64 or key.ndim != 1 or key.shape != number.shape:
        check.fail(owner, f"the counts of {name}", f"{key.dtype} and {number.dtype}", "places and numbers, as many of each")
    rises = key[1:] > key[:-1] if owners is None else (key[1:] > key[:-1]) | (owners[1:] > owners[:-1])
    inside = bool(((key >= 0) & (key < layer.shape[0] * layer.shape[1])).all()) and bool(rises.all())
    if not inside or not bool(((number > 0) & (number <= MOST_COUNT)).all()):
        check.fail(owner, f"the counts of {name}", "impossible", "ascending places of the table, with finite numbers above 0")


def check_sums(owner: str, layer: LayerCounts) -> None:
    """Check sums of costs, (rows, 4): n numbers from 0 to 1 have a sum of at most n, and a sum of squares of at most their sum."""
    if layer.shape[1] != N_SUMS:
        check.fail(owner, "the number of columns of costs", layer.shape[1], f"{N_SUMS}: count, sum in two parts, sum of squares")
    n, coarse, rest, squares = layer.matrix.toarray().astype(np.float64).T
    total = coarse + rest
    wrong = (total > n * (1 + 1e-6) + 1e-6) | (squares > total * (1 + 1e-6) + 1e-6)
    if wrong.any():
        row = int(np.argmax(wrong))
        sums = [float(column[row]) for column in (n, total, squares)]
        check.fail(owner, f"costs[{row}]", check.show(sums), "count, sum and sum of squares of numbers from 0 to 1")


def check_outcomes_counted(owner: str, structure: Outcomes | None, layer: LayerCounts) -> None:
    """Check that each count of the environment is in a column of an outcome of its case; kernels rely on it.

    structure: that of the environment, or None.
    """
    if structure is None:
        return
    rows, columns = np.divmod(layer.key, layer.shape[1])
    if (columns >= structure.n_outcomes[rows]).any():
        i = int(np.argmax(columns >= structure.n_outcomes[rows]))
        most = int(structure.n_outcomes[rows[i]])
        check.fail(owner, f"a counted outcome of case {rows[i]}", int(columns[i]), f"from 0 to {most - 1}: it has {most}")
