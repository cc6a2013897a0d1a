"""The reference for confidence sets: counts, radii as the documents print them, and the least mean within a set.

The rows of a layer are laid out by place: an agents' layer has places (slot, s) and A outcomes, an environment's layer has places
(period, s, a) and S outcomes. `low` finds the least mean over L1 balls, intervals and balls of relative entropy.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.special import gammaln


@dataclass(frozen=True, eq=False)
class Layer:
    """The sets of one layer, by place. n: outcomes."""

    counts: Any  # (..., n) of the case of each place, by what the outcome means there
    allowed: Any  # (..., n) which outcomes are possible
    rows: int  # how many rows the layer has: cases, where they are declared
    places: Any  # (...) of how many places each case consists
    known: Any  # (...) whether the row is known
    truth: Any  # (..., n) what it is then
    kind: str = ""  # "l1", "interval", "kl"
    width: Any = None  # (...)
    scale: float = 1.0  # of intervals

    @property
    def visits(self):
        return self.counts.sum(axis=-1)

    @property
    def centre(self):
        uniform = self.allowed / self.allowed.sum(axis=-1, keepdims=True)
        seen = np.where(self.visits[..., None] > 0, self.counts / np.maximum(self.visits, 1e-300)[..., None], uniform)
        return np.where(self.known[..., None], self.truth, seen)

    def exact(self):
        """Return the sets that hold nothing but their centres."""
        return replace(self, kind="l1", width=np.zeros(self.visits.shape))


def layers(problem, model, log, weights=None):
    """Return the layers of agents and environment after a log of steps (t, s, prev, mode, a, s_next, ...).

    weights: for each step, how much it counts for the agents and for the environment, where not 1.
    """
    weights = [(1.0, 1.0)] * len(log) if weights is None else weights
    n, a = problem.n_states, problem.n_actions
    alone = np.arange(n)
    told = {i: labels for i, labels in problem.agent_labels if i not in problem.known_agents}  # of who is known nothing is learned
    labels = [np.unique(told.get(i, alone), return_inverse=True)[1] for i in range(problem.n_members)]
    of_slot, known, truth = [], [], []
    extra = [(i, policy[None]) for i, policy in enumerate(problem.on_takeover) if policy is not None and problem.delays[i]]
    for i, policy in [*enumerate(problem.policies), *extra]:
        member = len(of_slot) < sum(len(one) for one in problem.policies)
        of_slot += [labels[i] if member else alone] * len(policy)
        known += [member and i in problem.known_agents] * len(policy)
        truth += [*policy]
    of_slot = np.array(of_slot)
    agents = np.zeros((len(of_slot), n, a))
    tables = len(problem.transition)
    case = np.arange(n * a).reshape(n, a) if problem.case is None else np.unique(problem.case, return_inverse=True)[1].reshape(n, a)
    to = np.broadcast_to(np.arange(n), (n, a, n)) if problem.to is None else problem.to
    outcomes = np.zeros((tables, case.max() + 1, to.shape[2]))
    for (t, s, prev, mode, action, then, *_), (of_agent, of_environment) in zip(log, weights, strict=True):
        now = 0 if model.horizon is None else t
        slot = model.slot[now, prev, mode]
        agents[slot, of_slot[slot] == of_slot[slot][s], action] += of_agent
        outcomes[model.period[now], case[s, action], np.flatnonzero(to[s, action] == then)[0]] += of_environment
    environment, allowed = np.zeros((tables, n, a, n)), np.zeros((n, a, n), dtype=bool)
    for s, b in np.ndindex(n, a):
        real = np.flatnonzero(to[s, b] >= 0)
        allowed[s, b, to[s, b, real]] = True
        environment[:, s, b, to[s, b, real]] = outcomes[:, case[s, b], real]
    of_case = np.bincount(case.ravel())[case]
    alike = np.array([[np.sum(one == label) for label in one] for one in of_slot])
    rows = sum(len(np.unique(one)) for one, told in zip(of_slot, known, strict=True) if not told)
    if not any(i not in problem.known_agents for i, _ in problem.agent_labels):
        rows += n * len(problem.known_agents)  # more than need be: who is known counts, too, as one (S, A) table
    everywhere = np.full((tables, n, a), problem.known_environment)
    return (
        Layer(
            agents, np.ones_like(agents, dtype=bool), rows, alike, np.repeat(np.array(known)[:, None], n, axis=1), np.array(truth)
        ),
        Layer(
            environment,
            np.broadcast_to(allowed, environment.shape),
            tables * (case.max() + 1),
            np.broadcast_to(of_case, everywhere.shape),
            everywhere,
            problem.transition,
        ),
    )


def with_sets(layer, belief, t, delta, scale, values):
    """Return a layer with its sets. t: steps seen. values: of "kl-value", how many functions are meant."""
    n, m, rows = layer.visits, layer.allowed.sum(axis=-1), layer.rows
    seen = np.maximum(n, 1)
    if belief in ("printed", "same-form"):
        kind, width = "l1", scale * np.sqrt(2 * (7 * np.log(t) + np.log(rows) + (m + 1) * np.log(2) - np.log(delta)) / seen)
    elif belief == "appendix":
        kind, width = "l1", scale * np.sqrt(14 * m * np.log(2 * t * rows / delta) / seen)
    elif belief == "weissman":
        x = np.log(rows * seen * (seen + 1) / delta) + (m + 1) * np.log(2)
        kind, width = "l1", scale * np.sqrt(2 * x / seen)
    elif belief == "bernstein":
        x = np.log(6 * rows * m * seen * (seen + 1) / delta)
        kind, width = "interval", np.where(n > 0, scale**2 * x / seen, np.inf)
    elif belief == "kl-value":
        rho = np.log(2 * rows * values / delta) + np.log(np.sqrt(np.pi)) + gammaln(seen + 1) - gammaln(seen + 0.5)
        kind, width = "kl", np.where(n > 0, scale**2 * rho / seen, np.inf)
    elif belief == "kl":
        kind, width = "kl", np.where(n > 0, scale**2 * (np.log(2 * rows / delta) + surprise(layer.counts, m)) / seen, np.inf)
    else:
        raise ValueError(belief)
    return replace(layer, kind=kind, width=np.where(layer.known, 0.0, width), scale=scale)


def surprise(counts, possible):
    """Return -log m(N) - n H(N / n), the price of not knowing the support, of each row."""
    result = np.zeros(counts.shape[:-1])
    for place in np.ndindex(result.shape):
        row, m = counts[place], int(possible[place])
        n, k = row.sum(), int((row > 0).sum())
        if n == 0:
            continue
        seen = row[row > 0]
        terms = [
            -np.log(j * (j + 1.0))
            + log_choose(m - k, j - k)
            - log_choose(m, j)
            + gammaln(j / 2)
            - gammaln(j / 2 + n)
            + np.sum(gammaln(seen + 0.5) - gammaln(0.5))
            for j in range(k, m + 1)
        ]
        result[place] = -np.logaddexp.reduce(terms) + np.sum(seen * np.log(seen / n))
    return result


def log_choose(n, k):
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def low(layer, values, sign=1.0):
    """Return the least mean of values within each set, and the rows that have it; with sign -1 the greatest mean.

    values: (..., n), with any further axes before those of the layer.
    """
    shape = np.broadcast_shapes(values.shape, layer.counts.shape)
    v = sign * np.broadcast_to(values, shape).reshape(-1, shape[-1])
    q = np.broadcast_to(layer.centre, shape).reshape(v.shape)
    allowed = np.broadcast_to(layer.allowed, shape).reshape(v.shape)
    width = np.broadcast_to(layer.width, shape[:-1]).ravel()
    v = np.where(allowed, v, np.inf)
    if layer.kind == "interval":
        p = least_interval(q, width, v, layer.scale)
    else:
        p = (least_l1 if layer.kind == "l1" else least_kl)(q, width, v)
    mean = sign * np.sum(np.where(p > 0, p * np.where(allowed, v, 0.0), 0.0), axis=1)
    return mean.reshape(shape[:-1]), p.reshape(shape)


def least_l1(q, width, v):
    """Return the rows of least mean at L1 distance `width` at most: onto the best outcome, from the worst upward."""
    place = np.arange(len(q))
    order = np.argsort(v, axis=1, kind="stable")
    p = np.take_along_axis(q, order, axis=1)
    budget = np.minimum(width / 2, 1.0 - p[:, 0])
    after = np.cumsum(p[:, ::-1], axis=1)[:, ::-1] - p  # mass of worse outcomes
    away = np.clip(budget[:, None] - after, 0.0, p)
    away[:, 0] = 0.0
    p = p - away
    p[:, 0] += away.sum(axis=1)
    result = np.empty_like(p)
    result[place[:, None], order] = p
    return result


def least_interval(q, width, v, scale):
    """Return the rows of least mean within intervals of sqrt(2 p (1 - p) width) + 3 width / scale around each outcome."""
    width = np.where(np.isfinite(width), width, scale)[:, None]
    half = np.sqrt(2 * q * (1 - q) * width) + 3 * width / scale
    bottom, top = np.clip(q - half, 0.0, 1.0), np.where(np.isfinite(v), np.clip(q + half, 0.0, 1.0), 0.0)
    order = np.argsort(v, axis=1, kind="stable")
    room = np.take_along_axis(top - bottom, order, axis=1)
    left = 1.0 - bottom.sum(axis=1, keepdims=True)
    more = np.clip(left - (np.cumsum(room, axis=1) - room), 0.0, room)
    result = np.empty_like(q)
    np.put_along_axis(result, order, np.take_along_axis(bottom, order, axis=1) + more, axis=1)
    return result


def least_kl(q, width, v):
    """Return the rows of least mean with KL(q || p) <= width, by bisection of the one unknown of the stationary point."""
    result = np.zeros_like(q)
    best = v.argmin(axis=1)
    least = v[np.arange(len(v)), best]
    finite = np.where(np.isfinite(v), v, least[:, None])
    apart = np.where(q > 0, finite - least[:, None], 0.0)
    span = apart.max(axis=1)
    u = np.where(np.isfinite(v), finite - least[:, None], 0.0) / np.where(span > 0, span, 1.0)[:, None]
    free = (width > 0) & (span > 0)
    result[~free] = q[~free]  # certain, or all that was seen is among the best
    anything = free & ~np.isfinite(width)
    result[anything, best[anything]] = 1.0
    rest = np.flatnonzero(free & np.isfinite(width))
    if not len(rest):
        return result
    q, u, rho = q[rest], u[rest], width[rest]

    logs = np.where(q > 0, u, 1.0)  # where q is 0 the value does not matter

    def rows_at(x):  # u + x > 0 wherever q > 0
        above = logs + x[:, None]
        weight = q / above
        total = weight.sum(axis=1)
        return weight / total[:, None], np.einsum("ij,ij->i", q, np.log(above)) + np.log(total)

    bottom, top = np.full(len(rest), -300.0), np.full(len(rest), 60.0)  # logarithms of x
    for _ in range(64):
        middle = (bottom + top) / 2
        more = rows_at(np.exp(middle))[1] > rho
        bottom, top = np.where(more, middle, bottom), np.where(more, top, middle)
    found, _ = rows_at(np.exp(top))
    nothing = (q * (u <= 0)).sum(axis=1) == 0  # nothing was seen of the best outcomes: some mass may be there
    edge, loss = rows_at(np.where(nothing, 0.0, 1.0))
    spare = nothing & (loss < rho)
    found[spare] = edge[spare] * np.exp(loss[spare] - rho[spare])[:, None]
    found[spare, best[rest][spare]] += 1.0 - np.exp(loss[spare] - rho[spare])
    result[rest] = found
    return result


def least_by_programme(q, width, v, kind, scale=1.0):
    """Return the least mean of one row by linear programming, for L1 balls and intervals: a check of the formulas above."""
    n = len(q)
    if kind == "interval":
        half = np.sqrt(2 * q * (1 - q) * width) + 3 * width / scale
        ends = list(zip(np.clip(q - half, 0, 1), np.clip(q + half, 0, 1), strict=True))
        found = linprog(v, A_eq=np.ones((1, n)), b_eq=[1], bounds=ends)
    else:  # p - q = up - down
        matrix = np.vstack([np.hstack([np.eye(n), -np.eye(n), np.eye(n)]), np.hstack([np.ones(n), np.zeros(2 * n)])])
        total = np.hstack([np.zeros(n), np.ones(2 * n)])[None]
        found = linprog(np.hstack([v, np.zeros(2 * n)]), total, [width], matrix, np.hstack([q, 1.0]))
    return float(found.fun)
