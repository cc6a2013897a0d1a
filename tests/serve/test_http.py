"""The HTTP interface: what is asked and told, what is refused, and what every answer has."""

import io
import json
import threading
import time

import numpy as np
import pytest
from pyarrow import parquet
from starlette.testclient import TestClient

import cede
from cede.serve.http.app import create_app
from cede.serve.service import ServiceOptions
from cede.serve.store import tokens
from cede.serve.store.audit import verify
from cede.serve.store.database import Database
from traffic import episodes, river

COSTS = river().task.env_cost.tolist()
ENVIRONMENT = {"task": {"env_cost": COSTS, "agents": ["left", "right"], "horizon": 20, "switch_cost": 0.1}, "fallback": "right"}
OPTIONS = ServiceOptions(hosts=("testserver",), most_body=5000, most_batch=100_000, pause=0.05)


class Caller:
    """A client with a token."""

    def __init__(self, app, database):
        self.app, self.database = app, database
        self.client = TestClient(app, raise_server_exceptions=False)
        self.token = self.make(["admin"])

    def make(self, scopes, teams=None, days=None):
        return self.database.write(lambda c: tokens.create(c, "test", scopes, teams, days))

    def __call__(self, method, path, data=None, *, token=None, headers=None, **more):
        headers = {"authorization": f"Bearer {token or self.token}", **(headers or {})}
        if data is not None:
            more["content"] = data if isinstance(data, bytes) else json.dumps(data)
        return self.client.request(method, path, headers=headers, **more)

    def until(self, path, done):
        """Ask again until an answer is as it should be."""
        for _ in range(12_000):
            found = self("GET", path)
            if found.status_code == 200 and done(found.json()):
                return found.json()
            time.sleep(0.05)
        raise AssertionError(found.text)


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('http')}/cede.db")
    caller = Caller(create_app(database, OPTIONS), database)
    with caller.client:
        assert caller("PUT", "/v1/environments/river", ENVIRONMENT).status_code == 201
        assert caller("PUT", "/v1/teams/boat", {"environment": "river", "seed": 3}).status_code == 201
        caller.until("/v1/teams/boat/policy", lambda found: found["version"] >= 1)
        yield caller
    database.close()


def objects(number, episode):
    """The steps of an episode as a client tells them."""
    fields = ("state", "prev_agent", "agent", "action", "next_state")
    columns = (episode.states[:-1], episode.prev_agents, episode.agents, episode.actions, episode.states[1:])
    return [
        {"episode": number, "t": t, **{name: int(column[t]) for name, column in zip(fields, columns, strict=True)}}
        for t in range(len(episode.actions))
    ]


def test_the_whole_circle(call):
    """Begin, decide, report, end: the plan that follows is that of a learner which saw the same."""
    assert call("PUT", "/v1/teams/circle", {"environment": "river", "seed": 5}).status_code == 201
    task = cede.Task(**ENVIRONMENT["task"])
    learner, mdp = cede.recommended(task, seed=5), river()
    for number, episode in enumerate(episodes(mdp, 3, 4)):
        begun = call("POST", "/v1/teams/circle/episodes", {"episode": number})
        assert begun.status_code == 201
        assert begun.json()["start_agent"] == task.start_agent
        steps = objects(number, episode)
        content = {name: one for name, one in steps[0].items() if name not in ("episode", "t")}
        first = call("PUT", f"/v1/teams/circle/episodes/{number}/steps/0", content)
        assert first.json() == {"new": 1, "duplicates": 0, "counted": 0}
        rest = call("POST", "/v1/teams/circle/steps", {"steps": steps[::-1]})
        assert rest.json()["duplicates"] == 1
        ended = call("POST", f"/v1/teams/circle/episodes/{number}/end", {"steps": len(steps)})
        assert rest.json()["counted"] + ended.json()["counted"] == 1
        learner.observe_episode(episode)
        learner.end_episode()
    found = call.until("/v1/teams/circle/policy", lambda found: found["episodes"] == 3)
    assert found["environment_episodes"] == 3
    assert np.array(found["policy"], dtype=np.int16).tobytes() == learner.plan.policy.tobytes()
    decided = call("POST", "/v1/teams/circle/decide", {"t": 2, "state": 1, "prev_agent": 0}).json()
    assert decided["agent"] == learner.choose(2, 1, 0)
    assert decided["name"] == task.agents[decided["agent"]]
    assert decided["plan"] == "fresh"
    assert decided["version"] == found["version"]
    assert decided["age"] >= 0
    explained = call("GET", "/v1/teams/circle/explain?t=2&state=1&prev_agent=0").json()
    assert explained["chosen"] == decided["agent"]
    assert explained["text"] == cede.explain(learner, 2, 1, 0).text
    assert call("GET", "/v1/teams/circle/summary").json()["episodes"] == 3
    team = call("GET", "/v1/teams/circle").json()
    assert team["episodes"] == 3
    assert team["agents"] == ["left", "right"]
    erased = call("DELETE", "/v1/teams/circle/steps")
    assert erased.json()["erased"] == sum(len(one.actions) for one in episodes(mdp, 3, 4))
    with call.database.read() as connection:
        assert verify(connection, call.app.state.service.store) == []


