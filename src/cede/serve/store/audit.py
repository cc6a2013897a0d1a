"""Compares counts with the log, rebuilds them from the log, and erases the steps of a team.

All three read the log once, ordered by team, episode and t, and count it in parts: memory holds one part, regardless of the length
of the log.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import Connection, delete, func, select, text, tuple_, update

from cede._base import check
from cede._base.progress import Progress
from cede.serve.names import BIG, OF_ENVIRONMENT, OF_TEAM, CountRow, Row
from cede.serve.served import ServedTeam, unpack
from cede.serve.store.database import among, look_up, now_ms, stream
from cede.serve.store.history import forget_team
from cede.serve.store.log import (
    AMOUNTS,
    KEY,
    OF_EPISODE,
    PLACES,
    EpisodeState,
    Key,
    add_counts,
    add_episodes,
    add_to,
    count_steps,
    put_states,
    rebuild_pieces,
    wrong_pieces,
)
from cede.serve.store.schema import counts, environments, episodes, history, pieces, plans, policies, steps, teams

if TYPE_CHECKING:
    from cede.serve.store.store import Store

ORDERED = (*KEY, *PLACES)  # columns of a step that are counted, beside AMOUNTS
CHUNK = 100_000  # steps that are counted at once
STATE = tuple(episodes.c[name] for name in ("team", "episode", *OF_EPISODE))
TEAMS = select(teams.c.id, teams.c.name, teams.c.environment, teams.c.told).where(among(teams.c.id))
States = dict[Key, Row]  # by team and episode: the fields of an EpisodeState
ProgressTo = bool | Callable[[int], None]  # whether to show a progress bar; or a function that gets numbers of steps


@dataclass(frozen=True, eq=False)
class LogPart:
    """A part of the log: the states of its episodes, and the counts of complete episodes and of all steps of runs."""

    states: States  # by the log
    stored: States  # in the database
    teams: Mapping[int, ServedTeam]
    counted: dict[int, int]  # number of complete episodes by team; without a horizon, of steps
    counts: list[CountRow]
    ended: int  # the log of teams up to this number was read to its end
    unfinished: "Unfinished | None"

    @property
    def endless(self) -> set[int]:
        """Return the teams without a horizon."""
        return {number for number, team in self.teams.items() if team.served.endless}


@dataclass(frozen=True)
class Unfinished:
    """A run that may continue in the next part; its steps up to here are counted."""

    key: Key
    received: int
    last: int  # the greatest t
    state: int  # after its last step


def recount(
    connection: Connection, store: "Store", only: ServedTeam | None = None, read: Callable[[int], None] = lambda _: None
) -> Iterator[LogPart]:
    """Read the log once, and count it, in parts. only: a team; None: all. read: called with numbers of steps as they are read."""
    learns = any(store.environment(number).served.task.learns_costs for number in connection.scalars(select(environments.c.id)))
    log = select(*(steps.c[name] for name in (*ORDERED, *(AMOUNTS if learns else ()))))
    log = log.order_by(*(steps.c[name] for name in KEY))
    before, end = ((-1, -1), (BIG, BIG)) if only is None else ((only.id, -1), (only.id, BIG))
    rest: list[Row] = []  # the last episode, which may continue
    unfinished: Unfinished | None = None

    def part(rows: list[Row], last: Key, ended: int) -> LogPart:
        numbers = {row[0] for row in rows} | (set() if unfinished is None else {unfinished.key[0]})
        members = teams_of(connection, store, numbers)
        stored = select(*STATE).where(tuple_(*STATE[:2]) > tuple_(*before), tuple_(*STATE[:2]) <= tuple_(*last))
        states = {(row[0], row[1]): tuple(row[2:]) for row in connection.execute(stored)}
        return counted(members, states, rows, last, ended, unfinished)

    for rows in stream(connection, log if only is None else log.where(steps.c.team == only.id), CHUNK):
        read(len(rows))
        rows[:0] = rest
        team, episode = rows[-1][:2]
        if teams_of(connection, store, {team})[team].served.endless:
            cut, last = len(rows), (team, episode - 1)
        else:
            cut = next((i for i in range(len(rows) - 1, -1, -1) if rows[i][:2] != (team, episode)), -1) + 1
            last = rows[cut - 1][:2]
        rest = rows[cut:]
        if cut:
            log_part = part(rows[:cut], last, team - 1)
            unfinished, before = log_part.unfinished, last
            yield log_part
    yield part(rest, end, end[0])


def teams_of(connection: Connection, store: "Store", numbers: set[int]) -> dict[int, ServedTeam]:
    """Return teams by number, read at once and not cached."""
    result = {}
    for number, name, environment, settings in look_up(connection, TEAMS, [(one,) for one in sorted(numbers)]):
        served = store.environment(environment).served if settings is None else unpack(bytes(settings))
        result[number] = ServedTeam(number, name, environment, served)
    if gone := numbers - result.keys():
        check.fail("log", "the number of a team", min(gone), "that of a team that exists")
    return result


def counted(
    members: Mapping[int, ServedTeam], stored: States, rows: list[Row], upto: Key, ended: int, unfinished: Unfinished | None
) -> LogPart:
    """Count steps of whole episodes, and of runs.

    stored: states of these episodes, and of those without steps in between. upto: the last episode of this part; a run after it is
    unfinished. unfinished: the run that the part before left.
    """
    n, width = len(rows), len(ORDERED)
    states: States = {key: (state[0], 0, -1, 0) for key, state in stored.items()}
    numbers = dict.fromkeys(members, 0)
    wide = n > 0 and len(rows[0]) > width
    flat = chain.from_iterable(row[:width] for row in rows) if wide else chain.from_iterable(rows)
    matrix = np.fromiter(flat, dtype=np.int64, count=width * n).reshape(n, width).T
    begins = np.flatnonzero((np.diff(matrix[:2], axis=1, prepend=-1) != 0).any(axis=0))
    final = np.append(begins[1:], n)[: len(begins)] - 1
    sizes = final - begins + 1
    columns = (*matrix[:2, begins], sizes, matrix[2, final], matrix[-1, final])
    spans = list(zip(*(column.tolist() for column in columns), strict=True))
    if unfinished is not None and (not spans or spans[0][:2] != unfinished.key):
        spans.insert(0, (*unfinished.key, 0, unfinished.last, unfinished.state))
        sizes = np.insert(sizes, 0, 0)
    limits = {number: (team.served.task.horizon, team.served.ends, team.served.endless) for number, team in members.items()}
    complete, goes_on = [], None
    for team, episode, size, last, state in spans:
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
    own = np.repeat(np.array(complete, dtype=bool), sizes)
    rows_of_counts = count_steps(matrix[:, own], costs[:, own], members.__getitem__)
    return LogPart(states, stored, members, numbers, rows_of_counts, ended, goes_on)


def progress_bar(connection: Connection, label: str, progress: ProgressTo) -> Progress:
    """Return a progress bar over all steps. Their number is summed over episodes, which is faster than counting steps."""
    total = connection.scalar(select(func.coalesce(func.sum(episodes.c.received), 0))) if progress else 0
    return Progress(label, int(total or 0), progress)


def verify(connection: Connection, store: "Store", progress: ProgressTo = False) -> list[str]:
    """Recompute all counts from the log, and compare them with the stored ones. Return every difference, as text."""
    wrong: list[str] = []
    sums: dict[int, dict[Row, int]] = {OF_ENVIRONMENT: {}, OF_TEAM: {}}  # counts; of teams whose log is not read to its end yet
    numbers: dict[Row, int] = {}  # episodes of these teams
    totals: dict[Row, int] = {}  # episodes of environments
    runs = set(connection.scalars(select(pieces.c.team).distinct()))  # teams without a horizon
    before = -1

    def name(key: Row) -> str:
        return f"team {check.show(store.team(key[0]).name)}"

    with progress_bar(connection, "verify: steps", progress) as bar:
        for part in recount(connection, store, None, bar.advance):
            wrong += differences(lambda key: f"{name(key)}: episode {key[1]}", part.stored, part.states, EpisodeState)
            for row in part.counts:
                add_to(sums[row[0]], [row[1:]])
            add_to(numbers, part.counted.items())
            add_to(totals, [(part.teams[team].environment, n) for team, n in part.counted.items()])
            cells = stored_counts(connection, OF_TEAM, before, part.ended)
            wrong += differences(lambda key: f"{name(key)}: count (layer, key) {key[1:]}", cells, taken(sums[OF_TEAM], part.ended))
            stored = stored_episodes(connection, before, part.ended)
            wrong += differences(lambda key: f"{name(key)}: the number of episodes", stored, taken(numbers, part.ended))
            runs |= part.endless
            before = part.ended
    for team in sorted(runs):
        wrong += [f"{name((team,))}: {one}" for one in wrong_pieces(connection, team)]
    c = environments.c
    for number, label, n in connection.execute(select(c.id, c.name, c.episodes).order_by(c.id)).all():
        cells = stored_counts(connection, OF_ENVIRONMENT, number - 1, number)
        texts = differences(lambda key: f"count (layer, key) {key[1:]}", cells, taken(sums[OF_ENVIRONMENT], number))
        texts += differences(lambda _: "the number of episodes", {(number,): n} if n else {}, taken(totals, number))
        wrong += [f"environment {check.show(label)}: {one}" for one in texts]
    return wrong


def stored_counts(connection: Connection, kind: int, after: int, last: int) -> dict[Row, int]:
    """Return the counts of owners of a kind, with numbers above `after` up to `last`, by owner, layer and key."""
    c = counts.c
    rows = connection.execute(select(c.owner, c.layer, c.key, c.n).where(c.kind == kind, c.owner > after, c.owner <= last))
    return {tuple(row[:3]): int(row[3]) for row in rows}


def stored_episodes(connection: Connection, after: int, last: int) -> dict[Row, int]:
    """Return the numbers of episodes of teams, except 0, with numbers above `after` up to `last`."""
    query = select(teams.c.id, teams.c.episodes).where(teams.c.id > after, teams.c.id <= last, teams.c.episodes != 0)
    return {(row[0],): int(row[1]) for row in connection.execute(query)}


def taken(sums: dict[Row, int], last: int) -> dict[Row, int]:
    """Remove the sums whose key begins with a number up to `last`, and return those that are not 0."""
    keys = [key for key in sums if key[0] <= last]
    return {key: n for key in keys if (n := sums.pop(key))}


def differences(
    place: Callable[[Any], str], stored: Mapping[Any, Any], true: Mapping[Any, Any], shown: Callable[..., Any] | None = None
) -> list[str]:
    """Return the differences of two mappings, as texts. stored: in the database. true: by the log.

    place: names a key. shown: converts a row for display.
    """
    if stored == true:
        return []

    def text_of(value: Any) -> Any:
        return value if value is None or shown is None else shown(*value)

    keys = sorted(key for key in stored.keys() | true.keys() if stored.get(key) != true.get(key))
    return [f"{place(key)} is {text_of(stored.get(key))}, must be {text_of(true.get(key))}" for key in keys]


def rebuild(connection: Connection, store: "Store", progress: ProgressTo = False) -> None:
    """Delete all counts, and count the log again. All teams become due for a plan."""
    lock(connection)
    for table in (counts, history, pieces):
        connection.execute(delete(table))
    connection.execute(update(episodes).values(number=-1, place=-1))
    connection.execute(update(environments).values(episodes=0))
    connection.execute(make_due().values(episodes=0))
    runs: set[int] = set()  # teams without a horizon
    with progress_bar(connection, "rebuild: steps", progress) as bar:
        for part in recount(connection, store, None, bar.advance):
            add_counts(connection, part.counts)
            put_states(connection, ((*key, *state) for key, state in part.states.items()), now_ms())
            runs |= part.endless
            add_episodes(connection, {team: n for team, n in part.counted.items() if n}, part.teams.__getitem__, now_ms())
    for team in sorted(runs):
        rebuild_pieces(connection, team)


def make_due() -> Any:
    """Return an update of teams that makes them due for a plan. A plan that is being made meanwhile is not published."""
    return update(teams).values(due=func.coalesce(teams.c.due, now_ms()), lease=None, planner=None)


def erase(connection: Connection, store: "Store", team: ServedTeam) -> int:
    """Delete all steps, episodes and plans of a team, and subtract its counts. Return the number of steps.

    The team stays. All teams of its environment become due for a plan, since their plans were made from the erased steps, too.
    """
    lock(connection)
    gone = 0
    for part in recount(connection, store, team):
        add_counts(connection, part.counts, -1)
        gone += part.counted.get(team.id, 0)
    forget_team(connection, team)
    n = connection.scalar(select(func.count()).where(steps.c.team == team.id))
    for table in (steps, episodes, pieces, plans, policies):
        connection.execute(delete(table).where(table.c.team == team.id))
    c = counts.c
    connection.execute(delete(counts).where(c.kind == OF_TEAM, c.owner == team.id))
    connection.execute(delete(counts).where(c.kind == OF_ENVIRONMENT, c.owner == team.environment, c.n == 0))
    connection.execute(update(teams).where(teams.c.id == team.id).values(episodes=0))
    connection.execute(make_due().where(teams.c.environment == team.environment))
    erased = {"episodes": environments.c.episodes - gone, "erased": environments.c.erased + 1}
    connection.execute(update(environments).where(environments.c.id == team.environment).values(erased))
    return int(n or 0)


def lock(connection: Connection) -> None:
    """Block other writers until the end of the transaction. SQLite does so by itself."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE teams IN EXCLUSIVE MODE"))
