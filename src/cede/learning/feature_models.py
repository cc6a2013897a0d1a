"""Models of what comes next, from features of the states: probabilities for every row of a layer, also those that were never seen.

Of the environment, one tree for each feature of the next state (transition_rules.py), drawn one after the other. Of an agent, a
tree over features and slot, or softmax on one-hot features: log-probabilities that add up over the features.
"""

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import optimize, special

from cede._base.arrays import Floats, Ints
from cede.learning.features import Features
from cede.learning.rules import Steps, Tree, Variable, certain_first, counts_by, grow, grow_from, leaves, loglik, route, score
from cede.learning.transition_rules import (
    MOST,
    Moves,
    TransitionRules,
    compressed,
    given_by,
    moves_of,
    steps_for,
    variables_of,
)

ENOUGH = 30  # visits in which nothing else came, from which on a leaf counts as certain
FEWEST = 4  # rows that a part of a tree must hold to be divided further: where each row is different, there is no rule
MOST_VALUES = 64  # of a feature that trees may ask for
HALF = 0.5  # added to the count of everything that came in a leaf
RARE = 1e-3  # outcomes of a row that are less likely than this are left out
PENALTY = 1.0  # of the squares of all weights of a softmax, halved: a standard normal prior
ITERATIONS, ACCURACY = 100, 1e-6  # at which the search for these weights stops


def environment_model(features: Features, counts: sp.csr_array, n_actions: int) -> sp.csr_array:
    """Return m(s, a), (S * A, S), from counts of the same shape. Rows of which the rules say nothing are zeros."""
    nothing = sp.csr_array(counts.shape, dtype=np.float64)
    if not counts.nnz:
        return nothing
    drawn = draw_likely(find_rules(features, moves_of(counts, n_actions), n_actions), n_actions)
    return nothing if drawn is None else as_distributions(sp.coo_array((drawn[2], drawn[:2]), shape=counts.shape))


def find_rules(features: Features, moves: Moves, n_actions: int) -> TransitionRules:
    """Find a rule for each feature of the next state, as `find_transition_rules` does, but quicker, and not to be read.

    The features that are best explained by the state and the action come first. Of two trees, one that begins with the action and
    one that may begin with anything, the better one by `score` is taken, and again the better one of it and `certain_first`.
    """
    variables, number = variables_of(features, [str(a) for a in range(n_actions)]), count()
    shares, n, action = [], float(moves.visits.sum()), features.codes.shape[1]
    wide = is_wide(features)
    never = np.concatenate([wide, [False], wide, np.zeros(len(wide), dtype=bool)])  # in the order of the variables
    for f in range(features.codes.shape[1]):
        steps = without_tests(steps_for(features, moves, n_actions, f, ()), never)
        alone = float(loglik(counts_by(np.zeros_like(steps.value), steps.value, steps.visits))[0])
        left = sum(float(loglik(leaf.counts)) for leaf in leaves(grow_from(steps, variables, number, action, FEWEST)))
        shares.append(left / alone if alone < 0 else 0.0)
    order = tuple(int(f) for f in np.argsort(shares, kind="stable"))
    trees: dict[int, Tree] = {}
    for f in order:
        steps = without_tests(steps_for(features, moves, n_actions, f, tuple(trees)), never)
        ways = [grow(steps, variables, number, fewest_places=FEWEST), grow_from(steps, variables, number, action, FEWEST)]
        first = max(ways, key=lambda tree: score(tree, n, len(variables)))
        again = certain_first(steps, variables, number, ENOUGH, first, FEWEST)
        trees[f] = max(first, again, key=lambda tree: score(tree, n, len(variables)))
    return TransitionRules(features, variables, order, tuple(trees[f] for f in range(len(order))))


def is_wide(features: Features) -> NDArray[np.bool_]:
    """Return whether each feature has so many values that trees do not ask for it, (F,): it tells rows apart more than alike."""
    return np.array([len(np.unique(column)) > MOST_VALUES for column in features.codes.T])


def without_tests(steps: Steps, never: NDArray[np.bool_]) -> Steps:
    """Return steps in which some variables, (variables,), are always the same: no test can ask for them."""
    return replace(steps, given=np.where(never, 0, steps.given))


