"""Sparse tables of rows: true probabilities, or counts that grow in place."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cede import _kernels
from cede._base.arrays import Floats, Ints, canonical
from cede._kernels import Pool


@dataclass(eq=False)
class Table:
    """Rows of (column, weight), each sorted by column; the distribution of a row is weight / total.

    A row without outcomes has not been seen yet and stands for the uniform distribution. Rows lie in one pool with room to
    grow: counting one more step costs what that step changes, not the size of the table.
    """

    start: Ints  # (rows,) where a row begins in the pool
    size: Ints  # (rows,) how many outcomes it holds
    total: Floats  # (rows,) sum of its weights
    column: NDArray[np.int32] | Ints  # (pool,)
    weight: Floats  # (pool,)
    room: Ints  # (rows,) outcomes that fit before the row must move
    end: Ints  # (1,) first free place of the pool
    n_columns: int

    @classmethod
    def of(cls, matrix: sp.csr_array) -> "Table":
        """A table with the rows of a sparse matrix."""
        rows = canonical(matrix)
        size = np.diff(rows.indptr).astype(np.int64)
        return cls(
            start=rows.indptr[:-1].astype(np.int64),
            size=size,
            total=np.asarray(rows.sum(axis=1), dtype=np.float64),
            column=rows.indices.astype(np.int32),
            weight=rows.data.astype(np.float64),
            room=size.copy(),
            end=np.array([rows.nnz], dtype=np.int64),
            n_columns=rows.shape[1],
        )

    @classmethod
    def dense(cls, rows: Floats) -> "Table":
        """A table with the rows of an array."""
        return cls.of(sp.csr_array(rows))

    @classmethod
    def empty(cls, n_rows: int, n_columns: int) -> "Table":
        """Nothing seen yet."""
        zeros = [np.zeros(n_rows, dtype=np.int64) for _ in range(3)]
        pool = (np.empty(0, dtype=np.int32), np.empty(0))
        return cls(zeros[0], zeros[1], np.zeros(n_rows), *pool, zeros[2], np.zeros(1, dtype=np.int64), n_columns)

    def copy(self) -> "Table":
        """Its own arrays, as long as what they hold."""
        end = self.end[0]
        rows = (self.start.copy(), self.size.copy(), self.total.copy())
        return Table(*rows, self.column[:end].copy(), self.weight[:end].copy(), self.room.copy(), self.end.copy(), self.n_columns)

    def packed(self) -> "Table":
        """Its own arrays, row after row without room between; weights of 0 stay."""
        sums, size = self.sums(), self.size.copy()
        end = np.array([len(sums.row)], dtype=np.int64)
        column: NDArray[Any] = sums.column.astype(self.column.dtype)
        return Table(np.cumsum(size) - size, size, self.total.copy(), column, sums.amount, size.copy(), end, self.n_columns)

    def clear(self) -> None:
        """Nothing seen; the room stays."""
        self.size[:], self.room[:], self.total[:], self.end[:] = 0, 0, 0.0, 0

    def add(self, sums: "Sums") -> None:
        """Add sparse sums."""
        wanted = _kernels.sums_wanted(self.pool, sums.row)
        if wanted > 0:
            self.lengthen(wanted)
        _kernels.add_sums(self.pool, sums.row, sums.column, sums.amount)

    def sums(self, n_rows: int | None = None) -> "Sums":
        """What the first n_rows rows (all by default) hold."""
        n = self.n_rows if n_rows is None else n_rows
        size = self.size[:n]
        before = np.cumsum(size) - size
        where = np.repeat(self.start[:n] - before, size) + np.arange(size.sum())
        return Sums(np.repeat(np.arange(n), size), self.column[where].astype(np.int64), self.weight[where])

    @property
    def n_rows(self) -> int:
        return len(self.start)

    @property
    def pool(self) -> Pool:
        return Pool(self.start, self.size, self.total, self.column, self.weight, self.room, self.end)

    def lengthen(self, places: int) -> None:
        """Make the pool longer by at least `places`; doubling keeps the cost per count constant."""
        extra = max(places, len(self.column), 64)
        column = np.concatenate([self.column, np.zeros(extra, self.column.dtype)])
        self.weight = np.concatenate([self.weight, np.zeros(extra)])
        self.column = column  # last: kernels take its length for that of both

    def matrix(self, n_rows: int | None = None) -> sp.csr_array:
        """The first n_rows rows (all by default) as a SciPy matrix."""
        n = self.n_rows if n_rows is None else n_rows
        sums = self.sums(n)
        indptr = np.concatenate([[0], np.cumsum(self.size[:n])])
        return sp.csr_array((sums.amount, sums.column.astype(np.int32), indptr), shape=(n, self.n_columns))


@dataclass(frozen=True, eq=False)
class Sums:
    """Sparse sums: amounts by row and column, both ascending. They add in any order."""

    row: Ints  # (n,)
    column: Ints  # (n,)
    amount: Floats  # (n,)

    @classmethod
    def of(cls, matrix: sp.csr_array) -> "Sums":
        rows = canonical(matrix)
        row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        return cls(row, rows.indices.astype(np.int64), rows.data.astype(np.float64))

    @classmethod
    def none(cls) -> "Sums":
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))

    def matrix(self, n_rows: int, n_columns: int) -> sp.csr_array:
        indptr = np.searchsorted(self.row, np.arange(n_rows + 1))
        return sp.csr_array((self.amount, self.column.astype(np.int32), indptr), shape=(n_rows, n_columns))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written. Kernels are compiled for each type of array, and this is a type of its own."""
    view = array.view()
    view.flags.writeable = False
    return view
