"""The tables of the service's database, and how they are made and upgraded.

    environments 1--n teams 1--n episodes 1--n steps          the log; all else follows from it
    environment_counts, agent_counts                          what complete episodes add up to; without a horizon, all steps
    pieces                                                    of runs without a horizon: how much of each is in the history
    plans, policies                                           every plan that was made; the policy of the newest
    history                                                   what every counted episode or piece cost, and who was in control
    tokens                                                    who may do what

Where there is no horizon, an episode is a run, of any number of steps, and numbers of episodes are numbers of steps.
Names of columns are those of `Learner.observe`. All times are milliseconds since 1970.
"""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

from cede._base import check

WHOLE = BigInteger().with_variant(Integer(), "sqlite")  # 64 bits in both; SQLite's strict tables know it by this name
REALS: Any = Double().with_variant(REAL(), "sqlite")
STRICT: dict[str, Any] = {"sqlite_strict": True}
BY_KEY: dict[str, Any] = {"sqlite_strict": True, "sqlite_with_rowid": False}

WAITS = text("counted = 1 AND place = -1")
PIECE_WAITS = text("received > summed")
KEYED = text("key IS NOT NULL")

tables = MetaData()

environments = Table(
    "environments",
    tables,
    Column("id", WHOLE, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, unique=True),
    Column("told", LargeBinary, nullable=False),  # task and settings of its teams
    Column("fallback", WHOLE, nullable=False),  # the agent that is named while there is no plan
    Column("episodes", WHOLE, nullable=False),  # that were counted, of all teams
    Column("erased", WHOLE, nullable=False, server_default="0"),  # how often steps of some team were erased
    Column("created", WHOLE, nullable=False),
    **STRICT,
)

teams = Table(
    "teams",
    tables,
    Column("id", WHOLE, primary_key=True, autoincrement=True),
    Column("environment", WHOLE, ForeignKey("environments.id"), nullable=False),
    Column("name", Text, nullable=False, unique=True),
    Column("told", LargeBinary),  # its own task and settings; null: those of the environment
    Column("seed", WHOLE, nullable=False),
    Column("fallback", WHOLE, nullable=False),
    Column("episodes", WHOLE, nullable=False),  # that were counted
    Column("version", WHOLE, nullable=False),  # of the newest plan; 0: there is none
    Column("due", WHOLE),  # since when a plan is due; null: none is
    Column("lease", WHOLE),  # until when a planner has it
    Column("planner", Text),  # who has it
    Column("created", WHOLE, nullable=False),
    Index("teams_due", "due"),
    Index("teams_environment", "environment"),
    **STRICT,
)

episodes = Table(
    "episodes",
    tables,
    Column("team", WHOLE, ForeignKey("teams.id"), primary_key=True, autoincrement=False),
    Column("episode", WHOLE, primary_key=True, autoincrement=False),
    Column("length", WHOLE),  # number of steps; null: not known yet
    Column("received", WHOLE, nullable=False),  # steps in the log
    Column("last", WHOLE, nullable=False),  # the greatest t in the log; -1: none
    Column("counted", WHOLE, nullable=False),  # 1 once it was complete and counted; 0 of a run, whose steps are counted one by one
    Column("begun", WHOLE, nullable=False),
    Column("number", WHOLE, nullable=False, server_default="-1"),  # among those of the team, in history; -1: it is not there yet
    Column("place", WHOLE, nullable=False, server_default="-1"),  # among those of the environment, in history
    Column("key", Text),  # under which it was begun, to be able to ask again; null: none
    Index("episodes_key", "team", "key", unique=True, sqlite_where=KEYED, postgresql_where=KEYED),
    Index("episodes_waiting", "begun", "team", "episode", sqlite_where=WAITS, postgresql_where=WAITS),
    **BY_KEY,
)

steps = Table(
    "steps",
    tables,
    Column("team", WHOLE, primary_key=True, autoincrement=False),
    Column("episode", WHOLE, primary_key=True, autoincrement=False),
    Column("t", WHOLE, primary_key=True, autoincrement=False),
    Column("state", WHOLE, nullable=False),
    Column("prev_agent", WHOLE, nullable=False),
    Column("agent", WHOLE, nullable=False),  # who acted
    Column("action", WHOLE, nullable=False),
    Column("next_state", WHOLE, nullable=False),
    Column("cost", REALS),
    Column("enter_cost", REALS),
    Column("chosen", WHOLE),  # who was asked to act
    Column("version", WHOLE),  # of the plan that chose
    Column("reason", Text),  # why, in a word: one of reports.REASONS
    Column("at", WHOLE),  # the client's time
    Column("meta", Text),  # JSON
    Column("received", WHOLE, nullable=False),  # the server's time
    **BY_KEY,
)

pieces = Table(
    "pieces",
    tables,
    Column("team", WHOLE, ForeignKey("teams.id"), primary_key=True, autoincrement=False),
    Column("episode", WHOLE, primary_key=True, autoincrement=False),  # the run
    Column("piece", WHOLE, primary_key=True, autoincrement=False),  # t // pieces.PIECE
    Column("received", WHOLE, nullable=False),  # steps in the log
    Column("begun", WHOLE, nullable=False),
    Column("summed", WHOLE, nullable=False, server_default="0"),  # steps in the history
    Column("number", WHOLE, nullable=False, server_default="-1"),  # among those of the team, in history; -1: it is not there yet
    Column("place", WHOLE, nullable=False, server_default="-1"),  # among those of the environment, in history
    Index("pieces_waiting", "begun", "team", "episode", "piece", sqlite_where=PIECE_WAITS, postgresql_where=PIECE_WAITS),
    **BY_KEY,
)

