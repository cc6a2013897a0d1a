"""Schema 3: keys under which episodes were begun, so that a beginning can be asked for again."""

from alembic import op
from sqlalchemy import Column, Text, text

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Add the keys of episodes; each is used once in its team."""
    op.add_column("episodes", Column("key", Text))
    given = text("key IS NOT NULL")
    op.create_index("episodes_key", "episodes", ["team", "key"], unique=True, sqlite_where=given, postgresql_where=given)
