"""How quick the service is: steps and decisions beside a bare server, many teams, counting the log again."""

import time
from pathlib import Path
from statistics import median
from typing import Any

from cede.serve.http.setup import environment_from
from cede.serve.store import schema
from cede.serve.store.audit import rebuild
from cede.serve.store.database import Database, insert_new
from cede.serve.store.log import COLUMNS
from cede.serve.store.store import Store
from service_hosts import Files, Load, Postgres, Served, bare_server, memory, processor_seconds, real_server
from service_traffic import FIELDS, decisions_file, environment, play, river, rounds_file, run

Row = dict[str, Any]
Host = Files | Postgres
TEAMS = 20
BATCH = 1000  # steps of a request


def prepare(server: Served, n_teams: int = TEAMS) -> None:
    """Make an environment and teams, and wait until each has a plan."""
    server.ask("PUT", "/v1/environments/river", environment())
    for i in range(n_teams):
        server.ask("PUT", f"/v1/teams/team-{i}", {"environment": "river", "seed": i})
    while any(not one["version"] for one in server.ask("GET", "/v1/teams?limit=1000")["teams"]):
        time.sleep(0.05)


def durable(
    host: Host, place: Path, *, seconds: float, turns: int, bare: float = 1.0, rate: float = 20_000, decisions: float = 500
) -> Row:
    """Steps in batches at a rate, decisions beside them at theirs; a bare server in turns. Processor time includes PostgreSQL's.

    bare: the part of the seconds for which the bare server is asked.
    """
    steps, asked = rounds_file(place / "rounds", TEAMS, 40, BATCH), decisions_file(place / "asked")
    servers = {"cede": real_server(host.new()), "bare": bare_server(host.new())}
    prepare(servers["cede"])
    found: dict[str, list[Row]] = {"cede": [], "bare": []}
    for turn in range(turns):
        for name, server in servers.items():
            before, time_of = processor_seconds(server.pid, host.pid), seconds * (1.0 if name == "cede" else bare)
            loads = (
                Load(server, "/v1/steps", steps, rate=rate / BATCH, seconds=time_of, connections=8, first=turn * 100_000),
                Load(server, "/v1/teams/team-3/decide", asked, rate=decisions, seconds=time_of, connections=16),
            )
            told, decided = (load.result() for load in loads)
            used = processor_seconds(server.pid, host.pid) - before
            n = told["acknowledged"] * BATCH
            here = {"steps": n / told["seconds"], "us": 1e6 * used / n, "p50": decided["p50"], "p99": decided["p99"]}
            found[name].append({**here, "decides": decided["acknowledged"] / decided["seconds"], "report_p99": told["p99"]})
    for server in servers.values():
        server.stop()
    middle = {name: {key: median(one[key] for one in turns_) for key in turns_[0]} for name, turns_ in found.items()}
    ratio = median(ours["us"] / theirs["us"] for ours, theirs in zip(found["cede"], found["bare"], strict=True))
    return {"row": "durable", "seconds": seconds * turns, "asked_rate": rate, "ratio": ratio, **middle}


def decides(host: Host, place: Path, *, seconds: float, turns: int, connections: int = 32) -> Row:
    """Decisions as fast as one server process answers them, a bare handler in turns."""
    asked, servers = decisions_file(place / "asked"), {"cede": real_server(host.new()), "bare": bare_server(host.new())}
    prepare(servers["cede"])
    found: dict[str, list[Row]] = {"cede": [], "bare": []}
    for _ in range(turns):
        for name, server in servers.items():
            before = processor_seconds(server.pid)
            one = Load(server, "/v1/teams/team-3/decide", asked, seconds=seconds, connections=connections).result()
            used = processor_seconds(server.pid) - before
            n = one["acknowledged"]
            found[name].append({"rate": n / one["seconds"], "us": 1e6 * used / n, "p50": one["p50"], "p99": one["p99"]})
    for server in servers.values():
        server.stop()
    middle = {name: {key: median(one[key] for one in turns_) for key in turns_[0]} for name, turns_ in found.items()}
    pairs = list(zip(found["cede"], found["bare"], strict=True))
    ratios = {"ratio": median(a["rate"] / b["rate"] for a, b in pairs), "cpu_ratio": median(a["us"] / b["us"] for a, b in pairs)}
    return {"row": "decides", "seconds": seconds * turns, **ratios, **middle}


# ------------------------------------------------------------------------------------------------- many teams


