"""Numbers and words for people, written out."""

import numpy as np
import pytest

import cede
from cede.insight.explain import times
from cede.insight.figures import figure, interval, rounded
from cede.insight.frequencies import with_prices


@pytest.mark.parametrize(
    ("value", "stake", "text"),
    [
        (0.0, 0.0, "0"),
        (1.23456, 0.0, "1.23"),
        (-1.23456, 0.0, "-1.23"),
        (0.0123456, 0.0, "0.0123"),
        (123456.0, 0.0, "123,456"),
        (1.0, 0.0, "1"),
        (9.996, 0.0, "10"),
        (0.4, 100.0, "less than 1"),
        (0.01, 50.0, "less than 0.1"),
        (-0.01, 50.0, "more than -0.1"),
        (12.345, 50.0, "12.3"),
        (1e-9, 0.0, "1e-09"),
    ],
)
def test_three_digits_of_what_matters(value, stake, text):
    assert figure(value, stake) == text


def test_intervals_have_two_digits_of_their_width():
    assert interval(1.23456, 1.1, 1.37) == ("1.23", "1.1", "1.37")
    assert interval(123.456, 100.0, 150.0) == ("123", "100", "150")
    assert interval(2.0, 2.0, 2.0) == ("2", "2", "2")
    assert rounded(3.14159, 3) == "3.142"
    assert rounded(3.14159, -2) == "3"


def test_how_often():
    found = [times(visits) for visits in (0.25, 1.0, 1.6, 2.0, 12345.0)]
    assert found == ["less than once", "once", "2 times", "2 times", "12,345 times"]


def test_prices_of_limits_are_control_costs():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, at_most={"p=0.7": 0.2})
    assert with_prices(cede.ucrl2_mc(mdp.task)) == (mdp.task, None)
    cede.simulate(mdp, learner, 60, seed=1, progress=False)
    prices = np.array([learner.prices["p=0.3"], learner.prices["p=0.7"]])
    assert prices.max() > 0
    dear, only = with_prices(learner)
    np.testing.assert_allclose(dear.control_cost - mdp.task.control_cost, np.broadcast_to(prices, mdp.task.control_cost.shape))
    np.testing.assert_allclose(only.control_cost, np.broadcast_to(prices, only.control_cost.shape))
    assert (only.env_cost == 0).all()
