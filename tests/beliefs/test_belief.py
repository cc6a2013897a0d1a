"""Radii, scales, and what they promise."""

import math
from dataclasses import replace

import numpy as np
import pytest

import cede
from cede.beliefs.appendix import appendix_constant
from cede.beliefs.belief import Belief, holds
from cede.beliefs.constants import constants_of
from cede.beliefs.costs import UCRL2_INTERVALS, cost_constant_of, interval_of_mean
from cede.beliefs.l1 import l1_width
from cede.beliefs.printed import printed_constant
from cede.beliefs.truth import true_beliefs
from cede.learners.arrays import radius_sizes
from cede.learners.state import Sizes
from cede.planning.planner import optimistic_plan
from problems import play, random_mdp


def widths(visits, constant):
    return [l1_width(n, constant, 1.0) for n in visits]


def test_printed_radii_are_the_papers():
    """Section 3, computed as printed where the numbers still fit."""
    k, horizon, S, A, D, delta, n = 5, 10, 6, 3, 2, 0.1, np.array([0.0, 1.0, 7.0])
    steps = (k - 1) * horizon
    agents = np.sqrt(2 * np.log((k - 1) ** 7 * horizon**7 * S * D * 2 ** (A + 1) / delta) / np.maximum(1, n))
    environment = np.sqrt(2 * np.log((k - 1) ** 7 * horizon**7 * S * A * 2 ** (S + 1) / delta) / np.maximum(1, n))
    np.testing.assert_allclose(widths(n, printed_constant(steps, S * D, A, 1, delta)), agents, rtol=1e-14)
    np.testing.assert_allclose(widths(n, printed_constant(steps, S * A, S, 1, delta)), environment, rtol=1e-14)


def test_appendix_radius_is_the_papers():
    k, horizon, S, D, delta, n = 9, 20, 6, 3, 0.05, np.array([0.0, 4.0])
    expected = np.sqrt(14 * S * np.log(2 * (k - 1) * horizon * D * S / delta) / np.maximum(1, n))
    found = widths(n, appendix_constant((k - 1) * horizon, S * D, S, 1, delta))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_cost_radius_is_jakschs():
    half = math.sqrt(7 * math.log(2 * 12 * 100 / 0.1) / (2 * 300))
    constant = cost_constant_of(UCRL2_INTERVALS, 100, 12, 0.1)
    found = interval_of_mean(UCRL2_INTERVALS, 300.0, 150.0, 80.0, constant, 1.0)
    np.testing.assert_allclose(found, [0.5 - half, 0.5 + half, 0.5], rtol=1e-14)


def test_first_episode_and_huge_state_spaces_stay_finite():
    """NOTES, traps 2 and 3: log 0 and 2^(|S| + 1)."""
    sizes = radius_sizes(Sizes(cede.worlds.riverswim().task, cede.ucrl2_mc(cede.worlds.riverswim().task).settings))
    assert constants_of(sizes, 0.0, 0.0, 0.0) == constants_of(sizes, 1.0, 1.0, 1.0)
    assert constants_of(sizes, 0.0, 0.0, 0.0) < constants_of(sizes, 20.0, 20.0, 20.0)
    constant = printed_constant(1, 3 * 10**5, 10**5, 1, 0.1)
    assert constant == pytest.approx(2 * (math.log(3e6) + 100_001 * math.log(2)))


@pytest.mark.parametrize(("states", "visits"), [(1152, 450), (1875, 700)])
def test_where_the_printed_radius_begins_to_say_something(states, visits):
    """NOTES, trap 6: below 2 only after about so many visits, late in a run of 20,000 episodes."""
    constant = printed_constant(199_990, 3 * states, states, 1, 0.1)
    assert constant / 4 == pytest.approx(visits, rel=0.05)


def test_authors_schedule():
    """NOTES, trap 7."""
    scale = cede.Scale.authors(episodes=20_000)
    for finished, agents, environment in (
        (0, 1.0, 0.1),
        (6, 1.0, 0.1),
        (7, 0.9, 0.1),
        (60, 0.1, 0.1),
        (2000, 0.1, 0.09),
        (19_999, 0.1, 0.01),
    ):
        assert scale.at("agents", finished + 1) == pytest.approx(agents)
        assert scale.at("environment", finished + 1) == pytest.approx(environment)
        assert scale.at("agents", finished + 1) == pytest.approx(max(1 - 0.1 * math.floor(finished / (20_000 / 3000)), 0.1))
        assert scale.at("environment", finished + 1) == pytest.approx(max(0.1 - 0.01 * math.floor(finished / 2000), 0.01))


def test_scales_may_be_numbers_schedules_or_functions_and_are_named_in_the_settings():
    task = cede.worlds.riverswim().task
    assert cede.ucrl2_mc(task, scale=0.5).about["scale"] == "agents 0.5, environment 0.5"
    assert cede.ucrl2_mc(task, scale=cede.Scale.authors(100)).about["scale"] == "authors' schedule for 100 episodes"
    halving = cede.ucrl2_mc(task, scale=cede.Scale(agents=lambda k: 1 / k))
    before = halving.beliefs[0].width[0]
    halving.observe(0, 0, 1, 1, 0, 0)  # of the other agent
    halving.end_episode()
    constants = [printed_constant(steps, 12, 2, 1, 0.1) for steps in (1, 20)]
    assert halving.beliefs[0].width[0] / before == pytest.approx(math.sqrt(constants[1] / constants[0]) / 2)


