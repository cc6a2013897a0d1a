"""The HTTP interface: a FastAPI application over a `Service`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from pydantic.json_schema import models_json_schema
from starlette.concurrency import run_in_threadpool

from cede import __version__
from cede.serve.http.middleware import Metrics, OuterLayer, add_errors
from cede.serve.http.page import add_page
from cede.serve.http.requests import BODIES, PROBLEMS, answer, known_arguments, needs, service_of
from cede.serve.http.routes import QUICK, decisions, reports, setup
from cede.serve.http.views import insight, views
from cede.serve.service import Service, ServiceOptions
from cede.serve.store.database import Database


def create_app(database: Database, options: ServiceOptions | None = None) -> FastAPI:
    """Make the application. Its threads run while it is served."""
    service = Service(database, options)
    metrics = Metrics(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(service.start)
        yield
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
    app.state.service = service
    add_errors(app, service)
    app.router.routes.insert(0, QUICK)
    for router in (setup, decisions, reports, insight):
        app.include_router(router)
    add_health(app)
    app.include_router(views)
    add_page(app)
    describe(app)
    app.add_middleware(OuterLayer, service=service, metrics=metrics)
    return app


def add_health(app: FastAPI) -> None:
    """Add the routes for monitoring."""

    @app.get("/livez", tags=["health"])
    async def live() -> Response:
        """Liveness probe."""
        return answer({"live": True})

    @app.get("/readyz", tags=["health"])
    def ready(request: Request) -> Response:
        """Readiness probe: 503 if a part does not work."""
        parts = service_of(request).ready
        return answer(parts, 200 if all(parts.values()) else 503)

    @app.get("/metrics", tags=["health"], responses=PROBLEMS, dependencies=needs("read"))
    async def measured(request: Request) -> Response:
        """Return metrics for Prometheus. Needs the scope read for all teams."""
        return Response(request.scope["metrics"].text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def describe(app: FastAPI) -> None:
    """Add the schemas of request bodies, and the bearer token, to the OpenAPI document."""
    usual = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = usual()
            _, bodies = models_json_schema([(model, "validation") for model in BODIES], ref_template="#/components/schemas/{model}")
            document["components"]["schemas"] |= bodies["$defs"]
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
        return app.openapi_schema or document

    app.openapi = openapi  # type: ignore[method-assign]
