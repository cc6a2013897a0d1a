"""Makes problems: number i of a seed has the features that features.py chooses, and is random otherwise."""

import numpy as np

from audit.features import features_of
from audit.problems import Problem

UNITS = {"unit 1": (0, 0), "unit tiny": (-9, -6), "unit huge": (6, 12)}  # powers of ten
DISCOUNTS = {
    "finite discounted": (0.1, 0.5, 0.9, 0.999),
    "discounted": (0.3, 0.9, 0.99),
    "discounted near 1": (0.999, 0.9999, 0.99999),
}


def rows(rng, shape, allowed=None, sparse=0.4):
    """Return random distributions; allowed: which outcomes may have weight."""
    p = rng.random(shape) * (rng.random(shape) > sparse)
    if rng.random() < 0.2:
        p = np.ceil(p * 2)  # rows with equal weights, and certain ones
    if allowed is not None:
        p = p * allowed
    empty = p.sum(axis=-1) == 0
    first = np.zeros(shape)
    first[..., rng.integers(shape[-1])] = 1.0
    if allowed is not None:
        first = np.broadcast_to(allowed, shape) * 1.0
    p = np.where(empty[..., None], first, p)
    return p / p.sum(axis=-1, keepdims=True)


def amounts(rng, shape, has):
    """Return random costs; in whole numbers where there shall be ties."""
    most = 2 if rng.random() < 0.8 else 20
    found = rng.integers(0, 3, shape).astype(float) if "ties" in has else rng.random(shape) * most
    return found * rng.choice([-1.0, 1.0], shape) if "negative costs" in has else found


def problem(seed, number, features=None):
    """Return problem `number` of a seed. features: instead of those that it would have."""
    has = features_of(seed, number) if features is None else frozenset(features)
    rng = np.random.default_rng([seed, number, 3])
    n = 1 if "one state" in has else int(rng.integers(3 if "unreachable states" in has and "ends" in has else 2, 5))
    a = int(rng.integers(1, 4))
    m = 1 if "one agent" in has else 6 if "six agents" in has else int(rng.integers(2, 4))
    least = 2 if "environment by time" in has else 1
    horizon = int(rng.integers(least, 5)) if {"finite", "finite discounted"} & has else None
    discount = None if {"finite", "average"} & has else float(rng.choice(DISCOUNTS[(has & DISCOUNTS.keys()).pop()]))
    unit = 10.0 ** rng.integers(*(end + i for i, end in enumerate(UNITS[(has & UNITS.keys()).pop()])))
    told = {"horizon": horizon, "discount": discount, "features": has, "seed": seed, "number": number}
    told |= places(rng, has, n, a, horizon)
    told |= costs(rng, has, n, a, m, unit, told["terminal"], horizon)
    told |= team(rng, has, n, a, m, horizon)
    told |= handovers(rng, has, n, a, m, unit)
    told |= unknown_of_team(np.random.default_rng([seed, number, 4]), has, told, unit)
    return Problem(**told)


def places(rng, has, n, a, horizon):
    """Where the system goes: transition, periods, start, ends, and what is declared of it."""
    ends = (int(rng.integers(n)),) if "ends" in has else ()
    free = [s for s in range(n) if s not in ends]
    hidden = [free[-1]] if "unreachable states" in has else []
    seen = np.array([s not in hidden for s in range(n)])
    periods = None
    if "environment by time" in has:
        tables = int(rng.integers(2, min(horizon, 3) + 1))
        periods = rng.permutation(np.concatenate([np.arange(tables), rng.integers(tables, size=horizon - tables)]))
    tables = 1 if periods is None else int(periods.max()) + 1
    case = to = None
    sparse = 0.2 if "average" in has and rng.random() < 0.7 else 0.5
    if "structure" in has and periods is None and rng.random() < 0.8:  # cases of an environment that varies are refused
        allowed = {s: np.flatnonzero(seen) if seen[s] else np.arange(n) for s in range(n)}
        sizes = rng.integers(1, seen.sum() + 1, size=int(rng.integers(1, 4)))
        case = rng.integers(len(sizes), size=(n, a))
        to = np.full((n, a, sizes.max()), -1)
        by_case = [[rows(rng, (size,), sparse=0.3) for size in sizes] for _ in range(tables)]
        transition = np.zeros((tables, n, a, n))
        for s, b in np.ndindex(n, a):
            size = sizes[case[s, b]]
            to[s, b, :size] = rng.permutation(allowed[s])[:size]
            for table in range(tables):
                transition[table, s, b, to[s, b, :size]] = by_case[table][case[s, b]]
    else:
        transition = rows(rng, (tables, n, a, n), np.where(seen[:, None, None], seen, True)[None], sparse)
    may_start = seen * np.array([s not in ends for s in range(n)])
    start = rows(rng, (n,), may_start)
    return {"transition": transition, "periods": periods, "start": start, "terminal": ends, "case": case, "to": to}