def test_a_key_makes_it_safe_to_begin_again(call):
    def begin(data, key):
        headers = [("authorization", f"Bearer {call.token}"), *(("idempotency-key", one) for one in key)]
        return call.client.post("/v1/teams/boat/episodes", content=json.dumps(data), headers=headers)

    first, again, other = begin({}, ["a key"]), begin({}, ["a key"]), begin({"episode": None}, ["another"])
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 201)
    assert first.json()["episode"] == again.json()["episode"]
    assert other.json()["episode"] == first.json()["episode"] + 1
    for data, key, message in (
        ({"episode": 5}, ["a key"], "begin: episode is 5, must be left out with an Idempotency-Key"),
        ({}, [""], "request: Idempotency-Key is '', must be 1 to 128 printable ASCII characters"),
        ({}, ["x" * 129], "must be 1 to 128 printable ASCII characters"),
        ({}, ["\u00fc".encode()], "must be 1 to 128 printable ASCII characters"),
        ({}, ["one", "two"], "request: the number of Idempotency-Keys is 2, must be at most 1"),
    ):
        found = begin(data, key)
        assert (found.status_code, message in found.json()["detail"]) == (422, True), found.text
    parameters = call("GET", "/openapi.json").json()["paths"]["/v1/teams/{name}/episodes"]["post"]["parameters"]
    assert {one["name"] for one in parameters} == {"name", "Idempotency-Key"}


def test_many_teams_in_one_request(call):
    for name in ("m1", "m2"):
        call("PUT", f"/v1/teams/{name}", {"environment": "river"})
    steps = [{"team": f"m{1 + i % 2}", **step} for i in range(4) for step in objects(i, episodes(river(), 4, 1)[i])]
    ends = [{"team": f"m{1 + i % 2}", "episode": i, "steps": len(episodes(river(), 4, 1)[i].actions)} for i in range(4)]
    assert call("POST", "/v1/steps", {"steps": steps, "ends": ends}).json() == {"new": len(steps), "duplicates": 0, "counted": 4}
    assert call("POST", "/v1/steps", {"steps": steps}).json() == {"new": 0, "duplicates": len(steps), "counted": 0}
    questions = [{"team": name, "t": 0, "state": 0, "prev_agent": 0} for name in ("m1", "m2", "boat")]
    found = call("POST", "/v1/decide", {"decisions": questions}).json()["decisions"]
    assert len(found) == 3
    assert found[2]["plan"] == "fresh"


def test_a_team_without_a_plan_has_its_fallback(call):
    service = call.app.state.service
    call("PUT", "/v1/teams/asleep", {"environment": "river"})
    call.until("/v1/teams/asleep/policy", lambda found: found["version"] >= 1)
    service.plans.forget(["asleep"])
    found = call("POST", "/v1/teams/asleep/decide", {"t": 0, "state": 0, "prev_agent": 0}).json()
    assert (found["agent"], found["plan"], found["version"], found["reason"]) == (1, "fallback", 0, "fallback")
    for _ in range(30_000):  # it was woken by that
        found = call("POST", "/v1/teams/asleep/decide", {"t": 0, "state": 0, "prev_agent": 0}).json()
        if found["plan"] != "fallback":
            break
        time.sleep(0.02)
    assert found["plan"] == "fresh"


