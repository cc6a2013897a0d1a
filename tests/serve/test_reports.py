"""What a report of steps and ends may hold, before anything is written; without a server."""

import pytest

import cede
from cede.serve.http.reports import read_report
from cede.serve.served import Served, ServedTeam

TASK = cede.Task([[1.0]], ["a", "b"], 2)
TEAM = ServedTeam(7, "boat", 1, Served(TASK, cede.greedy(TASK).settings))
STEP = {"episode": 4, "t": 1, "state": 0, "prev_agent": 0, "agent": 1, "action": 0, "next_state": 0}


def test_steps_become_rows_of_their_team():
    found = read_report({"steps": [STEP], "ends": [{"episode": 4, "steps": 2}]}, TEAM, 1)
    assert [row[:8] for row in found.steps] == [(7, 4, 1, 0, 0, 1, 0, 0)]
    assert found.ends == ((7, 4, 2),)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], r"report: body is \[\], must be an object of steps and ends"),
        ({"step": [STEP]}, "report: body is .*, must be an object of steps and ends"),
        ({"steps": {}}, "report: steps is {}, must be a list of objects"),
        ({"ends": {}}, "report: ends is {}, must be a list of objects"),
        ({"steps": [STEP, STEP]}, "report: the number of steps is 2, must be at most 1"),
        ({"ends": [{"episode": 4}]}, r"report: ends\[0\] is .*, must be an object of episode, steps"),
    ],
)
def test_wrong_reports(body, message):
    with pytest.raises(ValueError, match=message):
        read_report(body, TEAM, 1)
