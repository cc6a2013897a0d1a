"""Routes of clients: set-up, decisions, reports, and questions about what was learned."""

import asyncio
import io
from dataclasses import asdict
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from cede._base import check
from cede.insight.explaining import explain
from cede.insight.summary import summarise
from cede.serve.http import models
from cede.serve.http.reports import read_ends, read_steps
from cede.serve.http.requests import (
    IDEMPOTENCY_KEY,
    PROBLEMS,
    about,
    access_of,
    answer,
    body,
    body_of,
    cached_team,
    checked_text,
    find_team,
    json_of,
    key_of,
    model_of,
    not_allowed,
    plain,
    plan_of,
    require,
    require_any,
    service_of,
    team_for,
)
from cede.serve.http.setup import checked_fallback, environment_from, environment_from_file, team_from
from cede.serve.planner.estimates import check_no_truth, named_agent
from cede.serve.planner.plans import check_time
from cede.serve.served import ServedTeam, checked_name
from cede.serve.store.log import StepReport
from cede.serve.store.tokens import Access

LONGEST_LIST = 1000
SMALL_BATCH = 50  # steps; larger batches are checked in a thread
setup = APIRouter(tags=["set-up"], responses=PROBLEMS)
decisions = APIRouter(tags=["decide"], responses=PROBLEMS)
reports = APIRouter(tags=["report"], responses=PROBLEMS)
insight = APIRouter(tags=["insight"], responses=PROBLEMS)

# ------------------------------------------------------------------------------------------------- set-up


@setup.put("/v1/environments/{name}", openapi_extra=body(models.EnvironmentIn))
async def put_environment(request: Request, name: str) -> Response:
    """Make an environment, from JSON, or from the file of a learner without counts (application/octet-stream)."""
    require(request, "admin")
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


@setup.get("/v1/environments")
async def list_environments(request: Request, after: str = "", limit: int = 100) -> Response:
    """List environments by name."""
    require(request, "read")
    most = check.integer("request", "limit", limit, 1, LONGEST_LIST)
    store = service_of(request).store
    return answer({"environments": await run_in_threadpool(store.environment_names, checked_text("after", after), most)})


@setup.put("/v1/teams/{name}", openapi_extra=body(models.TeamIn))
async def put_team(request: Request, name: str) -> Response:
    """Make a team."""
    require(request, "admin")
    checked_name("team", "name", name)
    given, service = await model_of(request, "team", models.TeamIn), service_of(request)
    store, seed = service.store, given.seed
    home = await run_in_threadpool(store.environment, given.environment)
    served = await run_in_threadpool(team_from, "team", home.served, given.own)
    fallback = home.fallback
    if served is not home.served or given.fallback is not None:
        fallback = checked_fallback("team", served.task, given.fallback)
    new = await asyncio.wrap_future(service.writer.call(lambda c: store.put_team(c, name, home.name, served, seed, fallback)))
    service.planner.wake()
    await run_in_threadpool(service.plans.load, name)
    return answer({"name": name, "created": new}, 201 if new else 200)


@setup.get("/v1/teams")
async def list_teams(
    request: Request, environment: str | None = None, search: str = "", after: str = "", limit: int = 100
) -> Response:
    """List teams by name, of one environment or of all, whose names contain a text; only teams of the token."""
    access = require_any(request, "read")
    most = check.integer("request", "limit", limit, 1, LONGEST_LIST)
    home = None if environment is None else checked_text("environment", environment)
    texts = checked_text("search", search), checked_text("after", after)
    return answer({"teams": await run_in_threadpool(service_of(request).store.find_teams, home, *texts, most, access.teams)})


@setup.get("/v1/teams/{name}")
async def get_team(request: Request, name: str) -> Response:
    """Return the task of a team, and its numbers of episodes. Scope `decide` suffices."""
    if not access_of(request).allows("decide", name):
        require(request, "read", name)
    team, known, service = await find_team(request, name), await cached_team(request, name), service_of(request)

    def numbers() -> dict[str, Any]:
        with service.database.read() as connection:
            return asdict(service.store.numbers(connection, team))

    towards = None if known.towards is None else list(known.towards)
    return answer({"name": name, **about(team), **await run_in_threadpool(numbers), "towards": towards})


@setup.delete("/v1/teams/{name}/steps")
async def erase(request: Request, name: str) -> Response:
    """Erase all steps of a team, and subtract its counts."""
    require(request, "admin")
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
    return answer(vars(decision))


