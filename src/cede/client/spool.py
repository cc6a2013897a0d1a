"""The spool: unsent steps, and the last policy of each team, in a SQLite database: a file that outlives the process, or memory.

Several processes may share a file. Each row has an owner, a client in a process, which sends it. A living client holds a lock on
the byte of its number in a file beside the spool; the operating system releases the lock when the process dies. Rows of dead owners
are sent by the next client that looks.
"""

import asyncio
import concurrent.futures.thread  # noqa: F401 (its hooks for forks are registered now, not when a thread starts during a fork)
import errno
import json
import os
import random
import secrets
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar
from weakref import WeakSet, finalize

import numpy as np

from cede._base import check
from cede._base.archive import UnreadableFile
from cede.client.policy import PolicyCopy, policy_shape

try:
    import fcntl
except ImportError:  # a system without such locks: all other owners count as dead; steps that are sent twice count once
    fcntl = None  # type: ignore[assignment]

MOST_ON_DISK, MOST_IN_MEMORY = 2_000_000, 200_000  # unsent steps
SCHEMA, KIND = 1, 0x63656465  # user_version and application_id of the file
NOBODY = -1  # the owner of postponed rows, which any client may send
BUSY_TIMEOUT = 60.0  # seconds for which one process waits for another
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT)
TABLES = """
CREATE TABLE service (url TEXT NOT NULL) STRICT;
CREATE TABLE unsent (id INTEGER PRIMARY KEY AUTOINCREMENT, owner INTEGER NOT NULL, held INTEGER NOT NULL, team TEXT NOT NULL,
    episode INTEGER NOT NULL, steps INTEGER, body TEXT NOT NULL) STRICT;
CREATE INDEX unsent_owner ON unsent (owner, held, id);
CREATE TABLE refused (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, reason TEXT NOT NULL, team TEXT NOT NULL,
    episode INTEGER NOT NULL, steps INTEGER, body TEXT NOT NULL) STRICT;
CREATE TABLE policies (team TEXT PRIMARY KEY, tag TEXT, got INTEGER NOT NULL, about TEXT NOT NULL, policy BLOB) STRICT;
"""
COLUMNS = "team, episode, steps, body"
INSERT = f"INSERT INTO unsent (owner, held, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
IN_LIST = "WHERE id IN (SELECT value FROM json_each(?))"

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class UnsentRow:
    """A step, or the end of an episode."""

    id: int
    team: str
    episode: int
    steps: int | None  # number of steps of the episode, if this is its end; None: this is a step
    body: Mapping[str, Any]  # the step as JSON; empty for an end