def test_policies_have_a_tag_and_come_as_arrays(call):
    found = call("GET", "/v1/teams/boat/policy")
    assert str(found.json()["made"]) in found.headers["etag"]  # a client may have kept it from before the database was made anew
    same = call("GET", "/v1/teams/boat/policy", headers={"if-none-match": found.headers["etag"]})
    assert same.status_code == 304
    assert same.content == b""
    array = call("GET", "/v1/teams/boat/policy", headers={"accept": "application/x-npy"})
    assert array.headers["etag"] != found.headers["etag"]
    loaded = np.load(io.BytesIO(array.content), allow_pickle=False)
    assert loaded.tolist() == found.json()["policy"]
    assert loaded.shape == (20, 6, 2)
    assert found.json()["reason"] == found.headers["cede-reason"] == array.headers["cede-reason"] == "audition"


def test_the_reason_of_a_choice_is_kept_with_the_step(call):
    """A step that was decided by a plan says so; one that names only a version is shown with the reason of that plan."""
    assert call("PUT", "/v1/teams/reasons", {"environment": "river"}).status_code == 201
    call.until("/v1/teams/reasons/policy", lambda found: found["version"] == 1)
    step = {"episode": 0, "t": 0, "state": 0, "prev_agent": 0, "agent": 0, "action": 0, "next_state": 0}
    found = call("POST", "/v1/teams/reasons/decide", {"t": 0, "state": 0, "prev_agent": 0}).json()
    assert (found["version"], found["reason"]) == (1, "audition")
    told = [{}, {"version": 1}, {"version": 0}, {"version": 77}, {"version": 1, "reason": "plan"}, {"reason": "fallback"}]
    shown = [None, "audition", "fallback", None, "plan", "fallback"]
    steps = [{**step, "t": t, **more} for t, more in enumerate(told)]
    assert call("POST", "/v1/teams/reasons/steps", {"steps": steps}).json()["new"] == 6
    assert call("POST", "/v1/teams/reasons/steps", {"steps": steps}).json()["duplicates"] == 6
    again = call("POST", "/v1/teams/reasons/steps", {"steps": [{**steps[4], "reason": "audition"}]})
    assert again.status_code == 409
    assert "report: steps[0].reason is audition, must be plan, as in the log" in again.json()["detail"]
    listed = call("GET", "/v1/teams/reasons/episodes/0/steps").json()["steps"]
    assert [one.get("reason") for one in listed] == shown
    exported = call("GET", "/v1/teams/reasons/steps").text.splitlines()
    assert [json.loads(line).get("reason") for line in exported] == shown
    table = call("GET", "/v1/teams/reasons/steps?format=parquet").content
    assert parquet.read_table(io.BytesIO(table)).to_pydict()["reason"] == shown
    with call.database.read() as connection:
        kept = connection.exec_driver_sql("SELECT s.reason FROM steps s JOIN teams t ON t.id = s.team WHERE t.name = 'reasons'")
        assert [row[0] for row in kept] == [None, None, None, None, "plan", "fallback"]


def test_an_environment_from_the_file_of_a_learner(call, tmp_path):
    cede.ucrl2_mc(river().task, structure=river().structure).save(tmp_path / "new.cede")
    data, kind = (tmp_path / "new.cede").read_bytes(), {"content-type": "application/octet-stream"}
    assert call("PUT", "/v1/environments/structured", data, headers=kind).status_code == 201
    assert call("PUT", "/v1/environments/structured", data, headers=kind).status_code == 200
    assert call("PUT", "/v1/environments/other", data[:-7], headers=kind).status_code == 422
    learner = cede.recommended(river().task)
    cede.simulate(river(), learner, 2, progress=False)
    learner.save(tmp_path / "old.cede")
    found = call("PUT", "/v1/environments/old", (tmp_path / "old.cede").read_bytes(), headers=kind)
    assert found.status_code == 422
    assert "the number of episodes of the learner is 2, must be 0" in found.json()["detail"]


