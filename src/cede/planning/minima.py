"""Minima: the least expected value over the set of one row of a belief, of the environment and of an agent."""

from math import exp

import numpy as np
from numba import types

from cede._kernels.compiling import inlined, kernel, unit
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede._kernels.tables import BeliefArrays
from cede._kernels.vectors import BLOCK, FEW
from cede.beliefs.intervals import least_in_intervals, rank
from cede.beliefs.kl import NOTHING, least_in_kl_ball
from cede.beliefs.l1 import is_clear, least_sum, look_at_few, position

INT = types.int64


@inlined
def pad(u, p, n):
    """Fill u and p of a long row with zeros up to a whole block, and return the padded length."""
    padded = n if n <= FEW else (n + BLOCK - 1) // BLOCK * BLOCK
    for j in range(n, padded):
        u[j] = 0.0
        p[j] = 0.0
    return padded


@unit(types.float64, ThreadScratch, INT, types.float64, types.float64)
def least_in_kl_ball_of(thread, n, total, rho):
    """Call `least_in_kl_ball` with thread.u and thread.p, whose first n elements are filled."""
    if n == 1:
        return thread.u[0] * exp(-rho)
    return least_in_kl_ball(thread.u, thread.p, pad(thread.u, thread.p, n), total, rho)


@unit(types.Tuple((types.float64, types.float64, INT)), ThreadScratch, INT, types.float64, types.float64)
def least_sum_of(thread, n, budget, guess):
    """Call `least_sum` of thread.u and thread.p, whose first n elements are filled and padded."""
    return least_sum(thread.u, thread.p, n, budget, guess)


@inlined
def quick_least_sum(thread, u, p, n, budget, guess):
    """Return the result of `least_sum`; for a short row with a right guess without the overhead of a call."""
    if guess > 0.0 and n <= FEW:
        worse, equal, capped = look_at_few(u, p, n, guess)
        if is_clear(worse, equal, budget):
            return capped - budget * guess, guess, 1
    return least_sum_of(thread, n, budget, guess)


@unit(types.float64, BeliefArrays, INT, types.float64[:, ::1], INT, types.float64, ThreadScratch)
def environment_in_intervals(belief, r, after, d, best, thread):
    """Return the least mean of after[:, d] - best over the intervals of environment row r. after: (S, D) v_{t+1}."""
    columns, weights = belief.table.column, belief.table.weight
    start, n, closed = belief.table.start[r], belief.table.size[r], belief.closed
    u, p, seen, heap = thread.u, thread.p, thread.seen, thread.heap
    ranked, ranked_value = thread.ranked[d], thread.ranked_value[d]
    n_states = after.shape[0]
    if not closed and not thread.is_ranked[d]:
        for s in range(n_states):
            u[s] = after[s, d]
        rank(u, n_states, ranked, heap)
        for i in range(n_states):
            ranked_value[i] = u[ranked[i]]
        thread.is_ranked[d] = True
    thread.row_number += 1
    number = thread.row_number
    for j in range(n):
        s = columns[start + j]
        u[j] = after[s, d] - best
        p[j] = weights[start + j]
        seen[s] = number
    others = np.int64(0 if closed else n_states)
    total, width, linear = belief.table.total[r], belief.width[r], belief.linear
    return least_in_intervals(u, p, n, total, width, linear, heap, others, ranked_value, best, ranked, seen, number)


@unit(types.float64, BeliefArrays, INT, types.float64[::1], types.float64, ThreadScratch)
def agent_in_intervals(belief, r, y, least, thread):
    """Return the least mean of y - least over the intervals of agents' row r. y: (A,) what each action leads to; least: of y."""
    columns, weights, start = belief.table.column, belief.table.weight, belief.table.start[r]
    u, p = thread.u, thread.p
    for a in range(y.size):
        u[a] = y[a] - least
        p[a] = 0.0
    for j in range(start, start + belief.table.size[r]):
        p[columns[j]] = weights[j]
    total, width, linear, none = belief.table.total[r], belief.width[r], belief.linear, np.int64(0)
    ranked, values = thread.ranked[0], thread.ranked_value[0]
    return least_in_intervals(u, p, y.size, total, width, linear, thread.heap, none, values, least, ranked, thread.seen, none)


