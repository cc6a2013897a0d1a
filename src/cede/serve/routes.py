"""The routes of the work itself: decisions, reports, and what people want to know."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from cede._base import check
from cede.insight.explain import explain
from cede.insight.summary import summarise
from cede.serve import models
from cede.serve.border import Metrics
from cede.serve.estimates import check_no_truth, named_agent
from cede.serve.memory import check_time
from cede.serve.reports import Report, Team, read_ends, read_steps
from cede.serve.requests import KEY, PROBLEMS, Guarded, about, answer, body, key_of, not_allowed, plain
from cede.serve.served import checked_name
from cede.serve.service import Service
from cede.serve.tokens import Access


def add_decisions(app: FastAPI, service: Service, guarded: Guarded, metrics: Metrics) -> None:
    """Add decisions and policies."""
    counters = {plan: metrics.decisions.labels(plan) for plan in ("fresh", "stale", "fallback")}

    @app.post(
        "/v1/teams/{name}/decide",
        tags=["decide"],
        openapi_extra=body(models.DecideIn),
        responses={**PROBLEMS, 200: {"model": models.DecisionOut}},
    )
    async def decide(request: Request, name: str) -> Response:
        """Tell who should act, from the plan in memory."""
        guarded.access(request, "decide", name)
        given = models.checked("decide", models.DecideIn, await guarded.data(request))
        found = service.decide(name, await guarded.known(name), given.t, given.state, given.prev_agent)
        counters[found.plan].inc()
        return answer(found.shown)

    add_quick(app, "/v1/teams/{name}/decide", decide)

    @app.post(
        "/v1/decide",
        tags=["decide"],
        openapi_extra=body(models.DecideManyIn),
        responses={**PROBLEMS, 200: {"model": models.DecisionsOut}},
    )
    async def decide_many(request: Request) -> Response:
        """Tell who should act, for many teams."""
        access = guarded.holder(request)
        given = models.checked("decide", models.DecideManyIn, await guarded.data(request))
        if not access.has("decide") or not all(access.allows("decide", one.team) for one in given.decisions):
            not_allowed("decide", "all of these teams")
        found = []
        for one in given.decisions:
            found.append(service.decide(one.team, await guarded.known(one.team), one.t, one.state, one.prev_agent))
            counters[found[-1].plan].inc()
        return answer({"decisions": [one.shown for one in found]})

    @app.get("/v1/teams/{name}/policy", tags=["decide"], responses=PROBLEMS)
    async def policy(request: Request, name: str) -> Response:
        """Return the whole policy, to decide locally: JSON, or with `Accept: application/x-npy` an array of NumPy, (L, S, D).

        Without a horizon it is (S, D).
        """
        guarded.access(request, "decide", name)
        known = await guarded.known(name)
        if known.plan is None:
            known = await run_in_threadpool(service.plans.wake, name)
        plan = known.plan
        if plan is None:
            detail = f"policy: plan of {check.show(name)} is missing, must be made first; try again"
            raise HTTPException(404, detail, {"retry-after": "1"})
        binary = "application/x-npy" in request.headers.get("accept", "")
        tag = (
            f'"{plan.team.id}-{plan.version}-{plan.made}-{"npy" if binary else "json"}"'  # clients keep it, also beyond a database
        )
        headers = {"etag": tag, "cache-control": "private, no-cache", "vary": "Accept, Authorization"}
        headers |= {"cede-version": str(plan.version), "cede-made": str(plan.made), "cede-reason": plan.reason}
        if tag in (one.strip() for one in request.headers.get("if-none-match", "").split(",")):
            return Response(status_code=304, headers=headers)
        if binary:
            file = io.BytesIO()
            np.save(file, plan.policy)
            return Response(file.getvalue(), media_type="application/x-npy", headers=headers)
        numbers = {"version": plan.version, "reason": plan.reason, "made": plan.made, "episodes": plan.episodes}
        more = {**numbers, "environment_episodes": plan.environment_episodes, "fallback": known.fallback, **about(plan.team)}
        return await run_in_threadpool(lambda: answer({**more, "policy": plan.policy.tolist()}, headers=headers))


def add_quick(app: FastAPI, path: str, work: Callable[[Request, str], Awaitable[Response]]) -> None:
    """Answer a route, which the OpenAPI document has already, without FastAPI's machinery: it is asked most often."""

    async def quickly(request: Request) -> Response:
        request.scope["route"] = route
        return await work(request, request.path_params["name"])

    route = Route(path, quickly, methods=["POST"], include_in_schema=False)
    app.router.routes.insert(0, route)


