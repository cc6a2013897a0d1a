"""Learned costs: intervals around their means, or draws of the means.

Relative to their range, costs are values in [0, 1]. Around the mean of n of them, with variance V, the interval is to both sides

    bernstein   sqrt(2 V x / n) + 3 x / n,    x = log( 3 rows n (n + 1) / delta_c )
    ucrl2       sqrt(7/2 log( 2 t_k rows / delta ) / n)                               Jaksch, Ortner and Auer 2010

The first is by the theorem in bernstein.py: over all n and rows the probability of any failure is at most delta_c. If costs are
learned, delta is split: delta_c = delta / 3, and 2 delta / 3 for the sets around agents and environment. UCRL2 does not split it,
as in its own paper. Posterior sampling draws means instead (`sample_mean`).
"""

from math import exp, log, sqrt

from cede._kernels.compiling import kernel
from cede._kernels.random_streams import next_log_gamma
from cede.beliefs.bernstein import BERNSTEIN, bernstein_width
from cede.beliefs.l1 import l1_width

NO_INTERVALS, UCRL2_INTERVALS, BERNSTEIN_INTERVALS = 0, 1, 2  # kinds of intervals around costs
LOG_2, LOG_3, LINEAR = log(2.0), log(3.0), BERNSTEIN.linear


@kernel
def cost_constant_of(kind, steps, rows, delta):
    """Return the constant of the intervals around costs after so many steps."""
    if kind == BERNSTEIN_INTERVALS:
        return LOG_3 + log(max(1, rows)) - log(delta)
    if kind == UCRL2_INTERVALS:
        return 3.5 * (LOG_2 + log(steps) + log(rows) - log(delta))
    return 0.0


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
    from the Beta distribution with the posterior mean and variance of the mean cost: exactly the posterior if all costs are 0 or 1,
    and narrower if costs vary less.
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
