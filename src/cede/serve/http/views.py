"""Routes of the dashboard: history, the log, the policy by state, live events, health. All need the scope read."""

from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import Response, StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from cede._base import check
from cede._base.arrays import Floats
from cede.learners.learner import Learner
from cede.rows.places import places_of
from cede.serve.events import Event
from cede.serve.http.requests import (
    PROBLEMS,
    access_of,
    answer,
    checked_text,
    plan_of,
    require,
    require_any,
    service_of,
    team_for,
)
from cede.serve.planner.plans import check_time
from cede.serve.served import BIG, ServedPlan, ServedTeam, checked_name
from cede.serve.store.database import now_ms
from cede.serve.store.export import FORMATS, episodes_of, exported, parts, steps_of, teams_of
from cede.serve.store.history import Owner, history_of

MOST_BUCKETS = 500
MOST_ROWS = 1000
views = APIRouter(tags=["look"], responses=PROBLEMS)


def within(place: str, value: int | None, least: int, most: int) -> int | None:
    """Check an optional number of the query."""
    return None if value is None else check.integer("request", place, value, least, most)


# ------------------------------------------------------------------------------------------------- history


async def history_answer(request: Request, owner: Owner, size: int | None, before: int | None, limit: int) -> Response:
    """Answer with the history of a team or an environment."""
    size, before = within("size", size, 1, BIG), within("before", before, 0, BIG)
    most = check.integer("request", "limit", limit, 1, MOST_BUCKETS)
    service = service_of(request)
    sums = service.history

    def work() -> dict[str, Any]:
        sums.catch_up()
        with service.database.read() as connection:
            result = history_of(connection, service.store, owner, size, before, most)
        return {**result, "behind": sums.waiting(result["unit"])}

    return answer(await run_in_threadpool(work))


@views.get("/v1/teams/{name}/history")
async def team_history(
    request: Request, name: str, size: int | None = None, before: int | None = None, limit: int = 100
) -> Response:
    """Return cost and control of episodes, in buckets of `size` episodes, the newest ones before a bucket.

    Without a size there are at most 100 buckets. Sums are over the episodes of a bucket. behind: episodes that are not summed yet.
    Without a horizon, all of these are steps, in buckets of at most `size`, a multiple of 100.
    """
    team = await team_for(request, "read", name)
    return await history_answer(request, Owner.team(team.id), size, before, limit)


@views.get("/v1/environments/{name}/history")
async def environment_history(
    request: Request, name: str, size: int | None = None, before: int | None = None, limit: int = 100
) -> Response:
    """Return the history of all teams of an environment, in the order in which their episodes began."""
    require(request, "read")
    environment = await run_in_threadpool(service_of(request).store.environment, checked_name("environment", "name", name))
    return await history_answer(request, Owner.environment(environment.id), size, before, limit)


# ------------------------------------------------------------------------------------------------- the log

FILES: dict[int | str, dict[str, Any]] = {200: {"content": {kind: {} for kind in FORMATS.values()}}}


def export(request: Request, name: str, kind: str, teams: Iterable[ServedTeam], since: int) -> Response:
    """Answer with the log of teams as a file."""
    kind = check.choice("request", "format", kind, tuple(FORMATS))
    since = check.integer("request", "since", since, 0, BIG - 1)
    try:
        content = exported(kind, parts(service_of(request).database, teams, since))
    except ImportError as error:
        raise HTTPException(501, f"request: format is 'parquet', must be another one: {error}") from None
    headers = {"content-disposition": f'attachment; filename="{name}.{kind}"', "cache-control": "no-store"}
    return StreamingResponse(content, media_type=FORMATS[kind], headers=headers)


@views.get("/v1/teams/{name}/steps", responses=FILES)
async def team_steps(request: Request, name: str, format: str = "jsonl", since: int = 0) -> Response:
    """Return the log of a team from an episode on, a row for each step: csv, jsonl or parquet."""
    return await run_in_threadpool(export, request, name, format, [await team_for(request, "read", name)], since)


@views.get("/v1/environments/{name}/steps", responses=FILES)
async def environment_steps(request: Request, name: str, format: str = "jsonl") -> Response:
    """Return the logs of all teams of an environment, a row for each step: csv, jsonl or parquet."""
    require(request, "read")
    service = service_of(request)
    environment = await run_in_threadpool(service.store.environment, checked_name("environment", "name", name))
    teams = teams_of(service.database, environment.id, service.store.team)
    return await run_in_threadpool(export, request, name, format, teams, 0)


@views.get("/v1/teams/{name}/episodes")
async def episodes(request: Request, name: str, before: int | None = None, limit: int = 50) -> Response:
    """List episodes of a team, or runs, the greatest number first."""
    team = await team_for(request, "read", name)
    before, most = within("before", before, 0, BIG), check.integer("request", "limit", limit, 1, MOST_ROWS)
    rows = await run_in_threadpool(episodes_of, service_of(request).database, team, before, most)
    return answer({"episodes": rows, "unit": team.served.unit})


@views.get("/v1/teams/{name}/episodes/{episode}/steps")
async def steps(request: Request, name: str, episode: int, since: int = 0, limit: int = 100) -> Response:
    """List steps of an episode, from t = since on."""
    team = await team_for(request, "read", name)
    number, since = (check.integer("request", *one, 0, BIG - 1) for one in (("episode", episode), ("since", since)))
    most = check.integer("request", "limit", limit, 1, MOST_ROWS)
    return answer({"steps": await run_in_threadpool(steps_of, service_of(request).database, team, number, since, most)})


