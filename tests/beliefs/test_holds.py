"""Whether the truth lies in a set, at the edge of each kind of set: rounding may not decide, and nothing larger is let through."""

from dataclasses import replace
from math import log, sqrt

import numpy as np
import pytest

from cede.beliefs.belief import Belief, holds


def one_row(row):
    return Belief.of(np.array([row]), 0.0, (1, 1))


def ball(row, width, **kind):
    return replace(Belief.of(np.array([row]), width, (1, 1)), **kind)


TRUTH = [0.5, 0.375, 0.125]
SEEN = [2.0, 1.0, 1.0]  # 0.5, 0.25, 0.25: apart 0, 0.125, 0.125


@pytest.mark.parametrize("more", [3e-13, -3e-13])
def test_rounding_does_not_decide(more):
    """The truth lies on the edge of each set, give or take some 1e-13."""
    assert holds(ball(SEEN, 0.25 - more), one_row(TRUTH))
    kl = 0.25 * log(0.25 / 0.375) + 0.25 * log(0.25 / 0.125)
    assert holds(ball(SEEN, kl - more, kl=True), one_row(TRUTH))
    # intervals: sqrt(2 p (1 - p) w) + 3 w = 0.125 for p = 0.25
    root = (-sqrt(0.375) + sqrt(0.375 + 4 * 3 * 0.125)) / 6
    assert sqrt(2 * 0.1875 * root**2) + 3 * root**2 == pytest.approx(0.125)
    assert holds(ball(SEEN, root**2 - more / 10, linear=3.0), one_row(TRUTH))


def test_what_is_outside_is_outside():
    root = (-sqrt(0.375) + sqrt(0.375 + 4 * 3 * 0.125)) / 6
    kl = 0.25 * log(0.25 / 0.375) + 0.25 * log(0.25 / 0.125)
    assert not holds(ball(SEEN, 0.25 - 1e-11), one_row(TRUTH))
    assert not holds(ball(SEEN, kl - 1e-11, kl=True), one_row(TRUTH))
    assert not holds(ball(SEEN, root**2 - 1e-11, linear=3.0), one_row(TRUTH))
    assert not holds(ball([1.0, 0.0, 3.0], 5.0, kl=True), one_row([0.0, 0.5, 0.5]))  # what was seen is possible


def test_a_row_that_was_never_seen():
    """Balls are around the uniform distribution; intervals exclude nothing, and neither does a ball that is wide enough."""
    nothing = [0.0, 0.0, 0.0]
    apart = abs(0.5 - 1 / 3) + abs(0.375 - 1 / 3) + abs(0.125 - 1 / 3)
    entropy = (log(1 / 3 / 0.5) + log(1 / 3 / 0.375) + log(1 / 3 / 0.125)) / 3
    for width, kind in ((apart, {}), (entropy, {"kl": True})):
        assert holds(ball(nothing, width, **kind), one_row(TRUTH))
        assert not holds(ball(nothing, width - 1e-9, **kind), one_row(TRUTH))
    assert holds(ball(nothing, 0.0, linear=3.0), one_row(TRUTH))
    assert holds(ball(nothing, 700.0, kl=True), one_row([1.0, 0.0, 0.0]))


@pytest.mark.parametrize("kind", [{}, {"kl": True}, {"linear": 3.0}], ids=str)
def test_one_row_outside_is_enough(kind):
    truth = Belief.of(np.array([TRUTH, [0.5, 0.25, 0.25]]), 0.0, (2, 1))
    assert holds(replace(Belief.of(np.array([TRUTH, SEEN]), 0.001, (2, 1)), **kind), truth)
    assert not holds(replace(Belief.of(np.array([SEEN, SEEN]), 0.001, (2, 1)), **kind), truth)
