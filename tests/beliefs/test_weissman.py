"""Weissman's L1 balls: the formula with the numbers written out, the exact chance of a failure, coverage, and what they save."""

from math import log, sqrt

import numpy as np
import pytest
from scipy.stats import binom

import cede
from cede.beliefs.belief import holds
from cede.beliefs.printed import printed_constant
from cede.beliefs.truth import true_beliefs
from cede.beliefs.weissman import weissman_constant, weissman_width


def radius(n, rows, outcomes, delta):
    return sqrt(2 * log(2 ** (outcomes + 1) * rows * n * (n + 1) / delta) / n)


def test_widths_are_the_formula():
    constant = weissman_constant(140.0, 12, 5, 38, 0.25)
    assert constant == pytest.approx(log(2**6 * 12 / 0.25), rel=1e-14)
    for n in (1.0, 7.0, 900.0):
        assert weissman_width(n, constant, 0.3) == pytest.approx(0.3 * radius(n, 12, 5, 0.25), rel=1e-14)
    assert weissman_width(0.0, weissman_constant(1.0, 1, 1, 1, 0.999), 1.0) > 2  # without visits nothing is excluded


@pytest.mark.parametrize("p", [0.5, 0.1, 0.01])
def test_the_chance_of_a_failure_by_the_binomial_distribution(p):
    """Two outcomes: |q - p|_1 = 2 |k / n - p|. Over all n up to 3,000 the chances sum to less than delta / 2."""
    delta, total = 0.4, 0.0
    for n in range(1, 3001):
        half = radius(n, 1, 2, delta) / 2
        total += binom.cdf(np.ceil(n * (p - half)) - 1, n, p) + binom.sf(np.floor(n * (p + half)), n, p)
    assert total < delta / 2


def test_widths_of_a_learner_and_coverage():
    """A set around every row of both layers, smaller than the printed one, and the truth stays inside."""
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, belief="weissman", delta=0.2)
    for _ in range(15):
        cede.simulate(mdp, learner, 20, seed=learner.episode, progress=False)
        beliefs, truth = learner.beliefs, true_beliefs(mdp)
        assert all(holds(belief, true) for belief, true in zip(beliefs, truth, strict=True))
    for belief, counts, outcomes in zip(beliefs, (learner.counts.agents, learner.counts.environment), (2, 6), strict=True):
        n = np.maximum(1, np.asarray(counts.sum(axis=1)).ravel())
        np.testing.assert_allclose(belief.width, [radius(x, 12, outcomes, 0.2) for x in n], rtol=1e-12)
        assert (belief.width < np.sqrt(printed_constant(300 * 20, 12, outcomes, 1, 0.2) / n)).all()


def test_rows_with_fewer_outcomes_have_smaller_sets():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, belief="weissman", structure=mdp.structure)
    cede.simulate(mdp, learner, 50, seed=0, progress=False)
    declared, belief = mdp.structure.environment, learner.beliefs[1]
    visits = np.asarray(learner.counts.environment.sum(axis=1)).ravel()
    assert len(set(declared.n_outcomes)) > 1
    for width, case in zip(belief.width, declared.case, strict=True):
        assert width == pytest.approx(radius(max(1, visits[case]), len(visits), declared.n_outcomes[case], 0.1), rel=1e-12)
