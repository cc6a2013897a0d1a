"""Edges of problems that nothing else looks at: each of these lines could be changed without another test noticing."""

from types import MappingProxyType

import numpy as np
import pytest
import scipy.sparse as sp

import cede
from cede.problem.costs import checked_range
from cede.problem.model import solo
from cede.problem.takeover import handovers_until, next_agent_towards

ROWS = [[0.5, 0.5], [1.0, 0.0]]


def test_a_hand_over_is_a_pair():
    agents = [cede.Agent(name, ROWS) for name in "abc"]
    np.testing.assert_array_equal(cede.Team(agents, {("a", "c"): 2.0}).switch_cost, [[0, 0, 2], [0, 0, 0], [0, 0, 0]])
    for wrong in (("a",), ("a", "b", "c"), "ab", ("a", "d")):
        with pytest.raises(ValueError, match="switch_cost"):
            cede.Team(agents, {wrong: 1.0})
    with pytest.raises(ValueError, match="given twice"):
        cede.Team(agents, {("a", "b"): 1.0, (0, 1): 2.0})


def test_a_range_of_costs_has_a_length():
    assert checked_range("x", "cost_range", (0, 1)) == (0.0, 1.0)
    for wrong in ((1.0, 1.0), (2.0, 1.0), (1.0,), (0.0, 1.0, 2.0), {0.0, 1.0}):
        with pytest.raises(ValueError, match="x: cost_range is"):
            checked_range("x", "cost_range", wrong)


def test_hand_overs_until_somebody_has_control():
    """0 can go to 1, 1 to 2, 2 stays; nobody comes to 0."""
    possible = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]], dtype=bool)
    assert handovers_until(possible, 2).tolist() == [2.0, 1.0, 0.0]
    assert handovers_until(possible, 1).tolist() == [1.0, 0.0, np.inf]
    assert handovers_until(possible, 0).tolist() == [0.0, np.inf, np.inf]
    assert next_agent_towards(possible, 2).tolist() == [1, 2, 2]
    assert next_agent_towards(possible, 0)[0] == 0


def test_agents_and_teams_keep_plain_values():
    agent = cede.Agent("a", ROWS, takeover_delay=np.int32(2))
    assert type(agent.takeover_delay) is int
    for wrong in ([], (), None, "ab", [ROWS]):
        with pytest.raises(ValueError, match=r"Team: agents"):
            cede.Team(wrong)


def test_a_wrong_entry_of_a_sparse_table_is_named():
    """State 1, action 0, to state 1, of two states and two actions."""
    table = np.array([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75], [0.0, 1.0]])
    for wrong in (-0.75, np.nan):
        table[2, 1] = wrong
        with pytest.raises(ValueError, match=r"transition\[1, 0, 1\]"):
            cede.Environment(sp.csr_array(table), np.zeros((2, 2)), [1.0, 0.0])


def test_every_case_has_a_row():
    with pytest.raises(ValueError, match="the number of rows of case 1 is 0, must be at least 1"):
        cede.Outcomes(row=np.array([[0, 1, 2]]), case=np.array([0, 2, 2]), to=np.array([[0], [0], [0]]))


def test_agents_of_a_task_have_an_order():
    cost = np.zeros((2, 2))
    for wrong in ({"a": 1, "b": 2}, {"a", "b"}, frozenset("ab"), MappingProxyType({"a": 1}), []):
        with pytest.raises(ValueError, match="Task: agents"):
            cede.Task(agents=wrong, env_cost=cost, horizon=3)


def test_how_many_values_a_plan_may_have():
    """2^40: (horizon + 1) times states times agents."""
    cost = np.zeros((2, 1))
    assert cede.Task(agents=["a", "b"], env_cost=cost, horizon=2**38 - 1).horizon == 2**38 - 1
    with pytest.raises(ValueError, match=r"\(horizon \+ 1\) x states x agents is 1099511627780, must be at most 1099511627776"):
        cede.Task(agents=["a", "b"], env_cost=cost, horizon=2**38)


def test_the_least_and_the_most_that_actions_cost():
    cost = [[1.0, -2.0, 5.0], [0.5, 0.5, 0.5]]
    low, high = cede.Task(agents=["a"], env_cost=cost, horizon=2).extremes_of_env_cost
    assert (low.tolist(), high.tolist()) == ([-2.0, 0.5], [5.0, 0.5])
    partly = cede.Task(agents=["a"], env_cost=[[1.0, np.nan], [0.5, 0.25]], cost_range=(-3.0, 4.0), horizon=2)
    low, high = partly.extremes_of_env_cost
    assert (low.tolist(), high.tolist()) == ([-3.0, 0.25], [4.0, 0.5])


def test_an_episode_must_be_able_to_begin():
    with pytest.raises(ValueError, match="Task: terminal is"):
        cede.Task(agents=["a"], env_cost=np.zeros((2, 1)), horizon=2, terminal=[0, 1])
    with pytest.raises(ValueError, match=r"Task: terminal is \[1\], must be left out for averages"):
        cede.Task(agents=["a"], env_cost=np.zeros((2, 1)), horizon=None, terminal=[1])
    assert cede.Task(agents=["a"], env_cost=np.zeros((2, 1)), horizon=2, terminal=[1]).terminal == (1,)


def test_one_agent_alone():
    """Who acts by each action in turn: an ordinary problem, with its own optimum."""
    transition = np.array([[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
    mdp = solo(cede.Environment(transition, [[1.0, 2.0], [0.0, 0.5]], [1.0, 0.0]), 2)
    assert mdp.task.agents == ("0", "1")
    assert cede.expected_cost(mdp, cede.solve(mdp)) == 1.0


def test_hand_overs_that_cannot_be_in_the_only_state():
    """Costs by state, of one state: there is no other in which they could be different."""
    task = cede.Task([[1.0]], ["a", "b"], 2, switch_cost=[[[0.0, np.inf], [0.5, 0.0]]])
    assert task.switch_cost.tolist() == [[[0.0, np.inf], [0.5, 0.0]]]


def test_the_least_unit_of_cost():
    assert cede.Task([[1e-100]], ["a"], 1).env_cost.tolist() == [[1e-100]]
    with pytest.raises(ValueError, match="Task: the largest cost is 9e-101, must be 0, or at least 1e-100 in size"):
        cede.Task([[9e-101]], ["a"], 1)
