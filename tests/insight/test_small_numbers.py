"""Bounds without a horizon, and what a summary says of states that were never met."""

from dataclasses import replace

import numpy as np
import pytest

import cede

RIVER = cede.worlds.riverswim([0.2, 0.9], switch_cost=0.1)


@pytest.mark.parametrize("discount", [0.9, None])
def test_bounds_without_a_horizon(discount):
    """One number for each state and agent, and the truth lies between."""
    mdp = replace(RIVER, horizon=None, discount=discount)
    learner = cede.ucrl2_mc(mdp.task)
    cede.simulate(mdp, learner, steps=3000, seed=0, progress=False)
    policy = np.random.default_rng(0).integers(2, size=(6, 2))
    found = cede.insight.bounds(learner, policy)
    assert found.low.shape == found.high.shape == (6, 2)
    truth = cede.evaluate(mdp, policy)
    if discount is None:
        truth = np.full((6, 2), cede.expected_cost(mdp, policy))
    assert (found.low <= truth + 1e-9).all()
    assert (truth <= found.high + 1e-9).all()
    assert (found.low < found.high).all()


def test_what_was_never_met_is_said():
    learner = cede.ucrl2_mc(RIVER.task)
    episode = cede.rollout(RIVER, RIVER.task.always(0), 1)
    learner.learn_from([episode], progress=False)
    seen = {int(s) for s in episode.states[:-1]}
    groups = cede.insight.summarise(learner, by=lambda name: name).groups
    assert 0 < len(seen) < 6
    assert len(groups) == 6
    for s, group in enumerate(groups):
        assert (group.how_often == "never met") == (s not in seen)