agent_counts = Table(
    "agent_counts",
    tables,
    Column("team", WHOLE, primary_key=True, autoincrement=False),
    Column("row", WHOLE, primary_key=True, autoincrement=False),
    Column("col", WHOLE, primary_key=True, autoincrement=False),
    Column("n", WHOLE, nullable=False),
    **BY_KEY,
)

environment_counts = Table(
    "environment_counts",
    tables,
    Column("environment", WHOLE, primary_key=True, autoincrement=False),
    Column("layer", WHOLE, primary_key=True, autoincrement=False),  # 0: transitions, 1: sums of costs (counting.UNITS)
    Column("row", WHOLE, primary_key=True, autoincrement=False),
    Column("col", WHOLE, primary_key=True, autoincrement=False),
    Column("n", WHOLE, nullable=False),
    **BY_KEY,
)

plans = Table(
    "plans",
    tables,
    Column("id", WHOLE, primary_key=True, autoincrement=True),
    Column("team", WHOLE, ForeignKey("teams.id"), nullable=False),
    Column("version", WHOLE, nullable=False),
    Column("episodes", WHOLE, nullable=False),  # of the team, that went into it
    Column("environment_episodes", WHOLE, nullable=False),  # of all teams of the environment
    Column("made", WHOLE, nullable=False),
    Column("planner", Text, nullable=False),
    Column("reason", Text),  # why it chooses as it does, "plan" or "audition"; null: it was made before schema 3
    Index("plans_team", "team", "version", unique=True),
    **STRICT,
)

policies = Table(
    "policies",
    tables,
    Column("team", WHOLE, ForeignKey("teams.id"), primary_key=True, autoincrement=False),
    Column("version", WHOLE, nullable=False),
    Column("policy", LargeBinary, nullable=False),  # (L, S, D) or (S, D) int16, C order, compressed by zlib
    **STRICT,
)

history = Table(
    "history",
    tables,
    Column("kind", WHOLE, primary_key=True, autoincrement=False),  # 0: of environments, 1: of teams
    Column("owner", WHOLE, primary_key=True, autoincrement=False),
    Column("size", WHOLE, primary_key=True, autoincrement=False),  # episodes, or pieces, of a bucket: 1, 10, 100, ...
    Column("bucket", WHOLE, primary_key=True, autoincrement=False),
    Column("whose", WHOLE, primary_key=True, autoincrement=False),  # a team with agents of its own; 0: those of the environment
    Column("prev_agent", WHOLE, primary_key=True, autoincrement=False),  # -1: the row that counts episodes, or steps
    Column("agent", WHOLE, primary_key=True, autoincrement=False),
    Column("steps", WHOLE, nullable=False),  # in which this agent came after that one; or episodes
    Column("overrides", WHOLE, nullable=False),  # steps in which another one was chosen
    Column("env_cost", REALS, nullable=False),  # sums; with the cost of arriving
    Column("control_cost", REALS, nullable=False),
    Column("switch_cost", REALS, nullable=False),
    **BY_KEY,
)

tokens = Table(
    "tokens",
    tables,
    Column("id", Text, primary_key=True),
    Column("hash", LargeBinary, nullable=False),  # SHA-256 of the secret
    Column("label", Text, nullable=False),
    Column("scopes", Text, nullable=False),  # with blanks between
    Column("teams", Text),  # names, as JSON; null: all
    Column("created", WHOLE, nullable=False),
    Column("expires", WHOLE),
    Column("revoked", WHOLE),
    **STRICT,
)

LOCK = 0x63656465  # number of the advisory lock under which PostgreSQL is upgraded


def config_for(connection: Connection | None = None) -> Config:
    """Return what Alembic must know to find the migrations."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def check_newest(connection: Connection) -> None:
    """Check that the tables have the newest schema. Nothing is written."""
    found, newest = (
        MigrationContext.configure(connection).get_current_revision(),
        ScriptDirectory.from_config(config_for()).get_current_head(),
    )
    if found != newest:
        got = "missing" if found is None else repr(check.printable(found))
        check.fail("database", "its schema", got, f"{newest!r}: `cede db upgrade` upgrades it, after a backup")


def upgrade(connection: Connection) -> None:
    """Bring the tables to the newest schema, within the write transaction of a connection: all of it happens, or nothing.

    Others wait: SQLite has one writer, PostgreSQL a lock. Which schema there is, is read after the lock was taken.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    script = ScriptDirectory.from_config(config_for())
    known, found = {one.revision for one in script.walk_revisions()}, MigrationContext.configure(connection).get_current_revision()
    if found is not None and found not in known:
        check.fail("database", "its schema", repr(check.printable(found)), f"one of {sorted(known)}: it is of a newer cede")
    if found != script.get_current_head():
        command.upgrade(config_for(connection), "head")
