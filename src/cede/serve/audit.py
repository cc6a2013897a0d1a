"""Compares what was counted with the log, rebuilds it from the log, and erases a team's part of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from sqlalchemy import Connection

from cede._base import check
from cede._base.arrays import Ints
from cede.serve.counting import Cells
from cede.serve.database import run, stream, upsert
from cede.serve.history import forget_team
from cede.serve.log import EpisodeState, add_cells
from cede.serve.pieces import rebuild_pieces, wrong_pieces
from cede.serve.reports import AMOUNTS, PLACES, Row, Team
from cede.serve.store import Store, now_ms

ORDERED = ("episode", "t", *PLACES)  # of a step, all but its team and what is not counted

CHUNK = 100_000  # steps that are counted at once
DUE = "due = COALESCE(due, ?), lease = NULL, planner = NULL"  # a plan that is being made meanwhile is not published
STATES = ("team", "episode", "length", "received", "last", "counted")
States = dict[int, EpisodeState]  # by episode


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a team's log: what follows for some of its episodes, what is counted of it, and how many episodes that is.

    Without a horizon all steps are counted, and their number is told.
    """

    states: States
    agents: Cells
    environment: Cells
    counted: int = 0


def recount(connection: Connection, team: Team) -> Iterator[Part]:
    """Read the log of a team once, in order of episodes, and count it, in parts."""
    return recount_runs(connection, team) if team.served.endless else recount_episodes(connection, team)


def recount_episodes(connection: Connection, team: Team) -> Iterator[Part]:
    """Read the log of a team whose task has a horizon. A part has whole episodes."""
    told = dict(run(connection, "SELECT episode, length FROM episodes WHERE team = ?", (team.id,)).all())
    rest: list[Row] = []  # the last episode of what was read: it may go on
    for rows in log_of(connection, team):
        rows[:0] = rest
        last = rows[-1][0]
        place = next((i for i in range(len(rows) - 1, -1, -1) if rows[i][0] != last), -1) + 1
        rest = rows[place:]
        if place:
            yield counted(team, told, rows[:place])
    if rest:
        yield counted(team, told, rest)
    yield Part({episode: EpisodeState(length) for episode, length in told.items()}, [], [])


def recount_runs(connection: Connection, team: Team) -> Iterator[Part]:
    """Read the log of a team whose task has no horizon. A run may be in many parts, the last of which has its state."""
    told = dict(run(connection, "SELECT episode, length FROM episodes WHERE team = ?", (team.id,)).all())
    seen: set[int] = set()
    before = (-1, 0)  # the last run of what was read, and how many of its steps were read
    for rows in log_of(connection, team):
        steps = columns_of(rows)
        begins = np.flatnonzero(np.diff(steps[0], prepend=-1))
        final = np.append(begins[1:], len(rows)) - 1
        found = (steps[0, begins], final - begins + 1, steps[1, final], steps[6, final])
        states: States = {}
        for episode, n, last, state in zip(*(column.tolist() for column in found), strict=True):
            before = (episode, n + before[1] if before[0] == episode else n)
            states[episode] = EpisodeState(last + 1 if state in team.served.ends else told.get(episode), before[1], last)
        seen |= states.keys()
        yield Part(states, *cells_of(team, rows, steps), len(rows))
    yield Part({episode: EpisodeState(length) for episode, length in told.items() if episode not in seen}, [], [])


def log_of(connection: Connection, team: Team) -> Iterator[list[Row]]:
    """Return the log of a team, in parts: rows of ORDERED, and of AMOUNTS where costs are learned."""
    names = (*ORDERED, *(AMOUNTS if team.served.task.learns_costs else ()))
    return stream(connection, f"SELECT {', '.join(names)} FROM steps WHERE team = ? ORDER BY episode, t", (team.id,), CHUNK)


def columns_of(rows: list[Row]) -> Ints:
    """Return the columns of ORDERED of some rows, (7, n)."""
    return np.fromiter(chain.from_iterable(row[:7] for row in rows), dtype=np.int64, count=7 * len(rows)).reshape(-1, 7).T


def cells_of(team: Team, rows: list[Row], steps: Ints, which: Any = slice(None)) -> tuple[Cells, Cells]:
    """Return what steps add up to. steps: their columns, (7, n). which: of them are counted."""
    costs = np.full((2, len(rows)), np.nan)
    if team.served.task.learns_costs:
        costs = np.array([row[7:] for row in rows], dtype=np.float64).T
    kept = steps[1:, which]
    return team.served.counter.count(np.full(kept.shape[1], team.id), kept, costs[:, which])


