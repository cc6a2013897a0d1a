"""Routes of clients: set-up, decisions, and reports."""

import asyncio
import io
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from cede._base import check
from cede.serve.http import models
from cede.serve.http.reports import read_report
from cede.serve.http.requests import (
    PROBLEMS,
    Limit,
    ReportedTeam,
    ShortText,
    about,
    access_of,
    answer,
    body,
    body_of,
    cached_team,
    find_team,
    idempotency_key,
    json_of,
    model_of,
    needs,
    not_allowed,
    plan_of,
    require,
    require_any,
    service_of,
)
from cede.serve.http.setup import checked_fallback, environment_from, environment_from_file, team_from
from cede.serve.names import checked_name
from cede.serve.served import ServedTeam
from cede.serve.store.log import StepReport
from cede.serve.store.tokens import Access

SMALL_BATCH = 50  # steps; larger batches are checked in a thread
setup = APIRouter(tags=["set-up"], responses=PROBLEMS)
decisions = APIRouter(tags=["decide"], responses=PROBLEMS)
reports = APIRouter(tags=["report"], responses=PROBLEMS)

# ------------------------------------------------------------------------------------------------- set-up


@setup.put("/v1/environments/{name}", openapi_extra=body(models.EnvironmentIn), dependencies=needs("admin"))
async def put_environment(request: Request, name: str) -> Response:
    """Make an environment, from JSON, or from the file of a learner without counts (application/octet-stream)."""
    checked_name("environment", "name", name)
    service = service_of(request)
    if request.headers.get("content-type", "").partition(";")[0].strip() == "application/octet-stream":
        raw = await body_of(request, service.options.most_batch)
        served, agent = await run_in_threadpool(environment_from_file, "environment", raw), None
    else:
        given = await model_of(request, "environment", models.EnvironmentIn, service.options.most_batch)
        served, agent = await run_in_threadpool(environment_from, "environment", given.task, given.learner), given.fallback
    fallback = checked_fallback("environment", served.task, agent)
    new = await asyncio.wrap_future(service.writer.call(lambda c: service.store.put_environment(c, name, served, fallback)))
    return answer({"name": name, "created": new}, 201 if new else 200)


@setup.get("/v1/environments", dependencies=needs("read"))
def list_environments(request: Request, after: ShortText = "", limit: Limit = 100) -> Response:
    """List environments by name."""
    return answer({"environments": service_of(request).store.environment_names(after, limit)})


@setup.put("/v1/teams/{name}", openapi_extra=body(models.TeamIn), dependencies=needs("admin"))
async def put_team(request: Request, name: str) -> Response:
    """Make a team."""
    checked_name("team", "name", name)
    given, service = await model_of(request, "team", models.TeamIn), service_of(request)
    home = await run_in_threadpool(service.store.environment, given.environment)
    served = await run_in_threadpool(team_from, "team", home.served, given.own)
    fallback = home.fallback
    if served is not home.served or given.fallback is not None:
        fallback = checked_fallback("team", served.task, given.fallback)
    content = (name, home.name, served, given.seed, fallback)
    new = await asyncio.wrap_future(service.writer.call(lambda c: service.store.put_team(c, *content)))
    service.planner.wake()
    await run_in_threadpool(service.plans.load, name)
    return answer({"name": name, "created": new}, 201 if new else 200)


@setup.get("/v1/teams")
def list_teams(
    request: Request, environment: ShortText | None = None, search: ShortText = "", after: ShortText = "", limit: Limit = 100
) -> Response:
    """List teams by name, of one environment or of all, whose names contain a text; only teams of the token."""
    access = require_any(request, "read")
    return answer({"teams": service_of(request).store.find_teams(environment, search, after, limit, access.teams)})


