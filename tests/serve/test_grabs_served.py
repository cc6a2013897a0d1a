"""What a hand-over costs that the task says is not possible, in the histories of the service: the number that the task says."""

import json

import numpy as np
import pytest

import cede
from cede.serve.names import OF_TEAM
from cede.serve.store.history import HistorySums, Owner, history_of
from cede.serve.store.log import take_in
from serving import Server
from traffic import put, report

OPERATOR = {"agents": ["robot", "operator"], "control_cost": {"operator": 0.35}, "switch_cost": {("robot", "operator"): 0.8}}


def history(store, owner):
    with store.database.read() as connection:
        return history_of(connection, store, owner, None, None, 100)


@pytest.mark.parametrize("discount", [None, 0.9])
@pytest.mark.parametrize("horizon", [2, None])
def test_the_history_of_a_service_uses_the_same_number(store, horizon, discount):
    task = cede.Task(env_cost=[[0.0], [1.0]], horizon=horizon, discount=discount, takeover_delay={"operator": 2}, **OPERATOR)
    (team,) = put(store, cede.recommended(task), {"a": 0})
    steps = [(team.id, 0, t, 0, int(t > 0), 1, 0, 0, None, None, 0, 1, None, None, None) for t in range(2)]
    for part in (steps[:1], steps[1:]):  # without a horizon the piece is summed twice, and its old sums are taken away
        store.database.write(lambda c, part=part: take_in(c, store.team, [report(part)]))
        HistorySums(store, store.database.write).catch_up()
    (bucket,) = history(store, Owner(OF_TEAM, team.id))["buckets"]
    assert bucket["parts"] == pytest.approx({"environment": 0.0, "control": 0.7, "switching": 0.8})
    assert bucket["cost"] == pytest.approx(1.5)
    assert (bucket["overrides"], bucket["hand_overs"], bucket["unpriced"]) == (2, 1, 0)


def test_the_history_of_a_service_counts_what_is_not_priced(store):
    task = cede.Task(env_cost=[[0.0], [1.0]], horizon=1, **{**OPERATOR, "switch_cost": {("robot", "operator"): np.inf}})
    (team,) = put(store, cede.recommended(task), {"a": 0})
    step = (team.id, 0, 0, 0, 0, 1, 0, 0, None, None, 0, 1, None, None, None)
    store.database.write(lambda c: take_in(c, store.team, [report([step])]))
    HistorySums(store, store.database.write).catch_up()
    (bucket,) = history(store, Owner(OF_TEAM, team.id))["buckets"]
    assert (bucket["cost"], bucket["unpriced"]) == (pytest.approx(0.35), 1)


def test_a_served_dashboard_outlives_a_grab(tmp_path):
    """It answered 422, "Out of range float values are not JSON compliant"."""
    task = {
        "env_cost": [[0.0], [1.0]],
        "agents": ["robot", "operator"],
        "control_cost": {"operator": 0.35},
        "switch_cost": [[0.0, 0.8], [0.0, 0.0]],
        "takeover_delay": {"operator": 2},
        "grab_cost": [[0.0, 1.5], [None, 0.0]],
        "horizon": 2,
    }
    server = Server(tmp_path)
    try:
        assert server("PUT", "/v1/environments/desk", {"task": task}).status_code == 201
        own = {name: task[name] for name in ("agents", "control_cost", "switch_cost", "takeover_delay")}
        wanted = {"x": ({}, 1.5), "y": (own, 0.8), "z": ({**own, "grab_cost": None}, 0.8)}
        for name, (more, switching) in wanted.items():
            made = server("PUT", f"/v1/teams/{name}", {"environment": "desk", "own": more})
            assert made.status_code == 201, made.text
            steps = [
                {"episode": 0, "t": t, "state": 0, "prev_agent": int(t > 0), "agent": 1, "action": 0, "next_state": 0, "chosen": 0}
                for t in range(2)
            ]
            ends = [{"episode": 0, "steps": 2}]
            assert server("POST", f"/v1/teams/{name}/steps", {"steps": steps, "ends": ends}).status_code == 200
            found = server("GET", f"/v1/teams/{name}/history")
            assert found.status_code == 200, found.text
            (bucket,) = json.loads(found.text)["buckets"]
            assert bucket["parts"]["switching"] == pytest.approx(switching)
            assert bucket["cost"] == pytest.approx(switching + 0.7)
        assert server("GET", "/v1/environments/desk/history").status_code == 200
    finally:
        server.close()
