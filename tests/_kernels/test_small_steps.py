"""Small steps of kernels, each by itself, against numbers that are written out or found in another way."""

from math import exp, lgamma, log

import numpy as np
import pytest

import cede
from cede._kernels.problem import BY_PREV_AGENT
from cede._kernels.random_streams import stream_at
from cede.beliefs.costs import sample_mean
from cede.beliefs.kl import log_sum_over_supports
from cede.beliefs.l1 import least_sum
from cede.beliefs.truth import true_beliefs
from cede.learners.arrays import load_counts, new_arrays
from cede.learners.compiled import believe
from cede.learners.state import Sizes
from cede.planning.backup import CHOOSE, find_same_start
from cede.planning.fixed_point import MEMORY
from cede.planning.iteration import solve_normal
from cede.planning.passes import empty_plan, model_of, run_endless
from problems import random_rows


@pytest.mark.parametrize("guess", [0.0, 1.0, 2.0])
def test_a_guess_does_not_change_where_the_budget_runs_out(guess):
    """The budget is exactly the mass of the worst outcome: it runs out at the next one, whatever is tried first."""
    value, theta, _ = least_sum(np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.25, 0.25]), 3, 0.25, guess)
    assert (value, theta) == (0.25, 1.0)


def test_a_right_guess_takes_one_pass():
    """A budget of 0.375 runs out at 1, of which there is 0.25 to 0.5: 0.25 * 1 + 0.25 * 1 is left of the sum, less 0.375 * 1."""
    assert least_sum(np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.25, 0.25]), 3, 0.375, 1.0) == (0.125, 1.0, 1)
    assert least_sum(np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.25, 0.25]), 3, 0.375, 2.0)[:2] == (0.125, 1.0)


def test_nobody_is_the_same_before_agents_who_act_by_who_was_before():
    same, free = np.full(2, -1), np.zeros((1, 2, 2))
    find_same_start(free, np.full(2, BY_PREV_AGENT, dtype=np.int64), 0, 1, same)
    assert same.tolist() == [0, 1]
    find_same_start(free, np.zeros(2, dtype=np.int64), 0, 1, same)
    assert same.tolist() == [0, 0]


def test_terms_are_left_out_once_they_fall_below_a_millionth():
    """n visits, k outcomes seen of m: the sum over j of C(m - k, j - k) / C(m, j) / (j (j + 1)) Gamma(j / 2) / Gamma(j / 2 + n)."""
    n, k, m = 3, 2, 5000
    terms = []
    for j in range(k, m + 1):
        chosen = lgamma(m - k + 1) - lgamma(j - k + 1) + lgamma(j + 1) - lgamma(m + 1)
        terms.append(exp(chosen - log(j) - log(j + 1) + lgamma(j / 2) - lgamma(j / 2 + n)))
    sums = np.cumsum(terms)
    last = next(i for i in range(1, m) if terms[i] <= terms[i - 1] and terms[i] < 1e-6 * sums[i])
    found = log_sum_over_supports(float(n), k, float(m))
    assert found == pytest.approx(log(sums[last]), abs=1e-8)
    assert log(sums[-1]) - log(sums[last]) > 1e-6


def test_an_extrapolation_by_least_squares():
    """The weights by which combined differences of what a step changes leave the least of the newest."""
    rng = np.random.default_rng(1)
    points, images = rng.random((MEMORY, 3, 2)), rng.random((MEMORY, 3, 2))
    reached = np.array([[True, True], [True, False], [True, True]])
    newest, n = 1, 3
    normal = np.full((MEMORY, MEMORY + 1), np.nan)
    assert solve_normal(points, images, reached, newest, n, normal) == n
    changes = (images - points)[:, reached]
    before = np.array([changes[newest] - changes[(newest - 1 - i) % MEMORY] for i in range(n)])
    weights = np.linalg.lstsq(before.T, changes[newest], rcond=None)[0]
    np.testing.assert_allclose(normal[:n, MEMORY], weights, rtol=1e-9)


def test_costs_are_drawn_from_streams_beyond_those_of_all_tables():
    """Cost r has stream 2^40 + r: no table has so many rows, so what is drawn for a row is not drawn for a cost again."""
    task = cede.Task(np.zeros((2, 2)), ["a", "b"], 3).with_unknown_costs((1.0, 3.0))
    learner = cede.posterior_sampling(task, prior=1.0)
    arrays = new_arrays(sizes := Sizes(learner.task, learner.settings), load_counts(sizes, learner.state, None))
    believe(arrays, 7)
    expected = [1.0 + 2.0 * sample_mean(0.0, 0.0, 0.0, 1.0, np.uint64(stream_at(7, 2**40 + r))) for r in range(4)]
    assert arrays.costs.low.tolist() == expected


@pytest.mark.parametrize("seed", range(24))
def test_iteration_goes_on_until_bounds_are_as_close_as_rounding_lets_them(seed):
    """Close: half of what lies between is at most 32 units in the last place of the largest value that is kept."""
    rng = np.random.default_rng(seed)
    environment = cede.Environment(random_rows(rng, (6, 2, 6)), rng.random((6, 2)), np.full(6, 1 / 6))
    agents = [cede.Agent("a", random_rows(rng, (6, 2))), cede.Agent("b", random_rows(rng, (6, 2)), 0.1)]
    mdp = cede.TwoLayerMDP(environment, cede.Team(agents, 0.2), None, discount=0.99999)
    policy, value = empty_plan(mdp.task)
    value[0] = 0.0
    found = run_endless(mdp.task, model_of(mdp.task, *true_beliefs(mdp)), CHOOSE, policy, value, 0)
    most = np.abs(found.image).max()
    assert found.error * (1 - 0.99999) / 0.99999 <= 2 * 32 * 2.0**-52 * most
