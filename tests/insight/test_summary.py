"""What a learner knows, at a glance: sums and shares against the counts and the plan."""

import numpy as np
import pytest

import cede
from problems import random_structured


@pytest.mark.parametrize("structured", [False, True])
def test_numbers(structured):
    mdp = random_structured(7)
    learner = cede.ucrl2_mc(mdp.task, structure=mdp.structure if structured else None)
    history = cede.simulate(mdp, learner, 25, progress=False)
    found = cede.summarise(learner, by=lambda name: name[-1])
    assert found.episodes == 25
    np.testing.assert_allclose(found.control, history.control.sum(axis=0))
    assert sum(group.states for group in found.groups) == mdp.task.n_states
    policy = learner.plan.policy
    for s, group in enumerate(found.groups):  # one state each
        np.testing.assert_allclose(group.shares, [(policy[:, s] == d).mean() for d in range(mdp.task.n_agents)])
        low, high = group.cost
        truth = cede.evaluate(mdp, policy)[0, s, mdp.start_agent]
        assert low - 1e-9 <= truth <= high + 1e-9
    assert all(row.width > 0 and row.visits > 0 for row in found.widest)
    assert [row.visits for row in found.widest] == sorted((row.visits for row in found.widest), reverse=True)


def test_groups_by_default():
    lane = cede.worlds.lane_driving()
    found = cede.summarise(cede.greedy(lane.task))
    assert [group.name for group in found.groups] == ["no-car", "light", "heavy"]
    assert all(group.cost is None for group in found.groups)
    river = cede.summarise(cede.ucrl2(cede.worlds.riverswim().task))
    assert [group.name for group in river.groups] == [f"s{i}" for i in range(1, 7)]
    assert river.widest == ()
    by_cell = cede.summarise(cede.greedy(lane.task), by=r"on (\w+)")
    assert [group.name for group in by_cell.groups] == ["road", "grass", "stone", "car"]


def test_forgetting_and_known_agents(tmp_path):
    mdp = random_structured(7)
    known = {"agent 0": mdp.team.agents[0].policy}
    learner = cede.ucrl2_mc(mdp.task, known_agents=known, forget=cede.HalfLife(3))
    cede.simulate(mdp, learner, 25, progress=False)
    found = cede.summarise(learner)
    assert sum(found.control) < 25 * mdp.horizon
    assert all(row.layer != "agent 0" for row in found.widest)
    assert found.draw(tmp_path / "who.png").read_bytes().startswith(b"\x89PNG")


def test_bad_input():
    learner = cede.greedy(cede.worlds.riverswim().task)
    with pytest.raises(ValueError, match="summarise: by is 3, must be a function"):
        cede.summarise(learner, by=3)
    with pytest.raises(ValueError, match="must be a regular expression"):
        cede.summarise(learner, by="(")
