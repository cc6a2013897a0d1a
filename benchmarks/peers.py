"""What users would pick instead: a plain compiled backup, QuantEcon, and a dense NumPy transcription of the paper."""

import warnings
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp

import cede
from cede.beliefs.belief import Belief
from cede.planning.flatten import flatten


@numba.njit
def plain_backup(indptr, column, p, policy, env_cost, control_cost, switch_cost, horizon, value):
    """Finite-horizon dynamic programming with point estimates and nothing else: no sets, no ties, no policy, no reuse."""
    n_states, n_actions = env_cost.shape
    n_agents = policy.shape[0]
    x = np.empty((n_agents, n_states * n_actions))
    for t in range(horizon - 1, -1, -1):
        for d in range(n_agents):
            v = value[t + 1, :, d].copy()
            for r in range(n_states * n_actions):
                total = 0.0
                for j in range(indptr[r], indptr[r + 1]):
                    total += p[j] * v[column[j]]
                x[d, r] = total
        for s in range(n_states):
            for prev in range(n_agents):
                best = np.inf
                for d in range(n_agents):
                    q = control_cost[d] + switch_cost[prev, d]
                    for a in range(n_actions):
                        q += policy[d, s, a] * (env_cost[s, a] + x[d, s * n_actions + a])
                    best = min(best, q)
                value[t, s, prev] = best


def plain_arguments(task: cede.Task, agents: Belief, environment: Belief) -> tuple[Any, ...]:
    """The centres of two beliefs, as the plain backup wants them. Agents must not vary."""
    rows = environment.centre.matrix()
    p = rows.data / np.repeat(environment.centre.total, np.diff(rows.indptr))
    tables = agents.centre.matrix().toarray().reshape(task.n_agents, task.n_states, task.n_actions)
    policy = tables / tables.sum(axis=2, keepdims=True)
    value = np.zeros((task.horizon + 1, task.n_states, task.n_agents))
    return (rows.indptr, rows.indices, p, policy, task.env_cost, task.control_cost, task.switch_cost, task.horizon, value)


def dense_plan(task: cede.Task, agents: Belief, environment: Belief) -> np.ndarray:
    """Theorem 1 with full tables, as one writes it down: sort the outcomes, fill the best, take from the worst (Lemma 4)."""
    tables = []
    for belief in (agents, environment):
        rows = belief.centre.matrix().toarray()
        total = rows.sum(axis=1, keepdims=True)
        tables.append((np.where(total > 0, rows / np.maximum(total, 1e-300), 1 / rows.shape[1]), belief.width))
    (policy, policy_width), (transition, width) = tables
    n_states, n_actions, n_agents = task.n_states, task.n_actions, task.n_agents
    value = np.zeros((task.horizon + 1, n_states, n_agents))
    for t in reversed(range(task.horizon)):
        m = np.empty((n_states, n_agents))
        for d in range(n_agents):
            v = np.tile(value[t + 1, :, d], (n_states * n_actions, 1))
            x = least_means(transition, width, v).reshape(n_states, n_actions) + task.env_cost
            rows = slice(d * n_states, (d + 1) * n_states)
            m[:, d] = least_means(policy[rows], policy_width[rows], x)
        q = task.control_cost + task.switch_cost[None] + m[:, None, :]
        value[t] = q.min(axis=2)
    return value


def least_means(p: np.ndarray, width: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Row by row the least mean of v over the distributions within L1 distance width of p."""
    order = np.argsort(v, axis=1)
    p, v = np.take_along_axis(p, order, 1), np.take_along_axis(v, order, 1)
    added = np.minimum(0.5 * width, 1 - p[:, 0])
    p[:, 0] += added
    from_worst = np.cumsum(p[:, :0:-1], axis=1)[:, ::-1]  # mass of an outcome and all worse ones
    worse = from_worst - p[:, 1:]
    p[:, 1:] -= np.clip(added[:, None] - worse, 0, p[:, 1:])
    return (p * v).sum(axis=1)


def quantecon_problem(mdp: cede.TwoLayerMDP) -> Any:
    """The switching problem as an ordinary one: actions are the agents, states (s, prev_agent), or (t, s, prev_agent) if an agent
    varies with time; rewards are minus costs. The values of time 0 come first.
    """
    from quantecon.markov import DiscreteDP

    flat = flatten(mdp)
    task = flat.task
    n_times = task.plan_steps if task.layout.vary.any() else 1
    shape = (n_times, task.n_states, task.n_agents)
    rows, columns, data, rewards = [], [], [], []
    for t, s, prev, d in np.ndindex(*shape, task.n_agents):
        slot = task.layout.slot[d] + (t if task.layout.vary[d] else 0)
        part = flat.environment.transition[[s * task.n_actions + slot]]
        rows.append(np.full(part.nnz, len(rows)))
        columns.append(np.ravel_multi_index(((t + 1) % n_times, part.indices, d), shape))
        data.append(part.data)
        rewards.append(-(task.env_cost[s, slot] + task.control_cost[d] + task.switch_cost[prev, d]))
    where = (np.concatenate(rows), np.concatenate(columns))
    matrix = sp.csr_matrix((np.concatenate(data), where), shape=(len(rows), int(np.prod(shape))))
    state, action = np.divmod(np.arange(len(rows)), task.n_agents)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that beta = 1 has no infinite horizon
        return DiscreteDP(np.array(rewards), matrix, task.layout.factor, state, action)
