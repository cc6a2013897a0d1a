"""Runs migrations on the connection that `database.upgrade_schema` gives, within its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
