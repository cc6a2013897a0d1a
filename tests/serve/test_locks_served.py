"""Hand-overs that are forbidden in some states, in tasks from JSON, in plans of the service, and while there is no plan."""

import numpy as np
import pytest

from cede.serve.http.setup import environment_from, team_from
from cede.serve.planner.plans import PlanCache, Planner

LOCKED = [[[True, True], [True, True]], [[True, False], [False, True]]]
TASK = {"env_cost": [[0.0], [1.0]], "agents": ["robot", "operator"], "horizon": 3, "switch_cost": 0.5, "can_switch": LOCKED}


def test_locks_hold_with_and_without_a_plan(store):
    served = environment_from("test", TASK, {})
    store.database.write(lambda c: store.put_environment(c, "road", served, 1))
    store.database.write(lambda c: store.put_team(c, "a", "road", served, 0, 1))
    plans = PlanCache(store)
    plans.load("a")
    found = [plans.decide("a", plans.known("a"), 0, state, 0) for state in range(2)]
    assert [(one.plan, one.agent) for one in found] == [("fallback", 1), ("fallback", 0)]
    Planner(store, published=plans.published).once()
    found = [plans.decide("a", plans.known("a"), t, 1, prev) for t in range(3) for prev in range(2)]
    assert [(one.plan, one.agent) for one in found] == [("fresh", 0), ("fresh", 1)] * 3
    task = served.task
    assert task.step_cost(1, 0, 1, 1.0) == 1.5  # a grab costs what the hand-over does elsewhere


def test_a_team_may_have_locks_of_its_own():
    common = environment_from("test", {**TASK, "can_switch": None}, {})
    own = team_from("test", common, {"agents": ["x", "y"], "can_switch": [[True, False], [True, True]]}).task
    assert own.switch_cost.tolist() == [[0.0, np.inf], [0.0, 0.0]]
    with pytest.raises(ValueError, match=r"Task: can_switch is .*, must be booleans"):
        team_from("test", common, {"agents": ["x", "y"], "can_switch": [[1, 0], [1, 1]]})
    with pytest.raises(ValueError, match="switch_cost in state 1 after 'robot' is infinite for all agents"):
        environment_from("test", {**TASK, "can_switch": [LOCKED[0], [[False, False], [True, True]]]}, {})


def test_random_answers_are_refused_by_name():
    with pytest.raises(ValueError, match="test: takeover_delay is random, must be a number of steps"):
        environment_from("test", {**TASK, "takeover_delay": {"operator": [0.5, 0.2]}}, {})
