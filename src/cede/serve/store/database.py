"""Opens the database of the service, SQLite or PostgreSQL, upgrades its schema, and runs transactions and bulk statements.

SQLite has a write-ahead log that is synced with every commit, and one writer at a time; readers have connections of their own and
never wait for it. PostgreSQL is reached by psycopg 3. Statements are SQLAlchemy Core; for many rows they are compiled once and
executed by the driver.
"""

import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    Connection,
    Dialect,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    column,
    create_engine,
    event,
    func,
    literal_column,
    select,
    text,
    tuple_,
)
from sqlalchemy import table as sql_table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ColumnElement, Executable
from sqlalchemy.sql.functions import GenericFunction

from cede._base import check

Answer = TypeVar("Answer")
Row = tuple[Any, ...]
LOCK_TIMEOUT = 30.0  # seconds that a writer waits for another writer
UPGRADE_LOCK = 0x63656465  # number of PostgreSQL's advisory lock for upgrades
EXPECTED = "sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"


class Unknown(ValueError):
    """A name that does not exist."""


class Taken(ValueError):
    """A name that exists with another content."""


class Refused(ValueError):
    """A report that contradicts the log. Nothing of it was taken."""


class Busy(Exception):
    """A queue is full."""


class Unavailable(Exception):
    """The database cannot be written."""


def now_ms() -> int:
    """Return the time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Database:
    """The database of the service. Thread-safe.

    url: "sqlite:///FILE" or "postgresql+psycopg://...". upgrade: bring its tables to the newest schema first. used: the database
    must exist with the newest schema; nothing is created or upgraded.
    """

    def __init__(self, url: str, *, upgrade: bool = True, used: bool = False) -> None:
        try:
            where = make_url(check.name("database", "url", url))
        except ArgumentError:
            check.fail("database", "url", "malformed", EXPECTED)
        if where.drivername not in ("sqlite", "postgresql+psycopg"):
            check.fail("database", "url", f"one of {where.drivername!r}", EXPECTED)
        self.kind = where.get_backend_name()
        if self.kind == "sqlite":
            if where.database in (None, "", ":memory:") or where.query:
                check.fail("database", "url", check.show(url), "sqlite:///FILE: a database in memory would be lost")
            if not Path(str(where.database)).parent.is_dir():
                check.fail("database", "url", check.show(url), "a file in a directory that exists")
            if used and not Path(str(where.database)).is_file():
                check.fail("database", "url", check.show(url), "a file that exists")
            options: dict[str, Any] = {"connect_args": {"timeout": LOCK_TIMEOUT, "check_same_thread": False}}
        else:
            options = {"pool_pre_ping": True, "paramstyle": "format"}
        self.engine = create_engine(where, pool_size=8, hide_parameters=True, **options)
        if self.kind == "sqlite":
            event.listen(self.engine, "connect", prepare)
            event.listen(self.engine, "begin", begin)
        try:
            if used:
                with self.read() as connection:
                    check_newest(connection)
            elif upgrade:
                self.write(upgrade_schema)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Return a connection in a transaction that sees one state of the database, regardless of concurrent writes."""
        with self.engine.connect() as connection:
            if self.kind == "postgresql":
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    def write(self, work: Callable[[Connection], Answer]) -> Answer:
        """Call a function with a connection in a write transaction, commit, and return its answer."""
        with self.engine.connect() as connection:
            connection.execution_options(writes=True)
            with connection.begin():
                return work(connection)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def prepare(connection: sqlite3.Connection, _: Any) -> None:
    """Set up a new connection to SQLite: explicit transactions, synced commits, foreign keys, and the write-ahead log.

    SQLite ignores busy_timeout while another connection turns on the write-ahead log, so that is tried again here.
    """
    connection.isolation_level = None
    for setting in (f"busy_timeout = {int(LOCK_TIMEOUT * 1000)}", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {setting}")
    until, mode = time.monotonic() + LOCK_TIMEOUT, None
    while mode is None:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(random.uniform(0.001, 0.02))
    if mode != "wal":
        check.fail("database", "its journal", repr(mode), "a write-ahead log, which needs a local disk, not a network drive")


def begin(connection: Connection) -> None:
    """Begin a transaction of SQLite. A write transaction takes the write lock at once, so that it cannot fail halfway."""
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")


# ------------------------------------------------------------------------------------------------- schema


def config_for(connection: Connection | None = None) -> Config:
    """Return the configuration of Alembic, which finds the migrations."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def check_newest(connection: Connection) -> None:
    """Check that the tables have the newest schema. Writes nothing."""
    current = MigrationContext.configure(connection).get_current_revision()
    newest = ScriptDirectory.from_config(config_for()).get_current_head()
    if current != newest:
        got = "missing" if current is None else repr(check.printable(current))
        check.fail("database", "its schema", got, f"{newest!r}: `cede db upgrade` upgrades it, after a backup")


def upgrade_schema(connection: Connection) -> None:
    """Bring the tables to the newest schema, within the write transaction of a connection: all or nothing.

    Other writers wait: SQLite has one writer, PostgreSQL a lock. The schema is read after the lock was taken.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(UPGRADE_LOCK)))
    script = ScriptDirectory.from_config(config_for())
    known, current = (
        {migration.revision for migration in script.walk_revisions()},
        MigrationContext.configure(connection).get_current_revision(),
    )
    if current is not None and current not in known:
        check.fail("database", "its schema", repr(check.printable(current)), f"one of {sorted(known)}: it is of a newer cede")
    if current != script.get_current_head():
        command.upgrade(config_for(connection), "head")


