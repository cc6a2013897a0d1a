"""The inner minimum: the least mean of v over the distributions within L1 distance `width` of a centre.

With u = v - min v >= 0 and b = width / 2, moving mass b from the worst outcomes onto the best leaves

    min v + max_{theta >= 0} [ sum_j p_j min(u_j, theta) - b theta ],

a concave piecewise linear function of theta whose maximum lies at the outcome where the mass above falls to b. We search
that outcome with passes over the row instead of sorting it; see docs/decisions/0003-threshold-instead-of-sorting.md.

Of distributions within an interval around every outcome the least mean is found by filling: every outcome gets its least mass,
and the best ones get what is left, each up to its most. A heap hands them out, so that only those which get something are sorted.
"""

from math import sqrt

import numpy as np

from cede._kernels.compiling import inlined, kernel, vector_kernel
from cede._kernels.data import BLOCK

FEW = 6  # outcomes up to which a row is short

# Share of the mass in question below which `search` goes from the worst outcome downward instead of halving.
NEAR = 0.03

# Sums of masses are exact if the weights are counts. Others round: a budget this close to a sum, relative to both, may seem to run
# out at either of two outcomes, and what is found must not depend on where the search began.
CLOSE = 1e-11


@inlined
def look_at(u, p, n, theta):
    """Mass worse than theta, mass equal to it, and sum_j p_j min(u_j, theta)."""
    worse, equal, capped = 0.0, 0.0, 0.0
    for j in range(n):
        x, q = u[j], p[j]
        worse += q if x > theta else 0.0
        equal += q if x == theta else 0.0
        capped += q * (x if x < theta else theta)
    return worse, equal, capped


# Two functions with names of their own: numba's cache on disk tells kernels apart by name, not by how they are compiled.
@kernel
def look_at_few(u, p, n, theta):
    return look_at(u, p, n, theta)


@vector_kernel
def look_at_many(u, p, n, theta):
    return look_at(u, p, n, theta)


@inlined
def look(u, p, n, theta):
    """`look_at`, compiled for short rows and for whole blocks."""
    if n <= FEW:
        worse, equal, capped = look_at_few(u, p, n, theta)
    else:
        worse, equal, capped = look_at_many(u, p, n, theta)
    return worse, equal, capped


@vector_kernel
def largest_below(u, n, limit):
    """The largest element of u[:n] that is smaller than limit; -1 if there is none."""
    found = -1.0
    for j in range(n):
        x = u[j] if u[j] < limit else -1.0
        found = x if x > found else found
    return found


@vector_kernel
def ends(u, p, n):
    """Mass worse than the best outcome, and sum_j p_j u_j."""
    worse, total = 0.0, 0.0
    for j in range(n):
        worse += p[j] if u[j] > 0.0 else 0.0
        total += p[j] * u[j]
    return worse, total


@inlined
def is_clear(worse, equal, budget):
    """Does the budget run out here, and certainly nowhere else?"""
    close = CLOSE * (worse + equal + budget)
    return worse <= budget - close and budget + close < worse + equal


@kernel
def search(u, p, n, budget, guess, worse, equal, capped):
    """`least_sum` where the guess, if there is one, did not do: narrow down (lo, hi) until theta is found."""
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
    """max_theta [ sum_j p_j min(u_j, theta) - budget theta ], the theta where it is reached, and how many passes that took.

    u >= 0 and p are padded (see `pad`); budget >= 0. `guess` is where to look first
    (0: no idea). It saves passes and changes nothing: theta is an outcome, found exactly, and the sum depends on it alone.
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


@kernel
def position(u, n, theta):
    """The first place of theta in u[:n]."""
    for j in range(n):
        if u[j] == theta:
            return j
    return -1


@inlined
def pad(u, p, n):
    """Fill u and p of a long row with zeros up to a whole block; the padded length."""
    padded = n if n <= FEW else (n + BLOCK - 1) // BLOCK * BLOCK
    for j in range(n, padded):
        u[j] = 0.0
        p[j] = 0.0
    return padded


@inlined
def sink(heap, n, at, keys):
    """Restore the order of heap[:n], whose element at one place may be too large: keys[heap[.]] least first."""
    moving = heap[at]
    key = keys[moving]
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and keys[heap[child + 1]] < keys[heap[child]]:
            child += 1
        if keys[heap[child]] >= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moving


@kernel
def rank(keys, n, order, heap):
    """order: the places of keys[:n], from the least to the largest."""
    for i in range(n):
        heap[i] = i
    for at in range(n // 2 - 1, -1, -1):
        sink(heap, n, at, keys)
    for i in range(n):
        order[i] = heap[0]
        heap[0] = heap[n - 1 - i]
        sink(heap, n - 1 - i, 0, keys)


@inlined
def interval(q, width, linear):
    """The least and the most mass of an outcome of frequency q."""
    half = sqrt(2.0 * max(0.0, q * (1.0 - q)) * width) + linear * width
    return max(0.0, q - half), min(1.0, q + half)


@kernel
def least_in_intervals(u, p, n, total, width, linear, heap, others, values, best, ranked, seen, number):
    """The least mean of u over distributions within the intervals around p[:n] / total.

    Beside these outcomes any of so many others may come, with the interval of what was never seen: `ranked` from the best upward,
    `values` what they are worth, not counted from `best` as u is. Among them are the outcomes themselves: seen[.] == number.
    """
    left, value = 1.0, 0.0
    for j in range(n):
        least, _ = interval(p[j] / total, width, linear)
        left -= least
        value += least * u[j]
        heap[j] = j
    for at in range(n // 2 - 1, -1, -1):
        sink(heap, n, at, u)
    _, unseen = interval(0.0, width, linear)
    at = 0
    while left > 0.0:
        while at < others and seen[ranked[at]] == number:
            at += 1
        if at < others and (n == 0 or values[at] - best <= u[heap[0]]):
            x, room = values[at] - best, unseen
            at += 1
        elif n > 0:
            j = heap[0]
            least, most = interval(p[j] / total, width, linear)
            x, room = u[j], most - least
            n -= 1
            heap[0] = heap[n]
            sink(heap, n, 0, u)
        else:  # rounding: nothing can take what is left
            break
        taken = min(left, room)
        value += taken * x
        left -= taken
    return value
