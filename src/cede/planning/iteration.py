"""No horizon: policy iteration (Howard 1960) over sets of tables, where iterating values is too slow.

The Bellman operator T takes a minimum over agents in control and over all tables in sets. The tables that attain it at x make a
chain with matrix P, the slope of T at x. Newton's method for T x = x + level (Puterman and Brumelle 1979) goes to x + e with

    e + level = f + g P e,    f = T x - x.

It takes a few rounds, even if the chain mixes slowly. An error of P or of a minimum slows it down, but does not change the result,
which is certified by the same bounds as every other x (fixed_point.py).

The chain is solved by elimination of places without subtraction (Grassmann, Taksar and Heyman 1985): a probability of 1e-12 keeps
all its digits. A place without transitions to the remaining places is the last of a recurrent class. So there may be any number of
classes, each with its own level; then x also moves far along the levels, so that T leaves expensive classes where the sets allow
it.
"""

import numpy as np
from numba import types

from cede._kernels.compiling import kernel, unit
from cede._kernels.problem import BY_PREV_AGENT, ends_in
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede._kernels.tables import BeliefArrays
from cede.beliefs.intervals import interval, rank
from cede.beliefs.kl import lean_in_kl_ball
from cede.planning.minima import pad, says_nothing
from cede.planning.model import ModelArrays

EXTRA = 6  # rows of a system beyond its matrix, in this order
ENDS, OUT, RIGHT, TIME, LEVEL, RELATIVE = -6, -5, -4, -3, -2, -1  # chance of an end, way out, right side, steps, and the solution
NONE = 1e-15  # probabilities that rounding may leave where there is none

FLAT = 1e-12  # relative: directions shorter than this are left out of an extrapolation

VALUES, PLACES, POINTS = types.float64[:, ::1], types.int64[:, ::1], types.float64[:, :, ::1]


@unit(types.none, BeliefArrays, types.int64, types.int64, ThreadScratch)
def least_row(belief, r, n, thread):
    """Write the distribution of least mean in the set of row r to thread.p[:n]. thread.u[:n]: the values of the outcomes."""
    table, width, v, p = belief.table, belief.width[r], thread.u, thread.p
    start, size, total, columns, weights = table.start[r], table.size[r], table.total[r], table.column, table.weight
    some = belief.closed and size > 0  # only outcomes that are listed are possible
    for j in range(n):
        p[j] = 0.0 if size > 0 else 1.0 / n
    best = columns[start] if some else 0
    for j in range(size if some else n):
        i = columns[start + j] if some else j
        best = i if v[i] < v[best] else best
    if says_nothing(belief, width, size):
        for j in range(n):
            p[j] = 0.0
        p[best] = 1.0
        return
    for j in range(start, start + size):
        p[columns[j]] = weights[j] / total
    if width == 0.0:
        return
    if belief.kl:
        base = v[best]
        for j in range(n):
            v[j] = v[j] - base if p[j] > 0.0 else 0.0
        lean_in_kl_ball(v, p, pad(v, p, n), best, width)
        return
    order, heap = thread.ranked[0], thread.heap
    if belief.linear > 0.0:
        rank(v, n, order, heap)
        left = 1.0
        for j in range(n):
            heap[j] = 0 if some else 1
        for j in range(start, start + size):
            heap[columns[j]] = 1  # it is possible
        for j in range(n):
            left -= interval(p[j], width, belief.linear)[0] if heap[j] else 0.0
        for i in range(n):
            j = order[i]
            if heap[j]:
                least, most = interval(p[j], width, belief.linear)
                more = min(left, most - least) if left > NONE else 0.0
                p[j] = least + more
                left -= more
        return
    rank(v, n, order, heap)
    left = min(0.5 * width, 1.0 - p[best])
    for i in range(n - 1, -1, -1):
        j = order[i]
        if j != best:
            away = p[j] if p[j] <= left + NONE else left
            p[j] -= away
            p[best] += away
            left = max(0.0, left - away)


@unit(types.int64, ModelArrays, types.int16[:, ::1], VALUES, types.boolean[:, ::1], PLACES, VALUES, PassScratch, ThreadScratch)
def write_chain(model, policy, x, reached, place, system, scratch, thread):
    """Write the slope of the Bellman operator at x, (S, D), to system[:n, :n], with the discount in it; return n.

    Must follow a backup of x, which has written policy, (S, D). place: (S, D), written: the numbers of the reached places, -1
    elsewhere.
    """
    problem, agents, environment = model.problem, model.agents, model.environment
    n_states, n_agents = x.shape
    n_actions, n, adds_up = environment.row.shape[1], 0, scratch.arrival.size > 0
    for s in range(n_states):
        for prev in range(n_agents):
            place[s, prev] = n if reached[s, prev] else -1
            n += reached[s, prev]
    for i in range(n):
        for j in range(n):
            system[i, j] = 0.0
    u, p, y = thread.u, thread.p, thread.y
    for s in range(n_states):
        for prev in range(n_agents):
            i = place[s, prev]
            if i < 0:
                continue
            if ends_in(problem, s):
                system[i, i] = problem.discount
                continue
            d = np.int64(policy[s, prev])
            r = agents.row[problem.slot[d] + (prev if problem.vary[d] == BY_PREV_AGENT else 0), s]
            for a in range(n_actions):
                u[a] = problem.env_cost[s, a] + scratch.x[environment.row[s, a], thread.same[d]]
            least_row(agents, r, n_actions, thread)
            for a in range(n_actions):
                y[a] = p[a]
            for a in range(n_actions):
                if y[a] > 0.0:
                    for to in range(n_states):
                        u[to] = scratch.arrival[to, d] if adds_up else x[to, d]
                    least_row(environment, environment.row[s, a], n_states, thread)
                    for to in range(n_states):
                        if p[to] > 0.0 and place[to, d] >= 0:
                            system[i, place[to, d]] += problem.discount * y[a] * p[to]
    return n


