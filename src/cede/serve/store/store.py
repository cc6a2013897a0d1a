"""Environments and teams by name, their numbers of episodes, and their counts.

Functions that write take a connection in a write transaction (`Database.write`, `Writer.call`).
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, func, insert, select

from cede._base import check
from cede._base.arrays import Ints
from cede.learners.learner import Learner
from cede.serve.planner.work import PlanWork, Served, ServedTeam, unpack
from cede.serve.store.database import Database, Taken, Unknown, now_ms, run
from cede.serve.store.schema import agent_counts, environment_counts, environments, episodes, steps, teams

STARTS = 10_000  # newest episodes of a team whose first states are counted, for estimates
OF_TEAM = teams.join(environments, environments.c.id == teams.c.environment)
OWN = teams.c.id == bindparam("team")
CHANGING = (teams.c.episodes, environments.c.episodes, teams.c.version, teams.c.due, teams.c.fallback, environments.c.erased)
NUMBERS = select(*CHANGING).select_from(OF_TEAM).where(OWN)
SEED = select(teams.c.seed).where(OWN)
AGENT_CELLS = select(agent_counts.c.row, agent_counts.c.col, agent_counts.c.n).where(agent_counts.c.team == bindparam("team"))
AGENT_CELLS = AGENT_CELLS.order_by(agent_counts.c.row, agent_counts.c.col)
OF_CELL = (environment_counts.c.layer, environment_counts.c.row, environment_counts.c.col)
ENVIRONMENT_CELLS = select(*OF_CELL, environment_counts.c.n).order_by(*OF_CELL)
ENVIRONMENT_CELLS = ENVIRONMENT_CELLS.where(environment_counts.c.environment == bindparam("environment"))


@dataclass(frozen=True)
class TeamNumbers:
    """Numbers of a team that change."""

    episodes: int  # counted; steps without a horizon
    environment_episodes: int  # of all teams of its environment
    version: int  # of its newest plan; 0: none
    due: int | None  # time since which a plan is due
    fallback: int  # the agent that acts while there is no plan
    erased: int  # number of erasures in its environment


class Store:
    """Environments and teams of a database. Thread-safe. Names, tasks and settings never change, and are cached once read."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._lock = threading.Lock()
        self._environments: dict[str, tuple[int, Served, int]] = {}
        self._teams: dict[str, ServedTeam] = {}
        self._by_id: dict[int, ServedTeam] = {}

    # ------------------------------------------------------------------------------------------------- environments

    def environment(self, name: str) -> tuple[int, Served, int]:
        """Return the number of an environment, its task and settings, and its fallback agent."""
        found = self._environments.get(name)
        if found is None:
            columns = (environments.c.id, environments.c.told, environments.c.fallback)
            with self.database.read() as connection:
                row = connection.execute(select(*columns).where(environments.c.name == name)).first()
            if row is None:
                raise Unknown(f"environment: name is {check.show(name)}, must be that of an environment")
            with self._lock:
                found = self._environments.setdefault(name, (row.id, unpack(bytes(row.told)), row.fallback))
        return found

    def put_environment(self, connection: Connection, name: str, served: Served, fallback: int) -> bool:
        """Make an environment. Return False if it exists already with the same content; another content is an error."""
        values = {"told": served.packed, "fallback": fallback}
        row = connection.execute(select(*(environments.c[one] for one in values)).where(environments.c.name == name)).first()
        if row is not None:
            if (bytes(row.told), row.fallback) != tuple(values.values()):
                raise Taken(f"environment: name is {name!r}, must be another one: there is an environment with other settings")
            return False
        connection.execute(insert(environments).values(name=name, **values, episodes=0, created=now_ms()))
        return True

    def environment_names(self, after: str, most: int) -> list[dict[str, Any]]:
        """Return names and numbers of environments, ordered by name, from the one after `after` on. unit: of `episodes`."""
        n_teams = select(func.count()).where(teams.c.environment == environments.c.id).scalar_subquery().label("teams")
        found = select(environments.c.name, environments.c.episodes, environments.c.created, n_teams)
        with self.database.read() as connection:
            rows = connection.execute(found.where(environments.c.name > after).order_by(environments.c.name).limit(most)).all()
        return [{**row._mapping, "unit": self.environment(row.name)[1].unit} for row in rows]

    # ------------------------------------------------------------------------------------------------- teams

    def known_team(self, name: str) -> ServedTeam | None:
        """Return a team by its name if it is cached."""
        return self._teams.get(name)

    def team(self, name: str) -> ServedTeam:
        """Return a team by its name."""
        found = self._teams.get(name)
        return found if found is not None else self._read_team(teams.c.name, name)

    def team_of(self, number: int) -> ServedTeam:
        """Return a team by its number."""
        found = self._by_id.get(number)
        return found if found is not None else self._read_team(teams.c.id, number)

    def _read_team(self, column: Any, key: Any) -> ServedTeam:
        """Read a team by a column, and cache it."""
        columns = (teams.c.id, teams.c.name, teams.c.environment, teams.c.told, environments.c.name.label("home"))
        with self.database.read() as connection:
            row = connection.execute(select(*columns).select_from(OF_TEAM).where(column == key)).first()
        if row is None:
            raise Unknown(f"team: name is {check.show(key)}, must be that of a team")
        served = self.environment(row.home)[1] if row.told is None else unpack(bytes(row.told))
        with self._lock:
            team = self._teams.setdefault(row.name, ServedTeam(row.id, row.name, row.environment, served))
            self._by_id[team.id] = team
        return team

    def put_team(self, connection: Connection, name: str, environment: str, served: Served, seed: int, fallback: int) -> bool:
        """Make a team. Return False if it exists already with the same content; another content is an error.

        served: task and settings; the very object of the environment if the team has none of its own.
        """
        number, common, _ = self.environment(environment)
        settings = None if served is common else served.packed
        values = {"environment": number, "told": settings, "seed": seed, "fallback": fallback}
        row = connection.execute(select(*(teams.c[one] for one in values)).where(teams.c.name == name)).first()
        if row is not None:
            if {**row._mapping, "told": None if row.told is None else bytes(row.told)} != values:
                raise Taken(f"team: name is {name!r}, must be another one: there is a team with other settings")
            return False
        now = now_ms()
        connection.execute(insert(teams).values(name=name, **values, episodes=0, version=0, due=now, created=now))
        return True

    def find_teams(
        self, environment: str | None, search: str, after: str, most: int, only: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return teams whose names contain a text, ordered by name, from the one after `after` on.

        environment: of the teams; None: any. only: names that may be seen; None: all. unit: of their `episodes`.
        """
        name, home = teams.c.name, environments.c.name.label("environment")
        found = select(name, home, teams.c.episodes, teams.c.version, teams.c.created).select_from(OF_TEAM)
        found = found.where(name > after, func.lower(name).contains(search.lower(), autoescape=True)).order_by(name).limit(most)
        if environment is not None:
            found = found.where(environments.c.name == environment)
        with self.database.read() as connection:
            if only is None:
                rows = list(connection.execute(found))
            else:
                rows = [row for one in sorted(only) for row in connection.execute(found.where(name == one))][:most]
        return [{**row._mapping, "unit": self.environment(row.environment)[1].unit} for row in rows]

    def numbers(self, connection: Connection, team: ServedTeam) -> TeamNumbers:
        """Return the numbers of a team that change."""
        row = run(connection, NUMBERS, team=team.id).first()
        if row is None:
            raise Unknown(f"team: name is {check.show(team.name)}, must be that of a team")
        return TeamNumbers(*row)

    # ------------------------------------------------------------------------------------------------- counts

    def plan_work(
        self, connection: Connection, team: ServedTeam, shared: dict[int, tuple[int, Ints]] | None = None
    ) -> tuple[PlanWork, int]:
        """Return the input of a team's next plan, and the version of its newest plan.

        shared: a cache of environments that were read in this transaction, by number; it is added to.
        """
        numbers, seed = self.numbers(connection, team), run(connection, SEED, team=team.id).scalar()
        cache = {} if shared is None else shared
        if team.environment not in cache:
            cache[team.environment] = (numbers.environment_episodes, self.environment_cells(connection, team.environment))
        n, cells = cache[team.environment]
        return PlanWork(team.served, seed, self.agent_cells(connection, team), cells, numbers.episodes, n), numbers.version

    def learner(self, connection: Connection, team: ServedTeam) -> Learner:
        """Return a learner with the counts of a team and its environment."""
        work, _ = self.plan_work(connection, team)
        return work.learner(None if team.served.endless else self.starts(connection, team))

    def agent_cells(self, connection: Connection, team: ServedTeam) -> Ints:
        """Return the counts of a team's agents: (n, 3) row, column, n, in order."""
        rows = run(connection, AGENT_CELLS, team=team.id).all()
        return np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=3 * len(rows)).reshape(-1, 3)

    def environment_cells(self, connection: Connection, environment: int) -> Ints:
        """Return the counts of an environment: (n, 4) layer, row, column, n, in order."""
        rows = run(connection, ENVIRONMENT_CELLS, environment=environment).all()
        return np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=4 * len(rows)).reshape(-1, 4)

    def starts(self, connection: Connection, team: ServedTeam) -> Ints:
        """Return how often each state began an episode of a team, (S,), in its newest STARTS counted episodes."""
        counted = select(episodes.c.episode).where(episodes.c.team == team.id, episodes.c.counted == 1)
        newest = counted.order_by(episodes.c.episode.desc()).limit(STARTS).subquery()
        found = select(steps.c.state, func.count()).join(newest, newest.c.episode == steps.c.episode)
        result = np.zeros(team.served.task.n_states, dtype=np.int64)
        for state, n in connection.execute(found.where(steps.c.team == team.id, steps.c.t == 0).group_by(steps.c.state)):
            result[state] = n
        return result
