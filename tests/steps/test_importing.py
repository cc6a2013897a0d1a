"""Logs of other systems: mixed sessions become the same counts, and each row that cannot be used is listed with the reason."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import cede
from cede._base.columns import save_columns
from cede.cli import app
from cede.rows.working import count
from cede.steps.importing import import_log
from problems import play, random_mdp

NAMED = {"agent": "model", "state": "kind", "action": "did"}
TABLE = """conversation,time,model,kind,did,note
a,1,program,runs,wait,x
b,2,person,stuck,fix,x
a,3,robot,runs,wait,x
a,4,person,stuck,fix,"y, z"
b,5,person,,fix,x
a,10,person,runs,1,x
,7,person,runs,1,x
c,8,1,stuk,1,x
c,9,1,0,1,x
c,11,1,0,1,x
"""


def desk(**more):
    costs = {"env_cost": [0.0, 1.0], "n_actions": 2, **more}
    names = {"state_names": ["runs", "stuck"], "action_names": ["wait", "fix"]}
    return cede.Task(**{"agents": ["program", "person"], "horizon": 10, **names, **costs})


def mixed(mdp, episodes, seed=0):
    """Episodes as one table: steps of all of them in any order, with the time of each step."""
    rng = np.random.default_rng(seed)
    rows = []
    for key, e in enumerate(episodes):
        times = np.sort(rng.random(len(e.actions)))
        for t, at in enumerate(times):
            rows.append((f"s{key}", at, int(e.states[t]), mdp.task.agents[e.agents[t]], int(e.actions[t]), int(e.states[t + 1])))
    rows = [rows[i] for i in rng.permutation(len(rows))]
    return {name: list(column) for name, column in zip(("key", "at", "s", "who", "a", "to"), zip(*rows, strict=True), strict=True)}


@pytest.mark.parametrize("suffix", ["mapping", "frame", "arrow", ".csv", ".jsonl", ".parquet"])
def test_mixed_sessions_give_the_counts_of_the_episodes(suffix, tmp_path):
    mdp = random_mdp(3, n_agents=2, horizon=6)
    episodes = play(mdp, 20, 1)
    table = mixed(mdp, episodes)
    source = table
    if suffix == "frame":
        source = pytest.importorskip("pandas").DataFrame(table)
    elif suffix == "arrow":
        source = pytest.importorskip("pyarrow").table(table)
    elif suffix != "mapping":
        source = save_columns("test", tmp_path / f"log{suffix}", table)
    names = {"state": "s", "agent": "who", "action": "a", "next_state": "to"}
    log = import_log(source, mdp.task, names, session="key", order="at")
    assert (len(log), log.refused, log.sessions) == (sum(len(e.actions) for e in episodes), (), 20)
    expected = count(mdp.task, episodes)
    learner = cede.ucrl2_mc(mdp.task)
    assert learner.learn_from(log) == 20
    for layer in ("agents", "environment"):
        np.testing.assert_array_equal(getattr(learner.counts, layer).toarray(), getattr(expected, layer).toarray())
    with pytest.raises(ValueError, match="may have counted already is 20, must be 0"):
        learner.learn_from(log)
    again = import_log(table, mdp.task, names, session="key", order="at")
    with pytest.raises(ValueError, match="may have counted already is 20, must be 0"):
        learner.learn_from(again)  # the same steps, read anew


def test_next_states_and_previous_agents_follow_from_the_neighbours():
    mdp = random_mdp(3, n_agents=2, horizon=6)
    episodes = play(mdp, 20, 1)
    names = {"state": "s", "agent": "who", "action": "a"}
    log = import_log(mixed(mdp, episodes), mdp.task, names, session="key", order="at")
    assert {refused.reason for refused in log.refused} == {
        "next_state is missing, must be there: the last row of its session: give end_state"
    }
    assert len(log.refused) == 20  # one in each session
    steps = {
        (row["session"], t): row
        for row in (dict(zip(log.columns, v, strict=True)) for v in zip(*log.columns.values(), strict=True))
        for t in [row["t"]]
    }
    for key, e in enumerate(episodes):
        for t in range(len(e.actions) - 1):
            step = steps[f"s{key}", t]
            expected = (e.states[t], e.prev_agents[t], e.agents[t], e.actions[t], e.states[t + 1])
            assert tuple(step[name] for name in ("state", "prev_agent", "agent", "action", "next_state")) == expected
    ended = import_log(mixed(mdp, episodes), mdp.task, names, session="key", order="at", end_state=2)
    assert (len(ended.refused), ended.columns["next_state"][ended.columns["t"] == 5].tolist()) == (0, [2] * 20)


def test_every_row_that_cannot_be_used_is_listed_with_the_reason(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(TABLE)
    log = import_log(path, desk(), NAMED, session="conversation", order="time", end_state="runs")
    assert [(refused.row, refused.session, refused.reason) for refused in log.refused] == [
        (1, "b", "next_state is missing, must be there: the next row does not say it"),
        (2, "a", "agent is 'robot', must be one of 'program', 'person'"),
        (3, "a", "prev_agent is missing, must be there: the row before does not say who acted"),
        (4, "b", "state is missing, must be there"),
        (6, "", "session is missing, must be there"),
        (7, "c", "state is 'stuk', must be one of 'runs', 'stuck'"),
    ]
    assert log.columns["row"].tolist() == [0, 5, 8, 9]
    assert log.columns["prev_agent"].tolist() == [0, 1, 1, 1]
    assert str(log).startswith("4 of 10 rows can be used, in 2 sessions; 6 rows refused:\n")
    assert log.reasons["agent must be one of 'program', 'person'"] == 1
    lines = log.save_refused(tmp_path / "refused.csv").read_text().splitlines()
    assert lines[0] == "row,why,conversation,time,model,kind,did,note"
    assert lines[3] == '3,"prev_agent is missing, must be there: the row before does not say who acted",a,4,person,stuck,fix,"y, z"'
    named = import_log(path, desk(), NAMED, session="conversation", names={"agent": {"robot": "program"}}, end_state=0)
    assert 2 not in {refused.row for refused in named.refused}


STEPS = {"state": [0, 1, 0, 1], "agent": [0, 0, 1, 1], "action": [0] * 4, "next_state": [1, 0, 1, 1]}


LINK, UNKNOWN = (
    "state must be the state where the step before led",
    "prev_agent must be there: the row before does not say who acted",
)
LEARNED = {"env_cost": None, "n_states": 2, "cost_range": (0, 2)}
NOBODY = ["agent must be an integer from 0 to 1", "agent must be one of 'program', 'person'", UNKNOWN]
WRONG = [
    ({}, {}, [0, 1, 2, 3], []),
    ({"state": [0, 0, 0, 1]}, {}, [0, 2, 3], [LINK]),
    ({"prev_agent": [0, 0, 1, 1]}, {}, [0, 1, 3], ["prev_agent must be the agent who acted in the step before"]),
    ({"t": [0, 0, 1, 2], "state": [0, 1, 1, 1]}, {}, [0, 2, 3], ["t must be more than that of the row before"]),
    ({"t": [5, 0, 3, 6], "prev_agent": [0, 0, 1, 0]}, {}, [0, 3], ["t must be more than that of the row before"]),
    ({"t": [0, 2, 3, 4]}, {}, [0, 2, 3], [UNKNOWN]),
    ({}, {"horizon": 3}, [0, 1, 2], ["t must be below 3, the horizon"]),
    ({}, {"terminal": [1]}, [0, 2], ["state must be one in which an episode goes on: it ends there"]),
    ({"cost": [0, 1, 0.5, 1]}, {}, [0, 1, 3], ["cost must be what the task says, or left out"]),
    ({"cost": [9, 1, 0, 1]}, LEARNED, [1, 2, 3], ["cost must be from 0 to 2, the cost_range of the task"]),
    ({"cost": [1, 1, 0, ""]}, LEARNED, [0, 1, 2], ["cost must be given: the task does not say what env_cost"]),
    ({"state": [0, 0, 0, 1], "moved": ["", "yes", "", "no"]}, {}, [0, 1, 2, 3], []),
    ({"agent": np.array([0, 5, 1, True], dtype=object)}, {}, [0], NOBODY),
]  # fmt: skip


@pytest.mark.parametrize(("more", "task", "kept", "kinds"), WRONG)
def test_what_is_wrong_in_a_row(more, task, kept, kinds):
    log = import_log({**STEPS, **more}, desk(**task))
    assert log.columns["row"].tolist() == kept
    assert sorted(re.sub(r"\[.*", "", kind) for kind in log.reasons) == kinds
    assert {*log.columns["row"].tolist(), *(refused.row for refused in log.refused)} == set(range(4))
    assert cede.ucrl2_mc(desk(**task)).learn_from(log) == (len(kept) > 0)  # what is left is a log without errors


def test_many_refused_rows_among_many_sessions():
    """A slow twin: a row is used if it continues the last used row of its session, or that row is not the one before."""
    rng = np.random.default_rng(0)
    n = 3000
    table = {"state": rng.integers(0, 2, n), "agent": rng.integers(0, 2, n), "action": [0] * n, "next_state": rng.integers(0, 2, n)}
    table["key"] = np.sort(rng.integers(0, 400, n))
    table = {name: np.asarray(column)[rng.permutation(n) if name == "none" else slice(None)] for name, column in table.items()}
    log = import_log(table, desk(horizon=None, discount=0.9), session="key", progress=False)
    used, last = [], {}
    for row in range(n):
        key = int(table["key"][row])
        place = sum(table["key"][:row] == key)
        before, state = last.get(key, (-2, 0))
        if before != place - 1 or state == table["state"][row]:
            used.append(row)
            last[key] = (place, int(table["next_state"][row]))
    assert log.columns["row"].tolist() == used
    assert 0 < len(log.refused) < n


def test_states_from_an_encoder(tmp_path):
    encoder = cede.encode.Product([cede.encode.Counter("failed", most=1), cede.encode.Flag("open")])
    path = tmp_path / "log.csv"
    path.write_text("failed,open,agent,action\n0,yes,0,0\n3,False,1,1\n-1,no,1,1\n,no,1,1\n")
    task = cede.Task(n_states=4, n_actions=2, cost_range=(0, 1), agents=["a", "b"], horizon=5, state_names=encoder.state_names)
    log = import_log(path, task.__class__(**{**STATED, "state_names": encoder.state_names}), {"state": encoder}, end_state=0)
    assert log.columns["state"].tolist() == [1]
    assert log.columns["next_state"].tolist() == [2]
    assert [refused.reason for refused in log.refused] == [
        "next_state is missing, must be there: the next row does not say it",
        "encode: failed is -1.0, must be a count: a whole number of at least 0",
        "encode: failed is None, must be a number",
    ]
    assert task.n_states == 4


STATED = {"env_cost": np.zeros((4, 2)), "agents": ["a", "b"], "horizon": 5}


def test_wrong_arguments(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(TABLE)
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"no table")
    for source, options, text in (
        (3, {}, "source is 3, must be a file, a data frame"),
        (tmp_path / "log.xlsx", {}, "the suffix of source is '.xlsx', must be one of '.csv', '.jsonl', '.parquet', '.csv.gz'"),
        (path, {}, "the column 'state' is missing, must be there: the log has ['conversation'"),
        (path, {"columns": {"agnt": "model"}}, "a name in columns is 'agnt', must be one of"),
        (path, {"columns": {"agent": "modle"}}, "columns['agent'] is 'modle', must be one of"),
        (path, {"columns": NAMED, "session": "session"}, "session is 'session', must be one of"),
        (path, {"columns": NAMED, "end_state": "nowhere"}, "end_state is 'nowhere', must be one of 'runs', 'stuck'"),
        (path, {"columns": NAMED, "names": {"who": {}}}, "a name in names is 'who', must be one of"),
        (path, {"columns": {**NAMED, "state": cede.encode.Flag("open")}}, "the column 'open', which the encoder reads, is missing"),
        ({**STEPS, "at": [1, "x", None, 2]}, {"order": "at"}, "the values of order is of several types"),
        ({**STEPS, "agent": [0]}, {}, "the number of rows of the columns is"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"import_log: {text}")):
            import_log(source, desk(), **options)
    with pytest.raises(ValueError, match=r"source is .*bad\.parquet', must be a readable table"):
        import_log(bad, desk())
    assert len(import_log({name: [] for name in STEPS}, desk())) == 0


def test_the_command(tmp_path):
    path, saved, refused = tmp_path / "log.csv", tmp_path / "desk.cede", tmp_path / "refused.csv"
    path.write_text(TABLE)
    cede.recommended(desk()).save(saved)
    mapping = ["--learner", str(saved), "--columns", "agent=model,state=kind", "--columns", "action=did"]
    options = [*mapping, "--session", "conversation", "--order", "time", "--end-state", "runs", "--refused", str(refused)]

    def run(*more):
        return CliRunner().invoke(app, ["import", str(path), *options, *more])

    checked = run("--only-check")
    assert (checked.exit_code, cede.load(saved).episode) == (0, 1)
    assert "4 of 10 rows can be used, in 2 sessions; 6 rows refused" in checked.output
    assert "agent is 'robot', must be one of" in checked.output
    assert len(refused.read_text().splitlines()) == 7
    assert "learned from 4 steps in 2 sessions" in run("--out", str(tmp_path / "new.cede")).output
    assert (cede.load(saved).episode, cede.load(tmp_path / "new.cede").episode) == (1, 3)
    assert run().exit_code == 0
    twice = run()
    assert (twice.exit_code, "may have counted already" in twice.output) == (2, True)
    for wrong, text in ((["--columns", "agent"], "must be pairs of names"), (["--session", "x"], "session is 'x'")):
        answer = run(*wrong)
        assert (answer.exit_code, text in answer.output) == (2, True), answer.output
