"""Databases for the tests of the service: every test of the store runs over SQLite and over PostgreSQL."""

import os
import pwd
import shutil
import subprocess
import tempfile
from itertools import count
from pathlib import Path

import pytest

from cede.serve.store.database import Database
from cede.serve.store.store import Store

BINARIES = Path("/usr/lib/postgresql")
HOW = "PostgreSQL is not installed: apt-get install -y postgresql"
number = count()


def as_user():
    """How to run PostgreSQL's programs: they refuse root."""
    if os.getuid() != 0:
        return {}
    return {"user": "postgres", "group": "postgres", "extra_groups": []}


def binaries():
    """Where PostgreSQL's programs are; the newest, if there are several."""
    found = sorted(BINARIES.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        pytest.skip(HOW)
    return found[-1].parent


@pytest.fixture(scope="session")
def postgres():
    """A server of our own, in a directory of its own; its directory is where its socket lies."""
    programs, place = binaries(), Path(tempfile.mkdtemp(prefix="cede-postgres-"))
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(place, owner.pw_uid, owner.pw_gid)

    def call(*arguments):
        subprocess.run(arguments, check=True, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_user())

    data = str(place / "data")
    call(programs / "initdb", "-D", data, "-U", "cede", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
    options = f"-c listen_addresses='' -c unix_socket_directories={place} -c fsync=off -c max_connections=60"
    call(programs / "pg_ctl", "-D", data, "-w", "-o", options, "-l", place / "log", "start")
    yield place
    call(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    shutil.rmtree(place)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The address of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/cede.db"
    place, name = request.getfixturevalue("postgres"), f"test{next(number)}"
    subprocess.run(
        [binaries() / "psql", "-h", place, "-U", "cede", "-d", "postgres", "-qc", f"create database {name}"],
        check=True,
        cwd=place,
        **as_user(),
    )
    return f"postgresql+psycopg://cede@/{name}?host={place}"


@pytest.fixture
def store(url):
    database = Database(url)
    yield Store(database)
    database.close()
