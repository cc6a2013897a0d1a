"""Plans with costs of arriving, costs that depend on the state, ends, discounts and tables for each time: against slow twins."""

from dataclasses import replace

import numpy as np
import pytest

import cede
from cede.beliefs.belief import Belief, CostBelief
from cede.planning.planner import optimistic_plan
from problems import random_rows
from reference import least_mean_lp


def rich_mdp(seed, *, horizon=0, ends=True):
    """A random problem with everything that a task can say of costs, ends and time. horizon: 0 for a random one."""
    rng = np.random.default_rng(seed)
    n_states, n_actions, n_agents = int(rng.integers(2, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    horizon = int(rng.integers(1, 6)) if horizon == 0 else horizon
    terminal = sorted(rng.permutation(n_states)[: rng.integers(0, n_states)].tolist()) if ends and rng.random() < 0.7 else []
    cost = rng.normal(size=(n_states, n_actions))
    cost[terminal] = cost[terminal][:, :1] if horizon is not None else 0.0
    first = np.where(np.isin(np.arange(n_states), terminal), 0.0, rng.random(n_states) + 0.1)
    varies = horizon is not None and rng.random() < 0.5
    periods = rng.integers(0, 2, size=horizon) if varies else None
    if varies:
        periods = np.unique(periods, return_inverse=True)[1]
    tables = random_rows(rng, (1 if not varies else int(periods.max()) + 1, n_states, n_actions, n_states))
    several = varies and len(tables) > 1
    environment = cede.Environment(
        tables if several else tables[0],
        cost,
        first / first.sum(),
        terminal=terminal,
        enter_cost=rng.normal(size=n_states) if rng.random() < 0.7 else None,
        varies_with="time" if several else None,
        periods=periods if several else None,
    )
    switch = rng.random((n_states, n_agents, n_agents)) * (1 - np.eye(n_agents))
    kinds = [None, "prev_agent"] + (["time"] if horizon is not None else [])
    agents = []
    for d in range(n_agents):
        kind = kinds[rng.integers(len(kinds))]
        slots = {None: 1, "time": horizon, "prev_agent": n_agents}[kind]
        policy = random_rows(rng, (slots, n_states, n_actions))
        control = rng.normal(size=n_states) if rng.random() < 0.5 else float(rng.normal())
        agents.append(cede.Agent(f"agent {d}", policy if kind else policy[0], control, kind))
    team = cede.Team(agents, switch if rng.random() < 0.5 else switch[0])
    discount = float(rng.uniform(0.3, 0.95)) if rng.random() < 0.5 or horizon is None else None
    return cede.TwoLayerMDP(environment, team, horizon, int(rng.integers(n_agents)), discount=discount)


def parts(mdp):
    """Plain arrays: p[t][s, a, s'], control[s, d], switch[s, prev, d], arriving[s], whether it ends in s, discount."""
    task, environment = mdp.task, mdp.environment
    n_states, n_agents = task.n_states, task.n_agents
    tables = [table.toarray().reshape(n_states, task.n_actions, n_states) for table in environment.tables]
    steps = 1 if task.horizon is None else task.horizon
    p = [tables[0 if environment.periods is None else environment.periods[t]] for t in range(steps)]
    control = np.broadcast_to(task.control_cost, (n_states, n_agents))
    switch = np.broadcast_to(task.switch_cost, (n_states, n_agents, n_agents))
    arriving = np.zeros(n_states) if task.enter_cost is None else task.enter_cost
    return p, control, switch, arriving, task.is_terminal, task.layout.factor


def act(mdp, t, prev, d, s):
    agent = mdp.team.agents[d]
    return agent.policy[s] if agent.varies_with is None else agent.policy[t if agent.varies_with == "time" else prev, s]


def options(mdp, t, after):
    """What each agent costs in each state after each other one, (S, D, D) [s, prev, d], and then v_{t+1} = after."""
    p, control, switch, arriving, _, factor = parts(mdp)
    n_states, n_agents = control.shape
    q = np.empty((n_states, n_agents, n_agents))
    for s, prev, d in np.ndindex(*q.shape):
        follows = mdp.task.env_cost[s] + p[t][s] @ (arriving + factor * after[:, d])
        q[s, prev, d] = control[s, d] + switch[s, prev, d] + act(mdp, t, prev, d, s) @ follows
    return q


def solve_slow(mdp, policy=None):
    """The recursion, state by state; of a policy if one is given."""
    task = mdp.task
    value = np.zeros((task.horizon + 1, task.n_states, task.n_agents))
    for t in range(task.horizon - 1, -1, -1):
        q = options(mdp, t, value[t + 1])
        value[t] = q.min(axis=2) if policy is None else np.take_along_axis(q, policy[t][..., None].astype(int), axis=2)[..., 0]
        for s in task.terminal:
            value[t, s] = task.env_cost[s, 0] + task.layout.factor * value[t + 1, s]
    return value


@pytest.mark.parametrize("seed", range(200))
def test_solve_and_evaluate(seed):
    mdp = rich_mdp(seed)
    plan = cede.solve(mdp)
    np.testing.assert_allclose(plan.value, solve_slow(mdp), atol=1e-10)
    policy = np.random.default_rng(seed).integers(mdp.task.n_agents, size=plan.policy.shape)
    np.testing.assert_allclose(cede.evaluate(mdp, policy), solve_slow(mdp, policy), atol=1e-10)
    np.testing.assert_allclose(cede.evaluate(mdp, plan), plan.value, atol=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_played_episodes_cost_what_they_should(seed):
    mdp = rich_mdp(seed)
    policy = np.random.default_rng(seed).integers(mdp.task.n_agents, size=cede.solve(mdp).policy.shape)
    rng, found = np.random.default_rng(seed), []
    for _ in range(3000):
        episode = cede.rollout(mdp, policy, rng)
        found.append(float(mdp.task.layout.factor ** np.arange(len(episode.costs)) @ episode.costs))
        ended = mdp.task.is_terminal[episode.states]
        assert not ended[:-1].any()
        assert ended[-1] or len(episode.actions) == mdp.horizon
    assert np.mean(found) == pytest.approx(cede.expected_cost(mdp, policy), abs=4.5 * np.std(found) / len(found) ** 0.5 + 1e-9)


@pytest.mark.parametrize("seed", range(200))
def test_optimism_over_costs_and_tables_against_linear_programming(seed):
    """Every inner minimum by a linear programme; the least cost of every place by trying both ends of its interval."""
    mdp = rich_mdp(seed, horizon=1 + seed % 2, ends=seed % 4 < 2)
    task, rng = mdp.task, np.random.default_rng(seed)
    p, control, switch, arriving, _, factor = parts(mdp)
    unknown = (rng.random(task.env_cost.shape) < 0.5) & ~task.is_terminal[:, None]
    told = replace(task, env_cost=np.where(unknown, np.nan, task.env_cost), cost_range=(-5.0, 5.0))
    width = np.where(unknown, rng.random(task.env_cost.shape), 0.0)
    costs = CostBelief(task.env_cost - width, task.env_cost + width)
    slots = [agent.policy.reshape(-1, task.n_states, task.n_actions) for agent in mdp.team.agents]
    radius_agents, radius = float(rng.uniform(0, 1)), float(rng.uniform(0, 1))
    agents = Belief.of(np.concatenate(slots).reshape(-1, task.n_actions), radius_agents, (sum(map(len, slots)), task.n_states))
    rows = mdp.environment.transition.toarray()
    environment = Belief.of(rows, radius, (len(rows) // task.n_actions, task.n_actions))
    plan = optimistic_plan(told, agents, environment, costs=costs)
    value = np.zeros_like(plan.value)
    for t in range(task.horizon - 1, -1, -1):
        for s, prev in np.ndindex(task.n_states, task.n_agents):
            if s in task.terminal:
                value[t, s, prev] = task.env_cost[s, 0] + factor * value[t + 1, s, prev]
                continue
            best = np.inf
            for d in range(task.n_agents):
                ahead = arriving + factor * value[t + 1][:, d]
                x = np.array([least_mean_lp(p[t][s, a], radius, ahead) for a in range(task.n_actions)])
                cheapest = np.minimum(costs.low[s] + x, costs.high[s] + x)
                least = least_mean_lp(act(mdp, t, prev, d, s), radius_agents, cheapest)
                best = min(best, control[s, d] + switch[s, prev, d] + least)
            value[t, s, prev] = best
    np.testing.assert_allclose(plan.value, value, atol=1e-7)


def test_nothing_is_charged_after_an_end():
    """A corridor to a goal: the dear expert walks, and costs nothing after the end."""
    transition = np.zeros((3, 1, 3))
    transition[[0, 1, 2], 0, [1, 2, 2]] = 1.0
    cost = np.array([[1.0], [1.0], [0.0]])
    agents = [cede.Agent("expert", np.ones((3, 1)), 0.5)]
    open_end = cede.TwoLayerMDP(cede.Environment(transition, cost, [1, 0, 0]), cede.Team(agents), 10)
    ends = cede.TwoLayerMDP(
        cede.Environment(transition, cost, [1, 0, 0], terminal=[2], enter_cost={2: 0.25}), cede.Team(agents), 10
    )
    assert cede.expected_cost(open_end, open_end.task.always(0)) == pytest.approx(2 + 10 * 0.5)
    assert cede.expected_cost(ends, ends.task.always(0)) == pytest.approx(2 + 2 * 0.5 + 0.25)
    left = replace(ends, environment=replace(ends.environment, cost=np.array([[1.0], [1.0], [0.125]])))
    assert cede.expected_cost(left, left.task.always(0)) == pytest.approx(2 + 2 * 0.5 + 0.25 + 8 * 0.125)


@pytest.mark.parametrize("seed", range(30))
def test_limits_are_of_the_steps_that_are_taken(seed):
    """The best mixture within limits, where episodes end early: against a linear programme over occupancies."""
    from scipy.optimize import linprog

    mdp = rich_mdp(seed, horizon=3)
    task = mdp.task
    if task.n_agents < 2:
        with pytest.raises(ValueError, match="must be at least 1: somebody must be in control"):
            cede.solve(mdp, at_most={task.agents[0]: 0.8})
        return
    rng = np.random.default_rng(seed)
    member, share = int(rng.integers(task.n_agents)), float(rng.uniform(0.2, 0.8))
    found = cede.solve(mdp, at_most={task.agents[member]: share})
    # variables: how often (t, s, prev, d) comes up, discounted; those of states where nothing ends
    p, control, switch, arriving, ended, factor = parts(mdp)
    places = [
        (t, s, q, d)
        for t in range(3)
        for s in range(task.n_states)
        if not ended[s]
        for q in range(task.n_agents)
        for d in range(task.n_agents)
    ]
    number = {place: i for i, place in enumerate(places)}
    price, balance, right = np.zeros(len(places)), {}, {}
    for (t, s, q, d), i in number.items():
        chances = act(mdp, t, q, d, s)
        to = chances @ p[t][s]
        rest = np.where(ended, task.env_cost[:, 0] * task.layout.left[t + 1] * factor, 0.0)
        price[i] = control[s, d] + switch[s, q, d] + chances @ task.env_cost[s] + to @ (arriving + rest)
        balance.setdefault((t, s, q), np.zeros(len(places)))[i] += 1.0
        if t + 1 < 3:
            for s2 in np.flatnonzero(~ended):
                balance.setdefault((t + 1, s2, d), np.zeros(len(places)))[i] -= factor * to[s2]
    for t, s, q in balance:
        right[t, s, q] = mdp.environment.start[s] if t == 0 and q == task.start_agent else 0.0
    limit = np.array([((d == member) - share) / factor**t for t, _, _, d in places])  # every step counts once, whatever it costs
    best = linprog(price, A_ub=limit[None], b_ub=[0.0], A_eq=np.array(list(balance.values())), b_eq=list(right.values()))
    assert found.cost == pytest.approx(best.fun, abs=1e-7)
    assert found.shares[member] <= share + 1e-7
