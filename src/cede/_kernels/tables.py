"""Sparse tables of rows, true probabilities or counts that grow in place, and the kernels that change them."""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numba import types
from numpy.typing import NDArray

from cede._base.arrays import Floats, Ints, canonical
from cede._kernels.bundle import Bundle, Float1, Int1, Int2, Int32s1
from cede._kernels.compiling import kernel, renamed, unit


class GrowingRows:
    """Base of both kinds of tables. Rows lie in one pool with room to grow: counting a step costs what that step changes.

    A row that is full moves to the end of the pool.
    """

    start: Ints
    size: Ints
    total: Floats
    column: NDArray[Any]
    weight: Floats
    capacity: Ints
    end: int
    n_columns: int  # outcomes that a row can have

    @classmethod
    def from_arrays(cls, n_columns: int, start: Ints, size: Ints, column: NDArray[Any], weight: Floats, total: Floats) -> Self:
        """Make a table of rows that lie in the pool as given, without room to grow."""
        fields = {"start": start, "size": size, "total": total, "column": column, "weight": weight}
        return cls(**fields, capacity=size.copy(), end=len(column), n_columns=n_columns)  # type: ignore[call-arg]

    def copy(self) -> Self:
        """Return a table with arrays of its own, as long as what they hold."""
        make, arguments = self.__reduce__()
        result: Self = make(*arguments)
        return result

    def __reduce__(self) -> Any:
        given = (self.n_columns, self.start, self.size, self.column[: self.end], self.weight[: self.end], self.total)
        return rebuilt, (type(self), given, self.capacity)

    def packed(self) -> Self:
        """Return a table with arrays of its own, row after row without room between; weights of 0 stay."""
        (_, column, weight), size = self.entries(), self.size.copy()
        return self.from_arrays(
            self.n_columns, size.cumsum() - size, size, column.astype(self.column.dtype), weight, self.total.copy()
        )

    def freeze(self) -> None:
        """Make the arrays read-only for Python: what kernels trust is not changed by mistake."""
        for array in (self.start, self.size, self.total, self.column, self.weight, self.capacity):
            array.setflags(write=False)

    def clear(self) -> None:
        """Forget everything; the pool stays."""
        self.size[:], self.capacity[:], self.total[:], self.end = 0, 0, 0.0, 0

    def add(self, key: Ints, number: Floats) -> None:
        """Add numbers by ascending keys row * n_columns + column."""
        row, column = np.divmod(key, max(self.n_columns, 1))
        wanted = places_for_sums(self, row)
        if wanted > 0:
            self.lengthen(wanted)
        add_sums(self, row, column, number)

    def entries(self, n_rows: int | None = None) -> tuple[Ints, Ints, Floats]:
        """Return row, column and weight of all entries of the first n_rows rows (all by default), in order."""
        n = self.n_rows if n_rows is None else n_rows
        size = self.size[:n]
        ends = size.cumsum()
        where = (self.start[:n] - ends + size).repeat(size) + np.arange(ends[-1] if n else 0)
        return np.arange(n).repeat(size), self.column[where].astype(np.int64), self.weight[where]

    @property
    def n_rows(self) -> int:
        return len(self.start)

    def lengthen(self, places: int) -> None:
        """Make the pool longer by at least `places`; doubling keeps the cost per count constant."""
        n = len(self.column)
        length = n + max(places, n, 64)
        column, weight = np.zeros(length, self.column.dtype), np.zeros(length)
        column[:n], weight[:n] = self.column, self.weight[:n]
        self.weight = weight
        self.column = column  # last: kernels take its length for that of both

    def lengthen_to(self, places: int) -> None:
        """Make the pool at least so long."""
        if len(self.column) < places:
            self.lengthen(int(places) - len(self.column))

    def matrix(self, n_rows: int | None = None) -> sp.csr_array:
        """Return the first n_rows rows (all by default) as a SciPy matrix."""
        n = self.n_rows if n_rows is None else n_rows
        _, column, weight = self.entries(n)
        indptr = np.concatenate([[0], np.cumsum(self.size[:n])])
        return sp.csr_array((weight, column.astype(np.int32), indptr), shape=(n, self.n_columns))