def register(url: str, registered: int, active: int) -> None:
    """Write teams into the database, all alike; some have a plan and its policy, that of a team which was planned for."""
    database = Database(url)

    def teams(connection: Any) -> None:
        sql = "SELECT id, environment, told, seed, fallback FROM teams WHERE name = 'team-0'"
        number, place, told, seed, fallback = run(connection, sql).first()
        columns = ("environment", "name", "told", "seed", "fallback", "episodes", "version", "created")
        rows = [(place, f"many-{i}", told, seed, fallback, 0, int(i < active), 0) for i in range(registered)]
        insert_new(connection, schema.teams, columns, rows)
        known = {name: other for other, name in run(connection, "SELECT id, name FROM teams")}
        policy = bytes(run(connection, "SELECT policy FROM policies WHERE team = ?", (number,)).scalar())
        numbers = [known[f"many-{i}"] for i in range(active)]
        columns = ("team", "version", "episodes", "environment_episodes", "made", "planner")
        insert_new(connection, schema.plans, columns, [(one, 1, 0, 0, 0, "benchmark") for one in numbers])
        insert_new(connection, schema.policies, ("team", "version", "policy"), [(one, 1, policy) for one in numbers])

    database.write(teams)
    database.close()


def many_teams(host: Host, place: Path, *, registered: int, active: int, probes: int = 200) -> Row:
    """Memory of a server that knows many teams and has the plans of some, and how long a decision for one that sleeps takes."""
    url = host.new()
    server = real_server(url)
    prepare(server, 1)
    empty, token = memory(server.pid), server.token
    server.stop()
    register(url, registered, active)
    begin = time.perf_counter()
    server = real_server(url, "--no-plan", token=token)
    server.ask("GET", "/v1/teams/team-0")
    started, known = time.perf_counter() - begin, memory(server.pid)
    asked = {"t": 0, "state": 0, "prev_agent": 0}
    sleeping, awake = [], []
    for i in range(probes):  # each team is asked for the first time
        begin = time.perf_counter()
        server.ask("POST", f"/v1/teams/many-{i}/decide", asked)
        sleeping.append(time.perf_counter() - begin)
        while server.ask("POST", f"/v1/teams/many-{i}/decide", asked)["plan"] == "fallback":
            time.sleep(0.001)
        awake.append(time.perf_counter() - begin)
    names = [f"many-{i}" for i in range(active)]
    while sleepers := asleep(server, names, asked):
        names = sleepers
        time.sleep(0.05)
    full = memory(server.pid)
    server.stop()
    numbers = {"started": started, "empty_mib": empty, "known_mib": known, "full_mib": full}
    times = {name: 1000 * sorted(each)[int(0.99 * len(each))] for name, each in (("sleeping_ms", sleeping), ("awake_ms", awake))}
    return {"row": "teams", "registered": registered, "active": active, **numbers, **times, "sleeping_p50": 1000 * median(sleeping)}


def asleep(server: Served, names: list[str], asked: Row) -> list[str]:
    """Ask for decisions of teams; return those whose plan was not in memory. They are woken by that."""
    result = []
    for begin in range(0, len(names), 1000):
        part = names[begin : begin + 1000]
        found = server.ask("POST", "/v1/decide", {"decisions": [{"team": name, **asked} for name in part]})["decisions"]
        result += [name for name, one in zip(part, found, strict=True) if one["plan"] == "fallback"]
    return result


# ------------------------------------------------------------------------------------------------- counting again


def registered_river(database: Database, teams: int) -> Store:
    """Make an environment and teams without a server."""
    store, given = Store(database), environment()
    served = environment_from("environment", given["task"], given["learner"])
    database.write(lambda c: store.put_environment(c, "river", served, 0))
    common = store.environment("river").served
    for i in range(teams):
        database.write(lambda c, i=i: store.put_team(c, f"team-{i}", "river", common, i, 0))
    return store


def rebuilt(host: Host, place: Path, *, steps: int, teams: int = 50) -> Row:
    """Write a log as it is, and count it."""
    database = Database(host.new())
    store, length = registered_river(database, teams), river().task.plan_steps
    each, first, done = max(1, min(steps // teams // length, 100_000 // teams)), 0, 0
    numbers = [store.team(f"team-{i}").id for i in range(teams)]
    while done < steps:
        log = play(teams, each, first)
        columns = [log[name].tolist() for name in FIELDS]
        columns[0] = [numbers[i] for i in columns[0]]
        columns[1] = [first + i for i in columns[1]]
        more = [[None] * len(columns[0])] * (len(COLUMNS) - len(FIELDS))
        rows = list(zip(*columns, *more, [0] * len(columns[0]), strict=True))
        database.write(lambda c, rows=rows: insert_new(c, schema.steps, (*COLUMNS, "received"), rows))
        first, done = first + each, done + len(rows)
    begin, used = time.perf_counter(), time.process_time()
    database.write(lambda c: rebuild(c, store))
    seconds, used = time.perf_counter() - begin, time.process_time() - used
    with database.read() as connection:
        counted = int(run(connection, "SELECT SUM(n) FROM counts WHERE layer LIKE 'agent/%'").scalar())
    database.close()
    return {
        "row": "rebuilt",
        "steps": done,
        "counted": counted,
        "seconds": seconds,
        "cpu_us": 1e6 * used / done,
        "rate": done / seconds,
    }
