"""Environments and teams by name, their numbers of episodes, and their counts.

Functions that write take a connection in a write transaction (`Database.write`, `Writer.call`).
"""

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Table, bindparam, func, insert, select

from cede._base import check
from cede.learners.learner import Learner
from cede.rows.stored import Counts, LayerCounts
from cede.serve.names import OF_ENVIRONMENT, OF_TEAM
from cede.serve.served import PlanWork, Served, ServedTeam, stored_layers, unpack
from cede.serve.store.database import Database, Taken, Unknown, now_ms, run
from cede.serve.store.schema import counts, environments, teams

OF_TEAMS = teams.join(environments, environments.c.id == teams.c.environment)
CHANGING = (teams.c.episodes, environments.c.episodes, teams.c.version, teams.c.due, teams.c.fallback, environments.c.erased)
NUMBERS = select(*CHANGING, teams.c.seed).select_from(OF_TEAMS).where(teams.c.id == bindparam("team"))
COUNTS = (
    select(counts.c.layer, counts.c.key, counts.c.n)
    .where(counts.c.kind == bindparam("kind"), counts.c.owner == bindparam("owner"))
    .order_by(counts.c.layer, counts.c.key)
)


@dataclass(frozen=True)
class ServedEnvironment:
    """An environment: its number and name, task and settings of its teams, and its fallback agent."""

    id: int
    name: str
    served: Served
    fallback: int


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
        self._environments: dict[str | int, ServedEnvironment] = {}  # by name and by number
        self._teams: dict[str | int, ServedTeam] = {}  # by name and by number

    def environment(self, key: str | int) -> ServedEnvironment:
        """Return an environment by its name or its number."""
        environment = self._environments.get(key)
        if environment is None:
            row = self._read(environments, "environment", key)
            with self._lock:
                made = ServedEnvironment(row.id, row.name, unpack(row.told), row.fallback)
                environment = self._environments.setdefault(row.name, made)
                self._environments[row.id] = environment
        return environment

    def known_team(self, name: str) -> ServedTeam | None:
        """Return a team by its name if it is cached."""
        return self._teams.get(name)

    def team(self, key: str | int) -> ServedTeam:
        """Return a team by its name or its number."""
        team = self._teams.get(key)
        if team is None:
            row = self._read(teams, "team", key)
            served = self.environment(row.environment).served if row.told is None else unpack(row.told)
            with self._lock:
                team = self._teams.setdefault(row.name, ServedTeam(row.id, row.name, row.environment, served))
                self._teams[row.id] = team
        return team

    def _read(self, table: Table, kind: str, key: str | int) -> Row[Any]:
        """Read a row by its name or its number."""
        column = table.c.name if isinstance(key, str) else table.c.id
        with self.database.read() as connection:
            row = connection.execute(select(table).where(column == key)).first()
        if row is None:
            article = "an" if kind == "environment" else "a"
            raise Unknown(f"{kind}: name is {check.show(key)}, must be that of {article} {kind}")
        return row

    def put_environment(self, connection: Connection, name: str, served: Served, fallback: int) -> bool:
        """Make an environment. Return False if it exists already with the same content; another content is an error."""
        content = {"told": served.packed, "fallback": fallback}
        return put(connection, environments, "an environment", name, content, {"episodes": 0, "created": now_ms()})

    def put_team(self, connection: Connection, name: str, environment: str, served: Served, seed: int, fallback: int) -> bool:
        """Make a team. Return False if it exists already with the same content; another content is an error.

        served: task and settings; the very object of the environment if the team has none of its own.
        """
        home, now = self.environment(environment), now_ms()
        settings = None if served is home.served else served.packed
        content = {"environment": home.id, "told": settings, "seed": seed, "fallback": fallback}
        return put(connection, teams, "a team", name, content, {"episodes": 0, "version": 0, "due": now, "created": now})

    def environment_names(self, after: str, most: int) -> list[dict[str, Any]]:
        """Return names and numbers of environments, ordered by name, from the one after `after` on. unit: of `episodes`."""
        n_teams = select(func.count()).where(teams.c.environment == environments.c.id).scalar_subquery().label("teams")
        query = select(environments.c.name, environments.c.episodes, environments.c.created, n_teams)
        with self.database.read() as connection:
            rows = connection.execute(query.where(environments.c.name > after).order_by(environments.c.name).limit(most)).all()
        return [{**row._mapping, "unit": self.environment(row.name).served.unit} for row in rows]

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
        return [{**row._mapping, "unit": self.environment(row.environment).served.unit} for row in rows]

    def numbers(self, connection: Connection, team: ServedTeam) -> TeamNumbers:
        """Return the numbers of a team that change."""
        return self._numbers(connection, team)[0]

    def _numbers(self, connection: Connection, team: ServedTeam) -> tuple[TeamNumbers, int]:
        """Return the numbers of a team that change, and its seed."""
        row = run(connection, NUMBERS, team=team.id).first()
        if row is None:
            raise Unknown(f"team: name is {check.show(team.name)}, must be that of a team")
        return TeamNumbers(*row[:-1]), row[-1]

    def plan_works(self, connection: Connection, members: Iterable[ServedTeam]) -> list[tuple[PlanWork, int]]:
        """Return for each team the input of its next plan, and the version of its newest plan."""
        result = []
        shared: dict[int, tuple[int, dict[str, LayerCounts]]] = {}  # episodes and counts of environments, by number
        for team in members:
            numbers, seed = self._numbers(connection, team)
            shapes = team.served.shapes
            if team.environment not in shared:
                rows = run(connection, COUNTS, kind=OF_ENVIRONMENT, owner=team.environment)
                shared[team.environment] = numbers.environment_episodes, stored_layers(rows, shapes)
            n, layers = shared[team.environment]
            own = stored_layers(run(connection, COUNTS, kind=OF_TEAM, owner=team.id), shapes)
            counted = Counts({**own, **layers}, numbers.episodes, n).completed(shapes)
            result.append((PlanWork(team.served, seed, counted), numbers.version))
        return result

    def learner(self, connection: Connection, team: ServedTeam) -> Learner:
        """Return a learner with the counts of a team and its environment."""
        [(work, _)] = self.plan_works(connection, [team])
        return Learner(team.served.task, team.served.settings, seed=work.seed, counts=work.counts)


def put(connection: Connection, table: Table, kind: str, name: str, content: dict[str, Any], beginning: dict[str, Any]) -> bool:
    """Make an environment or a team, unless it exists. content: columns that never change. beginning: values of all others."""
    row = connection.execute(select(*(table.c[one] for one in content)).where(table.c.name == name)).first()
    if row is None:
        connection.execute(insert(table).values(name=name, **content, **beginning))
    elif dict(row._mapping) != content:
        raise Taken(f"{kind.split()[1]}: name is {name!r}, must be another one: there is {kind} with other settings")
    return row is None
