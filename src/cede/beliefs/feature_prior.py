"""A prior from features of the states (`posterior_sampling(features=...)`), with fitted tables that are stored as extras.

The prior of row r is Dir(prior / n + alpha m(r)): the plain `prior` pseudo-counts, spread evenly over n outcomes, and alpha more by
the probabilities m(r) of a model. Each owner of rows (an agent, or the environment) has its own alpha and its own model. Models are
fitted again each time the number of episodes has grown by half. Before each fit, every model and every alpha is scored by its
probability of the steps counted since the last fit. Layers that are known or declared are not modelled.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import special

from cede._base.arrays import Floats, Ints, canonical
from cede._kernels.tables import Table
from cede.beliefs.extras import Extra, Extras
from cede.beliefs.feature_models import environment_model, softmax_model, tree_model
from cede.problem.features import Features
from cede.rows.stored import LayerCounts

ALPHAS = np.array([0.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0])  # strengths that are compared; 0: the plain prior
MODELS = {"agents": {"softmax": softmax_model, "tree": tree_model}, "environment": {"trees": environment_model}}  # of each layer
ROWS_PER_ALPHA = 3  # a prior has at most one pseudo-count for this number of visited rows
LEAST_ALPHA = {"agents": 10.0, "environment": 30.0}  # a weaker prior is not used
FIRST_EPISODES, FIRST_STEPS = 10, 100  # of the first fit, at least
GROWTH = 1.5  # factor of episodes between fits

Block = tuple[int, int]  # the rows of one owner, from and to; empty if they are not modelled


@dataclass(frozen=True, eq=False)
class FittedLayer:
    """The models of one layer, as they were fitted last."""

    counts: sp.csr_array  # (rows, columns) that they were fitted to
    models: sp.csr_array  # (models * rows, columns) m(r) of each model; a row of zeros: no prediction
    scores: Floats  # (owners, models, alphas) log-probability of all batches, each predicted before it was counted
    episodes: int = 0  # counted when they were fitted; 0: nothing was fitted

    def model(self, i: int, block: Block) -> sp.csr_array:
        """Return m of the rows of a block by model i."""
        first = i * self.counts.shape[0]
        return self.models[first + block[0] : first + block[1]]


@dataclass(frozen=True, eq=False)
class LayerRows:
    """The rows of one layer, and who owns them."""

    shape: tuple[int, int]  # (rows, columns)
    blocks: dict[str, Block]  # by name of the agent, or "environment"; ascending


@dataclass(frozen=True, eq=False)
class FeaturePrior:
    """The prior of one learner, or of teams with equal settings."""

    features: Features
    prior: float  # pseudo-counts of a row that are spread evenly
    steps: int  # of an episode
    layers: dict[str, LayerRows]  # by the names of MODELS
    _tables: dict[tuple[str, int], tuple[Extras, Table]] = field(default_factory=dict)

    @property
    def extras(self) -> tuple[Extra, ...]:
        """Return the declaration of all extras: for each layer the fields of `FittedLayer`."""
        result = []
        for layer, rows in self.layers.items():
            places, kinds = rows.shape[0] * rows.shape[1], len(MODELS[layer])
            tiny = float(np.nextafter(0.0, 1.0))
            result += [
                Extra(f"{layer}/episodes", int, 1, 1, 2**53),
                Extra(f"{layer}/scores", float, len(rows.blocks) * kinds * len(ALPHAS)),
                Extra(f"{layer}/counts_key", int, None, 0, places - 1, ascending=True),
                Extra(f"{layer}/counts_number", float, f"{layer}/counts_key", tiny, 2.0**62),
                Extra(f"{layer}/models_key", int, None, 0, kinds * places - 1, ascending=True),
                Extra(f"{layer}/models_number", float, f"{layer}/models_key", tiny, 1.0),
            ]
        return tuple(result)

    def next_fit(self, episodes: int) -> int:
        """Return the number of episodes at the next fit, given that at the last fit."""
        due = max(FIRST_EPISODES, ceil(FIRST_STEPS / self.steps))
        while due <= episodes:
            due = ceil(GROWTH * due)
        return due

    def is_due(self, layer: str, extras: Extras, episodes: int) -> bool:
        """Return whether the models of a layer are due for a fit after `episodes`."""
        return self.next_fit(int(extras.get(f"{layer}/episodes", [0])[0])) <= episodes

    def fit(self, layer: str, extras: Extras, counts: Callable[[], sp.csr_array], episodes: int) -> Extras:
        """Return the extras after `episodes`: with new models if this layer is due for a fit, else the same mapping.

        counts: returns the counts of the layer, (rows, columns).
        """
        if not self.is_due(layer, extras, episodes):
            return extras
        last, now = self.load(layer, extras), sp.csr_array(counts(), dtype=np.float64)
        scores = scored(last, now, list(self.layers[layer].blocks.values()), self.prior)
        return {**extras, **self.store(layer, FittedLayer(now, self.models(layer, now), scores, episodes))}

    def models(self, layer: str, counts: sp.csr_array) -> sp.csr_array:
        """Return m of each model, one below the other, (models * rows, columns), fitted to counts."""
        blocks = [block for block in self.layers[layer].blocks.values() if block[1] > block[0]]
        parts = []
        for model in MODELS[layer].values():
            parts.append(in_rows(counts.shape, [(block, model(self.features, counts[slice(*block)])) for block in blocks]))
        return sp.csr_array(sp.vstack(parts, format="csr"))

    def expected(self, layer: str, extras: Extras, owner: int = 0) -> Table:
        """Return the pseudo-counts alpha m of a layer, for the kernels; a table without rows if there are none.

        The table is cached until the mapping of extras is replaced. owner: the team, if several teams share this prior.
        """
        key = layer, owner
        if key not in self._tables or self._tables[key][0] is not extras:
            whole = self.pseudo_counts(layer, self.load(layer, extras))
            self._tables[key] = extras, Table.of(whole) if whole.nnz else Table.empty(0, whole.shape[1])
        return self._tables[key][1]

    def pseudo_counts(self, layer: str, fitted: FittedLayer) -> sp.csr_array:
        """Return alpha m of all rows, (rows, columns)."""
        chosen = self.strengths(layer, fitted).values()
        return in_rows(fitted.counts.shape, [(block, alpha * fitted.model(kind, block)) for block, kind, alpha in chosen])

    def strengths(self, layer: str, fitted: FittedLayer) -> dict[str, tuple[Block, int, float]]:
        """Return (rows, number of the model, alpha) of each owner of rows that has a prior from features."""
        result = {}
        for owner, (name, block) in enumerate(self.layers[layer].blocks.items()):
            kind, alpha = strength(fitted, owner, block, LEAST_ALPHA[layer])
            if alpha > 0.0 and block[1] > block[0]:
                result[name] = block, kind, alpha
        return result

    def in_force(self, extras: Extras) -> dict[str, tuple[str, float]]:
        """Return (model, alpha) of each owner of rows that has a prior from features, by name of the agent or "environment"."""
        result = {}
        for layer in self.layers:
            for name, (_, kind, alpha) in self.strengths(layer, self.load(layer, extras)).items():
                result[name] = (list(MODELS[layer])[kind], alpha)
        return result

    def load(self, layer: str, extras: Extras) -> FittedLayer:
        """Return the models of a layer from extras. `store` is the inverse."""
        (rows, columns), kinds = self.layers[layer].shape, len(MODELS[layer])
        scores = np.zeros((len(self.layers[layer].blocks), kinds, len(ALPHAS)))
        own = {name.removeprefix(f"{layer}/"): array for name, array in extras.items() if name.startswith(f"{layer}/")}
        if "episodes" not in own:
            return FittedLayer(sp.csr_array((rows, columns)), sp.csr_array((kinds * rows, columns)), scores)

        def matrix(name: str, n: int) -> sp.csr_array:
            key, number = own.get(f"{name}_key", np.empty(0, dtype=np.int64)), own.get(f"{name}_number", np.empty(0))
            return LayerCounts((n, columns), key, number).matrix.astype(np.float64)

        scores = own["scores"].reshape(scores.shape) if "scores" in own else scores
        return FittedLayer(matrix("counts", rows), matrix("models", kinds * rows), scores, int(own["episodes"][0]))

    def store(self, layer: str, fitted: FittedLayer) -> Extras:
        """Return the models of a layer as extras."""
        arrays: dict[str, NDArray[Any]] = {"episodes": np.array([fitted.episodes]), "scores": fitted.scores.ravel()}
        for name, matrix in (("counts", fitted.counts), ("models", fitted.models)):
            layer_counts = LayerCounts.of_matrix(matrix)
            arrays |= {f"{name}_key": layer_counts.key, f"{name}_number": layer_counts.number}
        return {f"{layer}/{name}": array for name, array in arrays.items()}


def in_rows(shape: tuple[int, int], parts: list[tuple[Block, sp.csr_array]]) -> sp.csr_array:
    """Return a matrix of this shape with matrices in some blocks of its rows, and zeros elsewhere."""
    stacked, end = [], 0
    for (first, last), part in [*parts, ((shape[0], shape[0]), sp.csr_array((0, shape[1])))]:
        stacked += [sp.csr_array((first - end, shape[1])), part]
        end = last
    result = sp.csr_array(sp.vstack([part for part in stacked if part.shape[0]], format="csr"), dtype=np.float64)
    result.eliminate_zeros()
    return result


def strength(fitted: FittedLayer, owner: int, block: Block, least: float) -> tuple[int, float]:
    """Return the model of an owner of rows with the best score, and its alpha; 0 if no prior is used.

    alpha is at most a third of the number of visited rows: a model must not be more certain than its data. alpha below `least` is
    set to 0: a model that predicts badly says little about unvisited rows.
    """
    kind, best = np.unravel_index(int(np.argmax(fitted.scores[owner])), fitted.scores[owner].shape)
    seen = int((np.diff(canonical(fitted.counts[block[0] : block[1]]).indptr) > 0).sum())
    alpha = min(float(ALPHAS[best]), seen / ROWS_PER_ALPHA)
    return int(kind), alpha if alpha >= least else 0.0


def scored(last: FittedLayer, counts: sp.csr_array, blocks: list[Block], prior: float) -> Floats:
    """Return the updated scores of all models and alphas after the batch of steps counted since the last fit."""
    result = last.scores.copy()
    for owner, (begin, end) in enumerate(blocks):
        seen, now = last.counts[begin:end], counts[begin:end]
        if end > begin and last.models.nnz:
            for kind in range(result.shape[1]):
                result[owner, kind] += log_predictive(seen, now - seen, last.model(kind, (begin, end)), prior)
    return result


def log_predictive(seen: sp.csr_array, batch: sp.csr_array, model: sp.csr_array, prior: float) -> Floats:
    """Return the log-probability of a batch under the posterior of its rows, for each of ALPHAS.

    Dirichlet-multinomial, with a = prior / columns + alpha m + seen in each row: sum_r log Gamma(A) / Gamma(A + N) + sum_j log
    Gamma(a_j + n_j) / Gamma(a_j), where A and N are the sums of a and n.
    """
    steps = sp.coo_array(batch)
    some = steps.data > 0
    row, column = (coordinate[some].astype(np.int64) for coordinate in steps.coords)
    n = steps.data[some].astype(np.float64)
    rows, at = np.unique(row, return_inverse=True)
    before, expected = entries(seen, row, column), entries(model, row, column)
    visits, mass = (np.asarray(table.sum(axis=1)).ravel()[rows] for table in (seen, model))
    more = np.bincount(at, weights=n, minlength=len(rows))
    result = np.empty(len(ALPHAS))
    for i, alpha in enumerate(ALPHAS):
        a, total = prior / seen.shape[1] + alpha * expected + before, prior + alpha * mass + visits
        gain = (special.gammaln(a + n) - special.gammaln(a)).sum()
        result[i] = gain + (special.gammaln(total) - special.gammaln(total + more)).sum()
    return result


def entries(matrix: sp.csr_array, row: Ints, column: Ints) -> Floats:
    """Return some entries of a sparse matrix, (n,)."""
    known, wanted = LayerCounts.of_matrix(matrix), row * matrix.shape[1] + column
    if not len(known.key):
        return np.zeros(len(wanted))
    at = np.searchsorted(known.key, wanted).clip(0, len(known.key) - 1)
    return np.where(known.key[at] == wanted, known.number[at], 0.0)
