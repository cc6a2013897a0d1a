"""Types of arrays, and helpers for sparse matrices: canonical form, distinct rows."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Policy = NDArray[np.int16]  # (L, S, D): policy[t, s, prev_agent] is the agent to put in control


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only, and return it."""
    array.setflags(write=False)
    return array


def for_kernels(policy: NDArray[np.integer]) -> Policy:
    """Return a switching policy in the one form that kernels are compiled for: int16, in C order, writable. Copied if needed."""
    return np.require(policy, np.int16, ["C", "W"])


def canonical(matrix: sp.csr_array) -> sp.csr_array:
    """Return a copy of a matrix with sorted columns, no duplicates and no stored zeros: equal matrices get equal arrays."""
    result = sp.csr_array(matrix, copy=True)
    result.sum_duplicates()
    result.eliminate_zeros()
    return result


def distinct_rows(matrix: sp.csr_array) -> tuple[sp.csr_array, Ints]:
    """Find the different rows of a canonical matrix of n rows.

    Return them as a matrix, in the order of first occurrence, and an (n,) array with the row of that matrix which equals each row.
    """
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
