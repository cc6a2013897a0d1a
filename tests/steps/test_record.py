"""Records of one's own loop: nothing but the running step is lost, and a learner that reads one is one that was there."""

import copy
import json
import os
import pickle
import resource
import signal
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import cede
from cede.cli import app
from cede.steps.recorder import Recorder
from problems import play, random_mdp


def drive(learner, mdp, episodes, seed=0, overrides=0.2, tell=lambda *_: None):
    """A loop of one's own, in which somebody else acts now and then. Return all steps: t, state, prev_agent, asked, agent, action,
    next_state, cost; None where an episode ended."""
    task, rng, done = learner.task, np.random.default_rng(seed), []
    table = mdp.environment.transition.toarray().reshape(task.n_states, task.n_actions, task.n_states)
    endless = task.horizon is None
    for _ in range(episodes):
        state, agent = int(rng.choice(task.n_states, p=mdp.environment.start)), int(task.start_agent)
        for t in range(task.horizon or 7):
            where = (state, agent) if endless else (t, state, agent)
            prev, asked = agent, learner.choose(*where)
            agent = int(rng.integers(task.n_agents)) if rng.random() < overrides else asked
            slot = {None: 0, "time": t, "prev_agent": prev}[mdp.team.agents[agent].varies_with]
            policy = mdp.team.agents[agent].policy.reshape(-1, task.n_states, task.n_actions)[slot]
            action = int(rng.choice(task.n_actions, p=policy[state]))
            to = int(rng.choice(task.n_states, p=table[state, action]))
            cost = float(rng.random()) if np.isnan(task.env_cost[state, action]) else None
            step = (state, prev, agent, action, to, cost)
            learner.observe(*(step if endless else (t, *step)))
            done.append((t, state, prev, asked, agent, action, to, cost))
            tell(*done[-1][:7])
            state = to
        learner.end_episode()
        done.append(None)
        tell(-1)
    return done


def steps_in(record):
    """What `drive` returns, from a record."""
    names = ("t", "state", "prev_agent", "asked", "agent", "action", "next_state")
    rows = list(zip(*(record.columns[name].tolist() for name in names), strict=True))
    found = []
    for number, ended in enumerate(record.ended):
        found += [row for row, mine in zip(rows, record.number, strict=True) if mine == number] + [None] * bool(ended)
    return found


def same_counts(one, two):
    for layer in ("agents", "environment", "costs"):
        a, b = (getattr(learner.counts, layer).toarray() for learner in (one, two))
        np.testing.assert_array_equal(a, b)
    assert (one.counts.episodes, one.counts.environment_episodes) == (two.counts.episodes, two.counts.environment_episodes)


def endless(seed, discount):
    mdp = random_mdp(seed, n_states=4, kinds=[None, "prev_agent"])
    return cede.TwoLayerMDP(mdp.environment, mdp.team, None, mdp.start_agent, discount=discount)


