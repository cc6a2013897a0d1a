"""The history of teams and environments: what episodes cost, who was in control, and how often control changed hands.

Every episode that was counted is summed once, from its steps: for each pair of agents that followed each other in it. Episodes are
numbered in the order in which they began, for their team and for their environment, and their sums are added to buckets of 1, 10,
100, ... episodes. So a history of any length is read from a few rows. This is done when somebody asks, so that nobody pays for it
who does not; it never delays what is told or decided.

Where there is no horizon, the same is done with pieces of runs in place of episodes. A piece may grow after it was summed: then its
sums are replaced. What is told are numbers of steps.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from sqlalchemy import Connection

from cede._base import check
from cede._base.arrays import Ints
from cede.learning.counts import charged
from cede.serve.database import Row, look_up, run, run_many, stream, upsert
from cede.serve.pieces import PIECE, SOURCES, Source, Unit
from cede.serve.reports import Team
from cede.serve.store import Store
from cede.serve.writer import Busy

AT_ONCE = 500  # episodes, or pieces, that are summed in one transaction
FORGOTTEN = 5000  # that are taken away at once
STEPS = ("team", "episode", "t", "state", "prev_agent", "agent", "action", "next_state", "cost", "enter_cost", "chosen")
SUMS = ("steps", "overrides", "env_cost", "control_cost", "switch_cost")
KEYS = ("kind", "owner", "size", "bucket", "whose", "prev_agent", "agent")
CHANGE = ", ".join(f"{name} = t.{name} + excluded.{name}" for name in SUMS)
SIZES = tuple(10**i for i in range(7))  # of buckets that are kept
EPISODES = -1  # in place of agents: the row that counts episodes, or steps of pieces
MOST_NAMES = 12  # agents that a history tells apart; all others are one
POINTS = 100  # buckets of a history at most, unless more are asked for
Key = tuple[int, int, int]  # team, episode and piece; 0 of an episode
Write = Callable[[Callable[[Connection], Any]], Any]


@dataclass(frozen=True)
class Owner:
    """Whose history: a team, or all teams of an environment."""

    kind: int
    id: int

    @classmethod
    def team(cls, number: int) -> "Owner":
        """Return a team, by its number."""
        return cls(1, number)

    @classmethod
    def environment(cls, number: int) -> "Owner":
        """Return an environment, by its number."""
        return cls(0, number)


class Historian:
    """Sums up episodes that were counted, and pieces of runs. It is safe in several threads, and beside others on other machines.

    write: calls a function with a connection in a write transaction, and returns its answer.
    """

    def __init__(self, store: Store, write: Write) -> None:
        self._store, self._write, self._lock = store, write, threading.Lock()

    def catch_up(self, most: int = AT_ONCE) -> int:
        """Sum up what began first; return how many episodes and steps wait still. Beside another call it does nothing."""
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
        """Return how many "episodes", or "steps" of runs, wait to be summed."""
        source = SOURCES[unit]
        with self._store.database.read() as connection:
            return int(run(connection, f"SELECT {source.waiting} FROM {source.table} WHERE {source.waits}").scalar())

    def _sum_up(self, source: Source, most: int) -> None:
        """Read steps in a view of the database, add them up, and write the sums."""
        with self._store.database.read() as connection:
            columns = ", ".join((*source.key, "begun", source.mark, "received", "number", "place"))
            order = ", ".join(("begun", *source.key))
            sql = f"SELECT {columns} FROM {source.table} WHERE {source.waits} ORDER BY {order} LIMIT ?"
            found = {(*row[:-5], 0)[:3]: Unit(*row[-5:]) for row in run(connection, sql, (most,))}
            if not found:
                return
            wanted, keys = ", ".join(f"t.{name}" for name in STEPS), sorted(found)
            if source.table == "episodes":
                rows = look_up(connection, wanted, "steps", ("team", "episode"), [key[:2] for key in keys])
            else:
                every = [(team, episode, t) for team, episode, piece in keys for t in range(piece * PIECE, (piece + 1) * PIECE)]
                rows = look_up(connection, wanted, "steps", ("team", "episode", "t"), every)
        sums = summed(rows, self._store.team_of)
        self._write(lambda connection: put(connection, self._store, source, found, sums))


def summed(rows: list[Row], team_of: Callable[[int], Team]) -> dict[Key, list[Row]]:
    """Add up steps, in the order of STEPS. Return for each episode or piece rows of prev_agent, agent, and SUMS."""
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(id(team_of(row[0]).served), []).append(row)
    result: dict[Key, list[Row]] = {}
    for group in groups.values():
        task = team_of(group[0][0]).served.task
        columns = list(zip(*group, strict=True))
        team, episode, t, states, prevs, agents, actions, nexts = (np.array(column, dtype=np.int64) for column in columns[:8])
        given = [np.array(column, dtype=np.float64) for column in columns[8:10]]  # None becomes NaN
        costs, entered = charged("history", task, states, actions, nexts, (given[0], given[1]))
        control, switching = task.control_costs(states, prevs, agents)
        chosen = np.array(columns[10], dtype=np.float64)
        keys, which = unique_columns(np.stack([team, episode, t // PIECE if task.horizon is None else 0 * t]))
        cells, cell = np.unique((which * task.n_agents + prevs) * task.n_agents + agents, return_inverse=True)
        override = ~np.isnan(chosen) & (chosen != agents)
        amounts = (np.ones(len(group)), override, costs + entered, control, switching)
        sums = [np.bincount(cell, amount, len(cells)).tolist() for amount in amounts]
        places, pairs = np.divmod(cells, task.n_agents**2)
        before, after = np.divmod(pairs, task.n_agents)
        owners = keys[:, places].tolist()
        for *key, prev, agent, steps, overrides, first, second, third in zip(
            *owners, before.tolist(), after.tolist(), *sums, strict=True
        ):
            one: Key = (key[0], key[1], key[2])
            result.setdefault(one, []).append((prev, agent, int(steps), int(overrides), first, second, third))
    return result


def unique_columns(rows: Ints) -> tuple[Ints, Ints]:
    """Return the columns of a matrix that differ, (k, m), in order, and which of them each is, (n,): np.unique, but quicker."""
    order = np.lexsort(rows[::-1])
    ordered = rows[:, order]
    first = np.ones(rows.shape[1], dtype=np.bool_)
    first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    which = np.empty(rows.shape[1], dtype=np.int64)
    which[order] = np.cumsum(first) - 1
    return ordered[:, first], which


def whose(team: Team, common: Any) -> int:
    """Return whose agents those of a team are: its own, or 0, those of the environment."""
    return 0 if team.served is common else team.id


def put(connection: Connection, store: Store, source: Source, found: dict[Key, Unit], sums: dict[Key, list[Row]]) -> None:
    """Write the sums of episodes or pieces, unless somebody else did meanwhile. found: as they were when they were summed.

    All that is locked is so in the order of `log.take_in`.
    """
    teams = {team: store.team_of(team) for team in sorted({team for team, *_ in found})}
    homes = sorted({team.environment for team in teams.values()})
    if connection.dialect.name == "postgresql":
        look_up(connection, "t.id", "teams", ("id",), [(team,) for team in teams], " ORDER BY t.id FOR UPDATE OF t")
        look_up(connection, "t.id", "environments", ("id",), [(one,) for one in homes], " ORDER BY t.id FOR UPDATE OF t")
    n = len(source.key)
    wanted = ", ".join(f"t.{name}" for name in (*source.key, "begun", source.mark, "place"))
    there = look_up(connection, wanted, source.table, source.key, [key[:n] for key in sorted(found)])
    now = {(*row[:n], 0)[:3]: row[n:] for row in there}
    same = [key for key, unit in found.items() if now.get(key) == (unit.begun, unit.mark, unit.place)]
    keys = sorted(same, key=lambda key: (found[key].begun, key))
    number = {team: following(connection, Owner.team(team)) for team in teams}
    place = {one: following(connection, Owner.environment(one)) for one in homes}
    names = {team.environment: name for team in teams.values() for name in [environment_name(connection, team.environment)]}
    before = sums_before(connection, [(key[0], found[key].number) for key in keys if found[key].place >= 0])
    placed, added = [], []
    for key in keys:
        team, unit = teams[key[0]], found[key]
        count = sum(row[2] for row in sums[key]) if team.served.endless else 1
        rows = [(EPISODES, EPISODES, count, 0, 0.0, 0.0, 0.0), *sums[key]]
        spot = (unit.number, unit.place)
        if unit.place < 0:
            spot = (number[team.id], place[team.environment])
            number[team.id] += 1
            place[team.environment] += 1
        more = (unit.received,) if team.served.endless else ()
        placed.append((*spot, *more, *key[:n]))
        own = whose(team, store.environment(names[team.environment])[1])
        added.append((team, own, *spot, rows))
        if unit.place >= 0:
            gone = [(prev, agent, *(-one for one in rest)) for prev, agent, *rest in before[team.id, unit.number]]
            added.append((team, own, *spot, gone))
    add_units(connection, added)
    condition = " AND ".join(f"{name} = ?" for name in source.key)
    run_many(connection, f"UPDATE {source.table} SET {source.placed} WHERE {condition}", placed)


def sums_before(connection: Connection, keys: list[tuple[int, int]]) -> dict[tuple[int, int], list[Row]]:
    """Return what is in the history of pieces: rows of prev_agent, agent, and SUMS, by team and number."""
    wanted = ", ".join(f"t.{name}" for name in ("owner", "bucket", "prev_agent", "agent", *SUMS))
    result: dict[tuple[int, int], list[Row]] = {}
    for team, number, *row in look_up(connection, wanted, "history", KEYS[:4], [(1, team, 1, number) for team, number in keys]):
        result.setdefault((team, number), []).append(tuple(row))
    return result


def environment_name(connection: Connection, number: int) -> str:
    """Return the name of an environment."""
    return str(run(connection, "SELECT name FROM environments WHERE id = ?", (number,)).scalar())


def add_units(connection: Connection, units: Iterable[tuple[Team, int, int, int, list[Row]]], sign: int = 1) -> None:
    """Add the sums of episodes or pieces to all buckets that they are in; with sign -1, take them away.

    units: of each its team, whose agents, its numbers in team and environment, and its sums by agents, also of the row that counts.
    """
    keys, values = [], []
    for team, own, number, place, sums in units:
        for prev, agent, *rest in sums:
            keys += [(1, team.id, 1, number, own, prev, agent), (0, team.environment, 1, place, own, prev, agent)]
            values += [rest, rest]
    if not keys:
        return
    single, amounts = np.array(keys, dtype=np.int64), sign * np.array(values, dtype=np.float64)
    every = []
    for size in SIZES:
        every.append(single.copy())
        every[-1][:, 2] = size
        every[-1][:, 3] //= size
    buckets, place_of = unique_columns(np.concatenate(every).T)
    sums_of = [np.bincount(place_of, np.tile(column, len(SIZES)), buckets.shape[1]) for column in amounts.T]
    columns = [one.astype(np.int64).tolist() for one in sums_of[:2]] + [one.tolist() for one in sums_of[2:]]
    upsert(connection, "history", (*KEYS, *SUMS), zip(*buckets.tolist(), *columns, strict=True), len(KEYS), CHANGE)


def forget_team(connection: Connection, team: Team) -> None:
    """Take the episodes or pieces of a team out of the history of its environment, and delete its own. They must still be there."""
    table, total = "pieces" if team.served.endless else "episodes", following(connection, Owner.team(team.id))
    place = np.full(total, -1)
    for part in stream(connection, f"SELECT number, place FROM {table} WHERE team = ? AND place >= 0", (team.id,), FORGOTTEN):
        number, there = np.array(part, dtype=np.int64).T
        place[number] = there
    sql = f"""SELECT bucket, whose, prev_agent, agent, {", ".join(SUMS)} FROM history
        WHERE kind = 1 AND owner = ? AND size = 1 AND bucket >= ? AND bucket < ?"""
    for first in range(0, total, FORGOTTEN):
        found: dict[int, tuple[Team, int, int, int, list[Row]]] = {}
        for bucket, own, *rest in run(connection, sql, (team.id, first, first + FORGOTTEN)).all():
            found.setdefault(bucket, (team, own, bucket, int(place[bucket]), []))[4].append(tuple(rest))
        add_units(connection, found.values(), -1)
    run(connection, "DELETE FROM history WHERE kind = 1 AND owner = ?", (team.id,))
    run(connection, "DELETE FROM history WHERE kind = 0 AND owner = ? AND steps = 0", (team.environment,))


def following(connection: Connection, owner: Owner) -> int:
    """Return the number that an owner's next episode or piece gets."""
    sql = "SELECT COALESCE(MAX(bucket) + 1, 0) FROM history WHERE kind = ? AND owner = ? AND size = 1"
    return int(run(connection, sql, (owner.kind, owner.id)).scalar())


