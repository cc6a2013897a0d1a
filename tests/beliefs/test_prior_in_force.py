"""A prior from features takes effect once it predicts, and not before; what counts as the same features."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import cede
from cede.beliefs.feature_prior import FittedLayer
from cede.learners.state import Sizes
from cede.problem.features import from_names, read_features, same_features

NAMES = [f"row={i // 4}, column={i % 4}" for i in range(16)]
TASK = cede.Task(agents=["a", "b"], env_cost=np.zeros((16, 8)), horizon=4, state_names=NAMES)
ROWS = 128  # of the environment: 16 states, 8 actions


OPTION = Sizes(TASK, cede.posterior_sampling(TASK, features=True).settings).option


def extras(scores):
    """Extras of an environment whose rows were seen ten times each, with a model that predicts state 3 everywhere."""
    seen = sp.csr_array(np.tile(np.eye(16)[3] * 10, (ROWS, 1)))
    model = sp.csr_array(np.tile(np.eye(16)[3], (ROWS, 1)))
    return OPTION.store("environment", FittedLayer(seen, model, np.array([[scores]]), 1))


def test_nothing_is_in_force_before_it_predicts():
    assert cede.posterior_sampling(TASK, features=True).priors == {}
    empty = extras([0.0] * 8)
    assert OPTION.in_force(empty) == {}
    assert OPTION.expected("environment", empty).start.size == 0
    assert OPTION.expected("environment", {}).start.size == 0
    assert OPTION.in_force(extras([0.0] + [-1.0] * 7)) == {}


def test_what_predicts_best_is_in_force():
    """Strengths are 0, 3, 10, 30, 100, ...; the environment takes none below 30, and at most a third of the rows that were seen."""
    weak, strong = extras([0.0, 1.0, 5.0, 2.0, 2.0, 2.0, 2.0, 2.0]), extras([0.0, 1.0, 2.0, 3.0, 9.0, 5.0, 4.0, 3.0])
    assert OPTION.in_force(weak) == {}
    assert OPTION.in_force(strong)["environment"][1] == pytest.approx(128 / 3)
    at_30 = extras([0.0, 1.0, 2.0, 9.0, 8.0, 5.0, 4.0, 3.0])
    assert OPTION.in_force(at_30)["environment"][1] == 30.0
    table = OPTION.expected("environment", at_30).matrix().toarray()
    np.testing.assert_allclose(table, np.tile(np.eye(16)[3] * 30.0, (128, 1)))


@pytest.mark.parametrize(
    ("names", "columns", "first"),
    [
        (["x=1, y=2", "x=3, y=2"], ("x", "y"), (1, 2)),
        (["x=1, x=2", "x=3, x=4"], None, None),  # one key twice: read as words
        (["x=1, y", "x=2, y"], None, None),  # a part without a value
    ],
)
def test_names_with_keys(names, columns, first):
    task = cede.Task(agents=["a"], env_cost=np.zeros((2, 1)), horizon=1, state_names=names)
    found, values = from_names("x", task)
    if columns is not None:
        assert (found, values[0]) == (columns, first)
    else:
        assert found != ("x", "x")
        assert len(set(found)) == len(found)
        assert found != ("x", "y")


def test_the_same_features():
    one = read_features("x", TASK, None, None)
    twin = read_features("x", TASK, None, None)
    assert one is not twin
    assert same_features(one, one)
    assert same_features(one, twin)
    assert same_features(None, None)
    assert not same_features(one, None)
    other = replace(one, codes=one.codes[::-1].copy())
    assert not same_features(one, other)
    assert not same_features(one, replace(one, names=("other", *one.names[1:])))


def test_numbers_of_features_end_at_a_thousand_million_million():
    task = cede.Task(env_cost=[[0.0], [1.0]], agents=["a"], horizon=1)
    assert read_features("x", task, [[10**15], [-(10**15)]], None).numeric == (True,)
    for number in (10**15 + 1, -(10**15) - 1):
        with pytest.raises(ValueError, match=str(number)):
            read_features("x", task, [[0], [number]], None)
