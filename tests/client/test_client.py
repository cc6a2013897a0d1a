"""The client: used like a learner, through outages, and after a fork."""

import os
import time
import warnings

import httpx2
import numpy as np
import pytest

import cede
from cede.serve.store import tokens
from cede.serve.store.audit import verify
from cede.serve.store.database import Database
from cede.serve.store.store import Store
from serve_process import Server
from traffic import river, run

TASK = river().task


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('client')}/cede.db"
    database = Database(url)
    made = Server(url, plans=True)
    made.token = database.write(lambda c: tokens.create(c, "test", ["admin"], None, None))
    database.close()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def client(server):
    with cede.Client(server.address, server.token, refresh=0.05) as one:
        one.put_environment("river", cede.recommended(TASK))
        yield one


def play(one, episodes, seed):
    """Let a learner, or a client, control a river; one loop for both."""
    mdp, rng = river(), np.random.default_rng(seed)
    for _ in range(episodes):
        state, agent = 0, TASK.start_agent
        for t in range(TASK.horizon):
            prev_agent, agent = agent, one.choose(t, state, agent)
            action = int(rng.choice(2, p=mdp.team.agents[agent].policy[state]))
            next_state = int(rng.choice(6, p=mdp.environment.transition.toarray()[state * 2 + action]))
            one.observe(t, state, prev_agent, agent, action, next_state)
            state = next_state
        one.end_episode()


def until(done):
    for _ in range(30_000):  # ten minutes: machines are busy
        if done():
            return
        time.sleep(0.02)
    raise AssertionError("it does not happen")


def episodes_of(client, name):
    found = client.ask("GET", f"/v1/teams/{name}").json()
    return found["episodes"] if found["due"] is None else -1


def test_a_loop_with_a_client_is_a_loop_with_a_learner(client):
    """If every plan is waited for, a client chooses as a learner does, step for step."""
    assert client.put_team("twin", "river", seed=4)
    assert not client.put_team("twin", "river", seed=4)
    learner, team = cede.recommended(TASK, seed=4), client.team("twin")
    for k in range(4):
        until(lambda k=k: episodes_of(client, "twin") == k)
        until(team.refresh)
        assert team.version == k + 1
        play(learner, 1, k)
        play(team, 1, k)
        client.flush(600)
    until(lambda: episodes_of(client, "twin") == 4)
    found = client.ask("GET", "/v1/teams/twin/policy").json()
    assert np.array(found["policy"], dtype=np.int16).tobytes() == learner.plan.policy.tobytes()
    assert team.agents == TASK.agents


def test_names_and_the_service_s_own_answers(client):
    """A loop by names, under a number that the service gave; and one that asks the service for every step."""
    client.put_team("own", "river")
    team, names = client.team("own"), TASK.agents
    until(lambda: episodes_of(client, "own") == 0)
    until(team.refresh)
    number = team.begin()
    assert team.begin() == number + 1 == team.episode
    agent = names[0]
    for t in range(2):
        prev_agent, agent = agent, team.choose(t, 0, agent)
        assert agent in names
        team.observe(t, 0, prev_agent, agent, 1, 0)
    team.end_episode()
    client.flush(600)
    until(lambda: episodes_of(client, "own") == 1)
    assert client.ask("GET", "/v1/teams/own/episodes").json()["episodes"][0]["episode"] == number + 1
    decided = team.decide(0, 0, 1)
    assert decided["plan"] in ("fresh", "stale")
    assert decided["name"] == names[decided["agent"]]
    step = {"t": 0, "state": 0, "prev_agent": 1, "agent": decided["agent"], "action": 0, "next_state": 0}
    told = [{"episode": number, "version": decided["version"], "chosen": decided["agent"], **step}]
    assert team.report(told, [{"episode": number, "steps": 1}]) == {"new": 1, "duplicates": 0, "counted": 1}
    assert team.report(told) == {"new": 0, "duplicates": 1, "counted": 0}
    with pytest.raises(ValueError, match="as in the log: a step is never changed"):
        team.report([{**told[0], "action": 1}])


def test_a_token_that_may_only_report_begins_and_reports(client, server):
    client.put_team("only", "river")
    database = Database(server.url)
    token = database.write(lambda c: tokens.create(c, "test", ["report"], ["only"], None))
    database.close()
    until(lambda: client.ask("GET", "/v1/health").status_code == 200)
    with cede.Client(server.address, token) as one:
        team = one.team("only")
        until(lambda: can(team.begin))
        assert team.report([], [{"episode": team.episode, "steps": 3}])["new"] == 0
        with pytest.raises(ValueError, match="must have the scope 'decide' for this team"):
            team.choose(0, 0, 0)


