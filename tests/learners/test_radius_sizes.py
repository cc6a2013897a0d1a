"""What radii are made from: the sizes of the problem, and delta, which is split where costs are learned."""

from dataclasses import replace
from math import lgamma, log, pi

import numpy as np
import pytest

import cede
from cede.learners.arrays import radius_sizes
from cede.learners.state import Sizes

RIVER = cede.worlds.riverswim([0.3, 0.7])  # 6 states, 2 actions, 2 agents, 20 steps
UNKNOWN = RIVER.task.with_unknown_costs((0.0, 2.0))
FIELDS = ("agents_kind", "environment_kind", "delta", "horizon", "outcomes", "n_actions", "agent_rows", "environment_rows")
FIELDS += ("cost_kind", "cost_rows", "cost_delta", "agent_values", "state_values")


def played(task, make, episodes=30, **told):
    learner = make(task, **told)
    cede.simulate(RIVER, learner, episodes, seed=1, progress=False)
    return learner


@pytest.mark.parametrize(
    ("learner", "expected"),
    [
        (lambda: cede.ucrl2_mc(RIVER.task, delta=0.3), (0, 0, 0.3, 20, 6, 2, 12, 12, 0, 0, 0.3, 20, 38)),
        (lambda: cede.ucrl2_mc(UNKNOWN, delta=0.3), (0, 0, 0.2, 20, 6, 2, 12, 12, 2, 12, 0.1, 20, 38)),
        (lambda: cede.ucrl2_mc(UNKNOWN, delta=0.3, belief="kl"), (3, 3, 0.2, 20, 6, 2, 12, 12, 2, 12, 0.1, 20, 38)),
        (lambda: cede.ucrl2_mc(RIVER.task, belief="kl-value"), (4, 4, 0.1, 20, 6, 2, 12, 12, 0, 0, 0.1, 20, 38)),
        (lambda: cede.ucrl2(RIVER.task, delta=0.3), (1, 1, 0.3, 20, 6, 2, 12, 12, 0, 12, 0.3, 20, 38)),
        (
            lambda: cede.ucrl2(UNKNOWN, delta=0.3),
            (1, 1, 0.3, 20, 6, 2, 12, 12, 1, 12, 0.3, 20, 38),
        ),  # as in its own paper: not split
        (lambda: cede.recommended(UNKNOWN), (5, 5, 0.1 * 2 / 3, 20, 6, 2, 12, 12, 2, 12, 0.1 / 3, 20, 38)),
        (lambda: cede.greedy(UNKNOWN), (-1, -1, 0.1, 20, 6, 2, 12, 12, 0, 12, 0.1, 20, 38)),
        (lambda: cede.ucrl2_mc(replace(RIVER.task, horizon=1)), (0, 0, 0.1, 1, 6, 2, 12, 12, 0, 0, 0.1, 1, 2)),
        (
            lambda: cede.ucrl2_mc(RIVER.task, known_agents={"p=0.3": RIVER.team.agents[0].policy}),
            (0, 0, 0.1, 20, 6, 2, 12, 12, 0, 0, 0.1, 20, 38),  # as in the paper an agent counts although it is known
        ),
    ],
)
def test_sizes(learner, expected):
    made = learner()
    sizes = radius_sizes(Sizes(made.task, made.settings))
    assert [getattr(sizes, name) for name in FIELDS] == pytest.approx(list(expected), rel=1e-14)


def test_sizes_with_cases_and_known_agents():
    """Where it is declared which states are alike to an agent, only agents that are learned count, with their cases."""
    told = cede.Structure.by(range(6), range(2), agents={"p=0.3": lambda s: s // 3, "p=0.7": lambda s: s // 2})
    learned = cede.ucrl2_mc(RIVER.task, structure=told)
    assert radius_sizes(Sizes(learned.task, learned.settings)).agent_rows == 2 + 3
    known = cede.ucrl2_mc(RIVER.task, structure=told, known_agents={"p=0.3": RIVER.team.agents[0].policy})
    assert radius_sizes(Sizes(known.task, known.settings)).agent_rows == 3


@pytest.mark.parametrize(("task", "delta"), [(RIVER.task, 0.3), (UNKNOWN, 0.2)], ids=["known costs", "learned costs"])
def test_printed_widths_have_two_thirds_of_delta_where_costs_are_learned(task, delta):
    learner = played(task, cede.ucrl2_mc, delta=0.3)
    steps = 30 * 20
    for belief, counts, outcomes in zip(learner.beliefs, (learner.counts.agents, learner.counts.environment), (2, 6), strict=True):
        n = np.asarray(counts.sum(axis=1)).ravel()
        expected = np.sqrt(2 * np.log(steps**7.0 * 12 * 2.0 ** (outcomes + 1) / delta) / np.maximum(1, n))
        np.testing.assert_allclose(belief.width, expected, rtol=1e-12)


@pytest.mark.parametrize(("task", "delta"), [(RIVER.task, 0.3), (UNKNOWN, 0.2)], ids=["known costs", "learned costs"])
def test_bernstein_widths(task, delta):
    learner = played(task, cede.ucrl2_mc, delta=0.3, belief="bernstein", scale=0.5)
    for belief, counts, outcomes in zip(learner.beliefs, (learner.counts.agents, learner.counts.environment), (2, 6), strict=True):
        n = np.asarray(counts.sum(axis=1)).ravel()
        seen = n > 0
        expected = 0.25 * np.log(6 * 12 * outcomes * n[seen] * (n[seen] + 1) / delta) / n[seen]
        np.testing.assert_allclose(belief.width[seen], expected, rtol=1e-12)
        assert (belief.width[~seen] >= 1e100).all()


def test_widths_of_balls_that_are_right_about_values():
    learner = played(RIVER.task, cede.ucrl2_mc, delta=0.3, belief="kl-value")
    layers = zip(learner.beliefs, (learner.counts.agents, learner.counts.environment), (20, 19 * 2), strict=True)
    for belief, counts, values in layers:
        for n, width in zip(np.asarray(counts.sum(axis=1)).ravel(), belief.width, strict=True):
            if n:
                more = 0.5 * log(pi) + lgamma(n + 1) - lgamma(n + 0.5)
                assert width == pytest.approx((log(2 * 12 * values / 0.3) + more) / n, rel=1e-12)


@pytest.mark.parametrize("belief", ["printed", "bernstein"])
def test_intervals_around_costs_have_a_third_of_delta(belief):
    """sqrt(2 V x / n) + 3 x / n with x = log(3 rows n (n + 1) / (delta / 3)); the range of costs is 2."""
    learner = played(UNKNOWN, cede.ucrl2_mc, 400, delta=0.3, belief=belief)
    sums = learner.counts.costs.toarray()
    low, high, mean = (part.ravel() for part in (learner.costs.low, learner.costs.high, learner.costs.mean))
    told = 0
    for r, (n, coarse, rest, squares) in enumerate(sums):
        if n == 0:
            assert (low[r], high[r], mean[r]) == (0.0, 2.0, 1.0)
            continue
        centre = (coarse + rest) / n
        x = log(3 * 12 * n * (n + 1) / 0.1)
        half = np.sqrt(2 * max(0.0, squares / n - centre**2) * x / n) + 3 * x / n
        expected = (2 * max(0.0, centre - half), 2 * min(1.0, centre + half), 2 * centre)
        assert (low[r], high[r], mean[r]) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        told += half < 0.5
    assert told > 3
