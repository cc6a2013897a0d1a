"""Policy iteration alone, from the worst policy, against policies by enumeration."""

from itertools import product

import numpy as np
import pytest

import cede
from cede.beliefs.belief import Belief
from cede.planning.chains import improved
from cede.planning.passes import backup
from problems import random_mdp


def tables(mdp):
    """The true tables of a problem as beliefs of width 0: of the agents below one another, and of the environment."""
    agents = np.concatenate([agent.policy for agent in mdp.team.agents])
    states, actions = mdp.environment.n_states, mdp.environment.n_actions
    return Belief.of(agents, 0.0, (2, states)), Belief.of(mdp.environment.transition, 0.0, (states, actions))


@pytest.mark.parametrize("discount", [0.9, None])
@pytest.mark.parametrize("seed", range(3))
def test_the_worst_policy_becomes_the_best(seed, discount):
    n = 3
    dense = random_mdp(seed, n_states=n, n_actions=2, n_agents=2, kinds=[None])
    mdp = cede.TwoLayerMDP(dense.environment, dense.team, None, discount=discount)
    policies = [np.array(one, dtype=np.int16).reshape(n, 2) for one in product(range(2), repeat=2 * n)]
    costs = [cede.expected_cost(mdp, one) for one in policies]
    worst, agents, environment = policies[int(np.argmax(costs))], *tables(mdp)
    found = improved(
        mdp.task,
        agents,
        environment,
        worst[None],
        np.ones((n, 2), dtype=bool),
        lambda task, v: backup(task, agents, environment, v),
    )
    assert found is not None
    assert cede.expected_cost(mdp, found.policy[0]) == pytest.approx(min(costs), rel=1e-12)
    assert found.error <= 1e-9
    if discount is None:  # values are relative to the first place
        assert found.value[0, 0] == 0.0
    assert min(costs) < 0.999 * max(costs)
