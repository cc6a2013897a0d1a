"""L1 balls: the width of a row, sqrt(constant / n), and the inner minimum, the least mean of v over the distributions within L1
distance `width` of a centre (Lemma 4).

With u = v - min v >= 0 and b = width / 2, moving mass b from the worst outcomes onto the best leaves

    min v + max_{theta >= 0} [ sum_j p_j min(u_j, theta) - b theta ],

a concave piecewise linear function of theta whose maximum lies at the outcome where the mass above falls to b. We search
that outcome with passes over the row instead of sorting it; see docs/decisions/0003-threshold-instead-of-sorting.md.
"""

from math import sqrt

import numpy as np

from cede._kernels.compiling import inlined, kernel, vector_kernel
from cede._kernels.vectors import FEW, LANES, sums_over_blocks

# Share of the mass in question below which `search` goes from the worst outcome downward instead of halving.
NEAR = 0.03

# Sums of masses are exact if the weights are counts. Others round: a budget this close to a sum, relative to both, may seem to run
# out at either of two outcomes, and the result must not depend on where the search began.
CLOSE = 1e-11


@kernel
def l1_width(visits, constant, scale):
    """Return scale sqrt(constant / max(1, n))."""
    return scale * sqrt(constant / max(1.0, visits))


@kernel
def look_at_few(u, p, n, theta):
    """Return the mass worse than theta, the mass equal to it, and sum_j p_j min(u_j, theta)."""
    worse, equal, capped = 0.0, 0.0, 0.0
    for j in range(n):
        x, q = u[j], p[j]
        worse += q if x > theta else 0.0
        equal += q if x == theta else 0.0
        capped += q * (x if x < theta else theta)
    return worse, equal, capped


def terms_of_look(builder, x, q, theta, zero):
    """Emit the terms of each outcome for the three sums of `look_at_few`."""
    worse, equal, less = (builder.fcmp_ordered(sign, x, theta) for sign in (">", "==", "<"))
    capped = builder.fmul(q, builder.select(less, x, theta))
    return builder.select(worse, q, zero), builder.select(equal, q, zero), capped


def terms_of_ends(builder, x, q, theta, zero):
    """Emit the terms of each outcome for the two sums of `ends`."""
    return builder.select(builder.fcmp_ordered(">", x, theta), q, zero), builder.fmul(q, x)


look_at_blocks = sums_over_blocks(terms_of_look, 3)
ends_of_blocks = sums_over_blocks(terms_of_ends, 2)


@inlined
def look(u, p, n, theta):
    """Do the same as `look_at_few`, for rows of any length. Long rows are padded to whole blocks."""
    if n <= FEW:
        worse, equal, capped = look_at_few(u, p, n, theta)
    else:
        worse, equal, capped = look_at_blocks(u, p, n, theta)
    return worse, equal, capped


@vector_kernel
def largest_below(u, n, limit):
    """Return the largest element of u[:n] that is smaller than limit; -1 if there is none."""
    found = -1.0
    for j in range(n):
        x = u[j] if u[j] < limit else -1.0
        found = x if x > found else found
    return found


@inlined
def ends(u, p, n):
    """Return the mass worse than the best outcome, and sum_j p_j u_j."""
    worse, total = ends_of_blocks(u, p, n, 0.0)
    for j in range(n - n % LANES, n):  # a short row
        worse += p[j] if u[j] > 0.0 else 0.0
        total += p[j] * u[j]
    return worse, total


@inlined
def is_clear(worse, equal, budget):
    """Return whether the budget runs out at this theta, and certainly at no other."""
    close = CLOSE * (worse + equal + budget)
    return worse <= budget - close and budget + close < worse + equal


@kernel
def search(u, p, n, budget, guess, worse, equal, capped):
    """Narrow down (lo, hi) until theta is found; for `least_sum`, where its guess was wrong or there was none."""
    lo, hi = 0.0, np.inf
    worse_lo, sum_hi = ends(u, p, n)  # mass worse than lo: more than the budget; sum of p u below hi
    if worse_lo <= budget:
        return 0.0, 0.0, 2, worse_lo <= budget - CLOSE * (worse_lo + budget)
    worse_hi, sum_lo = 0.0, 0.0  # mass at hi and worse: at most the budget; sum of p u up to lo
    if guess > 0.0:
        if worse > budget:
            lo, worse_lo, sum_lo = guess, worse, capped - guess * worse
        else:
            hi, worse_hi, sum_hi = guess, worse + equal, capped - guess * (worse + equal)
    exact = False
    looks = 2
    while True:
        # The mean of what lies between lo and hi splits it, unless it is all one value. Near hi, take outcome by outcome.
        theta = (sum_hi - sum_lo) / (worse_lo - worse_hi)
        if exact or not lo < theta < hi or budget - worse_hi < NEAR * (worse_lo - worse_hi):
            theta = largest_below(u, n, hi)
            if theta <= lo:  # rounding of the weights: nothing is left between, the budget runs out at hi
                return sum_hi + hi * (worse_hi - budget), hi, looks, False
        looks += 1
        worse, equal, capped = look(u, p, n, theta)
        if worse <= budget < worse + equal:
            return capped - budget * theta, theta, looks, is_clear(worse, equal, budget)
        if worse > budget:
            exact = worse == worse_lo
            lo, worse_lo, sum_lo = theta, worse, capped - theta * worse
        else:
            exact = worse + equal == worse_hi
            hi, worse_hi, sum_hi = theta, worse + equal, capped - theta * (worse + equal)


@kernel
def least_sum(u, p, n, budget, guess):
    """Return max_theta [ sum_j p_j min(u_j, theta) - budget theta ], the theta where it is reached, and the number of passes.

    u >= 0 and p: (n,) values and masses, padded (see `pad`); budget >= 0. guess: the theta to try first, 0 for none. A guess saves
    passes and changes nothing: theta is one of the outcomes, found exactly, and the sum depends on it alone.
    """
    worse, equal, capped = 0.0, 0.0, 0.0
    if guess > 0.0:
        worse, equal, capped = look(u, p, n, guess)
        if is_clear(worse, equal, budget):
            return capped - budget * guess, guess, 1
    value, theta, looks, clear = search(u, p, n, budget, guess, worse, equal, capped)
    if guess > 0.0 and not clear:
        value, theta, more, _ = search(u, p, n, budget, 0.0, 0.0, 0.0, 0.0)
        looks += more
    return value, theta, looks


@inlined
def position(u, n, theta):
    """Return the first place of theta in u[:n]; -1 if it is not there."""
    for j in range(n):
        if u[j] == theta:
            return j
    return -1
