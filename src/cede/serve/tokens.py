"""Tokens: who may do what. A token is 256 random bits; the database has only its SHA-256.

A token looks like cede_ID_SECRET. ID is not secret, and names it in lists and logs.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from cede._base import check
from cede.serve.database import Database, run
from cede.serve.served import checked_name
from cede.serve.store import now_ms

SCOPES = ("admin", "report", "decide", "read")
DAY = 86_400_000  # milliseconds
NOBODY = bytes(32)


@dataclass(frozen=True)
class Access:
    """What the holder of a token may do."""

    id: str
    scopes: frozenset[str]
    teams: frozenset[str] | None  # None: all

    def has(self, scope: str) -> bool:
        """Tell whether a token has a scope, be it for some teams only."""
        return scope in self.scopes or "admin" in self.scopes

    def allows(self, scope: str, team: str | None = None) -> bool:
        """Tell whether a token has a scope for a team; without a team, for all of them."""
        return self.has(scope) and (self.teams is None or (team is not None and team in self.teams))


@dataclass(frozen=True)
class Kept:
    """A token as the database has it."""

    hash: bytes
    access: Access
    expires: int | None


def hashed(secret: str) -> bytes:
    """Return the SHA-256 of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def create(connection: Connection, label: str, scopes: Sequence[str], teams: Sequence[str] | None, days: float | None) -> str:
    """Make a token, and return it: nobody can find it out later. teams: names; None: all. days: it holds for; None: for ever."""
    check.name("token", "label", label)
    if not scopes:
        check.fail("token", "scopes", "empty", check.one_of(SCOPES))
    for scope in scopes:
        check.choice("token", "scope", scope, SCOPES)
    names = None if teams is None else json.dumps([checked_name("token", "team", name) for name in teams])
    if teams is not None and "admin" in scopes:
        check.fail("token", "teams", "given", "left out with the scope 'admin', which is for all of them")
    if days is not None and not 0 < check.number("token", "days", days) <= 36_500:
        check.fail("token", "days", days, "more than 0, at most 36500")
    name, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    expires = None if days is None else now_ms() + int(days * DAY)
    values = (name, hashed(secret), check.printable(label)[:200], " ".join(dict.fromkeys(scopes)), names, now_ms(), expires)
    sql = "INSERT INTO tokens (id, hash, label, scopes, teams, created, expires) VALUES (?, ?, ?, ?, ?, ?, ?)"
    run(connection, sql, values)
    return f"cede_{name}_{secret}"


def revoke(connection: Connection, name: str) -> None:
    """Revoke a token, by its ID. Servers take note within a second or two."""
    sql = "UPDATE tokens SET revoked = COALESCE(revoked, ?) WHERE id = ?"
    if run(connection, sql, (now_ms(), name)).rowcount != 1:
        check.fail("token", "id", check.show(name), "that of a token (`cede token list`)")


def listed(connection: Connection) -> list[dict[str, Any]]:
    """Return all tokens, without what is secret of them."""
    columns = ("id", "label", "scopes", "teams", "created", "expires", "revoked")
    rows = run(connection, f"SELECT {', '.join(columns)} FROM tokens ORDER BY created, id").all()
    return [dict(zip(columns, row, strict=True)) for row in rows]


class Tokens:
    """All tokens that hold, in memory, so that nobody who asks waits for the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[str, Kept] = {}

    def refresh(self) -> None:
        """Read them again."""
        with self._database.read() as connection:
            rows = run(connection, "SELECT id, hash, scopes, teams, expires FROM tokens WHERE revoked IS NULL").all()
        kept = {}
        for name, secret, scopes, teams, expires in rows:
            access = Access(name, frozenset(scopes.split()), None if teams is None else frozenset(json.loads(teams)))
            kept[name] = Kept(bytes(secret), access, expires)
        self._kept = kept

    def __len__(self) -> int:
        """Return how many hold."""
        now = now_ms()
        return sum(one.expires is None or one.expires > now for one in self._kept.values())

    def find(self, text: str) -> Access | None:
        """Return what a token allows; None if there is no such token, or if it holds no longer."""
        kind, _, rest = text.partition("_")
        name, _, secret = rest.partition("_")
        kept = self._kept.get(name)
        equal = hmac.compare_digest(hashed(secret), NOBODY if kept is None else kept.hash)
        if kind != "cede" or kept is None or not equal or (kept.expires is not None and kept.expires <= now_ms()):
            return None
        return kept.access