@inlined
def find_equal_columns(v, same):
    """Write to same[d] the first agent whose column of v, (S, D), equals column d. They share every environment minimum."""
    n_states, n_agents = v.shape
    for d in range(n_agents):
        same[d] = d
        for first in range(d):
            s = 0
            while s < n_states and v[s, first] == v[s, d]:
                s += 1
            if s == n_states:
                same[d] = first
                break


@inlined
def smallest(x, n):
    """Return the least of x[:n]."""
    result = x[0]
    for i in range(1, n):
        result = min(result, x[i])
    return result


@kernel
def look_ahead(after, thread):
    """Precompute the data of v_{t+1} = after, (S, D), that all rows of a time step share."""
    n_states, n_agents = after.shape
    find_equal_columns(after, thread.same)
    leasts, constant, uniform_width, is_ranked = thread.least, thread.constant, thread.uniform_width, thread.is_ranked
    for d in range(n_agents):
        uniform_width[d] = -1.0
        is_ranked[d] = False
        least, most = after[0, d], after[0, d]
        for s in range(1, n_states):
            least = min(least, after[s, d])
            most = max(most, after[s, d])
        leasts[d] = least
        constant[d] = least == most


@unit(types.float64, types.float64[:, ::1], INT, types.float64, types.float64, INT, types.int32[:, ::1], ThreadScratch)
def uniform_minimum(after, d, best, width, kl, guess, thread):
    """Return the least mean of after[:, d] over the ball around the uniform distribution, for rows without visits.

    kl: whether it is one of relative entropy. guess: (rows + 1, D); the last row is for this.
    """
    u, p, work = thread.u, thread.p, thread.work
    n_states, last = after.shape[0], guess.shape[0] - 1
    for j in range(n_states):
        u[j] = after[j, d] - best
        p[j] = 1.0
    if kl and width > 0.0:
        work[1] += n_states
        return best + least_in_kl_ball_of(thread, n_states, float(n_states), width)
    at = guess[last, d]
    known = u[at] if at >= 0 else 0.0
    value, theta, looks = least_sum_of(thread, pad(u, p, n_states), 0.5 * width * n_states, known)
    guess[last, d] = at if theta == known else position(u, n_states, theta)
    work[1] += n_states
    work[2] += looks * n_states
    return best + value / n_states


@inlined
def says_nothing(belief, width, n):
    """Return whether the set of a row with n outcomes contains every distribution."""
    if belief.kl:
        return width >= NOTHING
    if belief.linear > 0.0:
        return n == 0 or belief.linear * width >= 1.0
    return width >= 2.0


