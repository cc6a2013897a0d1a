"""Balls of relative entropy: all p with KL(q || p) <= rho. Their rho, and the inner minimum, the least mean of v over such a ball.

With u = v - min v >= 0, where the minimum is over all outcomes that can be, q the frequencies, and x >= 0,

    x expm1( sum_j q_j log(1 + u_j / x) - rho )

is a lower bound of the least mean of u for every x, and its maximum over x equals it (Filippi, Cappe and Garivier 2010). It is
concave in x, and its derivative is 0 where

    sum_j q_j log(1 + u_j / x) + log( sum_j q_j / (1 + u_j / x) ) = rho.

The left side falls from infinity to 0 as x grows, if the best outcome has counts; if not, it begins at a finite number, and if that
is below rho the maximum is at x = 0. We find x by Newton's method in log x, from a start that follows from the row alone, so that
the result depends on nothing else.

A row has n visits, N_i of them with outcome i; q = N / n are its frequencies, and k of its m possible outcomes have counts. The
sets are

    kl          n rho = log( 2 rows / delta ) + surprise
    kl-value    n rho = log( 2 rows values / delta ) + log( sqrt(pi) Gamma(n + 1) / Gamma(n + 1/2) )

    surprise = -log m(N) - n H(q),    H: the entropy,
    m(N) = prod_{seen i} Gamma(N_i + 1/2) / Gamma(1/2) sum_{j = k ... m} w_j Gamma(j / 2) / Gamma(j / 2 + n),
    w_j = C(m - k, j - k) / (C(m, j) j (j + 1)).

m(N) is the likelihood of the counts under a mixture over all supports and, within each, over all distributions (Krichevsky and
Trofimov). Along the visits of a row, m(N) / prod p_i^N_i is a martingale of mean 1 at most. It exceeds 2 rows / delta at any time
with probability at most delta / (2 rows) (Ville), so the ball "kl" holds the truth of all rows of a layer at all times with
probability at least 1 - delta / 2. It may be used for everything except fading counts.

"kl-value" bounds only the means of some functions, the values of the best policy: the plan is optimistic, but the truth need not be
in the ball, so it gives no bounds. `values` is the number of these functions: L for a row of an agent, (L - 1) D for one of the
environment, times the places that the row serves. docs/guarantees.md has both proofs.
"""

from math import exp, expm1, inf, lgamma, log, pi, sqrt

import numpy as np

from cede._kernels.compiling import kernel
from cede._kernels.vectors import FEW, logarithm, sums_over_blocks
from cede.beliefs.kind import BeliefKind

LOG_2, LOG_ROOT_PI = log(2.0), 0.5 * log(pi)  # the latter is log Gamma(1/2)

ANYTHING = 1e300  # width of a set that excludes nothing
NOTHING = 700.0  # a ball of relative entropy this large excludes nothing that a float could tell

CLOSE, CLOSEST = 3e-5, 1e-14  # of log x: the error of the maximum is the cube of this
MOST_STEPS = 100
LONGEST = 6.0  # step of log x
NEGLIGIBLE = 1e-6  # terms of m(N) that are this small, relative to the sum, are left out, which makes the radius larger
LARGE = 1e200


@kernel
def sums_of_few(u, p, n, x):
    """Return the sums of p_j log z_j, p_j z_j and p_j z_j^2, with z_j = 1 / (1 + u_j / x)."""
    logs, inverse, squares = 0.0, 0.0, 0.0
    for j in range(n):
        z = x / (x + u[j])
        logs += p[j] * log(z)
        inverse += p[j] * z
        squares += p[j] * z * z
    return logs, inverse, squares


def terms_of_sums(builder, u, p, x, _):
    """Emit the terms of each outcome for the three sums of `sums_of_few`."""
    z = builder.fdiv(x, builder.fadd(x, u))
    part = builder.fmul(p, z)
    return builder.fmul(p, logarithm(builder, z)), part, builder.fmul(part, z)


sums_of_blocks = sums_over_blocks(terms_of_sums, 3)


@kernel
def maximise(u, p, n, total, rho, close):
    """Return the maximum over x at the top of the file, its x, and the mass of the outcomes with counts.

    u >= 0, and an outcome of u = 0 is possible. u, p: (n,), padded (see minima.py: `pad`). close: of log x, where Newton's method
    ends. If the best outcome has no counts, x may be 0, and that outcome gets the rest of the mass.
    """
    least, mean, square = inf, 0.0, 0.0
    for j in range(n):
        if p[j] > 0.0:
            least = min(least, u[j])
            mean += p[j] * u[j]
            square += p[j] * u[j] * u[j]
    mean, square = mean / total, square / total
    if mean <= 0.0:
        return 0.0, inf, 1.0
    if least > 0.0:  # the best outcome was never seen
        logs, inverse = 0.0, 0.0
        for j in range(n):
            if p[j] > 0.0:
                logs += p[j] * log(u[j])
                inverse += p[j] / u[j]
        left = logs / total + log(inverse / total)
        if left <= rho:
            return exp(logs / total - rho), 0.0, exp(left - rho)
    x = max(sqrt(max(0.0, square - mean * mean) / (2.0 * rho)) - mean, 0.05 * mean)  # right where rho is small
    move, value = 0.0, 0.0
    for _ in range(MOST_STEPS):
        x *= exp(move)
        if n <= FEW:
            logs, inverse, squares = sums_of_few(u, p, n, x)
        else:
            logs, inverse, squares = sums_of_blocks(u, p, n, x)
        logs, inverse, squares = -logs / total, inverse / total, squares / total
        value = x * expm1(logs - rho)
        left = logs + log(inverse)
        slope = inverse - squares / inverse  # of the left side, by log x
        if not (left > 0.0 and slope < 0.0):  # rounding: x is far larger than u
            break
        move = (rho - left) / slope if left > rho else log(rho / left) * left / slope
        move = min(max(move, -LONGEST), LONGEST)
        if abs(move) < close:  # the last step, by the slope of what is maximised at this x, which falls to 0 where the step ends
            value += 0.5 * x * move * expm1(left - rho)
            break
    return min(max(0.0, value), mean), x, 1.0