MDP = random_mdp(3, n_states=4, n_agents=3, horizon=5)
WAYS = {
    "ucrl2_mc": (MDP, lambda m: cede.ucrl2_mc(m.task, scale=0.1, seed=4)),
    "recommended": (MDP, lambda m: cede.recommended(m.task, seed=4)),
    "doubling": (MDP, lambda m: cede.ucrl2_mc(m.task, scale=0.1, replan="doubling", seed=4)),
    "greedy planning": (MDP, lambda m: cede.ucrl2_mc(m.task, scale=0.1, planning="greedy", seed=4)),
    "forgetting": (MDP, lambda m: cede.ucrl2_mc(m.task, forget=cede.Window(5), forget_environment=cede.HalfLife(3), seed=4)),
    "unknown costs": (MDP, lambda m: cede.ucrl2_mc(m.task.with_unknown_costs((0.0, 1.0)), seed=4)),
    "discounted": (endless(5, 0.9), lambda m: cede.ucrl2_mc(m.task, scale=0.1, seed=4)),
    "average, unknown costs": (endless(6, None), lambda m: cede.ucrl2_mc(m.task.with_unknown_costs((0.0, 1.0)), scale=0.1, seed=4)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_learner_from_a_record_is_one_that_was_there(way, tmp_path):
    mdp, make = WAYS[way]
    one, two = make(mdp), make(mdp)
    with one.record_to(tmp_path / "steps.jsonl"):
        done = drive(one, mdp, 12)
    record = cede.read_record(tmp_path / "steps.jsonl")
    stretches = 12
    assert two.learn_from(record) == stretches
    same_counts(one, two)
    np.testing.assert_array_equal(one.plan.policy, two.plan.policy)
    np.testing.assert_array_equal(one.plan.value, two.plan.value)
    three = make(mdp)
    assert three.learn_from(record.log()) == stretches
    same_counts(one, three)
    rows = [step[:7] for step in done if step is not None]
    names = ("t", "state", "prev_agent", "asked", "agent", "action", "next_state")
    np.testing.assert_array_equal(np.stack([record.columns[name] for name in names], axis=1), rows)
    measured = [step[7] for step in done if step is not None and step[7] is not None]
    if measured:
        assert record.columns["cost"].tolist() == measured  # to the last bit


def test_what_each_step_tells(tmp_path):
    learner = cede.ucrl2_mc(MDP.task, replan=3, scale=0.1)
    begun = time.time()
    with learner.record_to(tmp_path / "a.jsonl") as recorder:
        assert learner.recorder is recorder
        drive(learner, MDP, 8)
        episodes = play(MDP, 1, 0)
        learner.observe_episode(episodes[0])
        learner.end_episode()
    assert learner.recorder is None
    record = cede.read_record(tmp_path / "a.jsonl")
    found = record.columns
    first = 8 * 5
    assert ((found["time"] >= begun - 1) & (found["time"] <= time.time() + 1)).all()
    assert found["episode"].tolist() == np.repeat(np.arange(1, 10), 5).tolist()
    assert found["planned"][:first].tolist() == np.repeat([1, 1, 1, 4, 4, 4, 7, 7], 5).tolist()  # which plan was in force
    expected = np.where(found["asked"] == found["agent"], "plan", "override")
    assert found["reason"][:first].tolist() == expected[:first].tolist()
    assert 0 < record.overrides.sum() < 20
    assert found["asked"][first:].tolist() == [-1] * 5
    assert set(found["reason"][first:]) == {"unasked"}
    np.testing.assert_array_equal(found["step_cost"][first:], episodes[0].costs)
    table = record.episodes()
    np.testing.assert_allclose(table.cost[-1], episodes[0].cost)
    assert table.control.sum(axis=1).tolist() == table.lengths.tolist() == [5] * 9
    assert table.switches[-1] == episodes[0].switches
    slow = [[int((found["agent"][record.number == k] == d).sum()) for d in range(3)] for k in range(9)]
    assert table.control.tolist() == slow


RIVER = cede.worlds.riverswim(agents=[0.3, 0.7])
REASONS = {
    "greedy": lambda: cede.ucrl2_mc(RIVER.task, planning="greedy"),
    "fixed": lambda: cede.fixed(RIVER.task, 1),
    "baseline": lambda: cede.ucrl2_mc(RIVER.task, baseline=0, start=RIVER.environment.start),
}


@pytest.mark.parametrize("reason", REASONS)
def test_reasons(reason, tmp_path):
    learner = REASONS[reason]()
    learner.record_to(tmp_path / "a.jsonl")
    drive(learner, RIVER, 2, overrides=0.0)
    assert set(cede.read_record(tmp_path / "a.jsonl").columns["reason"]) == {reason}


def test_trial_episodes_are_told(tmp_path):
    """`recommended` gives each member the whole of an episode at first, and again from 8 n + 1 on."""
    learner = cede.recommended(MDP.task)
    learner.record_to(tmp_path / "a.jsonl")
    drive(learner, MDP, 30, overrides=0.0)
    record = cede.read_record(tmp_path / "a.jsonl")
    found = set(record.columns["episode"][record.columns["reason"] == "audition"].tolist())
    assert found == {1, 2, 3, 25, 26, 27}
    for k, member in zip(sorted(found), [0, 1, 2] * 2, strict=True):
        assert set(record.columns["agent"][record.columns["episode"] == k]) == {member}


def test_a_torn_last_line_is_left_out_and_written_after(tmp_path):
    """Whatever part of the last two lines is lost: all lines before are read, and a new recorder goes on behind them."""
    path = tmp_path / "a.jsonl"
    with cede.ucrl2_mc(MDP.task).record_to(path):
        pass
    one = cede.ucrl2_mc(MDP.task)
    with one.record_to(path):
        drive(one, MDP, 2)
        one.observe(0, 0, 0, 1, 0, 1)
        one.observe(1, 1, 1, 1, 0, 2)
    data = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    assert steps_in(cede.read_record(path))[-2:] == [(0, 0, 0, -1, 1, 0, 1), (1, 1, 1, -1, 1, 0, 2)]
    for cut in range(ends[-3], len(data)):
        path.write_bytes(data[:cut])
        whole = [end for end in ends if end <= cut]
        record = cede.read_record(path)
        assert record.torn == cut - whole[-1]
        assert path.read_bytes() == data[:cut]  # reading changes nothing
        assert len(record) == 10 + len(whole) - len(ends) + 2
        if cut % 17 and cut < len(data) - 1:
            continue
        two = cede.ucrl2_mc(MDP.task)
        two.learn_from(record)
        with two.record_to(path):
            drive(two, MDP, 1, seed=5)
        again = cede.read_record(path)
        assert again.torn == 0
        assert again.runs[-1]["dropped_bytes"] == cut - whole[-1]
        assert (len(again), len(again.runs)) == (len(record) + 5, 3)
        three = cede.ucrl2_mc(MDP.task)
        three.learn_from(again)
        same_counts(two, three)


@pytest.mark.parametrize("rest", [b"\0" * 4096, b"\x93\xff garbage\n", b"{\n"])
def test_what_a_power_failure_may_leave(rest, tmp_path):
    path = tmp_path / "a.jsonl"
    one = cede.ucrl2_mc(MDP.task)
    with one.record_to(path, sync="step"):
        drive(one, MDP, 2)
    whole = path.read_bytes()
    path.write_bytes(whole + rest)
    record = cede.read_record(path)
    assert (len(record), record.torn) == (10, len(rest))
    with one.record_to(path, sync="episode"):
        drive(one, MDP, 1)
    assert path.read_bytes().startswith(whole)
    assert (len(cede.read_record(path)), cede.read_record(path).runs[-1]["dropped_bytes"]) == (15, len(rest))


@pytest.mark.parametrize("size", [0, 1, 20, 60])
def test_killed_before_the_first_line_was_whole(size, tmp_path):
    path = tmp_path / "a.jsonl"
    one = cede.ucrl2_mc(MDP.task)
    one.record_to(path).close()
    path.write_bytes(path.read_bytes()[:size])
    record = cede.read_record(path)
    assert (len(record), record.torn, record.runs) == (0, size, ())
    assert one.learn_from(record) == 0
    with one.record_to(path):
        drive(one, MDP, 1)
    assert len(cede.read_record(path)) == 5


# ------------------------------------------------------------------------------------------------- kills

MESSAGE = struct.Struct("7q")


def in_child(work):
    """Run a function in a forked process; return its number, and the end of a pipe that holds what it tells."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            work(lambda *parts: os.write(write, MESSAGE.pack(*(*parts, 0, 0, 0, 0, 0, 0, 0)[:7])))
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    return child, read


def heard(read):
    """All messages of a pipe, until its end."""
    data = b""
    while part := os.read(read, 1 << 16):
        data += part
    os.close(read)
    return [None if message[0] < 0 else message for message in MESSAGE.iter_unpack(data)]


@pytest.mark.parametrize("way", ["doubling", "discounted"])
def test_a_kill_loses_nothing_but_the_running_step(way, tmp_path):
    """A process is killed in mid-loop again and again, each one going on where the one before was killed: every step of which
    `observe` has returned is in the record, at most one more, and a learner of it has the counts of one that was never killed."""
    mdp, make = WAYS[way]
    path, rng, wanted = tmp_path / "steps.jsonl", np.random.default_rng(1), []
    drive(make(mdp), mdp, 2)  # compiled before, not in each child
    for life in range(25):

        def work(tell, life=life):
            learner = make(mdp)
            if path.exists():
                learner.learn_from(cede.read_record(path))
            learner.record_to(path)
            drive(learner, mdp, 10**6, seed=life, tell=tell)

        child, read = in_child(work)
        first = os.read(read, MESSAGE.size)  # it is at work
        assert len(first) == MESSAGE.size
        time.sleep(float(rng.random()) * 0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told = [MESSAGE.unpack(first), *heard(read)]
        record = cede.read_record(path)
        found = steps_in(record)
        assert found[: len(wanted) + len(told)] == wanted + told
        assert len(found) - len(wanted) - len(told) in (0, 1)
        wanted = found
    assert len(record) > 100
    assert (~record.ended).sum() > 5  # it was killed within episodes
    never_killed, from_record = make(mdp), make(mdp)
    for episode in counted(wanted, endless=mdp.horizon is None):
        for t, state, prev, _, agent, action, to in episode:
            never_killed.observe(*(() if mdp.horizon is None else (t,)), state, prev, agent, action, to)
        never_killed.end_episode()
    from_record.learn_from(record)
    same_counts(never_killed, from_record)


def counted(steps, endless):
    """The episodes that were counted: those that ended; without horizon all steps."""
    episodes, running = [], []
    for step in steps:
        if step is None or step[0] == 0:
            episodes += [running] if running and (endless or step is None) else []
            running = []
        running += [] if step is None else [step]
    return episodes + ([running] if endless and running else [])


def test_one_writer(tmp_path):
    path = tmp_path / "a.jsonl"
    one, two = cede.ucrl2_mc(MDP.task), cede.ucrl2_mc(MDP.task)
    recorder = one.record_to(path)
    drive(one, MDP, 1)
    with pytest.raises(ValueError, match=r"Recorder: path is '.*a.jsonl', must be a file to which no other recorder writes"):
        two.record_to(path)
    with pytest.raises(ValueError, match=r"record_to: the learner is recorded to '.*a.jsonl', must be recorded to one file"):
        one.record_to(tmp_path / "b.jsonl")
    assert not (tmp_path / "b.jsonl").exists()

    def work(tell):  # a copy of this process has a copy of the learner, and its file
        with pytest.raises(ValueError, match="the process is a copy of the one that opened the file"):
            drive(one, MDP, 1)
        with pytest.raises(ValueError, match="no other recorder writes"):
            two.record_to(path)

    child, read = in_child(work)
    assert os.waitpid(child, 0)[1] == 0
    assert heard(read) == []
    drive(one, MDP, 1)
    recorder.close()
    drive(one, MDP, 1)  # goes on without
    with two.record_to(path):
        drive(two, MDP, 1)
    record = cede.read_record(path)
    assert (len(record), len(record.runs)) == (15, 2)
    assert record.columns["run"].tolist() == [0] * 10 + [1] * 5
    assert record.runs[1]["about"]["learner"] == "ucrl2_mc"


def test_copies_do_not_record(tmp_path):
    one = cede.ucrl2_mc(MDP.task)
    one.record_to(tmp_path / "a.jsonl")
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        drive(other, MDP, 1)
        assert other.recorder is None
    one.save(tmp_path / "one.cede")
    assert cede.load(tmp_path / "one.cede").recorder is None
    assert len(cede.read_record(tmp_path / "a.jsonl")) == 0
    with pytest.raises(ValueError, match="Recorder: a copy of it is wanted"):
        copy.deepcopy(one.recorder)


def test_a_full_disk_loses_nothing(tmp_path):
    """If a step cannot be written, `observe` fails and nothing has changed: not the learner, not the record."""
    path = tmp_path / "a.jsonl"
    drive(cede.ucrl2_mc(MDP.task), MDP, 1)

    def work(tell):
        one = cede.ucrl2_mc(MDP.task)
        one.record_to(path)
        drive(one, MDP, 1)
        most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, most[1]))
        for _ in range(3):
            with pytest.raises(OSError, match=r"a\.jsonl"):
                one.observe(0, 0, 0, 1, 0, 1)
            assert one.observed == 0
            assert cede.read_record(path).torn == 0
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
        one.observe(0, 0, 0, 1, 0, 1)
        one.end_episode()

    child, read = in_child(work)
    assert os.waitpid(child, 0)[1] == 0
    os.close(read)
    record = cede.read_record(path)
    assert (len(record), record.ended.tolist(), record.torn) == (6, [True, True], 0)


# ------------------------------------------------------------------------------------------------- what is counted, and what is not


def test_a_step_after_a_grab_has_a_cost(tmp_path):
    """A person who grabbed control at once, where that takes time, made the cost of the step vanish from all sums."""
    task = cede.Task(env_cost=[[0.0], [1.0]], agents=["auto", "person"], horizon=2, takeover_delay={"person": 1}, control_cost=0.25)
    learner = cede.posterior_sampling(task)
    with learner.record_to(tmp_path / "a.jsonl"):
        learner.observe(0, 1, "auto", "person", 0, 1)
        learner.observe(1, 1, "person", "person", 0, 1)
        learner.end_episode()
    assert cede.read_record(tmp_path / "a.jsonl").episodes().cost.tolist() == [2.5]


def test_dropped_and_running_episodes(tmp_path):
    one, path = cede.ucrl2_mc(MDP.task), tmp_path / "a.jsonl"
    one.record_to(path)
    one.observe(0, 0, 0, 1, 0, 1)
    one.drop_episode()
    one.drop_episode()
    drive(one, MDP, 2)
    one.observe(0, 0, 0, 1, 0, 1)
    one.observe(1, 2, 1, 1, 0, 1, moved=True)  # in another state than the one where the step before led
    record = cede.read_record(path)
    assert record.ended.tolist() == [False, True, True, False]
    assert record.dropped.tolist() == [True, False, False, False]
    two = cede.ucrl2_mc(MDP.task)
    assert two.learn_from(record) == 2
    same_counts(one, two)
    assert len(record.log()["t"]) == 10
    assert record.log(unfinished=True)["episode"].tolist() == [1] * 5 + [2] * 5 + [3] * 2
    one.end_episode()
    three = cede.ucrl2_mc(MDP.task)
    three.learn_from(cede.read_record(path))
    same_counts(one, three)


def test_an_episode_that_another_process_took_up(tmp_path):
    """A learner that was saved in an episode and loaded goes on in it: in the record no step is lost, and none is there twice."""
    one, path = cede.ucrl2_mc(MDP.task), tmp_path / "a.jsonl"
    with one.record_to(path):
        drive(one, MDP, 1)
        one.observe(0, 0, 0, 1, 0, 1)
        one.observe(1, 1, 1, 1, 0, 2)
        one.save(tmp_path / "one.cede")
        one.observe(2, 2, 1, 2, 0, 3)  # it did happen, but the file does not know
    two = cede.load(tmp_path / "one.cede")
    two.record_to(path)
    two.observe(2, 2, 1, 0, 0, 1)
    two.end_episode()
    record = cede.read_record(path)
    assert record.columns["reason"].tolist()[-3:] == ["resumed", "resumed", "unasked"]
    three = cede.ucrl2_mc(MDP.task)
    three.learn_from(record)
    same_counts(two, three)
    assert record.log()["t"].tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    everything = record.log(unfinished=True)
    assert everything["t"].tolist() == [0, 1, 2, 3, 4, 2, 0, 1, 2]
    assert cede.ucrl2_mc(MDP.task).learn_from(everything) == 3


@pytest.mark.parametrize("mdp", [MDP, endless(5, 0.9)], ids=["horizon", "endless"])
def test_what_was_learned_elsewhere_is_a_gap(mdp, tmp_path):
    one = cede.ucrl2_mc(mdp.task, scale=0.1)
    one.record_to(tmp_path / "a.jsonl")
    drive(one, mdp, 2)
    cede.simulate(mdp, one, **({"episodes": 3} if mdp.horizon else {"steps": 30}), progress=False)
    drive(one, mdp, 2)
    drive(one, mdp, 1)
    record = cede.read_record(tmp_path / "a.jsonl")
    assert record.gaps == 1
    assert len(record.ended) == 5
    assert cede.ucrl2_mc(mdp.task).learn_from(record) == 5


# ------------------------------------------------------------------------------------------------- other forms


def recorded(path, names=("a", "b", "c")):
    given = zip(names, MDP.team.agents, strict=True)
    agents = [cede.Agent(name, agent.policy, varies_with=agent.varies_with) for name, agent in given]
    mdp = cede.TwoLayerMDP(MDP.environment, cede.Team(agents, 0.1), 5)
    one = cede.ucrl2_mc(mdp.task, scale=0.1)
    with one.record_to(path):
        drive(one, mdp, 20)
        one.observe(0, 0, 0, 1, 0, 1)
    return one, mdp


def test_frames_and_parquet(tmp_path):
    import pandas

    one, mdp = recorded(tmp_path / "a.jsonl")
    record = cede.read_record(tmp_path / "a.jsonl")
    frame = record.to_frame()
    assert frame.shape == (101, 19)
    assert frame["ended"].tolist() == [True] * 100 + [False]
    named = record.to_frame(names=True)
    assert named["agent"].tolist() == [("a", "b", "c")[i] for i in frame["agent"]]
    assert named["asked"].isna().tolist() == [False] * 100 + [True]
    by_frame = cede.ucrl2_mc(mdp.task, scale=0.1)
    by_frame.learn_from(frame[frame["ended"]].drop(columns="episode").rename(columns={"number": "episode"}))
    same_counts(one, by_frame)
    assert record.save(tmp_path / "a.parquet") == tmp_path / "a.parquet"
    other = cede.read_record(tmp_path / "a.parquet")
    pandas.testing.assert_frame_equal(other.to_frame(), frame)
    assert (other.header, other.runs) == (record.header, record.runs)
    by_parquet = cede.ucrl2_mc(mdp.task, scale=0.1)
    by_parquet.learn_from(other)
    same_counts(one, by_parquet)
    for suffix, read in (("csv", pandas.read_csv), ("jsonl", lambda path: pandas.read_json(path, lines=True))):
        found = read(record.save(tmp_path / f"steps.{suffix}"))
        assert found["state"].tolist() == frame["state"].tolist()
        np.testing.assert_allclose(found["step_cost"], frame["step_cost"])
    with pytest.raises(ValueError, match=r"Record.save: the suffix of path is '.xls', must be one of '.csv', '.jsonl', '.parquet'"):
        record.save(tmp_path / "a.xls")


def test_a_picture_and_a_summary(tmp_path):
    hostile = ("$x^{$", "[red]b[/red]", "\x1b[2J_" + "c" * 500)
    recorded(tmp_path / "a.jsonl", hostile)
    record = cede.read_record(tmp_path / "a.jsonl")
    picture = record.plot()
    assert len(picture.axes) == 3
    picture.savefig(tmp_path / "a.png")
    assert len(repr(record)) < 400
    assert "\x1b" not in repr(record)
    result = CliRunner().invoke(app, ["show", str(tmp_path / "a.jsonl"), "--picture", str(tmp_path / "b.png")])
    assert result.exit_code == 0, result.output
    assert "101" in result.output
    assert "[red]b[/red]" in result.output
    assert "\x1b" not in result.output
    assert (tmp_path / "b.png").stat().st_size > 1000
    result = CliRunner().invoke(app, ["show", str(tmp_path / "a.jsonl"), "--by", "a"])
    assert result.exit_code == 2
    assert "--by is given, must be left out for a record" in result.output


def test_pictures_of_runs_without_horizon(tmp_path):
    mdp = endless(5, 0.9)
    one = cede.ucrl2_mc(mdp.task, scale=0.1)
    with one.record_to(tmp_path / "a.jsonl"):
        drive(one, mdp, 3)
        record = cede.read_record(tmp_path / "a.jsonl")  # while it is written
        drive(one, mdp, 150)
    assert len(record) == 21
    for each in (record, cede.read_record(tmp_path / "a.jsonl")):
        assert len(each.plot().axes) == 3
    empty = tmp_path / "empty.jsonl"
    one.record_to(empty).close()
    with pytest.raises(ValueError, match=r"Record.plot: the number of steps is 0"):
        cede.read_record(empty).plot()


# ------------------------------------------------------------------------------------------------- wrong files


def test_other_files_are_refused_and_stay_as_they_are(tmp_path):
    one = cede.ucrl2_mc(MDP.task)
    path = tmp_path / "a.txt"
    for data in (b"a diary\n", b'{"event":"header"}\n', b"x", b"\n"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"Recorder: path is '.*a.txt', must be a new file, or a record of cede"):
            one.record_to(path)
        assert path.read_bytes() == data
        with pytest.raises(cede.UnreadableFile, match="must be a record of cede"):
            cede.read_record(path)
    one.record_to(tmp_path / "a.jsonl").close()
    before = (tmp_path / "a.jsonl").read_bytes()
    other = cede.ucrl2_mc(random_mdp(4, n_states=3, n_agents=3, horizon=5).task)
    with pytest.raises(ValueError, match=r"n_states of the record '.*' is 4, must be 3, as of the task; take another file"):
        other.record_to(tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == before
    with one.record_to(tmp_path / "a.jsonl"):  # it was not locked for good
        drive(one, MDP, 1)
    with pytest.raises(ValueError, match=r"learn_from: n_states of the record is 4, must be 3, as of the task"):
        other.learn_from(cede.read_record(tmp_path / "a.jsonl"))
    with pytest.raises(ValueError, match=r"Recorder: path is '.*', must be the path of a file: it is a directory"):
        one.record_to(tmp_path)
    with pytest.raises(cede.UnreadableFile, match="is a directory, must be a record of cede"):
        cede.read_record(tmp_path)
    with pytest.raises(cede.UnreadableFile, match=r"is a record of steps, must be .*; cede.read_record reads records"):
        cede.load(tmp_path / "a.jsonl")
    with pytest.raises(FileNotFoundError):
        cede.read_record(tmp_path / "nowhere.jsonl")
    with pytest.raises(ValueError, match="Recorder: sync is 'always', must be one of 'never', 'episode', 'step'"):
        one.record_to(tmp_path / "b.jsonl", sync="always")
    assert not (tmp_path / "b.jsonl").exists()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="regular"):
        one.record_to(tmp_path / "pipe")


def test_records_of_schema_1_are_read(tmp_path):
    """What an earlier version wrote: its lines, and what follows from them. A change of the lines needs another schema."""
    path = Path(__file__).parent.parent / "golden" / "record-schema-1.jsonl"
    record = cede.read_record(path)
    assert (len(record), record.ended.tolist(), record.dropped.tolist()) == (
        13,
        [True, True, False, False],
        [False, False, True, False],
    )
    assert (record.gaps, record.torn, len(record.runs)) == (1, 17, 2)
    assert record.columns["agent"].tolist() == [0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0, 1]
    assert record.columns["reason"].tolist()[:2] == ["plan", "override"]
    with Recorder(tmp_path / "new.jsonl", golden_task()):
        pass
    header = path.read_bytes().splitlines()[0]
    assert (tmp_path / "new.jsonl").read_bytes().splitlines()[0] == header
    learner = cede.ucrl2_mc(golden_task())
    assert learner.learn_from(record) == 2
    assert learner.steps_in_control.tolist() == [4.0, 4.0]


def golden_task():
    names = {"state_names": ["runs", "stuck"], "action_names": ["wait", "act"]}
    return cede.Task(env_cost=[[0.0, 0.5], [1.0, 1.5]], agents=["program", "person"], horizon=4, switch_cost=0.25, **names)


def test_damage_is_found(tmp_path):
    path = tmp_path / "a.jsonl"
    recorded(path)
    lines = path.read_bytes().splitlines(keepends=True)
    forged = {
        "line 5 cannot be read": lambda step: b"{" + json.dumps(step).encode() + b"\n",
        "state": lambda step: json.dumps({**step, "state": 4}).encode() + b"\n",
        "agent": lambda step: json.dumps({**step, "agent": -1}).encode() + b"\n",
        "integer": lambda step: json.dumps({**step, "action": 0.5}).encode() + b"\n",
        "next_state": lambda step: json.dumps({k: v for k, v in step.items() if k != "next_state"}).encode() + b"\n",
        "object": lambda step: b"3\n",
        "event": lambda step: b'{"event":"party"}\n',
    }
    for word, forge in forged.items():
        path.write_bytes(b"".join([*lines[:4], forge(json.loads(lines[4])), *lines[5:]]))
        with pytest.raises(cede.UnreadableFile, match=word):
            cede.read_record(path)
    head = json.loads(lines[0])
    for change in ({"schema": 2}, {"acting": [0, 1, 7]}, {"agents": ["a"]}, {"horizon": -1}, {"state_names": ["x"]}):
        path.write_bytes(json.dumps({**head, **change}, separators=(",", ":")).encode() + b"\n" + b"".join(lines[1:]))
        with pytest.raises(cede.UnreadableFile):
            cede.read_record(path)


# ------------------------------------------------------------------------------------------------- after a crash


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_from_its_file_and_the_rest_of_its_record(way, form, tmp_path):
    """A learner that is loaded and learns the rest of its record is the one that was killed; nothing counts twice."""
    mdp, make = WAYS[way]
    one, path = make(mdp), tmp_path / "a.jsonl"
    with one.record_to(path):
        drive(one, mdp, 4)
        one.save(tmp_path / "one.cede")
        drive(one, mdp, 3, seed=1)
    record = cede.read_record(path)
    if form == "parquet":
        pytest.importorskip("pyarrow")
        record = cede.read_record(record.save(tmp_path / "a.parquet"))
    two = cede.load(tmp_path / "one.cede")
    counted = two.episode
    with pytest.raises(ValueError, match=r"may have counted already is \d+, must be 0: give record.after\(learner\).*again=True"):
        two.learn_from(record)
    assert two.episode == counted
    assert two.learn_from(record.after(two)) == 3
    same_counts(one, two)
    np.testing.assert_array_equal(one.plan.policy, two.plan.policy)
    assert len(record.after(two)) == 0
    assert two.learn_from(record.after(two)) == 0
    three = make(mdp)
    three.learn_from(record)
    three.learn_from(record, again=True)
    assert three.counts.agents.sum() > two.counts.agents.sum() or "forget" in way
    assert three.episode == 2 * one.episode - 1


@pytest.mark.parametrize("mdp", [MDP, endless(5, 0.9)])
def test_the_rest_of_a_record_of_several_processes(mdp, tmp_path):
    """The second process did not learn what the first one saw after its file was written; the third one learns all of it."""
    one, path = cede.ucrl2_mc(mdp.task), tmp_path / "a.jsonl"
    with one.record_to(path):
        drive(one, mdp, 2)
        one.save(tmp_path / "one.cede")
        drive(one, mdp, 2, seed=1)
    two = cede.load(tmp_path / "one.cede")
    with two.record_to(path):
        drive(two, mdp, 1, seed=2)
    three, whole = cede.load(tmp_path / "one.cede"), cede.ucrl2_mc(mdp.task)
    record = cede.read_record(path)
    assert three.learn_from(record.after(three)) == 3
    whole.learn_from(record)
    same_counts(three, whole)


def test_steps_after_a_gap_have_the_numbers_of_the_learner(tmp_path):
    mdp = endless(5, 0.9)
    one, path = cede.ucrl2_mc(mdp.task), tmp_path / "a.jsonl"
    with one.record_to(path):
        drive(one, mdp, 1)
        cede.simulate(mdp, one, steps=20, progress=False)
        one.save(tmp_path / "one.cede")
        drive(one, mdp, 1, seed=1)
    record = cede.read_record(path)
    assert record.learner_episode.tolist() == [*range(1, 8), *range(28, 35)]
    two = cede.load(tmp_path / "one.cede")
    assert two.learn_from(record.after(two)) == 1
    same_counts(one, two)


def test_after_wants_a_learner(tmp_path):
    one, path = cede.ucrl2_mc(MDP.task), tmp_path / "a.jsonl"
    one.record_to(path).close()
    with pytest.raises(ValueError, match=r"Record.after: the number of the next episode of learner is None"):
        cede.read_record(path).after(MDP)
    for wrong in (str(path), path):
        with pytest.raises(ValueError, match=r"learn_from: log is .*, must be .* or a Record: read the file with cede.read_record"):
            one.learn_from(wrong)
