"""The reference for averages: gains of chains with any number of classes, and the best policy by Howard's policy iteration."""

import numpy as np
from scipy.sparse.csgraph import connected_components

from audit.reference import chain, first_policy, price, steps_of


def classes(chances):
    """Return the recurrent classes of a Markov chain, a list of arrays of places."""
    count, label = connected_components(chances > 0, connection="strong")
    leaves = {int(label[i]) for i, j in np.argwhere(chances > 0) if label[i] != label[j]}
    return [np.flatnonzero(label == one) for one in range(count) if one not in leaves]


def limit(chances):
    """Return the limit of the averages of the powers of a chain, (N, N), by stationary distributions and linear systems."""
    n, found = len(chances), np.zeros_like(chances)
    recurrent = classes(chances)
    inside = np.concatenate(recurrent)
    outside = np.setdiff1d(np.arange(n), inside)
    for places in recurrent:
        part = chances[np.ix_(places, places)]
        system = np.vstack([(part.T - np.eye(len(places)))[:-1], np.ones(len(places))])
        steady = np.linalg.solve(system, np.eye(len(places))[-1])
        found[np.ix_(places, places)] = steady
        if len(outside):
            into = chances[np.ix_(outside, places)].sum(axis=1)
            ends = np.linalg.solve(np.eye(len(outside)) - chances[np.ix_(outside, outside)], into)
            found[np.ix_(outside, places)] = ends[:, None] * steady
    return found


def gains(cost, chances):
    """Return the average cost of a step in the long run from each place, (N,)."""
    return limit(chances) @ cost


def best_average(model):
    """Return the least average cost from each place, (S, D), and a policy that has it (Puterman 1994, section 9.2)."""
    policy, possible = first_policy(model), model.possible
    c, go = price(model, 0, model.acts[0], model.tables[0]), steps_of(model, model.acts[0], model.tables[0])
    size = np.abs(c[np.isfinite(c)]).max() + 1e-300
    for _ in range(500):
        cost, chances = chain(model, policy)
        far = limit(chances)
        gain = far @ cost
        bias = np.linalg.solve(np.eye(len(cost)) - chances + far, cost - gain)
        g, h = gain.reshape(policy.shape), bias.reshape(policy.shape)
        later = np.where(possible, np.einsum("pdsn,nd->spd", go, g), np.inf)
        now = np.take_along_axis(later, policy[:, :, None], axis=2)[:, :, 0]
        better = later.min(axis=2) < now - 1e-11 * size
        if better.any():
            policy = np.where(better, later.argmin(axis=2), policy)
            continue
        same = later <= later.min(axis=2, keepdims=True) + 1e-11 * size
        q = np.where(same & possible, c + np.einsum("pdsn,nd->spd", go, h), np.inf)
        now = np.take_along_axis(q, policy[:, :, None], axis=2)[:, :, 0]
        better = q.min(axis=2) < now - 1e-11 * max(size, np.abs(h).max())
        if not better.any():
            return g, policy
        policy = np.where(better, q.argmin(axis=2), policy)
    raise RuntimeError("policy iteration does not end")


def reachable(model):
    """Return which places (s, prev) a run can come to from its start, whatever is chosen, (S, D)."""
    go = steps_of(model, model.acts[0], model.tables[0])
    seen = np.zeros(model.control.shape, dtype=bool)
    todo = [(int(s), model.start_mode) for s in np.flatnonzero(model.start > 0)]
    while todo:
        s, prev = todo.pop()
        if seen[s, prev]:
            continue
        seen[s, prev] = True
        if not model.end[s]:
            todo += [(int(n), int(d)) for d in np.flatnonzero(model.possible[s, prev]) for n in np.flatnonzero(go[prev, d, s] > 0)]
    return seen


def end_components(model):
    """Return how many sets of places there are in which a run can be kept for ever, of those that can be reached (maximal ones)."""
    go, modes = steps_of(model, model.acts[0], model.tables[0]), len(model.names)
    seen = reachable(model)
    moves = {
        (int(s), int(prev), int(d)): {(int(n), int(d)) for n in np.flatnonzero(go[prev, d, s] > 0)}
        for s, prev in np.argwhere(seen)
        for d in np.flatnonzero(model.possible[s, prev])
    }
    while True:
        size = model.control.size
        graph = np.zeros((size, size))
        for (s, prev, _), to in moves.items():
            for n, d in to:
                graph[s * modes + prev, n * modes + d] = 1.0
        _, label = connected_components(graph, connection="strong")
        label = label.reshape(seen.shape)
        with_move = {(s, prev) for s, prev, _ in moves}
        kept = {move: to for move, to in moves.items() if all(label[one] == label[move[:2]] and one in with_move for one in to)}
        if len(kept) == len(moves):
            return len({int(label[move[:2]]) for move in moves})
        moves = kept
