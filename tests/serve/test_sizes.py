"""How large a served task may be, and how deep what is told beside a step."""

import numpy as np
import pytest

import cede
from cede.serve.http.reports import depth, read_end
from cede.serve.http.setup import check_sizes, checked


def test_tasks_that_are_too_large_are_refused_before_anything_is_made():
    """1,000 agents with the steps of their hand-overs, ten million rows, a hundred million places of a plan."""
    check_sizes("x", {"agents": ["a"] * 1000, "env_cost": [[0.0]] * 3})
    check_sizes("x", {"agents": ["a", "b"], "takeover_delay": {"a": 400, "b": 99}})
    check_sizes("x", {"n_states": 10**4, "n_actions": 10**3})
    check_sizes("x", {"agents": ["a", "b"], "n_states": 5000, "horizon": 10**4})
    for given, words in (
        ({"agents": ["a"] * 1001}, "the number of agents, and steps of slow hand-overs is 1001"),
        ({"agents": ["a", "b"], "takeover_delay": {"a": 400, "b": 100}}, "hand-overs is 1002, must be at most 1000"),
        ({"n_states": 10**4, "n_actions": 10**3 + 1}, "states x actions is 10010000, must be at most 10000000"),
        ({"env_cost": [[0.0]] * 11, "n_actions": 10**6}, "states x actions is 11000000"),
        (
            {"agents": ["a", "b"], "n_states": 5000, "horizon": 10**4 + 1},
            "x agents is 100010000, must be at most 100000000",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            check_sizes("x", given)


def test_a_plan_has_at_most_a_hundred_million_places():
    task = cede.Task(agents=["a", "b"], env_cost=np.zeros((5, 1)), horizon=10**7)
    assert checked("x", task, cede.recommended(task).settings).task is task
    longer = cede.Task(agents=["a", "b"], env_cost=np.zeros((5, 1)), horizon=10**7 + 1)
    with pytest.raises(ValueError, match="horizon x states x agents is 100000010, must be at most 100000000"):
        checked("x", longer, cede.recommended(longer).settings)


def test_depth():
    assert [depth(one) for one in (1, "x", {}, [], {"a": 1}, {"a": [1]}, {"a": {"b": []}, "c": 1})] == [0, 0, 1, 1, 1, 2, 3]
    nested = 1
    for levels in range(1, 12):
        nested = {"a": nested} if levels % 2 else [nested]
        assert depth(nested) == min(levels, 9)


def test_the_end_of_an_episode_names_its_team():
    with pytest.raises(ValueError, match=r"ends\[3\].team is 7, must be the name of a team"):
        read_end(3, {"episode": 0, "steps": 2, "team": 7}, lambda name: pytest.fail("asked"))
    with pytest.raises(ValueError, match=r"ends\[3\] is"):
        read_end(3, {"episode": 0, "steps": 2}, lambda name: pytest.fail("asked"))