def can(call):
    """Whether a token holds yet: servers take note of new ones within a moment."""
    try:
        call()
    except ValueError as error:
        if "token is missing" not in str(error):
            raise
        return False
    return True


def test_a_token_that_may_decide_and_report_is_enough_before_there_is_a_plan(tmp_path):
    url = f"sqlite:///{tmp_path}/cede.db"
    database, made = Database(url), Server(url, plans=False)
    made.token = database.write(lambda c: tokens.create(c, "test", ["admin"], None, None))
    token = database.write(lambda c: tokens.create(c, "test", ["decide", "report"], ["early"], None))
    database.close()
    made.start()
    with cede.Client(made.address, made.token) as one:
        one.put_environment("river", cede.recommended(TASK))
        one.put_team("early", "river", fallback=1)
        one.put_team("other", "river")
    with cede.Client(made.address, token) as one:
        team = one.team("early")
        play(team, 1, 3)
        one.flush(600)
        assert (team.version, team.choose(0, 0, 0)) == (0, 1)
        with pytest.raises(ValueError, match="must have the scope 'decide' for this team"):
            one.team("other").choose(0, 0, 0)
    made.stop()


def test_it_goes_on_through_an_outage(client, server):
    client.put_team("outage", "river")
    team = client.team("outage")
    until(lambda: episodes_of(client, "outage") == 0)
    play(team, 2, 0)
    client.flush(600)
    server.stop()
    try:
        before = team.age
        play(team, 3, 1)
        assert team.age > before
        with pytest.raises(TimeoutError, match="60 steps are not sent yet"):
            client.flush(0.3)
    finally:
        server.start()
    client.flush(600)
    until(lambda: episodes_of(client, "outage") == 5)
    until(lambda: team.age < 1)
    database = Database(server.url)
    with database.read() as connection:
        store = Store(database)
        assert verify(connection, store) == []
        sql = "SELECT COUNT(*) FROM steps WHERE team = ? AND chosen = agent AND version > 0 AND reason IS NOT NULL"
        assert run(connection, sql, (store.team("outage").id,)).scalar() == 100
    database.close()


def test_what_is_refused_is_raised_and_harms_nobody_else(client):
    for name in ("good", "bad"):
        client.put_team(name, "river")
    good, bad = client.team("good"), client.team("bad")
    play(good, 1, 0)
    client.flush(600)
    bad.observe(0, 0, 0, 0, 0, 5)
    bad.end_episode()
    client.flush(600)  # odd, but possible: the service takes it
    with pytest.raises(ValueError, match="must be that of a team"):
        client.team("nobody").choose(0, 0, 0)
    client.unsent.put("nobody", 1, {"episode": 1, "t": 0, "state": 0}, held=False)
    play(good, 1, 1)
    with pytest.raises(ValueError, match="must be"):
        client.flush(600)
    until(lambda: episodes_of(client, "good") == 2)


def test_after_a_fork_the_child_tells_its_own_and_the_parent_its_own(client, server):
    client.put_team("forked", "river")
    team = client.team("forked")
    play(team, 1, 0)
    team.observe(0, 0, 0, 0, 0, 0)  # an episode that runs: it stays the parent's
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:
        try:
            play(team, 2, 1)
            client.flush(600)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    team.end_episode()
    client.flush(600)
    until(lambda: episodes_of(client, "forked") == 4)


def test_mistakes_are_named(client, server):
    client.put_team("mistakes", "river")
    team = client.team("mistakes")
    with pytest.raises(ValueError, match="choose: state is 6, must be an integer from 0 to 5"):
        team.choose(0, 6, 0)
    with pytest.raises(ValueError, match="observe: t is 1, must be 0, the next step of this episode"):
        team.observe(1, 0, 0, 0, 0, 0)
    team.observe(0, 0, 0, 1, 0, 0)
    with pytest.raises(ValueError, match="observe: prev_agent is 0, must be 1, who acted in the step before"):
        team.observe(1, 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="observe: state is 3, must be 0, where the step before led"):
        team.observe(1, 3, 1, 0, 0, 0)
    team.drop_episode()
    with pytest.raises(ValueError, match="request: token is missing or not valid"), cede.Client(server.address, "x") as other:
        other.team("mistakes").choose(0, 0, 0)
    with pytest.raises(httpx2.ConnectError), cede.Client("http://127.0.0.1:1", "x") as nowhere:
        nowhere.team("mistakes").choose(0, 0, 0)
    assert server.token not in repr(client)
