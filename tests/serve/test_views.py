"""What can be looked at: histories equal sums over the steps, exports hold the log, maps show the newest plan; events are told."""

import csv
import io
import json
import threading
import time
from dataclasses import replace

import httpx2
import numpy as np
import pytest
from pyarrow import parquet

import cede
from cede.serve.http.setup import team_from
from cede.serve.names import OF_ENVIRONMENT, OF_TEAM
from cede.serve.store.audit import erase, rebuild
from cede.serve.store.history import SIZES, HistorySums, Owner, fitting, history_of
from cede.serve.store.log import take_in
from serving import Server
from traffic import episodes, put, report, river, rows, run


def tell(store, team, number, episode):
    one = report(rows(team, number, episode), [(team.id, number, len(episode.actions))])
    store.database.write(lambda c: take_in(c, store.team, [one]))


def random_episodes(mdp, n, seed):
    """Episodes under policies that hand control over at random, to whom it can be handed."""
    rng, allowed = np.random.default_rng(seed), mdp.task.can_hand_over
    draw = np.vectorize(lambda prev: rng.choice(np.flatnonzero(allowed[prev])), otypes=[np.int16])
    where = np.broadcast_to(np.arange(mdp.task.n_agents), mdp.task.policy_shape)
    return [cede.rollout(mdp, draw(where), seed=rng) for _ in range(n)]


def told(store, mdp, teams, n):
    """Let teams tell episodes in turn; return them in the order in which they began."""
    found = {team.id: random_episodes(mdp, n, team.id) for team in teams}
    result = []
    for number in range(n):
        for team in teams:
            tell(store, team, number, found[team.id][number])
            result.append((team, found[team.id][number]))
            time.sleep(0.002)  # begun is in milliseconds
    return result


def history(store, owner, size=None, before=None, most=100):
    with store.database.read() as connection:
        return history_of(connection, store, owner, size, before, most)


def slow_bucket(task, seen):
    """The obvious twin: add up episodes step by step."""
    sums = {"steps": 0, "cost": 0.0, "control": [0] * len(task.members), "switches": 0, "hand_overs": 0}
    for episode in seen:
        for t in range(len(episode.actions)):
            prev, agent = int(episode.prev_agents[t]), int(episode.agents[t])
            sums["steps"] += 1
            sums["cost"] += float(episode.costs[t])
            sums["control"][task.acting[agent]] += 1
            handed = int(task.layout.aim[prev] != task.layout.aim[agent])
            sums["switches"], sums["hand_overs"] = sums["switches"] + handed, sums["hand_overs"] + handed
    return sums


def same(bucket, sums):
    assert bucket["cost"] == pytest.approx(sums["cost"], abs=1e-9)
    assert bucket["cost"] == pytest.approx(sum(bucket["parts"].values()))
    assert {name: bucket[name] for name in sums if name != "cost"} == {name: one for name, one in sums.items() if name != "cost"}
    assert sum(n for *_, n in bucket["pairs"]) == bucket["hand_overs"]


@pytest.mark.parametrize("delay", [0, 2])
def test_histories_are_sums_over_the_steps(store, delay):
    mdp = river()
    if delay:
        agents = [replace(agent, takeover_delay=delay) for agent in mdp.team.agents]
        mdp = cede.TwoLayerMDP(mdp.environment, cede.Team(agents, switch_cost=0.1), horizon=20, start_agent=0)
    teams = put(store, cede.recommended(mdp.task), {"a": 0, "b": 1})
    seen = told(store, mdp, teams, 5)
    historian = HistorySums(store, store.database.write)
    assert historian.catch_up(4) == 6
    assert historian.catch_up() == 0
    found = history(store, Owner(OF_TEAM, teams[0].id), size=2)
    mine = [episode for team, episode in seen if team is teams[0]]
    assert [one["episodes"] for one in found["buckets"]] == [2, 2, 1]
    assert found["agents"] == list(mdp.task.members)
    for i, bucket in enumerate(found["buckets"]):
        same(bucket, slow_bucket(mdp.task, mine[2 * i : 2 * i + 2]))
    whole = history(store, Owner(OF_ENVIRONMENT, teams[0].environment), size=3)
    for i, bucket in enumerate(whole["buckets"]):
        same(bucket, slow_bucket(mdp.task, [episode for _, episode in seen][3 * i : 3 * i + 3]))
    assert (whole["total"], whole["earlier"], [one["episodes"] for one in whole["buckets"]]) == (10, False, [3, 3, 3, 1])
    (tens,) = history(store, Owner(OF_ENVIRONMENT, teams[0].environment), size=20)["buckets"]
    same(tens, slow_bucket(mdp.task, [episode for _, episode in seen]))
    page = history(store, Owner(OF_ENVIRONMENT, teams[0].environment), size=3, before=3, most=2)
    assert [one["bucket"] for one in page["buckets"]] == [1, 2]
    same(page["buckets"][0], slow_bucket(mdp.task, [episode for _, episode in seen][3:6]))
    assert page["earlier"]
    if delay:
        assert sum(one["switches"] for one in whole["buckets"]) == sum(one["hand_overs"] for one in whole["buckets"]) > 0


