"""Opens the database of the service, SQLite or PostgreSQL, and runs transactions in it.

SQLite: a write-ahead log that is synced with every commit, and one writer at a time; readers have connections of their own and are
never in its way. PostgreSQL: through psycopg 3.
"""

import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from cede._base import check
from cede.serve import schema

Answer = TypeVar("Answer")
Row = tuple[Any, ...]
PATIENCE = 30.0  # seconds that a writer waits for another one
EXPECTED = "sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"


class Database:
    """The database of the service. It is safe in several threads.

    url: "sqlite:///FILE" or "postgresql+psycopg://...". upgrade: bring its tables to the newest schema first. used: it must be
    there, with the newest schema, and nothing is made or upgraded.
    """

    def __init__(self, url: str, *, upgrade: bool = True, used: bool = False) -> None:
        try:
            where = make_url(check.name("database", "url", url))
        except ArgumentError:
            check.fail("database", "url", "no such thing", EXPECTED)
        if where.drivername not in ("sqlite", "postgresql+psycopg"):
            check.fail("database", "url", f"one of {where.drivername!r}", EXPECTED)
        self.kind = where.get_backend_name()
        if self.kind == "sqlite":
            if where.database in (None, "", ":memory:") or where.query:
                check.fail("database", "url", check.show(url), "sqlite:///FILE: what is kept in memory only is lost")
            if not Path(str(where.database)).parent.is_dir():
                check.fail("database", "url", check.show(url), "a file in a directory that is there")
            if used and not Path(str(where.database)).is_file():
                check.fail("database", "url", check.show(url), "a file that is there")
            self.engine = create_engine(
                where, connect_args={"timeout": PATIENCE, "check_same_thread": False}, pool_size=8, hide_parameters=True
            )
            event.listen(self.engine, "connect", prepare)
            event.listen(self.engine, "begin", begin)
        else:
            self.engine = create_engine(where, pool_size=8, pool_pre_ping=True, hide_parameters=True)
        try:
            if used:
                with self.read() as connection:
                    schema.check_newest(connection)
            elif upgrade:
                self.write(schema.upgrade)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Return a connection in a transaction that sees the database as it is now, whatever others write meanwhile."""
        with self.engine.connect() as connection:
            if self.kind == "postgresql":
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    def write(self, work: Callable[[Connection], Answer]) -> Answer:
        """Call a function with a connection in a write transaction; commit, and return what it returned."""
        with self.engine.connect() as connection:
            connection.execution_options(writes=True)
            with connection.begin():
                return work(connection)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def prepare(connection: sqlite3.Connection, _: Any) -> None:
    """Set up a new connection to SQLite: transactions begin when we say so, commits are synced, and keys must exist."""
    connection.isolation_level = None
    for setting in (f"busy_timeout = {int(PATIENCE * 1000)}", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {setting}")
    keep_log(connection)


def keep_log(connection: sqlite3.Connection) -> None:
    """Turn on the write-ahead log. Where others turn it on at the same moment SQLite fails, whatever its busy_timeout: so wait."""
    until, mode = time.monotonic() + PATIENCE, None
    while mode is None:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(random.uniform(0.001, 0.02))
    if mode != "wal":
        check.fail("database", "its journal", repr(mode), "a write-ahead log, which needs a local disk: a network drive has none")


def begin(connection: Connection) -> None:
    """Begin a transaction of SQLite; one that writes is the writer from its beginning, so that it never fails halfway."""
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")


# ------------------------------------------------------------------------------------------------- many rows at once

# Of columns in PostgreSQL; all others are bigint.
TYPES = {"meta": "text"} | dict.fromkeys(("cost", "enter_cost", "env_cost", "control_cost", "switch_cost"), "float8")


def run(connection: Connection, sql: str, values: Sequence[Any] = (), *, streamed: bool = False) -> Any:
    """Run one statement with ? for its values. streamed: its rows come as they are read, not all at once."""
    if connection.dialect.name == "postgresql":
        sql = sql.replace("?", "%s")
    return connection.exec_driver_sql(sql, tuple(values), execution_options={"stream_results": streamed})


def run_many(connection: Connection, sql: str, rows: Sequence[Row]) -> None:
    """Run one statement for each row of values."""
    if rows:
        connection.exec_driver_sql(sql.replace("?", "%s") if connection.dialect.name == "postgresql" else sql, list(rows))


def stream(connection: Connection, sql: str, values: Sequence[Any], size: int) -> Iterator[list[Row]]:
    """Run a query with ? for its values, and return its rows in parts, as they come from the driver: memory holds one part."""
    if connection.dialect.name == "postgresql":
        sql, cursor = sql.replace("?", "%s"), connection.connection.cursor("cede_stream", binary=True)
    else:
        cursor = connection.connection.cursor()
    try:
        cursor.execute(sql, tuple(values))
        while rows := cursor.fetchmany(size):
            yield list(rows)
    finally:
        cursor.close()


def insert_new(connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Insert rows that are not there yet."""
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        cursor = connection.connection.cursor()
        with cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        return
    marks = ", ".join("?" * len(columns))
    connection.exec_driver_sql(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", list(rows))


def upsert(connection: Connection, table: str, columns: Sequence[str], rows: Iterable[Row], keys: int, change: str) -> None:
    """Insert rows, or change those that are there.

    They are sorted first, so that two servers that do this at once never wait for each other. keys: how many of the columns are the
    key. change: an SQL expression, as in "n = t.n + excluded.n"; `t` is the table.
    """
    ordered = sorted(rows, key=lambda row: row[:keys])
    if not ordered:
        return
    names, key = ", ".join(columns), ", ".join(columns[:keys])
    end = f"ON CONFLICT ({key}) DO UPDATE SET {change}"
    if connection.dialect.name == "postgresql":
        arrays = ", ".join(f"%s::{TYPES.get(name, 'bigint')}[]" for name in columns)
        sql = f"INSERT INTO {table} AS t ({names}) SELECT * FROM unnest({arrays}) {end}"
        connection.exec_driver_sql(sql, tuple(list(column) for column in zip(*ordered, strict=True)))
        return
    marks = ", ".join("?" * len(columns))
    connection.exec_driver_sql(f"INSERT INTO {table} AS t ({names}) VALUES ({marks}) {end}", ordered)


def look_up(connection: Connection, wanted: str, table: str, on: Sequence[str], keys: Sequence[Row], end: str = "") -> list[Row]:
    """Return columns of the rows of a table that have one of some keys.

    wanted: the columns, of the table `t`. on: the columns that the keys are of. end: SQL that follows.
    """
    if not keys:
        return []
    letters = "abcdef"[: len(on)]
    match = " AND ".join(f"t.{name} = k.{letter}" for name, letter in zip(on, letters, strict=True))
    if connection.dialect.name == "postgresql":
        arrays = ", ".join("%s::bigint[]" for _ in on)
        source = f"unnest({arrays}) AS k({', '.join(letters)}) JOIN {table} AS t ON {match}"
        values: Row = tuple(list(column) for column in zip(*keys, strict=True))
    else:
        parts = ", ".join(f"value ->> {i} AS {letter}" for i, letter in enumerate(letters))
        source = f"(SELECT {parts} FROM json_each(?)) AS k CROSS JOIN {table} AS t ON {match}"
        values = (json.dumps(keys),)
    return [tuple(row) for row in connection.exec_driver_sql(f"SELECT {wanted} FROM {source}{end}", values)]