async def decide_quickly(request: Request) -> Response:
    """Answer `decide` without FastAPI's dependencies: it is the most frequent request."""
    request.scope["route"] = QUICK
    return await decide(request, request.path_params["name"])


QUICK = Route(DECIDE, decide_quickly, methods=["POST"], include_in_schema=False)


@decisions.post("/v1/decide", openapi_extra=body(models.DecideManyIn), responses={200: {"model": models.DecisionsOut}})
async def decide_many(request: Request) -> Response:
    """Return the agents that should act, for many teams."""
    access = access_of(request)
    given = await model_of(request, "decide", models.DecideManyIn)
    if not access.has("decide") or not all(access.allows("decide", one.team) for one in given.decisions):
        not_allowed("decide", "all of these teams")
    service, answers = service_of(request), []
    for one in given.decisions:
        answers.append(service.decide(one.team, await cached_team(request, one.team), one.t, one.state, one.prev_agent))
        request.scope["metrics"].decided[answers[-1].plan].inc()
    return answer({"decisions": [vars(one) for one in answers]})


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
    if tag in (one.strip() for one in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    if binary:
        file = io.BytesIO()
        np.save(file, plan.policy)
        return Response(file.getvalue(), media_type="application/x-npy", headers=headers)
    names = ("version", "reason", "made", "episodes", "environment_episodes")
    more = {**{one: getattr(plan, one) for one in names}, "fallback": fallback, **about(plan.team)}
    return await run_in_threadpool(lambda: answer({**more, "policy": plan.policy.tolist()}, headers=headers))


# ------------------------------------------------------------------------------------------------- reports

TAKEN: dict[int | str, dict[str, Any]] = {200: {"model": models.AcceptedOut}}
BEGUN: dict[int | str, dict[str, Any]] = {
    201: {"model": models.BegunOut},
    200: {"model": models.BegunOut, "description": "An episode with this key exists."},
}


async def take(request: Request, report: StepReport) -> Response:
    """Write a report, and answer when it is on disk."""
    outcome = await asyncio.wrap_future(service_of(request).writer.submit(report))
    steps = request.scope["metrics"].steps
    steps.labels("new").inc(outcome.new)
    steps.labels("duplicate").inc(outcome.duplicates)
    return answer(asdict(outcome))


def read(request: Request, data: Any, access: Access | None, team: ServedTeam | None) -> StepReport:
    """Check a batch of steps and ends. access: to check for each team; None: it was checked for the team."""
    if not isinstance(data, dict) or data.keys() - {"steps", "ends"}:
        check.fail("report", "body", check.show(data), "an object of steps and ends")
    service = service_of(request)

    def team_of(name: str) -> ServedTeam:
        if access is not None and not access.allows("report", name):
            not_allowed("report", "all of these teams")
        return service.store.team(checked_name("report", "team", name))

    steps = read_steps(data.get("steps", []), team_of, team, service.options.most_steps)
    return StepReport(steps, read_ends(data.get("ends", []), team_of, team))


@reports.post(
    "/v1/teams/{name}/episodes",
    openapi_extra={**body(models.BeginIn), "parameters": [IDEMPOTENCY_KEY]},
    status_code=201,
    responses=BEGUN,
)
async def begin(request: Request, name: str) -> Response:
    """Begin an episode, and load the team's plan into memory.

    To make the request repeatable, send a number of your own or an `Idempotency-Key`.
    """
    require(request, "report", name)
    given, key, service = await model_of(request, "begin", models.BeginIn), key_of(request), service_of(request)
    team, new = await find_team(request, name), True
    if given.episode is None:
        number, new = await asyncio.wrap_future(service.begin(team, key))
    elif key is not None:
        check.fail("begin", "episode", given.episode, "left out with an Idempotency-Key: a number of your own is a key already")
    else:
        number = given.episode
        await asyncio.wrap_future(service.writer.submit(StepReport((), (), ((team.id, number),))))
    known = service.plans.known(name)
    if known is None or known.plan is None:
        known = await run_in_threadpool(service.plans.load, name)
    version = 0 if known.plan is None else known.plan.version
    return answer({"episode": number, "start_agent": team.served.task.start_agent, "version": version}, 201 if new else 200)


@reports.post("/v1/teams/{name}/steps", openapi_extra=body(models.StepsIn), responses=TAKEN)
async def report_steps(request: Request, name: str) -> Response:
    """Report steps of one team, and ends of episodes, in any order. All or nothing is taken."""
    require(request, "report", name)
    data, team = await json_of(request, service_of(request).options.most_batch), await find_team(request, name)
    if isinstance(data, dict) and isinstance(data.get("steps"), list) and len(data["steps"]) < SMALL_BATCH:
        return await take(request, read(request, data, None, team))
    return await take(request, await run_in_threadpool(read, request, data, None, team))


@reports.post("/v1/steps", openapi_extra=body(models.TeamStepsIn), responses=TAKEN)
async def report_many(request: Request) -> Response:
    """Report steps of many teams, and ends of episodes, in any order. All or nothing is taken."""
    access = require_any(request, "report", "these teams")
    data = await json_of(request, service_of(request).options.most_batch)
    return await take(request, await run_in_threadpool(read, request, data, access, None))


@reports.put("/v1/teams/{name}/episodes/{episode}/steps/{t}", openapi_extra=body(models.StepContent), responses=TAKEN)
async def report_step(request: Request, name: str, episode: int, t: int) -> Response:
    """Report one step."""
    require(request, "report", name)
    data, team = await json_of(request), await find_team(request, name)
    if not isinstance(data, dict) or data.keys() & {"episode", "t"}:
        check.fail("report", "body", check.show(data), "an object, without episode and t, which the address has")
    return await take(request, read(request, {"steps": [{**data, "episode": episode, "t": t}]}, None, team))


@reports.post("/v1/teams/{name}/episodes/{episode}/end", openapi_extra=body(models.EndOneIn), responses=TAKEN)
async def end(request: Request, name: str, episode: int) -> Response:
    """Report the number of steps of an episode. It is counted once all its steps are in the log. Without a horizon, end a run."""
    require(request, "report", name)
    given, team = await model_of(request, "end", models.EndOneIn), await find_team(request, name)
    return await take(request, read(request, {"ends": [{"episode": episode, "steps": given.steps}]}, None, team))


# ------------------------------------------------------------------------------------------------- insight

ESTIMATED: dict[int | str, dict[str, Any]] = {200: {"model": models.EstimateOut}}


@insight.get("/v1/teams/{name}/explain")
async def why(request: Request, name: str, state: int, prev_agent: int, t: int | None = None) -> Response:
    """Explain a choice, from the current counts. t is left out without a horizon."""
    team, service = await team_for(request, "read", name), service_of(request)
    check_time("explain", t, team.served.endless)

    def work() -> Any:
        learner = service.learner(team)
        return {"episodes": learner.episode - 1, "unit": team.served.unit, **asdict(explain(learner, t, state, prev_agent))}

    return answer(plain(await run_in_threadpool(work)))


async def estimated(request: Request, team: ServedTeam, given: dict[str, Any]) -> Response:
    """Answer with the expected cost of a policy. given: arguments of `cede.estimate`; None: its default."""
    asked = {name: one for name, one in given.items() if one is not None}
    estimates = service_of(request).estimates
    fields = await run_in_threadpool(estimates.find, team, asked)
    if fields is None:
        fields = await asyncio.wrap_future(estimates.ask(team, asked))
    return answer(plain(fields))


@insight.get("/v1/teams/{name}/estimate", responses=ESTIMATED)
async def cost_of(
    request: Request,
    name: str,
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
    team = await team_for(request, "read", name)
    task, others = team.served.task, {"interval": interval, "level": level, "draws": draws, "prior": prior, "seed": seed}
    policies = {"policy": named_agent(task, policy), "against": None if against is None else named_agent(task, against)}
    return await estimated(request, team, {**policies, **others})


@insight.post("/v1/teams/{name}/estimate", openapi_extra=body(models.EstimateIn), responses=ESTIMATED)
async def cost_of_any(request: Request, name: str) -> Response:
    """Estimate the cost of any switching policy, (L, S, D) agents by time, state and previous agent."""
    require(request, "read", name)
    given, team = await model_of(request, "estimate", models.EstimateIn), await find_team(request, name)
    for place in ("policy", "against"):
        check_no_truth(place, getattr(given, place))
    return await estimated(request, team, given.model_dump())


@insight.get("/v1/teams/{name}/summary")
async def summary(request: Request, name: str) -> Response:
    """Summarise what was learned: control by state, steps and costs of each agent, states where the belief is wide."""
    team, service = await team_for(request, "read", name), service_of(request)
    return answer(plain(await run_in_threadpool(lambda: asdict(summarise(service.learner(team))))))
