"""Costs that are learned: intervals around their means, or draws of them.

Relative to their range, costs are values in [0, 1]. Around the mean of n of them, with variance V, the interval is to both sides

    bernstein   sqrt(2 V x / n) + 3 x / n,    x = log( 3 rows n (n + 1) / delta_c )
    ucrl2       sqrt(7/2 log( 2 t_k rows / delta ) / n)                               Jaksch, Ortner and Auer 2010

The first is by the theorem in bernstein.py: over all n and rows the probability of any failure is at most delta_c. Where costs are
learned, delta is split: delta_c = delta / 3, and the sets around agents and environment get the other two thirds. UCRL2 does not
split it, as in its own paper. Posterior sampling draws means instead (`sample_mean`).
"""

from math import exp, sqrt

from numba import types

from cede._kernels.compiling import inlined, kernel, unit
from cede._kernels.problem import ProblemArrays
from cede._kernels.random_streams import next_log_gamma, stream_at
from cede.beliefs.bernstein import BERNSTEIN, bernstein_width
from cede.beliefs.constants import BERNSTEIN_INTERVALS, NO_INTERVALS, UCRL2_INTERVALS
from cede.beliefs.l1 import l1_width
from cede.rows.cost_sums import CostLayer, sums_of

LINEAR = BERNSTEIN.linear
FIRST_STREAM = 2**40  # number of the first random stream for costs: beyond those of all tables


@kernel
def interval_of_mean(kind, n, total, squares, constant, scale):
    """Return the least and the greatest mean, from 0 to 1, of n costs, and their mean.

    total, squares: the sum of these costs and of their squares.
    """
    if n <= 0.0:
        return (0.5, 0.5, 0.5) if kind == NO_INTERVALS else (0.0, 1.0, 0.5)
    mean = min(total / n, 1.0)
    half = 0.0
    if kind == UCRL2_INTERVALS:
        half = l1_width(n, constant, scale)
    elif kind == BERNSTEIN_INTERVALS and scale > 0.0:
        width = bernstein_width(n, constant, scale)
        half = sqrt(2.0 * max(0.0, squares / n - mean * mean) * width) + LINEAR / scale * width
    return max(0.0, mean - half), min(1.0, mean + half), mean


@kernel
def sample_mean(n, total, squares, prior, stream):
    """Draw the mean of n costs from 0 to 1.

    The prior of their distribution is a Dirichlet process with `prior` pseudo-counts, half of them at 0 and half at 1. The draw is
    from the Beta distribution that has the mean and the variance which the mean of a draw from the posterior has: exactly the
    posterior if costs are 0 or 1, and narrower the closer together they lie.
    """
    whole_count = n + prior
    mean = (total + 0.5 * prior) / whole_count
    variance = max((squares + 0.5 * prior) / whole_count - mean * mean, 0.0) / (whole_count + 1.0)
    strength = mean * (1.0 - mean) / max(variance, 1e-300) - 1.0
    if not strength < 1e15:
        return mean
    stream, a = next_log_gamma(stream, mean * strength)
    stream, b = next_log_gamma(stream, (1.0 - mean) * strength)
    most = max(a, b)
    return exp(a - most) / (exp(a - most) + exp(b - most))


@kernel
def believe_cost(costs, r, constant, scale):
    """Write the interval of the costs of row r. constant, scale: of the intervals."""
    n, total, squares = sums_of(costs.counts.seen, r)
    low, high, mean = interval_of_mean(costs.kind, n, total, squares, constant, scale)
    least, spread = costs.least[r], costs.spread[r]
    costs.low[r], costs.high[r], costs.mean[r] = least + spread * low, least + spread * high, least + spread * mean


@unit(types.none, CostLayer, types.float64, types.float64, types.float64, types.int64)
def believe_costs(costs, constant, scale, prior, seed):
    """Write the belief of every row: its interval, or with a prior a draw from its posterior, by the seed."""
    for r in range(costs.least.size):
        if prior > 0.0:
            n, total, squares = sums_of(costs.counts.seen, r)
            part = sample_mean(n, total, squares, prior, stream_at(seed, FIRST_STREAM + r))
            costs.low[r] = costs.high[r] = costs.least[r] + costs.spread[r] * part
            costs.mean[r] = costs.least[r] + costs.spread[r] * (min(total / n, 1.0) if n > 0.0 else 0.5)
        else:
            believe_cost(costs, r, constant, scale)


@inlined
def put_cost(costs, problem, s, j, believed, sign):
    """Write the believed cost of a place that is not known, times a sign, into the costs of a problem."""
    problem.env_cost[s, j] = sign * believed[costs.counts.place[s, j]]


@unit(types.none, CostLayer, ProblemArrays, types.float64[::1], types.float64)
def put_costs(costs, problem, believed, sign):
    """Write the believed cost of each row, times a sign, into the costs of a problem."""
    place, enter_cost = costs.counts.place, problem.enter_cost
    for s in range(place.shape[0]):
        for j in range(place.shape[1]):
            if place[s, j] >= 0:
                put_cost(costs, problem, s, j, believed, sign)
    for s in range(costs.enter_place.size):
        if costs.enter_place[s] >= 0:
            enter_cost[s] = sign * believed[costs.enter_place[s]]
