"""The short form of the coverage audit, and the radii against their formulas, with delta split as promised."""

import numpy as np
import pytest

import cede
from audit.coverage import Coverage, coverages, is_inside, world


@pytest.mark.slow
def test_intervals_hold():
    found = coverages(3, 0.0, least=8)
    for part in ("given: the plan", "counted: a rule", "not counted: an agent", "from the log: a difference", "faded", "bounds"):
        assert any(part in row.name for row in found)
    assert [row for row in found if not row.ok] == []


def test_a_level_that_does_not_hold_is_found():
    assert Coverage("as promised", 0.9, 895, 1000).ok
    assert not Coverage("too narrow", 0.9, 860, 1000).ok
    assert Coverage("few trials", 0.9, 2, 3).ok


def test_narrow_sets_are_noticed():
    mdp = world(np.random.default_rng(0))
    learner = cede.ucrl2_mc(mdp.task, scale=0.02)
    cede.simulate(mdp, learner, 50, progress=False)
    assert not is_inside(learner.beliefs[1], mdp.environment.transition.toarray())


# ------------------------------------------------------------------------------------- radii, by their formulas

DELTA = 0.07


def learned(belief, costs, episodes=40):
    """A learner after some episodes, with costs known or learned; the same episodes for both."""
    rng = np.random.default_rng(5)
    mdp = world(rng, random_costs=True)
    log = [cede.rollout(mdp, mdp.task.always(k % 2), k) for k in range(episodes)]
    task = mdp.task.with_unknown_costs((0.0, 1.0)) if costs else mdp.task
    learner = cede.ucrl2_mc(task, belief=belief, delta=DELTA)
    learner.learn_from(log, progress=False)
    return mdp, learner


def sizes(mdp, learner):
    """By layer: visits of each row, number of rows, and number of outcomes of each."""
    s, a, slots = mdp.task.n_states, mdp.task.n_actions, int(mdp.task.layout.n_slots.sum())
    visits = [np.asarray(one.sum(axis=1)).ravel().astype(float) for one in (learner.counts.agents, learner.counts.environment)]
    return [(visits[0], s * slots, a), (visits[1], s * a, s)]


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("layer", [0, 1])
def test_printed_radii(layer, costs):
    mdp, learner = learned("printed", costs)
    visits, rows, outcomes = sizes(mdp, learner)[layer]
    steps, delta = 40 * mdp.task.horizon, DELTA * 2 / 3 if costs else DELTA
    constant = 2 * np.log(float(steps) ** 7 * rows * 2.0 ** (outcomes + 1) / delta)
    np.testing.assert_allclose(learner.beliefs[layer].width, np.sqrt(constant / np.maximum(visits, 1)), rtol=1e-12)


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("layer", [0, 1])
def test_bernstein_radii(layer, costs):
    mdp, learner = learned("bernstein", costs)
    visits, rows, outcomes = sizes(mdp, learner)[layer]
    delta, seen = DELTA * 2 / 3 if costs else DELTA, visits > 0
    x = np.log(6 * rows * outcomes * visits[seen] * (visits[seen] + 1) / delta)
    belief = learner.beliefs[layer]
    assert belief.linear == 3.0
    np.testing.assert_allclose(belief.width[: len(visits)][seen], x / visits[seen], rtol=1e-12)


@pytest.mark.parametrize("layer", [0, 1])
def test_learned_costs_take_a_third_of_delta_from_balls_of_relative_entropy(layer):
    mdp, learner = learned("kl", costs=True)
    visits = sizes(mdp, learner)[layer][0]
    mine, theirs = learner.beliefs[layer].width, learned("kl", costs=False)[1].beliefs[layer].width
    seen = visits > 0
    np.testing.assert_allclose((mine - theirs)[: len(visits)][seen] * visits[seen], np.log(1.5), rtol=1e-9)


@pytest.mark.parametrize("belief", ["printed", "kl", "bernstein"])
def test_intervals_of_learned_costs(belief):
    _, learner = learned(belief, costs=True, episodes=800)
    sums = learner.counts.costs.toarray()
    n, total, squares = sums[:, 0], sums[:, 1] + sums[:, 2], sums[:, 3]
    mean, rows = total / np.maximum(n, 1), len(n)
    x = np.log(3 * rows * n * (n + 1) / (DELTA / 3), where=n > 0, out=np.zeros(rows))
    half = np.sqrt(2 * np.maximum(squares / np.maximum(n, 1) - mean**2, 0) * x / np.maximum(n, 1)) + 3 * x / np.maximum(n, 1)
    low, high = (np.where(n > 0, np.clip(mean + sign * half, 0, 1), end) for sign, end in ((-1, 0.0), (1, 1.0)))
    assert (high - low).min() < 0.9  # else all ends are those of the range
    np.testing.assert_allclose(learner.costs.low.ravel(), low, atol=1e-6)
    np.testing.assert_allclose(learner.costs.high.ravel(), high, atol=1e-6)