@kernel
def least_in_kl_ball(u, p, n, total, rho):
    """Return the least mean of u[:n] over the ball of radius rho around p[:n] / total. u, p: as for `maximise`."""
    return maximise(u, p, n, total, rho, CLOSE)[0]


@kernel
def lean_in_kl_ball(u, p, n, best, rho):
    """Replace p[:n], which sums to 1, by the distribution in the ball of radius rho around it that has the least mean of u.

    u, p: as for `maximise`. best: the best outcome.
    """
    _, x, part = maximise(u, p, n, 1.0, rho, CLOSEST)
    if x == inf:
        return
    total = 0.0
    for j in range(n):
        if p[j] > 0.0:
            p[j] /= x + u[j]
            total += p[j]
    for j in range(n):
        p[j] *= part / total
    p[best] += 1.0 - part


# ------------------------------------------------------------------------------------------------- radius


@kernel
def kl_constant(steps, rows, outcomes, values, delta):
    """Return log(2 rows / delta)."""
    return LOG_2 + log(rows) - log(delta)


@kernel
def kl_value_constant(steps, rows, outcomes, values, delta):
    """Return log(2 rows values / delta)."""
    return LOG_2 + log(rows) + log(values) - log(delta)


@kernel
def kl_width(visits, constant, scale):
    """Return rho = scale^2 constant / n, where the constant has the surprise of the row in it."""
    if visits <= 0.0:
        return ANYTHING if scale > 0.0 else 0.0
    return scale * scale * constant / max(1.0, visits)


@kernel
def kl_value_width(visits, constant, scale):
    """Return rho = scale^2 (constant + log(sqrt(pi) Gamma(n + 1) / Gamma(n + 1/2))) / n."""
    n = max(1.0, visits)
    return kl_width(visits, constant + (LOG_ROOT_PI + lgamma(n + 1.0) - lgamma(n + 0.5)), scale)


@kernel
def log_sum_over_supports(n, k, m):
    """Return the logarithm of the sum of m(N) above, without its product: n visits, k outcomes seen of m."""
    offset = 0.0
    total, last, j = 0.0, 0.0, k  # terms of even and odd j - k follow from those two before
    even, odd = 0.0, 0.0
    while j <= m:
        if j - k < 2:
            chosen = lgamma(m - k + 1.0) - lgamma(j - k + 1.0) + lgamma(j + 1.0) - lgamma(m + 1.0)  # log of C(m-k, j-k) / C(m, j)
            found = chosen - log(j) - log(j + 1.0) + lgamma(0.5 * j) - lgamma(0.5 * j + n)
            if j == k:
                offset = found
            term = exp(found - offset)
        else:
            i = j - 2.0
            term = even if (j - k) % 2 == 0 else odd
            term *= (i / (i + 2.0 * n)) * (i * (i + 1.0) * (i + 1.0)) / ((i + 3.0) * (j - 1.0 - k) * (j - k))
        if (j - k) % 2 == 0:
            even = term
        else:
            odd = term
        total += term
        if term <= last and term < NEGLIGIBLE * total:
            break
        if total > LARGE:
            even, odd, term, total, offset = even / LARGE, odd / LARGE, term / LARGE, total / LARGE, offset + log(LARGE)
        last = term
        j += 1
    return offset + log(total)


@kernel
def surprise(table, r, outcomes):
    """Return -log m(N) - n H(N / n) of row r, at least 0. outcomes: the number of possible outcomes."""
    start, k, n = table.start[r], table.size[r], table.total[r]
    result = 0.0
    for j in range(start, start + k):
        count = table.weight[j]
        result += count * log(count / n) - lgamma(count + 0.5) + LOG_ROOT_PI
    result -= log_sum_over_supports(n, k, outcomes)
    return result if result > 0.0 else 0.0  # and 0 if counts are so large that nothing can be said of them


KL = BeliefKind(
    "kl",
    "kl",
    about="balls of relative entropy, much smaller than the paper's, with the same guarantee",
    assumes="The steps of a row are independent draws from one distribution, and are counted whole.",
    allows=frozenset(("two layers", "bounds", "greedy planning", "guarantee")),
    constant=kl_constant,
    width=kl_width,
    surprise=True,
)
KL_VALUE = BeliefKind(
    "kl-value",
    "kl",
    about="smaller still, but for optimism only, not for bounds and baselines",
    assumes="The steps of a row are independent draws from one distribution, and are counted whole.",
    allows=frozenset(("two layers", "greedy planning", "guarantee")),
    constant=kl_value_constant,
    width=kl_value_width,
    more=lambda outcomes, most, functions: np.log(np.maximum(functions, 1.0)),
)