UNKNOWN = {"n_states": 3, "n_actions": 2, "cost_range": [0, 1], "agents": ["a", "b"], "horizon": 5}
WRONG = [
    ("PUT", "/v1/environments/x", {"task": {"agents": ["a"], "horizon": 3}}, 422, "Task:"),
    ("PUT", "/v1/environments/x", {"task": {**ENVIRONMENT["task"], "modes": 3}}, 422, "an entry of task is 'modes'"),
    (
        "PUT",
        "/v1/environments/x",
        {"task": {**ENVIRONMENT["task"], "horizon": None}, "learner": {"replan": "every"}},
        422,
        "'doubling' or a number of steps without a horizon",
    ),
    (
        "PUT",
        "/v1/environments/x",
        {"task": ENVIRONMENT["task"], "learner": {"algorithm": "load"}},
        422,
        "algorithm is 'load'",
    ),
    ("PUT", "/v1/environments/x", {"task": ENVIRONMENT["task"], "learner": {"forget": 3}}, 422, "an entry of learner is 'forget'"),
    (
        "PUT",
        "/v1/environments/x",
        {"task": ENVIRONMENT["task"], "learner": {"at_most": {"left": 0.5}}},
        422,
        "at_most or at_le",
    ),
    ("PUT", "/v1/environments/x", {"task": ENVIRONMENT["task"], "learner": {"replan": "doubling"}}, 422, "replan is 'doubling'"),
    ("PUT", "/v1/environments/x", {"task": ENVIRONMENT["task"], "fallback": "nobody"}, 422, "fallback is 'nobody'"),
    ("PUT", "/v1/environments/x", {"task": {**UNKNOWN, "n_states": 10**9, "n_actions": 10**9}}, 422, "states x actions is"),
    ("PUT", "/v1/environments/x", {"task": {**UNKNOWN, "horizon": 10**12}}, 422, "horizon x states x agents is"),
    ("PUT", "/v1/environments/x", {"task": {**UNKNOWN, "takeover_delay": {"a": 10**9}}}, 422, "the number of agents, and steps"),
    ("PUT", "/v1/environments/river", {"task": ENVIRONMENT["task"]}, 409, "there is an environment with other settings"),
    ("PUT", "/v1/environments/..", ENVIRONMENT, 404, ""),
    ("PUT", "/v1/environments/a b", ENVIRONMENT, 422, "environment: name is 'a b'"),
    ("PUT", "/v1/teams/x", {"environment": "nowhere"}, 404, "must be that of an environment"),
    ("PUT", "/v1/teams/x", {"environment": "river", "seed": True}, 422, "team: seed is True"),
    ("PUT", "/v1/teams/x", {"environment": "river", "own": {"control_cost": 1}}, 422, "agents is missing"),
    ("GET", "/v1/teams/nobody", None, 404, "team: name is 'nobody'"),
    ("POST", "/v1/teams/nobody/decide", {"t": 0, "state": 0, "prev_agent": 0}, 404, "team: name is 'nobody'"),
    (
        "POST",
        "/v1/teams/boat/decide",
        {"t": 20, "state": 0, "prev_agent": 0},
        422,
        "t is 20, must be an integer from 0 to 19",
    ),
    ("POST", "/v1/teams/boat/decide", {"t": 0, "state": 0.5, "prev_agent": 0}, 422, "decide: state is 0.5"),
    ("POST", "/v1/teams/boat/decide", {"t": 0, "state": True, "prev_agent": 0}, 422, "decide: state is True"),
    ("POST", "/v1/teams/boat/decide", {"t": 0, "state": 2**53, "prev_agent": 0}, 422, "decide: state is"),
    ("POST", "/v1/teams/boat/decide", {"t": 0, "state": 0, "prev_agent": 0, "x": 1}, 422, "decide: x is 1"),
    ("POST", "/v1/teams/boat/decide", {"t": 0, "state": 0}, 422, "decide: prev_agent is missing"),
    ("POST", "/v1/teams/boat/decide", {"state": 0, "prev_agent": 0}, 422, "decide: t is missing, must be a time step"),
    ("POST", "/v1/decide", {"decisions": [{"team": "boat", "state": 0, "prev_agent": 0}]}, 422, "decide: t is missing"),
    ("POST", "/v1/teams/boat/decide", b"", 400, "request: body is malformed"),
    ("POST", "/v1/teams/boat/decide", b'{"t": NaN}', 400, "request: body is with NaN"),
    ("POST", "/v1/teams/boat/decide", b'{"t": 1e999}', 400, "a number that is too large"),
    ("POST", "/v1/teams/boat/decide", b'{"t": 1, "t": 2}', 400, "a duplicate key"),
    ("POST", "/v1/teams/boat/decide", b'{"t": "\xff"}', 400, "request: body is malformed"),
    ("POST", "/v1/teams/boat/decide", b"1" * 4999, 400, "request: body is malformed"),
    ("POST", "/v1/teams/boat/steps", b"[" * 90_000, 400, "nested too deeply"),
    ("POST", "/v1/teams/boat/decide", b" " * 5001, 413, "larger than 5000 bytes"),
    ("POST", "/v1/teams/boat/steps", b" " * 100_001, 413, "larger than 100000 bytes"),
    ("POST", "/v1/teams/boat/steps", [], 422, "report: body is []"),
    ("POST", "/v1/teams/boat/steps", {"steps": {}}, 422, "report: steps is {}"),
    ("POST", "/v1/teams/boat/steps", {"ends": [{"episode": 1}]}, 422, "report: ends[0] is"),
    ("POST", "/v1/teams/boat/steps", {"ends": [{"episode": 1, "steps": 21}]}, 422, "report: ends[0].steps is 21"),
    ("POST", "/v1/teams/boat/episodes/1/end", {"steps": 0}, 422, "end: steps is 0"),
    ("POST", "/v1/teams/boat/episodes/-1/end", {"steps": 1}, 422, "report: ends[0].episode is -1"),
    ("POST", "/v1/teams/boat/episodes/x/end", {"steps": 1}, 422, "request: path.episode is 'x'"),
    ("GET", "/v1/teams/boat/explain?state=0&prev_agent=0", None, 422, "explain: t is missing"),
    ("GET", "/v1/teams/boat/explain?t=0&state=9&prev_agent=0", None, 422, "explain: state is 9"),
    ("GET", "/v1/teams?limit=0", None, 422, "request: limit is 0"),
    ("GET", "/v1/teams?limits=5", None, 422, "argument is 'limits', must be one of environment, search, after, limit"),
    ("GET", "/v1/teams?limit=5&limit=6", None, 422, "the number of limit is 2, must be 1"),
    ("GET", "/v1/teams/boat?x=%1b", None, 422, "argument is 'x', must be left out"),
    ("GET", "/v1/nothing", None, 404, "request: address or method is unknown"),
    ("POST", "/v1/teams", {}, 405, "request: address or method is unknown"),
]


