"""Sparse tables of rows: true probabilities, or counts that grow in place."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cede._check import Floats
from cede._kernels import Pool

Ints = NDArray[np.int64]


@dataclass(eq=False)
class Table:
    """Rows of (column, weight), each sorted by column; the distribution of a row is weight / total.

    A row without outcomes has not been seen yet and stands for the uniform distribution. Rows lie in one pool with room to
    grow: counting one more step costs what that step changes, not the size of the table.
    """

    start: Ints  # (rows,) where a row begins in the pool
    size: Ints  # (rows,) how many outcomes it holds
    total: Floats  # (rows,) sum of its weights
    column: NDArray[np.int32]  # (pool,)
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

    @property
    def n_rows(self) -> int:
        return len(self.start)

    @property
    def pool(self) -> Pool:
        return Pool(self.start, self.size, self.total, self.column, self.weight, self.room, self.end)

    def lengthen(self, places: int) -> None:
        """Make the pool longer by at least `places`; doubling keeps the cost per count constant."""
        extra = max(places, len(self.column), 64)
        self.column = np.concatenate([self.column, np.zeros(extra, np.int32)])
        self.weight = np.concatenate([self.weight, np.zeros(extra)])

    def matrix(self, n_rows: int | None = None) -> sp.csr_array:
        """The first n_rows rows (all by default) as a SciPy matrix."""
        n = self.n_rows if n_rows is None else n_rows
        size = self.size[:n]
        indptr = np.concatenate([[0], np.cumsum(size)])
        where = np.repeat(self.start[:n] - indptr[:-1], size) + np.arange(indptr[-1])
        return sp.csr_array((self.weight[where], self.column[where], indptr), shape=(n, self.n_columns))


def canonical(matrix: sp.csr_array) -> sp.csr_array:
    """The same matrix, columns sorted, without duplicates and stored zeros: equal tables have equal arrays."""
    result = sp.csr_array(matrix, copy=True)
    result.sum_duplicates()
    result.eliminate_zeros()
    return result


def distinct_rows(matrix: sp.csr_array) -> tuple[sp.csr_array, Ints]:
    """The different rows of a canonical matrix, in order of first occurrence, and which of them each row is."""
    known: dict[bytes, int] = {}
    which = np.empty(matrix.shape[0], dtype=np.int64)
    first: list[int] = []
    for r in range(matrix.shape[0]):
        part = slice(matrix.indptr[r], matrix.indptr[r + 1])
        key = matrix.indices[part].tobytes() + matrix.data[part].tobytes()
        which[r] = known.setdefault(key, len(known))
        if which[r] == len(first):
            first.append(r)
    return matrix[first], which
