"""Slow, obvious twins of the library's formulas, written from the paper and nothing else."""

from itertools import product

import numpy as np
from scipy.optimize import linprog


def least_mean_lp(centre, width, values):
    """min q . values over distributions q with |q - centre|_1 <= width, by linear programming."""
    n = len(centre)
    # variables q (n), z (n) with z >= |q - centre|
    eye = np.eye(n)
    upper = np.block([[eye, -eye], [-eye, -eye], [np.zeros((1, n)), np.ones((1, n))]])
    bounds = np.concatenate([centre, -np.asarray(centre), [width]])
    equal = np.concatenate([np.ones(n), np.zeros(n)])[None, :]
    cost = np.concatenate([values, np.zeros(n)])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    result = linprog(
        cost, A_ub=upper, b_ub=bounds, A_eq=equal, b_eq=[1.0], bounds=[(0, None)] * (2 * n), method="highs", options=tight
    )
    assert result.status == 0, result.message
    return result.fun


def least_mean_evi(centre, width, values):
    """The while-loop of the appendix's extended value iteration (Algorithm 3)."""
    order = np.argsort(values, kind="stable")
    p = np.array(centre, dtype=float)[order]
    p[0] = min(1.0, p[0] + width / 2)
    last = len(p) - 1
    while p.sum() > 1 + 1e-15:
        p[last] = max(0.0, 1 - (p.sum() - p[last]))
        last -= 1
    return p @ np.asarray(values)[order]


def slot_of(varies_with, t, prev):
    return {None: 0, "time": t, "prev_agent": prev}[varies_with]


def plan_slow(agents, agent_width, environment, env_width, env_cost, control, switch, horizon, varies_with, least_mean):
    """Theorem 1, loop by loop. agents[d]: (slots, S, A); environment: (S, A, S); widths without the last axis."""
    n_states, n_actions = env_cost.shape
    n_agents = len(agents)
    value = np.zeros((horizon + 1, n_states, n_agents))
    q = np.zeros((horizon, n_states, n_agents, n_agents))
    for t in reversed(range(horizon)):
        for s, d in product(range(n_states), range(n_agents)):
            inner = [env_cost[s, a] + least_mean(environment[s, a], env_width[s, a], value[t + 1, :, d]) for a in range(n_actions)]
            slots = {slot_of(varies_with[d], t, prev) for prev in range(n_agents)}
            agent = {c: least_mean(agents[d][c, s], agent_width[d][c, s], np.array(inner)) for c in slots}
            for prev in range(n_agents):
                q[t, s, prev, d] = control[d] + switch[prev, d] + agent[slot_of(varies_with[d], t, prev)]
        value[t] = q[t].min(axis=-1)
    return value, q


def evaluate_slow(mdp, policy):
    """Lemma 5 (the Bellman equation of a policy), loop by loop."""
    task, dense = mdp.task, mdp.environment.transition.toarray()
    value = np.zeros((task.horizon + 1, task.n_states, task.n_agents))
    for t in reversed(range(task.horizon)):
        for s, prev in product(range(task.n_states), range(task.n_agents)):
            d = policy[t, s, prev]
            agent = mdp.team.agents[d]
            table = agent.policy if agent.varies_with is None else agent.policy[slot_of(agent.varies_with, t, prev)]
            total = agent.control_cost + task.switch_cost[prev, d]
            for a in range(task.n_actions):
                total += table[s, a] * (task.env_cost[s, a] + dense[s * task.n_actions + a] @ value[t + 1, :, d])
            value[t, s, prev] = total
    return value


def all_policies(horizon, n_states, n_agents):
    for flat in product(range(n_agents), repeat=horizon * n_states * n_agents):
        yield np.array(flat).reshape(horizon, n_states, n_agents)


def count_slow(task, episodes):
    """N(slot, s, a), N'(s, a, s') and N(s, slot, s') as dense arrays."""
    slots = int(task.layout.n_slots.sum())
    agents = np.zeros((slots, task.n_states, task.n_actions), dtype=int)
    environment = np.zeros((task.n_states, task.n_actions, task.n_states), dtype=int)
    flat = np.zeros((task.n_states, slots, task.n_states), dtype=int)
    for e in episodes:
        for t, (s, prev, d, a, after) in enumerate(
            zip(e.states[:-1], e.prev_agents, e.agents, e.actions, e.states[1:], strict=True)
        ):
            slot = task.layout.slot[d] + slot_of(task.varies_with[d], t, prev)
            agents[slot, s, a] += 1
            environment[s, a, after] += 1
            flat[s, slot, after] += 1
    return agents, environment, flat


def greedy_start_slow(task):
    """What the task would cost if everything unknown were at its best: the start of greedy planning."""
    value = np.zeros((task.horizon + 1, task.n_states, task.n_agents))
    least = task.env_cost.min(axis=1)
    for t in reversed(range(task.horizon)):
        for s, prev in product(range(task.n_states), range(task.n_agents)):
            value[t, s, prev] = min(
                task.control_cost[d] + task.switch_cost[prev, d] + least[s] + value[t + 1, :, d].min() for d in range(task.n_agents)
            )
    return value


