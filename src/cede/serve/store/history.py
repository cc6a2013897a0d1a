"""The history of teams and environments: cost, control and hand-overs of episodes, in buckets.

Each counted episode is summed once from its steps, for each pair of agents that followed each other. Episodes are numbered in the
order in which they began, within their team and within their environment, and their sums are added to buckets of 1, 10, 100, ...
episodes. So a history of any length is read from a few rows. Episodes are summed when a history is requested, so that reports and
decisions are not delayed.

Without a horizon, pieces of runs take the place of episodes. A piece may grow after it was summed; then its sums are replaced.
Numbers in answers are numbers of steps.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import BigInteger, Connection, Table, TextClause, bindparam, delete, func, literal_column, select, update

from cede._base import check
from cede._base.arrays import Ints
from cede._kernels.account import is_hand_over
from cede.serve.names import OF_ENVIRONMENT, OF_TEAM, Row
from cede.serve.store.database import Busy, among, look_up, stream, upsert
from cede.serve.store.schema import PIECE, PIECE_WAITS, WAITS, environments, episodes, history, pieces, steps, teams
from cede.steps.check import charged
from cede.steps.cost import cost_parts
from cede.steps.step import Steps

if TYPE_CHECKING:
    from cede.serve.served import ServedTeam, TeamOf
    from cede.serve.store.store import Store

AT_ONCE = 500  # episodes, or pieces, that are summed in one transaction
ERASED_AT_ONCE = 5000  # episodes, or pieces, that are subtracted at once
STEPS = ("team", "episode", "t", "state", "prev_agent", "agent", "action", "next_state", "cost", "enter_cost", "chosen")
SUMS = ("steps", "overrides", "env_cost", "control_cost", "switch_cost")
SIZES = tuple(10**i for i in range(7))  # of stored buckets
EPISODES = -1  # in place of agents: the row that counts episodes, or steps of pieces
MOST_NAMES = 12  # agents that a history names; all others are one
POINTS = 100  # buckets of a history, unless a size is given
OF_UNIT = select(*(steps.c[name] for name in STEPS))
OF_EPISODES = OF_UNIT.where(among(steps.c.team, steps.c.episode))
OF_PIECES = OF_UNIT.where(among(steps.c.team, steps.c.episode, steps.c.t))
OF_BUCKETS = select(*(history.c[name] for name in ("owner", "bucket", "prev_agent", "agent", *SUMS))).where(
    among(history.c.kind, history.c.owner, history.c.size, history.c.bucket)
)
LOCKS = {
    table.name: select(table.c.id).where(among(table.c.id)).order_by(table.c.id).with_for_update()
    for table in (teams, environments)
}
Key = tuple[int, int, int]  # team, episode and piece; 0 for an episode
Write = Callable[[Callable[[Connection], Any]], Any]


@dataclass(frozen=True)
class Owner:
    """The owner of a history: a team, or all teams of an environment."""

    kind: int  # OF_TEAM or OF_ENVIRONMENT
    id: int

    def rows(self, size: int, first: int, end: int) -> tuple[Any, ...]:
        """Return the conditions for its buckets of a size, from the first to the one before the end."""
        c = history.c
        return c.kind == self.kind, c.owner == self.id, c.size == size, c.bucket >= first, c.bucket < end


@dataclass(frozen=True, eq=False)
class Source:
    """Table of units that are not summed yet: counted episodes, or pieces of runs."""

    table: Table
    key: tuple[str, ...]
    mark: str  # a column that changes when another server sums the unit
    waits: TextClause  # condition: not summed yet
    waiting: Any  # SQL: number of episodes or steps that are not summed yet

    def columns(self, *names: str) -> list[Any]:
        """Return the key, and more columns."""
        return [self.table.c[name] for name in (*self.key, *names)]


UNSUMMED = func.coalesce(func.sum(pieces.c.received - pieces.c.summed), 0)
SOURCES = {
    "episodes": Source(episodes, ("team", "episode"), "counted", WAITS, func.count()),
    "steps": Source(pieces, ("team", "episode", "piece"), "summed", PIECE_WAITS, UNSUMMED),
}


@dataclass(frozen=True)
class HistoryUnit:
    """An episode or a piece that is summed."""

    begun: int
    mark: int
    received: int
    number: int  # in the team's history; -1: not there yet
    place: int  # in the environment's history


class HistorySums:
    """Sums counted episodes and pieces of runs into the history. Safe in several threads and beside other servers.

    write: calls a function with a connection in a write transaction, and returns its answer.
    """

    def __init__(self, store: "Store", write: Write) -> None:
        self._store, self._write, self._lock = store, write, threading.Lock()

    def catch_up(self, most: int = AT_ONCE) -> int:
        """Sum the oldest units; return how many episodes and steps are not summed yet. No-op while another call runs."""
        if self._lock.acquire(blocking=False):
            try:
                for source in SOURCES.values():
                    self._sum_up(source, most)
            except Busy:  # reports come first
                pass
            finally:
                self._lock.release()
        return sum(map(self.waiting, SOURCES))

    def waiting(self, unit: str) -> int:
        """Return how many "episodes", or "steps" of runs, are not summed yet."""
        source = SOURCES[unit]
        with self._store.database.read() as connection:
            return int(connection.scalar(select(source.waiting).select_from(source.table).where(source.waits)) or 0)

    def _sum_up(self, source: Source, most: int) -> None:
        """Read steps from one state of the database, sum them, and write the sums."""
        with self._store.database.read() as connection:
            query = select(*source.columns("begun", source.mark, "received", "number", "place")).where(source.waits)
            query = query.order_by(source.table.c.begun, *source.columns()).limit(most)
            units = {(*row[:-5], 0)[:3]: HistoryUnit(*row[-5:]) for row in connection.execute(query)}
            if not units:
                return
            if source.table is episodes:
                rows = look_up(connection, OF_EPISODES, [key[:2] for key in sorted(units)])
            else:
                every = ((*key[:2], t) for key in sorted(units) for t in range(key[2] * PIECE, (key[2] + 1) * PIECE))
                rows = look_up(connection, OF_PIECES, every)
        sums = summed(rows, self._store.team)
        self._write(lambda connection: put(connection, self._store, source, units, sums))


def summed(rows: list[Row], team_of: "TeamOf") -> dict[Key, list[Row]]:
    """Sum steps, rows of STEPS. Return for each episode or piece rows of prev_agent, agent, and SUMS."""
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(id(team_of(row[0]).served), []).append(row)
    result: dict[Key, list[Row]] = {}
    for group in groups.values():
        task = team_of(group[0][0]).served.task
        columns = list(zip(*group, strict=True))
        team, episode, t, states, prevs, agents, actions, nexts = (np.array(column, dtype=np.int64) for column in columns[:8])
        cost, enter_cost = (np.array(column, dtype=np.float64) for column in columns[8:10])  # None becomes NaN
        measured = Steps(t, states, prevs, agents, actions, nexts, cost, enter_cost)
        parts = cost_parts(task, replace(measured, **charged("history", task, measured)))
        chosen = np.array(columns[10], dtype=np.float64)
        keys, which = unique_columns(np.stack([team, episode, t // PIECE if task.horizon is None else 0 * t]))
        cells, cell = np.unique((which * task.n_agents + prevs) * task.n_agents + agents, return_inverse=True)
        override = ~np.isnan(chosen) & (chosen != agents)
        outside = parts.env_cost + parts.enter_cost + parts.cost_after_end
        amounts = (np.ones(len(group)), override, outside, parts.control_cost, parts.switch_cost)
        sums = [np.bincount(cell, amount, len(cells)) for amount in amounts]
        unit, pair = np.divmod(cells, task.n_agents**2)
        numbers = (*keys[:, unit], *np.divmod(pair, task.n_agents), *(column.astype(np.int64) for column in sums[:2]), *sums[2:])
        for team_id, number, piece, *values in zip(*(column.tolist() for column in numbers), strict=True):
            result.setdefault((team_id, number, piece), []).append(tuple(values))
    return result


def unique_columns(rows: Ints) -> tuple[Ints, Ints]:
    """Return the distinct columns of a matrix, (k, m), sorted, and the index of each column, (n,). Faster than np.unique."""
    order = np.lexsort(rows[::-1])
    ordered = rows[:, order]
    first = np.ones(rows.shape[1], dtype=np.bool_)
    first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    which = np.empty(rows.shape[1], dtype=np.int64)
    which[order] = np.cumsum(first) - 1
    return ordered[:, first], which


def put(connection: Connection, store: "Store", source: Source, units: dict[Key, HistoryUnit], sums: dict[Key, list[Row]]) -> None:
    """Write the sums of episodes or pieces, except of those that another server summed meanwhile.

    units: as they were read. Rows are locked in the order of `log.take_in`.
    """
    members = {team: store.team(team) for team in sorted({team for team, *_ in units})}
    homes = sorted({team.environment for team in members.values()})
    for table, ids in ((teams, list(members)), (environments, homes)):
        look_up(connection, LOCKS[table.name], [(id_,) for id_ in ids])
    n = len(source.key)
    stored = select(*source.columns("begun", source.mark, "place")).where(among(*source.columns()))
    now = {(*row[:n], 0)[:3]: tuple(row[n:]) for row in look_up(connection, stored, [key[:n] for key in sorted(units)])}
    same = [key for key, unit in units.items() if now.get(key) == (unit.begun, unit.mark, unit.place)]
    number = {team: following(connection, Owner(OF_TEAM, team)) for team in members}
    place = {home: following(connection, Owner(OF_ENVIRONMENT, home)) for home in homes}
    before = sums_before(connection, [(key[0], units[key].number) for key in same if units[key].place >= 0])
    placed, added = [], []
    for key in sorted(same, key=lambda key: (units[key].begun, key)):
        team, unit = members[key[0]], units[key]
        spot, gone = (unit.number, unit.place), []
        if unit.place < 0:
            spot = (number[team.id], place[team.environment])
            number[team.id] += 1
            place[team.environment] += 1
        else:
            gone = [(prev, agent, *(-value for value in rest)) for prev, agent, *rest in before[team.id, unit.number]]
        whose = 0 if team.served is store.environment(team.environment).served else team.id
        count = sum(row[2] for row in sums[key]) if team.served.endless else 1
        for row in ((EPISODES, EPISODES, count, 0, 0.0, 0.0, 0.0), *sums[key], *gone):
            added.append((team.id, team.environment, *spot, whose, *row))
        names = {f"of_{name}": value for name, value in zip(source.key, key, strict=False)}
        placed.append({**names, "number": spot[0], "place": spot[1]} | ({"summed": unit.received} if team.served.endless else {}))
    add_sums(connection, added)
    if placed:
        match = (column == bindparam(f"of_{column.name}") for column in source.columns())
        connection.execute(update(source.table).where(*match), placed)


def sums_before(connection: Connection, keys: list[tuple[int, int]]) -> dict[tuple[int, int], list[Row]]:
    """Return the sums of pieces in the history: rows of prev_agent, agent, and SUMS, by team and number."""
    result: dict[tuple[int, int], list[Row]] = {}
    for team, number, *row in look_up(connection, OF_BUCKETS, [(OF_TEAM, team, 1, n) for team, n in keys]):
        result.setdefault((team, number), []).append(tuple(row))
    return result


def add_sums(connection: Connection, rows: Sequence[Row], sign: int = 1) -> None:
    """Add sums of episodes or pieces to all their buckets; with sign -1, subtract them.

    rows: team, environment, number and place in their histories, whose, prev_agent, agent, SUMS.
    """
    if not rows:
        return
    team, environment, number, place, *pair = np.array([row[:7] for row in rows], dtype=np.int64).T
    amounts = sign * np.array([row[7:] for row in rows], dtype=np.float64).T
    ones, every = np.ones_like(team), []
    for size in SIZES:
        every.append(np.stack([OF_TEAM * ones, team, size * ones, number // size, *pair]))
        every.append(np.stack([OF_ENVIRONMENT * ones, environment, size * ones, place // size, *pair]))
    buckets, bucket_of = unique_columns(np.concatenate(every, axis=1))
    sums = [np.bincount(bucket_of, np.tile(amount, len(every)), buckets.shape[1]) for amount in amounts]
    columns = [column.astype(np.int64).tolist() for column in sums[:2]] + [column.tolist() for column in sums[2:]]
    upsert(connection, history, history.c.keys(), zip(*buckets.tolist(), *columns, strict=True), add=SUMS)


def forget_team(connection: Connection, team: "ServedTeam") -> None:
    """Subtract the episodes or pieces of a team from the history of its environment, and delete its own history."""
    table, owner = pieces if team.served.endless else episodes, Owner(OF_TEAM, team.id)
    total = following(connection, owner)
    place = np.full(total, -1)
    placed = select(table.c.number, table.c.place).where(table.c.team == team.id, table.c.place >= 0)
    for part in stream(connection, placed, ERASED_AT_ONCE):
        number, there = np.array(part, dtype=np.int64).T
        place[number] = there
    columns = [history.c[name] for name in ("bucket", "whose", "prev_agent", "agent", *SUMS)]
    for first in range(0, total, ERASED_AT_ONCE):
        rows = connection.execute(select(*columns).where(*owner.rows(1, first, first + ERASED_AT_ONCE)))
        add_sums(connection, [(team.id, team.environment, row[0], place[row[0]], *row[1:]) for row in rows], -1)
    c = history.c
    connection.execute(delete(history).where(c.kind == OF_TEAM, c.owner == team.id))
    connection.execute(delete(history).where(c.kind == OF_ENVIRONMENT, c.owner == team.environment, c.steps == 0))


def following(connection: Connection, owner: Owner) -> int:
    """Return the number of an owner's next episode or piece."""
    c = history.c
    query = select(func.coalesce(func.max(c.bucket) + 1, 0)).where(c.kind == owner.kind, c.owner == owner.id, c.size == 1)
    return int(connection.scalar(query) or 0)


