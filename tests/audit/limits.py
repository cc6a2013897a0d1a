"""The reference for limits of control: occupation measures, and a linear programme over them."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from audit.averages import limit, reachable
from audit.reference import at_end, chain, price, scale_of, steps_of


def shares_of(model, policy):
    """Return how many steps each member acts in, (members,): in an episode; discounted, or part of all, without horizon."""
    return np.bincount(model.acting, occupation(model, policy).sum(axis=0), minlength=len(model.names))


def occupation(model, policy):
    """Return how many steps each mode has control in each state, (S, D): in an episode; discounted, or part of all."""
    n, modes = model.control.shape
    steps, here = np.zeros((n, modes)), np.zeros((n, modes))
    here[:, model.start_mode] = model.start
    if model.horizon is None:
        cost, chances = chain(model, policy)
        far = limit(chances) if model.factor == 1.0 else np.linalg.inv(np.eye(len(cost)) - model.factor * chances)
        visits = (here.ravel() @ far).reshape(n, modes)
        for s, prev in np.ndindex(n, modes):
            steps[s, policy[s, prev]] += 0.0 if model.end[s] else visits[s, prev]
        return steps
    for t in range(model.horizon):
        go, later = steps_of(model, model.acts[t], model.tables[t]), np.zeros((n, modes))
        for s, prev in np.ndindex(n, modes):
            if not model.end[s] and here[s, prev] > 0:
                d = policy[t, s, prev]
                steps[s, d] += here[s, prev]
                later[:, d] += here[s, prev] * go[prev, d, s]
        here = later
    return steps


def best_within(model, most, least, slack=0.0):
    """Return the least expected cost within limits by name, or None if nothing is; slack: by how much limits are wider."""
    n, modes = model.control.shape
    times = model.horizon or 1
    seen = reachable(model) if model.horizon is None else np.ones((n, modes), dtype=bool)
    moves = [
        (t, s, prev, d)
        for t in range(times)
        for s in np.flatnonzero(~model.end)
        for prev, d in np.argwhere(model.possible[s])
        if seen[s, prev]
    ]
    places = n * modes
    size = scale_of(model) or 1.0
    cost, rows, columns, values = np.zeros(len(moves)), [], [], []
    right = np.zeros(times * places)
    ahead = model.factor if model.horizon is None else 1.0
    step = [price(model, t, model.acts[t], model.tables[t]) for t in range(times)]
    go = [steps_of(model, model.acts[t], model.tables[t]) for t in range(times)]
    for i, (t, s, prev, d) in enumerate(moves):
        weight = 1.0 if model.horizon is None else model.factor**t
        ends = at_end(model, model.horizon - t - 1) if model.horizon is not None else np.zeros(n)
        cost[i] = weight * (step[t][s, prev, d] + model.factor * go[t][prev, d, s] @ np.where(model.end, ends, 0.0))
        rows.append(t * places + s * modes + prev)
        columns.append(i)
        values.append(1.0)
        then = 0 if model.horizon is None else t + 1
        if then < times:
            for to in np.flatnonzero((go[t][prev, d, s] > 0) & ~model.end):
                rows.append(then * places + to * modes + d)
                columns.append(i)
                values.append(-ahead * go[t][prev, d, s, to])
    if model.horizon is None and model.factor == 1.0:
        rows += [times * places] * len(moves)
        columns += range(len(moves))
        values += [1.0] * len(moves)
        right = np.append(right, 1.0)
    else:
        total = 1.0 if model.horizon is not None else 1.0 - model.factor  # so that all weights sum to about 1
        for s in range(n):
            right[s * modes + model.start_mode] = model.start[s] * total
        cost = cost / total
    acts = model.acting[[d for _, _, _, d in moves]]
    bounds = []
    for limits, sign in ((most, 1.0), (least, -1.0)):
        for name, share in limits.items():
            mine = (acts == model.names.index(name)).astype(float)
            bounds.append(sign * (mine - share) - slack)
    matrix = coo_array((values, (rows, columns)), shape=(len(right), len(moves))).tocsr()
    above = (np.array(bounds), np.zeros(len(bounds))) if bounds else (None, None)
    answers = [linprog(cost / size, *above, matrix, right, method="highs", options=TIGHT)]
    if answers[0].status != 0:  # infeasible, or too hard for this tolerance
        answers.append(linprog(cost / size, *above, matrix, right, method="highs-ds", options={"presolve": False}))
    found = next((one for one in answers if one.status == 0), None)
    if found is None and any(one.status != 2 for one in answers):
        raise RuntimeError("no answer to a linear programme")
    return None if found is None else float(found.fun) * size


TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
