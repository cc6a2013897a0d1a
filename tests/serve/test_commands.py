"""The commands of the service, and a server that is killed again and again."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from itertools import chain, cycle
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

import cede
from cede.cli import app
from cede.serve.store import tokens
from cede.serve.store.audit import verify
from cede.serve.store.database import Database
from cede.serve.store.store import Store
from serve_process import Server, client
from traffic import episodes, river, run

call = CliRunner().invoke
COSTS = river().task.env_cost.tolist()
ENVIRONMENT = {"task": {"env_cost": COSTS, "agents": ["left", "right"], "horizon": 20, "switch_cost": 0.1}}
GOLDEN = Path(__file__).parent.parent / "golden" / "service-schema-1.db"


@pytest.fixture
def golden(tmp_path):
    shutil.copy(GOLDEN, tmp_path / "cede.db")
    return f"sqlite:///{tmp_path}/cede.db"


def test_tokens(golden):
    made = call(app, ["token", "create", "--scope", "read", "--scope", "decide", "--team", "east", "--days", "2", "--db", golden])
    assert made.exit_code == 0
    number = re.fullmatch(r"cede_([0-9a-f]{12})_([\w-]{43})\n", made.output)
    shown = call(app, ["token", "list", "--db", golden]).output
    assert number[1] in shown
    assert "read decide" in shown
    assert number[2] not in shown
    assert call(app, ["token", "revoke", number[1], "--db", golden]).exit_code == 0
    assert "revoked" in call(app, ["token", "list", "--db", golden]).output
    for wrong, why in (
        (["revoke", "x"], "token: id is 'x'"),
        (["create", "--scope", "all"], "token: scope is 'all', must be one of"),
        (["create", "--scope", "admin", "--team", "a"], "token: teams is given, must be left out"),
        (["create", "--scope", "read", "--days", "0"], "token: days is 0"),
        (["create", "--scope", "read", "--team", "a b"], "token: team is 'a b'"),
    ):
        found = call(app, ["token", *wrong, "--db", golden])
        assert found.exit_code == 2
        assert why in found.output


def test_verify_makes_and_upgrades_nothing(golden, tmp_path):
    found = call(app, ["db", "verify", "--db", golden])
    assert found.exit_code == 2
    assert "its schema is '1', must be '4': `cede db upgrade` upgrades it, after a backup" in " ".join(found.output.split())
    with Database(golden, upgrade=False).read() as connection:
        assert run(connection, "SELECT version_num FROM alembic_version").scalar() == "1"
    for command in (["db", "verify"], ["db", "rebuild"], ["token", "list"]):
        found = call(app, [*command, "--db", f"sqlite:///{tmp_path}/typo.db"])
        assert found.exit_code == 2
        assert "must be a file that exists" in " ".join(found.output.split())
        assert not (tmp_path / "typo.db").exists()


def test_verify_and_rebuild(golden):
    assert call(app, ["db", "upgrade", "--db", golden]).exit_code == 0
    assert "all counts equal the log" in call(app, ["db", "verify", "--db", golden]).output
    database = Database(golden)
    database.write(lambda c: run(c, "UPDATE counts SET n = n + 1 WHERE kind = 1"))
    database.close()
    found = call(app, ["db", "verify", "--db", golden])
    assert found.exit_code == 1
    assert "team 'east': count (layer, key)" in found.output
    assert call(app, ["db", "rebuild", "--db", golden]).exit_code == 0
    assert call(app, ["db", "verify", "--db", golden]).exit_code == 0
    assert call(app, ["db", "upgrade", "--db", golden]).exit_code == 0
    assert "plans made: 2" in call(app, ["planner", "--once", "--db", golden]).output
    assert "plans made: 0" in call(app, ["planner", "--once", "--db", golden]).output


def test_the_default_is_a_file_in_the_data_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("CEDE_DATA", str(tmp_path / "data"))
    assert call(app, ["db", "upgrade"]).exit_code == 0
    assert (tmp_path / "data" / "cede.db").exists()
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0


def test_mistakes_end_in_one_line(golden):
    found = call(app, ["serve", "--host", "0.0.0.0", "--db", golden])
    assert found.exit_code == 2
    assert "serve: --host is '0.0.0.0', must be 127.0.0.1 until there is a token" in found.output
    assert "database: url is" in call(app, ["db", "verify", "--db", "nonsense"]).output
    gone = call(app, ["db", "verify", "--db", "postgresql+psycopg://nobody:secret@127.0.0.1:1/x"])
    assert gone.exit_code == 2
    assert "error: database: it is not usable" in gone.output
    assert "secret" not in gone.output
    assert "--root-path is 'x'" in call(app, ["serve", "--root-path", "x", "--db", golden]).output


def batches_of(name, n, seed):
    """Batches of a team: episodes of several, cut anywhere, with ends."""
    fields = ("state", "prev_agent", "agent", "action", "next_state")
    steps, ends = [], []
    for number, one in enumerate(episodes(river(), n, seed)):
        columns = (one.states[:-1], one.prev_agents, one.agents, one.actions, one.states[1:])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        steps += [{"team": name, "episode": number, "t": t, **dict(zip(fields, row, strict=True))} for t, row in enumerate(rows)]
        ends.append({"team": name, "episode": number, "steps": len(one.actions)})
    parts = [{"steps": steps[i : i + 13]} for i in range(0, len(steps), 13)]
    return [*parts, *({"ends": ends[i : i + 7]} for i in range(0, len(ends), 7))]


def test_serve_prints_a_token_once_and_stops_when_told(tmp_path):
    where = {**os.environ, "PYTHONPATH": str(Path(cede.__file__).parents[1]), "CEDE_DATA": str(tmp_path)}
    for first in (True, False):
        command = [sys.executable, "-m", "cede.cli", "serve", "--port", "0", "--root-path", "/control", "--no-plan"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=where)
        line = process.stdout.readline()
        if first:
            token = line.split()[-1]
            line = process.stdout.readline()
        address = line.split()[-1]
        assert re.fullmatch(r"http://127.0.0.1:\d+/control", address)
        headers = {"authorization": f"Bearer {token}"}
        for _ in range(30_000):
            try:
                assert httpx2.get(f"{address}/v1/teams", headers=headers, timeout=60).json() == {"teams": []}
                break
            except httpx2.TransportError:
                time.sleep(0.02)
        assert httpx2.get(f"{address}/v1/teams", headers={"authorization": "Bearer x"}, timeout=60).status_code == 401
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate()
        assert rest == ""
        assert token not in errors
        assert json.loads(errors.splitlines()[-1])["status"] == 401


def test_nothing_acknowledged_is_lost_and_nothing_counted_twice(url):
    kills, database = 10 if url.startswith("sqlite") else 4, Database(url)
    token = database.write(lambda c: tokens.create(c, "test", ["admin"], None, None))
    database.close()
    server = Server(url, plans=True)
    server.start()
    names, headers = ("a", "b", "c"), {"authorization": f"Bearer {token}"}
    client.put(f"{server.address}/v1/environments/river", headers=headers, json=ENVIRONMENT).raise_for_status()
    for name in names:
        client.put(f"{server.address}/v1/teams/{name}", headers=headers, json={"environment": "river"}).raise_for_status()
    acknowledged, sent, done = dict.fromkeys(names, 0), [], threading.Event()

    def send(name, seed):
        """Send batches until the killing is over; whatever was not acknowledged is sent again."""
        batches = batches_of(name, 400, seed)
        for i, batch in enumerate(chain(batches, cycle(batches))):
            while True:
                try:
                    found = client.post(f"{server.address}/v1/steps", headers=headers, content=json.dumps(batch), timeout=5)
                    if found.status_code == 200:
                        break
                    assert found.status_code in (429, 503), found.text
                except httpx2.TransportError:
                    time.sleep(0.02)
            if i < len(batches):
                acknowledged[name] += len(batch.get("steps", ()))
                sent.append(batch)
            if done.is_set():
                return

    threads = [threading.Thread(target=send, args=(name, i)) for i, name in enumerate(names)]
    for thread in threads:
        thread.start()
    for i in range(kills):
        time.sleep(0.1 + 0.03 * i)
        server.stop()
        server.start()
    done.set()
    for thread in threads:
        thread.join()
    server.stop(signal.SIGTERM)
    database = Database(url)
    store = Store(database)
    with database.read() as connection:
        assert verify(connection, store) == []
        for name in names:
            found = run(connection, "SELECT COUNT(*) FROM steps WHERE team = ?", (store.team(name).id,)).scalar()
            assert found == acknowledged[name] > 0
        keys = {(store.team(s["team"]).id, s["episode"], s["t"]) for batch in sent for s in batch.get("steps", ())}
        assert {tuple(row) for row in run(connection, "SELECT team, episode, t FROM steps")} == keys
    database.close()
