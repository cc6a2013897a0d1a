"""The history of teams and environments: what episodes cost, who was in control, and how often control changed hands.

Every episode that was counted is summed once, from its steps, into a few rows of the table `history`: one for each pair of agents
that followed each other in it. Episodes are numbered in the order in which they began, for their team and for their environment.
This is done when somebody asks, so that nobody pays for it who does not; it never delays what is told or decided.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection

from cede.learning.counts import charged
from cede.serve.database import Row, insert_new, look_up, run, run_many
from cede.serve.reports import Team
from cede.serve.store import Store
from cede.serve.writer import Busy

AT_ONCE = 1000  # episodes that are summed in one transaction
STEPS = ("team", "episode", "state", "prev_agent", "agent", "action", "next_state", "cost", "enter_cost", "chosen")
WAITING = "FROM episodes WHERE counted = 1 AND summed = 0"
SUMS = ("steps", "overrides", "env_cost", "control_cost", "switch_cost")
COLUMNS = ("environment", "place", "prev_agent", "agent", "team", "number", "episode", "begun", *SUMS)
MOST_NAMES = 12  # agents that a history tells apart; all others are one
POINTS = 100  # buckets of a history at most, unless more are asked for
Key = tuple[int, int]  # team and episode
Write = Callable[[Callable[[Connection], Any]], Any]


@dataclass(frozen=True)
class Owner:
    """Whose history: a team, or all teams of an environment."""

    column: str  # "team" or "environment"
    order: str  # the column that numbers its episodes
    id: int

    @classmethod
    def team(cls, number: int) -> "Owner":
        """Return a team, by its number."""
        return cls("team", "number", number)

    @classmethod
    def environment(cls, number: int) -> "Owner":
        """Return an environment, by its number."""
        return cls("environment", "place", number)


class Historian:
    """Sums up episodes that were counted. It is safe in several threads, and beside others on other machines.

    write: calls a function with a connection in a write transaction, and returns its answer.
    """

    def __init__(self, store: Store, write: Write) -> None:
        self._store, self._write, self._lock = store, write, threading.Lock()

    def catch_up(self, most: int = AT_ONCE) -> int:
        """Sum up episodes that wait, those that began first; return how many wait still. Beside another call it does nothing."""
        if self._lock.acquire(blocking=False):
            try:
                self._sum_up(most)
            except Busy:  # reports come first
                pass
            finally:
                self._lock.release()
        with self._store.database.read() as connection:
            return int(run(connection, f"SELECT COUNT(*) {WAITING}").scalar())

    def _sum_up(self, most: int) -> None:
        """Read steps in a view of the database, add them up, and write the sums."""
        with self._store.database.read() as connection:
            sql = f"SELECT team, episode, begun {WAITING} ORDER BY begun, team, episode LIMIT ?"
            found = {(row[0], row[1]): row[2] for row in run(connection, sql, (most,))}
            wanted = ", ".join(f"t.{name}" for name in STEPS)
            rows = look_up(connection, wanted, "steps", ("team", "episode"), sorted(found))
        if found:
            sums = summed(rows, self._store.team_of)
            self._write(lambda connection: put(connection, self._store, found, sums))


def summed(rows: list[Row], team_of: Callable[[int], Team]) -> dict[Key, list[Row]]:
    """Add up steps, in the order of STEPS. Return for each episode rows of prev_agent, agent, and SUMS."""
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(id(team_of(row[0]).served), []).append(row)
    result: dict[Key, list[Row]] = {}
    for group in groups.values():
        task = team_of(group[0][0]).served.task
        columns = list(zip(*group, strict=True))
        team, episode, states, prevs, agents, actions, nexts = (np.array(column, dtype=np.int64) for column in columns[:7])
        given = [np.array([np.nan if one is None else one for one in column]) for column in columns[7:9]]
        costs, entered = charged("history", task, states, actions, nexts, (given[0], given[1]))
        control, switching = task.control_costs(states, prevs, agents)
        override = np.array([one is not None and one != other for one, other in zip(columns[9], columns[4], strict=True)])
        cells, cell = np.unique(np.stack([team, episode, prevs, agents]), axis=1, return_inverse=True)
        amounts = [np.ones(len(group)), override, costs + entered, np.broadcast_to(control, team.shape), switching]
        sums = [np.bincount(cell, np.asarray(amount, dtype=np.float64), cells.shape[1]).tolist() for amount in amounts]
        for *key, prev, agent, steps, overrides, mine, theirs, handing in zip(*cells.tolist(), *sums, strict=True):
            result.setdefault((key[0], key[1]), []).append((prev, agent, int(steps), int(overrides), mine, theirs, handing))
    return result


def put(connection: Connection, store: Store, found: dict[Key, int], sums: dict[Key, list[Row]]) -> None:
    """Write the sums of episodes, unless somebody else did meanwhile. found: when each began. All that is locked is so in the order
    of `log.take_in`.
    """
    teams = sorted({team for team, _ in found})
    there = {team: store.team_of(team).environment for team in teams}
    if connection.dialect.name == "postgresql":
        look_up(connection, "t.id", "teams", ("id",), [(team,) for team in teams], " ORDER BY t.id FOR UPDATE OF t")
        places = [(place,) for place in sorted(set(there.values()))]
        look_up(connection, "t.id", "environments", ("id",), places, " ORDER BY t.id FOR UPDATE OF t")
    waiting = look_up(connection, "t.team, t.episode, t.begun, t.counted, t.summed", "episodes", ("team", "episode"), sorted(found))
    keys = sorted((row[:2] for row in waiting if row[2:] == (found[row[:2]], 1, 0)), key=lambda key: (found[key], key))
    number = {team: following(connection, Owner.team(team)) for team in teams}
    place = {one: following(connection, Owner.environment(one)) for one in set(there.values())}
    rows = []
    for key in keys:
        team, home = key[0], there[key[0]]
        for prev, agent, *rest in sums[key]:
            rows.append((home, place[home], prev, agent, team, number[team], key[1], found[key], *rest))
        number[team] += 1
        place[home] += 1
    insert_new(connection, "history", COLUMNS, rows)
    run_many(connection, "UPDATE episodes SET summed = 1 WHERE team = ? AND episode = ?", keys)


def following(connection: Connection, owner: Owner) -> int:
    """Return the number that an owner's next episode gets."""
    sql = f"SELECT COALESCE(MAX({owner.order}) + 1, 0) FROM history WHERE {owner.column} = ?"
    return int(run(connection, sql, (owner.id,)).scalar())


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
    """Return the history of an owner in buckets of episodes, the last ones before a bucket.

    size: episodes of a bucket; None: as fits. before: the bucket after the last one that is returned; None: all buckets. The sums
    are made by the database.
    """
    total = following(connection, owner)
    size = fitting(total) if size is None else size
    last = -(-total // size) if before is None else before
    first = max(0, last - most)
    where = f"FROM history h WHERE h.{owner.column} = ? AND h.{owner.order} >= ? AND h.{owner.order} < ?"
    values = (owner.id, first * size, last * size)
    own = "(SELECT CASE WHEN t.told IS NULL THEN 0 ELSE t.id END FROM teams t WHERE t.id = h.team)"
    whose = own if owner.column == "environment" else "h.team"
    bucket = f"h.{owner.order} / {size}"
    sums = ", ".join(f"SUM(h.{name})" for name in SUMS)
    sql = f"SELECT {bucket}, {whose}, MIN(h.team), h.prev_agent, h.agent, {sums} {where} GROUP BY 1, 2, 4, 5 ORDER BY 1, 2, 4, 5"
    cells = run(connection, sql, values).all()
    sql = f"""SELECT {bucket}, COUNT(DISTINCT h.{owner.order}), COUNT(DISTINCT h.team), MIN(h.begun), MAX(h.begun)
        {where} GROUP BY 1 ORDER BY 1"""
    agents, names = agents_of(cells, store)
    buckets = {row[0]: empty_bucket(row, size, len(agents)) for row in run(connection, sql, values)}
    for cell in cells:
        add(buckets[cell[0]], cell, store.team_of(cell[2]), names)
    for one in buckets.values():
        one["pairs"] = sorted([*pair, n] for pair, n in one["pairs"].items())
    more = {"total": total, "size": size, "first": first, "earlier": first > 0, "agents": agents}
    return {**more, "buckets": list(buckets.values())}


def agents_of(cells: Any, store: Store) -> tuple[list[str | None], dict[str, int]]:
    """Return the names of members that were in control, most of the time first, null for all others; and the place of each."""
    steps: dict[str, int] = {}
    for cell in cells:
        task = store.team_of(cell[2]).served.task
        for name in task.members:
            steps.setdefault(name, 0)
        steps[task.members[task.acting[cell[4]]]] += int(cell[5])
    names = list(steps)
    if len(names) > MOST_NAMES:
        names = sorted(names, key=lambda name: -steps[name])[:MOST_NAMES]
    listed: list[str | None] = [*names, *([None] if len(names) < len(steps) else [])]
    return listed, {name: names.index(name) if name in names else len(names) for name in steps}


def empty_bucket(row: Row, size: int, n_agents: int) -> dict[str, Any]:
    """Return a bucket in which nothing is added up yet. row: its number, episodes, teams, and when the first and last began."""
    bucket, episodes, teams, begun, until = row
    about = {"bucket": bucket, "episode": bucket * size, "episodes": episodes, "teams": teams, "begun": begun, "until": until}
    sums = {"steps": 0, "cost": 0.0, "parts": {"environment": 0.0, "control": 0.0, "switching": 0.0}}
    return {**about, **sums, "control": [0] * n_agents, "switches": 0, "hand_overs": 0, "overrides": 0, "pairs": {}}


def add(bucket: dict[str, Any], cell: Row, team: Team, names: dict[str, int]) -> None:
    """Add what belongs to one pair of agents to a bucket.

    Switches are changes of the agent, as in `History.switches`. Where hand-overs take time, one of them is several changes:
    hand-overs are changes of the member who is, or will be, in control.
    """
    prev, agent, steps, overrides = cell[3], cell[4], int(cell[5]), int(cell[6])
    task = team.served.task
    bucket["steps"] += steps
    bucket["overrides"] += overrides
    bucket["control"][names[task.members[task.acting[agent]]]] += steps
    for name, amount in zip(bucket["parts"], cell[7:10], strict=True):
        bucket["parts"][name] += float(amount)
        bucket["cost"] += float(amount)
    bucket["switches"] += steps * (prev != agent)
    giver, taker = task.aim[prev], task.aim[agent]
    if giver != taker:
        bucket["hand_overs"] += steps
        pair = (names[task.members[giver]], names[task.members[taker]])
        bucket["pairs"][pair] = bucket["pairs"].get(pair, 0) + steps
