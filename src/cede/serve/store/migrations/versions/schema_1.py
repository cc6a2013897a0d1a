"""Schema 1: the first one."""

from typing import Any

from alembic import op
from sqlalchemy import REAL, BigInteger, Column, Double, ForeignKey, Integer, LargeBinary, Text

revision = "1"
down_revision = None

WHOLE = BigInteger().with_variant(Integer(), "sqlite")
REALS: Any = Double().with_variant(REAL(), "sqlite")


def upgrade() -> None:
    """Make all tables."""
    strict, by_key = {"sqlite_strict": True}, {"sqlite_strict": True, "sqlite_with_rowid": False}
    op.create_table(
        "environments",
        number("id", primary_key=True, autoincrement=True),
        Column("name", Text, nullable=False, unique=True),
        Column("told", LargeBinary, nullable=False),
        *(number(name) for name in ("fallback", "episodes", "created")),
        **strict,
    )
    op.create_table(
        "teams",
        number("id", primary_key=True, autoincrement=True),
        Column("environment", WHOLE, ForeignKey("environments.id"), nullable=False),
        Column("name", Text, nullable=False, unique=True),
        Column("told", LargeBinary),
        *(number(name) for name in ("seed", "fallback", "episodes", "version")),
        *(Column(name, WHOLE) for name in ("due", "lease")),
        Column("planner", Text),
        number("created"),
        **strict,
    )
    op.create_index("teams_due", "teams", ["due"])
    op.create_index("teams_environment", "teams", ["environment"])
    op.create_table(
        "episodes",
        Column("team", WHOLE, ForeignKey("teams.id"), primary_key=True, autoincrement=False),
        key("episode"),
        Column("length", WHOLE),
        *(number(name) for name in ("received", "last", "counted", "begun")),
        **by_key,
    )
    op.create_table(
        "steps",
        *(key(name) for name in ("team", "episode", "t")),
        *(number(name) for name in ("state", "prev_agent", "agent", "action", "next_state")),
        *(Column(name, REALS) for name in ("cost", "enter_cost")),
        *(Column(name, WHOLE) for name in ("chosen", "version", "at")),
        Column("meta", Text),
        number("received"),
        **by_key,
    )
    op.create_table("agent_counts", *(key(name) for name in ("team", "row", "col")), number("n"), **by_key)
    op.create_table("environment_counts", *(key(name) for name in ("environment", "layer", "row", "col")), number("n"), **by_key)
    op.create_table(
        "plans",
        number("id", primary_key=True, autoincrement=True),
        Column("team", WHOLE, ForeignKey("teams.id"), nullable=False),
        *(number(name) for name in ("version", "episodes", "environment_episodes", "made")),
        Column("planner", Text, nullable=False),
        **strict,
    )
    op.create_index("plans_team", "plans", ["team", "version"], unique=True)
    op.create_table(
        "policies",
        Column("team", WHOLE, ForeignKey("teams.id"), primary_key=True, autoincrement=False),
        number("version"),
        Column("policy", LargeBinary, nullable=False),
        **strict,
    )
    op.create_table(
        "tokens",
        Column("id", Text, primary_key=True),
        Column("hash", LargeBinary, nullable=False),
        *(Column(name, Text, nullable=False) for name in ("label", "scopes")),
        Column("teams", Text),
        number("created"),
        *(Column(name, WHOLE) for name in ("expires", "revoked")),
        **strict,
    )


def number(name: str, **more: bool) -> Column[int]:
    """Return a column of whole numbers that is not null."""
    return Column(name, WHOLE, nullable=False, **more)  # type: ignore[arg-type]


def key(name: str) -> Column[int]:
    """Return a column of whole numbers in the primary key."""
    return number(name, primary_key=True, autoincrement=False)