@pytest.mark.parametrize(("method", "path", "data", "status", "detail"), WRONG)
def test_what_is_wrong_is_a_problem_in_one_grammar(call, method, path, data, status, detail):
    found = call(method, path, data)
    assert found.status_code == status, found.text
    assert found.headers["content-type"] == "application/problem+json"
    assert found.json()["status"] == status
    assert detail in found.json()["detail"]


STEP = {"episode": 99, "t": 3, "state": 0, "prev_agent": 0, "agent": 0, "action": 0, "next_state": 0}


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"state": 6}, "steps[1].state is 6, must be an integer from 0 to 5"),
        ({"state": -1}, "steps[1].state is -1"),
        ({"action": True}, "steps[1].action is True"),
        ({"action": 1.0}, "steps[1].action is 1.0"),
        ({"agent": "right"}, "steps[1].agent is 'right'"),
        ({"t": 20}, "steps[1].t is 20, must be an integer from 0 to 19"),
        ({"episode": 2**53}, "steps[1].episode is"),
        ({"episode": 2**70}, "steps[1].episode is"),
        ({"cost": "1"}, "steps[1].cost is '1'"),
        ({"cost": False}, "steps[1].cost is False"),
        ({"chosen": 2}, "steps[1].chosen is 2"),
        ({"version": -1}, "steps[1].version is -1"),
        ({"reason": "whim"}, "steps[1].reason is 'whim', must be one of 'plan', 'audition', 'fallback'"),
        ({"reason": ["plan"]}, "steps[1].reason is"),
        ({"meta": 3}, "steps[1].meta is 3"),
        ({"meta": {"x": "y" * 4096}}, "the length of steps[1].meta is"),
        ({"meta": {"a": [[[[[[[[1]]]]]]]]}}, "the depth of steps[1].meta is"),
        ({"next_states": 1}, "an entry of a step is 'next_states'"),
        ({"team": "boat"}, "an entry of a step is 'team'"),
    ],
)
def test_steps_are_checked_before_they_are_queued(call, change, detail):
    first = {**STEP, "episode": 98}
    found = call("POST", "/v1/teams/boat/steps", {"steps": [first, {**STEP, **change}]})
    assert found.status_code == 422
    assert detail in found.json()["detail"]
    with call.database.read() as connection:
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM steps WHERE episode = 98").scalar() == 0


