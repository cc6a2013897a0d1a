"""Values over sets at discounts near 1, where parts of a problem are apart and iterating values gives up."""

import numpy as np
import pytest

import cede
from cede.planning.policy_iteration import by_newton


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
    found = cede.bounds(learner, np.zeros((5, 2), dtype=int))
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


def test_newton_finds_the_fixed_point_of_a_chain():
    rng = np.random.default_rng(0)
    for _ in range(20):
        n, discount = int(rng.integers(2, 9)), float(rng.choice([0.5, 0.99, 0.999999]))
        tables, costs = rng.dirichlet(np.ones(n), size=(3, n)), rng.normal(size=(3, n))

        def operator(value, tables=tables, costs=costs, discount=discount):
            return (costs + discount * tables @ value.ravel()).min(axis=0).reshape(value.shape)

        value, error = by_newton(operator, np.zeros((n, 1)), discount, 1e-12)
        assert error <= 1e-10 * max(1.0, np.abs(value).max())
        np.testing.assert_allclose(operator(value), value, rtol=1e-10, atol=1e-9)


def test_newton_returns_the_middle_of_its_bounds():
    """Two places that lead to one another. From 0, T 0 = (1, 3): the fixed point, (10 / 3, 14 / 3), lies from 1 to 3 beyond it."""

    def operator(value):
        return np.array([[1.0], [3.0]]) + 0.5 * value[::-1]

    value, error = by_newton(operator, np.zeros((2, 1)), 0.5, 1.0)  # (1, 3) + 1 * (1 + 3) / 2, give or take 1 * (3 - 1) / 2
    assert value.ravel().tolist() == [3.0, 5.0]
    assert error == 1.0
    np.testing.assert_allclose(np.abs(value.ravel() - np.array([10 / 3, 14 / 3])).max(), 1 / 3)