def add_reports(app: FastAPI, service: Service, guarded: Guarded, metrics: Metrics) -> None:
    """Add what is told: episodes and steps."""
    store = service.store
    taken: dict[str, Any] = {"responses": {**PROBLEMS, 200: {"model": models.AcceptedOut}}, "tags": ["report"]}
    answers = {201: {"model": models.BegunOut}, 200: {"model": models.BegunOut, "description": "It had begun under this key."}}
    begun: dict[str, Any] = {"responses": {**PROBLEMS, **answers}, "tags": ["report"], "status_code": 201}

    async def take(report: Report) -> Response:
        """Write a report, and answer when it is on disk."""
        found = await asyncio.wrap_future(service.report(report))
        metrics.steps.labels("new").inc(found.new)
        metrics.steps.labels("duplicate").inc(found.duplicates)
        return answer(asdict(found))

    def read(data: Any, access: Access | None, team: Team | None) -> Report:
        """Check a batch. access: of whoever tells; None: it was checked for the team."""
        if not isinstance(data, dict) or data.keys() - {"steps", "ends"}:
            check.fail("report", "body", check.show(data), "an object of steps and ends")

        def team_of(name: str) -> Team:
            if access is not None and not access.allows("report", name):
                not_allowed("report", "all of these teams")
            return store.team(checked_name("report", "team", name))

        steps = read_steps(data.get("steps", []), team_of, team, service.options.most_steps)
        ends = read_ends(data.get("ends", []), team_of, team)
        return Report(steps, ends)

    async def read_quickly(data: Any, access: Access | None, team: Team | None) -> Report:
        """Check a batch here if it is small, else in a thread; where teams may have to be read first, always in a thread."""
        small = team is not None and isinstance(data, dict) and isinstance(data.get("steps"), list) and len(data["steps"]) < 50
        return read(data, access, team) if small else await run_in_threadpool(read, data, access, team)

    @app.post("/v1/teams/{name}/episodes", openapi_extra={**body(models.BeginIn), "parameters": [KEY]}, **begun)
    async def begin(request: Request, name: str) -> Response:
        """Begin an episode, and bring the team's plan into memory.

        To be able to ask again, give a number of your own, or an `Idempotency-Key`: under the same key it is the same episode.
        """
        guarded.access(request, "report", name)
        given, key = models.checked("begin", models.BeginIn, await guarded.data(request)), key_of(request)
        team, number, new = await guarded.team(name), given.episode, True
        if number is None:
            number, new = await asyncio.wrap_future(service.begin(team, key))
        elif key is not None:
            check.fail("begin", "episode", number, "left out with an Idempotency-Key: a number of your own is a key already")
        else:
            await asyncio.wrap_future(service.report(Report((), (), ((team.id, number),))))
        known = service.plans.known(name)
        if known is None or known.plan is None:
            known = await run_in_threadpool(service.plans.wake, name)
        version = 0 if known.plan is None else known.plan.version
        return answer({"episode": number, "start_agent": team.served.task.start_agent, "version": version}, 201 if new else 200)

    @app.post("/v1/teams/{name}/steps", openapi_extra=body(models.StepsIn), **taken)
    async def report_steps(request: Request, name: str) -> Response:
        """Tell steps of one team, and ends of episodes, in any order. All of it is taken, or nothing."""
        guarded.access(request, "report", name)
        data, team = await guarded.data(request, service.options.most_batch), await guarded.team(name)
        return await take(await read_quickly(data, None, team))

    @app.post("/v1/steps", openapi_extra=body(models.TeamStepsIn), **taken)
    async def report_many(request: Request) -> Response:
        """Tell steps of many teams, and ends of episodes, in any order. All of it is taken, or nothing."""
        access = guarded.holder(request)
        if not access.has("report"):
            not_allowed("report", "these teams")
        data = await guarded.data(request, service.options.most_batch)
        return await take(await read_quickly(data, access, None))

    @app.put("/v1/teams/{name}/episodes/{episode}/steps/{t}", openapi_extra=body(models.StepContent), **taken)
    async def report_step(request: Request, name: str, episode: int, t: int) -> Response:
        """Tell one step."""
        guarded.access(request, "report", name)
        data, team = await guarded.data(request), await guarded.team(name)
        if not isinstance(data, dict) or data.keys() & {"episode", "t"}:
            check.fail("report", "body", check.show(data), "an object, without episode and t, which the address has")
        return await take(read({"steps": [{**data, "episode": episode, "t": t}]}, None, team))

    @app.post("/v1/teams/{name}/episodes/{episode}/end", openapi_extra=body(models.EndOneIn), **taken)
    async def end(request: Request, name: str, episode: int) -> Response:
        """Tell how many steps an episode has. It is counted as soon as all of them are there. Without a horizon it ends a run."""
        guarded.access(request, "report", name)
        given, team = models.checked("end", models.EndOneIn, await guarded.data(request)), await guarded.team(name)
        return await take(read({"ends": [{"episode": episode, "steps": given.steps}]}, None, team))

    @app.delete("/v1/teams/{name}/steps", tags=["set-up"], responses=PROBLEMS)
    async def erase(request: Request, name: str) -> Response:
        """Erase all steps of a team. Counts are as if they had never been."""
        guarded.access(request, "admin")
        return answer({"erased": await asyncio.wrap_future(service.erase(await guarded.team(name)))})


