"""Plans without horizon: against QuantEcon, linear programming over occupation measures, and long finite horizons."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

import cede
from cede.beliefs.belief import Belief
from cede.beliefs.truth import true_beliefs
from cede.planning.backup import CHOOSE
from cede.planning.chains import chain_of, chain_value
from cede.planning.fixed_point import new_endless
from cede.planning.passes import backup, model_of, pass_scratch, run_endless, thread_scratch, work_done
from cede.planning.planner import optimistic_plan
from planning.test_costs_ends_time import options, parts, rich_mdp
from problems import random_mdp, random_rows
from reference import least_mean_lp


def connected(mdp, seed):
    """The same problem with a chance of everything, so that every place is reached from every other one."""
    rng = np.random.default_rng(seed)
    n = mdp.task.n_states
    rows = 0.9 * mdp.environment.transition.toarray() + 0.1 * random_rows(rng, (1, n), sparse=0.0)[0]
    environment = replace(mdp.environment, transition=rows.reshape(n, -1, n), terminal=())
    agents = [replace(agent, policy=0.9 * agent.policy + 0.1 / agent.policy.shape[-1]) for agent in mdp.team.agents]
    return replace(mdp, environment=environment, team=cede.Team(agents, mdp.team.switch_cost), discount=None)


def product_form(mdp):
    """Rewards and transitions of the product form for QuantEcon: states (s, prev), actions d."""
    task, (p, _, _, _, ended, _) = mdp.task, parts(mdp)
    n, q = task.n_states * task.n_agents, options(mdp, 0, np.zeros((task.n_states, task.n_agents)))
    transition = np.zeros((n, task.n_agents, n))
    for s, prev, d in np.ndindex(*q.shape):
        agent = mdp.team.agents[d]
        chances = agent.policy[s] if agent.varies_with is None else agent.policy[prev, s]
        to = chances @ p[0][s] if not ended[s] else np.eye(task.n_states)[s]
        transition[s * task.n_agents + prev, d, d :: task.n_agents] = to
    q[ended] = 0.0
    return -q.reshape(n, task.n_agents), transition


@pytest.mark.parametrize("seed", range(200))
def test_discounted_solution_against_quantecon(seed):
    markov = pytest.importorskip("quantecon.markov")
    mdp = rich_mdp(seed, horizon=None)
    rewards, transition = product_form(mdp)
    wanted = markov.DiscreteDP(rewards, transition, mdp.discount).solve(method="policy_iteration")
    plan = cede.solve(mdp)
    assert plan.error < 1e-8
    np.testing.assert_allclose(plan.value.reshape(-1), -wanted.v, atol=1e-8)
    np.testing.assert_allclose(cede.evaluate(mdp, plan), plan.value, atol=1e-8)


@pytest.mark.parametrize("discount", [0.5, 0.99, 0.9999])
def test_discounts_near_one(discount):
    markov = pytest.importorskip("quantecon.markov")
    river = replace(cede.worlds.riverswim(agents=[0.1, 0.5, 0.9]), horizon=None, discount=discount)
    rewards, transition = product_form(river)
    wanted = markov.DiscreteDP(rewards, transition, discount).solve(method="policy_iteration")
    plan = cede.solve(river)
    np.testing.assert_allclose(plan.value.reshape(-1), -wanted.v, rtol=1e-9)
    assert plan.error <= 1e-9 * np.abs(plan.value).max()


def average_lp(mdp, member=None, share=1.0):
    """The least average cost over occupation measures; member: whose share of the steps is at most `share`."""
    task, (p, *_) = mdp.task, parts(mdp)
    q = options(mdp, 0, np.zeros((task.n_states, task.n_agents)))
    places = list(np.ndindex(*q.shape))
    balance = np.zeros((task.n_states * task.n_agents, len(places)))
    for i, (s, prev, d) in enumerate(places):
        agent = mdp.team.agents[d]
        chances = agent.policy[s] if agent.varies_with is None else agent.policy[prev, s]
        balance[s * task.n_agents + prev, i] += 1.0
        balance[d :: task.n_agents, i] -= chances @ p[0][s]
    rows, right = np.concatenate([balance, np.ones((1, len(places)))]), np.eye(len(balance) + 1)[-1]
    limit = None if member is None else np.array([[float(d == member) for _, _, d in places]])
    found = linprog(q.reshape(-1), A_eq=rows, b_eq=right, A_ub=limit, b_ub=None if member is None else [share])
    return found.fun


@pytest.mark.parametrize("seed", range(200))
def test_average_solution_against_occupation_measures(seed):
    mdp = connected(rich_mdp(seed, horizon=None), seed)
    plan, wanted = cede.solve(mdp), average_lp(mdp)
    assert plan.gain == pytest.approx(wanted, abs=1e-8)
    assert plan.error < 1e-8
    assert cede.expected_cost(mdp, plan) == pytest.approx(wanted, abs=1e-8)
    if mdp.task.n_agents > 1:
        rng = np.random.default_rng(seed)
        member, share = int(rng.integers(mdp.task.n_agents)), float(rng.uniform(0.1, 0.9))
        mixture = cede.solve(mdp, at_most={mdp.task.agents[member]: share})
        assert mixture.cost == pytest.approx(average_lp(mdp, member, share), abs=1e-7)
        assert mixture.shares[member] <= share + 1e-7


@pytest.mark.parametrize("seed", range(30))
def test_long_horizons_come_close(seed):
    """With a discount the values of long horizons tend to those without; the bound is what is left of the discount."""
    endless = rich_mdp(seed, horizon=None)
    mdp = replace(endless, horizon=60)
    left = mdp.discount**60 * np.abs(cede.solve(endless).value).max() * 2 + 1e-9
    np.testing.assert_allclose(cede.solve(mdp).value[0], cede.solve(endless).value, atol=left)


@pytest.mark.parametrize("seed", range(40))
def test_optimistic_plans_against_value_iteration_by_linear_programming(seed):
    mdp = random_mdp(seed, kinds=[None, "prev_agent"], n_states=3, n_actions=2, n_agents=2)
    mdp = replace(mdp, horizon=None, discount=0.6)
    task, rng = mdp.task, np.random.default_rng(seed)
    slots = [agent.policy.reshape(-1, 3, 2) for agent in mdp.team.agents]
    width, radius = float(rng.uniform(0.1, 1)), float(rng.uniform(0.1, 1))
    agents = Belief.of(np.concatenate(slots).reshape(-1, 2), width, (sum(map(len, slots)), 3))
    rows = mdp.environment.transition.toarray()
    environment = Belief.of(rows, radius, (3, 2))
    plan = optimistic_plan(task, agents, environment)
    value = plan.value
    for s, prev in np.ndindex(3, 2):  # the value is a fixed point of the operator
        found = []
        for d in range(2):
            x = np.array([least_mean_lp(rows[2 * s + a], radius, 0.6 * value[:, d]) for a in range(2)])
            agent = mdp.team.agents[d]
            chances = agent.policy[s] if agent.varies_with is None else agent.policy[prev, s]
            found.append(task.control_cost[d] + task.switch_cost[prev, d] + least_mean_lp(chances, width, task.env_cost[s] + x))
        assert value[s, prev] == pytest.approx(min(found), abs=1e-8)


def test_periodic_chains_are_safe():
    """Two states that are left in every step: plain value iteration would go on for ever."""
    flip = np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    mdp = cede.TwoLayerMDP(cede.Environment(flip, [1.0, 3.0], [1.0, 0.0]), cede.Team([cede.Agent("a", np.ones((2, 1)))]), None)
    plan = cede.solve(mdp)
    assert plan.gain == pytest.approx(2.0, abs=1e-10)
    np.testing.assert_allclose(cede.evaluate(mdp, plan), 2.0)


def test_a_policy_may_cost_less_in_one_part_than_in_another():
    """Who stays where he is stays there for ever: what a step costs in the long run depends on where he begins."""
    stay_or_go = np.zeros((2, 2, 2))
    stay_or_go[:, 0] = np.eye(2)
    stay_or_go[:, 1] = np.eye(2)[::-1]
    agents = [cede.Agent("stays", [[1, 0], [1, 0]]), cede.Agent("goes", [[0, 1], [0, 1]])]
    mdp = cede.TwoLayerMDP(cede.Environment(stay_or_go, [1.0, 3.0], [0.5, 0.5]), cede.Team(agents), None)
    np.testing.assert_allclose(cede.evaluate(mdp, mdp.task.always("stays")), [[1.0, 1.0], [3.0, 3.0]])
    assert cede.expected_cost(mdp, mdp.task.always("stays")) == pytest.approx(2.0)
    assert cede.solve(mdp).gain == pytest.approx(1.0, abs=1e-9)  # go to the cheap one, and stay
    history = cede.simulate(mdp, cede.fixed(mdp.task, "stays"), steps=20, seed=1, progress=False)
    assert history.expected_cost[-1] == pytest.approx(history.cost[-1], abs=1e-6)


def test_parts_that_are_apart_are_named():
    apart = np.zeros((3, 1, 3))
    apart[[0, 1, 2], 0, [0, 1, 1]] = 1.0
    names = ["left", "right", "between"]
    environment = cede.Environment(apart, [1.0, 2.0, 0.0], [0.5, 0.0, 0.5], state_names=names)
    mdp = cede.TwoLayerMDP(environment, cede.Team([cede.Agent("a", np.ones((3, 1)))]), None)
    with pytest.raises(
        ValueError, match=r"solve: a part of the problem without horizon is apart, must be connected .*'left' is never left"
    ):
        cede.solve(mdp)
    with pytest.raises(ValueError, match="simulate: a part of the problem"):
        cede.simulate(mdp, cede.greedy(mdp.task), steps=10)
    once = np.zeros((2, 2, 2))
    once[0, 0, 0] = once[0, 1, 1] = once[1, :, 1] = 1.0
    agents = [cede.Agent("stays", [[1, 0], [1, 0]]), cede.Agent("goes", [[0, 1], [0, 1]])]
    with pytest.raises(ValueError, match="state 0 is such that it can be stayed in for ever, or left for good"):
        cede.solve(cede.TwoLayerMDP(cede.Environment(once, [1.0, 2.0], [1.0, 0.0]), cede.Team(agents), None))
    assert cede.solve(cede.TwoLayerMDP(cede.Environment(once, [1.0, 2.0], [1.0, 0.0]), cede.Team(agents), None, discount=0.9))


def test_costs_in_the_long_run_against_many_steps():
    mdp = connected(rich_mdp(3, horizon=None), 3)
    policy = np.random.default_rng(0).integers(mdp.task.n_agents, size=(1, mdp.task.n_states, mdp.task.n_agents)).astype(np.int16)
    chain = chain_of(mdp.task, *true_beliefs(mdp), policy)
    share = np.linalg.matrix_power(chain.matrix.toarray(), 2**20)
    np.testing.assert_allclose(chain_value(chain.matrix, chain.cost, 1.0).level, share @ chain.cost, atol=1e-9)


@pytest.mark.parametrize(("world", "discount"), [("river", None), ("river", 0.95), ("river", 0.99), ("road", None), ("road", 0.99)])
def test_planning_again_takes_a_few_sweeps(world, discount):
    """From the last plan on, after one more run of ten steps: counted in applications of the operator, not in seconds."""
    mdp = cede.worlds.riverswim(agents=[0.2, 0.8]) if world == "river" else cede.worlds.lane_driving(control_cost=0.2)
    agents = [one if one.varies_with is None else replace(one, policy=one.policy[0], varies_with=None) for one in mdp.team.agents]
    endless = cede.TwoLayerMDP(mdp.environment, cede.Team(agents, 0.1), None, discount=discount)
    task, learner = endless.task, cede.ucrl2_mc(endless.task, scale=0.1, replan=500)
    cede.simulate(endless, learner, steps=2000, progress=False)
    learner.replan()
    state, agent, rng = 0, 0, np.random.default_rng(0)
    for _ in range(10):
        prev, agent = agent, learner.choose(state, agent)
        action = int(rng.choice(task.n_actions, p=agents[agent].policy[state]))
        row = endless.environment.transition[[state * task.n_actions + action]].toarray()[0]
        state, before = int(rng.choice(len(row), p=row)), state
        learner.observe(before, prev, agent, action, state)
    begun = work_done()
    learner.replan()
    assert (work_done() - begun).agents <= 5 * task.n_states * task.n_agents  # minima of one application, for every agent


def test_one_application_is_the_operator():
    mdp = rich_mdp(5, horizon=None, ends=False)
    task = mdp.task
    after = np.random.default_rng(0).normal(size=(task.n_states, task.n_agents))
    value, _ = backup(task, *cede.beliefs.truth.true_beliefs(mdp), after)
    np.testing.assert_allclose(value, options(mdp, 0, after).min(axis=2), atol=1e-12)


def test_the_certificate_holds_when_it_is_cut_short():
    """After any number of applications the value is as close to the end as it says."""
    mdp = replace(cede.worlds.riverswim(agents=[0.2, 0.8]), horizon=None, discount=0.999)
    model, exact = model_of(mdp.task, *cede.beliefs.truth.true_beliefs(mdp)), cede.solve(mdp).value
    scratch, thread = pass_scratch(model, (1, 6, 2)), thread_scratch(6, 2, 2)
    for sweeps in (1, 2, 5, 20):
        policy, value, endless = np.zeros((1, 6, 2), dtype=np.int16), np.zeros((2, 6, 2)), new_endless(mdp.task)
        endless.patience = sweeps
        from cede.planning.fixed_point import settle

        settle(model, CHOOSE, policy[0], value, 0, 0.0, endless, scratch, thread)
        assert np.abs(value[0] - exact).max() <= endless.error + 1e-9
        cost = cede.evaluate(mdp, policy[0])
        assert (cost - exact).max() <= 2 * endless.error + 1e-9
    assert run_endless(mdp.task, model, CHOOSE, policy, value, 0).error < 1e-6
