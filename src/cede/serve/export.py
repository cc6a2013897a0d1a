"""Exports the log, one row for each step, as CSV, lines of JSON, or Parquet. It is read and sent in parts, however long it is."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from cede._base.extras import need
from cede.serve.database import Database, Row, run
from cede.serve.reports import COLUMNS, Team

FIELDS = (*COLUMNS, "received")
KINDS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl", "parquet": "application/vnd.apache.parquet"}
# Steps as they are shown. A reason that was not told is that of the plan; version 0 says that there was none.
REASON = "COALESCE(s.reason, p.reason, CASE WHEN s.version = 0 THEN 'fallback' END)"
SHOWN = f"""{", ".join(REASON if name == "reason" else f"s.{name}" for name in FIELDS[1:])}
    FROM steps s LEFT JOIN plans p ON p.team = s.team AND p.version = s.version"""
PART = 10_000  # steps that are in memory at once
TYPES = dict.fromkeys(("team", "reason", "meta"), "string") | dict.fromkeys(("cost", "enter_cost"), "float64")  # all others: int64


def parts(database: Database, teams: Iterable[Team], since: int = 0) -> Iterator[list[Row]]:
    """Return the steps of teams, in the order of episode and t, in parts. since: the first episode.

    Every part is read by itself, so that a client who reads slowly keeps nobody waiting; nothing that was there at the beginning is
    missing. A row has FIELDS, with the name of the team.
    """
    sql = f"SELECT {SHOWN} WHERE s.team = ? AND (s.episode, s.t) > (?, ?) ORDER BY s.episode, s.t LIMIT ?"
    for team in teams:
        last = (since, -1)
        while True:
            with database.read() as connection:
                rows = [(team.name, *row) for row in run(connection, sql, (team.id, *last, PART))]
            if rows:
                yield rows
            if len(rows) < PART:
                break
            last = rows[-1][1], rows[-1][2]


def teams_of(database: Database, environment: int, team_of: Any) -> Iterator[Team]:
    """Return the teams of an environment, in the order in which they were made."""
    last = -1
    while True:
        with database.read() as connection:
            sql = "SELECT id FROM teams WHERE environment = ? AND id > ? ORDER BY id LIMIT 1000"
            found = [int(row[0]) for row in run(connection, sql, (environment, last))]
        yield from map(team_of, found)
        if not found:
            return
        last = found[-1]


def exported(kind: str, rows: Iterator[list[Row]]) -> Iterator[bytes]:
    """Return steps in a format, in parts. kind: one of KINDS."""
    return {"csv": as_csv, "jsonl": as_lines, "parquet": as_parquet}[kind](rows)


def as_csv(rows: Iterator[list[Row]]) -> Iterator[bytes]:
    """Return steps as CSV, with a header; what was not given is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for part in rows:
        writer.writerows(part)
        yield taken_from(text)
    yield taken_from(text)


def taken_from(text: io.StringIO) -> bytes:
    """Return what was written, and begin anew."""
    found = text.getvalue().encode()
    text.seek(0)
    text.truncate()
    return found


def as_object(row: Row) -> dict[str, Any]:
    """Return a step as an object, without what was not given."""
    result = {name: one for name, one in zip(FIELDS, row, strict=True) if one is not None}
    return {**result, "meta": json.loads(result["meta"])} if "meta" in result else result


def as_lines(rows: Iterator[list[Row]]) -> Iterator[bytes]:
    """Return steps as lines of JSON."""
    for part in rows:
        yield "".join(json.dumps(as_object(row), separators=(",", ":")) + "\n" for row in part).encode()


class Sink(io.RawIOBase):
    """A file that is only written: what was written is taken away in between."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        """Return that it can be written."""
        return True

    def tell(self) -> int:
        """Return how much was written."""
        return self._size

    def write(self, data: Any) -> int:
        """Take in bytes."""
        self._parts.append(bytes(data))
        self._size += len(self._parts[-1])
        return len(self._parts[-1])

    def taken(self) -> bytes:
        """Return what was written since the last time."""
        found = b"".join(self._parts)
        self._parts.clear()
        return found


def as_parquet(rows: Iterator[list[Row]]) -> Iterator[bytes]:
    """Return steps as a file of Parquet, a group of rows for each part. Metadata are JSON, as text."""
    arrow, parquet = need("pyarrow", "data"), need("pyarrow.parquet", "data")
    kinds = {name: getattr(arrow, TYPES.get(name, "int64"))() for name in FIELDS}
    schema = arrow.schema(list(kinds.items()))
    sink = Sink()

    def written() -> Iterator[bytes]:
        with parquet.ParquetWriter(sink, schema) as writer:
            for part in rows:
                columns = zip(zip(*part, strict=True), schema.types, strict=True)
                writer.write_table(arrow.table([arrow.array(*column) for column in columns], schema=schema))
                yield sink.taken()
        yield sink.taken()

    return written()
