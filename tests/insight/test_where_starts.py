"""Where episodes start if that was not counted: what must have started somewhere, and what is not known."""

import numpy as np
import pytest
import scipy.sparse as sp

import cede
from cede.insight.estimating import drawn_starts, least_from_starts
from cede.insight.figures import figure
from cede.insight.starts import Starts, counted_starts
from cede.learners.learner import Learner
from cede.rows.stored import Counts

TASK = cede.Task(np.zeros((3, 1)), ["a"], 1)


def learner(told, environment=((0, 6, 0), (0, 4, 0), (0, 0, 0))):
    """Ten episodes of one step: six from state 0 to 1, four from state 1 to 1. Starts were not counted."""
    agents, environment = sp.csr_array([[6], [4], [0]]), sp.csr_array(np.array(environment))
    return Learner(TASK, told, counts=Counts.of(TASK, agents, environment, 10, structure=told.structure))


def test_what_left_without_having_arrived_started_there():
    """Six have left state 0 and none arrived; the other four arrived in state 1 as often as they left it."""
    found = counted_starts(learner(cede.greedy(TASK).settings))
    assert found.known.tolist() == [0.6, 0.0, 0.0]
    assert found.anywhere == pytest.approx(0.4)
    assert found.chances.tolist() == [1.0, 0.0, 0.0]
    assert (found.source, found.seen) == ("not counted: 40% of them may start anywhere", 10.0)


def test_counts_of_the_environment_that_fade_bound_nothing():
    rule = cede.HalfLife(5)
    found = counted_starts(learner(cede.greedy(TASK, forget_environment=rule).settings))
    assert (found.anywhere, found.known.tolist()) == (1.0, [0.0, 0.0, 0.0])
    assert found.source == "not counted: all of them may start anywhere"
    found = counted_starts(learner(cede.greedy(TASK, forget=rule).settings))  # of the agents: the environment's count
    assert found.known.tolist() == [0.6, 0.0, 0.0]


def test_outcomes_of_many_places_do_not_tell_what_left_a_state():
    """All pairs are one case: a step is counted as "moved" or "stayed", wherever it was."""
    structure = cede.Structure(
        environment=cede.Outcomes.by(range(3), range(1), lambda s, a: ("all", {"moved": (s + 1) % 3, "stayed": s}))
    )
    found = counted_starts(learner(cede.greedy(TASK, structure=structure).settings, ((6, 4),)))
    assert (found.anywhere, found.known.tolist()) == (1.0, [0.0, 0.0, 0.0])
    assert found.source == "not counted: all of them may start anywhere"


def test_the_least_mean_over_starts_by_hand():
    """Of 200 starts half were in each of two states; with delta 0.1, half of sqrt(2 log(4 / 0.1) / 200) = 0.19206 may move from the
    greatest value to the least.
    """
    values, possible = np.array([0.0, 2.0, 10.0]), np.array([True, True, False])
    counted = Starts(np.array([0.5, 0.5, 0.0]), "counted", 200.0)
    assert least_from_starts(counted, values, possible, 0.1) == pytest.approx(1.0 - 0.5 * 0.1920645 * 2.0, abs=1e-6)
    given = Starts(np.array([0.5, 0.5, 0.0]), "as given", None)
    assert least_from_starts(given, values, possible, 0.1) == 1.0
    half = Starts(np.array([0.0, 1.0, 0.0]), "counted", None, anywhere=0.5)
    assert least_from_starts(half, values, possible, 0.1) == 1.0


def test_a_figure_without_a_stake_is_shown_as_it_is():
    assert figure(0.0004) == "0.0004"


def test_draws_of_starts_leave_free_what_is_not_known():
    """100 starts, 40 of which may have been anywhere: the free part is Beta(40, 60)."""
    where = Starts(np.array([0.6, 0.2, 0.2]), "counts", 100.0, 0.4, np.array([0.6, 0.0, 0.0]))
    guess, known, free = drawn_starts(TASK, where, 4000, 0, 0.0)
    np.testing.assert_array_equal(guess, np.broadcast_to(where.chances, (4000, 3)))
    np.testing.assert_allclose(known, np.broadcast_to([1.0, 0.0, 0.0], (4000, 3)))
    assert free.mean() == pytest.approx(0.4, abs=4 * free.std() / 4000**0.5)
    assert free.std() == pytest.approx((0.4 * 0.6 / 101) ** 0.5, rel=0.05)
