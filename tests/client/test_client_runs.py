"""Clients against a service that is faked: runs without a horizon, names, what stands between, and what is sent again."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import count

import httpx2
import numpy as np
import pytest

import cede
from cede.client import async_client, connection, episode, spool
from cede.client.connection import Backoff, ClientOptions
from cede.client.policy import PolicyCopy

ABOUT = {
    "version": 3,
    "fallback": 1,
    "horizon": None,
    "n_states": 4,
    "n_actions": 2,
    "agents": ["robot", "operator"],
    "start_agent": 0,
    "terminal": [3],
    "state_names": ["dock", "aisle", "gate", "end"],
    "action_names": ["go", "wait"],
    "learns_costs": False,
}
POLICY = np.array([[0, 1], [1, 0], [0, 0], [1, 1]])  # (S, D)


class Service:
    """A service that is not there: it answers what it was told to, and keeps what it is asked."""

    def __init__(self, about=None, policy=POLICY):
        self.about, self.policy, self.tag = {**ABOUT, **(about or {})}, np.asarray(policy), '"1"'
        self.asked, self.steps, self.answers, self.episodes = [], [], [], count(1)

    def __call__(self, request):
        data = json.loads(request.content) if request.content else None
        self.asked.append((request.method, request.url.path, data, request.headers))
        if request.method != "GET" and self.answers:
            found = self.answers.pop(0)
            if isinstance(found, Exception):
                raise found
            return found()
        if request.url.path.endswith("/policy"):
            if request.headers.get("if-none-match") == self.tag:
                return httpx2.Response(304)
            return httpx2.Response(200, json={**self.about, "policy": self.policy.tolist()}, headers={"etag": self.tag})
        if request.url.path.endswith("/episodes"):
            return httpx2.Response(201, json={"episode": next(self.episodes), "start_agent": 0, "version": 3})
        if request.url.path.endswith("/decide"):
            return httpx2.Response(200, json={"agent": 1, "name": "operator", "plan": "stale", "version": 3, "age": 2.5})
        self.steps += data["steps"]
        return httpx2.Response(200, json={"new": len(data["steps"]), "duplicates": 0, "counted": 0})

    def posts(self, end):
        return [one for one in self.asked if one[0] == "POST" and one[1].endswith(end)]


@pytest.fixture
def fake(monkeypatch):
    """Let clients speak with a faked service."""
    usual = ClientOptions.http

    def use(service):
        monkeypatch.setattr(ClientOptions, "http", lambda self: {**usual(self), "transport": httpx2.MockTransport(service)})
        monkeypatch.setattr(connection, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(Backoff, "__init__", lambda self: setattr(self, "pause", 0.01))
        return service

    return use


class Waiting:
    """An AsyncClient or its team, used without `await`: one test for both."""

    def __init__(self, inner, loop):
        self.__dict__.update(inner=inner, loop=loop)

    def __getattr__(self, name):
        found = getattr(self.inner, name)
        if not callable(found):
            return found

        def call(*given, **named):
            result = found(*given, **named)
            result = self.loop.run_until_complete(result) if asyncio.iscoroutine(result) else result
            return Waiting(result, self.loop) if name == "team" else result

        return call


@pytest.fixture(params=["sync", "async", "sync, spool", "async, spool"])
def connect(request, tmp_path):
    """How a client is made; it is closed at the end."""
    made, loop = [], asyncio.new_event_loop()
    more = {"spool": tmp_path / "spool.db"} if "spool" in request.param else {}

    def new():
        if request.param.startswith("sync"):
            made.append(cede.Client("http://localhost:1", "x", refresh=0.02, **more))
        else:
            made.append(Waiting(cede.AsyncClient("http://localhost:1", "x", refresh=0.02, **more), loop))
        return made[-1]

    yield new
    for one in made:
        one.close()
    loop.close()


def test_a_run_without_a_horizon(fake, connect):
    """The loop of an EndlessLearner: no t, steps are told before the end, and a newer policy is used at once."""
    service = fake(Service())
    client = connect()
    team = client.team("x")
    assert team.start_agent == 0
    assert team.choose(0, 0) == 0
    team.observe(0, 0, 0, 1, 1)
    client.flush(600)
    (first,) = service.steps  # the run goes on
    assert {name: first[name] for name in ("t", "state", "prev_agent", "agent", "action", "next_state")} == {
        "t": 0,
        "state": 0,
        "prev_agent": 0,
        "agent": 0,
        "action": 1,
        "next_state": 1,
    }
    assert (first["chosen"], first["version"], "reason" in first) == (0, 3, False)
    assert team.choose(state=1, prev_agent=0) == 1
    service.about, service.policy, service.tag = {**service.about, "version": 4}, 1 - POLICY, '"2"'
    assert team.refresh()
    assert team.choose(1, 0) == 0
    assert team.version == 4
    team.observe(1, 0, 1, 0, 2)  # another one than chosen
    with pytest.raises(ValueError, match="observe: prev_agent is 0, must be 1, who acted in the step before"):
        team.observe(2, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="observe: state is 0, must be 2, where the step before led"):
        team.observe(0, 1, 0, 0, 0)
    client.flush(600)
    run = team.episode
    assert [(one["episode"], one["t"]) for one in service.steps] == [(run, 0), (run, 1)]
    assert [service.steps[1][name] for name in ("agent", "chosen", "version")] == [1, 0, 4]
    assert all(data["ends"] == [] for _, _, data, _ in service.posts("/steps"))


def test_what_begins_a_new_run(fake, connect):
    service = fake(Service())
    client = connect()
    team = client.team("x")
    team.observe(0, 0, 0, 0, 1)
    assert team.choose(2, 0) == 0
    team.observe(2, 0, 0, 0, 1, moved=True)  # moved by hand
    team.observe(1, 0, 0, 0, 1, moved=True)  # moved, to where it was anyway
    team.end_episode()
    team.observe(0, 1, 0, 0, 3)  # arrives at the end
    assert team.episode is None
    team.observe(0, 0, 0, 0, 1)
    team.drop_episode()  # what was told stays told
    team.observe(0, 0, 0, 0, 1)
    client.flush(600)
    runs = [one["episode"] for one in service.steps]
    assert [one["t"] for one in service.steps] == [0, 0, 1, 0, 0, 0]
    assert len(set(runs)) == 5
    assert runs[1] == runs[2]
    assert runs == sorted(runs)
    assert service.steps[1]["chosen"] == 0
    assert "chosen" not in service.steps[2]


def test_names_go_wherever_indices_go(fake, connect):
    service = fake(Service())
    client = connect()
    team = client.team("x")
    assert team.choose("dock", "operator") == "operator"
    assert team.choose("dock", 1) == 1
    team.observe("dock", "operator", "robot", "wait", "gate")
    client.flush(600)
    assert [service.steps[0][n] for n in ("state", "prev_agent", "agent", "action", "next_state", "chosen")] == [0, 1, 0, 1, 2, 1]
    for wrong, message in (
        (("dok", 0), "choose: state is 'dok', must be one of 'dock'"),
        (("dock", "nobody"), "choose: prev_agent is 'nobody', must be one of 'robot', 'operator'"),
        ((4, 0), "choose: state is 4, must be an integer from 0 to 3"),
        (("end", 0), "choose: state is 'end', must be one in which an episode goes on"),
    ):
        with pytest.raises(ValueError, match=message):
            team.choose(*wrong)
    with pytest.raises(ValueError, match="observe: prev_agent is 'operator', must be 'robot', who acted in the step before"):
        team.observe("gate", "operator", 0, 0, 0)
    with pytest.raises(ValueError, match="observe: state is 'dock', must be 'gate', where the step before led"):
        team.observe("dock", 0, 0, 0, 0)
    with pytest.raises(TypeError, match="prev_agent"):
        team.choose(0)
    team.end_episode()


def test_a_reason_is_told_if_the_service_gave_one(fake, connect):
    service = fake(Service({"reason": "explores"}))
    client = connect()
    team = client.team("x")
    for chosen in (True, False):
        if chosen:
            team.choose(0, 0)
        team.observe(0, 0, 0, 0, 0)
    client.flush(600)
    assert [one.get("reason") for one in service.steps] == ["explores", None]


def test_episodes_with_a_horizon_cannot_be_moved_and_end(fake, connect):
    service = fake(Service({"horizon": 3}, np.stack([POLICY] * 3)))
    client = connect()
    team = client.team("x")
    assert team.choose(t=0, state=0, prev_agent=1) == 1
    team.observe(0, 0, 1, 1, 0, 1)
    with pytest.raises(ValueError, match="observe: moved is True, must be False: a service learns from whole episodes"):
        team.observe(1, 2, 1, 1, 0, 1, moved=True)
    with pytest.raises(ValueError, match="observe: t is 0, must be 1, the next step of this episode; if a new episode begins, end"):
        team.observe(0, 0, 1, 1, 0, 1)
    team.observe(1, 1, 1, 1, 0, 3, moved=True)  # it was where it should be
    with pytest.raises(ValueError, match="observe: this episode is over since state 3, must be ended first"):
        team.observe(2, 0, 1, 1, 0, 0)
    with pytest.raises(ValueError, match="begin: the number of steps of the running episode is 2, must be 0"):
        team.begin()
    client.flush(600)
    assert service.steps == []
    team.end_episode()
    client.flush(600)
    assert [one["t"] for one in service.steps] == [0, 1]
    ends = [end for _, _, data, _ in service.posts("/steps") for end in data["ends"]]
    assert [(end["team"], end["steps"]) for end in ends] == [("x", 2)]


LOST = httpx2.ConnectError("lost")


def busy():
    return httpx2.Response(429, json={}, headers={"retry-after": "0"})


def test_an_episode_is_begun_once_however_often_it_is_asked_for(fake, connect):
    service = fake(Service({"horizon": 3}, np.stack([POLICY] * 3)))
    client = connect()
    team = client.team("x")
    service.answers = [LOST, busy, httpx2.ReadTimeout("late")]
    assert team.begin() == 1
    keys = {headers["idempotency-key"] for *_, headers in service.posts("/episodes")}
    assert len(service.posts("/episodes")) == 4
    assert len(keys) == 1
    assert team.episode == 1
    team.observe(0, 0, 0, 0, 0, 0)
    team.end_episode()
    client.flush(600)
    assert service.steps[0]["episode"] == 1
    assert team.begin() == 2
    assert len({headers["idempotency-key"] for *_, headers in service.posts("/episodes")}) == 2
    service.answers = [LOST] * 1000
    with pytest.raises(httpx2.ConnectError, match="lost"):
        team.begin(patience=0.1)
    service.answers = [lambda: httpx2.Response(403, json={"detail": "no"})]
    with pytest.raises(ValueError, match="no"):
        team.begin()


def test_the_service_itself_is_asked_and_told(fake, connect):
    service = fake(Service())
    team = connect().team("x")
    assert team.decide(None, 0, 1) == {"agent": 1, "name": "operator", "plan": "stale", "version": 3, "age": 2.5}
    assert service.posts("/decide")[0][2] == {"state": 0, "prev_agent": 1}
    team.decide(4, 0, 1)
    assert service.posts("/decide")[1][2] == {"t": 4, "state": 0, "prev_agent": 1}
    service.answers = [LOST]
    with pytest.raises(httpx2.ConnectError):  # a decision is not worth waiting for
        team.decide(4, 0, 1)
    service.answers = [LOST, busy]
    step = {"episode": 1, "t": 0, "state": 0, "prev_agent": 0, "agent": 1, "action": 0, "next_state": 0}
    assert team.report([step], [{"episode": 1, "steps": 1}]) == {"new": 1, "duplicates": 0, "counted": 0}
    assert service.posts("/teams/x/steps")[-1][2] == {"steps": [step], "ends": [{"episode": 1, "steps": 1}]}
    with pytest.raises(ValueError, match="decide: state is 'dock', must be an integer of at least 0"):
        team.decide(0, "dock", 0)
    with pytest.raises(ValueError, match="report: steps is 3, must be a list of steps"):
        team.report(3)


ODD = {
    "a page": lambda: httpx2.Response(200, text="<h1>Please sign in</h1>"),
    "a gate": lambda: httpx2.Response(404, text="no such host"),
    "too few": lambda: httpx2.Response(200, json={"new": 0, "duplicates": 0, "counted": 0}),
    "elsewhere": lambda: httpx2.Response(302, headers={"location": "http://elsewhere"}),
}


@pytest.mark.parametrize("odd", ODD)
def test_only_what_the_service_acknowledged_is_settled(fake, connect, odd):
    """A proxy that answers in its place is not believed: neither that it has steps, nor that it refuses them."""
    service = fake(Service())
    client = connect()
    team = client.team("x")
    service.answers = [ODD[odd]] * 1000
    team.observe(0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match=r"service: its response is of status \d+ and from elsewhere, must be from the service"):
        client.flush(600)
    service.answers = []
    with suppress(ValueError):
        client.flush(600)  # a try may have been under way
    client.flush(600)
    assert len(service.steps) == 1


def problem(status, detail):
    """An answer of the service itself that refuses something."""
    body = {"title": "no", "status": status, "detail": detail}
    return httpx2.Response(status, json=body, headers={"content-type": "application/problem+json"})


@pytest.mark.parametrize("status", [401, 403, 404, 421])
def test_what_says_nothing_of_the_steps_throws_none_away(fake, connect, monkeypatch, status):
    """A token that does not allow it, another host, a prefix that is missing: all is told when that is mended."""
    monkeypatch.setattr(async_client, "ADOPT_INTERVAL", 0.05)
    service = fake(Service())
    client = connect()
    team = client.team("x")
    service.answers = [lambda: problem(status, "not now")] * 1000
    for i in range(5):
        team.observe(i % 2, 0, 0, 0, (i + 1) % 2)
    with pytest.raises(ValueError, match="not now"):
        client.flush(600)
    service.answers = []
    for _ in range(30_000):
        with suppress(ValueError):
            client.flush(600)
        if len(service.steps) == 5:
            break
        client.ask("GET", "/policy")  # time passes, in which others have their turn
        time.sleep(0.02)
    assert sorted(step["t"] for step in service.steps) == list(range(5))


def test_one_wrong_step_of_a_run_takes_no_other_along(fake, connect):
    class Choosy(Service):
        def __call__(self, request):
            if request.url.path == "/v1/steps" and any(one.get("cost") == 7.0 for one in json.loads(request.content)["steps"]):
                return problem(422, "report: cost is 7, must be at most 1")
            return super().__call__(request)

    service = fake(Choosy())
    client = connect()
    team = client.team("x")
    for i in range(100):
        team.observe(i % 2, 0, 0, 0, (i + 1) % 2, 7.0 if i == 37 else 0.5)
    with pytest.raises(ValueError, match="cost is 7"):
        client.flush(600)
    assert sorted(step["t"] for step in service.steps) == [t for t in range(100) if t != 37]


def test_clocks_that_are_wrong_lose_nothing(fake, connect, monkeypatch):
    service = fake(Service())
    client = connect()
    team = client.team("x")
    for seconds in (-5.0, 2.0**40):
        with monkeypatch.context() as patch:
            patch.setattr(episode.time, "time", lambda s=seconds: s)
            patch.setattr(episode.time, "time_ns", lambda s=seconds: int(s * 1e9))
            team.observe(0, 0, 0, 0, 0)
            team.end_episode()
    client.flush(600)
    assert len(service.steps) == 2
    assert all(0 <= step[name] < 2**53 for step in service.steps for name in ("at", "episode"))


def test_a_t_too_many_or_too_few_is_said(fake, connect):
    fake(Service())
    with pytest.raises(ValueError, match=r"choose: t is 0, must be left out: the task has no horizon"):
        connect().team("x").choose(0, 0, 0)


def test_what_is_no_policy_is_said(fake, connect):
    client = connect()
    for odd in (ODD["a page"], lambda: httpx2.Response(200, json={**ABOUT, "policy": [1]}, headers={"etag": "x"})):
        fake(lambda _, odd=odd: odd())
        with pytest.raises(ValueError, match="service: its response is not a policy, must be a policy"):
            client.team("x").choose(0, 0)


def test_pauses_grow_and_jump():
    one = Backoff()
    found = [one.after(0.0) for _ in range(20)]
    assert all(0.05 * 2**i <= pause <= 0.1 * 2**i for i, pause in enumerate(found[:8]))
    assert all(15 <= pause <= 30 for pause in found[10:])
    assert len(set(found)) == 20
    assert one.after(1000.0) == 1000.0
    one.reset()
    assert one.after(0.0) <= 0.1


def test_memory_has_a_most(fake, monkeypatch):
    fake(Service({"horizon": 3}, np.stack([POLICY] * 3)))
    monkeypatch.setattr(spool, "MOST_IN_MEMORY", 2)
    with cede.Client("http://localhost:1", "x") as client:
        team = client.team("x")
        for t in range(2):
            team.observe(t, 0, 0, 0, 0, 0)
        with pytest.raises(ValueError, match="Client: the number of unsent steps is 3, must be at most 2"):
            team.observe(2, 0, 0, 0, 0, 0)
        team.drop_episode()
        team.observe(0, 0, 0, 0, 0, 0)
        team.drop_episode()


def test_without_a_plan_control_goes_towards_the_fallback_agent(fake, connect):
    """Where hand-overs take time it cannot come at once."""
    service = Service({"horizon": 3})

    def answer(request):
        if request.url.path.endswith("/policy"):
            return httpx2.Response(404, json={"detail": "policy: plan of 'x' is missing"}, headers={"retry-after": "1"})
        return httpx2.Response(200, json={**service.about, "towards": [1, 1]}) if request.method == "GET" else service(request)

    fake(answer)
    team = connect().team("x")
    assert [team.choose(0, 0, agent) for agent in (0, 1)] == [1, 1]
    assert team.version == 0
    service.about["fallback"] = 0
    assert team.choose(0, 0, "robot") == "operator"


def test_without_a_plan_locks_hold_too():
    """The way to the fallback agent depends on the state then, as the service says."""
    copy = PolicyCopy(None, {"fallback": 1, "towards": [[1, 1], [0, 1]]}, None, 0.0)
    assert [copy.choice((0, s, prev)) for s in range(2) for prev in range(2)] == [1, 1, 0, 1]
    assert [copy.choice((s, 0)) for s in range(2)] == [1, 0]  # without a horizon


def away(service):
    """Let a faked service be unreachable, except for policies."""
    service.answers = [LOST] * 100_000
    return service


def test_a_call_that_waits_while_another_thread_closes_raises_an_error(fake):
    away(fake(Service()))
    client, errors = cede.Client("http://localhost:1", "x"), []

    def begin():
        try:
            client.team("x").begin(patience=600)
        except ValueError as error:
            errors.append(str(error))

    thread = threading.Thread(target=begin)
    thread.start()
    while not client.team("x").refresh():
        time.sleep(0.01)
    client.close()
    thread.join()
    assert errors == ["Client: it is closed, must be open"]
    for call in (client.team("x").refresh, client.wake, lambda: client.team("x").choose(0, 0)):
        with pytest.raises(ValueError, match="Client: it is closed, must be open"):
            call()
    client.flush()
    client.close()


def test_an_interrupt_ends_a_wait_and_the_client_goes_on(fake):
    """As Ctrl-C does."""
    service = away(fake(Service()))

    def interrupt(*_):
        raise KeyboardInterrupt

    usual = signal.signal(signal.SIGALRM, interrupt)
    try:
        with cede.Client("http://localhost:1", "x") as client:
            team = client.team("x")
            team.observe(0, 0, 0, 0, 0)
            for wait in (client.flush, lambda: client.team("y").begin(patience=600)):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                with pytest.raises(KeyboardInterrupt):
                    wait()
            service.answers.clear()
            client.flush(600)
            assert len(service.steps) == 1
    finally:
        signal.signal(signal.SIGALRM, usual)


def test_a_client_works_inside_an_event_loop_and_leaves_no_thread(fake):
    fake(Service())
    before = threading.active_count()

    async def main():
        with cede.Client("http://localhost:1", "x") as client:
            return client.team("x").choose(0, 0)

    assert asyncio.run(main()) == 0
    assert threading.active_count() == before


def test_a_process_that_ends_without_closing_says_nothing(tmp_path):
    code = f"""
import os, sys, cede
client = cede.Client("http://127.0.0.1:1", "x", refresh=0.01, spool={str(tmp_path / "spool.db")!r})
client.unsent.put("x", 1, {{}}, held=False)
client.wake()
child = os.fork()
client.wake()
assert child == 0 or os.waitpid(child, 0)[1] == 0
"""
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", code]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("", "")


def test_the_client_imports_neither_server_nor_learner():
    code = "import sys, cede; cede.Client, cede.AsyncClient; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    packages = {name.split(".")[1] for name in found.split() if name.startswith("cede.")}
    assert packages == {"_base", "_kernels", "client", "problem", "steps"}  # the definitions of steps, without compiled code
    assert "numba" not in found.split()


def test_a_missing_extra_is_answered_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    for ask in (
        lambda: cede.Client("http://localhost:1", "x").team("x").choose(0, 0),
        lambda: asyncio.run(cede.AsyncClient("http://localhost:1", "x").team("x")),
    ):
        with pytest.raises(ImportError, match=r'pip install "cede\[client\]"'):
            ask()
