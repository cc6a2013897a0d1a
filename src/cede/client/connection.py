"""The connection to the service: options of a client, requests, retries."""

import asyncio
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cede._base import check
from cede._base.archive import path_to_write
from cede._base.extras import need

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds before the next try
RETRY_STATUSES = (408, 425, 429, 500, 502, 503, 504)


class Denied(ValueError):
    """The token does not allow a request."""


@dataclass(frozen=True)
class ClientOptions:
    """The checked arguments of a client."""

    url: str
    token: str = field(repr=False)
    timeout: float
    refresh: float
    spool: Path | None

    @classmethod
    def checked(cls, owner: str, url: Any, token: Any, timeout: Any, refresh: Any, spool: Any) -> "ClientOptions":
        """Check the arguments of a client. owner: its class, for errors."""
        if not isinstance(url, str) or not url.startswith(("http://", "https://")) or not check.is_text(url):
            check.fail(owner, "url", check.show(url), "the address of a service, as in 'http://localhost:8000'")
        check.name(owner, "token", token)
        if not token.isascii() or not token.isprintable():
            check.fail(owner, "token", "not printable ASCII", "as `cede token create` printed it")
        timeout, refresh = check.number(owner, "timeout", timeout, least=0.01), check.number(owner, "refresh", refresh, least=0.01)
        return cls(url.rstrip("/"), token, timeout, refresh, None if spool is None else path_to_write(owner, "spool", spool))

    def http(self) -> dict[str, Any]:
        """Return the arguments of httpx2.AsyncClient."""
        return {"base_url": self.url, "headers": {"authorization": f"Bearer {self.token}"}, "timeout": self.timeout}


@dataclass
class Backoff:
    """Exponential back-off with jitter."""

    pause: float = FIRST_PAUSE

    def after(self, least: float) -> float:
        """Return the seconds to wait after a failure. least: lower bound."""
        result = max(least, self.pause * random.uniform(0.5, 1.0))
        self.pause = min(LONGEST_PAUSE, 2 * self.pause)
        return result

    def reset(self) -> None:
        """Begin again with the shortest pause, after a success."""
        self.pause = FIRST_PAUSE


class Connection:
    """HTTP requests to the service, in one event loop of the process that created it."""

    def __init__(self, options: ClientOptions) -> None:
        self._options, self._process = options, os.getpid()
        self._http: Any = None

    async def request(self, method: str, path: str, **more: Any) -> Any:
        """Send a request; return the response. Raises httpx2.HTTPError if there is none. more: arguments of httpx2 such as json."""
        if self._process != os.getpid():
            check.fail("AsyncClient", "it", "from another process", "created in this one: an event loop does not survive a fork")
        if self._http is None:
            self._http = need("httpx2", "client").AsyncClient(**self._options.http())
        return await self._http.request(method, path, **more)

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        """Send a request once; return the JSON of the response. Raises ValueError if the service refuses."""
        return content_of(await self.request(method, path, **more))

    async def ask_again(self, patience: float, method: str, path: str, **more: Any) -> Any:
        """Send an idempotent request until it is answered, for at most `patience` seconds; return the JSON of the response."""
        until, backoff = time.monotonic() + patience, Backoff()
        while True:
            failure: Exception
            try:
                answer = await self.request(method, path, **more)
                if answer.status_code not in RETRY_STATUSES:
                    return content_of(answer)
                failure, least = error_of(answer), retry_after(answer)
            except unreachable() as error:
                failure, least = error, 0.0
            wait = backoff.after(least)
            if time.monotonic() + wait >= until:
                raise failure
            await asyncio.sleep(wait)

    async def close(self) -> None:
        """Close the connection."""
        if self._http is not None:
            await self._http.aclose()


def unreachable() -> type[Exception]:
    """Return the exception of a request without a response."""
    error: type[Exception] = need("httpx2", "client").HTTPError
    return error


def team_path(name: str) -> str:
    """Return the path of a team."""
    return f"/v1/teams/{quote(name, safe='')}"


def content_of(answer: Any) -> Any:
    """Return the JSON of a response. Raises ValueError if the service refuses."""
    if answer.status_code >= 400:
        raise error_of(answer)
    return answer.json()


def error_of(answer: Any) -> ValueError:
    """Return the error that a response describes."""
    return (Denied if answer.status_code == 403 else ValueError)(detail_of(answer))


def detail_of(answer: Any) -> str:
    """Return the description of an error in a response."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"service: status is {answer.status_code}, must be 200"


def retry_after(answer: Any) -> float:
    """Return the seconds after which the service wants to be asked again."""
    seconds = answer.headers.get("retry-after", "")
    return float(seconds) if seconds.isdecimal() else 0.0
