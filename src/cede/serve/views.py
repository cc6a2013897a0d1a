"""Routes for those who look: history, the log, who is in control where, live events, health. All need the scope read."""

from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import Response, StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from cede._base import check
from cede.serve import overview
from cede.serve.events import Event, Events
from cede.serve.export import KINDS, exported, parts, teams_of
from cede.serve.history import Historian, Owner, history_of
from cede.serve.reports import BIG, Team
from cede.serve.requests import PROBLEMS, Guarded, answer, not_allowed, text
from cede.serve.served import checked_name
from cede.serve.service import Service

MOST_BUCKETS = 500
MOST_ROWS = 1000
LOOK: dict[str, Any] = {"tags": ["look"], "responses": PROBLEMS}


def within(place: str, value: int | None, least: int, most: int) -> int | None:
    """Check a number of the query that may be left out."""
    return None if value is None else check.integer("request", place, value, least, most)


def add_views(app: FastAPI, service: Service, guarded: Guarded, events: Events) -> None:
    """Add all routes for those who look."""
    add_history(app, service, guarded)
    add_log(app, service, guarded)
    add_map(app, service, guarded)
    add_events(app, service, guarded, events)


def add_history(app: FastAPI, service: Service, guarded: Guarded) -> None:
    """Add histories of teams and environments."""
    historian = Historian(service.store, lambda work: service.write(work).result())

    async def told(owner: Owner, size: int | None, before: int | None, limit: int) -> Response:
        size, before = within("size", size, 1, BIG), within("before", before, 0, BIG)
        most = check.integer("request", "limit", limit, 1, MOST_BUCKETS)

        def work() -> dict[str, Any]:
            historian.catch_up()
            with service.database.read() as connection:
                found = history_of(connection, service.store, owner, size, before, most)
            return {**found, "behind": historian.waiting(found["unit"])}

        return answer(await run_in_threadpool(work))

    @app.get("/v1/teams/{name}/history", **LOOK)
    async def team_history(
        request: Request, name: str, size: int | None = None, before: int | None = None, limit: int = 100
    ) -> Response:
        """Return what episodes cost, and who was in control, in buckets of `size` episodes, the last ones before a bucket.

        Without a size there are at most 100 buckets. Sums are of the bucket's episodes. behind: episodes that are not summed yet.
        Where there is no horizon, all of these are steps, in buckets of at most `size`, a multiple of 100.
        """
        guarded.access(request, "read", name)
        return await told(Owner.team((await guarded.team(name)).id), size, before, limit)

    @app.get("/v1/environments/{name}/history", **LOOK)
    async def environment_history(
        request: Request, name: str, size: int | None = None, before: int | None = None, limit: int = 100
    ) -> Response:
        """Return the same for all teams of an environment, in the order in which their episodes began."""
        guarded.access(request, "read")
        place, *_ = await run_in_threadpool(service.store.environment, checked_name("environment", "name", name))
        return await told(Owner.environment(place), size, before, limit)


def add_log(app: FastAPI, service: Service, guarded: Guarded) -> None:
    """Add what is in the log."""
    database = service.database
    files: dict[str, Any] = {**LOOK, "responses": {**PROBLEMS, 200: {"content": {kind: {} for kind in KINDS.values()}}}}

    def file(name: str, kind: str, teams: Iterable[Team], since: int) -> Response:
        kind = check.choice("request", "format", kind, tuple(KINDS))
        since = check.integer("request", "since", since, 0, BIG - 1)
        try:
            content = exported(kind, parts(database, teams, since))
        except ImportError as error:
            raise HTTPException(501, f"request: format is 'parquet', must be another one: {error}") from None
        headers = {"content-disposition": f'attachment; filename="{name}.{kind}"', "cache-control": "no-store"}
        return StreamingResponse(content, media_type=KINDS[kind], headers=headers)

    @app.get("/v1/teams/{name}/steps", **files)
    async def team_steps(request: Request, name: str, format: str = "jsonl", since: int = 0) -> Response:
        """Return the log of a team from an episode on, a row for each step: csv, jsonl or parquet."""
        guarded.access(request, "read", name)
        return await run_in_threadpool(file, name, format, [await guarded.team(name)], since)

    @app.get("/v1/environments/{name}/steps", **files)
    async def environment_steps(request: Request, name: str, format: str = "jsonl") -> Response:
        """Return the logs of all teams of an environment, a row for each step: csv, jsonl or parquet."""
        guarded.access(request, "read")
        place, *_ = await run_in_threadpool(service.store.environment, checked_name("environment", "name", name))
        return await run_in_threadpool(file, name, format, teams_of(database, place, service.store.team_of), 0)

    @app.get("/v1/teams/{name}/episodes", **LOOK)
    async def episodes(request: Request, name: str, before: int | None = None, limit: int = 50) -> Response:
        """List episodes of a team, or runs, the greatest number first."""
        guarded.access(request, "read", name)
        before, most = within("before", before, 0, BIG), check.integer("request", "limit", limit, 1, MOST_ROWS)
        team = await guarded.team(name)
        found = await run_in_threadpool(overview.episodes_of, database, team, before, most)
        return answer({"episodes": found, "unit": team.served.unit})

    @app.get("/v1/teams/{name}/episodes/{episode}/steps", **LOOK)
    async def steps(request: Request, name: str, episode: int, since: int = 0, limit: int = 100) -> Response:
        """List steps of an episode, from t = since on."""
        guarded.access(request, "read", name)
        number, since = (
            check.integer("request", "episode", episode, 0, BIG - 1),
            check.integer("request", "since", since, 0, BIG - 1),
        )
        most, team = check.integer("request", "limit", limit, 1, MOST_ROWS), await guarded.team(name)
        return answer({"steps": await run_in_threadpool(overview.steps_of, database, team, number, since, most)})