def test_learned_costs_and_overrides_are_in_histories(store):
    task = cede.Task(n_states=2, n_actions=1, cost_range=(0, 1), agents=["x", "y"], horizon=2, control_cost=[0.0, 0.5])
    (team,) = put(store, cede.recommended(task), {"a": 0})
    steps = [
        (team.id, 0, 0, 0, 0, 1, 0, 1, 0.25, None, 0, 1, None, None, None),
        (team.id, 0, 1, 1, 1, 1, 0, 0, 0.5, None, 1, 1, None, None, None),
    ]
    store.database.write(lambda c: take_in(c, store.team, [report(steps)]))
    HistorySums(store, store.database.write).catch_up()
    (bucket,) = history(store, Owner(OF_TEAM, team.id))["buckets"]
    assert bucket["parts"] == {"environment": 0.75, "control": 1.0, "switching": 0.0}
    assert (bucket["overrides"], bucket["control"], bucket["pairs"]) == (1, [0, 2], [[0, 1, 1]])


def test_teams_with_agents_of_their_own_are_told_apart_by_name(store):
    mdp = river()
    (one,) = put(store, cede.recommended(mdp.task), {"t": 0})
    common = store.environment("river").served
    for i in range(14):
        own = team_from("test", common, {"agents": ["p=0.3", f"driver {i}"]})
        store.database.write(lambda c, i=i, own=own: store.put_team(c, f"t{i}", "river", own, 0, 0))
    for i, name in enumerate(["t", *(f"t{i}" for i in range(14))]):
        tell(store, store.team(name), 0, episodes(mdp, 1, i)[0])
    HistorySums(store, store.database.write).catch_up()
    found = history(store, Owner(OF_ENVIRONMENT, one.environment), size=100)
    assert len(found["agents"]) == 13
    assert found["agents"][-1] is None  # all others
    assert found["agents"][0] == "p=0.3"  # most of the time
    assert sum(found["buckets"][0]["control"]) == found["buckets"][0]["steps"]


def test_what_is_erased_or_rebuilt_is_so_in_histories(store):
    mdp = river()
    teams = put(store, cede.recommended(mdp.task), {"a": 0, "b": 1})
    seen = told(store, mdp, teams, 3)
    historian = HistorySums(store, store.database.write)
    historian.catch_up()
    store.database.write(lambda c: erase(c, store, teams[0]))
    assert history(store, Owner(OF_TEAM, teams[0].id))["buckets"] == []
    whole = history(store, Owner(OF_ENVIRONMENT, teams[0].environment), size=100)["buckets"][0]
    assert whole["episodes"] == 3
    same(whole, slow_bucket(mdp.task, [episode for team, episode in seen if team is teams[1]]))
    store.database.write(lambda c: rebuild(c, store))
    assert historian.catch_up() == 0
    mine = [episode for team, episode in seen if team is teams[1]]
    for bucket, episode in zip(history(store, Owner(OF_TEAM, teams[1].id))["buckets"], mine, strict=True):
        same(bucket, slow_bucket(mdp.task, [episode]))


def test_several_who_sum_up_at_once_count_nothing_twice(store):
    mdp = river()
    teams = put(store, cede.recommended(mdp.task), {"a": 0, "b": 1})
    told(store, mdp, teams, 10)
    historians = [HistorySums(store, store.database.write) for _ in range(3)]

    def work(one):
        while one.catch_up(3):
            pass

    threads = [threading.Thread(target=work, args=(one,)) for one in historians]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert history(store, Owner(OF_ENVIRONMENT, teams[0].environment))["total"] == 20
    with store.database.read() as connection:
        expected = run(connection, "SELECT COUNT(*) FROM steps").scalar()
        for size in SIZES:
            sql = f"SELECT SUM(steps) FROM history WHERE kind = 0 AND prev_agent >= 0 AND size = {size}"
            assert run(connection, sql).scalar() == expected


