"""Compares what was counted with the log, rebuilds it from the log, and erases a team's part of it."""

from collections.abc import Iterator

from sqlalchemy import Connection

from cede._base import check
from cede.serve.database import run, upsert
from cede.serve.history import forget_team
from cede.serve.log import AMOUNTS, EpisodeState, add_counts, cells_of
from cede.serve.reports import COLUMNS, Row, Team
from cede.serve.store import Store, now_ms

CHUNK = 100_000  # steps that are counted at once
DUE = "due = COALESCE(due, ?), lease = NULL, planner = NULL"  # a plan that is being made meanwhile is not published
STATES = ("team", "episode", "length", "received", "last", "counted")


def recount(connection: Connection, store: Store, team: Team) -> tuple[dict[int, EpisodeState], Iterator[list[Row]]]:
    """Read the log of a team. Return what follows for each of its episodes, and the steps of those that are complete, in parts."""
    told = dict(run(connection, "SELECT episode, length FROM episodes WHERE team = ?", (team.id,)).all())
    last, ends = team.served.task.plan_steps - 1, team.served.ends
    sql = "SELECT episode, COUNT(*), MAX(t) FROM steps WHERE team = ? GROUP BY episode"
    states = {episode: EpisodeState(told.get(episode)) for episode in told}
    states |= {row[0]: EpisodeState(told.get(row[0]), row[1], row[2]) for row in run(connection, sql, (team.id,))}
    sql = """SELECT s.episode, s.next_state FROM steps s
        JOIN (SELECT episode, MAX(t) AS t FROM steps WHERE team = ? GROUP BY episode) m ON s.episode = m.episode AND s.t = m.t
        WHERE s.team = ?"""
    for episode, state in run(connection, sql, (team.id, team.id)):
        one = states[episode]
        length = one.last + 1 if one.last == last or state in ends else one.length
        states[episode] = EpisodeState(length, one.received, one.last, int(length == one.received))
    return states, complete_steps(connection, team, {episode for episode, one in states.items() if one.counted})


def complete_steps(connection: Connection, team: Team, episodes: set[int]) -> Iterator[list[Row]]:
    """Return the steps of some episodes of a team, as far as they are counted, in parts."""
    sql = f"SELECT {', '.join(COLUMNS[: AMOUNTS.stop])} FROM steps WHERE team = ? ORDER BY episode, t"
    found = run(connection, sql, (team.id,), streamed=True)
    for part in found.partitions(CHUNK):
        yield [tuple(row) for row in part if row[1] in episodes]


def teams_of(connection: Connection, store: Store) -> list[Team]:
    """Return all teams."""
    return [store.team_of(row[0]) for row in run(connection, "SELECT id FROM teams ORDER BY id").all()]


def verify(connection: Connection, store: Store) -> list[str]:
    """Recompute all counts from the log, and compare them exactly with those that were kept. Return every difference, as text."""
    wrong: list[str] = []
    outside: dict[int, dict[Row, int]] = {}
    episodes: dict[int, int] = {}
    for team in teams_of(connection, store):
        states, steps = recount(connection, store, team)
        agents: dict[Row, int] = {}
        for rows in steps:
            mine, theirs = cells_of(rows, store.team_of)
            gather(agents, mine)
            gather(outside.setdefault(team.environment, {}), [cell[1:] for cell in theirs])
        name = f"team {check.show(team.name)}"
        kept = {(team.id, *cell[:2]): cell[2] for cell in store.agent_cells(connection, team)}
        compare(wrong, f"{name}: count (team, row, column)", kept, agents)
        sql = "SELECT episode, length, received, last, counted FROM episodes WHERE team = ?"
        found = {row[0]: EpisodeState(*row[1:]) for row in run(connection, sql, (team.id,))}
        compare(wrong, f"{name}: episode", found, states)
        n = sum(one.counted for one in states.values())
        compare(wrong, name, {"episodes": store.numbers(connection, team).episodes}, {"episodes": n})
        episodes[team.environment] = episodes.get(team.environment, 0) + n
    for number, title, n in run(connection, "SELECT id, name, episodes FROM environments ORDER BY id").all():
        name = f"environment {check.show(title)}"
        kept = {cell[:3]: cell[3] for cell in store.environment_cells(connection, number)}
        compare(wrong, f"{name}: count (layer, row, column)", kept, outside.get(number, {}))
        compare(wrong, name, {"episodes": n}, {"episodes": episodes.get(number, 0)})
    return wrong


