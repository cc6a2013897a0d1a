"""Plans without horizon of problems that end, that nearly tie, that have places out of reach: against policy iteration by dense
algebra, linear programming, and an operator that is written out.
"""

from dataclasses import replace

import numpy as np
import pytest

import cede
from beliefs.test_kl import slow_least
from cede.beliefs.belief import Belief
from cede.planning.passes import true_value
from cede.planning.planner import optimistic_plan
from planning.test_costs_ends_time import act, options, parts
from problems import random_rows
from reference import least_mean_in_intervals_lp, least_mean_lp

DISCOUNTS = (0.5, 0.9, 0.99, 0.999, 0.99999)


def ending_mdp(seed, *, n_states=None, discount=None):
    """A random problem with ends and a discount; its steps may be random or not, and hand-overs impossible."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 13)) if n_states is None else n_states
    n_actions, n_agents = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    ends = sorted(rng.permutation(n)[: rng.integers(1, max(2, n // 2))].tolist())
    rows = random_rows(rng, (n, n_actions, n), sparse=float(rng.choice([0.0, 0.5, 0.8])))
    if rng.random() < 0.3:
        rows = np.eye(n)[rng.integers(n, size=(n, n_actions))]
    rows = np.where(rng.random((n, 1, 1)) < 0.3, 0.99 * np.eye(n)[:, None] + 0.01 * rows, rows)
    cost = rng.choice([0.0, 1.0, 5.0]) + rng.normal(size=(n, n_actions)).round(int(rng.integers(0, 3)))
    cost[ends] = 0.0
    first = np.where(np.isin(np.arange(n), ends), 0.0, rng.random(n) + 0.1)
    enter = rng.normal(size=n) if rng.random() < 0.5 else None
    environment = cede.Environment(rows, cost, first / first.sum(), terminal=ends, enter_cost=enter)
    kinds = [None if rng.random() < 0.7 else "prev_agent" for _ in range(n_agents)]
    agents = []
    for d, kind in enumerate(kinds):
        policy = random_rows(rng, (n_agents if kind else 1, n, n_actions))
        agents.append(cede.Agent(f"agent {d}", policy if kind else policy[0], round(float(rng.random()), 1), kind))
    switch = rng.random((n_agents, n_agents)).round(1) * (1 - np.eye(n_agents))
    switch[rng.random((n_agents, n_agents)) < 0.2] = np.inf
    np.fill_diagonal(switch, 0.0)
    discount = float(rng.choice(DISCOUNTS)) if discount is None else discount
    return cede.TwoLayerMDP(environment, cede.Team(agents, switch), None, int(rng.integers(n_agents)), discount=discount)


def choices_of(mdp):
    """Costs of a step, (n, D), and where it leads, (n, D, n), from places s * D + prev; an end is never left and costs nothing."""
    task, (p, *_, ended, _) = mdp.task, parts(mdp)
    cost = options(mdp, 0, np.zeros((task.n_states, task.n_agents)))
    leads = np.zeros((task.n_states, task.n_agents, task.n_agents, task.n_states, task.n_agents))
    for s, prev, d in np.ndindex(*cost.shape):
        leads[s, prev, d, :, d] = act(mdp, 0, prev, d, s) @ p[0][s]
    for s, prev in np.ndindex(*cost.shape[:2]):
        if ended[s]:
            cost[s, prev], leads[s, prev] = 0.0, 0.0
            leads[s, prev, :, s, prev] = 1.0
    n = task.n_states * task.n_agents
    return cost.reshape(n, -1), leads.reshape(n, task.n_agents, n)


def follow(cost, leads, policy, discount):
    rows = np.arange(len(cost))
    system = np.eye(len(cost)) - discount * leads[rows, policy]
    right = cost[rows, policy]
    found = np.linalg.solve(system, right)
    return found + np.linalg.solve(system, right - system @ found)


def howard(mdp):
    """The least discounted cost from each place, (S, D)."""
    cost, leads = choices_of(mdp)
    policy = np.where(np.isfinite(cost), cost, np.inf).argmin(axis=1)
    for _ in range(1000):
        value = follow(cost, leads, policy, mdp.discount)
        q = cost + mdp.discount * leads @ value
        better = q.min(axis=1) < q[np.arange(len(q)), policy] - 1e-12 * (1 + np.abs(value).max())
        if not better.any():
            return value.reshape(mdp.task.n_states, -1)
        policy = np.where(better, q.argmin(axis=1), policy)
    raise AssertionError


def test_the_problem_of_the_report():
    environment = cede.Environment([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [[2.0, 2.0], [0, 0]], start=[1, 0], terminal=[1])
    agents = [cede.Agent("stays", [[1, 0]] * 2), cede.Agent("quits", [[0, 1]] * 2)]
    mdp = cede.TwoLayerMDP(environment, cede.Team(agents, switch_cost=[[0, 0], [0, 0.6]]), None, discount=0.99)
    plan = cede.solve(mdp)
    np.testing.assert_allclose(plan.value, [[2.0, 2.6], [0.0, 0.0]], atol=1e-12)
    assert plan.error < 1e-12
    assert cede.expected_cost(mdp, plan) == pytest.approx(2.0, abs=1e-12)
    history = cede.simulate(mdp, cede.oracle(mdp), steps=200, progress=False)
    np.testing.assert_allclose(history.regret, 0.0, atol=1e-9)
    assert history.optimum == pytest.approx(2.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(300))
def test_problems_that_end_against_policy_iteration(seed):
    mdp = ending_mdp(seed)
    wanted, plan = howard(mdp), cede.solve(mdp)
    size = np.abs(wanted).max() + np.abs(mdp.task.env_cost).max()
    assert plan.error <= 1e-9 * size / (1 - mdp.discount) ** 0.5
    np.testing.assert_allclose(plan.value, wanted, atol=1e-9 * size)
    np.testing.assert_allclose(cede.evaluate(mdp, plan), wanted, atol=1e-9 * size + plan.error)
    rng = np.random.default_rng(seed)
    cost, leads = choices_of(mdp)
    policy = np.array([rng.choice(np.flatnonzero(np.isfinite(row))) for row in cost])
    barred = ~mdp.task.can_hand_over
    if not barred.any():
        value = follow(cost, leads, policy, mdp.discount).reshape(mdp.task.n_states, -1)
        found = cede.evaluate(mdp, policy.reshape(value.shape))
        np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-9 * np.abs(value).max())


KINDS = {"l1": {}, "intervals": {"linear": 2.0}, "kl": {"kl": True}}


def least_mean(kind, centre, width, values):
    if width == 0:
        return centre @ values
    if kind == "l1":
        return least_mean_lp(centre, width, values)
    if kind == "intervals":
        half = np.sqrt(2 * centre * (1 - centre) * width) + 2.0 * width
        return least_mean_in_intervals_lp(np.maximum(centre - half, 0), np.minimum(centre + half, 1), values)
    return values.min() + slow_least(values - values.min(), centre, width)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_optimistic_plans_of_problems_that_end(seed, kind):
    """The value is a fixed point of the operator, written out: with a discount there is only one."""
    rng = np.random.default_rng(seed)
    mdp = ending_mdp(seed, n_states=4, discount=float(rng.choice(DISCOUNTS[:4])))
    task, (p, *_) = mdp.task, parts(mdp)
    slots = [agent.policy.reshape(-1, 4, task.n_actions) for agent in mdp.team.agents]
    widths = rng.uniform(0.01, 0.3), rng.uniform(0.01, 0.3)
    agents = replace(
        Belief.of(np.concatenate(slots).reshape(-1, task.n_actions), widths[0], (sum(map(len, slots)), 4)), **KINDS[kind]
    )
    environment = replace(Belief.of(mdp.environment.transition, widths[1], (4, task.n_actions)), **KINDS[kind])
    plan = optimistic_plan(task, agents, environment)
    value, arriving = plan.value, np.zeros(4) if task.enter_cost is None else task.enter_cost
    size = np.abs(value).max() + 1
    for s, prev in np.ndindex(4, task.n_agents):
        if task.is_terminal[s]:
            assert value[s, prev] == 0.0
            continue
        found = []
        for d in range(task.n_agents):
            after = arriving + mdp.discount * value[:, d]
            acts = np.array([task.env_cost[s, a] + least_mean(kind, p[0][s, a], widths[1], after) for a in range(task.n_actions)])
            found.append(
                task.control_cost[d] + task.switch_cost[prev, d] + least_mean(kind, act(mdp, 0, prev, d, s), widths[0], acts)
            )
        assert value[s, prev] == pytest.approx(min(found), abs=1e-9 * size + plan.error)
    assert plan.error <= 1e-7 * size


@pytest.mark.parametrize("make", [cede.ucrl2_mc, cede.posterior_sampling, cede.greedy, cede.recommended])
@pytest.mark.parametrize("seed", range(8))
def test_learners_of_problems_that_end(make, seed):
    """What a learner knows, it plans for: its plan is as good as it says, and regret is never below 0."""
    mdp = ending_mdp(seed, n_states=5, discount=0.99)
    best = howard(mdp)
    known = {"known_environment": mdp.environment, "known_agents": {agent.name: agent.policy for agent in mdp.team.agents}}
    knows_all = make(mdp.task, **known)
    plan = knows_all.plan
    np.testing.assert_allclose(plan.value, best, atol=plan.error + 1e-9 * np.abs(best).max() + 1e-12)
    assert (cede.evaluate(mdp, plan) - best).max() <= plan.error + 1e-9 * (np.abs(best).max() + 1)
    learner = make(mdp.task)
    history = cede.simulate(mdp, learner, steps=400, record_every=20, progress=False)
    assert history.optimum == pytest.approx(mdp.environment.start @ best[:, mdp.task.start_agent], abs=1e-8)
    assert np.isfinite(learner.plan.value).all()
    assert (np.diff(history.regret) >= -1e-6).all()
    assert cede.insight.mean_plan(learner).error <= 1e-6 * (1 + np.abs(best).max()) * 100


# ------------------------------------------------------------------------------------------------- near ties, discounts near 1


@pytest.mark.parametrize("discount", [0.99999, 1 - 1e-7, 1 - 1e-12, None])
@pytest.mark.parametrize("dearer", [1e-4, 1e-6, 1e-9])
def test_choices_that_are_nearly_equal(discount, dearer):
    """To hand over pays only in the very long run."""
    environment = cede.Environment(np.ones((1, 1, 1)), [[0.0]], start=[1.0])
    agents = [cede.Agent("a", [[1.0]], 0.6 + dearer), cede.Agent("b", [[1.0]], 0.6)]
    mdp = cede.TwoLayerMDP(environment, cede.Team(agents, 0.15), None, discount=discount)
    plan = cede.solve(mdp)
    if discount is None:
        assert plan.gain == pytest.approx(0.6, rel=1e-14)
        assert cede.expected_cost(mdp, plan) == pytest.approx(0.6, rel=1e-14)
        return
    stay, go = (0.6 + dearer) / (1 - discount), 0.6 / (1 - discount) + 0.15
    assert cede.expected_cost(mdp, plan) == pytest.approx(min(stay, go), rel=1e-14)
    assert plan.value[0, 0] == pytest.approx(min(stay, go), rel=1e-11)
    assert plan.error <= 2e-11 * stay
    history = cede.simulate(mdp, cede.oracle(mdp), steps=50, progress=False)
    assert history.optimum == pytest.approx(min(stay, go), rel=1e-10)


@pytest.mark.parametrize("seed", range(60))
def test_near_ties_against_policy_iteration(seed):
    rng = np.random.default_rng(seed)
    n, n_agents = int(rng.integers(1, 8)), int(rng.integers(2, 4))
    rows = random_rows(rng, (n, 2, n)) if rng.random() < 0.5 else np.eye(n)[rng.integers(n, size=(n, 2))]
    environment = cede.Environment(rows, 1 + 1e-4 * rng.random((n, 2)), np.full(n, 1 / n))
    agents = [cede.Agent(f"agent {d}", random_rows(rng, (n, 2)), 0.6 + 1e-4 * d) for d in range(n_agents)]
    mdp = cede.TwoLayerMDP(environment, cede.Team(agents, float(rng.choice([0.0, 0.2, 5.0]))), None, discount=0.99999)
    wanted, plan = howard(mdp), cede.solve(mdp)
    np.testing.assert_allclose(plan.value, wanted, rtol=1e-10)
    assert (cede.evaluate(mdp, plan) - wanted).max() <= 1e-10 * wanted.max()
    assert plan.error <= 1e-10 * wanted.max()


@pytest.mark.parametrize("left", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
def test_discounts_as_near_to_1_as_floats_are(left):
    """Two parts that are never left, and a state between: from fractions."""
    from fractions import Fraction

    rows = np.array([[[1, 0, 0]], [[0, 1, 0]], [[0.25, 0.25, 0.5]]])
    environment = cede.Environment(rows, [1.0, 2.0, 5.0], [0, 0, 1])
    mdp = cede.TwoLayerMDP(environment, cede.Team([cede.Agent("a", np.ones((3, 1)))]), None, discount=1 - left)
    g = Fraction(mdp.discount)
    first, second = 1 / (1 - g), 2 / (1 - g)
    third = (5 + g * (first + second) / 4) / (1 - g / 2)
    for found in (cede.evaluate(mdp, [[0], [0], [0]]), cede.solve(mdp).value):
        np.testing.assert_allclose(found[:, 0], [float(first), float(second), float(third)], rtol=1e-10)
    assert cede.expected_cost(mdp, [[0], [0], [0]]) == pytest.approx(float(third), rel=1e-14)
    assert true_value(mdp, np.zeros((1, 3, 1), dtype=np.int16)).shape == (1, 3, 1)
