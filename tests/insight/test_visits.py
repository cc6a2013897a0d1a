"""How often each situation comes up without a horizon, against dense linear algebra."""

import numpy as np
import pytest

import cede
from cede.beliefs.truth import true_beliefs
from cede.insight.occupancy import occupancy


def slow_world(seed, discount, terminal=()):
    """Two rooms that are left once in ten thousand steps: what is added up step by step has not come to an end."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(5), size=(5, 2))
    transition[:2, :, 2:] *= 1e-4
    transition[2:, :, :2] *= 1e-4
    transition /= transition.sum(axis=-1, keepdims=True)
    cost = rng.random((5, 2))
    cost[list(terminal)] = 0.0
    environment = cede.Environment(transition, cost, start=[1, 0, 0, 0, 0], terminal=terminal)
    agents = [cede.Agent(name, rng.dirichlet(np.ones(2), size=5)) for name in "ab"]
    return cede.TwoLayerMDP(environment, cede.Team(agents, 0.1), None, discount=discount)


def dense_chain(mdp, policy):
    chain = np.zeros((5, 2, 5, 2))
    for s in range(5):
        for prev in range(2):
            d = policy[s, prev]
            acts = mdp.team.agents[d].policy[s]
            chain[s, prev, :, d] = sum(acts[a] * mdp.environment.transition[[s * 2 + a]].toarray()[0] for a in range(2))
    return chain.reshape(10, 10)


@pytest.mark.parametrize("terminal", [(), (4,)])
@pytest.mark.parametrize("discount", [0.5, 0.99, 0.999999])
def test_discounted(discount, terminal):
    for seed in range(5):
        mdp = slow_world(seed, discount, terminal)
        policy = np.random.default_rng(seed).integers(2, size=(5, 2)).astype(np.int16)
        chain = dense_chain(mdp, policy)
        chain[[s * 2 + d for s in terminal for d in range(2)]] = 0.0
        expected = np.linalg.solve((np.eye(10) - discount * chain).T, np.eye(10)[0]).reshape(5, 2)
        expected[list(terminal)] = 0.0
        found = occupancy(mdp.task, *true_beliefs(mdp), policy[None], mdp.environment.start)
        np.testing.assert_allclose(found[0], expected, rtol=1e-8, atol=1e-12)


def test_averages_with_two_places_to_end_up_in():
    for seed in range(5):
        mdp = slow_world(seed, None)
        policy = np.random.default_rng(seed).integers(2, size=(5, 2)).astype(np.int16)
        power = np.linalg.matrix_power((dense_chain(mdp, policy) + np.eye(10)) / 2, 2**40)  # lazy: no periods
        found = occupancy(mdp.task, *true_beliefs(mdp), policy[None], mdp.environment.start)
        np.testing.assert_allclose(found[0].ravel(), power[0] / power[0].sum(), rtol=1e-4, atol=1e-9)
