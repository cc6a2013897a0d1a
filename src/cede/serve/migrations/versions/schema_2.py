"""Schema 2: what every episode cost, and who was in control."""

from typing import Any

from alembic import op
from sqlalchemy import REAL, BigInteger, Column, Double, Integer, text

revision = "2"
down_revision = "1"

WHOLE = BigInteger().with_variant(Integer(), "sqlite")
REALS: Any = Double().with_variant(REAL(), "sqlite")


def upgrade() -> None:
    """Add the table of sums, and the mark of episodes that are in it."""
    op.add_column("episodes", Column("summed", WHOLE, nullable=False, server_default="0"))
    waits = text("counted = 1 AND summed = 0")
    op.create_index("episodes_waiting", "episodes", ["begun", "team", "episode"], sqlite_where=waits, postgresql_where=waits)
    op.create_table(
        "history",
        *(Column(name, WHOLE, primary_key=True, autoincrement=False) for name in ("environment", "place", "prev_agent", "agent")),
        *(Column(name, WHOLE, nullable=False) for name in ("team", "number", "episode", "begun", "steps", "overrides")),
        *(Column(name, REALS, nullable=False) for name in ("env_cost", "control_cost", "switch_cost")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("history_team", "history", ["team", "number"])