def test_conflicts_name_the_field(call):
    assert call("POST", "/v1/teams/boat/steps", {"steps": [{**STEP, "meta": {"b": 1, "a": 2}}]}).status_code == 200
    assert call("POST", "/v1/teams/boat/steps", {"steps": [{**STEP, "meta": {"a": 2, "b": 1}}]}).json()["duplicates"] == 1
    found = call("POST", "/v1/teams/boat/steps", {"steps": [{**STEP, "next_state": 1, "meta": {"a": 2, "b": 1}}]})
    assert found.status_code == 409
    assert "report: steps[0].next_state is 1, must be 0, as in the log" in found.json()["detail"]


def test_tokens_are_scoped_expire_and_are_revoked(call):
    question, path = {"t": 0, "state": 0, "prev_agent": 0}, "/v1/teams/boat/decide"
    refresh = call.app.state.service.tokens.refresh
    some, read, short = call.make(["decide"], ["boat"]), call.make(["read"]), call.make(["admin"], None, 1e-8)
    refresh()
    assert call("POST", path, question, token=some).status_code == 200
    assert call("POST", "/v1/teams/m1/decide", question, token=some).status_code == 403
    assert call("POST", "/v1/decide", {"decisions": [{"team": "boat", **question}]}, token=some).status_code == 200
    assert call("POST", "/v1/decide", {"decisions": [{"team": "m1", **question}]}, token=some).status_code == 403
    assert call("POST", "/v1/teams/boat/steps", {}, token=some).status_code == 403
    assert call("POST", "/v1/steps", {}, token=some).status_code == 403
    assert call("GET", "/v1/teams", token=some).status_code == 403
    assert call("GET", "/v1/teams", token=read).status_code == 200
    assert call("POST", path, question, token=read).status_code == 403
    assert call("PUT", "/v1/teams/x", {"environment": "river"}, token=read).status_code == 403
    for wrong in (short, "x", "cede_", some[:-1], some + "x", "cede_000000000000_" + "a" * 43, "é"):
        found = call("POST", path, question, headers={"authorization": f"Bearer {wrong}".encode()})
        assert found.status_code == 401
        assert found.headers["www-authenticate"] == "Bearer"
    assert call.client.post(path, json=question).status_code == 401
    call.database.write(lambda c: tokens.revoke(c, some.split("_")[1]))
    refresh()
    assert call("POST", path, question, token=some).status_code == 401
    with call.database.read() as connection:
        kept = str(connection.exec_driver_sql("SELECT * FROM tokens").all())
    assert some.split("_", 2)[2] not in kept


def test_every_answer_has_the_headers_and_other_hosts_are_refused(call):
    for found in (call("GET", "/livez"), call("GET", "/v1/nothing"), call("GET", "/v1/teams", token="x")):
        assert found.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in found.headers["content-security-policy"]
    assert call("GET", "/livez", headers={"host": "evil.example"}).status_code == 421
    assert call("GET", "/livez", headers={"host": "testserver:8000"}).status_code == 200


