"""The spool: what was observed outlives kills and outages, is told exactly once, and the last policy decides meanwhile."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import cede
from cede.client import spool as spools
from cede.client.spool import Spool
from cede.serve.store import tokens
from cede.serve.store.audit import verify
from cede.serve.store.database import Database
from cede.serve.store.store import Store
from forked import context
from serve_process import Server
from traffic import river, run

TASK = river().task
URL = "http://localhost:8000"
GOLDEN = Path(__file__).parent.parent / "golden"
FIELDS = ("state", "prev_agent", "agent", "action", "next_state")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('spool')}/cede.db"
    database = Database(url)
    made = Server(url, plans=True)
    made.token = database.write(lambda c: tokens.create(c, "test", ["admin"], None, None))
    database.close()
    made.start()
    with cede.Client(made.address, made.token, timeout=30) as client:
        client.put_environment("river", cede.recommended(TASK))
    yield made
    made.stop()


def with_team(server, name):
    """Make a team, and wait for its first plan."""
    with cede.Client(server.address, server.token, timeout=30) as client:
        client.put_team(name, "river")
        for _ in range(30_000):
            if client.ask("GET", f"/v1/teams/{name}").json()["version"]:
                return
            time.sleep(0.02)
    raise AssertionError("no plan is made")


def step(t, episode=1, **more):
    return {"episode": episode, "t": t, "state": 0, "prev_agent": 0, "agent": 0, "action": 0, "next_state": 0, **more}


def in_log(server, team):
    """All steps of a team in the log, by episode and t."""
    database = Database(server.url)
    with database.read() as connection:
        store = Store(database)
        assert verify(connection, store) == []
        sql = f"SELECT episode, t, {', '.join(FIELDS)} FROM steps WHERE team = ?"
        rows = [tuple(row) for row in run(connection, sql, (store.team(team).id,)).all()]
        counted = run(connection, "SELECT episode FROM episodes WHERE team = ? AND counted = 1", (store.team(team).id,)).all()
    database.close()
    return {row[:2]: row[2:] for row in rows}, {row[0] for row in counted}


def table(path, sql):
    with sqlite3.connect(path) as connection:
        found = connection.execute(sql).fetchall()
    connection.close()
    return found


def work(address, token, path, name, notes, seed):
    """In a process of its own: episodes without end, some dropped or cut short; every step is noted once `observe` has returned."""
    rng = random.Random(seed)
    out = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    client = cede.Client(address, token, spool=path, refresh=0.05, timeout=2)
    team = client.team(name)
    while True:
        state, agent = 0, 0
        for t in range(rng.choice([TASK.horizon, TASK.horizon, 7])):
            prev_agent, agent = agent, team.choose(t, state, agent)
            following = min(5, max(0, state + rng.choice([-1, 0, 1])))
            team.observe(t, state, prev_agent, agent, rng.randrange(2), following)
            os.write(out, f"{team.episode} {t} {state} {prev_agent} {agent} {following}\n".encode())
            state = following
            if rng.random() < 0.1:
                time.sleep(0.001)
        team.end_episode()


def test_nothing_that_was_observed_is_lost_by_kills_and_outages(server, tmp_path):
    """Clients that share a spool are killed at random moments, while the server is killed and started, too."""
    with_team(server, "killed")
    path, rng = tmp_path / "spool.db", random.Random(5)
    with cede.Client(server.address, server.token, spool=path, timeout=30) as client:
        client.team("killed").choose(0, 0, 0)  # its policy is kept: those who begin during an outage have one
    notes = []

    def new():
        notes.append(tmp_path / f"notes{len(notes)}")
        given = (server.address, server.token, str(path), "killed", str(notes[-1]), len(notes))
        process = context.Process(target=work, args=given, daemon=True)
        process.start()
        return process

    running, up = [new() for _ in range(3)], True
    for i in range(10):
        until = time.monotonic() + rng.uniform(0.1, 0.6)
        while time.monotonic() < until or not all(note.exists() and note.stat().st_size for note in notes[-3:]):
            assert all(one.is_alive() for one in running)
            time.sleep(0.005)
        victim = running.pop(0)
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        running.append(new())
        if i % 3 == 1:
            (server.stop if up else server.start)()
            up = not up
    for one in running:
        os.kill(one.pid, signal.SIGKILL)
        one.join()
    if not up:
        server.start()
    with cede.Client(server.address, server.token, spool=path, timeout=30) as client:
        client.flush(600)
    log, counted = in_log(server, "killed")
    told = [line.split() for note in notes if note.exists() for line in note.read_text().splitlines()]
    assert len(told) > 500
    for line in told:
        episode, t, state, prev_agent, agent, following = map(int, line)
        found = log[episode, t]
        assert (*found[:3], found[4]) == (state, prev_agent, agent, following)
    assert len({(line[0], line[1]) for line in told}) == len(told)
    assert len(log) - len(told) <= len(notes)  # a step may be kept without having been noted, if the kill came between
    assert counted
    assert table(path, "SELECT COUNT(*) FROM unsent") == [(0,)]
    assert table(path, "SELECT COUNT(*) FROM refused") == [(0,)]
    assert server.token.encode() not in b"".join(one.read_bytes() for one in tmp_path.iterdir())


def test_an_episode_that_was_cut_off_is_in_the_log_and_not_counted(server, tmp_path):
    with_team(server, "cut")
    path = tmp_path / "spool.db"
    code = f"""