def greedy_visit_slow(task, tables, bounds, t, s):
    """One backup of (t, s) from the bounds one step later; raises bounds[t, s]. Returns q[prev, d]."""
    agents, agent_width, environment, env_width = tables
    q = np.empty((task.n_agents, task.n_agents))
    for prev, d in product(range(task.n_agents), range(task.n_agents)):
        slot = task.layout.slot[d] + slot_of(task.varies_with[d], t, prev)
        inner = [
            task.env_cost[s, a] + least_mean_evi(environment[s, a], min(env_width[s, a], 2), bounds[t + 1, :, d])
            for a in range(task.n_actions)
        ]
        mean = least_mean_evi(agents[slot, s], min(agent_width[slot, s], 2), np.array(inner))
        q[prev, d] = task.control_cost[d] + task.switch_cost[prev, d] + mean
    bounds[t, s] = np.maximum(bounds[t, s], q.min(axis=1))
    return q


def least_mean_in_intervals_lp(low, high, values):
    """min q . values over distributions q with low <= q <= high, by linear programming."""
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    bounds = list(zip(low, high, strict=True))
    result = linprog(values, A_eq=np.ones((1, len(values))), b_eq=[1.0], bounds=bounds, method="highs", options=tight)
    assert result.status == 0, result.message
    return result.fun


def bernstein_slow(counts, rows, outcomes, delta, scale=1.0):
    """Least and most mass of each outcome of one row: the formula of belief.py, outcome by outcome."""
    n = sum(counts)
    if n == 0:
        return [0.0] * len(counts), [1.0] * len(counts)
    x = np.log(6 * rows * outcomes * n * (n + 1) / delta)
    low, high = [], []
    for k in counts:
        p = k / n
        half = scale * (np.sqrt(2 * p * (1 - p) * x / n) + 3 * x / n)
        low.append(max(0.0, p - half))
        high.append(min(1.0, p + half))
    return low, high


def count_structured_slow(task, structure, episodes):
    """Counts by case as dictionaries: {(agent, slot, case, outcome): n} and {(case, outcome): n}."""
    agents, environment = {}, {}
    for e in episodes:
        for t, (s, prev, d, a, after) in enumerate(
            zip(e.states[:-1], e.prev_agents, e.agents, e.actions, e.states[1:], strict=True)
        ):
            seen = structure.agents[task.agents[d]]
            if isinstance(seen, np.ndarray):
                case, outcome = seen[s], a
            else:
                case, outcome = seen.case[seen.row[s]], list(seen.to[seen.row[s]]).index(a)
            key = (d, slot_of(task.varies_with[d], t, prev), int(case), int(outcome))
            agents[key] = agents.get(key, 0) + 1
            row = structure.environment.row[s, a]
            key = (int(structure.environment.case[row]), list(structure.environment.to[row]).index(after))
            environment[key] = environment.get(key, 0) + 1
    return agents, environment


def follow_slow(agents, agent_width, environment, env_width, env_cost, control, switch, policy, varies_with, mean):
    """The cost of a policy, loop by loop, when every row is as `mean` (least or most) says. Arguments as of `plan_slow`."""
    n_states, n_actions = env_cost.shape
    horizon, _, n_agents = policy.shape
    value = np.zeros((horizon + 1, n_states, n_agents))
    for t in reversed(range(horizon)):
        for s, prev in product(range(n_states), range(n_agents)):
            d = int(policy[t, s, prev])
            inner = [env_cost[s, a] + mean(environment[s, a], env_width[s, a], value[t + 1, :, d]) for a in range(n_actions)]
            c = slot_of(varies_with[d], t, prev)
            value[t, s, prev] = control[d] + switch[prev, d] + mean(agents[d][c, s], agent_width[d][c, s], np.array(inner))
    return value


def occupancy_lp(mdp, least, most):
    """min cost over x[t, s, prev, d], the probability of being in (s, prev) at t and handing control to d: flow and shares.

    Solved in a unit in which costs are near 1, since the solver's tolerances are absolute.
    """
    task, dense = mdp.task, mdp.environment.transition.toarray()
    L, S, D, A = task.horizon, task.n_states, task.n_agents, task.n_actions
    index = np.arange(L * S * D * D).reshape(L, S, D, D)
    cost, flow, right = np.zeros(index.size), [], []
    move = np.zeros((L, S, D, D, S))
    for t, s, prev, d in np.ndindex(index.shape):
        agent = mdp.team.agents[d]
        table = agent.policy if agent.varies_with is None else agent.policy[slot_of(agent.varies_with, t, prev)]
        cost[index[t, s, prev, d]] = task.control_cost[d] + task.switch_cost[prev, d] + table[s] @ task.env_cost[s]
        move[t, s, prev, d] = sum(table[s, a] * dense[s * A + a] for a in range(A))
    for t, s, prev in np.ndindex(L, S, D):
        row = np.zeros(index.size)
        row[index[t, s, prev]] = 1.0
        if t > 0:
            row[index[t - 1, :, :, prev]] -= move[t - 1, :, :, prev, s]
        flow.append(row)
        right.append(mdp.environment.start[s] if t == 0 and prev == task.start_agent else 0.0)
    share = np.zeros((D, index.size))
    for d in range(D):
        share[d, index[..., d].ravel()] = 1 / L
    upper = np.concatenate([share, -share])
    limits = np.concatenate([most, -least])
    unit = np.abs(cost).max()
    result = linprog(cost / unit, A_ub=upper, b_ub=limits, A_eq=np.array(flow), b_eq=right, method="highs")
    assert result.status == 0, result.message
    return result.fun * unit