def rebuilt(cls: type[GrowingRows], given: Any, capacity: Ints) -> GrowingRows:
    """Make a table with arrays of its own: of a copy, or where it was sent from another process."""
    n_columns, *arrays = given
    table = cls.from_arrays(n_columns, *(array.copy() for array in arrays))
    table.capacity = capacity.copy()
    return table


class Table(GrowingRows, Bundle):
    """Rows of (column, weight), each sorted by column; the distribution of a row is weight / total.

    A row of size 0 has no visits and stands for the uniform distribution. Kernels get the same object.
    """

    start: Int1  # (rows,) where a row begins in the pool
    size: Int1  # (rows,) how many outcomes it holds
    total: Float1  # (rows,) sum of its weights
    column: Int32s1  # (pool,) outcomes, ascending in each row
    weight: Float1  # (pool,)
    capacity: Int1  # (rows,) how many outcomes fit before the row must move
    end: int  # first free place of the pool
    n_columns: int

    @classmethod
    def of(cls, matrix: sp.csr_array) -> "Table":
        """Make a table with the rows of a sparse matrix."""
        rows = canonical(matrix)
        size, total = np.diff(rows.indptr).astype(np.int64), np.asarray(rows.sum(axis=1), dtype=np.float64)
        column, weight = rows.indices.astype(np.int32), rows.data.astype(np.float64)
        return cls.from_arrays(rows.shape[1], rows.indptr[:-1].astype(np.int64), size, column, weight, total)

    @classmethod
    def of_keys(cls, shape: tuple[int, int], key: Ints, number: Floats, known: sp.csr_array | None = None) -> "Table":
        """Make a table from ascending keys row * columns + column and their numbers. known: rows that are appended.

        Totals are added up from the first outcome of a row to its last, as kernels do: of numbers that are not whole, another order
        would give other bits.
        """
        row, column = np.divmod(key, max(shape[1], 1))
        size = np.bincount(row, minlength=shape[0]).astype(np.int64)
        total = np.bincount(row, weights=number, minlength=shape[0]).astype(np.float64)
        column, weight = column.astype(np.int32), number.astype(np.float64)
        if known is not None:
            more = cls.of(known)
            size, total = np.concatenate([size, more.size]), np.concatenate([total, more.total])
            column, weight = np.concatenate([column, more.column]), np.concatenate([weight, more.weight])
        return cls.from_arrays(shape[1], size.cumsum() - size, size, column, weight, total)

    @classmethod
    def dense(cls, rows: Floats) -> "Table":
        """Make a table with the rows of an array."""
        row, column = rows.nonzero()
        size, weight = np.bincount(row, minlength=len(rows)), rows[row, column]
        start, total, filled = size.cumsum() - size, np.zeros(len(rows)), size > 0
        total[filled] = np.add.reduceat(weight, start[filled])
        return cls.from_arrays(rows.shape[1], start, size, column.astype(np.int32), weight, total)

    @classmethod
    def empty(cls, n_rows: int, n_columns: int) -> "Table":
        """Make a table of rows without visits."""
        rows = (np.zeros(n_rows, dtype=np.int64), np.zeros(n_rows, dtype=np.int64))
        return cls.from_arrays(n_columns, *rows, np.empty(0, dtype=np.int32), np.empty(0), np.zeros(n_rows))


