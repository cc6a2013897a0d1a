"""Runs without a horizon over HTTP: what is asked and told without a time step, and what every number counts."""

import io
import json
import threading

import httpx2
import numpy as np
import pytest

import cede
from cede.learners.learner import Learner
from cede.serve.names import BIG
from cede.serve.planner.plans import PlanCache, Planner
from cede.serve.store.database import Database
from cede.serve.store.store import Store
from serving import Server
from traffic import observe, put, river, without_horizon


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("endless"), horizon=None, state_names=[f"place {i}" for i in range(6)])
    yield found
    found.close()


def settled(server, name):
    """Wait until the plan of a team knows all its steps."""
    while (found := server("GET", f"/v1/teams/{name}").json())["due"] is not None:
        pass
    return found


def told(first, n, episode=0):
    names = ("state", "prev_agent", "agent", "action", "next_state")
    return [
        {"episode": episode, "t": t, **dict(zip(names, (t % 6, t % 2, (t + 1) % 2, 0, (t + 1) % 6), strict=True))}
        for t in range(first, first + n)
    ]


def test_a_team_without_horizon_over_http(server):
    assert server("PUT", "/v1/teams/ferry", {"environment": "river", "seed": 5}).status_code == 201
    answer = server("POST", "/v1/teams/ferry/steps", {"steps": told(0, 250)})
    assert answer.json() == {"new": 250, "duplicates": 0, "counted": 250}
    step = {name: value for name, value in told(260, 1)[0].items() if name not in ("episode", "t")}
    assert server("PUT", "/v1/teams/ferry/episodes/0/steps/260", step).json() == {"new": 1, "duplicates": 0, "counted": 1}
    found = settled(server, "ferry")
    assert (found["episodes"], found["horizon"], found["unit"]) == (251, None, "steps")
    learner = Learner(
        cede.Task(
            env_cost=server.mdp.task.env_cost,
            agents=["left", "right"],
            horizon=None,
            switch_cost=0.1,
            state_names=found["state_names"],
        ),
        cede.recommended(without_horizon(river(), None)).settings,
        seed=5,
    )
    alone = cede.Fleet([learner, Learner(learner.task, learner.settings)])  # and what the other team of the river saw
    for one in told(0, 250):
        learner.observe(*(one[name] for name in ("state", "prev_agent", "agent", "action", "next_state")))
    learner.end_episode(replan=False)
    learner.observe(*step.values())
    for episode in server.settings:
        observe(alone.learners[1], episode)
    learner.replan()
    policy = server("GET", "/v1/teams/ferry/policy").json()
    assert (policy["horizon"], policy["episodes"], policy["unit"]) == (None, 251, "steps")
    assert policy["policy"] == learner.plan.policy.tolist()
    binary = server("GET", "/v1/teams/ferry/policy", accept="application/x-npy")
    assert (np.load(io.BytesIO(binary.content)) == learner.plan.policy).all()
    for state in range(6):
        decided = server("POST", "/v1/teams/ferry/decide", {"state": state, "prev_agent": 1}).json()
        assert (decided["agent"], decided["plan"]) == (int(learner.plan.policy[state, 1]), "fresh")
    question = {"team": "ferry", "state": 2, "prev_agent": 0}
    many = server("POST", "/v1/decide", {"decisions": [question, {**question, "t": None}]}).json()["decisions"]
    assert [one["agent"] for one in many] == [int(learner.plan.policy[2, 0])] * 2
    explained = server("GET", "/v1/teams/ferry/explain?state=2&prev_agent=0").json()
    assert (explained["text"], explained["t"], explained["episodes"]) == (
        cede.explain(learner, state=2, prev_agent=0).text,
        None,
        251,
    )
    rows_of_map = server("GET", "/v1/teams/ferry/map?order=state").json()
    assert [row["agents"] for row in rows_of_map["rows"]] == learner.plan.policy.tolist()
    assert (rows_of_map["t"], rows_of_map["steps"], rows_of_map["unit"]) == (None, None, "steps")
    assert server("GET", "/v1/teams/ferry/summary").json()["unit"] == "steps"
    (listed,) = server("GET", "/v1/teams/ferry/episodes").json()["episodes"]
    assert (listed["received"], listed["last"], listed["counted"], listed["length"]) == (251, 260, True, None)
    lines = [json.loads(line) for line in server("GET", "/v1/teams/ferry/steps").text.splitlines()]
    assert [one["t"] for one in lines] == [*range(250), 260]
    past = server("GET", "/v1/teams/ferry/history?size=100").json()
    assert (past["unit"], past["total"], past["behind"]) == ("steps", 251, 0)
    assert [one["steps"] for one in past["buckets"]] == [100, 100, 51]