def test_buckets_have_sizes_that_people_like():
    assert [fitting(n) for n in (0, 1, 100, 101, 201, 501, 1001, 2001, 10**6)] == [1, 1, 1, 2, 5, 10, 20, 50, 10**4]


# ------------------------------------------------------------------------------------------------- over HTTP


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("views"))
    yield found
    found.close()


def test_histories_over_http(server):
    found = server("GET", "/v1/teams/boat/history").json()
    assert (found["total"], found["behind"], found["size"]) == (4, 0, 1)
    for bucket, episode in zip(found["buckets"], server.settings, strict=True):
        same(bucket, slow_bucket(server.mdp.task, [episode]))
    assert server("GET", "/v1/environments/river/history?size=4").json()["buckets"][0]["episodes"] == 4
    assert server("GET", "/v1/teams/canoe/history").json()["buckets"] == []


def test_the_log_is_exported(server):
    steps = [len(one.actions) for one in server.settings]
    lines = [json.loads(line) for line in server("GET", "/v1/teams/boat/steps").text.splitlines()]
    assert [(one["episode"], one["t"]) for one in lines] == [(i, t) for i, n in enumerate(steps) for t in range(n)]
    assert lines[0]["team"] == "boat"
    assert [one["state"] for one in lines[: steps[0]]] == server.settings[0].states[:-1].tolist()
    table = list(csv.DictReader(io.StringIO(server("GET", "/v1/teams/boat/steps?format=csv&since=2").text)))
    assert len(table) == sum(steps[2:])
    assert [int(one["agent"]) for one in table] == [one["agent"] for one in lines[sum(steps[:2]) :]]
    answer = server("GET", "/v1/environments/river/steps?format=parquet")
    assert answer.headers["content-disposition"] == 'attachment; filename="river.parquet"'
    columns = parquet.read_table(io.BytesIO(answer.content)).to_pydict()
    assert columns["next_state"] == [one["next_state"] for one in lines]
    assert set(columns["cost"]) == {None}


def test_long_exports_come_in_parts(server, monkeypatch):
    monkeypatch.setattr("cede.serve.store.export.PART", 7)
    lines = server("GET", "/v1/teams/boat/steps").text.splitlines()
    assert len(lines) == sum(len(one.actions) for one in server.settings)
    content = server("GET", "/v1/teams/boat/steps?format=parquet").content
    assert parquet.ParquetFile(io.BytesIO(content)).num_row_groups == -(-len(lines) // 7)


def test_episodes_and_steps_are_listed(server):
    found = server("GET", "/v1/teams/boat/episodes?limit=2").json()["episodes"]
    assert [one["episode"] for one in found] == [3, 2]
    assert found[0]["counted"] is True
    assert [one["episode"] for one in server("GET", "/v1/teams/boat/episodes?before=2").json()["episodes"]] == [1, 0]
    steps = server("GET", "/v1/teams/boat/episodes/1/steps?since=1&limit=3").json()["steps"]
    assert [one["t"] for one in steps] == [1, 2, 3]
    assert [one["action"] for one in steps] == server.settings[1].actions[1:4].tolist()


def test_the_map_is_the_newest_plan_with_visits(server):
    policy = np.array(server("GET", "/v1/teams/boat/policy").json()["policy"])
    found = server("GET", "/v1/teams/boat/map?t=3&order=state").json()
    assert [row["agents"] for row in found["rows"]] == policy[3].tolist()
    visits = np.zeros((6, 2))
    for one in server.settings:
        np.add.at(visits, (one.states[:-1], one.agents), 1)
    assert [row["acted"] for row in found["rows"]] == visits.tolist()
    assert [row["visits"] for row in found["rows"]] == visits.sum(axis=1).tolist()
    first = server("GET", "/v1/teams/boat/map?limit=1").json()["rows"][0]
    assert first["visits"] == visits.sum(axis=1).max() == found["most_visits"]
    assert [row["state"] for row in server("GET", "/v1/teams/boat/map?search=STATE%204").json()["rows"]] == [4]


def test_teams_are_searched_and_tokens_see_what_they_may(server):
    assert [one["name"] for one in server("GET", "/v1/teams?search=AN").json()["teams"]] == ["canoe"]
    assert server("GET", "/v1/teams?search=_").json()["teams"] == []
    some, none = server.make(["read"], ["canoe"]), server.make(["report"])
    server.app.state.service.tokens.refresh()
    assert [one["name"] for one in server("GET", "/v1/teams", token=some).json()["teams"]] == ["canoe"]
    for path in ("history", "steps", "episodes", "episodes/0/steps", "map"):
        assert server("GET", f"/v1/teams/canoe/{path}", token=some).status_code == 200
        assert server("GET", f"/v1/teams/boat/{path}", token=some).status_code == 403
        assert server("GET", f"/v1/teams/boat/{path}", token=none).status_code == 403
    for path in ("/v1/environments/river/history", "/v1/environments/river/steps", "/v1/events?team=boat"):
        assert server("GET", path, token=some).status_code == 403
    for path in ("/v1/health", "/v1/events", "/v1/teams"):
        assert server("GET", path, token=none).status_code == 403
        assert httpx2.get(server.url + path).status_code == 401


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/v1/teams/boat/history?size=0", "size is 0"),
        ("/v1/teams/boat/history?limit=501", "limit is 501"),
        ("/v1/teams/boat/history?before=-1", "before is -1"),
        ("/v1/teams/boat/history?size=x", "size is 'x'"),
        ("/v1/teams/boat/steps?format=xml", "format is 'xml'"),
        ("/v1/teams/boat/steps?since=-1", "since is -1"),
        ("/v1/teams/boat/map?t=20", "t is 20"),
        ("/v1/teams/boat/map?order=name", "order is 'name'"),
        ("/v1/teams/boat/map?search=%00", "search is"),
        ("/v1/events?team=a%20b", "team is 'a b'"),
    ],
)
def test_wrong_questions(server, path, detail):
    found = server("GET", path)
    assert found.status_code == 422
    assert detail in found.json()["detail"]


