"""Steps: one definition of a hand-over, of a cost and of "continues", wherever steps come from."""

import json

import numpy as np
import pytest

import cede
from cede._kernels.account import cost_after_end, is_hand_over, total_cost
from cede.fleet.episodes import cost_of_rest, cost_of_step, hands_over
from cede.steps.check import check_steps, observed_step
from cede.steps.cost import Account, cost_parts
from cede.steps.log import read_log
from cede.steps.recorder import Recorder
from cede.steps.step import Episode, Step, Steps, wrong_links


def slow_team(delay=2):
    """A river in which it takes the second swimmer two steps to take over."""
    river = cede.worlds.riverswim([0.3, 0.7])
    one, two = river.team.agents
    team = cede.Team([one, cede.Agent(two.name, two.policy, takeover_delay=delay)], switch_cost=0.1)
    return cede.TwoLayerMDP(river.environment, team, horizon=20, start_agent=0)


def test_an_episode_counts_hand_overs_not_their_steps():
    mdp = slow_team()
    policy = mdp.task.always(1)
    episode = cede.rollout(mdp, policy, 0)
    assert (np.diff(np.r_[episode.prev_agents[0], episode.agents]) != 0).sum() == 3  # two steps of the hand-over, and the member
    assert episode.switches == 1
    history = cede.simulate(mdp, cede.fixed(mdp.task, policy), 1, seed=0, progress=False)
    assert history.switches.tolist() == [1]
    plain = Episode([0, 1, 1, 1], [0, 2, 3], [2, 3, 1], [0, 0, 0], [0.0] * 3)
    assert plain.switches == 3  # without `aim` every agent is a member
    assert Episode([0, 1], [0], [2**60], [0], [0.0]).switches == 1
    with pytest.raises(ValueError, match="Episode: the length of aim is 2, must be more than 3"):
        Episode([0, 1], [0], [3], [0], [0.0], aim=[0, 1])


def test_compiled_and_plain_bodies_are_the_same():
    aim, rng = np.array([0, 1, 1, 1]), np.random.default_rng(0)
    parts = rng.normal(size=(50, 4))
    for a, b, c, d in parts.tolist():
        assert cost_of_step.py_func(a, b, c, d) == total_cost(a, b, c, d)
        assert cost_of_rest.py_func(a, b, c) == cost_after_end(a, b, c) == a * (b * c)
        assert total_cost(a, b, c, d) == ((a + b) + c) + d
    pairs = np.array([(i, j) for i in range(4) for j in range(4)]).T
    expected = [i != j and {i, j} & {0} != set() for i, j in pairs.T.tolist()]
    assert is_hand_over(aim, *pairs).tolist() == expected
    assert [bool(hands_over.py_func(aim, i, j)) for i, j in pairs.T.tolist()] == expected


def test_the_account_is_the_sum_of_an_episode():
    """The account in Python, the costs of the compiled episode, and those of `Task.step_cost`: the same bits."""
    cost = np.random.default_rng(1).random((3, 2))
    cost[2] = 0.7
    transition = np.zeros((3, 2, 3))
    transition[:, :, 1] = transition[:, :, 0] = transition[:, :, 2] = 1 / 3
    environment = cede.Environment(transition, cost, [0.5, 0.5, 0.0], enter_cost=[0.1, 0.0, 0.3], terminal=[2])
    agents = [cede.Agent("a", np.full((3, 2), 0.5)), cede.Agent("b", np.full((3, 2), 0.5), control_cost=0.2)]
    mdp = cede.TwoLayerMDP(environment, cede.Team(agents, switch_cost=0.1), horizon=6, discount=0.9)
    task, rng = mdp.task, np.random.default_rng(2)
    for seed in range(20):
        policy = rng.integers(0, 2, task.policy_shape).astype(np.int16)
        episode = cede.rollout(mdp, policy, seed)
        account, steps = Account(task, task.layout.factor), episode.steps
        for step in steps.rows():
            account.add(step)
        np.testing.assert_array_equal(cost_parts(task, steps).total, episode.costs)
        weights = 0.9 ** np.arange(len(steps))
        assert account.cost == pytest.approx(float((weights * episode.costs).sum()), rel=1e-12)
        assert account.control.tolist() == np.bincount(steps.agent, minlength=2).tolist()
        assert (account.switches, account.steps) == (episode.switches, len(steps))


