"""Averages of problems in which some agents or states cannot be reached: against linear programming for any number of chains."""

import numpy as np
import pytest
from scipy.optimize import linprog

import cede
from cede.beliefs.belief import Belief
from cede.planning.passes import gain_under
from planning.test_endless_ends import choices_of
from problems import random_rows


def least_average(mdp):
    """The least average cost of a step from the start, whatever parts there are (Hordijk and Kallenberg 1979)."""
    cost, leads = choices_of(mdp)
    n, n_agents = cost.shape
    begin = np.zeros((mdp.task.n_states, n_agents))
    begin[:, mdp.task.start_agent] = mdp.environment.start
    allowed = np.isfinite(cost).reshape(-1)
    flow = (np.eye(n)[:, None, :] - leads).reshape(-1, n)[allowed].T
    each = np.repeat(np.eye(n), n_agents, axis=0)[allowed].T
    rows = np.block([[flow, np.zeros_like(flow)], [each, flow]])
    right = np.concatenate([np.zeros(n), begin.reshape(-1)])
    prices = np.concatenate([cost.reshape(-1)[allowed], np.zeros(allowed.sum())])
    found = linprog(prices, A_eq=rows, b_eq=right)
    assert found.status == 0
    return found.fun


def parts_mdp(seed):
    """A random problem of one to three parts that are apart, and some states between; hand-overs may be impossible."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=rng.integers(1, 4))
    n, n_actions, n_agents = int(sizes.sum()) + int(rng.integers(0, 3)), int(rng.integers(1, 3)), int(rng.integers(1, 4))
    rows, at = np.zeros((n, n_actions, n)), 0
    for size in sizes:
        rows[at : at + size, :, at : at + size] = random_rows(rng, (size, n_actions, size))
        at += size
    rows[at:] = random_rows(rng, (n - at, n_actions, n))
    first = np.zeros(n)
    first[rng.integers(n)] = 1.0
    shuffled = rng.permutation(n)
    rows, first = rows[shuffled][:, :, shuffled], first[shuffled]
    switch = rng.random((n_agents, n_agents))
    switch[rng.random((n_agents, n_agents)) < 0.4] = np.inf
    np.fill_diagonal(switch, 0.0)
    agents = [cede.Agent(f"agent {d}", random_rows(rng, (n, n_actions)), float(rng.random())) for d in range(n_agents)]
    environment = cede.Environment(rows, rng.normal(size=(n, n_actions)), first)
    return cede.TwoLayerMDP(environment, cede.Team(agents, switch), None, int(rng.integers(n_agents)))


def solved(mdp):
    """The plan, or None if the average is refused."""
    try:
        return cede.solve(mdp)
    except ValueError as error:
        if "a part of the problem without horizon is apart" not in str(error):
            raise
        return None


@pytest.mark.parametrize("seed", range(300))
def test_averages_with_places_out_of_reach(seed):
    mdp = parts_mdp(seed)
    plan = solved(mdp)
    if plan is None:
        return
    wanted = least_average(mdp)
    assert plan.gain == pytest.approx(wanted, abs=1e-8)
    assert plan.error < 1e-10
    assert cede.expected_cost(mdp, plan) == pytest.approx(plan.gain, abs=1e-12)
    if seed % 10 == 0:
        history = cede.simulate(mdp, cede.oracle(mdp), steps=40, progress=False)
        assert history.optimum == pytest.approx(wanted, abs=1e-8)
        np.testing.assert_allclose(history.regret, 0.0, atol=1e-8)


def test_few_random_problems_are_refused():
    assert sum(solved(parts_mdp(seed)) is None for seed in range(300)) < 150


def two_ends():
    """Two states that are never left; runs begin in the cheap one."""
    environment = cede.Environment(np.eye(2)[:, None, :], [1.0, 3.0], start=[1.0, 0.0])
    return cede.TwoLayerMDP(environment, cede.Team([cede.Agent("a", np.ones((2, 1)))]), None)


def behind_a_wall():
    """The cheap agent, whom control cannot come to."""
    environment = cede.Environment(np.ones((1, 1, 1)), [[0.5]], start=[1.0])
    agents = [cede.Agent("dear", [[1.0]], 2.0), cede.Agent("cheap", [[1.0]], 1.0)]
    return cede.TwoLayerMDP(environment, cede.Team(agents, [[0.0, np.inf], [0.0, 0.0]]), None)


@pytest.mark.parametrize(("make", "gain"), [(two_ends, 1.0), (behind_a_wall, 2.5)])
def test_the_problems_of_the_report(make, gain):
    mdp = make()
    plan = cede.solve(mdp)
    assert plan.gain == pytest.approx(gain, abs=1e-12)
    assert plan.error < 1e-12
    assert np.isnan(plan.value).sum() == 1  # of the place that no run comes to
    for learner in (cede.oracle(mdp), cede.ucrl2_mc(mdp.task), cede.posterior_sampling(mdp.task), cede.greedy(mdp.task)):
        history = cede.simulate(mdp, learner, steps=2000, record_every=100, progress=False)
        assert history.optimum == pytest.approx(gain, abs=1e-12)
        np.testing.assert_allclose(history.regret, 0.0, atol=1e-7)
    told = {"known_environment": mdp.environment, "known_agents": {agent.name: agent.policy for agent in mdp.team.agents}}
    learner = cede.ucrl2_mc(mdp.task, **told)
    assert np.isfinite(learner.plan.value).all()
    if make is behind_a_wall:
        assert learner.plan.gain == pytest.approx(gain, abs=1e-9)
        assert cede.insight.mean_plan(learner).gain == pytest.approx(gain, abs=1e-9)


def test_a_refusal_names_the_agents():
    """Control can be given away for good: whether that pays depends on nothing that a run could change back."""
    environment = cede.Environment(np.ones((1, 1, 1)), [[0.5]], start=[1.0])
    agents = [cede.Agent("first", [[1.0]], 2.0), cede.Agent("second", [[1.0]], 1.0)]
    mdp = cede.TwoLayerMDP(environment, cede.Team(agents, [[0.0, 0.0], [np.inf, 0.0]]), None)
    with pytest.raises(ValueError, match=r"state 0 after 'first' is such that it can be stayed in for ever, or left for good"):
        cede.solve(mdp)


def test_learners_who_are_told_the_environment_plan_for_what_its_start_leads_to():
    """State 1 is cheap, and nobody ever comes there."""
    environment = cede.Environment([[[1.0, 0.0]], [[0.0, 1.0]]], [[1.0], [0.7]], start=[1.0, 0.0])
    agents = [cede.Agent("a", [[1.0]] * 2), cede.Agent("b", [[1.0]] * 2, control_cost=0.3)]
    mdp = cede.TwoLayerMDP(environment, cede.Team(agents, 0.1), None)
    learner = cede.ucrl2_mc(mdp.task, known_environment=environment)
    cede.simulate(mdp, learner, steps=50, progress=False)
    for plan in (learner.plan, cede.insight.mean_plan(learner)):
        assert plan.gain == pytest.approx(1.0)
        assert plan.error < 1e-9


def test_the_least_average_of_states_that_are_never_left():
    """A step costs 1 in one state and 3 in the other for ever: the least that a policy may cost is 1, not less."""
    task = cede.Task([[1.0], [3.0]], ["a"], None)
    agents, environment = Belief.of(np.ones((2, 1)), 0.0, (1, 2)), Belief.of(np.eye(2), 0.0, (2, 1))
    assert gain_under(task, agents, environment, np.zeros((1, 2, 1), dtype=np.int16)) == pytest.approx(1.0, abs=1e-9)
