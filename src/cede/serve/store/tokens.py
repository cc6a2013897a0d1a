"""Tokens: which client may do what. A token is 256 random bits; the database holds only its SHA-256.

A token has the form cede_ID_SECRET. ID is not secret, and names the token in lists and logs.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from cede._base import check
from cede.serve.names import checked_name
from cede.serve.store.database import Database, now_ms
from cede.serve.store.schema import tokens

SCOPES = ("admin", "report", "decide", "read")
DAY = 86_400_000  # milliseconds
NO_HASH = bytes(32)
SHOWN = tuple(tokens.c[name] for name in ("id", "label", "scopes", "teams", "created", "expires", "revoked"))


@dataclass(frozen=True)
class Access:
    """The scopes and teams of a token."""

    id: str
    scopes: frozenset[str]
    teams: frozenset[str] | None  # None: all

    def has(self, scope: str) -> bool:
        """Return whether a token has a scope, for all teams or for some."""
        return scope in self.scopes or "admin" in self.scopes

    def allows(self, scope: str, team: str | None = None) -> bool:
        """Return whether a token has a scope for a team; without a team, for all teams."""
        return self.has(scope) and (self.teams is None or (team is not None and team in self.teams))


def hashed(secret: str) -> bytes:
    """Return the SHA-256 of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def create(connection: Connection, label: str, scopes: Sequence[str], teams: Sequence[str] | None, days: float | None) -> str:
    """Make a token, and return it; it cannot be recovered later. teams: names; None: all. days: until it expires; None: never."""
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
    name, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), now_ms()
    values = {"id": name, "hash": hashed(secret), "label": check.printable(label)[:200], "scopes": " ".join(dict.fromkeys(scopes))}
    expires = None if days is None else now + int(days * DAY)
    connection.execute(insert(tokens).values(**values, teams=names, created=now, expires=expires))
    return f"cede_{name}_{secret}"


def revoke(connection: Connection, name: str) -> None:
    """Revoke a token, by its ID. Servers refuse it within a second or two."""
    changed = update(tokens).where(tokens.c.id == name).values(revoked=func.coalesce(tokens.c.revoked, now_ms()))
    if connection.execute(changed).rowcount != 1:
        check.fail("token", "id", check.show(name), "that of a token (`cede token list`)")


def listed(connection: Connection) -> list[dict[str, Any]]:
    """Return all tokens, without their hashes."""
    return [dict(row) for row in connection.execute(select(*SHOWN).order_by(tokens.c.created, tokens.c.id)).mappings()]


class TokenCache:
    """In-memory cache of valid tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tokens: dict[str, tuple[bytes, Access, int | None]] = {}  # hash, access, time of expiry, by ID

    def refresh(self) -> None:
        """Read all tokens again."""
        columns = (tokens.c.id, tokens.c.hash, tokens.c.scopes, tokens.c.teams, tokens.c.expires)
        valid = {}
        with self._database.read() as connection:
            for name, digest, scopes, teams, expires in connection.execute(select(*columns).where(tokens.c.revoked.is_(None))):
                access = Access(name, frozenset(scopes.split()), None if teams is None else frozenset(json.loads(teams)))
                valid[name] = (bytes(digest), access, expires)
        self._tokens = valid

    def __len__(self) -> int:
        """Return the number of valid tokens."""
        now = now_ms()
        return sum(expires is None or expires > now for _, _, expires in self._tokens.values())

    def find(self, text: str) -> Access | None:
        """Return the access of a token; None if it is unknown, revoked or expired."""
        kind, _, rest = text.partition("_")
        name, _, secret = rest.partition("_")
        digest, access, expires = self._tokens.get(name, (NO_HASH, None, None))
        equal = hmac.compare_digest(hashed(secret), digest)
        return access if kind == "cede" and equal and (expires is None or expires > now_ms()) else None
