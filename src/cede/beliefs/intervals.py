"""The inner minimum over intervals: the least mean of v over distributions within an interval around each outcome.

Every outcome gets its least mass; the rest of the mass goes to the best outcomes, each up to its upper bound. A heap yields them in
order, so that only those that get mass are sorted.
"""

from math import sqrt

from cede._kernels.compiling import kernel


@kernel
def sink(heap, n, at, keys):
    """Restore the order of heap[:n], least keys[heap[.]] first, after the key of one element has grown."""
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
    """Write the places of keys[:n] to order, from the least key to the largest. heap: (n,) scratch."""
    for i in range(n):
        heap[i] = i
    for at in range(n // 2 - 1, -1, -1):
        sink(heap, n, at, keys)
    for i in range(n):
        order[i] = heap[0]
        heap[0] = heap[n - 1 - i]
        sink(heap, n - 1 - i, 0, keys)


@kernel
def interval(q, width, linear):
    """Return the least and the most mass of an outcome of frequency q."""
    half = sqrt(2.0 * max(0.0, q * (1.0 - q)) * width) + linear * width
    return max(0.0, q - half), min(1.0, q + half)


@kernel
def least_in_intervals(u, p, n, total, width, linear, heap, others, values, best, ranked, seen, number):
    """Return the least mean of u over distributions within the intervals around p[:n] / total.

    `others` outcomes are possible beside these, each with the interval of an outcome without counts. ranked: (others,) the best
    first; values: (others,) their values, not relative to `best` as u is. The n outcomes are among them: they have
    seen[outcome] == number. heap: scratch.
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
            x, space = values[at] - best, unseen
            at += 1
        elif n > 0:
            j = heap[0]
            least, most = interval(p[j] / total, width, linear)
            x, space = u[j], most - least
            n -= 1
            heap[0] = heap[n]
            sink(heap, n, 0, u)
        else:  # rounding: nothing can take what is left
            break
        taken = min(left, space)
        value += taken * x
        left -= taken
    return value