# ------------------------------------------------------------------------------------------------- many rows at once


class json_rows(GenericFunction[Any]):
    """The rows of a JSON array, as a table with the column `value`."""

    inherit_cache = True


@compiles(json_rows, "sqlite")
def _(element: Any, compiler: Any, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(json_rows, "postgresql")
def _(element: Any, compiler: Any, **options: Any) -> str:
    return f"json_array_elements(CAST({compiler.process(element.clauses, **options)} AS JSON))"


def among(*columns: Column[Any]) -> ColumnElement[bool]:
    """Return the condition that columns have one of the keys of the parameter `keys`, a JSON array of arrays of integers."""
    rows = json_rows(bindparam("keys", type_=Text)).table_valued("value")
    parts = [cast(rows.c.value.op("->>")(literal_column(str(i))), BigInteger) for i in range(len(columns))]
    return tuple_(*columns).in_(select(*parts))


def look_up(connection: Connection, statement: Select[Any], keys: Iterable[Sequence[int]]) -> list[Row]:
    """Run a query with a condition `among` for some keys."""
    wanted = list(keys)
    return list(map(tuple, run(connection, statement, keys=json.dumps(wanted)))) if wanted else []


def run(connection: Connection, statement: Executable, **values: Any) -> Any:
    """Run a statement that is defined once, with values for its parameters. It is compiled once for each kind of database.

    This takes a quarter of the time of `Connection.execute`, which matters for reports of single steps.
    """
    sql, names, defaults = compiled(statement, connection.dialect)
    return connection.exec_driver_sql(sql, tuple(values[name] if name in values else defaults[name] for name in names))


def run_many(connection: Connection, statement: Executable, rows: Iterable[dict[str, Any]]) -> None:
    """Run a statement that is defined once, for each row of values."""
    sql, names, _ = compiled(statement, connection.dialect)
    if values := [tuple(row[name] for name in names) for row in rows]:
        connection.exec_driver_sql(sql, values)


@lru_cache(maxsize=500)
def compiled(statement: Any, dialect: Dialect) -> tuple[str, list[str], dict[str, Any]]:
    """Return the SQL of a statement, the names of its parameters in order, and their values if they have any."""
    result = statement.compile(dialect=dialect)
    return str(result), result.positiontup, result.params


def stream(connection: Connection, statement: Select[Any], size: int) -> Iterator[list[Row]]:
    """Run a query, and return its rows in parts of a size, as they come from the driver: memory holds one part."""
    query: Any = statement.compile(connection)
    raw: Any = connection.connection
    cursor = raw.cursor("cede_stream", binary=True) if connection.dialect.name == "postgresql" else raw.cursor()
    try:
        cursor.execute(str(query), tuple(query.params[name] for name in query.positiontup))
        while rows := cursor.fetchmany(size):
            yield list(rows)
    finally:
        cursor.close()


def insert_new(connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Insert rows whose keys are new."""
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        with connection.connection.cursor().copy(f"COPY {table.name} ({', '.join(columns)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    else:
        connection.exec_driver_sql(upsert_sql("sqlite", table, tuple(columns), (), ()), list(rows))


def upsert(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    rows: Iterable[Row],
    add: Sequence[str] = (),
    replace: Sequence[str] = (),
) -> None:
    """Insert rows; where the primary key exists, add to some columns and replace others.

    columns: the primary key first. Rows are sorted by it, so that two servers never wait for each other.
    """
    ordered = sorted(rows, key=lambda row: row[: len(table.primary_key)])
    if ordered:
        sql = upsert_sql(connection.dialect.name, table, tuple(columns), tuple(add), tuple(replace))
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(sql, tuple(list(column) for column in zip(*ordered, strict=True)))
        else:
            connection.exec_driver_sql(sql, ordered)


@lru_cache(maxsize=100)
def upsert_sql(dialect: str, table: Table, columns: Row, add: Row, replace: Row) -> str:
    """Return the SQL of `upsert`: for SQLite with the values of a row, for PostgreSQL with an array for each column."""
    kind: Any = {"sqlite": sqlite, "postgresql": postgresql}[dialect]
    ordered = sql_table(table.name, *(column(name) for name in columns))
    if dialect == "postgresql":
        arrays = [func.unnest(cast(text(f":{name}"), ARRAY(table.c[name].type))) for name in columns]
        insert = kind.insert(ordered).from_select(columns, select(*arrays))
    else:
        insert = kind.insert(ordered).values({name: text(f":{name}") for name in columns})
    changes = {name: ordered.c[name] + insert.excluded[name] for name in add} | {name: insert.excluded[name] for name in replace}
    if changes:
        insert = insert.on_conflict_do_update(index_elements=table.primary_key.columns.keys(), set_=changes)
    return str(insert.compile(dialect=kind.dialect(paramstyle="format" if dialect == "postgresql" else "qmark")))
