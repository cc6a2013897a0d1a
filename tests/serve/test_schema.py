"""The database: migrations are whole, made once, and equal to the declared tables; old databases are upgraded."""

import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import column, create_engine, inspect, table

from cede.serve.served import unpacked_policy
from cede.serve.store import database as database_module
from cede.serve.store.audit import rebuild, verify
from cede.serve.store.database import Database, config_for, prepare
from cede.serve.store.schema import tables
from cede.serve.store.store import Store
from traffic import run

GOLDEN = Path(__file__).parent.parent / "golden"


def test_migrations_make_the_declared_tables(url):
    database = Database(url)
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables) == []
    database.close()


def test_several_who_open_a_new_database_make_its_tables_once(url):
    errors = []

    def open_it():
        try:
            Database(url).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_many_who_turn_on_the_log_of_a_new_file_at_once_wait_for_one_another(tmp_path):
    """SQLite itself does not wait there: without care, about one in a hundred is told that the database is locked."""
    errors = []

    def connect(path, gate):
        gate.wait()
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            try:
                prepare(connection, None)
                assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            except Exception as error:
                errors.append(error)

    for i in range(100):
        gate = threading.Barrier(8)
        threads = [threading.Thread(target=connect, args=(tmp_path / f"{i}.db", gate)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_file_system_without_a_write_ahead_log_is_told():
    """SQLite says nothing there, and goes on without it: in memory, for instance."""
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(ValueError, match="database: its journal is 'memory', must be a write-ahead log"),
    ):
        prepare(connection, None)


def test_who_waits_for_a_lock_too_long_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(database_module, "LOCK_TIMEOUT", 0.05)
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE held (x)")
        other.execute("BEGIN EXCLUSIVE")
        with (
            closing(sqlite3.connect(tmp_path / "x.db", timeout=0.0)) as connection,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            prepare(connection, None)


def test_an_upgrade_that_is_killed_leaves_nothing(url):
    code = f"""
import os
from alembic import op
op.create_index = lambda *args, **more: os._exit(9)
from cede.serve.store.database import Database
Database({url!r})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    untouched = Database(url, upgrade=False)
    assert inspect(untouched.engine).get_table_names() == []
    untouched.close()
    database = Database(url)
    assert set(tables.tables) < set(inspect(database.engine).get_table_names())
    database.close()


KILLED = """
import os
from alembic import op
usual = op.create_index
op.create_index = lambda name, *args, **more: os._exit(9) if name == "episodes_key" else usual(name, *args, **more)
from cede.serve.store.database import Database
Database({url!r})
"""


def old_database(url):
    """Make the tables of schema 2: in SQLite those of the golden database, in PostgreSQL by the migrations of that time."""
    if url.startswith("sqlite"):
        shutil.copy(GOLDEN / "service-schema-2.db", url.removeprefix("sqlite:///"))
        return 8
    database = Database(url, upgrade=False)
    database.write(lambda c: command.upgrade(config_for(c), "2"))
    database.close()
    return 0


def test_an_upgrade_from_schema_2_that_is_killed_leaves_it_as_it_was(url):
    n = old_database(url)
    assert subprocess.run([sys.executable, "-c", KILLED.format(url=url)], check=False).returncode == 9
    untouched = Database(url, upgrade=False)
    assert "key" not in {one["name"] for one in inspect(untouched.engine).get_columns("episodes")}
    with untouched.read() as connection:
        assert run(connection, "SELECT version_num FROM alembic_version").scalar() == "2"
    untouched.close()
    database = Database(url)
    with database.read() as connection:
        assert run(connection, "SELECT version_num FROM alembic_version").scalar() == "4"
        assert run(connection, 'SELECT COUNT(*), COUNT("key") FROM episodes').one() == (n, 0)
        assert compare_metadata(MigrationContext.configure(connection), tables) == []
    database.close()


def copy_to_postgresql(path, url, schema):
    """Make the tables of an old schema, with the rows of a golden database."""
    database, golden = Database(url, upgrade=False), create_engine(f"sqlite:///{path}")
    database.write(lambda c: command.upgrade(config_for(c), schema))
    with golden.connect() as source:
        names = set(inspect(source).get_table_names()) - {"alembic_version", "sqlite_sequence", "environments", "teams"}
        for name in ("environments", "teams", *sorted(names)):
            rows = [dict(row) for row in run(source, f"SELECT * FROM {name}").mappings()]
            if rows:
                into = table(name, *map(column, rows[0]))
                database.write(lambda c, into=into, rows=rows: c.execute(into.insert(), rows))
    database.close()
    golden.dispose()


@pytest.fixture
def mixed(url):
    """The golden database of schema 3 with learned costs, own agents, and a team without a horizon."""
    path = GOLDEN / "service-mixed-schema-3.db"
    if url.startswith("sqlite"):
        shutil.copy(path, url.removeprefix("sqlite:///"))
    else:
        copy_to_postgresql(path, url, "3")
    return url


KILLED_LATE = """
import os
from alembic import op
usual = op.drop_table
op.drop_table = lambda name: os._exit(9) if name == "environment_counts" else usual(name)
from cede.serve.store.database import Database
Database({url!r})
"""


def test_counts_of_schema_3_become_stored_counts_or_stay_as_they_were(mixed):
    """A process that is killed in the middle leaves the old tables; the next one upgrades them, and all counts equal the log."""
    assert subprocess.run([sys.executable, "-c", KILLED_LATE.format(url=mixed)], check=False).returncode == 9
    untouched = Database(mixed, upgrade=False)
    assert "counts" not in (names := inspect(untouched.engine).get_table_names())
    assert {"agent_counts", "environment_counts"} < set(names)
    with untouched.read() as connection:
        cells = sum(run(connection, f"SELECT COUNT(*) FROM {name}").scalar() for name in ("agent_counts", "environment_counts"))
    untouched.close()
    database = Database(mixed)
    store = Store(database)
    with database.read() as connection:
        assert verify(connection, store) == []
        assert run(connection, "SELECT COUNT(*) FROM counts WHERE layer <> 'start'").scalar() == cells
        found = run(connection, "SELECT DISTINCT layer FROM counts WHERE kind = 1 AND owner = ?", (store.team("own").id,)).scalars()
        assert set(found) == {"agent/p=0.3", "agent/another", "start"}
        for name, starts in (("east", 3), ("own", 3), ("clerk", 3), ("endless", 0)):
            team = store.team(name)
            learner = store.learner(connection, team)
            assert learner.counts.starts.sum() == starts
            stored = run(connection, "SELECT policy FROM policies WHERE team = ?", (team.id,)).scalar()
            assert (unpacked_policy(team, bytes(stored)) == learner.plan.policy).all()
        counts = sorted(map(tuple, run(connection, "SELECT * FROM counts")))
    database.write(lambda c: rebuild(c, store))
    with database.read() as connection:
        assert sorted(map(tuple, run(connection, "SELECT * FROM counts"))) == counts
        assert compare_metadata(MigrationContext.configure(connection), tables) == []
    database.close()


def test_a_database_of_a_newer_cede_is_refused(url):
    database = Database(url)
    database.write(lambda c: run(c, "UPDATE alembic_version SET version_num = '999'"))
    database.close()
    with pytest.raises(ValueError, match=r"database: its schema is '999', must be one of .*: it is of a newer cede"):
        Database(url)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("service-schema-*.db")), ids=lambda path: path.stem)
def test_databases_of_all_released_schemas_are_read(path, tmp_path):
    shutil.copy(path, tmp_path / "old.db")
    database = Database(f"sqlite:///{tmp_path}/old.db")
    store = Store(database)
    with database.read() as connection:
        assert verify(connection, store) == []
        found = run(connection, "SELECT name, episodes, version FROM teams ORDER BY name").all()
        assert [tuple(row) for row in found] == [("east", 4, 1), ("west", 3, 1)]
        for name, *_ in found:
            learner = store.learner(connection, store.team(name))
            kept = run(connection, "SELECT policy FROM policies WHERE team = ?", (store.team(name).id,)).scalar()
            assert (unpacked_policy(store.team(name), bytes(kept)) == learner.plan.policy).all()
    database.close()


@pytest.mark.parametrize(
    "wrong", ["", "nonsense", "sqlite://", "sqlite:///:memory:", "mysql://x/y", "postgresql://x/y", "sqlite:////nowhere/x/y.db"]
)
def test_addresses_that_are_none(wrong):
    with pytest.raises(ValueError, match=r"database: url is .*, must be"):
        Database(wrong)