class Spool:
    """Unsent steps and ends of episodes. Steps of a running episode are held: they are not sent before it ends. Thread-safe.

    path: the file; None: memory, which is lost with the process. url: the service; a spool belongs to one. After a fork the child
    must create its own.
    """

    def __init__(self, path: Path | None, url: str) -> None:
        self.path, self._url = path, url
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._steps = 0  # number of steps of this owner, held or not
        try:
            self._prepare()
            self.owner = new_owner(path)
        except OSError as error:
            check.fail("Client", "spool", repr(str(path)), f"a file that can be written ({error.strerror or error})")
        OPEN_SPOOLS.add(self)
        finalize(self, release, path, self.owner).atexit = False
        self.adopt()

    # ------------------------------------------------------------------------------------------------- the file

    def _prepare(self) -> None:
        """Create the file, readable for its owner only, or check an existing one. A file that is no spool is not changed."""
        if self.path is not None:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._do(self._check_kind)
        self._query("PRAGMA journal_mode = WAL")
        self._transact(self._create_tables)
        if (result := self._query("PRAGMA quick_check(1)")[0][0]) != "ok":
            self._damaged(result)
        urls = [url for (url,) in self._query("SELECT url FROM service")]
        if urls != [self._url]:
            expected = f"that of the service at {check.show(self._url)}: a spool belongs to one service"
            check.fail("Client", "spool", f"that of {check.show(urls[0] if urls else None)}", expected)

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        """Check that a file is a spool, or empty."""
        kind, schema = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        empty = not connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if kind != KIND and not (empty and kind == 0):
            check.fail("Client", "spool", repr(str(self.path)), "a spool: it is another database")
        if schema > SCHEMA:
            check.fail("Client", "the schema of the spool", schema, f"at most {SCHEMA}: {str(self.path)!r} is of a newer cede")

    def _create_tables(self, connection: sqlite3.Connection) -> None:
        """Create the tables, unless another process has."""
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            for statement in TABLES.strip().split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT INTO service (url) VALUES (?)", (self._url,))
            connection.execute(f"PRAGMA application_id = {KIND}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")

    def _do(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Call a function with the connection. Waits while another process writes."""
        until = time.monotonic() + BUSY_TIMEOUT
        while True:
            with self._lock:
                try:
                    if self._connection is None:
                        place = ":memory:" if self.path is None else self.path
                        self._connection = sqlite3.connect(place, timeout=1.0, isolation_level=None, check_same_thread=False)
                        self._connection.execute("PRAGMA synchronous = NORMAL")
                    return work(self._connection)
                except sqlite3.Error as error:
                    if code_of(error) not in BUSY or time.monotonic() > until:
                        self._fail(error)
            time.sleep(random.uniform(0.001, 0.02))

    def _transact(self, work: Callable[[sqlite3.Connection], Any], *, synced: bool = False) -> None:
        """Call a function with the connection, in a transaction. synced: it is on the disk afterwards."""

        def call(connection: sqlite3.Connection) -> None:
            try:
                if synced:
                    connection.execute("PRAGMA synchronous = FULL")
                with connection:  # commits at its end; rolls back after an exception
                    connection.execute("BEGIN IMMEDIATE")
                    work(connection)
            finally:
                if synced:
                    connection.execute("PRAGMA synchronous = NORMAL")

        self._do(call)

    def _query(self, sql: str, *values: Any) -> list[Any]:
        """Execute a statement; return its rows."""
        return self._do(lambda c: c.execute(sql, values).fetchall())

    def _fail(self, error: sqlite3.Error) -> NoReturn:
        """Raise an error of SQLite as OSError or UnreadableFile, with the name of the file."""
        code = code_of(error)
        if code in DAMAGED:
            self._damaged(str(error))
        if code in BUSY:
            raise OSError(errno.EAGAIN, f"spool: locked for more than {BUSY_TIMEOUT:g} seconds", str(self.path)) from error
        number = errno.ENOSPC if code == sqlite3.SQLITE_FULL else errno.EIO
        raise OSError(number, f"spool: the file cannot be written ({error})", str(self.path)) from error

    def _damaged(self, why: str) -> NoReturn:
        raise UnreadableFile(f"Client: spool is damaged ({why}), must be as a client wrote it: {str(self.path)!r}")

    def suspend(self) -> None:
        """Block all calls until `resume`. The connection to a file is closed; the next call opens a new one."""
        self._lock.acquire()
        if self._connection is not None and self.path is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def resume(self) -> None:
        """Allow calls again."""
        self._lock.release()

    def close(self) -> None:
        """Close the file. Unsent rows stay in it for the next client. Memory is freed with the object."""
        self.suspend()
        self.resume()
        OPEN_SPOOLS.discard(self)
        release(self.path, self.owner)

    # ------------------------------------------------------------------------------------------------- unsent rows

    def adopt(self) -> None:
        """Become the owner of rows whose owners are dead, and of postponed rows, to send them. Steps of unfinished episodes too."""
        owners = self._query("SELECT DISTINCT owner FROM unsent")
        dead = [(self.owner, owner) for (owner,) in owners if owner != self.owner and is_dead(self.path, owner)]
        if dead:
            self._transact(lambda c: c.executemany("UPDATE unsent SET owner = ?, held = 0 WHERE owner = ?", dead))
            ((self._steps,),) = self._query("SELECT COUNT(*) FROM unsent WHERE owner = ? AND steps IS NULL", self.owner)

    def put(self, team: str, episode: int, step: Mapping[str, Any], *, held: bool) -> None:
        """Add a step. From now on it survives the end of the process; a power cut, from the end of the episode on."""
        most = MOST_IN_MEMORY if self.path is None else MOST_ON_DISK
        if self._steps >= most:
            expected = f"at most {most}: the service does not accept them"
            check.fail("Client", "the number of unsent steps", self._steps + 1, expected)
        body = json.dumps(step, separators=(",", ":"), allow_nan=False)
        self._query(INSERT, self.owner, int(held), team, episode, None, body)
        self._steps += 1

    def end(self, team: str, episode: int, steps: int) -> None:
        """End an episode: its steps and its end may be sent, and are synced to the disk. steps: number of its steps."""

        def work(connection: sqlite3.Connection) -> None:
            sql = "UPDATE unsent SET held = 0 WHERE owner = ? AND held = 1 AND team = ? AND episode = ?"
            connection.execute(sql, (self.owner, team, episode))
            connection.execute(INSERT, (self.owner, 0, team, episode, steps, "{}"))

        self._transact(work, synced=True)

    def sync(self) -> None:
        """Sync all steps to the disk."""
        self._query("PRAGMA wal_checkpoint(PASSIVE)")

    def drop(self, team: str, episode: int) -> None:
        """Delete the held steps of an episode."""
        sql = "DELETE FROM unsent WHERE owner = ? AND held = 1 AND team = ? AND episode = ?"
        self._steps -= self._do(lambda c: c.execute(sql, (self.owner, team, episode)).rowcount)

    def batch(self, most: int) -> list[UnsentRow]:
        """Return the oldest rows to send, at most `most`."""
        sql = f"SELECT id, {COLUMNS} FROM unsent WHERE owner = ? AND held = 0 ORDER BY id LIMIT ?"
        rows = self._query(sql, self.owner, most)
        try:
            return [UnsentRow(number, team, n, steps, json.loads(body)) for number, team, n, steps, body in rows]
        except ValueError:
            self._damaged("a step is not JSON")

    def _remove(self, rows: Sequence[UnsentRow], *statements: tuple[str, tuple[Any, ...]]) -> None:
        """Execute statements that take rows from this owner, in one transaction. The last parameter of each is the list of ids."""
        ids = json.dumps([row.id for row in rows])

        def work(connection: sqlite3.Connection) -> None:
            for sql, values in statements:
                connection.execute(sql, (*values, ids))

        self._transact(work)
        self._steps -= sum(row.steps is None for row in rows)

    def delete(self, rows: Sequence[UnsentRow]) -> None:
        """Delete rows: the service has them."""
        self._remove(rows, (f"DELETE FROM unsent {IN_LIST}", ()))

    def refuse(self, rows: Sequence[UnsentRow], reason: str) -> None:
        """Move rows that the service refuses to the table `refused`, with the reason."""
        move = f"INSERT INTO refused (at, reason, {COLUMNS}) SELECT ?, ?, {COLUMNS} FROM unsent {IN_LIST} ORDER BY id"
        self._remove(rows, (move, (time.time_ns() // 1_000_000, reason)), (f"DELETE FROM unsent {IN_LIST}", ()))

    def postpone(self, rows: Sequence[UnsentRow]) -> None:
        """Give rows to no owner: the next client that looks adopts them, and tries again with its own token."""
        self._remove(rows, (f"UPDATE unsent SET owner = ? {IN_LIST}", (NOBODY,)))

    @property
    def pending(self) -> bool:
        """Return whether there are rows to send."""
        return bool(self._query("SELECT 1 FROM unsent WHERE owner = ? AND held = 0 LIMIT 1", self.owner))

    @property
    def waiting(self) -> int:
        """Return the number of steps to send."""
        sql = "SELECT COUNT(*) FROM unsent WHERE owner = ? AND held = 0 AND steps IS NULL"
        return int(self._query(sql, self.owner)[0][0])

    async def unblocked(self, call: Callable[Given, Answer], *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        """Call a function that may use the spool. One that uses a file runs in a thread, so that the event loop is not blocked.

        Cancellation is delivered after the call.
        """
        if self.path is None:
            return call(*args, **kwargs)
        task = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    # ------------------------------------------------------------------------------------------------- policies

    def store_policy(self, team: str, copy: PolicyCopy, *, time_only: bool) -> None:
        """Store a copy of a policy; time_only: only the time at which it was confirmed."""
        confirmed = int(1000 * (time.time() - (time.monotonic() - copy.confirmed)))
        if time_only:
            self._query("UPDATE policies SET got = ? WHERE team = ?", confirmed, team)
            return
        policy = None if copy.policy is None else zlib.compress(copy.policy.astype("<i2").tobytes(), 1)
        about = json.dumps(dict(copy.about), separators=(",", ":"))
        self._query("INSERT OR REPLACE INTO policies VALUES (?, ?, ?, ?, ?)", team, copy.tag, confirmed, about, policy)

    def policy(self, team: str) -> PolicyCopy | None:
        """Return the stored policy of a team; None if there is none. Its age follows the system clock."""
        rows = self._query("SELECT tag, got, about, policy FROM policies WHERE team = ?", team)
        if not rows:
            return None
        tag, confirmed, about, data = rows[0]
        try:
            about, policy = json.loads(about), None
            if data is not None:
                policy = np.frombuffer(zlib.decompress(data), dtype="<i2").reshape(policy_shape(about)).astype(np.int16)
        except (ValueError, KeyError, TypeError, zlib.error):
            self._damaged(f"the policy of {check.show(team)}")
        return PolicyCopy(policy, about, tag, time.monotonic() - max(0.0, time.time() - confirmed / 1000))


def code_of(error: sqlite3.Error) -> int:
    """Return the primary result code of an error of SQLite."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


# ------------------------------------------------------------------------------------------------- owners and forks

LOCK_FILES: dict[str, int] = {}  # descriptors by path; never closed, since that would release all locks of this process on the file
OWNERS: dict[int, int] = {}  # the process of each owner that was created here


def lock_file(path: Path) -> int:
    """Return the descriptor of the file of locks beside a spool."""
    name = f"{path.resolve()}-lock"
    if name not in LOCK_FILES:
        LOCK_FILES[name] = os.open(name, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    return LOCK_FILES[name]


def new_owner(path: Path | None) -> int:
    """Return the random number of a new owner, and lock its byte until `release` or the end of this process."""
    owner = secrets.randbits(40)
    if fcntl is not None and path is not None:
        fcntl.lockf(lock_file(path), fcntl.LOCK_EX, 1, owner)
    OWNERS[owner] = os.getpid()
    return owner


def release(path: Path | None, owner: int) -> None:
    """Release the lock of an owner: others may adopt its rows."""
    if OWNERS.pop(owner, None) == os.getpid() and fcntl is not None and path is not None:
        fcntl.lockf(lock_file(path), fcntl.LOCK_UN, 1, owner)


def is_dead(path: Path | None, owner: int) -> bool:
    """Return whether the lock of an owner is free."""
    if owner == NOBODY or OWNERS.get(owner) == os.getpid():
        return owner == NOBODY
    if fcntl is None or path is None:
        return True
    try:
        fcntl.lockf(lock_file(path), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, owner)
    except OSError:
        return False
    fcntl.lockf(lock_file(path), fcntl.LOCK_UN, 1, owner)
    return True


OPEN_SPOOLS: "WeakSet[Spool]" = WeakSet()  # of this process
suspended: list[Spool] = []  # during a fork


def before_fork() -> None:
    """Suspend all spools: a connection to SQLite must not be used on both sides of a fork."""
    suspended[:] = OPEN_SPOOLS
    for spool in suspended:
        spool.suspend()


def after_fork() -> None:
    """Resume all spools."""
    for spool in suspended:
        spool.resume()
    suspended.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=after_fork)