def gather(sums: dict[Row, int], cells: list[Row]) -> None:
    """Add cells, whose last entry is a number, to sums."""
    for *place, n in cells:
        key = tuple(place)
        sums[key] = sums.get(key, 0) + n


def compare(wrong: list[str], what: str, kept: dict[object, object] | object, true: dict[object, object] | object) -> None:
    """Append where two mappings differ. kept: as it is in the database. true: as it follows from the log."""
    assert isinstance(kept, dict)
    assert isinstance(true, dict)
    for key in kept.keys() | true.keys():
        if kept.get(key) != true.get(key):
            wrong.append(f"{what} {key} is {kept.get(key)}, must be {true.get(key)}")


def rebuild(connection: Connection, store: Store) -> None:
    """Throw all counts away, and count the log again. All teams are due for a plan afterwards."""
    lock(connection)
    for table in ("agent_counts", "environment_counts", "history"):
        run(connection, f"DELETE FROM {table}")
    run(connection, "UPDATE episodes SET number = -1, place = -1")
    run(connection, "UPDATE environments SET episodes = 0")
    for team in teams_of(connection, store):
        states, steps = recount(connection, store, team)
        for rows in steps:
            add_counts(connection, rows, store.team_of)
        put_states(connection, team, states)
        n = sum(one.counted for one in states.values())
        run(connection, f"UPDATE teams SET episodes = ?, {DUE} WHERE id = ?", (n, now_ms(), team.id))
        run(connection, "UPDATE environments SET episodes = episodes + ? WHERE id = ?", (n, team.environment))


def put_states(connection: Connection, team: Team, states: dict[int, EpisodeState]) -> None:
    """Write what follows from the log for the episodes of a team."""
    columns = (*STATES, "begun")
    rows = [(team.id, episode, one.length, one.received, one.last, one.counted, now_ms()) for episode, one in states.items()]
    change = ", ".join(f"{name} = excluded.{name}" for name in STATES[2:])
    upsert(connection, "episodes", columns, rows, 2, change)


def erase(connection: Connection, store: Store, team: Team) -> int:
    """Delete all steps and episodes of a team, and its plans; count the rest as if they had never been. Return the number of steps.

    The team stays. All teams of its environment are due for a plan, as theirs were made from what is gone.
    """
    lock(connection)
    states, steps = recount(connection, store, team)
    for rows in steps:
        add_counts(connection, rows, store.team_of, -1)
    forget_team(connection, team)
    n = int(run(connection, "SELECT COUNT(*) FROM steps WHERE team = ?", (team.id,)).scalar())
    for table in ("steps", "episodes", "agent_counts", "plans", "policies"):
        run(connection, f"DELETE FROM {table} WHERE team = ?", (team.id,))
    run(connection, "DELETE FROM environment_counts WHERE environment = ? AND n = 0", (team.environment,))
    run(connection, "UPDATE teams SET episodes = 0 WHERE id = ?", (team.id,))
    run(connection, f"UPDATE teams SET {DUE} WHERE environment = ?", (now_ms(), team.environment))
    gone = sum(one.counted for one in states.values())
    run(connection, "UPDATE environments SET episodes = episodes - ? WHERE id = ?", (gone, team.environment))
    return n


def lock(connection: Connection) -> None:
    """Let all others who write wait until the end of the transaction. SQLite does that by itself."""
    if connection.dialect.name == "postgresql":
        run(connection, "LOCK TABLE teams IN EXCLUSIVE MODE")