def test_widths_of_a_learner_are_the_printed_ones():
    mdp = random_mdp(11, kinds=[None], n_states=4, n_actions=3, n_agents=2)
    learner = cede.ucrl2_mc(mdp.task, delta=0.2)
    for e in play(mdp, 6, 0):
        learner.observe_episode(e)
        learner.end_episode()
    agents, environment = learner.beliefs
    n = learner.counts.environment.sum(axis=1)
    t = 6 * mdp.horizon
    np.testing.assert_allclose(environment.width, np.sqrt(2 * np.log(t**7.0 * 12 * 2.0**5 / 0.2) / np.maximum(1, n)), rtol=1e-12)
    n = learner.counts.agents.sum(axis=1)
    np.testing.assert_allclose(agents.width, np.sqrt(2 * np.log(t**7.0 * 8 * 2.0**4 / 0.2) / np.maximum(1, n)), rtol=1e-12)


def test_holds_means_within_the_width_of_every_row():
    truth = Belief.of(np.array([[0.5, 0.5], [1.0, 0.0]]), 0.0, (2, 1))
    counts = np.array([[3.0, 1.0], [0.0, 0.0]])  # distances 0.5, and 1 from the uniform distribution
    assert holds(Belief.of(counts, [0.5, 1.0], (2, 1)), truth)
    assert not holds(Belief.of(counts, [0.49, 1.0], (2, 1)), truth)
    assert not holds(Belief.of(counts, [0.5, 0.99], (2, 1)), truth)


def share_covered(scale):
    """Over many seeds and all episodes of short runs: how often does the truth never leave the sets?

    Whenever it is inside, the optimistic value must not be above the optimum.
    """
    mdp = cede.worlds.riverswim(agents=[0.2, 0.6])
    optimum = cede.solve(mdp).value
    covered = []
    for seed in range(20):
        learner = cede.ucrl2_mc(mdp.task, delta=0.1, scale=scale, seed=seed)
        rng = np.random.default_rng(seed)
        always = True
        for _ in range(40):
            agents, environment = learner.beliefs
            now = holds(agents, true_beliefs(mdp)[0]) and holds(environment, true_beliefs(mdp)[1])
            if now:
                assert (learner.plan.value <= optimum + 1e-9).all()
            always = always and now
            cede.simulate(mdp, learner, 1, seed=rng, progress=False)
        covered.append(always)
    return np.mean(covered)


@pytest.mark.slow
def test_coverage_and_optimism_on_riverswim():
    """With the printed radii at least as often as promised; with much smaller ones not, so the test can tell."""
    assert share_covered(1.0) >= 1 - 0.1
    assert share_covered(0.15) < 1 - 0.1


def test_optimism_whenever_the_truth_is_inside():
    """Narrow sets, so that the truth is often outside: the implication must hold all the same, and both cases occur."""
    seen = set()
    for seed in range(25):
        mdp = random_mdp(seed, n_states=3, n_agents=2, n_actions=2, horizon=3)
        optimum = cede.solve(mdp).value
        learner = cede.ucrl2_mc(mdp.task, scale=0.12, seed=seed)
        for e in play(mdp, 60, seed):
            learner.observe_episode(e)
            learner.end_episode()
            agents, environment = learner.beliefs
            now = holds(agents, true_beliefs(mdp)[0]) and holds(environment, true_beliefs(mdp)[1])
            seen.add(now)
            if now:
                assert (learner.plan.value <= optimum + 1e-9).all()
    assert seen == {True, False}


@pytest.mark.parametrize("kind", [{}, {"kl": True}, {"linear": 3.0}])
@pytest.mark.parametrize("width", [0.0, 0.1])
def test_rows_that_were_never_seen(kind, width):
    """Balls are around the uniform distribution, intervals exclude nothing: in the planner, and in what is said to hold."""
    task = cede.Task([[0.0], [2.0]], ["a"], 2)
    agents = Belief.of(np.ones((2, 1)), 0.0, (1, 2))
    unseen = replace(Belief.of(np.zeros((2, 2)), width, (2, 1)), **kind)
    least = {"linear": 0.0, "kl": 1.0 - np.sqrt(1 - np.exp(-2 * width))}.get(next(iter(kind), ""), 1.0 - width)  # mean of (0, 2)
    plan = optimistic_plan(task, agents, unseen)
    np.testing.assert_allclose(plan.value[0, :, 0], [least, 2.0 + least], atol=1e-9)
    far, near = (Belief.of([[1 - p, p]] * 2, 0.0, (2, 1)) for p in (0.9, 0.5))
    assert holds(unseen, near)
    assert holds(unseen, far) == ("linear" in kind)