def test_health_and_metrics(call):
    assert call.client.get("/livez").json() == {"live": True}
    assert call.client.get("/readyz").json() == {"database": True, "writer": True, "refresher": True}
    assert call.client.get("/metrics").status_code == 401
    text = call("GET", "/metrics").text
    assert 'route="/v1/teams/{name}/decide"' in text
    assert "boat" not in text
    assert "cede_waiting_steps" in text


def test_lists_are_paged(call):
    names = [one["name"] for one in call("GET", "/v1/teams").json()["teams"]]
    assert names == sorted(names)
    assert [one["name"] for one in call("GET", f"/v1/teams?after={names[0]}&limit=1").json()["teams"]] == names[1:2]
    assert call("GET", "/v1/teams?environment=nowhere").json() == {"teams": []}
    assert "river" in [one["name"] for one in call("GET", "/v1/environments").json()["environments"]]


def test_too_much_is_answered_with_429(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/cede.db")
    caller = Caller(create_app(database, ServiceOptions(hosts=("*",), most_waiting=1, plans=False)), database)
    with caller.client:
        caller("PUT", "/v1/environments/river", ENVIRONMENT)
        caller("PUT", "/v1/teams/boat", {"environment": "river"})
        service = caller.app.state.service
        go_on, begun = threading.Event(), threading.Event()
        slow = service.writer.call(lambda c: (begun.set(), go_on.wait()))
        begun.wait()
        found = caller("POST", "/v1/teams/boat/steps", {"steps": [STEP]})
        assert found.status_code == 429
        assert found.headers["retry-after"] == "1"
        assert caller("POST", "/v1/teams/boat/decide", {"t": 0, "state": 0, "prev_agent": 0}).json()["plan"] == "fallback"
        go_on.set()
        slow.result()
        assert caller("POST", "/v1/teams/boat/steps", {"steps": [STEP]}).status_code == 200
    database.close()


def test_under_a_prefix(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/cede.db")
    caller = Caller(create_app(database, ServiceOptions(hosts=("*",), root_path="/control", plans=False)), database)
    with caller.client:
        assert caller("GET", "/control/v1/teams").json() == {"teams": []}
        assert caller("GET", "/v1/teams").json() == {"teams": []}
        assert caller("GET", "/control/openapi.json").json()["servers"] == [{"url": "/control"}]
    database.close()


def test_decisions_do_not_need_the_database(call, monkeypatch):
    def broken(*_):
        raise OSError("the disk is gone")

    question = {"t": 0, "state": 0, "prev_agent": 0}
    before = call("POST", "/v1/teams/boat/decide", question).json()
    for name in ("read", "write"):
        monkeypatch.setattr(call.database, name, broken)
    found = call("POST", "/v1/teams/boat/decide", question).json()
    assert (found["agent"], found["version"], found["plan"]) == (before["agent"], before["version"], before["plan"])
    assert call("GET", "/v1/teams/boat/policy").status_code == 200
    told = call("POST", "/v1/teams/boat/steps", {"steps": [{**STEP, "episode": 97}]})
    assert told.status_code == 503
    assert told.json()["detail"] == "the database cannot be written now"
    assert told.headers["retry-after"] == "1"
    asked = call("GET", "/v1/teams")
    assert asked.status_code == 503
    assert asked.json()["detail"] == "service: state is 'Service Unavailable', must be working; try again"
    assert call("GET", "/readyz").status_code == 503
    assert call("GET", "/livez").status_code == 200
    monkeypatch.undo()
    assert call("POST", "/v1/teams/boat/steps", {"steps": [{**STEP, "episode": 97}]}).json()["new"] == 1


def test_a_mistake_of_ours_is_a_problem_too_and_says_nothing_of_the_inside(call, monkeypatch):
    monkeypatch.setattr(call.app.state.service.store, "environment_names", lambda *_: 1 / 0)
    found = call("GET", "/v1/environments")
    assert found.status_code == 500
    assert found.headers["content-type"] == "application/problem+json"
    assert "division" not in found.text
