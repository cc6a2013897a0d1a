"""Hoeffding's L1 balls: the formula with the numbers written out, and a learner whose sets hold."""

from math import log, sqrt

import pytest

import cede
from cede.beliefs.belief import holds
from cede.beliefs.hoeffding import hoeffding_constant
from cede.beliefs.truth import true_beliefs


def test_the_formula():
    assert hoeffding_constant(140.0, 12, 5, 38, 0.25) == pytest.approx(25 / 2 * log(4 * 12 * 5 * 140**3 / 0.25), rel=1e-14)


def test_a_learner_has_these_sets():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, belief="hoeffding", delta=0.2)
    cede.simulate(mdp, learner, 40, seed=0, progress=False)
    agents, environment = learner.beliefs
    visits = learner.counts.agents.toarray()[0].sum()
    assert agents.width[0] == pytest.approx(2 * sqrt(log(4 * 12 * 2 * (40 * 20) ** 3 / 0.2) / (2 * visits)), rel=1e-12)
    assert all(holds(belief, true) for belief, true in zip((agents, environment), true_beliefs(mdp), strict=True))