import os, signal, cede
team = cede.Client({server.address!r}, {server.token!r}, spool={str(path)!r}, timeout=30).team("cut")
for t in range(3):
    team.observe(t, 0, 0, 0, 0, 0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert path.stat().st_mode & 0o777 == 0o600
    with cede.Client(server.address, server.token, spool=path, timeout=30) as client:
        client.flush(600)
    log, counted = in_log(server, "cut")
    assert sorted(t for _, t in log) == [0, 1, 2]
    assert not counted


def test_a_client_that_is_restarted_during_an_outage_decides_by_the_last_policy(server, tmp_path):
    with_team(server, "restarted")
    path = tmp_path / "spool.db"
    with cede.Client(server.address, server.token, spool=path, timeout=30) as client:
        team = client.team("restarted")
        chosen = [team.choose(0, s, d) for s in range(6) for d in range(2)]
        version = team.version
    before = table(path, "SELECT got FROM policies")[0][0]
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE policies SET got = got - 100000")
    connection.close()
    server.stop()
    try:
        with cede.Client(server.address, server.token, spool=path, refresh=0.05) as client:
            team = client.team("restarted")
            assert [team.choose(0, s, d) for s in range(6) for d in range(2)] == chosen
            assert team.version == version
            assert 100 <= team.age <= time.time() - before / 1000 + 101
            team.observe(0, 0, 0, chosen[0], 0, 0)
            team.end_episode()
            with pytest.raises(TimeoutError, match="1 steps are not sent yet"):
                client.flush(0.2)
            client.close(0.1)  # no error: it is kept
    finally:
        server.start()
    with cede.Client(server.address, server.token, spool=path, refresh=0.05) as client:
        team = client.team("restarted")
        team.choose(0, 0, 0)
        for _ in range(30_000):
            if team.age < 50:
                break
            time.sleep(0.02)
        assert team.age < 50
        client.flush(600)
    log, counted = in_log(server, "restarted")
    assert (len(log), len(counted)) == (1, 1)


def test_what_is_refused_is_kept_with_the_reason(server, tmp_path):
    with_team(server, "refused")
    path = tmp_path / "spool.db"
    with cede.Client(server.address, server.token, spool=path, timeout=30) as client:
        client.unsent.put("refused", 1, step(0, state=99), held=False)
        client.unsent.put("refused", 2, step(0, episode=2), held=False)
        client.wake()
        with pytest.raises(ValueError, match="state is 99, must be an integer from 0 to 5"):
            client.flush(600)
        client.flush(600)  # it was told
    ((team, episode, reason, body),) = table(path, "SELECT team, episode, reason, body FROM refused")
    assert (team, episode, json.loads(body)) == ("refused", 1, step(0, state=99))
    assert "must be an integer from 0 to 5" in reason
    assert list(in_log(server, "refused")[0]) == [(2, 0)]


def test_a_token_that_holds_no_longer_throws_nothing_away(server, tmp_path):
    with_team(server, "token")
    path = tmp_path / "spool.db"
    client = cede.Client(server.address, "x", spool=path)
    client.unsent.put("token", 1, step(0), held=False)
    client.wake()
    for ask in (client.flush, client.close):
        with pytest.raises(ValueError, match="token is missing or not valid"):
            ask(60)
    with cede.Client(server.address, server.token, spool=path, timeout=30) as client:
        client.flush(600)
    assert list(in_log(server, "token")[0]) == [(1, 0)]


def test_after_a_fork_each_process_tells_its_own(server, tmp_path):
    with_team(server, "forks")
    client = cede.Client(server.address, server.token, spool=tmp_path / "spool.db", timeout=30)
    team = client.team("forks")
    team.observe(0, 0, 0, 0, 0, 1)
    children = []
    for i in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                assert team.episode is None
                for t in range(5):
                    team.observe(t, 0, 0, 0, i % 2, 0)
                if i < 2:
                    team.end_episode()
                    client.flush(600)
            except BaseException:
                os._exit(1)
            os._exit(0)  # the last one leaves an episode
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    team.observe(1, 1, 0, 0, 0, 1)
    team.end_episode()
    client.unsent.adopt()  # it would look within some seconds, too
    client.wake()
    client.flush(600)
    client.close()
    log, counted = in_log(server, "forks")
    assert (len(log), len(counted)) == (2 + 3 * 5, 3)


def filling(path, n, mine):
    """In a process of its own: steps, one after the other, and now and then a batch that is settled."""
    one = Spool(Path(path), URL)
    for t in range(n):
        one.put("team", mine, step(t, mine), held=False)
        if t % 50 == 49:
            one.delete(one.batch(25))


def test_several_processes_share_a_spool_and_nobody_is_told_of_locks(tmp_path):
    path = tmp_path / "spool.db"
    processes = [context.Process(target=filling, args=(str(path), 400, i)) for i in range(4)]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
        assert one.exitcode == 0
    last = Spool(path, URL)
    assert last.waiting == 4 * 200  # the dead left it
    assert {row.episode for row in last.batch(1000)} <= set(range(4))
    last.close()


def test_what_the_living_have_is_left_to_them(tmp_path):
    path = tmp_path / "spool.db"
    one = Spool(path, URL)
    one.put("team", 1, step(0), held=True)
    other = Spool(path, URL)
    assert (one.pending, other.pending) == (False, False)
    code = f"""
from pathlib import Path
from cede.client.spool import Spool
print(Spool(Path({str(path)!r}), {URL!r}).pending)
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.strip() == "False"
    one.close()
    other.adopt()
    assert [row.body for row in other.batch(10)] == [step(0)]
    other.close()


def test_a_dropped_episode_is_dropped(tmp_path):
    one = Spool(tmp_path / "spool.db", URL)
    for episode in (1, 2):
        one.put("team", episode, step(0, episode), held=True)
    one.drop("team", 1)
    one.end("team", 2, 1)
    assert [(row.episode, row.steps) for row in one.batch(10)] == [(2, None), (2, 1)]
    one.close()


def test_the_end_of_an_episode_is_synced(tmp_path, monkeypatch):
    """Steps are written without waiting for the disk, ends are not; so are ends of runs."""
    usual, said = sqlite3.connect, []

    def connect(*given, **named):
        connection = usual(*given, **named)
        connection.set_trace_callback(said.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect)
    one = Spool(tmp_path / "spool.db", URL)
    assert "PRAGMA synchronous = NORMAL" in said
    said.clear()
    one.put("team", 1, step(0), held=True)
    assert not any("PRAGMA" in line for line in said)
    said.clear()
    one.end("team", 1, 1)
    assert (said[0], said[1], said[-2], said[-1]) == (
        "PRAGMA synchronous = FULL",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "PRAGMA synchronous = NORMAL",
    )
    said.clear()
    one.sync()
    assert said == ["PRAGMA wal_checkpoint(PASSIVE)"]
    one.close()


def test_a_lock_that_is_held_too_long_is_said_in_words(tmp_path, monkeypatch):
    path = tmp_path / "spool.db"
    one = Spool(path, URL)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(1.5, lambda: other.execute("COMMIT"))
    timer.start()
    one.put("team", 1, step(0), held=False)  # waits
    timer.join()
    monkeypatch.setattr(spools, "BUSY_TIMEOUT", 0.1)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OSError, match=r"spool: locked for more than 0.1 seconds.*spool\.db"):
        one.put("team", 1, step(1), held=False)
    other.execute("COMMIT")
    other.close()
    assert one.waiting == 1
    one.close()


def test_there_is_a_most(tmp_path, monkeypatch):
    monkeypatch.setattr(spools, "MOST_ON_DISK", 2)
    one = Spool(tmp_path / "spool.db", URL)
    for t in range(2):
        one.put("team", 1, step(t), held=False)
    with pytest.raises(ValueError, match="the number of unsent steps is 3, must be at most 2: the service does not accept them"):
        one.put("team", 1, step(2), held=False)
    one.delete(one.batch(1))
    one.put("team", 1, step(2), held=False)
    one.close()


def test_a_full_disk_is_said_and_changes_nothing(server, tmp_path):
    """The file may not grow: the step is refused, and the episode goes on once there is room."""
    with_team(server, "full")
    path = tmp_path / "spool.db"
    code = f"""
import resource, signal, cede
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
client = cede.Client({server.address!r}, {server.token!r}, spool={str(path)!r}, timeout=30)
team = client.team("full")
team.observe(0, 0, 0, 0, 0, 0)
usual = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, usual[1]))
try:
    team.observe(1, 0, 0, 0, 0, 0)