def add_map(app: FastAPI, service: Service, guarded: Guarded) -> None:
    """Add who is in control where, and health."""

    @app.get("/v1/teams/{name}/map", **LOOK)
    async def where(
        request: Request, name: str, t: int | None = None, search: str = "", first: int = 0, limit: int = 100, order: str = "visits"
    ) -> Response:
        """Tell who is in control where at time t, by the newest plan, and how often each state was seen; in order of visits or
        state. Without t it is the first time step; it must be left out where there is no horizon.
        """
        guarded.access(request, "read", name)
        begin, most = check.integer("request", "first", first, 0, BIG), check.integer("request", "limit", limit, 1, MOST_ROWS)
        by_visits = check.choice("request", "order", order, ("visits", "state")) == "visits"
        team, search = await guarded.team(name), text("search", search)

        def work() -> dict[str, Any] | None:
            known = service.plans.known(name)
            plan = known.plan if known is not None and known.plan is not None else service.plans.wake(name).plan
            return None if plan is None else overview.policy_map(plan, service.learner(team), t, search, begin, most, by_visits)

        found = await run_in_threadpool(work)
        if found is None:
            detail = f"map: plan of {check.show(name)} is missing, must be made first; try again"
            raise HTTPException(404, detail, {"retry-after": "1"})
        return answer(found)

    @app.get("/v1/health", **LOOK)
    async def health(request: Request) -> Response:
        """Tell how the service is: what waits, how old plans are, what failed."""
        if not guarded.holder(request).has("read"):
            not_allowed("read", "any team")
        return answer(await run_in_threadpool(overview.health, service))


def add_events(app: FastAPI, service: Service, guarded: Guarded, events: Events) -> None:
    """Add live events."""

    def may_listen(request: Request, team: str | None = None) -> int | None:
        """Check who asks, before anything is answered; return the number of the plan that was told last."""
        if team is not None:
            guarded.access(request, "read", checked_name("request", "team", team))
        elif not guarded.holder(request).has("read"):
            not_allowed("read", "any team")
        last = request.headers.get("last-event-id")
        if last is not None and not (last.isascii() and last.isdecimal() and int(last[:20]) < BIG):
            check.fail("request", "Last-Event-ID", check.show(last), "the id of an event")
        return None if last is None else int(last)

    @app.get("/v1/events", response_class=EventSourceResponse, tags=["look"], responses=PROBLEMS)
    async def live(
        request: Request, last: Annotated[int | None, Depends(may_listen)], team: str | None = None
    ) -> AsyncIterator[ServerSentEvent]:
        """Tell what happens, as it happens: plans, and episodes that were counted; of one team, or of all that the token allows.

        Events: plan (team, version, episodes, environment_episodes, made), counted (team, episodes), missed (ask for all anew).
        Where there is no horizon, episodes are steps.
        With Last-Event-ID, plans that were missed are told first. The stream ends when the token does.
        """
        access = guarded.holder(request)

        def wanted(event: Event) -> bool:
            return event.team == team if team is not None else access.allows("read", event.team)

        yield ServerSentEvent(comment="welcome", retry=2000)
        async for event in events.listen(wanted, last):
            try:
                guarded.holder(request)
            except HTTPException:
                return
            if event is not None:
                yield ServerSentEvent(data=event.data, event=event.kind, id=None if event.id is None else str(event.id))
