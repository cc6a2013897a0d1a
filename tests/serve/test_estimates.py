"""Estimates over HTTP: those of `cede.estimate`, kept as long as nothing new is counted."""

import threading
import time
from dataclasses import asdict

import pytest
from starlette.testclient import TestClient

import cede
from cede.serve.http.app import create_app
from cede.serve.planner import estimates
from cede.serve.service import ServiceOptions
from cede.serve.store import tokens
from cede.serve.store.audit import erase
from cede.serve.store.database import Database
from cede.serve.store.log import take_in
from traffic import episodes, observe, put, report, river, rows


@pytest.fixture
def served(url):
    """A service with a team that has told something, and a learner that saw the same."""
    mdp, database = river(), Database(url)
    app = create_app(database, ServiceOptions(hosts=("*",), plans=False))
    store, learner = app.state.service.store, cede.recommended(mdp.task, seed=1)
    (team,) = put(store, learner, {"boat": 1})
    for number, episode in enumerate(episodes(mdp, 12, 3)):
        observe(learner, episode)
        one = report(rows(team, number, episode), [(team.id, number, len(episode.actions))])
        database.write(lambda c, one=one: take_in(c, store.team, [one]))
    token = database.write(lambda c: tokens.create(c, "test", ["read"], None, None))
    with TestClient(app, headers={"authorization": f"Bearer {token}"}, raise_server_exceptions=False) as client:
        yield client, learner, app.state.service
    database.close()


def as_json(estimate):
    return {"episodes": 12, **asdict(estimate), "warnings": list(estimate.warnings)}


def test_estimates_are_those_of_a_learner_that_saw_the_same(served):
    client, learner, _ = served
    path, policy = "/v1/teams/boat/estimate", learner.task.always(1).tolist()
    for query, given in (
        ({}, {}),
        ({"policy": "plan"}, {}),
        ({"policy": "p=0.7"}, {"policy": "p=0.7"}),
        ({"policy": "1"}, {"policy": 1}),
        ({"policy": "plan", "against": "p=0.3"}, {"against": 0}),
        (
            {"policy": "0", "level": 0.5, "draws": 20, "prior": 2.0, "seed": 3},
            {"policy": 0, "level": 0.5, "draws": 20, "prior": 2.0, "seed": 3},
        ),
    ):
        found = client.get(path, params=query)
        assert found.status_code == 200, found.text
        assert found.json() == as_json(cede.estimate(learner, **given))
    start = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    for given in ({}, {"policy": policy}, {"policy": policy, "against": "plan", "draws": 9}, {"policy": 1, "start": start}):
        assert client.post(path, json=given).json() == as_json(cede.estimate(learner, **given))
    assert client.post(path, json={"policy": policy}).json()["policy"] == "a policy"


def test_sets_where_the_learner_has_them(url):
    database, task = Database(url), river().task
    app = create_app(database, ServiceOptions(hosts=("*",), plans=False))
    put(app.state.service.store, cede.ucrl2_mc(task), {"boat": 1})
    token = database.write(lambda c: tokens.create(c, "test", ["read"], None, None))
    with TestClient(app, headers={"authorization": f"Bearer {token}"}) as client:
        found = client.get("/v1/teams/boat/estimate?policy=0").json()
    expected = cede.estimate(cede.ucrl2_mc(task, seed=1), 0)
    assert found == {**as_json(expected), "episodes": 0}
    assert (found["kind"], found["draws"]) == ("confidence sets", None)
    database.close()


def test_digits_are_an_index_unless_an_agent_is_called_so():
    task = cede.Task(env_cost=[[0.0]], agents=["1", "zero"], horizon=1)
    assert [estimates.named_agent(task, one) for one in ("0", "1", "2", "zero", "²", "9" * 5000)] == [
        0,
        "1",
        2,
        "zero",
        "²",
        "9" * 5000,
    ]


def test_an_estimate_is_worked_out_once_until_something_is_counted(served, monkeypatch):
    client, learner, service = served
    calls, real = [], estimates.estimate
    monkeypatch.setattr(estimates, "estimate", lambda *args, **more: calls.append(more) or real(*args, **more))
    path = "/v1/teams/boat/estimate"
    first = client.get(path).json()
    assert client.get(path).json() == client.post(path, json={}).json() == first
    assert len(calls) == 1
    assert client.get(path + "?policy=0").json() != first
    assert len(calls) == 2
    team, episode = service.store.team("boat"), episodes(river(), 1, 9)[0]
    service.writer.submit(report(rows(team, 99, episode), [(team.id, 99, len(episode.actions))])).result()
    observe(learner, episode)
    found = client.get(path).json()
    assert found == {**as_json(real(learner)), "episodes": 13}
    assert len(calls) == 3
    service.erase(team).result()
    while service.estimates.find(team, {"policy": "plan"}) is not None:
        time.sleep(0.01)
    assert client.get(path).json()["episodes"] == 0