def test_health(server):
    found = server("GET", "/v1/health").json()
    assert found["ready"] == {"database": True, "writer": True, "refresher": True}
    assert (found["teams"], found["environments"], found["failures"]) == (2, 1, 0)
    assert found["newest_plan"] >= 0


def read_events(server, n, path="/v1/events", token=None, **headers):
    """Listen in a thread until n events were told; return the thread and the list that it fills."""
    found, ready = [], threading.Event()

    def listen():
        headers_ = {"authorization": f"Bearer {token or server.token}", **headers}
        with httpx2.stream("GET", server.url + path, headers=headers_, timeout=600) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            event = {}
            for line in answer.iter_lines():
                ready.set()
                if line.startswith(":"):
                    continue
                name, _, value = line.partition(": ")
                if line:
                    event[name] = value
                else:
                    if "event" in event:
                        found.append({**event, "data": json.loads(event["data"])})
                    event = {}
                    if len(found) == n:
                        return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    ready.wait(600)
    return thread, found


def test_events_are_told_and_told_again(server):
    some = server.make(["read"], ["boat"])
    server.app.state.service.tokens.refresh()
    one, heard = read_events(server, 2)
    two, of_boat = read_events(server, 1, token=some)
    server.tell("canoe", 50, server.settings[0])
    one.join(600)
    assert {event["event"] for event in heard} == {"counted", "plan"}
    plan = next(event for event in heard if event["event"] == "plan")
    assert plan["data"]["team"] == "canoe"
    assert plan["data"]["episodes"] == 1
    assert of_boat == []
    server.tell("boat", 51, server.settings[0])
    two.join(600)
    assert of_boat[0]["data"]["team"] == "boat"
    three, again = read_events(server, 1, "/v1/events?team=canoe", **{"last-event-id": str(int(plan["id"]) - 1)})
    three.join(600)
    assert again == [plan]
    assert server("GET", "/v1/events", **{"last-event-id": "x"}).status_code == 422


def test_one_who_reads_slowly_is_told_that_it_missed_something(store):
    import asyncio

    from cede.serve.events import QUEUE, Events
    from cede.serve.planner.plans import PlanCache

    (team,) = put(store, cede.recommended(river().task), {"a": 0})
    events = Events(PlanCache(store))

    async def listen():
        stream = events.listen(lambda event: True, None, 0.05)
        assert await anext(stream) is None
        for _ in range(QUEUE + 5):
            events.counted({team.name: 1})
        await asyncio.sleep(0.01)
        found = [await anext(stream) for _ in range(QUEUE + 1)]
        await stream.aclose()
        return [event.kind for event in found]

    assert asyncio.run(listen()) == ["missed", *["counted"] * QUEUE]
    events.stop()
    assert not events.listeners