def counted_before(connection: Connection, owner: Owner, number: int) -> int:
    """Return how many episodes, or steps, there are in the episodes or pieces before a number."""
    total, at = 0, 0
    for size in reversed(SIZES):
        sql = """SELECT COALESCE(SUM(steps), 0) FROM history
            WHERE kind = ? AND owner = ? AND size = ? AND bucket >= ? AND bucket < ? AND prev_agent = ?"""
        total += int(run(connection, sql, (owner.kind, owner.id, size, at // size, number // size, EPISODES)).scalar())
        at = number // size * size
    return total


def fitting(total: int) -> int:
    """Return how many episodes to put into a bucket, 1, 2, 5, 10, 20, ..., so that there are at most POINTS buckets."""
    size, factors = 1, (2.0, 2.5, 2.0)
    for i in range(60):
        if total <= size * POINTS:
            break
        size = int(size * factors[i % 3])
    return size


def history_of(
    connection: Connection, store: Store, owner: Owner, size: int | None, before: int | None, most: int
) -> dict[str, Any]:
    """Return the history of an owner in buckets of episodes, the last ones before a bucket; without a horizon, of steps.

    size: episodes of a bucket, or steps at most; None: as fits. before: the bucket after the last one that is returned; None: all
    buckets.
    """
    endless = task_of(connection, store, owner, 0).horizon is None
    number, unit = following(connection, owner), PIECE if endless else 1
    if size is not None and size % unit:
        check.fail("request", "size", size, f"a multiple of {unit}: runs are summed up in pieces of so many steps")
    size = fitting(number) if size is None else size // unit
    last = -(-number // size) if before is None else before
    first = max(0, last - most)
    kept = max(one for one in SIZES if size % one == 0)
    bucket, sums = f"bucket / {size // kept}", ", ".join(f"SUM({name})" for name in SUMS)
    sql = f"""SELECT {bucket}, whose, prev_agent, agent, {sums} FROM history
        WHERE kind = ? AND owner = ? AND size = ? AND bucket >= ? AND bucket < ? GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""
    ends = [min(one * (size // kept), number) for one in (first, last)]
    cells = run(connection, sql, (owner.kind, owner.id, kept, *ends)).all()
    tasks = {one: task_of(connection, store, owner, one) for one in {cell[1] for cell in cells}}
    agents, names = agents_of(cells, tasks)
    buckets: dict[int, dict[str, Any]] = {}
    for cell in cells:
        add(buckets.setdefault(cell[0], empty_bucket(cell[0], size, len(agents))), cell, tasks[cell[1]], names)
    for one in buckets.values():
        one["pairs"] = sorted([*pair, n] for pair, n in one["pairs"].items())
    total = number
    if endless:
        total, begin = counted_before(connection, owner, number), counted_before(connection, owner, min(first * size, number))
        for one in buckets.values():
            one["episode"] = begin
            begin += one["episodes"]
    more = {"total": total, "size": size * unit, "first": first, "earlier": first > 0, "agents": agents}
    return {"unit": "steps" if endless else "episodes", **more, "buckets": list(buckets.values())}


def task_of(connection: Connection, store: Store, owner: Owner, own: int) -> Any:
    """Return the task whose agents some rows are of. own: a team; 0: the environment."""
    if own:
        return store.team_of(own).served.task
    if owner.kind:
        return store.team_of(owner.id).served.task
    return store.environment(environment_name(connection, owner.id))[1].task


def agents_of(cells: Any, tasks: dict[int, Any]) -> tuple[list[str | None], dict[str, int]]:
    """Return the names of members that were in control, most of the time first, null for all others; and the place of each."""
    steps: dict[str, int] = {}
    for cell in cells:
        task = tasks[cell[1]]
        for name in task.members:
            steps.setdefault(name, 0)
        if cell[2] != EPISODES:
            steps[task.members[task.acting[cell[3]]]] += int(cell[4])
    names = list(steps)
    if len(names) > MOST_NAMES:
        names = sorted(names, key=lambda name: -steps[name])[:MOST_NAMES]
    listed: list[str | None] = [*names, *([None] if len(names) < len(steps) else [])]
    return listed, {name: names.index(name) if name in names else len(names) for name in steps}


def empty_bucket(bucket: int, size: int, n_agents: int) -> dict[str, Any]:
    """Return a bucket in which nothing is added up yet."""
    sums = {"steps": 0, "cost": 0.0, "parts": {"environment": 0.0, "control": 0.0, "switching": 0.0}}
    numbers = {"control": [0] * n_agents, "switches": 0, "hand_overs": 0, "overrides": 0, "unpriced": 0, "pairs": {}}
    return {"bucket": bucket, "episode": bucket * size, "episodes": 0, **sums, **numbers}


def add(bucket: dict[str, Any], cell: Row, task: Any, names: dict[str, int]) -> None:
    """Add what belongs to one pair of agents to a bucket.

    Switches are changes of the agent, as in `History.switches`. Where hand-overs take time, one of them is several changes:
    hand-overs are changes of the member who is, or will be, in control. Unpriced are those of which the task says neither that
    they are possible nor what they cost (`Task.is_unpriced`); nothing of them is in the cost.
    """
    prev, agent, steps, overrides = cell[2], cell[3], int(cell[4]), int(cell[5])
    if prev == EPISODES:
        bucket["episodes"] += steps
        return
    bucket["steps"] += steps
    bucket["overrides"] += overrides
    bucket["unpriced"] += steps * bool(task.is_unpriced[prev, agent])
    bucket["control"][names[task.members[task.acting[agent]]]] += steps
    environment, control, switching = map(float, cell[6:9])
    if not isfinite(switching):  # an earlier cede summed it up, which took a hand-over that is not possible for infinitely dear
        switching = steps * float(task.control_costs(0, prev, agent)[1]) if task.switch_cost.ndim == 2 else 0.0
    for name, amount in zip(bucket["parts"], (environment, control, switching), strict=True):
        bucket["parts"][name] += amount
        bucket["cost"] += amount
    bucket["switches"] += steps * (prev != agent)
    giver, taker = task.aim[prev], task.aim[agent]
    if giver != taker:
        bucket["hand_overs"] += steps
        pair = (names[task.members[giver]], names[task.members[taker]])
        bucket["pairs"][pair] = bucket["pairs"].get(pair, 0) + steps
