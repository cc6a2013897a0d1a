"""Posterior sampling: every row is drawn from its Dirichlet posterior, and planned with as if it were certain.

The prior of a row has `prior` pseudo-counts, spread evenly over its outcomes, plus those of the row in the layer's `expected`
table, if any. For agents, and for an environment with declared outcomes, all outcomes are sampled. Else most outcomes have no
count, and sampling them all would cost |S| per row. But a Dirichlet with mass `prior` spread over |S| outcomes is a Dirichlet
process, and so is its part outside of the outcomes with counts: its mass is broken into sticks (Sethuraman 1994), each for one
outcome drawn at random, until less than `LEAST_STICK` remains. That takes about 7 sticks for each pseudo-count; if there are no
more states than that, all of them are sampled.
"""

from math import ceil, exp, sqrt
from typing import Any

import numpy as np

from cede._base import check
from cede._kernels.compiling import kernel
from cede._kernels.random_streams import next_log_gamma, next_uniform
from cede._kernels.tables import Table
from cede.beliefs.kind import BeliefKind

LEAST_STICK = 1e-3  # of the whole row
LEAST_PRIOR, MOST_PRIOR = 1e-6, 1e6


def checked_prior(owner: str, prior: Any) -> float:
    """Check a prior, the pseudo-counts of a row, and return it."""
    result = check.number(owner, "prior", prior)
    if not LEAST_PRIOR <= result <= MOST_PRIOR:
        check.fail(owner, "prior", result, f"from {LEAST_PRIOR:g} to {MOST_PRIOR:g}")
    return result


@kernel
def normalise(weight, first, last):
    """Turn weight[first:last] from logarithms into weights of which the largest is 1, and return their sum."""
    most = weight[first]
    for j in range(first + 1, last):
        most = max(most, weight[j])
    total = 0.0
    for j in range(first, last):
        weight[j] = exp(weight[j] - most)
        total += weight[j]
    return total


@kernel
def sample_closed(seen, expected, c, table, r, prior, stream):
    """Sample row r of a belief with a known list of outcomes, from row c of the counts and of the expected counts."""
    start, n, weights = table.start[r], table.size[r], table.weight
    for j in range(start, start + n):
        weights[j] = prior / n
    for j in range(seen.start[c], seen.start[c] + seen.size[c]):
        weights[start + seen.column[j]] += seen.weight[j]
    if expected.start.size > 0:
        for j in range(expected.start[c], expected.start[c] + expected.size[c]):
            weights[start + expected.column[j]] += expected.weight[j]
    for j in range(start, start + n):
        stream, weights[j] = next_log_gamma(stream, weights[j])
    table.total[r] = normalise(weights, start, start + n)


@kernel
def merge_rows(seen, expected, r, table, start):
    """Write the sum of row r of the counts and of the expected counts, both sorted, into the pool; return where it ends."""
    to, columns, weights = start, table.column, table.weight
    j, j_end, i, i_end = seen.start[r], seen.start[r] + seen.size[r], np.int64(0), np.int64(0)
    if expected.start.size > 0:
        i, i_end = expected.start[r], expected.start[r] + expected.size[r]
    while j < j_end or i < i_end:
        column = seen.column[j] if j < j_end else expected.column[i]
        if i < i_end:
            column = min(column, expected.column[i])
        weight = 0.0
        if j < j_end and seen.column[j] == column:
            weight += seen.weight[j]
            j += 1
        if i < i_end and expected.column[i] == column:
            weight += expected.weight[i]
            i += 1
        columns[to] = column
        weights[to] = weight
        to += 1
    return to


@kernel
def sample_open(seen, expected, r, table, start, n_columns, prior, sticks, stream):
    """Sample row r of a belief in which every column is a possible outcome, into the pool from `start` on; return where it ends."""
    columns, weights = table.column, table.weight
    to = merge_rows(seen, expected, r, table, start)
    for j in range(start, to):
        stream, weights[j] = next_log_gamma(stream, weights[j])
    stream, weights[to] = next_log_gamma(stream, prior)
    total = normalise(weights, start, to + 1)
    left = weights[to]
    for i in range(sticks):
        stream, chance = next_uniform(stream)
        stream, place = next_uniform(stream)
        kept = left * chance ** (1.0 / prior)  # 1 - Beta(1, prior)
        last = kept < LEAST_STICK * total or i == sticks - 1
        columns[to] = np.int64(place * n_columns)
        weights[to] = left if last else left - kept
        left = kept
        to += 1
        if last:
            break
    table.start[r] = start
    table.size[r] = to - start
    table.total[r] = total
    return to


def sticks_for(prior: float) -> int:
    """Return a number of sticks that nearly always leaves less than LEAST_STICK of a row: about Poisson(7 prior) are needed."""
    return ceil(7 * prior + 10 * sqrt(prior)) + 12


def room_for_samples(n_rows: int, places: int, n_states: int) -> Table:
    """Make an empty table into which rows are sampled. places: how many outcomes it can hold in total."""
    rows = (np.zeros(n_rows, dtype=np.int64), np.zeros(n_rows, dtype=np.int64))
    return Table.from_arrays(n_states, *rows, np.zeros(places, dtype=np.int32), np.zeros(places), np.ones(n_rows))


POSTERIOR = BeliefKind(
    "posterior",
    "sample",
    about="a table drawn from the posterior of each row",
    assumes="The prior: Dirichlet distributions, independent of one another. Nothing is guaranteed of a single run.",
    allows=frozenset(("two layers", "fading")),
)
