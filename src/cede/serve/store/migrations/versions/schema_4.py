"""Schema 4: counts have the layers and keys of stored counts. First states of episodes are counted, too."""

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Connection, Integer, Select, Text, column, func, insert, literal, select, table

from cede.rows.places import AGENT, COSTS, ENVIRONMENT, START
from cede.serve.served import unpack

revision = "4"
down_revision = "3"

WHOLE = BigInteger().with_variant(Integer(), "sqlite")
KEY = ("kind", "owner", "layer", "key")
environments = table("environments", *map(column, ("id", "told")))
teams = table("teams", *map(column, ("id", "environment", "told")))
episodes = table("episodes", *map(column, ("team", "episode", "counted")))
steps = table("steps", *map(column, ("team", "episode", "t", "state")))
agent_counts = table("agent_counts", *(column(name, WHOLE) for name in ("team", "row", "col", "n")))
environment_counts = table("environment_counts", *(column(name, WHOLE) for name in ("environment", "layer", "row", "col", "n")))
counts = table("counts", *map(column, (*KEY, "n")))


def upgrade() -> None:
    """Make the table of counts, fill it from the two tables of cells and from the log, and drop the two."""
    op.create_table(
        "counts",
        *(Column(name, Text if name == "layer" else WHOLE, primary_key=True, autoincrement=False) for name in KEY),
        Column("n", WHOLE, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    connection = op.get_bind()
    for number, settings in connection.execute(select(environments.c.id, environments.c.told)).all():
        copy_environment(connection, number, bytes(settings))
        common = select(teams.c.id).where(teams.c.environment == number, teams.c.told.is_(None))
        copy_agents(connection, common, bytes(settings))
    for number, settings in connection.execute(select(teams.c.id, teams.c.told).where(teams.c.told.is_not(None))).all():
        copy_agents(connection, select(teams.c.id).where(teams.c.id == number), bytes(settings))
    add(connection, first_states())
    op.drop_table("agent_counts")
    op.drop_table("environment_counts")


def add(connection: Connection, rows: Any) -> None:
    """Insert the rows of a query into the table of counts."""
    connection.execute(insert(counts).from_select((*KEY, "n"), rows))


def copy_environment(connection: Connection, number: int, settings: bytes) -> None:
    """Copy the cells of an environment. In the old table, layer 0 has transitions, and layer 1 sums of costs."""
    shapes, c = unpack(settings).shapes, environment_counts.c
    for old, layer in ((0, ENVIRONMENT), (1, COSTS)):
        rows = select(literal(0), c.environment, literal(layer), c.row * shapes[layer][1] + c.col, c.n)
        add(connection, rows.where(c.environment == number, c.layer == old))


def copy_agents(connection: Connection, members: Select[Any], settings: bytes) -> None:
    """Copy the cells of teams with the same task. In the old table, the rows of all agents are below one another."""
    first, c = 0, agent_counts.c
    for layer, (n_rows, n_columns) in unpack(settings).shapes.items():
        if layer.startswith(AGENT):
            rows = select(literal(1), c.team, literal(layer), (c.row - first) * n_columns + c.col, c.n)
            add(connection, rows.where(c.team.in_(members), c.row >= first, c.row < first + n_rows))
            first += n_rows


def first_states() -> Select[Any]:
    """Return the query for the first states of counted episodes. Runs without a horizon are not among these."""
    log = steps.join(episodes, (episodes.c.team == steps.c.team) & (episodes.c.episode == steps.c.episode))
    query = select(literal(1), steps.c.team, literal(START), steps.c.state, func.count()).select_from(log)
    return query.where(episodes.c.counted == 1, steps.c.t == 0).group_by(steps.c.team, steps.c.state)
