"""Compares what was counted with the log, rebuilds it from the log, and erases a team's part of it.

All three read the log once, in the order of team, episode and t, and count it in parts: what is in memory is a part, however long
the log of a team is, and teams that never told anything cost next to nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from sqlalchemy import Connection

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede._base.progress import Progress
from cede.serve.counting import Cells
from cede.serve.database import look_up, run, run_many, stream, upsert
from cede.serve.history import forget_team
from cede.serve.log import EpisodeState, Key, add_cells
from cede.serve.pieces import rebuild_pieces, wrong_pieces
from cede.serve.reports import AMOUNTS, BIG, KEY, PLACES, Row, Team
from cede.serve.served import unpack
from cede.serve.store import Store, now_ms

ORDERED = (*KEY, *PLACES)  # of a step, all but what is not counted
CHUNK = 100_000  # steps that are counted at once
DUE = "due = COALESCE(due, ?), lease = NULL, planner = NULL"  # a plan that is being made meanwhile is not published
STATES = ("team", "episode", "length", "received", "last", "counted")
States = dict[Key, Row]  # by team and episode: the fields of an EpisodeState
Telling = bool | Callable[[int], None]  # whether to show a bar in a terminal; or who is told the number of steps that were read


@dataclass(frozen=True, eq=False)
class Part:
    """A part of the log: what follows for its episodes, and what is counted: those that are complete, and all steps of runs."""

    states: States  # as they follow from the log
    kept: States  # as they are in the database
    teams: Mapping[int, Team]
    counted: dict[int, int]  # how many episodes are complete, by team; without a horizon, how many steps there are
    agents: Cells  # (team, row, column, n)
    environment: Cells  # (environment, layer, row, column, n)
    ended: int  # the log of teams up to this number was read to its end
    unfinished: "Unfinished | None"


@dataclass(frozen=True)
class Unfinished:
    """A run of which some steps were counted, and which may go on in the next part: runs can be too long to be looked at whole."""

    key: Key
    received: int
    last: int  # the greatest t
    state: int  # where it led


def recount(
    connection: Connection, store: Store, only: Team | None = None, read: Callable[[int], None] = lambda _: None
) -> Iterator[Part]:
    """Read the log once, and count it, in parts. only: a team; None: all. read: called with numbers of steps as they are read."""
    environments = dict(run(connection, "SELECT id, name FROM environments").all())
    learns = any(store.environment(name)[1].task.learns_costs for name in environments.values())
    where, values = ("", ()) if only is None else ("WHERE team = ?", (only.id,))
    sql = f"SELECT {', '.join((*ORDERED, *(AMOUNTS if learns else ())))} FROM steps {where} ORDER BY team, episode, t"
    before, end = ((-1, -1), (BIG, BIG)) if only is None else ((only.id, -1), (only.id, BIG))
    rest: list[Row] = []  # the last episode of what was read: it may go on
    unfinished: Unfinished | None = None

    def part(rows: list[Row], last: Key, ended: int) -> Part:
        numbers = {row[0] for row in rows} | (set() if unfinished is None else {unfinished.key[0]})
        teams = teams_of(connection, store, environments, numbers)
        return counted(teams, kept_states(connection, before, last), rows, last, ended, unfinished)

    for rows in stream(connection, sql, values, CHUNK):
        read(len(rows))
        rows[:0] = rest
        team, episode = rows[-1][:2]
        if teams_of(connection, store, environments, {team})[team].served.endless:
            place, last = len(rows), (team, episode - 1)
        else:
            place = next((i for i in range(len(rows) - 1, -1, -1) if rows[i][:2] != (team, episode)), -1) + 1
            last = rows[place - 1][:2]
        rest = rows[place:]
        if place:
            found = part(rows[:place], last, team - 1)
            unfinished, before = found.unfinished, last
            yield found
    yield part(rest, end, end[0])


def kept_states(connection: Connection, after: Key, last: Key) -> States:
    """Return what the database has of episodes, from the one after a key up to another key."""
    sql = f"SELECT {', '.join(STATES)} FROM episodes WHERE (team, episode) > (?, ?) AND (team, episode) <= (?, ?)"
    return {(row[0], row[1]): tuple(row[2:]) for row in run(connection, sql, (*after, *last))}


def teams_of(connection: Connection, store: Store, environments: Mapping[int, str], numbers: set[int]) -> dict[int, Team]:
    """Return teams by their numbers; they are read at once, and not kept. environments: names by their numbers."""
    keys = [(number,) for number in sorted(numbers)]
    result = {}
    for number, name, environment, told in look_up(connection, "t.id, t.name, t.environment, t.told", "teams", ("id",), keys):
        served = store.environment(environments[environment])[1] if told is None else unpack(bytes(told))
        result[number] = Team(number, name, environment, served)
    if gone := numbers - result.keys():
        check.fail("log", "the number of a team", min(gone), "that of a team that is there")
    return result


def counted(teams: Mapping[int, Team], kept: States, rows: list[Row], upto: Key, ended: int, unfinished: Unfinished | None) -> Part:
    """Count steps of whole episodes, and of runs.

    kept: what the database has of them, and of episodes in between that have no steps. upto: the last episode of which nothing
    follows; a run after it is not finished. unfinished: the run that the part before left.
    """
    n, width = len(rows), len(ORDERED)
    states: States = {key: (one[0], 0, -1, 0) for key, one in kept.items()}
    numbers = dict.fromkeys(teams, 0)
    wide = n > 0 and len(rows[0]) > width
    flat = chain.from_iterable(row[:width] for row in rows) if wide else chain.from_iterable(rows)
    steps = np.fromiter(flat, dtype=np.int64, count=width * n).reshape(n, width).T
    begins = np.flatnonzero((np.diff(steps[:2], axis=1, prepend=-1) != 0).any(axis=0))
    final = np.append(begins[1:], n)[: len(begins)] - 1
    sizes = final - begins + 1
    columns = (*steps[:2, begins], sizes, steps[2, final], steps[-1, final])
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    limits = {number: (team.served.task.horizon, team.served.ends, team.served.endless) for number, team in teams.items()}
    if unfinished is not None and (not found or found[0][:2] != unfinished.key):
        found.insert(0, (*unfinished.key, 0, unfinished.last, unfinished.state))
        sizes = np.insert(sizes, 0, 0)
    complete, goes_on = [], None
    for team, episode, size, last, state in found:
        key, (horizon, ends, endless) = (team, episode), limits[team]
        received = size + (unfinished.received if unfinished is not None and key == unfinished.key else 0)
        length = last + 1 if last + 1 == horizon or state in ends else states.get(key, (None,))[0]
        complete.append(endless or length == received)
        numbers[team] += size if endless else length == received
        if endless and key > upto:
            goes_on = Unfinished(key, received, last, state)
        else:
            states[key] = (length, received, last, int(not endless and length == received))
    costs = np.array([row[width:] for row in rows], dtype=np.float64).T if wide else np.full((2, n), np.nan)
    cells = cells_of(teams, steps, costs, np.repeat(np.array(complete, dtype=bool), sizes))
    return Part(states, kept, teams, numbers, *cells, ended, goes_on)


def cells_of(teams: Mapping[int, Team], steps: Ints, costs: Floats, complete: Any) -> tuple[Cells, Cells]:
    """Return what the steps of complete episodes add up to: (team, row, column, n), and (environment, layer, row, column, n).

    steps: (8, n) ORDERED. costs: (2, n) AMOUNTS. complete: (n,) whether a step is of a complete episode.
    """
    groups: dict[tuple[int, int], list[Team]] = {}
    for team in teams.values():
        groups.setdefault((team.environment, id(team.served)), []).append(team)
    agents: Cells = []
    outside: Cells = []
    for (environment, _), group in groups.items():
        mine = complete if len(groups) == 1 else complete & np.isin(steps[0], [team.id for team in group])
        if mine.any():
            cells, theirs = group[0].served.counter.count(steps[0, mine], steps[2:, mine], costs[:, mine])
            agents += cells
            outside += [(environment, *cell) for cell in theirs]
    return agents, outside


def bar_of(connection: Connection, label: str, progress: Telling) -> Progress:
    """Return a progress bar over all steps. Their number is the sum over episodes: to count them would take longer."""
    total = run(connection, "SELECT COALESCE(SUM(received), 0) FROM episodes").scalar() if progress else 0
    return Progress(label, int(total), progress)


def verify(connection: Connection, store: Store, progress: Telling = False) -> list[str]:
    """Recompute all counts from the log, and compare them exactly with those that were kept. Return every difference, as text."""
    wrong: list[str] = []
    agents: dict[Row, int] = {}  # counts of teams whose log was not read to its end yet
    numbers: dict[Row, int] = {}  # their episodes
    outside: dict[Row, int] = {}  # counts of environments
    episodes: dict[Row, int] = {}  # their episodes
    runs = {row[0] for row in run(connection, "SELECT DISTINCT team FROM pieces")}  # teams without a horizon
    before = -1

    def name(key: Row) -> str:
        return f"team {check.show(store.team_of(key[0]).name)}"

    with bar_of(connection, "verify: steps", progress) as bar:
        for part in recount(connection, store, None, bar.advance):
            wrong += differences(lambda key: f"{name(key)}: episode {key[1]}", part.kept, part.states, EpisodeState)
            gather(agents, part.agents)
            gather(numbers, part.counted.items())
            gather(outside, part.environment)
            gather(episodes, [(part.teams[team].environment, n) for team, n in part.counted.items()])
            cells, kept = kept_of_teams(connection, before, part.ended)
            wrong += differences(lambda key: f"{name(key)}: count (team, row, column) {key}", cells, taken(agents, part.ended))
            wrong += differences(lambda key: f"{name(key)}: the number of episodes", kept, taken(numbers, part.ended))
            runs |= endless_teams(part)
            before = part.ended
    for team in sorted(runs):
        wrong += [f"{name((team,))}: {one}" for one in wrong_pieces(connection, team)]
    return wrong + wrong_environments(connection, store, outside, episodes)


def endless_teams(part: Part) -> set[int]:
    """Return the teams of a part that have no horizon."""
    return {number for number, team in part.teams.items() if team.served.endless}


def kept_of_teams(connection: Connection, after: int, last: int) -> tuple[dict[Row, int], dict[Row, int]]:
    """Return what was counted of teams, by team, row and column, and their episodes, by team, where there are any."""
    sql = 'SELECT team, "row", col, n FROM agent_counts WHERE team > ? AND team <= ?'
    cells = {tuple(row[:3]): int(row[3]) for row in run(connection, sql, (after, last))}
    sql = "SELECT id, episodes FROM teams WHERE id > ? AND id <= ? AND episodes <> 0"
    return cells, {(row[0],): int(row[1]) for row in run(connection, sql, (after, last))}


def wrong_environments(connection: Connection, store: Store, cells: dict[Row, int], episodes: dict[Row, int]) -> list[str]:
    """Return where what was counted of environments is not what follows from the log."""
    wrong = []
    for number, name, n in run(connection, "SELECT id, name, episodes FROM environments ORDER BY id").all():
        place = f"environment {check.show(name)}"
        kept = {(number, *cell[:3]): cell[3] for cell in store.environment_cells(connection, number)}
        true = {key: one for key, one in cells.items() if key[0] == number}
        found = differences(lambda key: f"count (layer, row, column) {key[1:]}", kept, true)
        found += differences(lambda _: "the number of episodes", {(number,): n} if n else {}, taken(episodes, number))
        wrong += [f"{place}: {one}" for one in found]
    return wrong


def gather(sums: dict[Row, int], cells: Any) -> None:
    """Add cells, whose last entry is a number, to sums."""
    for *place, n in cells:
        key = tuple(place)
        sums[key] = sums.get(key, 0) + n


def taken(sums: dict[Row, int], last: int) -> dict[Row, int]:
    """Take those sums out whose key begins with a number up to a last one, and return what is not 0 of them."""
    keys = [key for key in sums if key[0] <= last]
    return {key: n for key in keys if (n := sums.pop(key))}


def differences(
    place: Callable[[Any], str], kept: Mapping[Any, Any], true: Mapping[Any, Any], shown: Callable[..., Any] | None = None
) -> list[str]:
    """Return where two mappings differ, as texts. kept: as it is in the database. true: as it follows from the log.

    place: names what has a key. shown: makes of a row what is shown.
    """
    if kept == true:
        return []

    def said(value: Any) -> Any:
        return value if value is None or shown is None else shown(*value)

    keys = sorted(key for key in kept.keys() | true.keys() if kept.get(key) != true.get(key))
    return [f"{place(key)} is {said(kept.get(key))}, must be {said(true.get(key))}" for key in keys]


def rebuild(connection: Connection, store: Store, progress: Telling = False) -> None:
    """Throw all counts away, and count the log again. All teams are due for a plan afterwards."""
    lock(connection)
    for table in ("agent_counts", "environment_counts", "history", "pieces"):
        run(connection, f"DELETE FROM {table}")
    runs: set[int] = set()  # teams without a horizon
    run(connection, "UPDATE episodes SET number = -1, place = -1")
    run(connection, "UPDATE environments SET episodes = 0")
    run(connection, f"UPDATE teams SET episodes = 0, {DUE}", (now_ms(),))
    with bar_of(connection, "rebuild: steps", progress) as bar:
        for part in recount(connection, store, None, bar.advance):
            add_cells(connection, part.agents, summed(part.environment))
            put_states(connection, part.states)
            runs |= endless_teams(part)
            found = [(n, team, part.teams[team].environment) for team, n in part.counted.items() if n]
            run_many(connection, "UPDATE teams SET episodes = episodes + ? WHERE id = ?", [one[:2] for one in found])
            run_many(connection, "UPDATE environments SET episodes = episodes + ? WHERE id = ?", [(n, e) for n, _, e in found])
    for team in sorted(runs):
        rebuild_pieces(connection, team)


def summed(cells: Cells) -> Cells:
    """Return cells, each place once: teams of one environment may be counted one by one."""
    sums: dict[Row, int] = {}
    gather(sums, cells)
    return [(*place, n) for place, n in sums.items()]


def put_states(connection: Connection, states: States) -> None:
    """Write what follows from the log for episodes."""
    rows, now = [(*key, *one) for key, one in states.items()], now_ms()
    change = ", ".join(f"{name} = excluded.{name}" for name in STATES[2:])
    upsert(connection, "episodes", (*STATES, "begun"), [(*row, now) for row in rows], 2, change)


def erase(connection: Connection, store: Store, team: Team) -> int:
    """Delete all steps and episodes of a team, and its plans; count the rest as if they had never been. Return the number of steps.

    The team stays. All teams of its environment are due for a plan, as theirs were made from what is gone.
    """
    lock(connection)
    gone = 0
    for part in recount(connection, store, team):
        add_cells(connection, part.agents, part.environment, -1)
        gone += part.counted.get(team.id, 0)
    forget_team(connection, team)
    n = int(run(connection, "SELECT COUNT(*) FROM steps WHERE team = ?", (team.id,)).scalar())
    for table in ("steps", "episodes", "pieces", "agent_counts", "plans", "policies"):
        run(connection, f"DELETE FROM {table} WHERE team = ?", (team.id,))
    run(connection, "DELETE FROM environment_counts WHERE environment = ? AND n = 0", (team.environment,))
    run(connection, "UPDATE teams SET episodes = 0 WHERE id = ?", (team.id,))
    run(connection, f"UPDATE teams SET {DUE} WHERE environment = ?", (now_ms(), team.environment))
    run(connection, "UPDATE environments SET episodes = episodes - ?, erased = erased + 1 WHERE id = ?", (gone, team.environment))
    return n


def lock(connection: Connection) -> None:
    """Let all others who write wait until the end of the transaction. SQLite does that by itself."""
    if connection.dialect.name == "postgresql":
        run(connection, "LOCK TABLE teams IN EXCLUSIVE MODE")
