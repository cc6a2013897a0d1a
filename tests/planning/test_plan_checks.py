"""A plan that is made by hand is checked; a flattened problem says who acts."""

from dataclasses import replace

import numpy as np
import pytest

from cede.beliefs.belief import Belief
from cede.planning.flatten import flatten
from cede.planning.passes import Plan
from cede.planning.planner import solve
from cede.problem.model import Team, TwoLayerMDP
from problems import random_mdp


@pytest.mark.parametrize(("place", "wrong"), [((0, 1, 0), 2), ((2, 0, 1), -1)])
def test_agents_of_a_plan_exist(place, wrong):
    policy = np.zeros((3, 4, 2), dtype=np.int64)
    assert Plan(policy, np.zeros((4, 4, 2))).policy.dtype == np.int16
    policy[place] = wrong
    at = ", ".join(map(str, place))
    with pytest.raises(ValueError, match=rf"Plan: policy\[{at}\] is {wrong}, must be an agent from 0 to 1"):
        Plan(policy, np.zeros((4, 4, 2)))


def test_shapes_of_a_plan():
    assert Plan([[0, 1]], [[0.5, 1.5]], gain=1.0).policy.shape == (1, 2)
    assert Plan([[0, 1]], [[0.5, 1.5]]).error == 0.0
    for policy, value in (([0, 1], [0.0, 0.0]), ([[0, 1]], np.zeros((2, 1, 2))), (np.zeros((1, 1, 1)), np.zeros((1, 1, 1)))):
        with pytest.raises(ValueError, match="Plan: "):
            Plan(policy, value)
    with pytest.raises(ValueError, match=r"Plan: value\[0, 1\] is infinite"):
        Plan([[0, 1]], [[0.5, np.inf]])
    with pytest.raises(ValueError, match="Plan: error"):
        Plan([[0, 1]], [[0.5, 1.0]], error=-1.0)


def test_actions_of_a_flattened_problem_are_agents():
    mdp = random_mdp(5, n_states=3, n_actions=2, n_agents=2, horizon=2, kinds=[None])
    flat = flatten(mdp)
    assert flat.task.action_names == ("agent 0", "agent 1")
    timed = flatten(random_mdp(5, n_states=3, n_actions=2, n_agents=2, horizon=2, kinds=["time"]))
    assert timed.task.action_names == ("agent 0 0", "agent 0 1", "agent 1 0", "agent 1 1")


def test_a_way_of_taking_over_is_an_action_of_a_flattened_problem():
    """One agent of two acts in its own way while it takes over: three slots, of which the last is its action meanwhile."""
    mdp = random_mdp(5, n_states=3, n_actions=2, n_agents=2, horizon=3, kinds=[None])
    first, second = mdp.team.agents
    slow = replace(second, takeover_delay=2, on_takeover=[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    mdp = TwoLayerMDP(mdp.environment, Team([first, slow], mdp.team.switch_cost), 3)
    flat = flatten(mdp)
    assert flat.task.n_actions == 3
    assert flat.team.agents[0].on_takeover is None
    assert flat.team.agents[1].on_takeover.tolist() == [[0.0, 0.0, 1.0]] * 3
    np.testing.assert_allclose(solve(flat).value, solve(mdp).value, atol=1e-12)


def test_a_row_of_a_belief_that_does_not_exist_is_named():
    sound = Belief.of(np.eye(2), 0.0, (1, 2))
    for wrong in (2, -1):
        with pytest.raises(ValueError, match=rf"Belief: row\[0, 1\] is {wrong}, must be an integer from 0 to 1"):
            Belief(sound.centre, sound.width, np.array([[0, wrong]]))
