"""Rows: what each row of a belief leads to at best, of the environment and of an agent."""

import numpy as np

from cede._kernels.compiling import inlined
from cede._kernels.minimum import least_in_intervals, least_sum, pad, position, rank


@inlined
def equal_columns(v, same):
    """same[d]: the first agent whose column of v equals column d. They share every environment minimum."""
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
    """x[:n].min() without the price of NumPy's."""
    result = x[0]
    for i in range(1, n):
        result = min(result, x[i])
    return result


@inlined
def look_ahead(after, hands):
    """What all rows of a time step need to know of v_{t+1} = after, (S, D)."""
    n_states, n_agents = after.shape
    equal_columns(after, hands.same)
    for d in range(n_agents):
        hands.uniform_width[d] = -1.0
        hands.is_ranked[d] = False
        least, most = after[0, d], after[0, d]
        for s in range(1, n_states):
            least = min(least, after[s, d])
            most = max(most, after[s, d])
        hands.least[d] = least
        hands.constant[d] = least == most


@inlined
def best_of_row(columns, start, n, after, d):
    """The least v_{t+1}(., d) of the outcomes of a row."""
    best = after[np.uintp(columns[start]), d]
    for j in range(1, n):
        best = min(best, after[np.uintp(columns[start + np.uintp(j)]), d])
    return best


@inlined
def row_in_intervals(environment, r, after, d, best, hands):
    """The least mean, above `best`, over the intervals of an environment row."""
    starts, sizes, totals, columns, weights, widths, _, linears, closed = environment
    start, n, total, width, linear = np.uintp(starts[r]), sizes[r], totals[r], widths[r], linears[0]
    n_states = after.shape[0]
    values, ranked = hands.ranked_value[d], hands.ranked[d]
    if not closed and not hands.is_ranked[d]:
        for s in range(n_states):
            hands.u[s] = after[s, d]
        rank(hands.u, n_states, ranked, hands.heap)
        for i in range(n_states):
            values[i] = hands.u[ranked[i]]
        hands.is_ranked[d] = True
    hands.row_number[0] += 1
    number = hands.row_number[0]
    for j in range(n):
        s = columns[start + np.uintp(j)]
        hands.u[j] = after[s, d] - best
        hands.p[j] = weights[start + np.uintp(j)]
        hands.seen[s] = number
    others = np.int64(0 if closed else n_states)
    return least_in_intervals(
        hands.u, hands.p, n, total, width, linear, hands.heap, others, values, best, ranked, hands.seen, number
    )


@inlined
def row_minima(environment, after, r, stamp, guess, later_guess, x, marks, hands):
    """x[r, d] = min_p sum_s' p(s') v(s', d) over the set of row r, for every agent that needs it.

    guess[r, d]: the outcome at which the mass ran out when this step was planned last (-1: never); later_guess: one step later.
    """
    starts, sizes, totals, columns, weights, widths, _, linears, closed = environment
    u, p, _, _, _, same, least, constant, uniform, uniform_width, work, _, _, _, _, _, _ = hands
    n_states, n_agents = after.shape
    n_rows = x.shape[0]
    width, start, n = widths[r], np.uintp(starts[r]), sizes[r]  # unsigned: no check for places counted from the end
    linear = linears[0]
    says_nothing = width >= 2.0 if linear == 0.0 else n == 0 or linear * width >= 1.0
    padded = -1  # p is not filled yet
    helpful = -1  # where the mass ran out for another agent
    for e in range(n_agents):
        d = same[e]
        if marks[r, e] != stamp or (d < e and marks[r, d] == stamp):
            continue
        marks[r, d] = stamp  # done: for all agents whose column is the same
        best = least[d]
        if closed and not constant[d]:
            best = best_of_row(columns, start, n, after, d)
        if constant[d] or says_nothing:
            x[r, d] = best
            continue
        work[0] += 1
        if n == 0:
            if width != uniform_width[d]:  # unvisited rows share one width as a rule: one pass serves them all
                for j in range(n_states):
                    u[j] = after[j, d] - best
                    p[j] = 1.0
                at = guess[n_rows, d]
                known = u[at] if at >= 0 else 0.0
                value, theta, looks = least_sum(u, p, pad(u, p, n_states), 0.5 * width * n_states, known)
                guess[n_rows, d] = at if theta == known else position(u, n_states, theta)
                uniform[d], uniform_width[d] = best + value / n_states, width
                work[1] += n_states
                work[2] += looks * n_states
            x[r, d] = uniform[d]
            continue
        work[1] += n
        value = 0.0
        if width == 0.0:
            for j in range(n):
                value += weights[start + np.uintp(j)] * (after[np.uintp(columns[start + np.uintp(j)]), d] - best)
        elif linear > 0.0:
            value = totals[r] * row_in_intervals(environment, r, after, d, best, hands)
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
            value, theta, looks = least_sum(u, p, padded, 0.5 * width * totals[r], known)
            helpful = at if theta == known else position(u, n, theta)
            guess[r, d] = helpful
            work[2] += looks * n
        x[r, d] = best + value / totals[r]


@inlined
def known_mean(starts, sizes, totals, columns, weights, r, s, cost, x, d, row):
    """sum_a p(a) (c_e(s, a) + x(s, a)) for an agent whose row r is certain; only the actions that it takes are looked at.

    Summed as differences from the first action: where all actions are equal there is no rounding, and ties stay ties.
    """
    first = columns[starts[r]]
    base = cost[s, first] + x[row[s, first], d]
    result = 0.0
    for j in range(starts[r] + 1, starts[r] + sizes[r]):
        a = columns[j]
        result += weights[j] * (cost[s, a] + x[row[s, a], d] - base)
    return base + result / totals[r]


@inlined
def agent_in_intervals(starts, sizes, totals, columns, weights, width, linear, r, y, n_actions, hands):
    """min_p sum_a p(a) y(a) over the intervals of the agent's row r."""
    result = smallest(y, n_actions)
    if sizes[r] > 0 and linear * width < 1.0:
        for a in range(n_actions):
            hands.u[a] = y[a] - result
            hands.p[a] = 0.0
        for j in range(starts[r], starts[r] + sizes[r]):
            hands.p[columns[j]] = weights[j]
        sets, none = (totals[r], width, linear, hands.heap), np.int64(0)
        ranked, values = hands.ranked[0], hands.ranked_value[0]
        result += least_in_intervals(hands.u, hands.p, n_actions, *sets, none, values, result, ranked, hands.seen, none)
    return result


@inlined
def agent_minimum(starts, sizes, totals, columns, weights, width, r, y, n_actions, guess, u, p):
    """min_p sum_a p(a) y(a) over the set of the agent's row r."""
    result = smallest(y, n_actions)
    if width < 2.0:
        start, n, total = starts[r], sizes[r], totals[r]
        if n == 0:
            n, total = n_actions, float(n_actions)
            for j in range(n):
                u[j] = y[j] - result
                p[j] = 1.0
        else:
            for j in range(n):
                u[j] = y[columns[start + j]] - result
                p[j] = weights[start + j]
        known = u[guess[r]] if guess[r] >= 0 else 0.0
        value, theta, _ = least_sum(u, p, pad(u, p, n), 0.5 * width * total, known)
        if theta != known:
            guess[r] = position(u, n, theta)
        result += value / total
    return result
