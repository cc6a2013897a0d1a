"""What must never happen: counts that depend on the order of reports, steps that are lost or counted twice, requests that break
the server.
"""

import json
import random
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cede
from cede.serve.planner.plans import Planner
from cede.serve.store import tokens
from cede.serve.store.audit import verify
from cede.serve.store.database import Database
from cede.serve.store.store import Store
from service_hosts import (
    ENVIRONMENT,
    HERE,
    LEASE,
    Load,
    Postgres,
    Served,
    free_port,
    killable_planner,
    killable_server,
    memory,
    real_server,
)
from service_load import FIRST_ROUND, MARK
from service_speed import BATCH, Host, Row, prepare
from service_traffic import Steps, environment, play, river, rounds_file, run, shuffled_files

CLIENTS = 8
LIVING = 0.6  # seconds that a process lives at most before it is killed

# ------------------------------------------------------------------------------------------------- order


def in_any_order(host: Host, place: Path, *, steps: int, teams: int = 20) -> Row:
    """Send steps shuffled, a fifth of them twice, over several clients; compare with learners that saw them in order."""
    log = play(teams, max(1, steps // teams // 20), 7)
    files = shuffled_files(place, log, CLIENTS, BATCH, 8)
    url = host.new()
    server = real_server(url)
    prepare(server, teams)
    begin = time.perf_counter()
    loads = [Load(server, "/v1/steps", path, rounds=1, connections=1, retry=True) for path in files]
    results = [load.result() for load in loads]
    seconds = time.perf_counter() - begin
    server.stop()
    statuses: dict[str, int] = {}
    for one in results:
        for code, n in one["statuses"].items():
            statuses[code] = statuses.get(code, 0) + n
    n = len(log["t"])
    return {
        "row": "order",
        "steps": n,
        "sent": n + n // 5,
        "rate": (n + n // 5) / seconds,
        "statuses": statuses,
        **differences(url, log),
    }


def differences(url: str, log: Steps) -> Row:
    """In how many entries counts differ from those of learners that saw the same steps in order, in this process."""
    names = ("state", "agent", "action", "next_state", "episode", "prev_agent")
    database, fleet, wrong = Database(url), [], 0
    store = Store(database)
    for i in range(int(log["team"].max()) + 1):
        mine = log["team"] == i
        fleet.append(cede.recommended(river().task))
        fleet[-1].learn_from({name: log[name][mine] for name in names}, progress=False)
    outside = sum(one.counts.environment for one in fleet)
    with database.read() as connection:
        found = verify(connection, store)
        for i, learner in enumerate(fleet):
            served = store.learner(connection, store.team(f"team-{i}")).counts
            wrong += int(abs(served.agents - learner.counts.agents).sum()) + int(abs(served.environment - outside).sum())
            wrong += abs(served.episodes - learner.counts.episodes)
    database.close()
    return {"differences": wrong, "verify": len(found)}


# ------------------------------------------------------------------------------------------------- kills


def killed(host: Host, place: Path, *, what: str, kills: int, seed: int = 1) -> Row:
    """Kill the server, a planner or PostgreSQL again and again while steps are sent; then look at what is in the log.

    Whatever is not acknowledged is sent again; a fifth of what was acknowledged is sent once more and must be known.
    """
    rng, batch, batches = random.Random(seed), 200, 40
    bodies, url = rounds_file(place / "rounds", 20, batches, batch), host.new()
    database = Database(url)
    token = database.write(lambda c: tokens.create(c, "benchmark", ["admin"], None, None))
    port = free_port()
    server = killable_server(url, port, token, plans=True)
    prepare(server)
    if what == "planner":
        server.stop()
        server = killable_server(url, port, token, plans=False)
    begin, load = time.perf_counter(), Load(server, "/v1/steps", bodies, connections=4, retry=True, again=0.2)
    for _ in range(kills):
        planner = killable_planner(url) if what == "planner" else None
        time.sleep(rng.uniform(0.02, LIVING))
        if planner is not None:
            planner.kill()
            planner.join()
        elif what == "server":
            server.process.kill()
            server.process.join()
            server = killable_server(url, port, token, plans=True)
        else:
            assert isinstance(host, Postgres)
            host.stop()
            host.start()
    load.stop()
    sent = load.result()
    seconds = time.perf_counter() - begin
    server.stop()
    database.close()
    found = left(url, bodies, sent["each"], planner=what == "planner")
    more = {name: sent[name] for name in ("acknowledged", "broken", "lost", "again")}
    return {
        "row": "killed",
        "what": what,
        "kills": kills,
        "seconds": seconds,
        "acknowledged_steps": more["acknowledged"] * batch,
        **more,
        **found,
    }


def left(url: str, bodies: Path, rounds: list[int], *, planner: bool) -> Row:
    """Compare the log with what was acknowledged. rounds: how often each body was, each time with another number."""
    database = Database(url)
    store, expected = Store(database), set()
    lines = bodies.read_bytes().splitlines()
    for line, n in zip(lines, rounds, strict=True):
        for i in range(n):
            for step in json.loads(line.replace(MARK, str(FIRST_ROUND + i).encode()))["steps"]:
                expected.add((store.team(step["team"]).id, step["episode"], step["t"]))
    if planner:  # what dead planners had leased is taken over
        time.sleep(LEASE / 1000)
        while Planner(store).once():
            pass
    with database.read() as connection:
        there = {tuple(row) for row in run(connection, "SELECT team, episode, t FROM steps")}
        sql = """SELECT COUNT(*) FROM teams t LEFT JOIN policies p ON p.team = t.id
            WHERE p.version IS NULL OR p.version <> t.version OR t.version <> (SELECT COUNT(*) FROM plans q WHERE q.team = t.id)"""
        plans = int(run(connection, sql).scalar())
        due = int(run(connection, "SELECT COUNT(*) FROM teams WHERE due IS NOT NULL").scalar()) if planner else 0
        planners = int(run(connection, "SELECT COUNT(DISTINCT planner) FROM plans").scalar())
        result = {"missing": len(expected - there), "unknown": len(there - expected), "verify": len(verify(connection, store))}
    database.close()
    return {**result, "wrong_plans": plans + due, "planners": planners}


# ------------------------------------------------------------------------------------------------- made-up requests

LEAVES = (None, True, 0, 1, -1, 2**53, 2**63, -(2**70), 0.5, 1e308, "", "0", "a" * 50, "\u0000", "\ud800", [], {})
NAMES = ("team", "episode", "t", "state", "prev_agent", "agent", "action", "next_state", "cost", "enter_cost", "chosen", "version")
NAMES += (
    "at",
    "reason",
    "meta",
    "steps",
    "ends",
    "task",
    "learner",
    "own",
    "environment",
    "decisions",
    "seed",
    "fallback",
    "env_cost",
    "agents",
)
RAW = (b"", b"[" * 5000, b'{"a":1,"a":2}', b"NaN", b'{"steps":[{"cost":1e999}]}', b"\xff\xfe", b"9" * 5000, b"null", b'{"steps":')


def valid() -> list[tuple[str, str, Any]]:
    """Requests as they should be."""
    step = {"episode": 1, "t": 0, "state": 0, "prev_agent": 0, "agent": 1, "action": 0, "next_state": 0}
    asked = {"t": 0, "state": 0, "prev_agent": 0}
    return [
        ("PUT", "/v1/environments/1", environment()),
        ("PUT", "/v1/teams/1", {"environment": "river", "seed": 1}),
        ("POST", "/v1/teams/team-0/decide", asked),
        ("POST", "/v1/decide", {"decisions": [{"team": "team-0", **asked}]}),
        ("POST", "/v1/teams/team-0/steps", {"steps": [step], "ends": [{"episode": 1, "steps": 3}]}),
        ("POST", "/v1/steps", {"steps": [{"team": "team-0", **step}]}),
        ("POST", "/v1/teams/team-0/episodes", {"episode": 3}),
        ("POST", "/v1/teams/team-0/episodes/1/end", {"steps": 3}),
        ("PUT", "/v1/teams/team-0/episodes/2/steps/0", {name: one for name, one in step.items() if name not in ("episode", "t")}),
    ]


def made_up(rng: random.Random, depth: int = 3) -> Any:
    """Any JSON, of our names."""
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return rng.choice(LEAVES) if rng.random() < 0.7 else rng.randrange(-5, 30)
    if kind < 0.6:
        return [made_up(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(NAMES): made_up(rng, depth - 1) for _ in range(rng.randrange(8))}


def changed(value: Any, rng: random.Random) -> Any:
    """Something valid, changed in one place."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(list(value))
        return {**value, name: changed(value[name], rng)} if rng.random() < 0.8 else {k: v for k, v in value.items() if k != name}
    if isinstance(value, list) and value and rng.random() < 0.8:
        i = rng.randrange(len(value))
        return [*value[:i], changed(value[i], rng), *value[i + 1 :]]
    return made_up(rng, 1)


def body(given: Any, rng: random.Random) -> bytes:
    """The body of a request that is made up from a valid one."""
    kind = rng.random()
    if kind < 0.05:
        return rng.choice(RAW)
    raw = json.dumps(made_up(rng) if kind < 0.45 else changed(given, rng)).encode()
    if kind > 0.85 and raw:  # some bytes are wrong
        i = rng.randrange(len(raw))
        return raw[:i] + rng.randbytes(rng.randrange(3)) + raw[i + rng.randrange(3) :]
    return raw


class Wire:
    """One connection to a server, for requests that no library would send."""

    def __init__(self, server: Served) -> None:
        self.server, self.socket = server, None

    def ask(self, method: str, path: str, body: bytes) -> int:
        """Send a request; return the status of the answer. A server that does not answer within 10 seconds hangs."""
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self.server.port), timeout=10)
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {self.server.token}\r\n"
        self.socket.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        got = b""
        while b"\r\n\r\n" not in got:
            if not (part := self.socket.recv(65536)):
                self.socket = None
                raise ConnectionError("closed without an answer")
            got += part
        answer, _, rest = got.partition(b"\r\n\r\n")
        lower = answer.lower()
        size = int(lower.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        while len(rest) < size:
            rest += self.socket.recv(65536)
        if b"connection: close" in lower:
            self.socket.close()
            self.socket = None
        return int(answer[9:12])


def made_up_requests(host: Host, place: Path, *, requests: int, cases: int, seed: int = 3) -> Row:
    """Send requests that are made up: bodies by a fuzzer, and whole requests by schemathesis, some of each operation (cases)."""
    rng, url = random.Random(seed), host.new()
    server = real_server(url)
    prepare(server, 2)
    wire, statuses, hung, begin, early = Wire(server), {}, 0, time.perf_counter(), 0.0
    for i in range(requests):
        method, path, given = rng.choice(valid())
        try:
            status = wire.ask(method, path, body(given, rng))
        except (TimeoutError, ConnectionError):
            hung, wire = hung + 1, Wire(server)
            continue
        statuses[status] = statuses.get(status, 0) + 1
        if i == requests // 5:
            early = memory(server.pid)
    late, seconds = memory(server.pid), time.perf_counter() - begin
    command = [sys.executable, str(HERE / "service_made_up.py"), str(server.port), str(server.token), str(cases)]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout)
    alive = server.ask("GET", "/readyz")
    server.stop()
    database = Database(url)
    with database.read() as connection:
        wrong = len(verify(connection, Store(database)))
    database.close()
    bad = sum(n for status, n in statuses.items() if status >= 500)
    numbers = {"requests": requests, "statuses": statuses, "hung": hung, "bad": bad, "growth": late / early - 1, "mib": late}
    more = {"schemathesis": theirs["requests"], "schemathesis_bad": theirs["bad"], "seconds": seconds, "verify": wrong}
    return {"row": "made up", **numbers, **more, "alive": all(alive.values())}
