"""Reads requests and writes answers: tokens, bodies within limits, strict JSON."""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import numpy as np
from fastapi import Depends, Header, HTTPException, Query, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json
from starlette.concurrency import run_in_threadpool

from cede._base import check
from cede.serve.http.models import Problem, Strict
from cede.serve.names import BIG, checked_name
from cede.serve.served import ServedPlan, ServedTeam
from cede.serve.store.tokens import Access

if TYPE_CHECKING:
    from cede.serve.planner.plans import CachedTeam
    from cede.serve.service import Service

Model = TypeVar("Model", bound=Strict)
LARGE = 32_768  # bytes from which a body is parsed in a thread, so that decisions are not delayed
BODY_TIMEOUT = 30.0  # seconds
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"description": text, "content": {"application/problem+json": {"schema": Problem.model_json_schema()}}}
    for code, text in (
        (400, "The body is not JSON, or ambiguous."),
        (401, "The token is missing or not valid."),
        (403, "The token does not allow this."),
        (404, "Not found."),
        (409, "It contradicts the database."),
        (413, "The body is too large."),
        (421, "The host is not allowed."),
        (422, "A value is wrong."),
        (429, "A queue is full; try again."),
        (503, "The database is not available; try again."),
    )
}
BODIES: list[type[Strict]] = []  # models of request bodies; `body` adds to them
MOST_NAMES = 100_000  # of states or actions in an answer
MOST_KEY = 128  # characters of an Idempotency-Key
OF_KEY = f"1 to {MOST_KEY} printable ASCII characters, new for each episode. The same key returns the same episode."

Number = Annotated[int, Query(ge=0, lt=BIG)]
Limit = Annotated[int, Query(ge=1, le=1000)]
ShortText = Annotated[str, Query(max_length=200, pattern="^[^\0]*$")]


def body(model: type[Strict]) -> dict[str, Any]:
    """Return the part of the OpenAPI document that describes a request body. Handlers read it themselves, by `model_of`."""
    BODIES.append(model)
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    return {"requestBody": {"required": True, "content": content}}


# ------------------------------------------------------------------------------------------------- tokens and teams


def service_of(request: Request) -> "Service":
    """Return the service of the application."""
    service: Service = request.scope["service"]  # by `OuterLayer`
    return service


def access_of(request: Request) -> Access:
    """Check the token of a request, and return its scopes and teams."""
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    access = service_of(request).tokens.find(text.strip()) if kind.lower() == "bearer" else None
    if access is None:
        hint = {"www-authenticate": "Bearer"}
        raise HTTPException(401, "request: token is missing or not valid, must be given as a bearer token", hint)
    return access


def not_allowed(scope: str, teams: str) -> NoReturn:
    """Raise 403."""
    raise HTTPException(403, f"request: token is not allowed to do this, must have the scope {scope!r} for {teams}")


def require(request: Request, scope: str, team: str | None = None) -> None:
    """Check that the token of a request has a scope for a team; without a team, for all teams."""
    if not access_of(request).allows(scope, team):
        not_allowed(scope, "all teams" if team is None else "this team")


def require_any(request: Request, scope: str, teams: str = "any team") -> Access:
    """Check that the token of a request has a scope, for all teams or for some; return its access."""
    access = access_of(request)
    if not access.has(scope):
        not_allowed(scope, teams)
    return access


async def find_team(request: Request, name: str) -> ServedTeam:
    """Return a team by its name."""
    store = service_of(request).store
    known = store.known_team(name)
    return known if known is not None else await run_in_threadpool(store.team, checked_name("team", "name", name))


def team_with(scope: str) -> Any:
    """Return the dependency that checks a scope for the team of the address, and returns the team."""

    async def team_of_address(request: Request, name: str) -> ServedTeam:
        require(request, scope, name)
        return await find_team(request, name)

    return Depends(team_of_address)


def needs(scope: str) -> list[Any]:
    """Return the dependencies of a route that needs a scope for all teams."""

    async def check_scope(request: Request) -> None:
        require(request, scope)

    return [Depends(check_scope)]


ReadableTeam = Annotated[ServedTeam, team_with("read")]
ReportedTeam = Annotated[ServedTeam, team_with("report")]


async def cached_team(request: Request, name: str) -> "CachedTeam":
    """Return a team from the cache of plans. The database is read only for a team that this server does not know."""
    plans = service_of(request).plans
    known = plans.known(name)
    return known if known is not None else await run_in_threadpool(plans.load, checked_name("team", "name", name))


async def plan_of(request: Request, name: str, owner: str) -> tuple[ServedPlan, int]:
    """Return the newest plan of a team, loaded if necessary, and its fallback agent; 404 if there is no plan."""
    known = await cached_team(request, name)
    if known.plan is None:
        known = await run_in_threadpool(service_of(request).plans.load, name)
    if known.plan is None:
        detail = f"{owner}: plan of {check.show(name)} is missing, must be made first; try again"
        raise HTTPException(404, detail, {"retry-after": "1"})
    return known.plan, known.fallback