def test_a_step_continues_the_last_one():
    last = Step(3, 0, 0, 1, 0, 2, 0.0)
    for after, wrong in (
        (Step(4, 2, 1, 0, 0, 0, 0.0), (False, False)),
        (Step(4, 2, 0, 0, 0, 0, 0.0), (True, False)),
        (Step(4, 1, 1, 0, 0, 0, 0.0), (False, True)),
        (Step(4, 1, 1, 0, 0, 0, 0.0, moved=True), (False, False)),
    ):
        assert tuple(map(bool, wrong_links(last, after))) == wrong
        both = Steps.of([last, after])
        before, rest = both.part(slice(0, 1)), both.part(slice(1, 2))
        if not after.moved:
            assert tuple(bool(one[0]) for one in wrong_links(before, rest)) == wrong


def test_steps_as_columns_and_back():
    rows = [Step(0, 1, 0, 1, 0, 2, 0.25, 0.5), Step(1, 2, 1, 1, 1, 0, 0.75)]
    steps = Steps.of(rows)
    assert (len(steps), steps.rows()) == (2, rows)
    assert [column.tolist() for column in steps.part(slice(1, 2)).places] == [[1], [2], [1], [1], [1], [0]]
    assert len(Steps.of([])) == 0


def test_one_validator_for_a_loop_and_for_columns():
    """What is wrong with a step is wrong in a loop, in a log and in an Episode; a log says in which row."""
    structure = cede.worlds.riverswim([0.3, 0.7]).structure
    task = cede.Task(env_cost=np.zeros((6, 2)), agents=["a", "b"], horizon=4, terminal=[5])
    good = {"t": [0, 1], "state": [0, 1], "agent": [0, 1], "action": [1, 1], "next_state": [1, 2], "prev_agent": [0, 0]}
    for name, value, text in (
        ("state", 5, "one in which an episode goes on: it ends there"),
        ("state", 0, "1, where the step before led; moved=True if it was moved since"),
        ("prev_agent", 1, "0, who acted in the step before"),
        ("next_state", 4, "the declared structure knows no other after state 1 and action 1"),
    ):
        bad = {**good, name: [good[name][0], value]}
        with pytest.raises(ValueError, match=rf"x: {name}\[1\] is {value}, must be .*{text}"):
            read_log("x", task, bad, structure)
        steps = Steps(**{key: np.array(column) for key, column in bad.items()}, cost=np.zeros(2), enter_cost=np.zeros(2))
        with pytest.raises(ValueError, match=rf"x: {name}\[1\] is {value}, must be .*{text}"):
            check_steps("x", task, steps, structure=structure)
        values = [bad[key][1] for key in ("state", "prev_agent", "agent", "action", "next_state")]
        with pytest.raises(ValueError, match=rf"x: {name} is {value}, must be .*{text}"):
            observed_step("x", task, structure, 1, values, Step(0, 0, 0, 0, 1, 1, 0.0), (None,) * 4, False)


def test_nothing_follows_after_an_end_in_a_log():
    task = cede.Task(env_cost=np.zeros((3, 1)), agents=["a"], horizon=4, terminal=[2])
    log = {"t": [0, 1], "state": [0, 1], "agent": [0, 0], "action": [0, 0], "next_state": [2, 0], "moved": [False, True]}
    with pytest.raises(ValueError, match=r"the episode of state\[1\] is over since state 2, must be ended first"):
        cede.ucrl2_mc(task).learn_from(log)


def test_sessions_in_records_and_logs(tmp_path):
    """They are written, read and converted where they are given; without any, nothing is. The rows of a session are an episode."""
    pytest.importorskip("pyarrow")
    task = cede.Task(env_cost=np.zeros((2, 1)), agents=["a"], horizon=2)
    for names in (("one", None), (None, None)):
        path = tmp_path / f"{names[0]}.jsonl"
        with Recorder(path, task) as recorder:
            for t in range(2):
                for name in dict.fromkeys(names):
                    recorder.write_steps([Step(t, t, 0, 0, 0, 1, 0.0, session=name)], episode=1, begins=t == 0)
            for i, name in enumerate(dict.fromkeys(names)):
                recorder.end_episode(i + 1, name)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        order = [*dict.fromkeys(names)]
        assert [line.get("session") for line in lines if "event" not in line] == order * 2
        record = cede.read_record(path)
        again = cede.read_record(record.save(path.with_suffix(".parquet")))
        for found in (record, again):
            expected = [name for name in order for _ in range(2)]
            assert found.columns["session"].tolist() == expected if names[0] else "session" not in found.columns
            assert [steps.t.tolist() for steps in read_log("x", task, found)] == [[0, 1]] * len(order)
        assert [steps.t.tolist() for steps in read_log("x", task, record.log())] == [[0, 1]] * len(order)
    with pytest.raises(ValueError, match=r"x: session\[0\] is 3, must be a non-empty string"):
        read_log("x", task, {"t": [0], "state": [0], "agent": [0], "action": [0], "next_state": [1], "session": [3]})
