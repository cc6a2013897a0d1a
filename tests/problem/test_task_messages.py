"""What a task says of sizes, names and costs, in its own words."""

import numpy as np
import pytest

import cede

STATES, ACTIONS = ["calm", "busy", "over"], ["wait", "act"]


def test_transposed_costs_are_named():
    for told in ({"state_names": STATES, "action_names": ACTIONS}, {"state_names": STATES}, {"n_states": 3}, {"n_actions": 2}):
        with pytest.raises(
            ValueError, match=r"Task: the shape of env_cost is \(2, 3\), must be \(S, A\) = \(3, 2\): it is transposed"
        ):
            cede.Task(env_cost=np.zeros((2, 3)), agents=["a"], horizon=2, **told)
    with pytest.raises(ValueError, match=r"Task: the length of state_names is 3, must be 5"):
        cede.Task(env_cost=np.zeros((5, 2)), agents=["a"], horizon=2, state_names=STATES)
    with pytest.raises(ValueError, match=r"Task: n_states is 3, must be 5, as in env_cost"):
        cede.Task(env_cost=np.zeros((5, 2)), agents=["a"], horizon=2, n_states=3)


def test_names_tell_how_many_there_are():
    task = cede.Task(env_cost=[0.0, 1.0, 2.0], agents=["a"], horizon=2, action_names=ACTIONS)
    assert task.env_cost.tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    unknown = cede.Task(agents=["a"], horizon=2, state_names=STATES, action_names=ACTIONS, cost_range=(0, 1))
    assert unknown.env_cost.shape == (3, 2)
    with pytest.raises(ValueError, match=r"n_actions is missing, must be given where env_cost is \(S,\), .*, or action_names"):
        cede.Task(env_cost=[0.0, 1.0], agents=["a"], horizon=2)


def test_which_costs_are_learned():
    def text(**told):
        return repr(cede.Task(agents=["a"], horizon=2, **told))

    assert "learned" not in text(env_cost=[[0.0], [1.0]])
    assert ", costs are learned" in text(n_states=2, n_actions=1, cost_range=(0, 1))
    assert ", costs are learned" in text(n_states=2, n_actions=1, cost_range=(0, 1), terminal=[1])
    assert ", some costs are learned" in text(env_cost=[[0.0], [np.nan]], cost_range=(0, 1))
    assert ", some costs are learned" in text(env_cost=[[0.0], [0.0]], enter_cost=[0.0, np.nan], enter_cost_range=(0, 1))


def test_ends_are_called_as_they_were_given():
    costs = np.zeros((3, 2))
    for horizon, discount in ((3, None), (None, 0.9)):
        task = cede.Task(env_cost=costs, agents=["a"], horizon=horizon, discount=discount, state_names=STATES, terminal=["over"])
        learner, timed = cede.ucrl2_mc(task), () if horizon is None else (0,)
        for state, shown in (("over", "'over'"), (2, "2")):
            with pytest.raises(ValueError, match=f"choose: state is {shown}, must be one in which an episode goes on"):
                learner.choose(*timed, state, 0)
            with pytest.raises(ValueError, match=f"observe: state is {shown}, must be one in which an episode goes on"):
                learner.observe(*timed, state, 0, 0, 0, 1)
    learner = cede.ucrl2_mc(cede.Task(env_cost=costs, agents=["a"], horizon=3, state_names=STATES, terminal=["over"]))
    learner.observe(0, "calm", 0, 0, 0, "over")
    with pytest.raises(ValueError, match="this episode is over since state 'over', must be ended first"):
        learner.observe(1, "calm", 0, 0, 0, "busy")


def test_a_forgotten_end_is_named():
    learner = cede.ucrl2_mc(cede.Task(env_cost=[[0.0]], agents=["a"], horizon=3))
    learner.observe(0, 0, 0, 0, 0, 0)
    with pytest.raises(
        ValueError, match=r"observe: t is 0, must be 1, .*; if a new episode begins, end this one first \(end_episode\)"
    ):
        learner.observe(0, 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match=r"observe: t is 2, must be 1, the next step of this episode$"):
        learner.observe(2, 0, 0, 0, 0, 0)


def test_a_baseline_is_called_baseline():
    task = cede.worlds.riverswim().task
    with pytest.raises(ValueError, match="ucrl2_mc: the type of baseline is float32, must be an integer type"):
        cede.ucrl2_mc(task, baseline=np.zeros(task.policy_shape, dtype=np.float32))
    with pytest.raises(ValueError, match=r"ucrl2_mc: the shape of baseline is \(1, 2\)"):
        cede.ucrl2_mc(task, baseline=np.zeros((1, 2), dtype=int))


def test_a_directory_is_no_file(tmp_path):
    learner = cede.ucrl2_mc(cede.Task(env_cost=[[0.0]], agents=["a"], horizon=3))
    for write in (
        learner.save,
        learner.record_to,
        cede.encode.uniform_bins(0, 1, 2).save,
        cede.Fleet([cede.ucrl2_mc(learner.task)]).save,
    ):
        with pytest.raises(ValueError, match=r"path is .*, must be the path of a file: it ends as that of a directory"):
            write(f"{tmp_path}/models/")
    assert list(tmp_path.iterdir()) == []
