"""Reads the log for people: lists of episodes and steps, and exports as CSV, lines of JSON, or Parquet.

An export has one row for each step. It is read and sent in parts, regardless of its length.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import case, func, select, tuple_

from cede._base.extras import need
from cede.serve.names import Row
from cede.serve.store.database import Database
from cede.serve.store.log import COLUMNS
from cede.serve.store.schema import episodes, plans, steps, teams

if TYPE_CHECKING:
    from cede.serve.served import ServedTeam, TeamOf

FIELDS = (*COLUMNS, "received")
FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl", "parquet": "application/vnd.apache.parquet"}
# A reason that was not reported is that of the plan; version 0 means that there was no plan.
REASON = func.coalesce(steps.c.reason, plans.c.reason, case((steps.c.version == 0, "fallback")))
SHOWN = select(*(REASON if name == "reason" else steps.c[name] for name in FIELDS[1:])).select_from(
    steps.outerjoin(plans, (plans.c.team == steps.c.team) & (plans.c.version == steps.c.version))
)
PART = 10_000  # steps in memory at once
TYPES = dict.fromkeys(("team", "reason", "meta"), "string") | dict.fromkeys(("cost", "enter_cost"), "float64")  # all others: int64
EPISODE = tuple(episodes.c[name] for name in ("episode", "length", "received", "counted", "begun", "last"))


def episodes_of(database: Database, team: "ServedTeam", before: int | None, most: int) -> list[dict[str, Any]]:
    """Return episodes of a team, or runs, the greatest number first, from the one before `before` on.

    counted: whether all steps in the log are counted; always true for runs. last: the greatest t, -1: none.
    """
    query = select(*EPISODE).where(episodes.c.team == team.id).order_by(episodes.c.episode.desc()).limit(most)
    if before is not None:
        query = query.where(episodes.c.episode < before)
    with database.read() as connection:
        rows = connection.execute(query).mappings().all()
    return [{**row, "counted": bool(row["counted"]) or team.served.endless} for row in rows]


def steps_of(database: Database, team: "ServedTeam", episode: int, since: int, most: int) -> list[dict[str, Any]]:
    """Return steps of an episode, from t = since on."""
    c = steps.c
    query = SHOWN.where(c.team == team.id, c.episode == episode, c.t >= since).order_by(c.t).limit(most)
    with database.read() as connection:
        return [as_object((team.name, *row)) for row in connection.execute(query)]


def parts(database: Database, members: "Iterable[ServedTeam]", since: int = 0) -> Iterator[list[Row]]:
    """Return the steps of teams, ordered by episode and t, in parts: rows of FIELDS, with the name of the team.

    since: the first episode. Each part has a transaction of its own, so that a slow client blocks nothing; all steps that exist at
    the beginning are in the export.
    """
    c = steps.c
    for team in members:
        last = (since, -1)
        while True:
            query = SHOWN.where(c.team == team.id, tuple_(c.episode, c.t) > tuple_(*last)).order_by(c.episode, c.t).limit(PART)
            with database.read() as connection:
                rows = [(team.name, *row) for row in connection.execute(query)]
            if rows:
                yield rows
            if len(rows) < PART:
                break
            last = rows[-1][1], rows[-1][2]


def teams_of(database: Database, environment: int, team_of: "TeamOf") -> "Iterator[ServedTeam]":
    """Return the teams of an environment, in the order in which they were made."""
    numbers, last = [-1], -1
    while numbers:
        last = numbers[-1]
        wanted = select(teams.c.id).where(teams.c.environment == environment, teams.c.id > last).order_by(teams.c.id).limit(1000)
        with database.read() as connection:
            numbers = list(connection.scalars(wanted))
        yield from map(team_of, numbers)


def as_csv(rows: Iterator[list[Row]]) -> Iterator[bytes]:
    """Return steps as CSV with a header; a value that was not given is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for part in rows:
        writer.writerows(part)
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()


def as_object(row: Row) -> dict[str, Any]:
    """Return a step as an object, without values that were not given."""
    result = {name: value for name, value in zip(FIELDS, row, strict=True) if value is not None}
    return {**result, "meta": json.loads(result["meta"])} if "meta" in result else result


def as_lines(rows: Iterator[list[Row]]) -> Iterator[bytes]:
    """Return steps as lines of JSON."""
    for part in rows:
        yield "".join(json.dumps(as_object(row), separators=(",", ":")) + "\n" for row in part).encode()


class TakenOut(io.BytesIO):
    """A file in memory whose content is taken out in between; positions go on."""

    before = 0  # bytes that were taken out

    def tell(self) -> int:
        """Return the number of bytes that were written."""
        return self.before + super().tell()

    def take(self) -> bytes:
        """Remove and return the bytes that were written since the last call."""
        data = self.getvalue()
        self.before += len(data)
        self.seek(0)
        self.truncate()
        return data


def as_parquet(rows: Iterator[list[Row]]) -> Iterator[bytes]:
    """Return steps as a Parquet file, one row group for each part. Metadata are JSON, as text."""
    arrow, parquet = need("pyarrow", "data"), need("pyarrow.parquet", "data")
    schema = arrow.schema([(name, getattr(arrow, TYPES.get(name, "int64"))()) for name in FIELDS])
    file = TakenOut()

    def written() -> Iterator[bytes]:
        with parquet.ParquetWriter(file, schema) as writer:
            for part in rows:
                columns = zip(zip(*part, strict=True), schema.types, strict=True)
                writer.write_table(arrow.table([arrow.array(*column) for column in columns], schema=schema))
                yield file.take()
        yield file.take()

    return written()


EXPORTS = {"csv": as_csv, "jsonl": as_lines, "parquet": as_parquet}
