"""The slow reference: what the problem means, written from the paper and the documents in plain NumPy.

A *mode* is what a switching policy chooses from: the members, and each step of a hand-over that takes time. All arrays are indexed
[t, s, prev, d, a, s_next], leaving out what is absent. Nothing of cede is imported.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Model:
    """A problem with its hand-overs written out as modes. T time steps: L, or 1 where there is no horizon."""

    tables: Any  # (T, S, A, S)
    acts: Any  # (T, D, D, S, A) [t, prev, d]: how mode d acts
    cost: Any  # (S, A)
    control: Any  # (S, D)
    switch: Any  # (S, D, D), infinite where it is not possible
    enter: Any  # (S,)
    end: Any  # (S,) whether episodes end here
    start: Any  # (S,)
    start_mode: int
    horizon: int | None
    factor: float  # the discount, or 1
    names: tuple[str, ...]  # (D,)
    acting: Any  # (D,) the member who acts
    aim: Any  # (D,) the member who has control, or is getting it
    slot: Any  # (T, D, D) [t, prev, d]: the row block of an agents' table that is used
    n_slots: int
    period: Any  # (T,)

    @property
    def possible(self):
        """Return which hand-overs are possible, (S, D, D)."""
        return np.isfinite(self.switch)

    def but(self, **changes):
        return replace(self, **changes)


def model_of(problem):
    """Return the model of a problem, from its arrays."""
    steps = problem.horizon or 1
    n, members = problem.n_states, problem.n_members
    names, acting, table, follows, first = list(problem.names), list(range(members)), list(range(members)), {}, {}
    tables = [*problem.policies]
    varies = [*problem.varies]
    for d in range(members):
        delay, own = problem.delays[d], problem.on_takeover[d]
        if not delay:
            continue
        if own is not None:
            tables.append(own[None])
            varies.append(None)
        for before in [None] if own is not None else [p for p in range(members) if p != d]:
            for step in range(1, delay + 1):
                here = len(names)
                by_whom = "" if before is None else f" from {problem.names[before]}"
                names.append(f"{problem.names[d]} (taking over{by_whom}, {step} of {delay})")
                acting.append(d if before is None else before)
                table.append(len(tables) - 1 if before is None else before)
                follows[here] = (here + 1, d) if step < delay else (None, d)
                if step == 1:
                    first |= {(p, d): here for p in range(members) if p != d and before in (None, p)}
    modes = len(names)
    switch = np.full((n, modes, modes), np.inf)
    given = np.broadcast_to(problem.switch, (n, members, members))
    for mode in range(modes):
        then, holder = follows.get(mode, (None, mode))
        if then is not None:  # in the middle of a hand-over: it goes on, at the price of staying
            staying = given[:, holder, holder]
            switch[:, mode, then] = np.where(np.isfinite(staying), staying, 0.0)
            continue
        for d in range(members):
            switch[:, mode, first.get((holder, d), d)] = given[:, holder, d]
        locked = np.isinf(given[:, acting[mode], holder])
        if (
            acting[mode] != holder and locked.any() and not locked.all()
        ):  # where it is forbidden it is not completed: this step repeats
            switch[locked, mode] = np.inf
            switch[locked, mode, mode] = np.where(np.isfinite(given[locked, holder, holder]), given[locked, holder, holder], 0.0)
    begins = np.concatenate([[0], np.cumsum([len(one) for one in tables])])
    slot = np.zeros((steps, modes, modes), dtype=int)
    for t, prev, d in np.ndindex(slot.shape):
        kind = varies[table[d]]
        slot[t, prev, d] = begins[table[d]] + (t if kind == "time" else prev if kind == "prev_agent" else 0)
    flat = np.concatenate(tables)
    period = np.zeros(steps, dtype=int) if problem.periods is None else np.asarray(problem.periods)
    return Model(
        tables=problem.transition[period],
        acts=flat[slot],
        cost=problem.cost.mean(axis=2),
        control=np.broadcast_to(problem.control, (n, members))[:, acting],
        switch=switch,
        enter=np.zeros(n) if problem.enter is None else problem.enter,
        end=np.isin(np.arange(n), problem.terminal),
        start=problem.start,
        start_mode=problem.start_agent,
        horizon=problem.horizon,
        factor=1.0 if problem.discount is None else problem.discount,
        names=tuple(names),
        acting=np.array(acting),
        aim=np.array([*range(members), *(follows[mode][1] for mode in range(members, modes))]),
        slot=slot,
        n_slots=len(flat),
        period=period,
    )


def price(model, t, acts, tables):
    """Return what a step costs, (S, D, D) [s, prev, d].

    acts: how modes act, (D, D, S, A). tables: what follows, (S, A, S), or with D before.
    """
    tables = np.broadcast_to(tables, (len(model.names), *tables.shape[-3:]))
    action = model.cost + tables @ model.enter  # (D, S, A)
    return model.control[:, None, :] + model.switch + np.einsum("pdsa,dsa->spd", acts, action)


def steps_of(model, acts, tables):
    """Return the chance to go from s to s_next, (D, D, S, S) [prev, d, s, s_next], if d acts."""
    tables = np.broadcast_to(tables, (len(model.names), *tables.shape[-3:]))
    return np.einsum("pdsa,dsan->pdsn", acts, tables)


def options(model, t, after):
    """Return what each option costs at time t, (S, D, D) [s, prev, d]; after: the value of the time after, (S, D)."""
    on = np.einsum("pdsn,nd->spd", steps_of(model, model.acts[t], model.tables[t]), after)
    return price(model, t, model.acts[t], model.tables[t]) + model.factor * on


def at_end(model, left):
    """Return the value of states in which episodes end, (S,); left: time steps that are left."""
    return np.array(
        [sum(model.factor**i * model.cost[s, 0] for i in range(left)) if model.end[s] else 0.0 for s in range(len(model.end))]
    )


def backward(model, policy=None, one_step=options):
    """Return value and policy by backward induction, (L + 1, S, D) and (L, S, D); of a given policy, or of the best."""
    n, d = model.control.shape
    value, chosen = np.zeros((model.horizon + 1, n, d)), np.zeros((model.horizon, n, d), dtype=int)
    for t in reversed(range(model.horizon)):
        q = one_step(model, t, value[t + 1])
        chosen[t] = q.argmin(axis=2) if policy is None else policy[t]
        value[t] = np.take_along_axis(q, chosen[t][:, :, None], axis=2)[:, :, 0]
        value[t][model.end] = at_end(model, model.horizon - t)[model.end, None]
    return value, chosen


def chain(model, policy, acts=None, tables=None):
    """Return cost (N,) and chances (N, N) of the Markov chain over places s * D + prev that a stationary policy makes.

    Where episodes end nothing costs anything and nothing is left.
    """
    acts = model.acts[0] if acts is None else acts
    tables = model.tables[0] if tables is None else tables
    n, modes = policy.shape
    c, go = price(model, 0, acts, tables), steps_of(model, acts, tables)
    cost, chances = np.zeros(n * modes), np.zeros((n * modes, n * modes))
    for s, prev in np.ndindex(n, modes):
        d, here = policy[s, prev], s * modes + prev
        if model.end[s]:
            chances[here, here] = 1.0
            continue
        cost[here] = c[s, prev, d]
        chances[here, np.arange(n) * modes + d] = go[prev, d, s]
    return cost, chances


def discounted_value(model, policy, acts=None, tables=None):
    """Return the value of a stationary policy with a discount, (S, D), by one linear system."""
    cost, chances = chain(model, policy, acts, tables)
    return np.linalg.solve(np.eye(len(cost)) - model.factor * chances, cost).reshape(policy.shape)


def first_policy(model):
    return model.possible.argmax(axis=2)


def discounted_best(model):
    """Return the least discounted cost, (S, D), and a policy that has it, by Howard's policy iteration."""
    policy = first_policy(model)
    for _ in range(200):
        value = discounted_value(model, policy)
        q = options(model, 0, value)
        now = np.take_along_axis(q, policy[:, :, None], axis=2)[:, :, 0]
        finite = q[np.isfinite(q)]
        better = (q.min(axis=2) < now - 1e-13 * (np.abs(finite).max() + 1e-300)) & ~model.end[:, None]
        if not better.any():
            return value, policy
        policy = np.where(better, q.argmin(axis=2), policy)
    raise RuntimeError("policy iteration does not end")


