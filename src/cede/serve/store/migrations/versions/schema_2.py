"""Schema 2: cost and control of episodes, in buckets."""

from typing import Any

from alembic import op
from sqlalchemy import REAL, BigInteger, Column, Double, Integer, text

revision = "2"
down_revision = "1"

WHOLE = BigInteger().with_variant(Integer(), "sqlite")
REALS: Any = Double().with_variant(REAL(), "sqlite")


def upgrade() -> None:
    """Add the table of sums, and the places of episodes in it."""
    for name in ("number", "place"):
        op.add_column("episodes", Column(name, WHOLE, nullable=False, server_default="-1"))
    waits = text("counted = 1 AND place = -1")
    op.create_index("episodes_waiting", "episodes", ["begun", "team", "episode"], sqlite_where=waits, postgresql_where=waits)
    keys = ("kind", "owner", "size", "bucket", "whose", "prev_agent", "agent")
    op.create_table(
        "history",
        *(Column(name, WHOLE, primary_key=True, autoincrement=False) for name in keys),
        *(Column(name, WHOLE, nullable=False) for name in ("steps", "overrides")),
        *(Column(name, REALS, nullable=False) for name in ("env_cost", "control_cost", "switch_cost")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
