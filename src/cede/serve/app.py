"""The HTTP interface: a FastAPI application over a `Service`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from cede import __version__
from cede._base import check
from cede.serve import models
from cede.serve.border import Border, Metrics, add_errors
from cede.serve.dashboard import add_dashboard
from cede.serve.database import Database
from cede.serve.events import Events
from cede.serve.overview import find_teams
from cede.serve.requests import PROBLEMS, Guarded, about, answer, body, body_of, known_arguments, not_allowed, text
from cede.serve.routes import add_decisions, add_insight, add_reports
from cede.serve.served import (
    checked_fallback,
    checked_name,
    environment_from,
    environment_from_file,
    team_from,
)
from cede.serve.service import Options, Service
from cede.serve.views import add_views

LONGEST_LIST = 1000


def create_app(database: Database, options: Options | None = None) -> FastAPI:
    """Make the application. Its threads run while it is served."""
    service = Service(database, options)
    metrics = Metrics(service)
    events = Events(service.store, service.options.pause, service.failed)
    service.when_counted.append(events.counted)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(service.start)
        yield
        events.stop()
        await run_in_threadpool(service.stop)

    app = FastAPI(
        title="cede",
        version=__version__,
        description="Learns who should be in control.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(known_arguments)],
    )
    guarded = Guarded(service)
    add_errors(app, service)
    add_setup(app, service, guarded)
    add_decisions(app, service, guarded, metrics)
    add_reports(app, service, guarded, metrics)
    add_insight(app, service, guarded)
    add_health(app, service, guarded, metrics)
    add_views(app, service, guarded, events)
    add_dashboard(app)
    describe(app)
    app.add_middleware(Border, service=service, metrics=metrics)
    app.state.service = service
    return app


def add_setup(app: FastAPI, service: Service, guarded: Guarded) -> None:
    """Add environments and teams."""
    store = service.store

    @app.put("/v1/environments/{name}", tags=["set-up"], openapi_extra=body(models.EnvironmentIn), responses=PROBLEMS)
    async def put_environment(request: Request, name: str) -> Response:
        """Make an environment, from JSON, or from the file of a learner that has not learned yet (application/octet-stream)."""
        guarded.access(request, "admin")
        checked_name("environment", "name", name)
        if request.headers.get("content-type", "").partition(";")[0].strip() == "application/octet-stream":
            raw = await body_of(request, service.options.most_batch)
            served = await run_in_threadpool(environment_from_file, "environment", raw)
            fallback = checked_fallback("environment", served.task, None)
        else:
            given = models.checked("environment", models.EnvironmentIn, await guarded.data(request, service.options.most_batch))
            served = await run_in_threadpool(environment_from, "environment", given.task, given.learner)
            fallback = checked_fallback("environment", served.task, given.fallback)
        new = await asyncio.wrap_future(service.write(lambda c: store.put_environment(c, name, served, fallback)))
        return answer({"name": name, "created": new}, 201 if new else 200)

    @app.get("/v1/environments", tags=["set-up"], responses=PROBLEMS)
    async def list_environments(request: Request, after: str = "", limit: int = 100) -> Response:
        """List environments by name."""
        guarded.access(request, "read")
        most = check.integer("request", "limit", limit, 1, LONGEST_LIST)
        return answer({"environments": await run_in_threadpool(store.environment_names, text("after", after), most)})

    @app.put("/v1/teams/{name}", tags=["set-up"], openapi_extra=body(models.TeamIn), responses=PROBLEMS)
    async def put_team(request: Request, name: str) -> Response:
        """Make a team."""
        guarded.access(request, "admin")
        checked_name("team", "name", name)
        given = models.checked("team", models.TeamIn, await guarded.data(request))
        _, common, usual = await run_in_threadpool(store.environment, given.environment)
        served = await run_in_threadpool(team_from, "team", common, given.own)
        fallback = usual if served is common and given.fallback is None else checked_fallback("team", served.task, given.fallback)
        work = store.put_team
        new = await asyncio.wrap_future(service.write(lambda c: work(c, name, given.environment, served, given.seed, fallback)))
        service.planner.wake()
        await run_in_threadpool(service.plans.wake, name)
        return answer({"name": name, "created": new}, 201 if new else 200)

    @app.get("/v1/teams", tags=["set-up"], responses=PROBLEMS)
    async def list_teams(
        request: Request, environment: str | None = None, search: str = "", after: str = "", limit: int = 100
    ) -> Response:
        """List teams by name, of one environment or of all, whose names contain a text; those that the token allows."""
        access = guarded.holder(request)
        if not access.has("read"):
            not_allowed("read", "any team")
        most = check.integer("request", "limit", limit, 1, LONGEST_LIST)
        wanted = None if environment is None else text("environment", environment)
        texts = text("search", search), text("after", after)
        return answer({"teams": await run_in_threadpool(find_teams, store, wanted, *texts, most, access.teams)})

    @app.get("/v1/teams/{name}", tags=["set-up"], responses=PROBLEMS)
    async def get_team(request: Request, name: str) -> Response:
        """Tell what a team is, and what was counted. Who may decide for it must know, and needs no other scope."""
        if not guarded.holder(request).allows("decide", name):
            guarded.access(request, "read", name)
        team = await guarded.team(name)

        def numbers() -> Any:
            with service.database.read() as connection:
                return asdict(store.numbers(connection, team))

        known = await guarded.known(name)
        towards = None if known.towards is None else list(known.towards)
        return answer({"name": name, **about(team), **await run_in_threadpool(numbers), "towards": towards})


def add_health(app: FastAPI, service: Service, guarded: Guarded, metrics: Metrics) -> None:
    """Add what watches the service."""

    @app.get("/livez", tags=["health"])
    async def live() -> Response:
        """Tell that the process answers."""
        return answer({"live": True})

    @app.get("/readyz", tags=["health"])
    async def ready() -> Response:
        """Tell whether all parts work; 503 if not."""
        parts = await run_in_threadpool(lambda: service.ready)
        return answer(parts, 200 if all(parts.values()) else 503)

    @app.get("/metrics", tags=["health"], responses=PROBLEMS)
    async def measured(request: Request) -> Response:
        """Return numbers for Prometheus; its token needs the scope read."""
        guarded.access(request, "read")
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


BODIES = (
    models.EnvironmentIn,
    models.TeamIn,
    models.BeginIn,
    models.DecideIn,
    models.DecideManyIn,
    models.StepsIn,
    models.TeamStepsIn,
    models.StepContent,
    models.EndOneIn,
    models.EstimateIn,
)


def describe(app: FastAPI) -> None:
    """Put the schemas of bodies, and the bearer token, into the OpenAPI document."""
    usual = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = usual()
            parts = document.setdefault("components", {})
            schemas = parts.setdefault("schemas", {})
            for model in BODIES:
                schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas |= schema.pop("$defs", {})
                schemas[model.__name__] = schema
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
        return app.openapi_schema or document

    app.openapi = openapi  # type: ignore[method-assign]
