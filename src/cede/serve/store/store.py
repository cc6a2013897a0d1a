"""Environments and teams by name, their numbers of episodes, and their counts.

Functions that write take a connection in a write transaction (`Database.write`, `Writer.call`).
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select

from cede._base import check
from cede.learners.learner import Learner
from cede.rows.stored import Counts, LayerCounts
from cede.serve.served import OF_ENVIRONMENT, OF_TEAM, PlanWork, Served, ServedTeam, stored_layers, unpack
from cede.serve.store.database import Database, Taken, Unknown, now_ms, run
from cede.serve.store.schema import counts, environments, teams

Layers = dict[str, LayerCounts]  # by name
OF_TEAMS = teams.join(environments, environments.c.id == teams.c.environment)
OWN = teams.c.id == bindparam("team")
CHANGING = (teams.c.episodes, environments.c.episodes, teams.c.version, teams.c.due, teams.c.fallback, environments.c.erased)
NUMBERS = select(*CHANGING).select_from(OF_TEAMS).where(OWN)
SEED = select(teams.c.seed).where(OWN)
COUNTS = (
    select(counts.c.layer, counts.c.key, counts.c.n)
    .where(counts.c.kind == bindparam("kind"), counts.c.owner == bindparam("owner"))
    .order_by(counts.c.layer, counts.c.key)
)


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
        known = self._environments.get(name)
        if known is None:
            columns = (environments.c.id, environments.c.told, environments.c.fallback)
            with self.database.read() as connection:
                row = connection.execute(select(*columns).where(environments.c.name == name)).first()
            if row is None:
                raise Unknown(f"environment: name is {check.show(name)}, must be that of an environment")
            with self._lock:
                known = self._environments.setdefault(name, (row.id, unpack(bytes(row.told)), row.fallback))
        return known

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
        query = select(environments.c.name, environments.c.episodes, environments.c.created, n_teams)
        with self.database.read() as connection:
            rows = connection.execute(query.where(environments.c.name > after).order_by(environments.c.name).limit(most)).all()
        return [{**row._mapping, "unit": self.environment(row.name)[1].unit} for row in rows]

    # ------------------------------------------------------------------------------------------------- teams

    def known_team(self, name: str) -> ServedTeam | None:
        """Return a team by its name if it is cached."""
        return self._teams.get(name)

    def team(self, name: str) -> ServedTeam:
        """Return a team by its name."""
        known = self._teams.get(name)
        return known if known is not None else self._read_team(teams.c.name, name)

    def team_of(self, number: int) -> ServedTeam:
        """Return a team by its number."""
        known = self._by_id.get(number)
        return known if known is not None else self._read_team(teams.c.id, number)

    def _read_team(self, column: Any, key: Any) -> ServedTeam:
        """Read a team by a column, and cache it."""
        columns = (teams.c.id, teams.c.name, teams.c.environment, teams.c.told, environments.c.name.label("home"))
        with self.database.read() as connection:
            row = connection.execute(select(*columns).select_from(OF_TEAMS).where(column == key)).first()
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
        query = select(name, home, teams.c.episodes, teams.c.version, teams.c.created).select_from(OF_TEAMS)
        query = query.where(name > after, func.lower(name).contains(search.lower(), autoescape=True)).order_by(name).limit(most)
        if environment is not None:
            query = query.where(environments.c.name == environment)
        with self.database.read() as connection:
            if only is None:
                rows = list(connection.execute(query))
            else:
                rows = [row for one in sorted(only) for row in connection.execute(query.where(name == one))][:most]
        return [{**row._mapping, "unit": self.environment(row.environment)[1].unit} for row in rows]

    def numbers(self, connection: Connection, team: ServedTeam) -> TeamNumbers:
        """Return the numbers of a team that change."""
        row = run(connection, NUMBERS, team=team.id).first()
        if row is None:
            raise Unknown(f"team: name is {check.show(team.name)}, must be that of a team")
        return TeamNumbers(*row)

    # ------------------------------------------------------------------------------------------------- counts

    def plan_work(
        self, connection: Connection, team: ServedTeam, shared: dict[int, tuple[int, Layers]] | None = None
    ) -> tuple[PlanWork, int]:
        """Return the input of a team's next plan, and the version of its newest plan.

        shared: a cache of environments that were read in this transaction, by number; it is added to.
        """
        numbers, seed = self.numbers(connection, team), run(connection, SEED, team=team.id).scalar()
        cache, shapes = {} if shared is None else shared, team.served.shapes
        if team.environment not in cache:
            rows = run(connection, COUNTS, kind=OF_ENVIRONMENT, owner=team.environment)
            cache[team.environment] = numbers.environment_episodes, stored_layers(rows, shapes)
        n, layers = cache[team.environment]
        own = stored_layers(run(connection, COUNTS, kind=OF_TEAM, owner=team.id), shapes)
        return PlanWork(team.served, seed, Counts({**own, **layers}, numbers.episodes, n).completed(shapes)), numbers.version

    def learner(self, connection: Connection, team: ServedTeam) -> Learner:
        """Return a learner with the counts of a team and its environment."""
        work, _ = self.plan_work(connection, team)
        return Learner(team.served.task, team.served.settings, seed=work.seed, counts=work.counts)