def counted_before(connection: Connection, owner: Owner, number: int) -> int:
    """Return how many episodes, or steps, are in the episodes or pieces before a number."""
    total, at = 0, 0
    for size in reversed(SIZES):
        query = select(func.coalesce(func.sum(history.c.steps), 0)).where(*owner.rows(size, at // size, number // size))
        total += int(connection.scalar(query.where(history.c.prev_agent == EPISODES)) or 0)
        at = number // size * size
    return total


def fitting(total: int) -> int:
    """Return the smallest size of buckets, of 1, 2, 5, 10, 20, ... episodes, with which there are at most POINTS buckets."""
    sizes = ((1, 2, 5)[i % 3] * int(10 ** (i // 3)) for i in range(60))
    return next(size for size in sizes if total <= size * POINTS)


def history_of(
    connection: Connection, store: "Store", owner: Owner, size: int | None, before: int | None, most: int
) -> dict[str, Any]:
    """Return the newest buckets of an owner's history before a bucket; without a horizon, buckets of steps.

    size: episodes of a bucket, or steps at most; None: as `fitting`. before: the bucket after the last one; None: all buckets.
    """
    endless = task_of(store, owner, 0).horizon is None
    number, unit = following(connection, owner), PIECE if endless else 1
    if size is not None and size % unit:
        check.fail("request", "size", size, f"a multiple of {unit}: histories of runs have pieces of so many steps")
    size = fitting(number) if size is None else size // unit
    last = -(-number // size) if before is None else before
    first = max(0, last - most)
    stored = max(stored_size for stored_size in SIZES if size % stored_size == 0)
    bucket = (history.c.bucket // literal_column(str(size // stored), BigInteger)).label("part")
    key = (bucket, history.c.whose, history.c.prev_agent, history.c.agent)
    query = select(*key, *(func.sum(history.c[name]) for name in SUMS)).group_by(*key).order_by(*key)
    ends = [min(end * (size // stored), number) for end in (first, last)]
    cells = connection.execute(query.where(*owner.rows(stored, ends[0], ends[1]))).all()
    tasks = {whose: task_of(store, owner, whose) for whose in {cell[1] for cell in cells}}
    agents, names = agents_of(cells, tasks)
    buckets: dict[int, dict[str, Any]] = {}
    for cell in cells:
        add(buckets.setdefault(cell[0], empty_bucket(cell[0], size, len(agents))), cell, tasks[cell[1]], names)
    for bucket_sums in buckets.values():
        bucket_sums["pairs"] = sorted([*pair, n] for pair, n in bucket_sums["pairs"].items())
    total = number
    if endless:
        total, begin = counted_before(connection, owner, number), counted_before(connection, owner, min(first * size, number))
        for bucket_sums in buckets.values():
            bucket_sums["episode"] = begin
            begin += bucket_sums["episodes"]
    more = {"total": total, "size": size * unit, "first": first, "earlier": first > 0, "agents": agents}
    return {"unit": "steps" if endless else "episodes", **more, "buckets": list(buckets.values())}


def task_of(store: "Store", owner: Owner, whose: int) -> Any:
    """Return the task whose agents are in some rows. whose: a team; 0: agents of the environment."""
    if whose or owner.kind:
        return store.team(whose or owner.id).served.task
    return store.environment(owner.id).served.task


def agents_of(cells: Any, tasks: dict[int, Any]) -> tuple[list[str | None], dict[str, int]]:
    """Return the names of members, at most MOST_NAMES, those with the most steps; None for all others; and the index of each."""
    n_steps: dict[str, int] = {}
    for cell in cells:
        task = tasks[cell[1]]
        for name in task.members:
            n_steps.setdefault(name, 0)
        if cell[2] != EPISODES:
            n_steps[task.members[task.acting[cell[3]]]] += int(cell[4])
    names = list(n_steps)
    if len(names) > MOST_NAMES:
        names = sorted(names, key=lambda name: -n_steps[name])[:MOST_NAMES]
    listed: list[str | None] = [*names, *([None] if len(names) < len(n_steps) else [])]
    return listed, {name: names.index(name) if name in names else len(names) for name in n_steps}


def empty_bucket(bucket: int, size: int, n_agents: int) -> dict[str, Any]:
    """Return a bucket with sums of 0."""
    sums = {"steps": 0, "cost": 0.0, "parts": {"environment": 0.0, "control": 0.0, "switching": 0.0}}
    numbers = {"control": [0] * n_agents, "switches": 0, "hand_overs": 0, "overrides": 0, "unpriced": 0, "pairs": {}}
    return {"bucket": bucket, "episode": bucket * size, "episodes": 0, **sums, **numbers}


def add(bucket: dict[str, Any], cell: Any, task: Any, names: dict[str, int]) -> None:
    """Add the sums of one pair of agents to a bucket.

    switches and hand_overs: changes of the member who has control or will get it, as in `History.switches`. unpriced: steps whose
    hand-over the task neither forbids nor prices (`Task.is_unpriced`); they add nothing to the cost.
    """
    prev, agent, n_steps, overrides = cell[2], cell[3], int(cell[4]), int(cell[5])
    if prev == EPISODES:
        bucket["episodes"] += n_steps
        return
    bucket["steps"] += n_steps
    bucket["overrides"] += overrides
    bucket["unpriced"] += n_steps * bool(task.is_unpriced[prev, agent])
    bucket["control"][names[task.members[task.acting[agent]]]] += n_steps
    environment, control, switching = map(float, cell[6:9])
    if not isfinite(switching):  # earlier versions of cede priced a hand-over that is not possible as infinite
        switching = n_steps * float(task.control_costs(0, prev, agent)[1]) if task.switch_cost.ndim == 2 else 0.0
    for name, amount in zip(bucket["parts"], (environment, control, switching), strict=True):
        bucket["parts"][name] += amount
        bucket["cost"] += amount
    if is_hand_over(task.layout.aim, prev, agent):
        bucket["switches"] += n_steps
        bucket["hand_overs"] += n_steps
        pair = (names[task.members[task.layout.aim[prev]]], names[task.members[task.layout.aim[agent]]])
        bucket["pairs"][pair] = bucket["pairs"].get(pair, 0) + n_steps