def costs(rng, has, n, a, m, unit, ends, horizon):
    """What the environment charges, and what of that must be learned."""
    many = int(rng.integers(2, 4)) if "random costs" in has else 1
    cost = amounts(rng, (n, a, many), has) * unit
    labels = None
    if "learned costs" in has and "structure" in has and rng.random() < 0.7:
        labels = rng.integers(2, size=(n, a))
        for label in range(2):
            cost[labels == label] = amounts(rng, (many,), has) * unit
    cost[list(ends)] = 0.0 if horizon is None or rng.random() < 0.5 else float(amounts(rng, (), has)) * unit
    enter = None
    if "arrival costs" in has:
        enter = amounts(rng, (n,), has) * unit
        enter[0 if n == 1 else rng.integers(n)] += unit
    told = {"cost": cost, "enter": enter}
    if "learned costs" in has:
        unknown = rng.random((n, a)) < 0.7
        unknown[list(ends)] = False
        free = [s for s in range(n) if s not in ends]
        unknown[free[0], rng.integers(a)] = True
        enter_unknown = None if enter is None else rng.random(n) < 0.5
        seen = np.concatenate([cost.ravel(), [0.0] if enter is None else enter])
        low, high = float(seen.min()), float(seen.max())
        told |= {"unknown": unknown, "enter_unknown": enter_unknown, "cost_labels": labels}
        told["cost_range"] = (float(low - 0.5 * unit * rng.integers(2)), float(high + 0.5 * unit))
    return told


def unknown_of_team(rng, has, told, unit):
    """What costs of control and of hand-overs must be learned."""
    found = {}
    for name, feature in (("control", "learned control costs"), ("switch", "learned hand-over costs")):
        if feature not in has:
            continue
        costs = told[name]
        unknown = np.isfinite(costs) & (rng.random(costs.shape) < 0.6)
        if not unknown.any():
            unknown.flat[np.flatnonzero(np.isfinite(costs))[0]] = True
        low, high = costs[np.isfinite(costs)].min(), costs[np.isfinite(costs)].max()
        ends = float(low - 0.5 * unit * rng.integers(2)), float(high + 0.5 * unit)
        if costs.ndim == (2 if name == "control" else 3):  # nobody has control where episodes end
            unknown[list(told["terminal"])] = False
        found |= {f"{name}_unknown": unknown, f"{name}_range": ends} if unknown.any() else {}
    return found


def team(rng, has, n, a, m, horizon):
    """Who acts how, what is declared and what is known of that."""
    kinds = [None, *(["time"] if "agents by time" in has else []), *(["prev_agent"] if "agents by previous agent" in has else [])]
    varies = [kinds[rng.integers(len(kinds))] for _ in range(m)]
    for kind in kinds[1:]:
        if kind not in varies:
            varies[rng.integers(m)] = kind
    labels = {}
    if "structure" in has:
        labels = {i: rng.integers(2, size=n) for i in range(m) if rng.random() < 0.7}
    policies = []
    for i in range(m):
        policy = rows(rng, ({None: 1, "time": horizon, "prev_agent": m}[varies[i]], n, a), sparse=0.3)
        for label in np.unique(labels.get(i, ())):
            alike = np.flatnonzero(labels[i] == label)
            policy[:, alike] = policy[:, alike[:1]]
        policies.append(policy)
    known = tuple(i for i in range(m) if rng.random() < 0.5) or (0,) if "known agents" in has else ()
    if "ties" in has and m > 1 and varies[0] == varies[1]:
        policies[1] = policies[0]  # two who act alike
        labels.pop(1, None)
    return {
        "policies": tuple(policies),
        "varies": tuple(varies),
        "agent_labels": tuple(labels.items()),
        "known_agents": known,
        "known_environment": "known environment" in has,
    }


def handovers(rng, has, n, a, m, unit):
    """What control and hand-overs cost, which of them are possible, and how long they take."""
    by_state = "costs by state" in has
    control = amounts(rng, (n, m) if by_state else (m,), has) * unit * 0.5
    switch = amounts(rng, (n, m, m) if by_state else (m, m), has) * unit * 0.3
    if rng.random() < 0.8:
        switch = switch * (1 - np.eye(m))
    start_agent = int(rng.integers(m))
    possible = np.ones((m, m), dtype=bool)
    if "infinite hand-overs" in has:
        possible = rng.random((m, m)) < 0.6
        possible[np.arange(m), rng.integers(m, size=m)] = True
        if possible.all():
            possible[0, 1] = False
            possible[0, 0] = True
    if "unreachable agents" in has:
        away = int(rng.choice([i for i in range(m) if i != start_agent]))
        possible[:, away] = False
        possible[away, away] = True
        possible[[i for i in range(m) if i != away], [i for i in range(m) if i != away]] = True
    if "locks" in has:  # which hand-overs are possible depends on the state, but after everybody somebody may act
        free = rng.random((n, m, m)) < 0.6
        for s, prev in np.ndindex(n, m):
            free[s, prev, rng.choice(np.flatnonzero(possible[prev]))] = True
        possible = possible & free
    switch = np.where(possible, switch, np.inf)
    delays, own = [0] * m, [None] * m
    if "take-over delays" in has:
        for i in rng.permutation(m)[: 1 if m > 3 else 2]:
            delays[i] = int(rng.integers(1, 3))
            if "own take-over policy" in has and (rng.random() < 0.5 or all(policy is None for policy in own)):
                own[i] = rows(rng, (n, a))
    told = {"control": control, "switch": switch, "start_agent": start_agent, "delays": tuple(delays)}
    return told | {"on_takeover": tuple(own)}