except OSError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, usual)
team.observe(1, 0, 0, 0, 0, 0)
team.end_episode()
client.flush(600)
client.close()
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "spool: the file cannot be written" in found
    assert str(path) in found
    assert len(in_log(server, "full")[0]) == 2


def test_paths_that_are_none(tmp_path):
    (tmp_path / "file").write_text("x")
    for wrong in (tmp_path / "nowhere" / "x.db", tmp_path / "file" / "x.db"):
        with pytest.raises(ValueError, match=r"Client: spool is '.*', must be a file that can be written"):
            cede.Client(URL, "x", spool=wrong)
    with pytest.raises(ValueError, match="the path of a file: it is a directory"):
        cede.Client(URL, "x", spool=tmp_path)
    with pytest.raises(ValueError, match="must be the path of a file"):
        cede.Client(URL, "x", spool=3)


def damaged(path, kind):
    """Make a file that is no spool, or one no longer."""
    if kind == "text":
        path.write_text("these are no steps\n" * 400)
        return
    if kind == "another database":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE mine (x)")
        connection.close()
        return
    one = Spool(path, URL)
    for t in range(300):
        one.put("team", 1, step(t), held=False)
    one.close()
    if kind == "torn":
        data = bytearray(path.read_bytes())
        data[8192:20000] = b"\xff" * (20000 - 8192)
        path.write_bytes(data)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text", "spool is damaged"),
        ("torn", "spool is damaged"),
        ("another database", "a spool: it is another database"),
        ("newer", "the schema of the spool is 99, must be at most 1"),
    ],
)
def test_what_is_no_spool_is_named_and_left_as_it_is(tmp_path, kind, message):
    path = tmp_path / "spool.db"
    damaged(path, kind)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message) as error:
        cede.Client(URL, "x", spool=path)
    assert str(path) in str(error.value)
    assert path.read_bytes() == before
    if message == "spool is damaged":
        assert isinstance(error.value, cede.UnreadableFile)


