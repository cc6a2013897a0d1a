"""Schema 3: the reason of a choice, with the plan and with the step."""

from alembic import op
from sqlalchemy import Column, Text

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Add the columns of reasons."""
    for table in ("plans", "steps"):
        op.add_column(table, Column("reason", Text))