def start_value(model, value):
    """Return the cost from where episodes begin; value: (S, D), or with time before."""
    return float(model.start @ (value[0] if value.ndim == 3 else value)[:, model.start_mode])


def cost_of(model, policy):
    """Return value and expected cost of a policy: of an episode, discounted, or of a step in the long run."""
    policy = np.asarray(policy).astype(int)
    if model.horizon is not None:
        value = backward(model, policy)[0]
    elif model.factor < 1.0:
        value = discounted_value(model, policy)
    else:
        from audit.averages import gains

        value = gains(*chain(model, policy)).reshape(policy.shape)
    return value, start_value(model, value)


def best(model):
    """Return value and policy of the least cost; for averages the gain from each place."""
    if model.horizon is not None:
        return backward(model)
    if model.factor < 1.0:
        return discounted_best(model)
    from audit.averages import best_average

    return best_average(model)


def scale_of(model, *arrays):
    """Return how large sums of costs can be in this problem: what rounding is relative to."""
    sizes = [np.abs(model.cost).max(), np.abs(model.control).max(), np.abs(model.switch[np.isfinite(model.switch)]).max(initial=0)]
    sizes += [np.abs(model.enter).max(), *(np.abs(one[np.isfinite(one)]).max(initial=0) for one in map(np.asarray, arrays))]
    steps = model.horizon if model.horizon is not None else 1.0 if model.factor == 1.0 else 1.0 / (1.0 - model.factor)
    return sum(sizes) * steps
