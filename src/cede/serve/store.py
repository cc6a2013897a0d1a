"""The store: environments and teams by name, what is known of them, and what is counted.

Functions that write take a connection in a write transaction (`Database.write`, `Writer.call`); those that read open their own.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection

from cede._base import check
from cede._base.arrays import Ints
from cede.serve.counting import Cells
from cede.serve.database import Database, run
from cede.serve.log import Accepted, take_in
from cede.serve.reports import Refused, Report, Team
from cede.serve.served import Served, unpack

MOST_GIVEN = 2**52  # numbers of episodes that the service gives are below; clients may choose larger ones, which change nothing
STARTS = 10_000  # episodes of a team whose first states are counted, for estimates


class Unknown(ValueError):
    """A name that is not there."""


class Taken(ValueError):
    """A name that is there, with another content."""


@dataclass(frozen=True)
class TeamNumbers:
    """What changes of a team."""

    episodes: int  # that were counted; without a horizon, steps
    environment_episodes: int  # of all teams of its environment
    version: int  # of its newest plan, 0: there is none
    due: int | None  # since when a plan is due
    fallback: int  # the agent that is named while there is no plan
    erased: int  # how often steps were erased in its environment


def now_ms() -> int:
    """Return the time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Store:
    """Environments and teams of a database. It is safe in several threads.

    What never changes, names, tasks and settings, is kept in memory once it was read.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._lock = threading.Lock()
        self._environments: dict[str, tuple[int, Served, int]] = {}
        self._teams: dict[str, Team] = {}
        self._by_id: dict[int, Team] = {}

    # ------------------------------------------------------------------------------------------------- environments

    def environment(self, name: str) -> tuple[int, Served, int]:
        """Return the number of an environment, its task and settings, and its fallback agent."""
        found = self._environments.get(name)
        if found is None:
            with self.database.read() as connection:
                row = run(connection, "SELECT id, told, fallback FROM environments WHERE name = ?", (name,)).first()
            if row is None:
                raise Unknown(f"environment: name is {check.show(name)}, must be that of an environment")
            with self._lock:
                found = self._environments.setdefault(name, (row[0], unpack(bytes(row[1])), row[2]))
        return found

    def put_environment(self, connection: Connection, name: str, served: Served, fallback: int) -> bool:
        """Make an environment; return False if it is there already, the same. Another one of that name is an error."""
        row = run(connection, "SELECT told, fallback FROM environments WHERE name = ?", (name,)).first()
        if row is not None:
            if (bytes(row[0]), row[1]) != (served.packed, fallback):
                raise Taken(f"environment: name is {name!r}, must be another one: there is an environment with other settings")
            return False
        values = (name, served.packed, fallback, 0, now_ms())
        run(connection, "INSERT INTO environments (name, told, fallback, episodes, created) VALUES (?, ?, ?, ?, ?)", values)
        return True

    def environment_names(self, after: str, most: int) -> list[dict[str, Any]]:
        """Return names and numbers of environments, in the order of names, from the one after `after` on.

        unit: what `episodes` counts, steps where there is no horizon.
        """
        sql = """SELECT e.name, e.episodes, e.created, (SELECT COUNT(*) FROM teams t WHERE t.environment = e.id)
            FROM environments e WHERE e.name > ? ORDER BY e.name LIMIT ?"""
        with self.database.read() as connection:
            rows = run(connection, sql, (after, most)).all()
        found = [dict(zip(("name", "episodes", "created", "teams"), row, strict=True)) for row in rows]
        return [{**one, "unit": self.environment(one["name"])[1].unit} for one in found]

    # ------------------------------------------------------------------------------------------------- teams

    def known_team(self, name: str) -> Team | None:
        """Return a team by its name if it is in memory."""
        return self._teams.get(name)

    def team(self, name: str) -> Team:
        """Return a team by its name."""
        found = self._teams.get(name)
        return found if found is not None else self._read_team("t.name", name)

    def team_of(self, number: int) -> Team:
        """Return a team by its number."""
        found = self._by_id.get(number)
        return found if found is not None else self._read_team("t.id", number)

    def _read_team(self, by: str, key: Any) -> Team:
        """Read a team, and keep it."""
        sql = f"""SELECT t.id, t.name, t.environment, t.told, e.name
            FROM teams t JOIN environments e ON e.id = t.environment WHERE {by} = ?"""
        with self.database.read() as connection:
            row = run(connection, sql, (key,)).first()
        if row is None:
            raise Unknown(f"team: name is {check.show(key)}, must be that of a team")
        served = self.environment(row[4])[1] if row[3] is None else unpack(bytes(row[3]))
        with self._lock:
            team = self._teams.setdefault(row[1], Team(row[0], row[1], row[2], served))
            self._by_id[team.id] = team
        return team

    def put_team(self, connection: Connection, name: str, environment: str, served: Served, seed: int, fallback: int) -> bool:
        """Make a team; return False if it is there already, the same. Another one of that name is an error.

        served: task and settings; the very object of the environment if the team has none of its own.
        """
        place, common, _ = self.environment(environment)
        told = None if served is common else served.packed
        row = run(connection, "SELECT environment, told, seed, fallback FROM teams WHERE name = ?", (name,)).first()
        if row is not None:
            if (row[0], None if row[1] is None else bytes(row[1]), row[2], row[3]) != (place, told, seed, fallback):
                raise Taken(f"team: name is {name!r}, must be another one: there is a team with other settings")
            return False
        sql = """INSERT INTO teams (environment, name, told, seed, fallback, episodes, version, due, created)
            VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?)"""
        run(connection, sql, (place, name, told, seed, fallback, now_ms(), now_ms()))
        return True

    def team_names(self, environment: str | None, after: str, most: int) -> list[dict[str, Any]]:
        """Return names and numbers of teams, in the order of names, from the one after `after` on. environment: None: of all."""
        sql = """SELECT t.name, e.name, t.episodes, t.version, t.created FROM teams t JOIN environments e ON e.id = t.environment
            WHERE t.name > ? AND (e.name = ? OR ? = 1) ORDER BY t.name LIMIT ?"""
        with self.database.read() as connection:
            rows = run(connection, sql, (after, environment or "", int(environment is None), most)).all()
        return [dict(zip(("name", "environment", "episodes", "version", "created"), row, strict=True)) for row in rows]

    def numbers(self, connection: Connection, team: Team) -> TeamNumbers:
        """Return what changes of a team."""
        sql = """SELECT t.episodes, e.episodes, t.version, t.due, t.fallback, e.erased
            FROM teams t JOIN environments e ON e.id = t.environment WHERE t.id = ?"""
        row = run(connection, sql, (team.id,)).first()
        if row is None:
            raise Unknown(f"team: name is {check.show(team.name)}, must be that of a team")
        return TeamNumbers(*row)

    def begin(self, connection: Connection, team: Team, key: str | None = None) -> tuple[int, bool]:
        """Begin an episode under a number that the team has not used; return the number, and whether it is new.

        key: whoever begins under the same key again gets the same number. Others who begin for this team wait meanwhile.
        """
        lock = " FOR UPDATE" if connection.dialect.name == "postgresql" else ""
        run(connection, f"SELECT id FROM teams WHERE id = ?{lock}", (team.id,))
        if key is not None:
            found = run(connection, 'SELECT episode FROM episodes WHERE team = ? AND "key" = ?', (team.id, key)).scalar()
            if found is not None:
                return int(found), False
        sql = "SELECT COALESCE(MAX(episode) + 1, 0) FROM episodes WHERE team = ? AND episode < ?"
        number = int(run(connection, sql, (team.id, MOST_GIVEN)).scalar())
        if number >= MOST_GIVEN:
            check.fail("begin", "episode", "missing", "given: this team has no number left that the service could give")
        [result], _ = self.take_in(connection, [Report((), (), ((team.id, number),))])
        if isinstance(result, Refused):
            raise result
        if key is not None:
            run(connection, 'UPDATE episodes SET "key" = ? WHERE team = ? AND episode = ?', (key, team.id, number))
        return number, True

    # ------------------------------------------------------------------------------------------------- counts

    def take_in(self, connection: Connection, reports: Sequence[Report]) -> tuple[list[Accepted | Refused], dict[int, int]]:
        """Take in reports; see `log.take_in`."""
        return take_in(connection, reports, self.team_of, now_ms())

    def agent_cells(self, connection: Connection, team: Team) -> Cells:
        """Return what was counted of the agents of a team: (row, column, n), in order."""
        sql = 'SELECT "row", col, n FROM agent_counts WHERE team = ? ORDER BY "row", col'
        return [tuple(row) for row in run(connection, sql, (team.id,))]

    def starts(self, connection: Connection, team: Team) -> Ints:
        """Return how often each state was the first of an episode of a team, (S,), in the last STARTS that were counted."""
        sql = """SELECT s.state, COUNT(*) FROM (SELECT episode FROM episodes WHERE team = ? AND counted = 1
            ORDER BY episode DESC LIMIT ?) e JOIN steps s ON s.team = ? AND s.episode = e.episode AND s.t = 0 GROUP BY s.state"""
        result = np.zeros(team.served.task.n_states, dtype=np.int64)
        for state, n in run(connection, sql, (team.id, STARTS, team.id)):
            result[state] = n
        return result

    def environment_cells(self, connection: Connection, environment: int) -> Cells:
        """Return what was counted of an environment: (layer, row, column, n), in order."""
        sql = 'SELECT layer, "row", col, n FROM environment_counts WHERE environment = ? ORDER BY layer, "row", col'
        return [tuple(row) for row in run(connection, sql, (environment,))]
