"""The numbers behind `check_structure`, by enumeration and by hand."""

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import cede
from cede.insight.structure.checking import (
    Case,
    deviation,
    homogeneity,
    moments,
    most_draws,
    statistic,
    suspicion_of,
    undeclared_steps,
    without_zeros,
)

TABLE = np.array([[3.0, 1.0, 0.0], [1.0, 1.0, 2.0]])


def chi_squared(table):
    total, result = table.sum(), 0.0
    for i, j in np.ndindex(table.shape):
        expected = table[i].sum() * table[:, j].sum() / total
        result += (table[i, j] - expected) ** 2 / expected
    return result


def all_statistics(table):
    """The statistic of every way to hand the outcomes that came to the visits that there were, each as likely as the others."""
    outcomes = [j for j in range(table.shape[1]) for _ in range(int(table[:, j].sum()))]
    places = [i for i in range(table.shape[0]) for _ in range(int(table[i].sum()))]
    found = []
    for order in set(permutations(outcomes)):
        one = np.zeros(table.shape)
        for place, outcome in zip(places, order, strict=True):
            one[place, outcome] += 1
        found.append(chi_squared(one))
    return np.array(found)


@pytest.mark.parametrize("table", [TABLE, [[2, 0], [1, 3]], [[1, 1, 0], [0, 2, 1], [0, 0, 2]]], ids=str)
def test_mean_and_variance_over_all_tables(table):
    table = np.array(table, dtype=float)
    assert statistic(table, table.sum(axis=1), table.sum(axis=0)) == pytest.approx(chi_squared(table))
    every = all_statistics(table)
    assert moments(table.sum(axis=1), table.sum(axis=0)) == pytest.approx((every.mean(), every.var()))
    assert deviation(table) == pytest.approx((chi_squared(table) - every.mean()) / every.std())


def test_p_values_are_those_of_all_tables():
    table = np.array([[4.0, 0.0], [1.0, 4.0]])
    every = all_statistics(table)
    exact = (every >= chi_squared(table) - 1e-9).mean()
    assert exact < 0.1
    found = [homogeneity(table, 20_000, np.random.default_rng(seed)) for seed in range(8)]
    assert np.mean(found) == pytest.approx(exact, rel=0.25)
    assert homogeneity(np.array([[500.0, 0.0], [0.0, 500.0]]), 999, np.random.default_rng(0)) == 1 / 1000
    assert homogeneity(np.array([[2.0, 2.0], [2.0, 2.0]]), 999, np.random.default_rng(0)) == 1.0
    assert homogeneity(np.array([[1.0, 0.0], [0.0, 2.0]]), 999, np.random.default_rng(0)) == 1.0  # three counts say nothing


def test_rows_and_columns_of_zeros_do_not_count():
    wide = np.zeros((4, 5))
    wide[np.ix_([1, 3], [0, 2, 3])] = TABLE
    np.testing.assert_array_equal(without_zeros(wide), TABLE)
    assert deviation(wide) == deviation(TABLE)
    assert deviation(np.zeros((2, 2))) == deviation(np.array([[1.0, 1.0], [1.0, 0.0]])) == -np.inf


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (TABLE, True),
        ([[2, 1], [0, 1]], True),  # four counts
        ([[1, 1], [0, 1]], False),  # three
        ([[9, 9], [0, 0]], False),  # one place
        ([[9, 0], [9, 0]], False),  # one outcome
    ],
)
def test_what_can_be_tested(table, expected):
    table = np.array(table, dtype=float)
    assert Case("environment", 0, [(0, 0), (1, 0)], table).testable is expected


def test_the_place_that_is_least_like_the_others_is_named():
    """Two places with 6 and 8 of 10, and one with 1 of 20."""
    case = Case("environment", 3, [(0, 0), (1, 1), (2, 0)], np.array([[6.0, 4.0], [8.0, 2.0], [1.0, 19.0]]))
    found = suspicion_of(SimpleNamespace(state_names=None, action_names=None), case, 0.004)
    assert (found.place, found.visits) == ((2, 0), 20)
    np.testing.assert_allclose(found.here, [0.05, 0.95])
    np.testing.assert_allclose(found.elsewhere, [0.7, 0.3])
    assert "case 3 (p = 0.004): state 2, action 0" in found.text
    assert "outcome 0 came in 5% of 20 visits, elsewhere in 70% of 20" in found.text


@pytest.mark.parametrize(("tests", "alpha", "draws"), [(1, 0.05, 2000), (20, 0.05, 2000), (40, 0.05, 4000), (3, 0.001, 15_000)])
def test_enough_tables_are_drawn(tests, alpha, draws):
    assert most_draws(tests, alpha) == draws


def test_a_step_that_is_not_declared_is_named():
    """State 2, action 1, to state 0, seen seven times, and one other: by the structure everybody stays."""
    outcomes = cede.Outcomes.of(np.zeros((3, 2), dtype=int), np.arange(3)[:, None, None].repeat(2, axis=1))
    task = cede.Task(agents=["a"], env_cost=np.zeros((3, 2)), horizon=2)
    counts = np.zeros((6, 3))
    counts[0, 0], counts[5, 0], counts[5, 1] = 4, 7, 2
    found = undeclared_steps(task, cede.Structure(environment=outcomes), sp.csr_array(counts))
    assert (found.place, found.visits, found.p_value) == ((2, 1), 7, 0.0)
    assert "state 2, action 1: next state 0 was seen, but is not declared; so were 1 other steps" in found.text
    counts[5] = 0
    assert undeclared_steps(task, cede.Structure(environment=outcomes), sp.csr_array(counts)) is None