class KeyTable(GrowingRows, Bundle):
    """A table with one row per team, whose columns are the keys row * columns + column of another table."""

    start: Int1
    size: Int1
    total: Float1
    column: Int1
    weight: Float1
    capacity: Int1
    end: int
    n_columns: int

    @classmethod
    def of(cls, size: Ints, key: Ints, amount: Floats, n_columns: int) -> "KeyTable":
        """Make a table of the keys of teams that lie one after the other, size[i] of team i."""
        owner = np.arange(len(size)).repeat(size)
        total: Floats = np.bincount(owner, weights=amount, minlength=len(size)).astype(np.float64)
        return cls.from_arrays(n_columns, size.cumsum() - size, size.copy(), key.copy(), amount.copy(), total)


# -------------------------------------------------------------------------------- kernels, of a Table or a KeyTable


@kernel
def find(table, r, column):
    """Return the place in the pool where `column` stands in row r, or would stand."""
    columns = table.column
    lo = table.start[r]
    hi = lo + table.size[r]
    while lo < hi:
        middle = (lo + hi) // 2
        if columns[middle] < column:
            lo = middle + 1
        else:
            hi = middle
    return lo


def add_to_row(table, r, column, amount):
    """Add to the weight of `column` in row r, keeping the row sorted. The caller has made the pool long enough."""
    columns, weights, sizes = table.column, table.weight, table.size
    start, n = table.start[r], sizes[r]
    lo = find(table, r, column)
    table.total[r] += amount
    if lo < start + n and columns[lo] == column:
        weights[lo] += amount
        return
    if n == table.capacity[r]:  # move the row to the end of the pool, with twice the room
        target = table.end
        table.capacity[r] = 2 * n + 2
        table.end = target + 2 * n + 2
        for j in range(n):
            columns[target + j] = columns[start + j]
            weights[target + j] = weights[start + j]
        table.start[r] = target
        lo += target - start
        start = target
    for j in range(start + n, lo, -1):
        columns[j] = columns[j - 1]
        weights[j] = weights[j - 1]
    columns[lo] = column
    weights[lo] = amount
    sizes[r] = n + 1


add = unit(types.none, Table, types.int64, types.int64, types.float64)(add_to_row)
add_key = unit(types.none, KeyTable, types.int64, types.int64, types.float64)(renamed(add_to_row, "add_key"))


@unit(types.none, Table, types.int64, types.int64, types.float64)
def take(table, r, column, amount):
    """Subtract an amount from the weight of `column` in row r; at most that weight, since a file may be inconsistent."""
    columns, weights = table.column, table.weight
    lo, last = find(table, r, column), table.start[r] + table.size[r] - 1
    if lo > last or columns[lo] != column:
        return
    amount = min(amount, weights[lo])
    table.total[r] -= amount
    weights[lo] -= amount
    if weights[lo] == 0.0:
        for j in range(lo, last):
            columns[j] = columns[j + 1]
            weights[j] = weights[j + 1]
        table.size[r] -= 1


@kernel
def places_for_sums(table, rows):
    """Return how many places the pool lacks for further outcomes. rows: (n,) ascending, the row of each outcome.

    A row that grows by m outcomes needs at most 4 (size + m) + 8 places, each time it moves to twice its room.
    """
    wanted, i = 0, 0
    while i < rows.size:
        j = i
        while j < rows.size and rows[j] == rows[i]:
            j += 1
        wanted += 4 * (table.size[rows[i]] + j - i) + 8
        i = j
    return wanted - (table.column.size - table.end)


@kernel
def add_sums(table, rows, columns, amounts):
    """Add sparse sums to a Table: amounts[i] to the weight of columns[i] in rows[i]."""
    for i in range(rows.size):
        add(table, rows[i], columns[i], amounts[i])


@kernel
def growth(entries, rows, columns, steps):
    """Return how many places of a pool suffice for counting some steps, if a full row moves to twice its room."""
    return min(4 * (entries + steps) + 8 * min(rows, steps), rows * (4 * columns + 8))


# ------------------------------------------------------------------------------------------------- beliefs


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
    closed: int  # 1: only the stored outcomes of a row are possible, also those of weight 0
