"""Records of many sessions at once: nothing is lost or counted twice, whatever their order, also after a crash."""

import json

import numpy as np
import pytest

import cede
from problems import random_mdp

MDP = random_mdp(3, n_states=4, n_agents=3, horizon=4, kinds=[None, None, "prev_agent"])
ENDLESS = cede.TwoLayerMDP(MDP.environment, MDP.team, None, discount=0.9)
MAKERS = {
    "horizon": lambda: cede.ucrl2_mc(MDP.task, scale=0.1, seed=4),
    "trial episodes": lambda: cede.recommended(MDP.task, seed=4),
    "forgetting": lambda: cede.ucrl2_mc(MDP.task, forget=cede.Window(5), forget_environment=cede.HalfLife(3), seed=4),
    "learned costs": lambda: cede.ucrl2_mc(MDP.task.with_unknown_costs((0.0, 1.0)), seed=4),
    "no horizon": lambda: cede.ucrl2_mc(ENDLESS.task, scale=0.1, seed=4),
    "no horizon, forgetting": lambda: cede.ucrl2_mc(ENDLESS.task, forget=cede.Window(7), replan=5, seed=4),
}


def same(one, two):
    a, b = one.counts, two.counts
    assert (a.episodes, a.environment_episodes) == (b.episodes, b.environment_episodes)
    for name, layer in a.layers.items():
        np.testing.assert_array_equal(layer.key, b.layers[name].key, err_msg=name)
        np.testing.assert_array_equal(layer.number, b.layers[name].number, err_msg=name)


def drive(learner, rng, steps, sessions=5, ends=0.2):
    """Random steps of some sessions at once: some end early, some are dropped."""
    for _ in range(steps):
        session = learner.session(f"s{rng.integers(sessions)}")
        state = int(rng.integers(learner.task.n_states)) if session.state is None else session.state
        session.choose(state)
        agent = int(rng.integers(learner.task.n_agents)) if rng.random() < 0.3 else None
        session.observe(
            *(int(x) for x in rng.integers(2, size=2)), float(rng.random()) if learner.task.learns_costs else None, agent=agent
        )
        last = learner.task.horizon is not None and session.t == learner.task.horizon
        if rng.random() < 0.1:
            session.drop()
        elif last or rng.random() < ends:
            session.end()


@pytest.mark.parametrize("name", MAKERS)
def test_a_learner_from_a_record_is_one_that_was_there(name, tmp_path):
    learner, path = MAKERS[name](), tmp_path / "a.jsonl"
    with learner.record_to(path):
        drive(learner, np.random.default_rng(1), 80)
        if learner.task.horizon is not None:
            learner.observe(0, 0, 0, 1, 0, 1, 0.5 if learner.task.learns_costs else None)  # the session None beside them
            drive(learner, np.random.default_rng(2), 10)
            learner.end_episode()
    record = cede.read_record(path)
    assert set(record.columns["session"]) >= {f"s{i}" for i in range(5)}
    again = MAKERS[name]()
    again.learn_from(record, progress=False)
    same(learner, again)
    with pytest.raises(ValueError, match="counted already"):
        learner.learn_from(record)
    assert learner.learn_from(record.after(learner), progress=False) == 0
    from_columns = MAKERS[name]()
    from_columns.learn_from(record.log(), progress=False)
    same(learner, from_columns)
    if learner.task.horizon is not None:
        kept = record.columns["t"] >= 0
        chosen = record.columns["asked"][kept] >= 0
        assert chosen.mean() > 0.9


@pytest.mark.parametrize("name", MAKERS)
def test_recovery_after_a_crash_with_open_sessions(name, tmp_path):
    """Saved with sessions open, recorded further, killed: loaded, the rest of the record is learned, and the record goes on."""
    learner, path, rng = MAKERS[name](), tmp_path / "a.jsonl", np.random.default_rng(3)
    recorder = learner.record_to(path)
    drive(learner, rng, 40)
    learner.save(tmp_path / "a.cede")
    before = learner.episode
    drive(learner, rng, 40)
    recorder.close()  # the process is killed: what runs is lost, what ended is in the record
    loaded = cede.load(tmp_path / "a.cede")
    assert loaded.episode == before
    ended = set()
    while True:
        try:
            loaded.record_to(path).close()
            break
        except ValueError as error:
            key = str(error).split("session '")[1].split("'")[0]
            assert key in loaded.sessions
            ended.add(key)
            loaded.session(key).drop()
    for session in loaded.sessions.values():
        session.drop()
    loaded.learn_from(cede.read_record(path).after(loaded), progress=False)
    same(learner, loaded)
    with loaded.record_to(path):
        drive(loaded, rng, 30)
    again = MAKERS[name]()
    again.learn_from(cede.read_record(path), progress=False)
    same(loaded, again)


def test_sessions_go_on_in_the_record_of_a_loaded_learner(tmp_path):
    learner, path = MAKERS["horizon"](), tmp_path / "a.jsonl"
    with learner.record_to(path):
        for key in ("one", "two"):
            learner.session(key).choose(0)
            learner.session(key).observe(0, 1)
        learner.save(tmp_path / "a.cede")
    loaded = cede.load(tmp_path / "a.cede")
    with loaded.record_to(path):
        for key in ("two", "one"):
            loaded.session(key).choose(1)
            loaded.session(key).observe(0, 2)
            loaded.session(key).end()
    record = cede.read_record(path)
    assert record.ended.tolist() == [False, False, True, True]
    assert [record.columns["session"][record.number == k].tolist() for k in (2, 3)] == [["two"] * 2, ["one"] * 2]
    again = MAKERS["horizon"]()
    assert again.learn_from(record, progress=False) == 2
    same(loaded, again)
    assert len(record.log(unfinished=True)["t"]) == 4


def test_a_log_with_sessions_is_that_of_episodes_one_by_one():
    rng = np.random.default_rng(8)
    for endless in (False, True):
        task = ENDLESS.task if endless else MDP.task
        together, apart = (cede.ucrl2_mc(task) for _ in range(2))
        rows, ends = [], []
        for session in range(6):
            state = int(rng.integers(4))
            for t in range(4):
                agent, action, to = int(rng.integers(3)), int(rng.integers(3)), int(rng.integers(4))
                rows.append((f"s{session}", t, state, agent, action, to))
                state = to
        names = ("session", "t", "state", "agent", "action", "next_state")
        apart.learn_from(dict(zip(names[1:], list(zip(*rows, strict=True))[1:], strict=True)), progress=False)
        order = sorted(range(len(rows)), key=lambda i: (rows[i][1], rng.random()))
        mixed = [rows[i] for i in order]
        together.learn_from(dict(zip(names, zip(*mixed, strict=True), strict=True)), progress=False)
        same(together, apart)
        wrong = [row if i != 9 else (*row[:2], (row[2] + 1) % 4, *row[3:]) for i, row in enumerate(mixed)]
        with pytest.raises(ValueError, match=r"state\[9\] is \d, must be \d, where the step before led"):
            together.learn_from(dict(zip(names, zip(*wrong, strict=True), strict=True)), progress=False)
        ends.append(together.episode)


def test_lines_name_their_session(tmp_path):
    learner = cede.greedy(MDP.task)
    with learner.record_to(tmp_path / "a.jsonl"):
        learner.session("x").choose(0)
        learner.session("x").observe(0, 1)
        learner.observe(0, 0, 0, 0, 0, 1)
        learner.session("x").end()
        learner.drop_episode()
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [(line.get("event"), line.get("session")) for line in lines[2:]] == [
        (None, "x"),
        (None, None),
        ("end", "x"),
        ("drop", None),
    ]