# ------------------------------------------------------------------------------------------------- bodies


class Malformed(ValueError):
    """A body that is not JSON, or ambiguous JSON."""


def malformed(got: str, expected: str = "JSON in UTF-8") -> NoReturn:
    """Raise Malformed."""
    raise Malformed(f"request: body is {got}, must be {expected}")


def parse(raw: bytes) -> Any:
    """Parse JSON. Rejects NaN, infinite numbers, duplicate keys and deep nesting."""
    try:
        return json.loads(raw.decode(), object_pairs_hook=unique, parse_constant=no_number, parse_float=finite)
    except RecursionError:
        malformed("nested too deeply", "JSON of less depth")
    except Malformed:
        raise
    except ValueError as error:  # also invalid UTF-8, and integers with thousands of digits
        malformed(f"malformed ({str(error)[:100]})")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; its keys must differ."""
    result = dict(pairs)
    if len(result) < len(pairs):
        malformed("an object with a duplicate key", "objects whose keys differ")
    return result


def no_number(text: str) -> NoReturn:
    """Reject NaN and Infinity."""
    malformed(f"with {text}", "JSON, which has only finite numbers")


def finite(text: str) -> float:
    """Return a float; it must be finite."""
    result = float(text)
    if not math.isfinite(result):
        malformed("with a number that is too large", "JSON with numbers below 1.8e308")
    return result


async def body_of(request: Request, most: int) -> bytes:
    """Read the body of a request, up to a number of bytes."""
    too_large = HTTPException(413, f"request: body is larger than {most} bytes, must be smaller")
    if (length := request.headers.get("content-length", "0")).isdecimal() and int(length) > most:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise HTTPException(408, f"request: body is not complete after {BODY_TIMEOUT:g} seconds, must be quicker") from None
    return b"".join(parts)


async def json_of(request: Request, most: int | None = None) -> Any:
    """Return the JSON body of a request. most: bytes; None: `ServiceOptions.most_body`."""
    raw = await body_of(request, most or service_of(request).options.most_body)
    return parse(raw) if len(raw) < LARGE else await run_in_threadpool(parse, raw)


async def model_of(request: Request, owner: str, model: type[Model], most: int | None = None) -> Model:
    """Return the JSON body of a request as a model. owner: of error messages."""
    data = await json_of(request, most)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".") or "body"
        check.fail(owner, place, "missing" if first["type"] == "missing" else check.show(first["input"]), expected(first))


def expected(error: Mapping[str, Any]) -> str:
    """Return what a value must be, by an error of pydantic."""
    text: str = error["msg"]
    return "given" if error["type"] == "missing" else text.removeprefix("Input should be ").removeprefix("Input should ")


# ------------------------------------------------------------------------------------------------- queries and headers


async def known_arguments(request: Request) -> None:
    """Check that the query of a request has only parameters of its route, each once."""
    given = request.query_params.multi_items()
    if not given:
        return
    route = request.scope.get("route")
    known = [one.alias for one in route.dependant.query_params] if isinstance(route, APIRoute) else []
    for name, n in Counter(name for name, _ in given).items():
        if name not in known:
            check.fail("request", "argument", check.show(name), f"one of {', '.join(known)}" if known else "left out")
        if n > 1:
            check.fail("request", f"the number of {name}", n, "1")


def idempotency_key(
    request: Request, key: Annotated[str | None, Header(alias="Idempotency-Key", description=OF_KEY)] = None
) -> str | None:
    """Return the Idempotency-Key of a request; None: none."""
    n = len(request.headers.getlist("idempotency-key"))
    if n > 1:
        check.fail("request", "the number of Idempotency-Keys", n, "at most 1")
    if key is not None and not (1 <= len(key) <= MOST_KEY and key.isascii() and key.isprintable()):
        check.fail("request", "Idempotency-Key", check.show(key), f"1 to {MOST_KEY} printable ASCII characters")
    return key


# ------------------------------------------------------------------------------------------------- answers


def answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return data as JSON: dictionaries, lists, dataclasses, numbers; null for numbers that are not finite."""
    try:
        text = to_json(data, inf_nan_mode="null", fallback=plain)
    except PydanticSerializationError:  # half of a surrogate pair in metadata
        text = json.dumps(data).encode()
    return Response(text, status, media_type="application/json", headers={"cache-control": "no-store", **(headers or {})})


def plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python, and anything else as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def about(team: ServedTeam) -> dict[str, Any]:
    """Return the parts of a team's task that clients need."""

    def short(names: Sequence[str] | None) -> Sequence[str] | None:
        return names if names is None or len(names) <= MOST_NAMES else None

    task = team.served.task
    numbers = ("n_states", "n_actions", "horizon", "terminal", "discount", "start_agent", "learns_costs")
    named = {"state_names": short(task.state_names), "action_names": short(task.action_names), "agents": task.agents}
    return {**named, **{name: getattr(task, name) for name in numbers}, "unit": team.served.unit}