@unit(types.none, BeliefArrays, INT, types.float64[:, ::1], INT, INT, INT, INT, PassScratch, ThreadScratch)
def environment_minima(belief, t, after, stamp, first, last, only, scratch, thread):  # noqa: PLR0912 (one loop, compiled as one)
    """Write scratch.x[r, d] = min_p sum_s' p(s') v(s', d) over the set of row r, for every agent d that needs it.

    after: (S, D) v = v_{t+1}. Rows from first to last (exclusive); or, if only is not -1, those of these actions in that place.
    marks[r, d] == stamp: agent d needs the row. guess[r, d]: the outcome at which the mass ran out when this step was planned last
    (-1: never); later_guess: the same of the step after it.
    """
    table, widths, row, x, marks = belief.table, belief.width, belief.row, scratch.x, scratch.marks
    starts, sizes, totals, columns, weights = table.start, table.size, table.total, table.column, table.weight
    u, p, same, leasts, constant, work = thread.u, thread.p, thread.same, thread.least, thread.constant, thread.work
    guess, later_guess = scratch.guess[t], scratch.guess[min(t + 1, scratch.guess.shape[0] - 1)]
    n_agents, linear, kl, closed = after.shape[1], belief.linear, belief.kl, belief.closed
    for i in range(first, last):
        r = row[only, i] if only >= 0 else i
        width, start, n, total = widths[r], np.uintp(starts[r]), sizes[r], totals[r]  # unsigned: no check for negative places
        anything = says_nothing(belief, width, n)
        padded = -1  # p is not filled yet
        helpful = -1  # where the mass ran out for another agent
        for e in range(n_agents):
            d = same[e]
            if marks[r, e] != stamp or (d < e and marks[r, d] == stamp):
                continue
            marks[r, d] = stamp  # done for all agents whose column is the same
            best = leasts[d]
            if closed and not constant[d]:
                best = after[np.uintp(columns[start]), d]
                for j in range(1, n):
                    best = min(best, after[np.uintp(columns[start + np.uintp(j)]), d])
            if constant[d] or anything:
                x[r, d] = best
                continue
            work[0] += 1
            if n == 0:
                if width != thread.uniform_width[d]:  # rows that were never seen mostly share a width: one pass serves them all
                    thread.uniform[d], thread.uniform_width[d] = uniform_minimum(after, d, best, width, kl, guess, thread), width
                x[r, d] = thread.uniform[d]
                continue
            work[1] += n
            value = 0.0
            if width == 0.0:
                for j in range(n):
                    value += weights[start + np.uintp(j)] * (after[np.uintp(columns[start + np.uintp(j)]), d] - best)
            elif linear > 0.0:
                value = total * environment_in_intervals(belief, r, after, d, best, thread)
            elif kl:
                for j in range(n):
                    u[j] = after[np.uintp(columns[start + np.uintp(j)]), d] - best
                    p[j] = weights[start + np.uintp(j)]
                value = total * least_in_kl_ball_of(thread, n, total, width)
            else:
                for j in range(n):
                    u[j] = after[np.uintp(columns[start + np.uintp(j)]), d] - best
                if padded < 0:
                    for j in range(n):
                        p[j] = weights[start + np.uintp(j)]
                    padded = pad(u, p, n)
                at = guess[r, d]
                if at < 0:
                    at = later_guess[r, d]
                if at < 0:
                    at = helpful
                known = u[at] if at >= 0 else 0.0
                value, theta, looks = quick_least_sum(thread, u, p, padded, 0.5 * width * total, known)
                helpful = at if theta == known else position(u, n, theta)
                guess[r, d] = helpful
                work[2] += looks * n
            x[r, d] = best + value / total


@inlined
def known_mean(table, r, s, here, cost, x, d, row):
    """Return sum_a p(a) (c_e(s, a) + x(s, a)) for an agent whose row r is certain; only the actions that it takes are looked at.
    here: the place of state s among the rows of the environment.

    Summed as differences from the first action: where all actions are equal there is no rounding, and ties stay ties.
    """
    columns, weights, start = table.column, table.weight, table.start[r]
    first = columns[start]
    base = cost[s, first] + x[row[here, first], d]
    result = 0.0
    for j in range(start + 1, start + table.size[r]):
        a = columns[j]
        result += weights[j] * (cost[s, a] + x[row[here, a], d] - base)
    return base + result / table.total[r]


@unit(types.float64, BeliefArrays, INT, INT, PassScratch, ThreadScratch)
def agent_minimum(belief, r, n_actions, scratch, thread):
    """Return min_p sum_a p(a) y(a) over the set of the agent's row r. thread.y[:n_actions]: what each action leads to."""
    table, width, y, guess = belief.table, belief.width[r], thread.y[:n_actions], scratch.agent_guess
    result = smallest(y, n_actions)
    if says_nothing(belief, width, table.size[r]):
        return result
    if belief.linear > 0.0:
        result += agent_in_intervals(belief, r, y, result, thread)
    else:
        u, p = thread.u, thread.p
        start, n, total = table.start[r], table.size[r], table.total[r]
        if n == 0:
            n, total = n_actions, float(n_actions)
            for j in range(n):
                u[j] = y[j] - result
                p[j] = 1.0
        else:
            columns, weights = table.column, table.weight
            for j in range(n):
                u[j] = y[columns[start + j]] - result
                p[j] = weights[start + j]
        if belief.kl and width > 0.0:
            return result + least_in_kl_ball_of(thread, n, total, width)
        known = u[guess[r]] if guess[r] >= 0 else 0.0
        value, theta, _ = quick_least_sum(thread, u, p, pad(u, p, n), 0.5 * width * total, known)
        if theta != known:
            guess[r] = position(u, n, theta)
        result += value / total
    return result
