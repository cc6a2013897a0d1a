"""A limit is a share of all steps, also where costs are discounted: mixtures against linear programming over occupation measures,
learners against mixtures.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

import cede
from planning.test_costs_ends_time import act, options, parts, rich_mdp
from planning.test_endless_ends import choices_of


def least_cost_within(mdp, least, most):
    """The least discounted cost such that each agent has a share of the plain steps within limits; None if there is no way."""
    task, (p, *_, ended, factor) = mdp.task, parts(mdp)
    n, n_agents, horizon = task.n_states, task.n_agents, task.horizon
    index = np.arange(horizon * n * n_agents * n_agents).reshape(horizon, n, n_agents, n_agents)
    flow, right, prices = np.zeros((horizon * n * n_agents, index.size)), np.zeros((horizon, n, n_agents)), np.zeros(index.size)
    right[0, :, task.start_agent] = mdp.environment.start
    left = np.array([sum(factor**i for i in range(horizon - t)) for t in range(horizon + 1)])
    for t in range(horizon):
        cost = options(mdp, t, np.zeros((n, n_agents)))
        for s, prev, d in np.ndindex(n, n_agents, n_agents):
            i = index[t, s, prev, d]
            flow[(t * n + s) * n_agents + prev, i] += 1.0
            to = act(mdp, t, prev, d, s) @ p[t][s]
            if t + 1 < horizon:
                goes_on = np.where(ended, 0.0, to)
                flow[((t + 1) * n + np.arange(n)) * n_agents + d, i] -= goes_on
            after = (to * ended) @ (task.env_cost[:, 0] * left[t + 1])
            prices[i] = factor**t * (cost[s, prev, d] + factor * after)
    share = np.concatenate(
        [
            [[float(d == k) - most[k] for *_, d in np.ndindex(*index.shape)] for k in range(n_agents)],
            [[least[k] - float(d == k) for *_, d in np.ndindex(*index.shape)] for k in range(n_agents)],
        ]
    )
    found = linprog(prices, A_ub=share, b_ub=np.zeros(len(share)), A_eq=flow, b_eq=right.reshape(-1))
    return found.fun if found.status == 0 else None


@pytest.mark.parametrize("seed", range(150))
def test_mixtures_with_a_discount_are_within_limits_of_plain_steps(seed):
    mdp = rich_mdp(seed)
    rng = np.random.default_rng(seed)
    mdp = replace(mdp, discount=float(rng.choice([0.1, 0.5, 0.9])))
    names, middle = mdp.task.agents, rng.dirichlet(np.ones(mdp.task.n_agents))
    least, most = np.maximum(0, middle - rng.random() * 0.3), np.minimum(1, middle + rng.random() * 0.3)
    found = cede.solve(mdp, at_most=dict(zip(names, most, strict=True)), at_least=dict(zip(names, least, strict=True)))
    assert found.cost == pytest.approx(least_cost_within(mdp, least, most), abs=1e-6)
    assert (found.shares <= most + 1e-6).all()
    assert (found.shares >= least - 1e-6).all()
    each = [cede.expected_cost(mdp, policy) for policy in found.policies]
    assert found.cost == pytest.approx(float(found.weights @ each), abs=1e-9)


def report():
    """Two steps, and a person who saves most at once: the first step counts ten times as much as the second."""
    environment = cede.Environment(np.ones((1, 2, 1)), [[1.0, 0.0]], start=[1.0])
    agents = [cede.Agent("machine", [[1.0, 0.0]]), cede.Agent("person", [[0.0, 1.0]])]
    return cede.TwoLayerMDP(environment, cede.Team(agents), 2, discount=0.1)


@pytest.mark.parametrize("make", [cede.posterior_sampling, cede.ucrl2_mc, cede.greedy])
def test_learners_and_mixtures_mean_the_same(make):
    mdp = report()
    mixture = cede.solve(mdp, at_most={"person": 0.3})
    assert mixture.shares[1] == pytest.approx(0.3)
    assert mixture.cost == pytest.approx(1.1 - 0.6)  # of two steps .6 are the person's, all of them first ones
    history = cede.simulate(mdp, make(mdp.task, at_most={"person": 0.3}), 3000, progress=False)
    assert history.control[:, 1].sum() / history.control.sum() < 0.32
    assert abs(history.regret[-1]) < 30
    assert history.expected_cost[-1000:].mean() == pytest.approx(mixture.cost, abs=0.02)


def test_a_learner_comes_to_the_mixture_where_costs_are_discounted():
    river = replace(cede.worlds.riverswim([0.2, 0.9], horizon=10), discount=0.8)
    told = {"known_environment": river.environment, "known_agents": {agent.name: agent.policy for agent in river.team.agents}}
    mixture = cede.solve(river, at_most={"p=0.9": 0.3})
    learner = cede.ucrl2_mc(river.task, at_most={"p=0.9": 0.3}, **told)
    history = cede.simulate(river, learner, 4000, progress=False)
    late = history.control[2000:]
    assert late[:, 1].sum() / late.sum() == pytest.approx(0.3, abs=0.02)
    assert history.expected_cost[2000:].mean() == pytest.approx(mixture.cost, abs=0.01)
    assert learner.prices["p=0.9"] == pytest.approx(mixture.prices[1], abs=0.1)


def test_a_loop_by_hand_and_explanations_use_the_same_prices():
    mdp = report()
    told = {"known_environment": mdp.environment, "known_agents": {agent.name: agent.policy for agent in mdp.team.agents}}
    learner = cede.ucrl2_mc(mdp.task, at_most={"person": 0.3}, **told)
    cede.simulate(mdp, learner, 200, progress=False)
    learner.replan()
    price, plan = learner.prices["person"], learner.plan
    for t, worth in ((0, 1.0), (1, 10.0)):
        found = cede.explain(learner, t=t, state=0, prev_agent="machine")
        option = {one.agent: one for one in found.options}
        after = {name: option[name].parts["limits"] for name in option}
        expected = price * worth * 1.0  # the person acts now; what comes after is the plan's
        assert after["person"] - after["machine"] == pytest.approx(expected, rel=1e-9)
        assert min(option["person"].plain, option["machine"].plain) == pytest.approx(plan.value[t, 0, 0], abs=1e-9)
    np.testing.assert_array_equal(cede.insight.mean_plan(learner).policy, plan.policy)


@pytest.mark.parametrize("seed", range(20))
def test_without_a_horizon_steps_count_as_their_costs_do(seed):
    mdp = rich_mdp(seed, horizon=None)
    most = 0.4 if mdp.task.n_agents > 1 else 1.0
    (cost, leads), begin = choices_of(mdp), np.zeros((mdp.task.n_states, mdp.task.n_agents))
    begin[:, mdp.task.start_agent] = mdp.environment.start
    n, n_agents = cost.shape
    flow = np.repeat(np.eye(n), n_agents, axis=0).T - mdp.discount * leads.reshape(-1, n).T
    going = np.repeat(~mdp.task.is_terminal, n_agents * n_agents)  # nobody is in control where a run has ended
    share = ((np.tile(np.arange(n_agents), n) == 0) - most) * going
    wanted = linprog(cost.reshape(-1), A_ub=share[None], b_ub=[0.0], A_eq=flow, b_eq=begin.reshape(-1)).fun
    found = cede.solve(mdp, at_most={mdp.task.agents[0]: most})
    assert found.cost == pytest.approx(wanted, abs=1e-6)
    assert found.shares[0] <= most + 1e-6


def test_learners_refuse_limits_with_a_discount_and_no_horizon():
    task = replace(report().task, horizon=None)
    for make in (cede.ucrl2_mc, cede.posterior_sampling, cede.greedy, cede.recommended):
        with pytest.raises(ValueError, match=r"at_most or at_least is given, must be left out with a discount and no horizon"):
            make(task, at_most={"person": 0.3})


def test_a_discount_that_leaves_nothing_is_refused():
    mdp = replace(report(), horizon=300)
    with pytest.raises(ValueError, match=r"solve: discount is 0.1, must be larger with at_most or at_least"):
        cede.solve(mdp, at_most={"person": 0.3})
    assert cede.solve(mdp).value.shape == (301, 1, 2)
