"""The spool: what a client has to tell, in a file, so that it outlives the process; and the last policy of each team.

The file is a SQLite database with a write-ahead log. Several processes may share it. Each row has an owner, a client in a process,
who sends it; while a client lives, it holds a lock on the byte of its number in a file beside the spool, which the operating system
takes back when it dies, however. What the dead left is sent by whoever notices.
"""

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
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from weakref import WeakSet, finalize

import numpy as np

from cede._base import check
from cede._base.archive import UnreadableFile
from cede._base.arrays import Policy
from cede.serve.client.running import Copy, shape_of
from cede.serve.client.unsent import Row, check_room

try:
    import fcntl
except ImportError:  # a system without such locks: all others count as dead, and what is sent twice counts once
    fcntl = None  # type: ignore[assignment]

MOST_UNSENT = 2_000_000  # steps that wait on disk
SCHEMA, KIND = 1, 0x63656465  # user_version and application_id of the file
NOBODY = -1  # the owner of what somebody could not tell, and others may
PATIENCE = 60.0  # seconds that one process waits for another
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

Answer = TypeVar("Answer")


class Spool:
    """What waits, in a file; see `unsent.Unsent`. It is safe in threads; after a fork, the child makes one of its own.

    path: of the file. url: of the service; a spool belongs to one.
    """

    def __init__(self, path: Path, url: str) -> None:
        self.path, self._url = path, url
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._steps = 0  # of mine, held or not
        try:
            self._prepare()
            self.owner = new_owner(path)
        except OSError as error:
            check.fail("Client", "spool", repr(str(path)), f"a file that can be written ({error.strerror or error})")
        SPOOLS.add(self)
        finalize(self, release, path, self.owner).atexit = False
        self.adopt()

    # ------------------------------------------------------------------------------------------------- the file

    def _prepare(self) -> None:
        """Make the file, readable for its owner only, or check what is there; nothing of somebody else's is changed."""
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._do(self._check_kind)
        self._do(lambda c: c.execute("PRAGMA journal_mode = WAL").fetchone())
        self._do(transaction(self._make_tables))
        if (found := self._do(lambda c: c.execute("PRAGMA quick_check(1)").fetchone()[0])) != "ok":
            self._damaged(found)
        urls = self._do(lambda c: [row[0] for row in c.execute("SELECT url FROM service")])
        if urls != [self._url]:
            expected = f"that of the service at {check.show(self._url)}: what waits there is for another one"
            check.fail("Client", "spool", f"that of {check.show(urls[0] if urls else None)}", expected)

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        """Check that a file is a spool, or empty."""
        kind, schema = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        empty = not connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if kind != KIND and not (empty and kind == 0):
            check.fail("Client", "spool", repr(str(self.path)), "a spool: it is another database")
        if schema > SCHEMA:
            check.fail("Client", "the schema of the spool", schema, f"at most {SCHEMA}: {str(self.path)!r} is of a newer cede")

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        """Make the tables, unless somebody else has."""
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            for statement in TABLES.strip().split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT INTO service (url) VALUES (?)", (self._url,))
            connection.execute(f"PRAGMA application_id = {KIND}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")

    def _do(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Call a function with the connection. While another process writes, wait."""
        until = time.monotonic() + PATIENCE
        while True:
            with self._lock:
                try:
                    if self._connection is None:
                        self._connection = sqlite3.connect(self.path, timeout=1.0, isolation_level=None, check_same_thread=False)
                        self._connection.execute("PRAGMA synchronous = NORMAL")
                    return work(self._connection)
                except sqlite3.Error as error:
                    if code_of(error) not in BUSY or time.monotonic() > until:
                        self._failed(error)
            time.sleep(random.uniform(0.001, 0.02))

    def _failed(self, error: sqlite3.Error) -> NoReturn:
        """Raise an error of SQLite as one of ours, which names the file."""
        code = code_of(error)
        if code in DAMAGED:
            self._damaged(str(error))
        if code in BUSY:
            raise OSError(errno.EAGAIN, f"spool: a lock is held for more than {PATIENCE:g} seconds", str(self.path)) from error
        number = errno.ENOSPC if code == sqlite3.SQLITE_FULL else errno.EIO
        raise OSError(number, f"spool: the file cannot be written ({error})", str(self.path)) from error

    def _damaged(self, why: str) -> NoReturn:
        raise UnreadableFile(f"Client: spool is damaged ({why}), must be as a client wrote it: {str(self.path)!r}")

    def hold(self) -> None:
        """Close the connection, and let nobody in until `let_go`; then a new one is made."""
        self._lock.acquire()
        found, self._connection = self._connection, None
        if found is not None:
            with suppress(sqlite3.Error):
                found.close()

    def let_go(self) -> None:
        """Let others in again."""
        self._lock.release()

    def close(self) -> None:
        """Stop using it. What waits is for whoever opens it next."""
        self.hold()
        self.let_go()
        SPOOLS.discard(self)
        release(self.path, self.owner)

    # ------------------------------------------------------------------------------------------------- what waits

    def adopt(self) -> None:
        """Take over what the dead left, also of episodes that were cut off, to send it."""
        others = self._do(lambda c: [row[0] for row in c.execute("SELECT DISTINCT owner FROM unsent")])
        dead = [(self.owner, one) for one in others if one != self.owner and is_dead(self.path, one)]
        if dead:
            self._do(transaction(lambda c: c.executemany("UPDATE unsent SET owner = ?, held = 0 WHERE owner = ?", dead)))
            sql = "SELECT COUNT(*) FROM unsent WHERE owner = ? AND steps IS NULL"
            self._steps = self._do(lambda c: c.execute(sql, (self.owner,)).fetchone()[0])

    def put(self, team: str, episode: int, step: Mapping[str, Any], *, held: bool) -> None:
        """Add a step. It outlives the process from now on; the machine, from the end of the episode on."""
        check_room(self._steps, MOST_UNSENT)
        values = (self.owner, int(held), team, episode, None, json.dumps(step, separators=(",", ":"), allow_nan=False))
        self._do(lambda c: c.execute(f"INSERT INTO unsent (owner, held, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", values))
        self._steps += 1

    def end(self, team: str, episode: int, steps: int) -> None:
        """End an episode, and sync: its steps, and its end, may be sent, and are on the disk."""
        whose = (self.owner, team, episode)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE unsent SET held = 0 WHERE owner = ? AND held = 1 AND team = ? AND episode = ?", whose)
            values = (self.owner, 0, team, episode, steps, "{}")
            connection.execute(f"INSERT INTO unsent (owner, held, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", values)

        self._do(transaction(work, synced=True))

    def sync(self) -> None:
        """Bring all that was put to the disk."""
        self._do(lambda c: c.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone())

    def drop(self, team: str, episode: int) -> None:
        """Drop the held steps of an episode."""
        sql = "DELETE FROM unsent WHERE owner = ? AND held = 1 AND team = ? AND episode = ?"
        self._steps -= self._do(lambda c: c.execute(sql, (self.owner, team, episode)).rowcount)

    def batch(self, most: int) -> list[Row]:
        """Return what may be sent, the oldest first; at most so many."""
        sql = f"SELECT id, {COLUMNS} FROM unsent WHERE owner = ? AND held = 0 ORDER BY id LIMIT ?"
        rows = self._do(lambda c: c.execute(sql, (self.owner, most)).fetchall())
        try:
            return [Row(number, team, n, steps, json.loads(body)) for number, team, n, steps, body in rows]
        except ValueError:
            self._damaged("a step is no JSON")

    def settle(self, rows: Sequence[Row]) -> None:
        """Delete rows."""
        ids = json.dumps([row.id for row in rows])
        self._do(lambda c: c.execute("DELETE FROM unsent WHERE id IN (SELECT value FROM json_each(?))", (ids,)))
        self._steps -= sum(row.steps is None for row in rows)

    def refuse(self, rows: Sequence[Row], reason: str) -> None:
        """Move rows to the table of what was refused, with the reason."""
        ids, now = json.dumps([row.id for row in rows]), time.time_ns() // 1_000_000
        which = "WHERE id IN (SELECT value FROM json_each(?))"

        def work(connection: sqlite3.Connection) -> None:
            sql = f"INSERT INTO refused (at, reason, {COLUMNS}) SELECT ?, ?, {COLUMNS} FROM unsent {which} ORDER BY id"
            connection.execute(sql, (now, reason, ids))
            connection.execute(f"DELETE FROM unsent {which}", (ids,))

        self._do(transaction(work))
        self._steps -= sum(row.steps is None for row in rows)

    def put_aside(self, rows: Sequence[Row]) -> None:
        """Give rows to nobody: after some seconds whoever looks, with a token of its own, tries again."""
        ids = json.dumps([row.id for row in rows])
        sql = f"UPDATE unsent SET owner = {NOBODY} WHERE id IN (SELECT value FROM json_each(?))"
        self._do(lambda c: c.execute(sql, (ids,)))
        self._steps -= sum(row.steps is None for row in rows)

    @property
    def pending(self) -> bool:
        """Return whether something may be sent."""
        sql = "SELECT EXISTS (SELECT 1 FROM unsent WHERE owner = ? AND held = 0)"
        return bool(self._do(lambda c: c.execute(sql, (self.owner,)).fetchone()[0]))

    @property
    def waiting(self) -> int:
        """Return how many steps may be sent."""
        sql = "SELECT COUNT(*) FROM unsent WHERE owner = ? AND held = 0 AND steps IS NULL"
        return int(self._do(lambda c: c.execute(sql, (self.owner,)).fetchone()[0]))

    # ------------------------------------------------------------------------------------------------- policies

    def keep(self, team: str, copy: Copy, *, time_only: bool) -> None:
        """Keep a copy of a policy, or only take note that it is still the newest."""
        got = int(1000 * (time.time() - (time.monotonic() - copy.got)))
        if time_only:
            self._do(lambda c: c.execute("UPDATE policies SET got = ? WHERE team = ?", (got, team)))
            return
        policy = None if copy.policy is None else zlib.compress(copy.policy.astype("<i2").tobytes(), 1)
        values = (team, copy.tag, got, json.dumps(dict(copy.about), separators=(",", ":")), policy)
        self._do(lambda c: c.execute("INSERT OR REPLACE INTO policies VALUES (?, ?, ?, ?, ?)", values))

    def policy(self, team: str) -> Copy | None:
        """Return the last policy of a team that was kept; None: none was. Its age is told by the clock on the wall."""
        sql = "SELECT tag, got, about, policy FROM policies WHERE team = ?"
        row = self._do(lambda c: c.execute(sql, (team,)).fetchone())
        if row is None:
            return None
        age = max(0.0, time.time() - row[1] / 1000)
        try:
            about = json.loads(row[2])
            return Copy(None if row[3] is None else unpacked(about, row[3]), about, row[0], time.monotonic() - age)
        except (ValueError, KeyError, TypeError, zlib.error):
            self._damaged(f"the policy of {check.show(team)}")


def unpacked(about: Mapping[str, Any], data: bytes) -> Policy:
    """Return the policy that bytes hold."""
    return np.frombuffer(zlib.decompress(data), dtype="<i2").reshape(shape_of(about)).astype(np.int16)


def code_of(error: sqlite3.Error) -> int:
    """Return the number of an error of SQLite."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def transaction(work: Callable[[sqlite3.Connection], Any], *, synced: bool = False) -> Callable[[sqlite3.Connection], None]:
    """Return a function that does some work in a transaction of its own. synced: it is on the disk when that is over."""

    def call(connection: sqlite3.Connection) -> None:
        if synced:
            connection.execute("PRAGMA synchronous = FULL")
        try:
            connection.execute("BEGIN IMMEDIATE")
            work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        finally:
            if synced:
                connection.execute("PRAGMA synchronous = NORMAL")

    return call


# ------------------------------------------------------------------------------------------------- who lives

FILES: dict[str, int] = {}  # of locks, by path; never closed: that would let go of all locks of this process on the file
LIVING: dict[int, int] = {}  # the process of each owner that was made here


def lock_file(path: Path) -> int:
    """Return the file of locks beside a spool."""
    name = f"{path.resolve()}-lock"
    if name not in FILES:
        FILES[name] = os.open(name, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    return FILES[name]


def new_owner(path: Path) -> int:
    """Return a number that nobody has, and lock its byte until this process ends, or `release`."""
    owner = secrets.randbits(40)
    if fcntl is not None:
        fcntl.lockf(lock_file(path), fcntl.LOCK_EX, 1, owner)
    LIVING[owner] = os.getpid()
    return owner


def release(path: Path, owner: int) -> None:
    """Let go of a number: what its owner left is for others."""
    if LIVING.pop(owner, None) == os.getpid() and fcntl is not None:
        fcntl.lockf(lock_file(path), fcntl.LOCK_UN, 1, owner)


def is_dead(path: Path, owner: int) -> bool:
    """Return whether the owner of a number is gone."""
    if owner == NOBODY:
        return True
    if LIVING.get(owner) == os.getpid():
        return False
    if fcntl is None:
        return True
    try:
        fcntl.lockf(lock_file(path), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, owner)
    except OSError:
        return False
    fcntl.lockf(lock_file(path), fcntl.LOCK_UN, 1, owner)
    return True


SPOOLS: "WeakSet[Spool]" = WeakSet()  # that are open in this process
held: list[Spool] = []  # those whose locks are held while this process forks


def before_fork() -> None:
    """Close all connections, in the middle of nothing: a connection to SQLite must not cross a fork."""
    held[:] = SPOOLS
    for spool in held:
        spool.hold()


def after_fork() -> None:
    """Let go of what was held during a fork."""
    for spool in held:
        spool.let_go()
    held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=after_fork)