def test_after_an_erasure_no_number_is_of_what_was_erased(served):
    """Even if as many episodes were told again, and another server erased: what is kept is known by erasures, too."""
    client, _, service = served
    team = service.store.team("boat")
    before = {name: client.get(f"/v1/teams/boat/{name}").json() for name in ("estimate", "summary")}
    n = before["estimate"]["episodes"]
    service.database.write(lambda c: erase(c, service.store, team))  # as another server does
    for i, one in enumerate(episodes(river(), n, 1234)):
        service.writer.submit(report(rows(team, i, one), [(team.id, i, len(one.actions))])).result()
    for name, old in before.items():
        found = client.get(f"/v1/teams/boat/{name}").json()
        assert found["episodes"] == n
        assert found != old


@pytest.mark.parametrize(
    ("query", "data", "detail"),
    [
        ("policy=nobody", None, "estimate: policy is 'nobody', must be 'plan', 'own plan', 'baseline', an array"),
        ("policy=2", None, "estimate: policy is 2, must be an integer from 0 to 1"),
        ("policy=baseline", None, "estimate: policy is 'baseline', must be one that there is"),
        ("against=nobody", None, "estimate: against is 'nobody'"),
        ("interval=wide", None, "estimate: interval is 'wide'"),
        ("interval=sets", None, "estimate: interval is 'sets', must be 'draws'"),
        ("level=2", None, "estimate: level is 2"),
        ("level=nan", None, "estimate: level is nan"),
        ("prior=0", None, "estimate: prior is 0"),
        ("draws=1", None, "estimate: draws is 1, must be an integer from 2 to 1000"),
        ("draws=1001", None, "estimate: draws is 1001"),
        ("draws=many", None, "draws"),
        ("seed=-1", None, "estimate: seed is -1"),
        ("", {"policy": [[0]]}, "estimate: the shape of policy is (1, 1), must be (L, S, D) = (20, 6, 2)"),
        ("", {"policy": [[0], [0, 1]]}, "estimate: policy is [[0], [0, 1]]"),
        ("", {"policy": [[[2] * 2] * 6] * 20}, "estimate: policy[0, 0, 0] is 2"),
        ("", {"policy": [[[0.5] * 2] * 6] * 20}, "estimate: the type of policy is float64"),
        ("", {"policy": [[["0"] * 2] * 6] * 20}, "estimate: "),
        ("", {"policy": {}}, "estimate: policy"),
        ("", {"policy": True}, "estimate: policy"),
        ("", {"policy": [[[True] * 2] * 6] * 20}, "estimate: an entry of policy is True, must be the index of an agent"),
        ("", {"start": [1.0]}, "estimate: "),
        ("", {"start": "x"}, "estimate: start is 'x'"),
        ("", {"log": []}, "estimate: log is []"),
        ("", [], "estimate: body is []"),
    ],
)
def test_what_is_wrong_is_said_in_one_grammar(asked, query, data, detail):
    path = f"/v1/teams/boat/estimate?{query}"
    found = asked.get(path) if data is None else asked.post(path, json=data)
    assert found.status_code == 422, found.text
    assert detail in found.json()["detail"]


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('estimates')}/cede.db")
    app = create_app(database, ServiceOptions(hosts=("*",), plans=False, most_body=5000))
    put(app.state.service.store, cede.recommended(river().task), {"boat": 1})
    token = database.write(lambda c: tokens.create(c, "test", ["read"], ["boat"], None))
    with TestClient(app, headers={"authorization": f"Bearer {token}"}, raise_server_exceptions=False) as client:
        yield client
    database.close()


def test_who_may_ask_and_how_much(asked):
    service = asked.app.state.service
    other = service.database.write(lambda c: tokens.create(c, "test", ["decide", "report"], None, None))
    service.tokens.refresh()
    assert asked.get("/v1/teams/boat/estimate", headers={"authorization": f"Bearer {other}"}).status_code == 403
    assert asked.post("/v1/teams/boat/estimate", json={}, headers={"authorization": "Bearer x"}).status_code == 401
    assert asked.get("/v1/teams/canoe/estimate").status_code == 403
    assert asked.post("/v1/teams/boat/estimate", json={"policy": [0] * 5000}).status_code == 413


def test_too_many_who_wait_are_told_to_come_later(asked, monkeypatch):
    service, go = asked.app.state.service, threading.Event()
    monkeypatch.setattr(service.estimates, "_room", threading.Semaphore(2))
    monkeypatch.setattr(estimates, "estimate", lambda *_, **__: go.wait(600) and cede.estimate(cede.recommended(river().task)))
    team = service.store.team("boat")
    waiting = [service.estimates.ask(team, {"seed": seed}) for seed in (7, 8)]
    found = asked.get("/v1/teams/boat/estimate?seed=9")
    assert (found.status_code, found.headers["retry-after"].isdecimal()) == (429, True)
    assert asked.get("/v1/teams/boat/explain?t=0&state=0&prev_agent=0").status_code == 200  # others do not wait for estimates
    go.set()
    assert all(one.result(600)["episodes"] == 0 for one in waiting)
    for _ in range(30_000):
        if asked.get("/v1/teams/boat/estimate?seed=9").status_code == 200:
            return
        time.sleep(0.02)
    raise AssertionError