@setup.get("/v1/teams/{name}")
async def get_team(request: Request, name: str) -> Response:
    """Return the task of a team, and its numbers of episodes. Scope `decide` suffices."""
    if not access_of(request).allows("decide", name):
        require(request, "read", name)
    team, known, service = await find_team(request, name), await cached_team(request, name), service_of(request)

    def numbers() -> dict[str, Any]:
        with service.database.read() as connection:
            return asdict(service.store.numbers(connection, team))

    ways = known.towards if known.towards is None or len(known.towards) > 1 else known.towards[0]  # by state only with locks
    return answer({"name": name, **about(team), **await run_in_threadpool(numbers), "towards": ways})


@setup.delete("/v1/teams/{name}/steps", dependencies=needs("admin"))
async def erase(request: Request, name: str) -> Response:
    """Erase all steps of a team, and subtract its counts."""
    return answer({"erased": await asyncio.wrap_future(service_of(request).erase(await find_team(request, name)))})


# ------------------------------------------------------------------------------------------------- decisions

DECIDE = "/v1/teams/{name}/decide"


@decisions.post(DECIDE, openapi_extra=body(models.DecideIn), responses={200: {"model": models.DecisionOut}})
async def decide(request: Request, name: str) -> Response:
    """Return the agent that should act, from the plan in memory."""
    require(request, "decide", name)
    given = await model_of(request, "decide", models.DecideIn)
    decision = service_of(request).decide(name, await cached_team(request, name), given.t, given.state, given.prev_agent)
    request.scope["metrics"].decided[decision.plan].inc()
    return answer(decision)


async def decide_quickly(request: Request) -> Response:
    """Answer `decide` without FastAPI's dependencies: it is the most frequent request."""
    request.scope["route"] = QUICK
    return await decide(request, request.path_params["name"])


QUICK = Route(DECIDE, decide_quickly, methods=["POST"], include_in_schema=False)


@decisions.post("/v1/decide", openapi_extra=body(models.DecideManyIn), responses={200: {"model": models.DecisionsOut}})
async def decide_many(request: Request) -> Response:
    """Return the agents that should act, for many teams."""
    access = access_of(request)
    wanted = await model_of(request, "decide", models.DecideManyIn)
    if not access.has("decide") or not all(access.allows("decide", asked.team) for asked in wanted.decisions):
        not_allowed("decide", "all of these teams")
    service, answers = service_of(request), []
    for asked in wanted.decisions:
        answers.append(service.decide(asked.team, await cached_team(request, asked.team), asked.t, asked.state, asked.prev_agent))
        request.scope["metrics"].decided[answers[-1].plan].inc()
    return answer({"decisions": answers})