def draw_likely(rules: TransitionRules, n_actions: int) -> tuple[Ints, Ints, Floats] | None:
    """Return all that is likely to come: (place, next state, probability), (n,) each; None if it is too much.

    What a rule says nothing of, because it has a value that was never seen, is left out with its whole place.
    """
    features, n_states = rules.features, len(rules.features.codes)
    place, chance = np.arange(n_states * n_actions), np.ones(n_states * n_actions)
    codes, silent = np.full((len(place), features.codes.shape[1]), -1, dtype=np.int64), np.zeros(len(place), dtype=bool)
    for i, f in enumerate(rules.order):
        before = features.codes[place // n_actions]
        at = route(rules.trees[f], given_by(before, place % n_actions, codes, rules.order[:i]))
        silent[place[at < 0]] = True
        rows, found, likely = outcomes_of_leaves(features, f, leaves(rules.trees[f]), at, before, chance)
        if len(rows) > MOST:
            return None
        place, codes, chance = place[rows], codes[rows], likely
        codes[:, f] = found
    number = compressed(np.concatenate([features.codes, codes]))
    state_of = np.full(int(number.max()) + 1, -1)
    state_of[number[:n_states]] = np.arange(n_states)
    to = state_of[number[n_states:]]
    known = (to >= 0) & ~silent[place]
    return place[known], to[known], chance[known]


def outcomes_of_leaves(
    features: Features, f: int, found: list[Any], at: Ints, before: Ints, chance: Floats
) -> tuple[Ints, Ints, Floats]:
    """Return what may come of feature f: (row, code, probability), (n,) each, for rows in which leaves `at` were met.

    before: (rows, F) codes of the state. chance: (rows,) the probability of all that was drawn before.
    """
    numbers = features.numbers
    code_of = np.argsort(numbers)[: int(np.isfinite(numbers).sum())]  # codes of numbers, ascending; NaN, of words, come last
    rows, codes, likely = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for leaf in found:
        here, p = np.flatnonzero(at == leaf.number), (leaf.counts + HALF) / (leaf.counts + HALF).sum()
        row, label = np.repeat(here, len(p)), np.tile(leaf.labels, len(here))
        code = before[row, leaf.copied] if leaf.kind == "copy" else label
        if leaf.kind == "change":
            new = numbers[before[row, f]] + label
            place = np.searchsorted(numbers[code_of], new).clip(0, len(code_of) - 1)
            code = np.where(numbers[code_of[place]] == new, code_of[place], -1)
        both = chance[row] * np.tile(p, len(here))
        kept = (code >= 0) & (both >= RARE)
        rows, codes, likely = [*rows, row[kept]], [*codes, code[kept]], [*likely, both[kept]]
    return np.concatenate(rows), np.concatenate(codes), np.concatenate(likely)


def as_distributions(weights: sp.coo_array) -> sp.csr_array:
    """Return a matrix with rows that sum to 1, or are zeros."""
    result = sp.csr_array(weights, dtype=np.float64)
    result.sum_duplicates()
    total = np.asarray(result.sum(axis=1)).ravel()
    result.data /= np.repeat(total, np.diff(result.indptr))
    return result


def tree_model(features: Features, counts: sp.csr_array) -> sp.csr_array:
    """Return m of an agent, (slots * S, A), from counts of the same shape, by a tree over features and slot."""
    if not counts.nnz:
        return sp.csr_array(counts.shape, dtype=np.float64)
    n_states, n_actions = len(features.codes), counts.shape[1]
    slots = counts.shape[0] // n_states
    now = [Variable(one, features.values, numeric) for one, numeric in zip(features.names, features.numeric, strict=True)]
    variables = (*now, Variable("slot", tuple(range(slots)), numeric=True))
    slot, state = np.divmod(np.arange(counts.shape[0]), n_states)
    given, found = np.concatenate([features.codes[state], slot[:, None]], axis=1), sp.coo_array(counts)
    row, action = (one.astype(np.int64) for one in found.coords)
    nothing = np.zeros((len(row), 0), dtype=bool)
    steps = Steps(given[row], action, None, nothing, row, found.data.astype(np.float64))
    tree = grow(without_tests(steps, np.append(is_wide(features), False)), variables, count())
    at, table = route(tree, given), np.zeros(counts.shape)
    for leaf in leaves(tree):
        weights = np.full(n_actions, HALF)
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
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS, "ftol": ACCURACY})
    return sp.csr_array(special.softmax(whole @ found.x.reshape(-1, n_actions), axis=1))


def one_hot(features: Features, slots: int) -> sp.csr_array:
    """Return a column for each value of each feature, for each slot, and one of ones: (slots * S, columns) of 0 and 1."""
    n_states = len(features.codes)
    slot, state = np.divmod(np.arange(slots * n_states), n_states)
    columns = [np.unique(column, return_inverse=True)[1][state] for column in features.codes.T]
    columns += [np.zeros(len(slot), dtype=np.int64)] + ([slot] if slots > 1 else [])
    firsts = np.cumsum([0, *(int(column.max()) + 1 for column in columns)])
    place = np.stack([first + column for first, column in zip(firsts, columns, strict=False)], axis=1)
    ends = np.arange(len(slot) + 1) * len(columns)
    return sp.csr_array((np.ones(place.size), place.ravel(), ends), shape=(len(slot), int(firsts[-1])))
