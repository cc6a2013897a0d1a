"""What a new team is told that is told the same as another one; structures where the environment varies with time."""

import numpy as np
import pytest

import cede
from cede.learners.settings import for_newcomer

RIVER = cede.worlds.riverswim([0.3, 0.7])
CASES = cede.Structure.by(range(6), range(2), agents={"p=0.3": lambda s: s // 3, "p=0.7": lambda s: s // 2})


def test_what_is_declared_of_agents_goes_to_those_of_the_same_name():
    told = cede.ucrl2_mc(RIVER.task, structure=CASES, at_most={"p=0.7": 0.5}).settings
    new = cede.worlds.riverswim([0.3, 0.9])
    found = for_newcomer(new.task, told, RIVER.task, {})
    assert list(found.structure.agents) == ["p=0.3"]
    assert (found.limits, found.baseline) == (None, None)
    known = for_newcomer(RIVER.task, told, RIVER.task, {0: RIVER.team.agents[0].policy[None]})
    assert list(known.structure.agents) == ["p=0.7"]
    assert list(for_newcomer(RIVER.task, told, RIVER.task, {}).structure.agents) == ["p=0.3", "p=0.7"]
    assert for_newcomer(new.task, cede.ucrl2_mc(RIVER.task).settings, RIVER.task, {}).structure is None


def test_rules_to_forget_go_to_those_of_the_same_name_or_to_all():
    one = cede.ucrl2_mc(RIVER.task, forget={"p=0.3": cede.HalfLife(5), "p=0.7": cede.HalfLife(9)}).settings
    new = cede.worlds.riverswim([0.3, 0.9]).task
    assert for_newcomer(new, one, RIVER.task, {}).forgetting.agents == {"p=0.3": cede.HalfLife(5)}
    same = cede.ucrl2_mc(RIVER.task, forget=cede.HalfLife(5)).settings
    assert for_newcomer(new, same, RIVER.task, {}).forgetting.agents == {"p=0.3": cede.HalfLife(5), "p=0.9": cede.HalfLife(5)}


def test_cases_of_an_environment_that_varies_with_time():
    declared = cede.Structure(environment=cede.Outcomes.of([[0], [1]], [[[0, 1]], [[0, 1]]]))
    plain = cede.Task(agents=["a"], env_cost=np.zeros((2, 1)), horizon=3)
    varies = cede.Task(agents=["a"], env_cost=np.zeros((2, 1)), horizon=3, periods=[0, 1, 0])
    told = cede.ucrl2_mc(plain, structure=declared).settings
    told.check_fits("x", plain)
    with pytest.raises(ValueError, match=r"x: structure\.environment is given, must be left out where the environment varies"):
        told.check_fits("x", varies)


def test_a_baseline_needs_whole_episodes():
    told = cede.ucrl2_mc(RIVER.task, baseline=0).settings
    told.check_fits("x", RIVER.task)
    discounted = cede.Task(agents=RIVER.task.agents, env_cost=RIVER.task.env_cost, horizon=20, discount=0.9)
    with pytest.raises(ValueError, match=r"x: discount is 0\.9, must be left out with a baseline"):
        told.check_fits("x", discounted)


def test_who_shares_nothing_can_leave_a_fleet_and_join_another():
    """The environment is known, so a fleet has nothing to share with it."""
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learners = [cede.greedy(mdp.task, known_environment=mdp.environment) for _ in range(3)]
    fleet = cede.Fleet(learners)
    left = fleet.remove(1)
    assert left is learners[1]
    assert list(fleet.learners) == [learners[0], learners[2]]
    assert list(cede.Fleet([left]).learners) == [left]
