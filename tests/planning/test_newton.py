"""Values and averages over sets where iterating values gives up: parts of a problem are apart, or chains mix slowly."""

from dataclasses import replace

import numpy as np
import pytest

import cede
from cede.beliefs.belief import Belief
from cede.planning.passes import gain_under, value_under
from cede.planning.planner import optimistic_plan


def two_rooms(discount):
    """Rooms that are never left, one dear and one cheap, and a hall from which a policy goes to either."""
    stay = [[0.5, 0.5, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0, 0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5, 0], [0.25, 0, 0.25, 0, 0.5]]
    transition = np.repeat(np.array(stay)[:, None], 2, axis=1)
    cost = np.array([[1.0, 2.0], [3.0, 1.0], [0.2, 0.1], [0.0, 0.3], [0.0, 0.0]])
    environment = cede.Environment(transition, cost, start=[0, 0, 0, 0, 1])
    agents = [cede.Agent("a", [[0.5, 0.5]] * 5), cede.Agent("b", [[0.9, 0.1]] * 5)]
    return cede.TwoLayerMDP(environment, cede.Team(agents, 0.1), None, discount=discount)


@pytest.mark.parametrize("belief", ["printed", "kl", "bernstein"])
@pytest.mark.parametrize("discount", [0.99, 0.99999, 0.9999999])
def test_bounds_of_rooms_that_are_apart(belief, discount):
    """The environment is known, so what is uncertain in each state is one probability: who acts takes the first action."""
    mdp = two_rooms(discount)
    learner = cede.ucrl2_mc(mdp.task, belief=belief, known_environment=mdp.environment)
    state = np.repeat(np.arange(5), 8)
    log = {
        "episode": np.arange(40),
        "state": state,
        "prev_agent": [0] * 40,
        "agent": [0] * 40,
        "action": [0, 0, 0, 1] * 10,
        "next_state": state,
    }
    learner.learn_from(log, progress=False)
    found = cede.insight.bounds(learner, np.zeros((5, 2), dtype=int))
    agents, _ = learner.beliefs
    tables = mdp.environment.transition.toarray().reshape(5, 2, 5)
    for end, sign in ((found.low, 1.0), (found.high, -1.0)):
        ends = np.array([[most(agents, s, a) for a in (0, 1)] for s in range(5)])
        cost = sign * mdp.environment.cost
        value = np.zeros(5)
        for _ in range(50):  # policy iteration: nature takes the least or the most of the first action
            q = cost + discount * tables @ value
            first = np.where(q[:, 0] < q[:, 1], ends[:, 0], 1.0 - ends[:, 1])
            acts = np.stack([first, 1.0 - first], axis=1)
            chain = np.einsum("sa,sax->sx", acts, tables)
            value = np.linalg.solve(np.eye(5) - discount * chain, (acts * cost).sum(axis=1))
        np.testing.assert_allclose(sign * end[:, 0], value, rtol=0, atol=1e-8 * np.abs(value).max())


def most(agents, s, a):
    """Return the most that the set around agent a allows for an action in a state, by bisection."""
    q = np.array([0.75, 0.25])
    low, high = q[a], 1.0
    for _ in range(100):
        middle = (low + high) / 2
        p = np.array([middle, 1 - middle])[[a, 1 - a]]
        low, high = (middle, high) if holds(agents, agents.width[agents.row[0, s]], q, p) else (low, middle)
    return low


def holds(agents, width, q, p):
    if agents.linear:  # intervals
        return (np.abs(p - q) <= np.sqrt(2 * q * (1 - q) * width) + agents.linear * width).all()
    if agents.kl:
        return (q * np.log(q / np.maximum(p, 1e-300))).sum() <= width
    return np.abs(p - q).sum() <= width


KINDS = ["l1", "interval", "kl"]


def slow_pair(kind, leave, back, discount=None, turns=False):
    """Two states. The first costs 1 and was never seen to be left: its set allows to leave it with the chance `leave`. The second
    costs 0 and is left with the chance `back`, which is known. turns: two agents take turns, so that the chain is periodic.
    """
    width = {"l1": 2.0 * leave, "interval": leave / 3.0, "kl": -np.log1p(-leave)}[kind]
    environment = Belief.of([[1.0, 0.0], [back, 1.0 - back]], [width, 0.0], (2, 1))
    environment = replace(environment, linear=3.0 if kind == "interval" else 0.0, kl=kind == "kl")
    n = 2 if turns else 1
    task = cede.Task(
        env_cost=[[1.0], [0.0]],
        agents=["a", "b"][:n],
        control_cost=[0.0, 0.5][:n],
        switch_cost=[[np.inf, 0.0], [0.0, np.inf]] if turns else 0.0,
        horizon=None,
        discount=discount,
    )
    return task, Belief.of(np.ones((2 * n, 1)), 0.0, (n, 2)), environment


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("leave", "back"), [(1e-3, 1e-4), (1e-6, 1e-6), (3e-6, 0.5), (1e-9, 1e-8), (1e-12, 1e-12)])
def test_averages_of_chains_that_hardly_ever_leave_a_state(kind, leave, back, turns):
    """The share of the steps in the first state is back / (back + leave), by the balance of the flows."""
    task, agents, environment = slow_pair(kind, leave, back, turns=turns)
    wanted = back / (back + leave) + (0.25 if turns else 0.0)
    plan = optimistic_plan(task, agents, environment)
    low = gain_under(task, agents, environment, plan.policy[None])
    assert abs(plan.gain - wanted) <= plan.error / 2 + 1e-12
    assert low <= wanted + 1e-12
    assert plan.error <= 1e-10 + 1e-13 / (back + leave)
    assert low >= wanted - 1e-10 - 1e-13 / (back + leave)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("leave", "back"), [(1e-3, 1e-4), (3e-6, 0.5), (1e-9, 1e-8)])
@pytest.mark.parametrize("rest", [1e-3, 1e-6, 1e-9])
def test_discounts_near_one_of_such_chains(kind, leave, back, rest):
    """v0 = 1 + g (v0 - leave (v0 - v1)), v1 = g (v1 + back (v0 - v1)), so v0 - v1 = 1 / (1 - g + g (leave + back))."""
    task, agents, environment = slow_pair(kind, leave, back, discount=1.0 - rest)
    g, rest = 1.0 - rest, 1.0 - (1.0 - rest)
    apart = 1.0 / (rest + g * (leave + back))
    second = g * back * apart / rest
    plan = optimistic_plan(task, agents, environment)
    value = np.array([[second + apart], [second]])
    assert np.abs(plan.value - value).max() <= plan.error + 1e-12 * value.max()
    np.testing.assert_allclose(plan.value, value, rtol=1e-8)
    np.testing.assert_allclose(value_under(task, agents, environment, plan.policy[None])[0], value, rtol=1e-8, atol=plan.error)
