"""What is listed as uncertain: what could change the cost, not what was visited most."""

import numpy as np
import pytest

import cede
from problems import random_structured


def three(price=0.0):
    """One state in which it costs 1 to be slow. Two are seen often; "new" is hardly ever, and costs something."""
    environment = cede.Environment(np.ones((1, 2, 1)), [[1.0, 0.0]], [1.0])
    agents = [cede.Agent("old", [[0.5, 0.5]]), cede.Agent("other", [[0.6, 0.4]]), cede.Agent("new", [[0.1, 0.9]], price)]
    return cede.TwoLayerMDP(environment, cede.Team(agents), 5)


def seen(mdp, often, seldom, **options):
    learner = cede.ucrl2_mc(mdp.task, **options)
    episodes = [cede.rollout(mdp, mdp.task.always(d), seed) for d, n in ((0, often), (1, often), (2, seldom)) for seed in range(n)]
    learner.learn_from(episodes, progress=False)
    return cede.insight.summarise(learner)


@pytest.mark.parametrize("seldom", [0, 1, 3])
@pytest.mark.parametrize("options", [{}, {"scale": 0.1}, {"belief": "bernstein"}, {"belief": "kl"}])
def test_who_was_hardly_ever_seen_comes_first(seldom, options):
    found = seen(three(), 400, seldom, **options).widest
    assert (found[0].layer, found[0].visits) == ("new", 5 * seldom)
    assert found[0].matters == max(row.matters for row in found)
    assert all(row.width > 0 and row.matters > 0 for row in found)
    if not seldom:
        assert found[0].matters == pytest.approx(5.0)  # five steps, each of which may cost 1 more or less


def test_who_could_not_save_anything_is_not_listed():
    assert "new" not in {row.layer for row in seen(three(price=2.0), 400, 0).widest}


def test_who_cannot_be_handed_control_is_not_listed():
    mdp = three()
    switch = np.zeros((3, 3))
    switch[:2, 2] = np.inf
    mdp = cede.TwoLayerMDP(mdp.environment, cede.Team(mdp.team.agents, switch), 5)
    learner = cede.ucrl2_mc(mdp.task)
    learner.learn_from([cede.rollout(mdp, mdp.task.always(0), seed) for seed in range(9)], progress=False)
    assert "new" not in {row.layer for row in cede.insight.summarise(learner).widest}


def test_near_certainties_are_not_listed_beside_what_matters():
    found = seen(three(), 4000, 2).widest
    assert {row.layer for row in found} == {"new", "old", "other"}
    found = seen(three(), 4000, 0, scale=0.02).widest
    assert {row.layer for row in found} == {"new"}
    told = str(seen(three(), 10, 0))
    assert "first what could change most" in told
    assert "could change the cost by" in told


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("number", range(3))
def test_structures_ends_and_times(structured, number):
    mdp = random_structured(number)
    learner = cede.ucrl2_mc(mdp.task, scale=0.3, structure=mdp.structure if structured else None)
    cede.simulate(mdp, learner, 30, progress=False)
    found = cede.insight.summarise(learner).widest
    assert 0 < len(found) <= 8
    assert [row.matters for row in found] == sorted((row.matters for row in found), reverse=True)


@pytest.mark.parametrize("discount", [None, 0.9])
def test_without_a_horizon(discount):
    mdp = cede.worlds.riverswim([0.3, 0.7], horizon=None, discount=discount)
    learner = cede.ucrl2_mc(mdp.task, scale=0.3)
    cede.simulate(mdp, learner, steps=300, record_every=100, progress=False)
    assert cede.insight.summarise(learner).widest


def test_agents_that_vary_and_take_time_to_take_over():
    river = cede.worlds.riverswim([0.3, 0.7])
    agents = [river.team.agents[0], cede.Agent("late", river.team.agents[1].policy, 0.1, takeover_delay=2)]
    mdp = cede.TwoLayerMDP(river.environment, cede.Team(agents, 0.05), river.horizon)
    learner = cede.ucrl2_mc(mdp.task, scale=0.1)
    cede.simulate(mdp, learner, 30, progress=False)
    assert {row.layer for row in cede.insight.summarise(learner).widest} <= {"environment", *mdp.task.tables}


def test_the_environment_by_hand():
    """Nothing was seen. Of two steps the first may lead to a state that costs 1 or to one that costs 0, from either state; each is
    the first in half of the episodes.
    """
    found = cede.insight.summarise(cede.ucrl2_mc(cede.Task([[0.0], [1.0]], ["a"], 2))).widest
    assert [(row.layer, row.place, row.visits) for row in found] == [
        ("environment", "state 0, action 0", 0.0),
        ("environment", "state 1, action 0", 0.0),
    ]
    assert [row.matters for row in found] == pytest.approx([0.5, 0.5])