def test_lists_and_health_say_what_they_count(server):
    task = {"env_cost": server.mdp.task.env_cost.tolist(), "agents": ["left", "right"], "horizon": 20}
    assert server("PUT", "/v1/environments/lake", {"task": task}).status_code == 201
    assert server("PUT", "/v1/teams/raft", {"environment": "lake"}).status_code == 201
    server.tell("raft", 0, server.settings[0])
    units = {one["name"]: one["unit"] for one in server("GET", "/v1/environments").json()["environments"]}
    assert units == {"river": "steps", "lake": "episodes"}
    teams = {one["name"]: (one["unit"], one["episodes"]) for one in server("GET", "/v1/teams").json()["teams"]}
    assert teams["raft"] == ("episodes", 1)
    assert teams["boat"] == ("steps", sum(len(one.actions) for one in server.settings))
    found = server("GET", "/v1/health").json()
    steps = sum(n for unit, n in teams.values() if unit == "steps")
    assert (found["episodes"], found["steps"]) == (1, steps)
    both = [server("GET", f"/v1/environments/{name}/history").json()["unit"] for name in ("river", "lake")]
    assert both == ["steps", "episodes"]


def test_steps_that_were_counted_are_told_to_those_who_listen(server):
    found = []

    def listen():
        headers = {"authorization": f"Bearer {server.token}"}
        with httpx2.stream("GET", f"{server.url}/v1/events?team=canoe", headers=headers, timeout=600) as answer:
            for line in answer.iter_lines():
                if line.startswith(": welcome"):
                    welcome.set()
                if line.startswith("data: "):
                    found.append(json.loads(line[6:]))
                    if "version" in found[-1] and found[-1]["episodes"] == 7:
                        return

    welcome = threading.Event()
    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    assert welcome.wait(600)
    while not server.app.state.service.events.listeners:  # who listens is noted after the welcome
        pass
    assert server("POST", "/v1/teams/canoe/steps", {"steps": told(3, 7)}).json()["counted"] == 7
    thread.join(600)
    assert {"team": "canoe", "episodes": 7} in found
    assert found[-1]["episodes"] == 7


WRONG = [
    (
        "POST",
        "/v1/teams/boat/decide",
        {"t": 0, "state": 0, "prev_agent": 0},
        "decide: t is 0, must be left out: the task has no horizon",
    ),
    (
        "POST",
        "/v1/decide",
        {"decisions": [{"team": "boat", "t": 3, "state": 0, "prev_agent": 0}]},
        "decide: t is 3, must be left out",
    ),
    ("GET", "/v1/teams/boat/explain?t=0&state=0&prev_agent=0", None, "explain: t is 0, must be left out: the task has no horizon"),
    ("GET", "/v1/teams/boat/map?t=0", None, "map: t is 0, must be left out: the task has no horizon"),
    ("GET", "/v1/teams/boat/history?size=10", None, "request: size is 10, must be a multiple of 100"),
    ("POST", "/v1/teams/boat/steps", {"steps": [{**told(0, 1)[0], "t": BIG}]}, "report: steps[0].t is"),
    ("POST", "/v1/teams/boat/steps", {"ends": [{"episode": 0, "steps": BIG}]}, "report: ends[0].steps is"),
]


@pytest.mark.parametrize(("method", "path", "data", "detail"), WRONG)
def test_wrong_questions(server, method, path, data, detail):
    settled(server, "boat")
    found = server(method, path, data)
    assert found.status_code == 422
    assert detail in found.json()["detail"]


def test_a_team_without_a_plan_is_answered_by_its_fallback(tmp_path):
    store = Store(Database(f"sqlite:///{tmp_path}/cede.db"))
    put(store, cede.recommended(without_horizon(river(), None)), {"a": 0})
    plans = PlanCache(store)
    plans.refresh()
    for t in (None, 0):  # its task is not in memory
        assert plans.decide("a", plans.known("a"), t, 0, 1).plan == "fallback"
    plans.load("a")
    assert plans.decide("a", plans.known("a"), None, 0, 1).agent == 0
    with pytest.raises(ValueError, match="decide: t is 0, must be left out: the task has no horizon"):
        plans.decide("a", plans.known("a"), 0, 0, 1)
    made = []
    Planner(store, published=made.append).once()
    other = PlanCache(store)
    other.refresh()
    other.published(made[0])  # not read before
    assert other.decide("a", other.known("a"), None, 0, 1).plan == "fresh"
    with pytest.raises(ValueError, match="decide: state is 6, must be an integer from 0 to 5"):
        other.decide("a", other.known("a"), None, 6, 1)
    store.database.close()
