"""When features tell something: how many random orders are tried, and what is enough."""

from itertools import cycle

import numpy as np
import pytest

import cede
from cede.learning.features import read_features
from cede.learning.suggest import tells_something

NAMES = [f"room={i % 3}, light={i // 3}" for i in range(6)]
TASK = cede.Task(agents=["a"], env_cost=np.zeros((6, 1)), horizon=2, state_names=NAMES)


def tried(own, others):
    """What comes out, and how many random orders were tried, if features score `own` and random orders what `others` says."""
    scores, asked = iter([own, *others]), []

    def describe(features):
        asked.append(features.codes.copy())
        return next(scores)

    return tells_something(read_features("x", TASK, None, None), describe, np.random.default_rng(0)), len(asked) - 1, asked


def test_nineteen_random_orders_must_be_worse():
    spread = [value for value, _ in zip(cycle([0.0, 99.0]), range(19), strict=False)]
    assert tried(100.0, spread)[:2] == (True, 19)
    assert tried(100.0, [*spread[:18], 100.0])[:2] == (False, 19)
    assert tried(100.0, [0.0, 100.0])[:2] == (False, 2)


@pytest.mark.parametrize(("deviations", "enough"), [(5.1, True), (4.9, False)])
def test_four_are_enough_if_they_are_worse_by_five_standard_deviations(deviations, enough):
    first = np.array([1.0, 2.0, 3.0, 6.0])
    own = first.mean() + deviations * first.std(ddof=1)
    result, orders, _ = tried(own, [*first, *[own - 1e-9, 0.0] * 8])
    assert result
    assert (orders == 4) is enough


def test_orders_are_random_and_lose_nothing():
    _, _, asked = tried(100.0, [0.0, 99.0] * 10)
    for codes in asked[1:]:
        assert sorted(map(tuple, codes)) == sorted(map(tuple, asked[0]))
    assert any((codes != asked[0]).any() for codes in asked[1:])
