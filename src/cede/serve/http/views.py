"""Routes that only read: history, the log, the policy by state, explanations, estimates, live events, health. Scope read."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import Response, StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from cede._base import check
from cede._base.arrays import Floats
from cede.insight.explaining import explain
from cede.insight.summary import summarise
from cede.learners.learner import Learner
from cede.rows.places import Places
from cede.serve.events import Event
from cede.serve.http import models
from cede.serve.http.requests import (
    PROBLEMS,
    Limit,
    Number,
    ReadableTeam,
    ShortText,
    access_of,
    answer,
    body,
    model_of,
    plan_of,
    require,
    require_any,
    service_of,
)
from cede.serve.names import BIG, OF_ENVIRONMENT, OF_TEAM, checked_name
from cede.serve.planner.estimates import check_no_truth, named_agent
from cede.serve.planner.plans import check_time
from cede.serve.served import ServedPlan, ServedTeam
from cede.serve.store.database import now_ms
from cede.serve.store.export import EXPORTS, FORMATS, episodes_of, parts, steps_of, teams_of
from cede.serve.store.history import Owner, history_of
from cede.serve.store.store import ServedEnvironment

insight = APIRouter(tags=["insight"], responses=PROBLEMS)
views = APIRouter(tags=["look"], responses=PROBLEMS)
Size = Annotated[int | None, Query(ge=1, lt=BIG)]
Buckets = Annotated[int, Query(ge=1, le=500)]


def environment_of_address(request: Request, name: str) -> ServedEnvironment:
    """Check the token, and return the environment of the address."""
    require(request, "read")
    return service_of(request).store.environment(checked_name("environment", "name", name))


ReadableEnvironment = Annotated[ServedEnvironment, Depends(environment_of_address)]

# ------------------------------------------------------------------------------------------------- insight

ESTIMATED: dict[int | str, dict[str, Any]] = {200: {"model": models.EstimateOut}}


@insight.get("/v1/teams/{name}/explain")
def why(request: Request, team: ReadableTeam, state: int, prev_agent: int, t: int | None = None) -> Response:
    """Explain a choice, from the current counts. t is left out without a horizon."""
    check_time("explain", t, team.served.endless)
    learner = service_of(request).learner(team)
    return answer({"episodes": learner.episode - 1, "unit": team.served.unit, **asdict(explain(learner, t, state, prev_agent))})


async def estimated(request: Request, team: ServedTeam, given: dict[str, Any]) -> Response:
    """Answer with the expected cost of a policy. given: arguments of `cede.estimate`; None: its default."""
    asked = {name: one for name, one in given.items() if one is not None}
    estimates = service_of(request).estimates
    fields = await run_in_threadpool(estimates.find, team, asked)
    if fields is None:
        fields = await asyncio.wrap_future(estimates.ask(team, asked))
    return answer(fields)


@insight.get("/v1/teams/{name}/estimate", responses=ESTIMATED)
async def cost_of(
    request: Request,
    team: ReadableTeam,
    policy: str = "plan",
    against: str | None = None,
    interval: str | None = None,
    level: float | None = None,
    draws: int | None = None,
    prior: float | None = None,
    seed: int | None = None,
) -> Response:
    """Estimate the cost of the plan, or of an agent that is always in control (by name or index), or the difference to another one.

    The answer is `cede.estimate` of the current counts, with an interval. The plan is the one that follows from these counts.
    """
    task, others = team.served.task, {"interval": interval, "level": level, "draws": draws, "prior": prior, "seed": seed}
    policies = {"policy": named_agent(task, policy), "against": None if against is None else named_agent(task, against)}
    return await estimated(request, team, {**policies, **others})


@insight.post("/v1/teams/{name}/estimate", openapi_extra=body(models.EstimateIn), responses=ESTIMATED)
async def cost_of_any(request: Request, team: ReadableTeam) -> Response:
    """Estimate the cost of any switching policy, (L, S, D) agents by time, state and previous agent."""
    given = await model_of(request, "estimate", models.EstimateIn)
    for place in ("policy", "against"):
        check_no_truth(place, getattr(given, place))
    return await estimated(request, team, given.model_dump())


@insight.get("/v1/teams/{name}/summary")
def summary(request: Request, team: ReadableTeam) -> Response:
    """Summarise what was learned: control by state, steps and costs of each agent, states where the belief is wide."""
    return answer(summarise(service_of(request).learner(team)))


# ------------------------------------------------------------------------------------------------- history


def history(request: Request, owner: Owner, size: int | None, before: int | None, most: int) -> Response:
    """Answer with the history of a team or an environment."""
    service = service_of(request)
    service.history.catch_up()
    with service.database.read() as connection:
        result = history_of(connection, service.store, owner, size, before, most)
    return answer({**result, "behind": service.history.waiting(result["unit"])})


@views.get("/v1/teams/{name}/history")
def team_history(
    request: Request, team: ReadableTeam, size: Size = None, before: Number | None = None, limit: Buckets = 100
) -> Response:
    """Return cost and control of episodes, in buckets of `size` episodes, the newest ones before a bucket.

    Without a size there are at most 100 buckets. Sums are over the episodes of a bucket. behind: episodes that are not summed yet.
    Without a horizon, all of these are steps, in buckets of at most `size`, a multiple of 100.
    """
    return history(request, Owner(OF_TEAM, team.id), size, before, limit)


@views.get("/v1/environments/{name}/history")
def environment_history(
    request: Request, environment: ReadableEnvironment, size: Size = None, before: Number | None = None, limit: Buckets = 100
) -> Response:
    """Return the history of all teams of an environment, in the order in which their episodes began."""
    return history(request, Owner(OF_ENVIRONMENT, environment.id), size, before, limit)


# ------------------------------------------------------------------------------------------------- the log

FILES: dict[int | str, dict[str, Any]] = {200: {"content": {kind: {} for kind in FORMATS.values()}}}
Format = Literal["csv", "jsonl", "parquet"]


def export(request: Request, name: str, kind: Format, teams: Iterable[ServedTeam], since: int) -> Response:
    """Answer with the log of teams as a file."""
    try:
        content = EXPORTS[kind](parts(service_of(request).database, teams, since))
    except ImportError as error:
        raise HTTPException(501, f"request: format is 'parquet', must be another one: {error}") from None
    headers = {"content-disposition": f'attachment; filename="{name}.{kind}"', "cache-control": "no-store"}
    return StreamingResponse(content, media_type=FORMATS[kind], headers=headers)


@views.get("/v1/teams/{name}/steps", responses=FILES)
def team_steps(request: Request, team: ReadableTeam, format: Format = "jsonl", since: Number = 0) -> Response:
    """Return the log of a team from an episode on, a row for each step: csv, jsonl or parquet."""
    return export(request, team.name, format, [team], since)


@views.get("/v1/environments/{name}/steps", responses=FILES)
def environment_steps(request: Request, environment: ReadableEnvironment, format: Format = "jsonl") -> Response:
    """Return the logs of all teams of an environment, a row for each step: csv, jsonl or parquet."""
    service = service_of(request)
    return export(request, environment.name, format, teams_of(service.database, environment.id, service.store.team), 0)


@views.get("/v1/teams/{name}/episodes")
def episodes(request: Request, team: ReadableTeam, before: Number | None = None, limit: Limit = 50) -> Response:
    """List episodes of a team, or runs, the greatest number first."""
    return answer({"episodes": episodes_of(service_of(request).database, team, before, limit), "unit": team.served.unit})


@views.get("/v1/teams/{name}/episodes/{episode}/steps")
def steps(request: Request, team: ReadableTeam, episode: int, since: Number = 0, limit: Limit = 100) -> Response:
    """List steps of an episode, from t = since on."""
    number = check.integer("request", "episode", episode, 0, BIG - 1)
    return answer({"steps": steps_of(service_of(request).database, team, number, since, limit)})


# ------------------------------------------------------------------------------------------------- the policy by state


@views.get("/v1/teams/{name}/map")
async def where(
    request: Request,
    team: ReadableTeam,
    t: int | None = None,
    search: ShortText = "",
    first: Number = 0,
    limit: Limit = 100,
    order: Literal["visits", "state"] = "visits",
) -> Response:
    """Return the agent in control by state at time t, by the newest plan, and the visits of each state; ordered by visits or state.

    Without t it is the first time step; t must be left out without a horizon.
    """
    plan, _ = await plan_of(request, team.name, "map")

    def work() -> Response:
        return answer(policy_map(plan, service_of(request).learner(team), t, search, first, limit, order == "visits"))

    return await run_in_threadpool(work)


def visits_of(learner: Learner) -> tuple[Floats, Floats]:
    """Return the visits of each state, (S,), and the steps of each member in it, (S, members).

    States that share a row by declared structure share its visits.
    """
    task, counts = learner.task, learner.counts
    agents_place, environment_place = Places(task, structure=learner.settings.structure).place
    outcomes = np.asarray(counts.environment.sum(axis=1)).ravel()
    states = outcomes[environment_place].sum(axis=1).reshape(-1, task.n_states).sum(axis=0)
    acted = np.asarray(counts.agents.sum(axis=1)).ravel()
    members = np.zeros((task.n_states, len(task.members)))
    for table, (first, n) in enumerate(zip(task.layout.first_slot, task.layout.n_slots, strict=True)):
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
    task, policy = plan.team.served.task, plan.policy
    if plan.team.served.endless:
        check_time("map", t, endless=True)
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
    about = {"version": plan.version, "reason": plan.reason, "made": plan.made, "age": age, "episodes": plan.episodes}
    sizes = {"t": t, "steps": task.horizon, "states": len(matching), "most_visits": float(states.max(initial=0.0))}
    agents = {"agents": task.agents, "members": task.members, "acting": task.acting.tolist(), "aim": task.layout.aim.tolist()}
    return {**about, "unit": plan.team.served.unit, **sizes, **agents, "rows": rows}


# ------------------------------------------------------------------------------------------------- health and events


@views.get("/v1/health")
def health(request: Request) -> Response:
    """Return the state of the service: queues, ages of plans, failures."""
    require_any(request, "read")
    return answer(service_of(request).health())


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
