"""The layer around all routes: allowed hosts, headers, metrics, logs, and errors as problem details (RFC 9457)."""

import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from cede._base import check
from cede.serve.http.requests import Malformed, expected
from cede.serve.store.database import Busy, Refused, Taken, Unavailable, Unknown

if TYPE_CHECKING:
    from cede.serve.service import Service

Message = MutableMapping[str, Any]
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
SLOW = 1.0  # seconds; a slower request is logged
STATUS: dict[type[Exception], HTTPStatus] = {
    Malformed: HTTPStatus.BAD_REQUEST,
    Unknown: HTTPStatus.NOT_FOUND,
    Taken: HTTPStatus.CONFLICT,
    Refused: HTTPStatus.CONFLICT,
    ValueError: HTTPStatus.UNPROCESSABLE_ENTITY,
    Busy: HTTPStatus.TOO_MANY_REQUESTS,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    SQLAlchemyError: HTTPStatus.SERVICE_UNAVAILABLE,
    OSError: HTTPStatus.SERVICE_UNAVAILABLE,
    Exception: HTTPStatus.INTERNAL_SERVER_ERROR,
}
SHOWN = (ValueError, Busy, Unavailable)  # errors whose text is sent to clients; others are only logged
RETRY = {HTTPStatus.TOO_MANY_REQUESTS: "1", HTTPStatus.SERVICE_UNAVAILABLE: "1"}


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error as problem details."""
    title = HTTPStatus(status).phrase
    body = json.dumps({"type": "about:blank", "title": title, "status": int(status), "detail": detail})
    return Response(body, int(status), headers=headers, media_type="application/problem+json")


def add_errors(app: FastAPI, service: "Service") -> None:
    """Add the handlers of all errors."""

    async def of_service(_: Request, error: Exception) -> Response:
        status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
        if status >= 500:
            cause = error.__cause__ or error
            service.note("error", "request failed", error=type(cause).__name__, detail=str(cause)[:500])
        detail = (
            str(error)[:2000] if isinstance(error, SHOWN) else f"service: state is {status.phrase!r}, must be working; try again"
        )
        return problem(status, detail, {"retry-after": RETRY[status]} if status in RETRY else None)

    async def of_http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = str(error.detail)
        if ": " not in detail:  # of FastAPI
            detail = f"request: address or method is unknown ({detail}), must be one of the OpenAPI document"
        return problem(error.status_code, detail, dict(error.headers or {}))

    async def of_parameters(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place, given = ".".join(map(str, first["loc"])).removeprefix("query."), first.get("input")
        is_number = isinstance(given, str) and given.lstrip("-").isdecimal()
        got = "missing" if first["type"] == "missing" else str(given)[:50] if is_number else check.show(given)
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"request: {place} is {got}, must be {expected(first)}")

    for kind in STATUS:
        app.add_exception_handler(kind, of_service)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(RequestValidationError, of_parameters)


class Metrics:
    """Metrics for Prometheus."""

    def __init__(self, service: "Service") -> None:
        self.registry = CollectorRegistry()
        self._labelled: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        labels = ("method", "route", "status")
        self.requests = Counter("cede_requests", "Requests.", labels, registry=self.registry)
        ends = [0.001 * 2**i for i in range(14)]
        self.seconds = Histogram("cede_request_seconds", "Duration of requests.", ("route",), registry=self.registry, buckets=ends)
        self.steps = Counter("cede_steps", "Reported steps.", ("kind",), registry=self.registry)
        self.decisions = Counter("cede_decisions", "Decisions, by kind of plan.", ("plan",), registry=self.registry)
        self.decided = {plan: self.decisions.labels(plan) for plan in ("fresh", "stale", "fallback")}
        for name, text, value in (
            ("cede_waiting_steps", "Steps queued for writing.", lambda: service.writer.waiting),
            ("cede_plans_in_memory", "Plans in memory.", lambda: len(service.plans)),
            ("cede_plans_made", "Plans made by this process.", lambda: service.planner.made),
            ("cede_failures", "Errors of writer and planner.", lambda: service.failures),
        ):
            Gauge(name, text, registry=self.registry).set_function(value)

    def measure(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. Labelled metrics are cached, since the client of Prometheus is slow to look them up."""
        metrics = self._labelled.get((method, route, status))
        if metrics is None:
            metrics = self.requests.labels(method, route, str(status)), self.seconds.labels(route)
            self._labelled[method, route, status] = metrics
        metrics[0].inc()
        metrics[1].observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)


class OuterLayer:
    """The outermost layer of the application: ASGI middleware."""

    def __init__(self, app: Any, service: "Service", metrics: Metrics) -> None:
        self.app, self.service, self.metrics = app, service, metrics
        self.hosts = {host.lower() for host in service.options.hosts}

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["service"], scope["metrics"] = self.service, self.metrics
        begin, status = time.perf_counter(), 500
        if self.service.options.root_path:  # works whether a proxy strips the prefix or not
            scope["root_path"] = self.service.options.root_path

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = list(message.get("headers", []))
                names = {name for name, _ in given}
                message["headers"] = given + [header for header in HEADERS if header[0] not in names]
            await send(message)

        try:
            if self.allowed(scope):
                await self.app(scope, receive, sending)
            else:
                detail = "request: host is not allowed, must be one of the allowed hosts (--allow-host)"
                await problem(HTTPStatus.MISDIRECTED_REQUEST, detail)(scope, receive, sending)
        finally:
            self.measure(scope, status, time.perf_counter() - begin)

    def allowed(self, scope: MutableMapping[str, Any]) -> bool:
        """Return whether the Host header is allowed."""
        given = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1").lower()
        host = given if given.endswith("]") else given.rpartition(":")[0] or given
        return host in self.hosts or "*" in self.hosts

    def measure(self, scope: MutableMapping[str, Any], status: int, seconds: float) -> None:
        """Count a request; log it if it failed or was slow, without its address and headers."""
        route = getattr(scope.get("route"), "path", "none")
        self.metrics.measure(scope["method"] if route != "none" else "any", route, status, seconds)
        if status >= 400 or seconds > SLOW:
            about = {"method": scope["method"], "route": route, "status": status, "seconds": round(seconds, 4)}
            self.service.note("info", "request", **about)