@unit(types.int64, VALUES, types.int64, types.float64)
def eliminate(system, n, end):
    """Eliminate the places of a chain, system[:n, :n], from the last to the first. end: the chance that a run ends with a step.

    Write to system[OUT] the probability that a place is left for an earlier place, an end, or the last place of a class; 0: it is
    itself the last of a recurrent class. Return the number of classes.
    """
    ends, out, closed = system[ENDS], system[OUT], 0
    for k in range(n):
        ends[k] = end
    for k in range(n - 1, -1, -1):
        total = ends[k]
        for j in range(k):
            total += system[k, j]
        if closed:
            for j in range(k + 1, n):
                total += system[k, j] if out[j] == 0.0 else 0.0
        out[k] = total
        if total == 0.0:
            closed += 1
            continue
        for i in range(k):
            factor = system[i, k] / total
            if factor > 0.0:
                ends[i] += factor * ends[k]
                for j in range(k):
                    system[i, j] += factor * system[k, j]
                if closed:
                    for j in range(k + 1, n):
                        if out[j] == 0.0:
                            system[i, j] += factor * system[k, j]
    return closed


@kernel
def carry(system, n, right):
    """Add to right[i] the expected sum of right over the places, eliminated before i, that are visited on the way from i."""
    out = system[OUT]
    for k in range(n - 1, -1, -1):
        if out[k] > 0.0:
            for i in range(k):
                if system[i, k] > 0.0:
                    right[i] += system[i, k] / out[k] * right[k]


@kernel
def insert(system, n, right, result):
    """Write the solution to result by back substitution; that of the last place of each class is there already."""
    out = system[OUT]
    for k in range(n):
        if out[k] > 0.0:
            total = right[k]
            for j in range(k):
                total += system[k, j] * result[j]
            for j in range(k + 1, n):
                if out[j] == 0.0:
                    total += system[k, j] * result[j]
            result[k] = total / out[k]


@unit(types.none, VALUES, types.int64, types.float64)
def solve_eliminated(system, n, discount):
    """Solve relative + level = right + discount P relative for a chain that was eliminated, with right sides system[RIGHT].

    Without discount the level of a place is the long-run mean of right, and relative is 0 in the last place of each class. With a
    discount the level is the same for all places, chosen so that relative is small.
    """
    out, right, time, level, relative = system[OUT], system[RIGHT], system[TIME], system[LEVEL], system[RELATIVE]
    for k in range(n):
        time[k], level[k], relative[k] = 1.0, right[k], 0.0
    carry(system, n, level)  # what is met in a round from a place back to it, or to one before it
    if discount < 1.0:
        insert(system, n, level, relative)
        middle = (1.0 - discount) * relative[0]
        for k in range(n):
            level[k] = middle
    else:
        carry(system, n, time)
        for k in range(n):
            level[k], time[k] = level[k] / time[k] if out[k] == 0.0 else 0.0, 0.0
        insert(system, n, time, level)
    for k in range(n):
        relative[k], time[k] = 0.0, right[k] - level[k]
    carry(system, n, time)
    insert(system, n, time, relative)


# ------------------------------------------------------------------------------------------------- extrapolation


@unit(types.int64, POINTS, POINTS, types.boolean[:, ::1], types.int64, types.int64, VALUES)
def solve_normal(points, images, reached, newest, n, normal):
    """Find the weights of an extrapolation by least squares, and write them to normal[:, MEMORY]; return their number.

    newest: place of the last point; n: the number of points before it.
    """
    memory, used = points.shape[0], 0
    for i in range(n):
        a = (newest - 1 - i) % memory
        for j in range(n + 1):
            b = (newest - 1 - j) % memory
            total = 0.0
            for s in range(points.shape[1]):
                for d in range(points.shape[2]):
                    if not reached[s, d]:
                        continue
                    last = images[newest, s, d] - points[newest, s, d]
                    mine = last - (images[a, s, d] - points[a, s, d])
                    total += mine * (last - (images[b, s, d] - points[b, s, d]) if j < n else last)
            normal[i, j if j < n else memory] = total
    for i in range(n):  # Gauss's elimination of a symmetric matrix; a direction that depends on those before ends it
        if not normal[i, i] > FLAT * max(abs(normal[0, 0]), 1e-300) or normal[i, i] <= 0.0:
            break
        used += 1
        for k in range(i + 1, n):
            factor = normal[k, i] / normal[i, i]
            for j in range(i, n):
                normal[k, j] -= factor * normal[i, j]
            normal[k, memory] -= factor * normal[i, memory]
    for i in range(used - 1, -1, -1):
        for j in range(i + 1, used):
            normal[i, memory] -= normal[i, j] * normal[j, memory]
        normal[i, memory] /= normal[i, i]
    return used
