"""A prior for the rows of a layer that models suggest, and how strong it is: chosen by predicting every batch before it is counted.

The prior of row r is Dir(prior / n + alpha m(r)): the plain `prior` pseudo-counts, spread over n outcomes, and alpha more where a
model expects them, m(r). Each *owner* of rows (an agent, or the environment) has its own alpha, and its own choice of a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy import special

from cede._base.arrays import Floats, Ints, canonical
from cede._kernels.tables import Table

ALPHAS = np.array([0.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0])  # strengths that are compared; 0: the plain prior
KINDS = {"agents": ("softmax", "tree"), "environment": ("trees",)}  # models of each layer
ROWS_PER_ALPHA = 3  # a prior has at most one pseudo-count for so many rows that were seen

Block = tuple[int, int]  # the rows of one owner, from and to; empty if nothing is modelled there


@dataclass(frozen=True, eq=False)
class LayerPrior:
    """What models make of a layer, as fitted last."""

    counts: sp.csr_array  # (rows, columns) that they were fitted to
    bases: sp.csr_array  # (kinds * rows, columns) m(r) of every kind of model; a row of zeros: it says nothing
    scores: Floats  # (owners, kinds, alphas) log-probability of all batches, each predicted before it was counted
    episodes: int  # that had been counted

    @property
    def kinds(self) -> list[sp.csr_array]:
        """Return m of each kind of model, (rows, columns)."""
        rows = self.counts.shape[0]
        return [self.bases[i * rows : (i + 1) * rows] for i in range(self.scores.shape[1])]


def new_prior(shape: tuple[int, int], owners: int, kinds: int) -> LayerPrior:
    """Return a prior before anything was fitted."""
    nothing = sp.csr_array((kinds * shape[0], shape[1]), dtype=np.float64)
    return LayerPrior(sp.csr_array(shape, dtype=np.float64), nothing, np.zeros((owners, kinds, len(ALPHAS))), 0)


def entries(matrix: sp.csr_array, row: Ints, column: Ints) -> Floats:
    """Return some entries of a sparse matrix, (n,)."""
    found = canonical(matrix)
    key = np.repeat(np.arange(found.shape[0], dtype=np.int64), np.diff(found.indptr)) * found.shape[1] + found.indices
    wanted = row * found.shape[1] + column
    at = np.searchsorted(key, wanted).clip(0, max(len(key) - 1, 0))
    if not len(key):
        return np.zeros(len(wanted))
    return np.where(key[at] == wanted, found.data[at].astype(np.float64), 0.0)


def log_predictive(seen: sp.csr_array, batch: sp.csr_array, base: sp.csr_array, prior: float) -> Floats:
    """Return the log-probability of a batch under the posterior of its rows, for each of ALPHAS.

    Dirichlet-multinomial, in the order in which things came: with a = prior / columns + alpha m + seen in each row,
    sum_r log Gamma(A) / Gamma(A + N) + sum_j log Gamma(a_j + n_j) / Gamma(a_j), where A and N are the sums of a and n.
    """
    found = sp.coo_array(batch)
    some = found.data > 0
    row, column = (one[some].astype(np.int64) for one in found.coords)
    n = found.data[some].astype(np.float64)
    rows, at = np.unique(row, return_inverse=True)
    before, expected = entries(seen, row, column), entries(base, row, column)
    visits, mass = (np.asarray(one.sum(axis=1)).ravel()[rows] for one in (seen, base))
    more = np.bincount(at, weights=n, minlength=len(rows))
    result = np.empty(len(ALPHAS))
    for i, alpha in enumerate(ALPHAS):
        a, total = prior / seen.shape[1] + alpha * expected + before, prior + alpha * mass + visits
        gain = (special.gammaln(a + n) - special.gammaln(a)).sum()
        result[i] = gain + (special.gammaln(total) - special.gammaln(total + more)).sum()
    return result


def scored(last: LayerPrior, counts: sp.csr_array, blocks: Sequence[Block], prior: float) -> Floats:
    """Return the scores of all models and strengths after a batch: what was counted since they were fitted."""
    result = last.scores.copy()
    for owner, (begin, end) in enumerate(blocks):
        seen, now = last.counts[begin:end], counts[begin:end]
        if end > begin and last.bases.nnz:
            for kind, base in enumerate(last.kinds):
                result[owner, kind] += log_predictive(seen, now - seen, base[begin:end], prior)
    return result


def strength(prior: LayerPrior, owner: int, block: Block, least: float) -> tuple[int, float]:
    """Return which kind of model an owner's prior is made of, and its alpha; 0 if it is not worth having.

    The best score decides. alpha is at most a third of the rows that were seen: a model is not to be more certain than the data it
    was fitted to. least: an alpha below it is 0, since models that hardly predict are seldom right where nothing was seen.
    """
    kind, best = np.unravel_index(int(np.argmax(prior.scores[owner])), prior.scores[owner].shape)
    seen = int((np.diff(canonical(prior.counts[block[0] : block[1]]).indptr) > 0).sum())
    alpha = min(float(ALPHAS[best]), seen / ROWS_PER_ALPHA)
    return int(kind), alpha if alpha >= least else 0.0


def expected_counts(prior: LayerPrior, blocks: Sequence[Block], least: float) -> Table:
    """Return the pseudo-counts alpha m of all rows, for the kernels; a table without rows if there are none."""
    rows, columns = prior.counts.shape
    parts, bases, end = [], prior.kinds, 0
    for owner, block in enumerate(blocks):
        kind, alpha = strength(prior, owner, block, least)
        parts.append(sp.csr_array((block[0] - end, columns)))
        parts.append(alpha * bases[kind][block[0] : block[1]])
        end = block[1]
    parts.append(sp.csr_array((rows - end, columns)))
    whole = sp.csr_array(sp.vstack([part for part in parts if part.shape[0]], format="csr"))
    whole.eliminate_zeros()
    return Table.of(whole) if whole.nnz else Table.empty(0, columns)
