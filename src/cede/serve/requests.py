"""How requests are read, and answers written: bodies within limits, tokens, JSON."""

import asyncio
import json
from collections import Counter
from typing import Any, NoReturn

import numpy as np
from fastapi import HTTPException, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from cede._base import check
from cede.serve import models, strict_json
from cede.serve.memory import Known
from cede.serve.reports import Team
from cede.serve.served import checked_name
from cede.serve.service import Service
from cede.serve.tokens import Access

LARGE = 32_768  # bytes from which on a body is read in a thread, so that decisions go on meanwhile
PATIENCE = 30.0  # seconds for a body
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"description": text, "content": {"application/problem+json": {"schema": models.Problem.model_json_schema()}}}
    for code, text in (
        (400, "The body is no JSON, or ambiguous."),
        (401, "No token that holds."),
        (403, "The token does not allow this."),
        (404, "There is no such thing."),
        (409, "It contradicts what is there."),
        (413, "The body is too large."),
        (421, "The host is not allowed."),
        (422, "A value is wrong."),
        (429, "Too much waits; try again."),
        (503, "The database cannot be reached; try again."),
    )
}

MOST_NAMES = 100_000  # of states or actions that clients are told
MOST_KEY = 128  # characters of a key under which an episode is begun
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": f"1 to {MOST_KEY} printable ASCII characters, new for each episode: the same ones again mean the same episode.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MOST_KEY, "pattern": "^[!-~]([ -~]*[!-~])?$"},
}


def body(model: type[models.Strict], **more: Any) -> dict[str, Any]:
    """Return the part of the OpenAPI document that describes the body of a request."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}, **more}
    return {"requestBody": {"required": True, "content": content}}


def answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return data as JSON."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Response(text, status, media_type="application/json", headers={"cache-control": "no-store", **(headers or {})})


async def body_of(request: Request, most: int) -> bytes:
    """Read the body of a request, while it comes, up to a number of bytes."""
    too_large = HTTPException(413, f"request: body is larger than {most} bytes, must be smaller")
    if (told := request.headers.get("content-length", "0")).isdecimal() and int(told) > most:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise HTTPException(408, f"request: body is not complete after {PATIENCE:g} seconds, must be quicker") from None
    return b"".join(parts)


def not_allowed(scope: str, whose: str) -> NoReturn:
    """Answer that a token does not allow something."""
    raise HTTPException(403, f"request: token is not allowed to do this, must have the scope {scope!r} for {whose}")


class Guarded:
    """Requests as a service takes them: who asks, and what."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def holder(self, request: Request) -> Access:
        """Check the token of a request, and return what it allows."""
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        found = self.service.tokens.find(text.strip()) if kind.lower() == "bearer" else None
        if found is None:
            hint = {"www-authenticate": "Bearer"}
            raise HTTPException(401, "request: token is missing or holds no longer, must be given as a bearer", hint)
        return found

    def access(self, request: Request, scope: str, team: str | None = None) -> None:
        """Check that the token of a request has a scope for a team; without a team, for all of them."""
        if not self.holder(request).allows(scope, team):
            not_allowed(scope, "all teams" if team is None else "this team")

    async def data(self, request: Request, most: int | None = None) -> Any:
        """Return the body of a request, which is JSON."""
        raw = await body_of(request, most or self.service.options.most_body)
        return strict_json.parse(raw) if len(raw) < LARGE else await run_in_threadpool(strict_json.parse, raw)

    async def team(self, name: str) -> Team:
        """Return a team by its name."""
        known = self.service.store.known_team(name)
        if known is not None:
            return known
        return await run_in_threadpool(self.service.store.team, checked_name("team", "name", name))

    async def known(self, name: str) -> Known:
        """Return what is in memory of a team. Only of a team that this server has never heard of the database is asked."""
        known = self.service.plans.known(name)
        return known if known is not None else await run_in_threadpool(self.service.plans.wake, checked_name("team", "name", name))


async def known_arguments(request: Request) -> None:
    """Check that the query of a request has only arguments of its route, each once: a wrong name would be ignored in silence."""
    given = request.query_params.multi_items()
    if not given:
        return
    route = request.scope.get("route")
    known = [one.alias for one in route.dependant.query_params] if isinstance(route, APIRoute) else []
    expected = f"one of {', '.join(known)}" if known else "left out"
    for name, n in Counter(name for name, _ in given).items():
        if name not in known:
            check.fail("request", "argument", check.show(name), expected)
        if n > 1:
            check.fail("request", f"the number of {name}", n, "1")


def text(place: str, given: str) -> str:
    """Check a text of the query, which goes to the database."""
    if "\0" in given or not check.is_text(given) or len(given) > 200:
        check.fail("request", place, check.show(given), "a short text")
    return given


def key_of(request: Request) -> str | None:
    """Return the key of a request that may be sent again; None: there is none."""
    found = request.headers.getlist("idempotency-key")
    if len(found) > 1:
        check.fail("request", "the number of Idempotency-Keys", len(found), "at most 1")
    if found and not (1 <= len(found[0]) <= MOST_KEY and found[0].isascii() and found[0].isprintable()):
        check.fail("request", "Idempotency-Key", check.show(found[0]), f"1 to {MOST_KEY} printable ASCII characters")
    return found[0] if found else None


def about(team: Team) -> dict[str, Any]:
    """Return what a client must know of a team's task."""
    task = team.served.task
    given = {"state_names": task.state_names, "action_names": task.action_names}
    names: dict[str, Any] = {n: one if one is None or len(one) <= MOST_NAMES else None for n, one in given.items()}
    names |= {"agents": list(task.agents)}
    sizes = {"n_states": task.n_states, "n_actions": task.n_actions, "horizon": task.horizon, "terminal": list(task.terminal)}
    more = {"discount": task.discount, "unit": team.served.unit}
    return {**names, **sizes, **more, "start_agent": task.start_agent, "learns_costs": task.learns_costs}


def plain(value: Any) -> Any:
    """Return data in which whatever JSON cannot hold is text, and numbers that are not finite are null."""
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)
