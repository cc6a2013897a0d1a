"""Schema 3: pieces of runs without a horizon, reasons of choices, and idempotency keys of episodes."""

from alembic import op
from sqlalchemy import BigInteger, Column, ForeignKey, Integer, Text, text

revision = "3"
down_revision = "2"

WHOLE = BigInteger().with_variant(Integer(), "sqlite")


def upgrade() -> None:
    """Add the table of pieces of runs, reasons, numbers of erasures, and idempotency keys, unique within a team."""
    op.create_table(
        "pieces",
        Column("team", WHOLE, ForeignKey("teams.id"), primary_key=True, autoincrement=False),
        *(Column(name, WHOLE, primary_key=True, autoincrement=False) for name in ("episode", "piece")),
        *(Column(name, WHOLE, nullable=False) for name in ("received", "begun")),
        Column("summed", WHOLE, nullable=False, server_default="0"),
        *(Column(name, WHOLE, nullable=False, server_default="-1") for name in ("number", "place")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    waits = text("received > summed")
    op.create_index("pieces_waiting", "pieces", ["begun", "team", "episode", "piece"], sqlite_where=waits, postgresql_where=waits)
    for table in ("plans", "steps"):
        op.add_column(table, Column("reason", Text))
    op.add_column("environments", Column("erased", WHOLE, nullable=False, server_default="0"))
    op.add_column("episodes", Column("key", Text))
    given = text("key IS NOT NULL")
    op.create_index("episodes_key", "episodes", ["team", "key"], unique=True, sqlite_where=given, postgresql_where=given)
