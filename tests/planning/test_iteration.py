"""Rows that attain minima, and chains solved without subtraction: against linear programming, the planner's minima, fractions."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from cede.beliefs.belief import Belief, holds
from cede.planning.iteration import EXTRA, LEVEL, RELATIVE, RIGHT, eliminate, least_row, solve_eliminated
from cede.planning.passes import thread_scratch
from reference import least_mean_lp


def attained(belief, r, values):
    thread, n = thread_scratch(len(values), len(values), 1), len(values)
    thread.u[:n] = values
    least_row(belief.arrays, r, n, thread)
    return thread.p[:n].copy()


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("kind", ["l1", "interval", "kl"])
def test_rows_attain_the_minimum(seed, kind):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    counts = rng.integers(0, 4, size=n) * (rng.random(n) < 0.7)
    width = float(rng.choice([0.0, 1e-6, 0.01, 0.3, 5.0]))
    values = np.round(rng.normal(size=n), int(rng.integers(0, 6))) * 10.0 ** rng.integers(-3, 6)
    belief = Belief.of(np.array([counts]), width, (1, 1))
    belief = replace(belief, linear=3.0 if kind == "interval" else 0.0, kl=kind == "kl")
    p = attained(belief, 0, values)
    assert p.min() >= 0.0
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert holds(belief, Belief.of(p[None], 0.0, (1, 1)))
    q = counts / counts.sum() if counts.any() else np.full(n, 1 / n)
    size = np.abs(values).max() + 1e-300
    if kind == "l1":
        wanted = least_mean_lp(q, width, values / size)
    elif kind == "interval":
        half = np.sqrt(2 * q * (1 - q) * width) + 3 * width if counts.any() else 1.0
        ends = np.stack([np.clip(q - half, 0, 1), np.clip(q + half, 0, 1)], axis=1)
        wanted = linprog(values / size, A_eq=np.ones((1, n)), b_eq=[1.0], bounds=ends).fun
    else:  # the dual is below all means of the ball, whatever x is: one that reaches the mean of p proves it
        u = (values - values.min()) / size
        x = np.concatenate([[1e-300], np.logspace(-12, 12, 200_000)])
        dual = x * np.expm1((q * np.log1p(u / x[:, None])).sum(axis=1) - width) if width else np.array([q @ u])
        wanted = values.min() / size + dual.max()
    assert p @ values / size == pytest.approx(wanted, abs=1e-7)


def test_rows_that_list_their_outcomes():
    """Closed rows: no outcome but those that are listed gets anything; the listed one of weight 0 does."""
    from cede._kernels.tables import Table

    lists = {"start": [0], "size": [3], "column": [0, 2, 3], "weight": [4.0, 0.0, 4.0], "total": [8.0]}
    kinds = {"start": np.int64, "size": np.int64, "column": np.int32, "weight": float, "total": float}
    table = Table.from_arrays(5, **{name: np.array(one, dtype=kinds[name]) for name, one in lists.items()})
    values = np.array([3.0, -9.0, 1.0, 2.0, -9.0])
    for linear, kl, width in ((0.0, False, 0.5), (3.0, False, 0.02), (0.0, True, 0.1)):
        p = attained(Belief(table, np.array([width]), np.zeros((1, 1), dtype=int), linear, True, kl), 0, values)
        assert p[1] == p[4] == 0.0
        assert p[2] > 0.0
        assert p.sum() == pytest.approx(1.0)
        assert p @ values < 2.5
    anything = Belief(table, np.array([1e300]), np.zeros((1, 1), dtype=int), 0.0, True, True)
    assert attained(anything, 0, values).tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


def solved(chain, right, discount=1.0):
    n = len(chain)
    system = np.zeros((n + EXTRA, n))
    system[:n], system[RIGHT] = discount * chain, right
    classes = eliminate(system, n, 1.0 - discount)
    solve_eliminated(system, n, discount)
    return classes, system[LEVEL], system[RELATIVE]


def test_a_way_into_the_last_place():
    """0 -> 1 -> 2 -> 2: the long-run cost of all is that of place 2; before it, 1 pays 2 - 5, and 0 pays 1 - 5 more."""
    chain = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    system = np.zeros((3 + EXTRA, 3))
    system[:3], system[RIGHT] = chain, [1.0, 2.0, 5.0]
    assert eliminate(system, 3, 0.0) == 1
    solve_eliminated(system, 3, 1.0)
    assert (system[LEVEL].tolist(), system[RELATIVE].tolist()) == ([5.0, 5.0, 5.0], [-7.0, -3.0, 0.0])


@pytest.mark.parametrize("seed", range(40))
def test_chains_with_any_number_of_classes(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    chain = rng.dirichlet(np.ones(n), size=n) * (rng.random((n, n)) < 0.3)
    chain[np.arange(n), rng.integers(n, size=n)] += 0.1
    chain /= chain.sum(axis=1, keepdims=True)
    right = rng.normal(size=n)
    classes, level, relative = solved(chain, right)
    np.testing.assert_allclose(level, chain @ level, atol=1e-12)
    np.testing.assert_allclose(relative + level, right + chain @ relative, atol=1e-9)
    power = np.linalg.matrix_power(0.5 * (np.eye(n) + chain), 2**16)
    np.testing.assert_allclose(level, power @ right, atol=1e-9)
    assert classes == round(np.trace(power @ power)), "each class adds 1 to the trace of the limit"
    _, level, relative = solved(chain, right, 0.99)
    np.testing.assert_allclose(relative + level, right + 0.99 * chain @ relative, atol=1e-9)
    assert np.ptp(level) == 0.0


def test_tiny_probabilities_keep_their_digits():
    """A birth and death chain, whose balance is a product of ratios."""
    up, down = [3e-13, 2e-9, 0.3, 1e-16], [1e-12, 5e-14, 7e-3, 2e-15]
    chain = np.zeros((5, 5))
    for i in range(4):
        chain[i, i + 1], chain[i + 1, i] = up[i], down[i]
    chain[np.arange(5), np.arange(5)] = 1.0 - chain.sum(axis=1)
    share = [Fraction(1)]
    for i in range(4):
        share.append(share[-1] * Fraction(up[i]) / Fraction(down[i]))
    right = np.array([1.0, 2.0, 0.5, 3.0, 4.0])
    wanted = sum(a * Fraction(b) for a, b in zip(share, right.tolist(), strict=True)) / sum(share)
    classes, level, _ = solved(chain, right)
    assert classes == 1
    np.testing.assert_allclose(level, float(wanted), rtol=1e-14)
