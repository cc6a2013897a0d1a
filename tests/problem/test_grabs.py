"""What a hand-over costs that the task says is not possible, and that happens all the same: one number everywhere."""

from dataclasses import replace

import numpy as np
import pytest

import cede

OPERATOR = {"agents": ["robot", "operator"], "control_cost": {"operator": 0.35}, "switch_cost": {("robot", "operator"): 0.8}}


def operator(**more):
    """The task of issue 28: an operator who needs two steps to take over, and grabs control at once."""
    return cede.Task(**{"env_cost": [[0.0], [1.0]], "horizon": 4, **OPERATOR, "takeover_delay": {"operator": 2}, **more})


def test_a_grab_costs_what_the_hand_over_costs():
    task = operator()
    assert task.agents[2:] == ("operator (taking over from robot, 1 of 2)", "operator (taking over from robot, 2 of 2)")
    assert task.step_cost(0, 0, 1, 0.0) == pytest.approx(1.15)
    assert task.step_cost(0, 0, 2, 0.0) == pytest.approx(0.8)  # as it is meant: paid when it begins, the robot acts
    assert task.step_cost(0, 0, 3, 0.0) == pytest.approx(0.8)  # the first step was left out
    assert task.step_cost(0, 2, 1, 0.0) == pytest.approx(0.35)  # it had begun, and is paid already
    assert task.step_cost(0, 2, 0, 0.0) == pytest.approx(0.0)  # the robot stays: handing back is free here
    assert task.step_cost(0, 1, 1, 0.0) == pytest.approx(0.35)
    assert not task.is_unpriced.any()
    assert not task.can_hand_over[0, 1]  # plans never do it


@pytest.mark.parametrize(
    ("grab_cost", "wanted"),
    [
        (2.0, 2.0),
        ({("robot", "operator"): 2.0}, 2.0),
        ([[0.0, 2.0], [0.25, 0.0]], 2.0),
        ({("operator", "robot"): 5.0}, 0.8),
        ([[[0.0, 2.0], [0.0, 0.0]], [[0.0, 3.0], [0.0, 0.0]]], 2.0),
        ({("robot", "operator"): [2.0, 3.0]}, 2.0),
    ],
)
def test_a_task_may_say_what_a_grab_costs(grab_cost, wanted, tmp_path):
    task = operator(grab_cost=grab_cost)
    assert task.step_cost(0, 0, 1, 0.0) == pytest.approx(wanted + 0.35)
    assert task.step_cost(0, 0, 2, 0.0) == pytest.approx(0.8)  # hand-overs that are possible cost what they did
    if np.ndim(task.grab_cost) == 3:
        assert task.step_cost(1, 0, 1, 1.0) == pytest.approx(3.0 + 0.35 + 1.0)
    cede.recommended(task).save(tmp_path / "a.cede")
    again = cede.load(tmp_path / "a.cede").task
    np.testing.assert_array_equal(again.grab_cost, task.grab_cost)
    np.testing.assert_array_equal(replace(again, control_cost=0.0).grab_cost, task.grab_cost)
    agents = [cede.Agent("robot", [[1.0]] * 2), cede.Agent("operator", [[1.0]] * 2, 0.35, takeover_delay=2)]
    team = cede.Team(agents, OPERATOR["switch_cost"], grab_cost=grab_cost)
    mdp = cede.TwoLayerMDP(cede.Environment(np.ones((2, 1, 2)) / 2, [[0.0], [1.0]], [1.0, 0.0]), team, 4)
    np.testing.assert_array_equal(mdp.task.grab_cost, task.grab_cost)
    plain = cede.TwoLayerMDP(mdp.environment, replace(team, grab_cost=None), 4)
    assert cede.expected_cost(mdp, cede.solve(mdp)) == cede.expected_cost(plain, cede.solve(plain))  # plans know nothing of grabs


def test_a_hand_over_that_is_priced_by_state_and_a_stay_that_costs():
    costs = np.array([[[0.1, 0.2], [0.3, 0.4]], [[1.1, 1.2], [1.3, 1.4]]])
    task = operator(switch_cost=costs, control_cost=0.0)
    for s in range(2):
        for prev in range(4):
            for agent in range(4):
                wanted = costs[s, task.layout.aim[prev], task.layout.aim[agent]]
                assert task.step_cost(s, prev, agent, 0.0) == pytest.approx(wanted)  # only time is folded in, never a price


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"grab_cost": "much"}, "Task: grab_cost is 'much', must be"),
        ({"grab_cost": np.nan}, "Task: grab_cost is nan, must be"),
        ({"grab_cost": [[0.0]]}, r"Task: the shape of grab_cost is \(1, 1\), must be \(M, M\)"),
        ({"grab_cost": {"operator": 1.0}}, "Task: a hand-over of grab_cost is 'operator', must be two agents"),
        ({"grab_cost": {("robot", "cat"): 1.0}}, "Task: an agent of grab_cost is 'cat', must be one of"),
        ({"grab_cost": 1e200}, r"Task: the largest grab_cost is 1e\+200, must be at most"),
        (
            {"takeover_delay": None, "grab_cost": {("robot", "operator"): 1.0}},
            r"Task: grab_cost\[\('robot', 'operator'\)\] is given, must be left out where every hand-over is possible at once",
        ),
    ],
)
def test_what_a_grab_costs_is_checked(more, message):
    with pytest.raises(ValueError, match=message):
        operator(**more)


def test_what_the_task_neither_allows_nor_prices_is_counted_and_left_out(tmp_path):
    """It happened, so the step counts; nobody knows what the hand-over cost, and that is said."""
    barred = {("robot", "operator"): np.inf}
    task = cede.Task(env_cost=[[0.0], [1.0]], horizon=2, **{**OPERATOR, "switch_cost": barred})
    assert task.is_unpriced.tolist() == [[False, True], [False, False]]
    assert task.step_cost(1, 0, 1, 1.0) == pytest.approx(1.35)
    learner = cede.recommended(task)
    with learner.record_to(tmp_path / "a.jsonl"):
        learner.observe(0, 1, "robot", "operator", 0, 1)
        learner.observe(1, 1, "operator", "operator", 0, 1)
        learner.end_episode()
    record = cede.read_record(tmp_path / "a.jsonl")
    table = record.episodes()
    assert (table.cost.tolist(), table.unpriced.tolist()) == ([2.7], [1])
    assert record.columns["unpriced"].tolist() == [True, False]
    priced = replace(task, grab_cost=0.5)
    assert not priced.is_unpriced.any()
    assert priced.step_cost(1, 0, 1, 1.0) == pytest.approx(1.85)


def test_records_and_the_learner_use_the_same_number(tmp_path):
    """525 grabs at .35 instead of 1.15."""
    task = operator(horizon=1)
    learner = cede.recommended(task)
    with learner.record_to(tmp_path / "a.jsonl"):
        for _ in range(525):
            learner.choose(0, 0, 0)
            learner.observe(0, 0, "robot", "operator", 0, 0)
            learner.end_episode(replan=False)
    record = cede.read_record(tmp_path / "a.jsonl")
    assert record.episodes().cost.sum() == pytest.approx(525 * 1.15)
    assert record.overrides.sum() == record.episodes().switches.sum() == 525