@decisions.get("/v1/teams/{name}/policy")
async def policy(request: Request, name: str) -> Response:
    """Return the whole policy, for decisions in the client: JSON, or with `Accept: application/x-npy` a NumPy array, (L, S, D).

    Without a horizon it is (S, D).
    """
    require(request, "decide", name)
    plan, fallback = await plan_of(request, name, "policy")
    binary = "application/x-npy" in request.headers.get("accept", "")
    tag = f'"{plan.team.id}-{plan.version}-{plan.made}-{"npy" if binary else "json"}"'  # `made`: clients may outlive a database
    headers = {"etag": tag, "cache-control": "private, no-cache", "vary": "Accept, Authorization"}
    headers |= {"cede-version": str(plan.version), "cede-made": str(plan.made), "cede-reason": plan.reason}
    if tag in (known_tag.strip() for known_tag in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    if binary:
        file = io.BytesIO()
        np.save(file, plan.policy)
        return Response(file.getvalue(), media_type="application/x-npy", headers=headers)
    names = ("version", "reason", "made", "episodes", "environment_episodes")
    more = {**{field: getattr(plan, field) for field in names}, "fallback": fallback, **about(plan.team)}
    return await run_in_threadpool(lambda: answer({**more, "policy": plan.policy.tolist()}, headers=headers))


# ------------------------------------------------------------------------------------------------- reports

TAKEN: dict[int | str, dict[str, Any]] = {200: {"model": models.AcceptedOut}}
BEGUN: dict[int | str, dict[str, Any]] = {
    201: {"model": models.BegunOut},
    200: {"model": models.BegunOut, "description": "An episode with this key exists."},
}


async def take(request: Request, data: Any, team: ServedTeam | None = None, access: Access | None = None) -> Response:
    """Check a batch of steps and ends, write it, and answer when it is on disk.

    team: of all steps; None: each step names its team, for which `access` is checked.
    """
    service = service_of(request)

    def team_named(name: str) -> ServedTeam:
        if access is None or not access.allows("report", name):
            not_allowed("report", "all of these teams")
        return service.store.team(checked_name("report", "team", name))

    arguments = (data, team or team_named, service.options.most_steps)
    steps = data.get("steps", []) if isinstance(data, dict) else []
    small = team is not None and isinstance(steps, list) and len(steps) < SMALL_BATCH
    report = read_report(*arguments) if small else await run_in_threadpool(read_report, *arguments)
    outcome = await asyncio.wrap_future(service.writer.submit(report))
    counters = request.scope["metrics"].steps
    counters.labels("new").inc(outcome.new)
    counters.labels("duplicate").inc(outcome.duplicates)
    return answer(outcome)


@reports.post("/v1/teams/{name}/episodes", openapi_extra=body(models.BeginIn), status_code=201, responses=BEGUN)
async def begin(request: Request, team: ReportedTeam, key: Annotated[str | None, Depends(idempotency_key)]) -> Response:
    """Begin an episode, and load the team's plan into memory.

    To make the request repeatable, send a number of your own or an `Idempotency-Key`.
    """
    given, service, new = await model_of(request, "begin", models.BeginIn), service_of(request), True
    if given.episode is None:
        number, new = await asyncio.wrap_future(service.begin(team, key))
    elif key is not None:
        check.fail("begin", "episode", given.episode, "left out with an Idempotency-Key: a number of your own is a key already")
    else:
        number = given.episode
        await asyncio.wrap_future(service.writer.submit(StepReport((), (), ((team.id, number),))))
    known = service.plans.known(team.name)
    if known is None or known.plan is None:
        known = await run_in_threadpool(service.plans.load, team.name)
    version = 0 if known.plan is None else known.plan.version
    return answer({"episode": number, "start_agent": team.served.task.start_agent, "version": version}, 201 if new else 200)


@reports.post("/v1/teams/{name}/steps", openapi_extra=body(models.StepsIn), responses=TAKEN)
async def report_steps(request: Request, team: ReportedTeam) -> Response:
    """Report steps of one team, and ends of episodes, in any order. A report is accepted as a whole or not at all."""
    return await take(request, await json_of(request, service_of(request).options.most_batch), team)


@reports.post("/v1/steps", openapi_extra=body(models.TeamStepsIn), responses=TAKEN)
async def report_many(request: Request) -> Response:
    """Report steps of many teams, and ends of episodes, in any order. A report is accepted as a whole or not at all."""
    access = require_any(request, "report", "these teams")
    return await take(request, await json_of(request, service_of(request).options.most_batch), access=access)


@reports.put("/v1/teams/{name}/episodes/{episode}/steps/{t}", openapi_extra=body(models.StepContent), responses=TAKEN)
async def report_step(request: Request, team: ReportedTeam, episode: int, t: int) -> Response:
    """Report one step."""
    data = await json_of(request)
    if not isinstance(data, dict) or data.keys() & {"episode", "t"}:
        check.fail("report", "body", check.show(data), "an object, without episode and t, which the address has")
    return await take(request, {"steps": [{**data, "episode": episode, "t": t}]}, team)


@reports.post("/v1/teams/{name}/episodes/{episode}/end", openapi_extra=body(models.EndOneIn), responses=TAKEN)
async def end(request: Request, team: ReportedTeam, episode: int) -> Response:
    """Report the number of steps of an episode. It is counted once all its steps are in the log. Without a horizon, end a run."""
    given = await model_of(request, "end", models.EndOneIn)
    return await take(request, {"ends": [{"episode": episode, "steps": given.steps}]}, team)
