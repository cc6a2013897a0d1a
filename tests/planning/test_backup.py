"""The Bellman operator by itself: against loops, against an LP, and iterated."""

import numpy as np
import pytest

import cede
from cede.beliefs.belief import Belief
from cede.beliefs.truth import true_beliefs
from cede.planning.passes import backup
from cede.planning.planner import optimistic_plan
from problems import random_mdp, random_rows
from reference import least_mean_lp, plan_slow


def random_beliefs(seed, task):
    """Beliefs with widths from 0 to more than 2, and rows that were never seen."""
    rng = np.random.default_rng(seed)
    slots, (n_states, n_actions) = int(task.layout.n_slots.sum()), task.env_cost.shape
    tables = []
    for rows, columns in ((slots * n_states, n_actions), (n_states * n_actions, n_states)):
        counts = rng.integers(0, 6, (rows, columns)) * (rng.random((rows, 1)) < 0.8)
        tables.append((counts, rng.random(rows) * 2.4 * (rng.random(rows) < 0.9)))
    agents, environment = tables
    return Belief.of(*agents, (slots, n_states)), Belief.of(*environment, (n_states, n_actions)), tables


def dense(counts):
    total = counts.sum(axis=1, keepdims=True)
    return np.where(total > 0, counts / np.maximum(total, 1), 1 / counts.shape[1])


@pytest.mark.parametrize("seed", range(12))
def test_one_step_against_loops_and_linear_programming(seed):
    mdp = random_mdp(seed, n_states=4, n_agents=3, n_actions=2, horizon=3)
    task = mdp.task
    agents, environment, tables = random_beliefs(seed, task)
    after = np.random.default_rng(seed).random((4, 3)) * 5
    for t in range(3):
        value, policy = backup(task, agents, environment, after, t=t, seed=seed)
        slow = slow_step(task, tables, after, t)
        np.testing.assert_allclose(value, slow.min(axis=-1), atol=1e-9)
        chosen = np.take_along_axis(slow, policy[..., None].astype(int), axis=-1)[..., 0]
        np.testing.assert_allclose(chosen, slow.min(axis=-1), atol=1e-9)


def slow_step(task, tables, after, t):
    """q[s, prev, agent] of one step, by `plan_slow` with a last step that leads to `after`."""
    (agent_counts, agent_width), (counts, width) = tables
    n_states, n_actions = task.env_cost.shape
    policies = dense(agent_counts).reshape(-1, n_states, n_actions)
    widths = agent_width.reshape(-1, n_states)
    by_agent = [
        slice(int(task.layout.slot[d]), int(task.layout.slot[d]) + int(task.layout.n_slots[task.table[d]]))
        for d in range(task.n_agents)
    ]
    transition, env_width = dense(counts).reshape(n_states, n_actions, n_states), width.reshape(n_states, n_actions)
    q = np.zeros((n_states, task.n_agents, task.n_agents))
    for s, d in np.ndindex(n_states, task.n_agents):
        inner = [task.env_cost[s, a] + least_mean_lp(transition[s, a], env_width[s, a], after[:, d]) for a in range(n_actions)]
        for prev in range(task.n_agents):
            slot = {None: 0, "time": t, "prev_agent": prev}[task.varies_with[d]]
            least = least_mean_lp(policies[by_agent[d]][slot, s], widths[by_agent[d]][slot, s], np.array(inner))
            q[s, prev, d] = task.control_cost[d] + task.switch_cost[prev, d] + least
    return q


def test_a_finite_horizon_is_a_loop_over_it():
    for seed in range(5):
        mdp = random_mdp(seed, n_states=5, n_agents=2, n_actions=2, horizon=6)
        agents, environment, _ = random_beliefs(seed, mdp.task)
        plan = optimistic_plan(mdp.task, agents, environment, seed=3)
        value = np.zeros((5, 2))
        for t in reversed(range(6)):
            value, policy = backup(mdp.task, agents, environment, value, t=t, seed=3)
            np.testing.assert_array_equal(value, plan.value[t])
            np.testing.assert_array_equal(policy, plan.policy[t])


def test_iterated_with_a_discount_it_is_a_contraction():
    """What planning without a horizon will do: iterate the same operator to its fixed point."""
    rng = np.random.default_rng(2)
    env = cede.Environment(random_rows(rng, (6, 2, 6)), rng.random((6, 2)), np.full(6, 1 / 6))
    team = cede.Team([cede.Agent("a", random_rows(rng, (6, 2))), cede.Agent("b", random_rows(rng, (6, 2)), 0.1)], 0.2)
    mdp = cede.TwoLayerMDP(env, team, 1)
    value, gaps = np.zeros((6, 2)), []
    for _ in range(60):
        before, (value, _) = value, backup(mdp.task, *true_beliefs(mdp), 0.8 * value)
        gaps.append(np.abs(value - before).max())
    ratios = np.array(gaps[1:]) / np.array(gaps[:-1])
    assert (ratios[:40] <= 0.8 + 1e-9).all()
    np.testing.assert_allclose(backup(mdp.task, *true_beliefs(mdp), 0.8 * value)[0], value, atol=1e-5)


def test_plan_slow_is_the_same_recursion():
    mdp = random_mdp(1, n_states=3, n_agents=2, n_actions=2, horizon=2, kinds=[None])
    task = mdp.task
    policies = [agent.policy[None] for agent in mdp.team.agents]
    dense_environment = mdp.environment.transition.toarray().reshape(3, 2, 3)
    zeros = [np.zeros((1, 3)) for _ in policies]
    costs = (task.env_cost, task.control_cost, task.switch_cost, task.horizon, task.varies_with)
    value, _ = plan_slow(policies, zeros, dense_environment, np.zeros((3, 2)), *costs, lambda p, _, v: p @ v)
    last, _ = backup(task, *true_beliefs(mdp), np.zeros((3, 2)), t=1)
    np.testing.assert_allclose(last, value[1], atol=1e-12)
    np.testing.assert_allclose(backup(task, *true_beliefs(mdp), last, t=0)[0], value[0], atol=1e-12)
