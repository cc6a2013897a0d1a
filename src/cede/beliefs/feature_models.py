"""Models of a layer from features of the states: probabilities for every row, also for rows without visits.

Environment: one tree for each feature of the next state. Agent: a tree over features and slot, or softmax on one-hot features.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import optimize, special

from cede._base.arrays import Floats
from cede.beliefs.transition_trees import (
    HALF,
    TransitionTrees,
    acts_of,
    draw_all,
    grow_for_each_feature,
    moves_of,
    state_variables,
    states_with,
    steps_for,
    variables_of,
)
from cede.beliefs.trees import RuleData, Tree, Variable, certain_first, grow, grow_from, leaves, route, score
from cede.problem.features import Features

ENOUGH = 30  # visits with one outcome only, from which on a leaf counts as certain
FEWEST = 4  # places below which a node is not split: a tree with a leaf for each place would not generalise
MOST_VALUES = 64  # of a feature that trees may ask for
RARE = 1e-3  # outcomes of a row that are less likely than this are left out
PENALTY = 1.0  # of the squares of all weights of a softmax, halved: a standard normal prior
ITERATIONS, ACCURACY = 100, 1e-6  # at which the search for these weights stops


def environment_model(features: Features, counts: sp.csr_array) -> sp.csr_array:
    """Return m(s, a), (S * A, S), from counts of the same shape. Rows without a prediction are zeros."""
    places, n_actions = np.arange(counts.shape[0]), counts.shape[0] // counts.shape[1]
    drawn = draw_all(transition_trees(features, counts, n_actions), places, n_actions, RARE) if counts.nnz else None
    if drawn is None:
        return sp.csr_array(counts.shape, dtype=np.float64)
    place, codes, _, chance = drawn
    to, silent = states_with(features, codes), np.isin(place, place[(codes < 0).any(axis=1)])
    known = (to >= 0) & ~silent
    result = sp.csr_array(sp.coo_array((chance[known], (place[known], to[known])), shape=counts.shape), dtype=np.float64)
    result.sum_duplicates()
    result.data /= np.repeat(np.asarray(result.sum(axis=1)).ravel(), np.diff(result.indptr))
    return result


def transition_trees(features: Features, counts: sp.csr_array, n_actions: int) -> TransitionTrees:
    """Grow the trees of the environment.

    Grow one tree that begins with the action and one that may begin with any test; take the one with the higher `score`, or its
    `certain_first`, if that is better.
    """
    variables, number = variables_of(features, [str(a) for a in range(n_actions)]), count()
    moves, action, wide = moves_of(counts, n_actions), len(features.names), is_wide(features)
    never = np.concatenate([wide, [False], wide, np.zeros(len(wide), dtype=bool)])  # in the order of the variables

    def first(data: RuleData) -> Tree:
        return grow_from(data, variables, number, action, FEWEST)

    def better(trees: Sequence[Tree]) -> Tree:
        return max(trees, key=lambda tree: score(tree, float(moves.visits.sum()), len(variables)))

    def best(data: RuleData) -> Tree:
        tree = better([grow(data, variables, number, fewest_places=FEWEST), first(data)])
        return better([tree, certain_first(data, variables, number, ENOUGH, tree, FEWEST)])

    def data(f: int, drawn: tuple[int, ...]) -> RuleData:
        return without_tests(steps_for(features, moves, n_actions, f, drawn), never)

    return grow_for_each_feature(features, variables, data, first, best)


def is_wide(features: Features) -> NDArray[np.bool_]:
    """Return whether each feature has too many values for trees to ask for it, (F,)."""
    return np.array([len(np.unique(column)) > MOST_VALUES for column in features.codes.T])


def without_tests(data: RuleData, never: NDArray[np.bool_]) -> RuleData:
    """Return the data with some variables, (variables,), made constant, so that no test splits by them."""
    return replace(data, given=np.where(never, 0, data.given))


def tree_model(features: Features, counts: sp.csr_array) -> sp.csr_array:
    """Return m of an agent, (slots * S, A), from counts of the same shape, by a tree over features and slot."""
    if not counts.nnz:
        return sp.csr_array(counts.shape, dtype=np.float64)
    slot, state = np.divmod(np.arange(counts.shape[0]), len(features.codes))
    variables = (*state_variables(features), Variable("slot", tuple(range(int(slot.max()) + 1)), numeric=True))
    tree = grow(without_tests(acts_of(features, counts), np.append(is_wide(features), False)), variables, count())
    at, table = route(tree, np.concatenate([features.codes[state], slot[:, None]], axis=1)), np.zeros(counts.shape)
    for leaf in leaves(tree):
        weights = np.full(counts.shape[1], HALF)
        weights[leaf.labels] += leaf.counts
        table[at == leaf.number] = weights / weights.sum()
    return sp.csr_array(table)


def softmax_model(features: Features, counts: sp.csr_array) -> sp.csr_array:
    """Return m of an agent, (slots * S, A), from counts of the same shape: m(r) = softmax(x(r) W).

    x(r) are one-hot features and slot. W minimises -sum n log m + PENALTY / 2 |W|^2.
    """
    if not counts.nnz:
        return sp.csr_array(counts.shape, dtype=np.float64)
    n_actions, whole = counts.shape[1], one_hot(features, counts.shape[0] // len(features.codes))
    seen = np.flatnonzero(np.diff(counts.indptr))
    x, n = whole[seen], counts[seen].toarray().astype(np.float64)
    visits = n.sum(axis=1)

    def loss(flat: Floats) -> tuple[float, Floats]:
        w = flat.reshape(-1, n_actions)
        z = x @ w
        log_m = z - special.logsumexp(z, axis=1, keepdims=True)
        slope = x.T @ (visits[:, None] * np.exp(log_m) - n) + PENALTY * w
        return float(PENALTY / 2 * (flat @ flat) - (n * log_m).sum()), slope.ravel()

    start = np.zeros(whole.shape[1] * n_actions)
    best = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS, "ftol": ACCURACY})
    return sp.csr_array(special.softmax(whole @ best.x.reshape(-1, n_actions), axis=1))


def one_hot(features: Features, slots: int) -> sp.csr_array:
    """Return a column for each value of each feature, one of ones, and one for each slot: (slots * S, columns) of 0 and 1."""
    slot, state = np.divmod(np.arange(slots * len(features.codes)), len(features.codes))
    columns = [np.unique(column, return_inverse=True)[1][state] for column in features.codes.T]
    columns += [np.zeros_like(slot)] + ([slot] if slots > 1 else [])
    firsts = np.cumsum([0, *(int(column.max()) + 1 for column in columns)])
    place = np.stack([first + column for first, column in zip(firsts, columns, strict=False)], axis=1)
    ends = np.arange(len(slot) + 1) * len(columns)
    return sp.csr_array((np.ones(place.size), place.ravel(), ends), shape=(len(slot), int(firsts[-1])))