def test_a_spool_belongs_to_one_service(tmp_path):
    cede.Client(URL, "x", spool=tmp_path / "spool.db").close()
    cede.Client(f"{URL}/", "another", spool=tmp_path / "spool.db").close()
    with pytest.raises(ValueError, match=r"Client: spool is that of 'http://localhost:8000', must be that of the service at 'http"):
        cede.Client("http://localhost:8001", "x", spool=tmp_path / "spool.db")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("spool-schema-*.db")), ids=lambda path: path.stem)
def test_spools_of_all_released_schemas_are_read(path, tmp_path):
    shutil.copy(path, tmp_path / "old.db")
    one = Spool(tmp_path / "old.db", URL)
    assert [(row.team, row.episode, row.steps) for row in one.batch(10)] == [("boat", 2, None), ("boat", 3, None), ("boat", 2, 1)]
    assert one.batch(1)[0].body == {**step(0, 2), "next_state": 1, "at": 1}
    copy = one.policy("boat")
    assert copy.policy.tolist() == [[[0, 1], [1, 0]], [[1, 1], [0, 0]]]
    assert (copy.version, copy.tag, copy.about["agents"]) == (3, '"1-3-json"', ["a", "b"])
    assert one.policy("canoe") is None
    one.close()
    assert table(tmp_path / "old.db", "SELECT episode, reason FROM refused") == [(1, "report: as an example")] * 2