# ------------------------------------------------------------------------------------------------- the policy by state


@views.get("/v1/teams/{name}/map")
async def where(
    request: Request, name: str, t: int | None = None, search: str = "", first: int = 0, limit: int = 100, order: str = "visits"
) -> Response:
    """Return the agent in control by state at time t, by the newest plan, and the visits of each state; ordered by visits or state.

    Without t it is the first time step; t must be left out without a horizon.
    """
    team = await team_for(request, "read", name)
    begin, most = check.integer("request", "first", first, 0, BIG), check.integer("request", "limit", limit, 1, MOST_ROWS)
    by_visits = check.choice("request", "order", order, ("visits", "state")) == "visits"
    search, service = checked_text("search", search), service_of(request)
    plan, _ = await plan_of(request, name, "map")
    work = lambda: policy_map(plan, service.learner(team), t, search, begin, most, by_visits)  # noqa: E731
    return answer(await run_in_threadpool(work))


def visits_of(learner: Learner) -> tuple[Floats, Floats]:
    """Return the visits of each state, (S,), and the steps of each member in it, (S, members).

    States that share a row by declared structure share its visits.
    """
    task, counts = learner.task, learner.counts
    agents_place, environment_place = places_of(task, structure=learner.settings.structure)
    outcomes = np.asarray(counts.environment.sum(axis=1)).ravel()
    states = outcomes[environment_place].sum(axis=1).reshape(-1, task.n_states).sum(axis=0)
    acted = np.asarray(counts.agents.sum(axis=1)).ravel()
    members = np.zeros((task.n_states, len(task.members)))
    for table, (first, n) in enumerate(zip(task.first_slot, task.n_slots, strict=True)):
        member = int(task.acting[np.argmax(task.table == table)])
        members[:, member] += acted[agents_place[first : first + n]].sum(axis=0)
    return states, members


def policy_map(
    plan: ServedPlan, learner: Learner, t: int | None, search: str, first: int, most: int, by_visits: bool
) -> dict[str, Any]:
    """Return for states whose names contain a text the agent that follows each previous agent at time t.

    t: None: the first time step; without a horizon it must be None. by_visits: most visited states first. first, most: the part of
    the list.
    """
    task = plan.team.served.task
    if plan.team.served.endless:
        check_time("map", t, endless=True)
        policy = plan.policy
    else:
        t = check.index("map", "t", t or 0, task.plan_steps)
        policy = plan.policy[t]
    states, members = visits_of(learner)
    names = [check.printable(one) for one in task.state_names or (f"state {s}" for s in range(task.n_states))]
    matching = [s for s in range(task.n_states) if search.lower() in names[s].lower()]
    if by_visits:
        matching.sort(key=lambda s: -states[s])
    rows = [
        {
            "state": s,
            "name": names[s],
            "terminal": bool(task.is_terminal[s]),
            "visits": float(states[s]),
            "acted": members[s].tolist(),
            "agents": policy[s].tolist(),
        }
        for s in matching[first : first + most]
    ]
    age = max(0, now_ms() - plan.made) / 1000
    about: dict[str, Any] = {"version": plan.version, "reason": plan.reason, "made": plan.made, "age": age}
    about |= {"episodes": plan.episodes, "unit": plan.team.served.unit}
    sizes = {"t": t, "steps": task.horizon, "states": len(matching), "most_visits": float(states.max(initial=0.0))}
    agents = {"agents": list(task.agents), "members": list(task.members), "acting": task.acting.tolist(), "aim": task.aim.tolist()}
    return {**about, **sizes, **agents, "rows": rows}


# ------------------------------------------------------------------------------------------------- health and events


@views.get("/v1/health")
async def health(request: Request) -> Response:
    """Return the state of the service: queues, ages of plans, failures."""
    require_any(request, "read")
    return answer(await run_in_threadpool(service_of(request).health))


def last_event(request: Request, team: str | None = None) -> int | None:
    """Check the token before the stream begins; return the number of the last plan that the client got."""
    if team is not None:
        require(request, "read", checked_name("request", "team", team))
    else:
        require_any(request, "read")
    last = request.headers.get("last-event-id")
    if last is not None and not (last.isascii() and last.isdecimal() and int(last[:20]) < BIG):
        check.fail("request", "Last-Event-ID", check.show(last), "the id of an event")
    return None if last is None else int(last)


@views.get("/v1/events", response_class=EventSourceResponse)
async def live(
    request: Request, last: Annotated[int | None, Depends(last_event)], team: str | None = None
) -> AsyncIterator[ServerSentEvent]:
    """Stream events: new plans and counted episodes; of one team, or of all teams of the token.

    Events: plan (team, version, episodes, environment_episodes, made), counted (team, episodes), missed (read everything again).
    Without a horizon, episodes are steps. With Last-Event-ID, missed plans are sent first. The stream ends when the token expires.
    """
    access = access_of(request)

    def wanted(event: Event) -> bool:
        return event.team == team if team is not None else access.allows("read", event.team)

    yield ServerSentEvent(comment="welcome", retry=2000)
    async for event in service_of(request).events.listen(wanted, last):
        try:
            access_of(request)
        except HTTPException:
            return
        if event is not None:
            yield ServerSentEvent(data=event.data, event=event.kind, id=None if event.id is None else str(event.id))
