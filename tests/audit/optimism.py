"""The reference for plans over confidence sets: the least, or the greatest, cost of the best or of a given policy."""

from dataclasses import replace

import numpy as np

from audit.averages import limit
from audit.reference import backward, chain, first_policy
from audit.sets import low


def worst_or_best(model, t, after, agents, environment, sign):
    """Return what options cost, (S, D, D), if agents and environment are as good (sign 1) or as bad (-1) as their sets allow.

    Also how they are then: acts (D, D, S, A) and tables (D, S, A, S). after: (S, D).
    """
    modes = len(model.names)
    ahead = model.enter[:, None] + model.factor * after  # (S, D)
    one = slice_of(environment, model.period[t])
    follow, tables = low(one, np.broadcast_to(ahead.T[:, None, None, :], (modes, *one.counts.shape)), sign)  # (D, S, A)
    slots = model.slot[t]
    if (slots == slots[0]).all():  # nobody acts by who was in control before: one row of slots is all
        slots = slots[:1]
    mean, acts = low(slice_of(agents, slots), np.broadcast_to(model.cost + follow, (len(slots), *follow.shape)), sign)
    mean, acts = (np.broadcast_to(one, (modes, *one.shape[1:])) for one in (mean, acts))
    q = model.control[:, None, :] + model.switch + np.transpose(mean, (2, 0, 1))
    return q, acts, tables


def slice_of(layer, at):
    parts = {name: getattr(layer, name)[at] for name in ("counts", "allowed", "places", "known", "truth", "width")}
    return replace(layer, **parts)


def robust(model, agents, environment, policy=None, sign=1.0):
    """Return the value over sets, (L + 1, S, D), or (S, D) with a discount: of the best policy (sign 1), or of a given one."""
    if model.horizon is not None:
        return backward(model, policy, lambda m, t, after: worst_or_best(m, t, after, agents, environment, sign)[0])[0]
    value = None
    given = first_policy(model) if policy is None else np.asarray(policy).astype(int)
    acts, tables = model.acts[0], model.tables[0]
    for _ in range(300):
        cost, chances = chain(model, given, acts, tables)
        new = np.linalg.solve(np.eye(len(cost)) - model.factor * chances, cost).reshape(given.shape)
        q, new_acts, new_tables = worst_or_best(model, 0, new, agents, environment, sign)
        now = np.take_along_axis(q, given[:, :, None], axis=2)[:, :, 0]
        size = np.abs(np.where(np.isfinite(q), q, 0.0)).max() + 1e-300
        if policy is None:
            better = (q.min(axis=2) < now - 1e-13 * size) & ~model.end[:, None]
            given = np.where(better, q.argmin(axis=2), given)
        acts, tables = new_acts, new_tables
        if value is not None and np.abs(new - value).max() <= 1e-12 * size:
            return new
        value = new
    return value


def robust_gain(model, agents, environment, policy=None, sign=1.0):
    """Return the least (sign 1) or greatest average cost over sets, or None where the iteration does not settle to one number."""
    return gain_and_pace(model, agents, environment, policy, sign)[0]


def gain_and_pace(model, agents, environment, policy=None, sign=1.0):
    """Return the same, and how slowly runs settle: the part of a difference that is left after a step, 1 for ever."""
    given = first_policy(model) if policy is None else np.asarray(policy).astype(int)
    n, modes = given.shape
    value = np.zeros((n, modes))
    for _ in range(30):  # some damped steps, to begin near the answer
        q, _, _ = worst_or_best(model, 0, value, agents, environment, sign)
        new = q.min(axis=2) if policy is None else np.take_along_axis(q, given[:, :, None], axis=2)[:, :, 0]
        value = 0.5 * (value + new)
        value = value - value.mean()
    last = None
    for _ in range(100):
        q, acts, tables = worst_or_best(model, 0, value, agents, environment, sign)
        if policy is None:
            given = q.argmin(axis=2)
        cost, chances = chain(model, given, acts, tables)
        far = limit(chances)
        gain = far @ cost
        size = np.abs(cost).max() + 1e-300
        if np.ptp(gain) > 1e-9 * size:
            return None, 1.0
        bias = np.linalg.solve(np.eye(len(cost)) - chances + far, cost - gain).reshape(n, modes)
        same = np.abs(bias - value).max() <= 1e-10 * (size + np.abs(bias).max())
        value = bias
        if last is not None and same and abs(gain.mean() - last) <= 1e-12 * size:
            return float(gain.mean()), float(np.sort(np.abs(np.linalg.eigvals(chances - far)))[-1])
        last = float(gain.mean())
    return None, 1.0
