"""The tables of the service's database.

    environments 1--n teams 1--n episodes 1--n steps          the log, from which all else follows
    counts                                                    of complete episodes; without a horizon, of all steps
    pieces                                                    parts of runs without a horizon
    plans, policies                                           every plan; the policy of the newest one
    history                                                   costs and control of counted episodes or pieces, in buckets
    tokens                                                    scopes and teams of clients

Without a horizon, an episode is a run of any number of steps, and columns named `episodes` count steps.
Columns of steps are named as in `Learner.observe`. All times are milliseconds since 1970.
"""

from typing import Any

from sqlalchemy import REAL, BigInteger, Column, Double, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text, text

WHOLE = BigInteger().with_variant(Integer(), "sqlite")  # 64 bits in both; strict tables of SQLite need this name
REALS: Any = Double().with_variant(REAL(), "sqlite")
STRICT: dict[str, Any] = {"sqlite_strict": True}
BY_KEY: dict[str, Any] = {"sqlite_strict": True, "sqlite_with_rowid": False}

PIECE = 100  # steps of a piece
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
    Column("fallback", WHOLE, nullable=False),  # the agent that acts while there is no plan
    Column("episodes", WHOLE, nullable=False),  # counted episodes of all teams
    Column("erased", WHOLE, nullable=False, server_default="0"),  # number of erasures of a team's steps
    Column("created", WHOLE, nullable=False),
    **STRICT,
)

teams = Table(
    "teams",
    tables,
    Column("id", WHOLE, primary_key=True, autoincrement=True),
    Column("environment", WHOLE, ForeignKey("environments.id"), nullable=False),
    Column("name", Text, nullable=False, unique=True),
    Column("told", LargeBinary),  # its own task and settings; null: those of its environment
    Column("seed", WHOLE, nullable=False),
    Column("fallback", WHOLE, nullable=False),
    Column("episodes", WHOLE, nullable=False),  # counted episodes
    Column("version", WHOLE, nullable=False),  # of the newest plan; 0: none
    Column("due", WHOLE),  # time since which a plan is due; null: not due
    Column("lease", WHOLE),  # time until which a planner has it
    Column("planner", Text),  # that has it
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
    Column("last", WHOLE, nullable=False),  # greatest t in the log; -1: none
    Column("counted", WHOLE, nullable=False),  # 1: complete and counted; always 0 for a run, whose steps are counted one by one
    Column("begun", WHOLE, nullable=False),
    Column("number", WHOLE, nullable=False, server_default="-1"),  # in the team's history; -1: not there yet
    Column("place", WHOLE, nullable=False, server_default="-1"),  # in the environment's history; -1: not there yet
    Column("key", Text),  # idempotency key of its beginning; null: none
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
    Column("agent", WHOLE, nullable=False),  # that acted
    Column("action", WHOLE, nullable=False),
    Column("next_state", WHOLE, nullable=False),
    Column("cost", REALS),
    Column("enter_cost", REALS),
    Column("chosen", WHOLE),  # agent that was chosen to act
    Column("version", WHOLE),  # of the plan that chose
    Column("reason", Text),  # of the choice: one of log.REASONS
    Column("at", WHOLE),  # client's time
    Column("meta", Text),  # JSON
    Column("received", WHOLE, nullable=False),  # server's time
    **BY_KEY,
)

pieces = Table(
    "pieces",
    tables,
    Column("team", WHOLE, ForeignKey("teams.id"), primary_key=True, autoincrement=False),
    Column("episode", WHOLE, primary_key=True, autoincrement=False),  # the run
    Column("piece", WHOLE, primary_key=True, autoincrement=False),  # t // PIECE
    Column("received", WHOLE, nullable=False),  # steps in the log
    Column("begun", WHOLE, nullable=False),
    Column("summed", WHOLE, nullable=False, server_default="0"),  # steps in the history
    Column("number", WHOLE, nullable=False, server_default="-1"),  # in the team's history; -1: not there yet
    Column("place", WHOLE, nullable=False, server_default="-1"),  # in the environment's history; -1: not there yet
    Index("pieces_waiting", "begun", "team", "episode", "piece", sqlite_where=PIECE_WAITS, postgresql_where=PIECE_WAITS),
    **BY_KEY,
)

counts = Table(
    "counts",
    tables,
    Column("kind", WHOLE, primary_key=True, autoincrement=False),  # of the owner: 0: environment, 1: team
    Column("owner", WHOLE, primary_key=True, autoincrement=False),
    Column("layer", Text, primary_key=True),  # a name of rows/places.py
    Column("key", WHOLE, primary_key=True, autoincrement=False),  # row * columns + column
    Column("n", WHOLE, nullable=False),  # sums of costs in served.UNITS
    **BY_KEY,
)

plans = Table(
    "plans",
    tables,
    Column("id", WHOLE, primary_key=True, autoincrement=True),
    Column("team", WHOLE, ForeignKey("teams.id"), nullable=False),
    Column("version", WHOLE, nullable=False),
    Column("episodes", WHOLE, nullable=False),  # of the team, counted for it
    Column("environment_episodes", WHOLE, nullable=False),  # of all teams of the environment
    Column("made", WHOLE, nullable=False),
    Column("planner", Text, nullable=False),
    Column("reason", Text),  # of its choices, "plan" or "audition"; null: made before schema 3
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
    Column("kind", WHOLE, primary_key=True, autoincrement=False),  # 0: environment, 1: team
    Column("owner", WHOLE, primary_key=True, autoincrement=False),
    Column("size", WHOLE, primary_key=True, autoincrement=False),  # episodes, or pieces, in a bucket: 1, 10, 100, ...
    Column("bucket", WHOLE, primary_key=True, autoincrement=False),
    Column("whose", WHOLE, primary_key=True, autoincrement=False),  # the team whose agents these are; 0: agents of the environment
    Column("prev_agent", WHOLE, primary_key=True, autoincrement=False),  # -1: the row that counts episodes, or steps of pieces
    Column("agent", WHOLE, primary_key=True, autoincrement=False),
    Column("steps", WHOLE, nullable=False),  # in which agent followed prev_agent; or episodes
    Column("overrides", WHOLE, nullable=False),  # steps in which another agent was chosen
    Column("env_cost", REALS, nullable=False),  # sum, with costs of arriving
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
    Column("scopes", Text, nullable=False),  # separated by blanks
    Column("teams", Text),  # names, as JSON; null: all
    Column("created", WHOLE, nullable=False),
    Column("expires", WHOLE),
    Column("revoked", WHOLE),
    **STRICT,
)