def add_insight(app: FastAPI, service: Service, guarded: Guarded) -> None:
    """Add what people want to know."""

    @app.get("/v1/teams/{name}/explain", tags=["insight"], responses=PROBLEMS)
    async def why(request: Request, name: str, state: int, prev_agent: int, t: int | None = None) -> Response:
        """Explain a choice, from all that was counted until now. t is left out where there is no horizon."""
        guarded.access(request, "read", name)
        team = await guarded.team(name)
        check_time("explain", t, team.served.endless)

        def work() -> Any:
            learner = service.learner(team)
            return {"episodes": learner.episode - 1, "unit": team.served.unit, **asdict(explain(learner, t, state, prev_agent))}

        return answer(plain(await run_in_threadpool(work)))

    told: dict[str, Any] = {"tags": ["insight"], "responses": {**PROBLEMS, 200: {"model": models.EstimateOut}}}

    async def expected(team: Team, given: dict[str, Any]) -> Response:
        """Answer what a policy would cost; arguments that were left out are those of `cede.estimate`."""
        asked = {name: one for name, one in given.items() if one is not None}
        found = await run_in_threadpool(service.estimates.find, team, asked)
        if found is None:
            found = await asyncio.wrap_future(service.estimates.ask(team, asked))
        return answer(plain(found))

    @app.get("/v1/teams/{name}/estimate", **told)
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
        """Estimate what the plan, or an agent alone (by name or index), would cost, with an interval; or that against another one.

        It is `cede.estimate` of all that was counted until now. The plan is the one that follows from that.
        """
        guarded.access(request, "read", name)
        team = await guarded.team(name)
        task, others = team.served.task, {"interval": interval, "level": level, "draws": draws, "prior": prior, "seed": seed}
        whose = {"policy": named_agent(task, policy), "against": None if against is None else named_agent(task, against)}
        return await expected(team, {**whose, **others})

    @app.post("/v1/teams/{name}/estimate", openapi_extra=body(models.EstimateIn), **told)
    async def cost_of_any(request: Request, name: str) -> Response:
        """Estimate the same of any switching policy, (L, S, D) agents by time, state and previous agent."""
        guarded.access(request, "read", name)
        given, team = models.checked("estimate", models.EstimateIn, await guarded.data(request)), await guarded.team(name)
        for place in ("policy", "against"):
            check_no_truth(place, getattr(given, place))
        return await expected(team, given.model_dump())

    @app.get("/v1/teams/{name}/summary", tags=["insight"], responses=PROBLEMS)
    async def summary(request: Request, name: str) -> Response:
        """Summarise what is known: who is in control where, how often each agent was, at what cost, where belief is wide."""
        guarded.access(request, "read", name)
        team = await guarded.team(name)
        return answer(plain(await run_in_threadpool(lambda: asdict(summarise(service.learner(team))))))
