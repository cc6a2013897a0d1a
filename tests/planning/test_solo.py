"""One who acts alone: the best policy of a single agent is a switching policy among actions."""

import numpy as np
import pytest

import cede
from cede.planning.planner import best_policy
from cede.problem.model import solo


def environment(seed, n=5, a=3):
    rng = np.random.default_rng(seed)
    return cede.Environment(rng.dirichlet(np.ones(n), size=(n, a)), rng.random((n, a)), np.eye(n)[0])


@pytest.mark.parametrize("seed", range(3))
def test_the_best_expert_by_plain_value_iteration(seed):
    world, discount = environment(seed), 0.9
    moves = world.transition.toarray().reshape(5, 3, 5)
    value = np.zeros(5)
    for _ in range(500):
        table = world.cost + discount * moves @ value
        value = table.min(axis=1)
    policy = best_policy(world, None, discount=discount)
    assert policy.argmax(axis=1).tolist() == table.argmin(axis=1).tolist()
    np.testing.assert_array_equal(policy.sum(axis=1), 1.0)


def test_a_horizon_and_the_names_of_actions():
    world = environment(7)
    mdp = solo(world, 1)
    assert mdp.task.agents == ("0", "1", "2")
    assert best_policy(world, 1).argmax(axis=1).tolist() == world.cost.argmin(axis=1).tolist()
    with pytest.raises(ValueError, match="solo: environment is 3, must be an Environment"):
        solo(3, 4)