def counted(team: Team, told: dict[int, int | None], rows: list[Row]) -> Part:
    """Count steps of whole episodes. told: their lengths as clients gave them; those that are seen here are taken out."""
    task, ends, n, steps = team.served.task, team.served.ends, len(rows), columns_of(rows)
    begins = np.flatnonzero(np.diff(steps[0], prepend=-1))
    final = np.append(begins[1:], n) - 1
    found = zip(
        *(column.tolist() for column in (steps[0, begins], final - begins + 1, steps[1, final], steps[6, final])), strict=True
    )
    states = {}
    for episode, received, last, state in found:
        length = told.pop(episode, None)
        length = last + 1 if last + 1 == task.horizon or state in ends else length
        states[episode] = EpisodeState(length, received, last, int(length == received))
    complete = np.array([one.counted for one in states.values()], dtype=bool).repeat(final - begins + 1)
    if not complete.any():
        return Part(states, [], [])
    return Part(states, *cells_of(team, rows, steps, complete), sum(one.counted for one in states.values()))


def teams_of(connection: Connection, store: Store) -> list[Team]:
    """Return all teams."""
    return [store.team_of(row[0]) for row in run(connection, "SELECT id FROM teams ORDER BY id").all()]


def verify(connection: Connection, store: Store) -> list[str]:
    """Recompute all counts from the log, and compare them exactly with those that were kept. Return every difference, as text."""
    wrong: list[str] = []
    outside: dict[int, dict[Row, int]] = {}
    episodes: dict[int, int] = {}
    for team in teams_of(connection, store):
        states: States = {}
        agents: dict[Row, int] = {}
        n = 0
        for part in recount(connection, team):
            states |= part.states
            n += part.counted
            gather(agents, part.agents)
            gather(outside.setdefault(team.environment, {}), part.environment)
        name = f"team {check.show(team.name)}"
        kept = {(team.id, *cell[:2]): cell[2] for cell in store.agent_cells(connection, team)}
        compare(wrong, f"{name}: count (team, row, column)", kept, agents)
        sql = "SELECT episode, length, received, last, counted FROM episodes WHERE team = ?"
        found = {row[0]: EpisodeState(*row[1:]) for row in run(connection, sql, (team.id,))}
        compare(wrong, f"{name}: episode", found, states)
        if team.served.endless:
            wrong += [f"{name}: {one}" for one in wrong_pieces(connection, team.id)]
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
        n = 0
        for part in recount(connection, team):
            add_cells(connection, part.agents, placed(team, part.environment))
            put_states(connection, team, part.states)
            n += part.counted
        if team.served.endless:
            rebuild_pieces(connection, team.id)
        run(connection, f"UPDATE teams SET episodes = ?, {DUE} WHERE id = ?", (n, now_ms(), team.id))
        run(connection, "UPDATE environments SET episodes = episodes + ? WHERE id = ?", (n, team.environment))


def placed(team: Team, cells: Cells) -> Cells:
    """Return cells of the environment of a team as rows of its table."""
    return [(team.environment, *cell) for cell in cells]


def put_states(connection: Connection, team: Team, states: States) -> None:
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
    gone = 0
    for part in recount(connection, team):
        add_cells(connection, part.agents, placed(team, part.environment), -1)
        gone += part.counted
    forget_team(connection, team)
    n = int(run(connection, "SELECT COUNT(*) FROM steps WHERE team = ?", (team.id,)).scalar())
    for table in ("steps", "episodes", "pieces", "agent_counts", "plans", "policies"):
        run(connection, f"DELETE FROM {table} WHERE team = ?", (team.id,))
    run(connection, "DELETE FROM environment_counts WHERE environment = ? AND n = 0", (team.environment,))
    run(connection, "UPDATE teams SET episodes = 0 WHERE id = ?", (team.id,))
    run(connection, f"UPDATE teams SET {DUE} WHERE environment = ?", (now_ms(), team.environment))
    run(connection, "UPDATE environments SET episodes = episodes - ? WHERE id = ?", (gone, team.environment))
    return n


def lock(connection: Connection) -> None:
    """Let all others who write wait until the end of the transaction. SQLite does that by itself."""
    if connection.dialect.name == "postgresql":
        run(connection, "LOCK TABLE teams IN EXCLUSIVE MODE")
