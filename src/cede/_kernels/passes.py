"""The backward pass: one for planning and for evaluation, with any number of threads, over all states or one.

Per time step t, with v = v_{t+1} and Theorem 1's recursion

    v_t(s, d) = min_d' [ c_c(d') + c_x(d, d') + min_{p_d'} sum_a p_d'(a|s) ( c_e(s, a) + min_p sum_s' p(s'|s, a) v(s', d') ) ]

it takes the minima from the inside out: the environment's for each row (s, a) and agent, the agent's, then the switch.
"""

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from cede._kernels.compiling import inlined, kernel
from cede._kernels.data import BY_PREV_AGENT, BY_TIME, FOLLOW, RAISE
from cede._kernels.luck import GOLDEN, mixed
from cede._kernels.minimum import least_in_intervals, least_sum, pad, position, rank

MARK, ENVIRONMENT, AGENTS = 0, 1, 2  # phases of a time step
ROWS_AT_ONCE, STATES_AT_ONCE = 64, 32  # how much of a phase a thread takes
PATIENCE = 20_000  # looks at another thread's work before giving the processor away


@intrinsic
def fetch_add(context, array, index, amount):
    """Add to an element that several threads change; what it was before."""

    def generate(context, builder, signature, arguments):
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, kind, view, [arguments[1]])
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), generate


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


@kernel
def same_start(switch_cost, vary, alike):
    """alike[prev]: the first previous agent from whom every hand-over costs the same. From there all is the same."""
    n_agents = alike.size
    for prev in range(n_agents):
        alike[prev] = prev
        for first in range(prev):
            equal = True
            for d in range(n_agents):
                equal = equal and switch_cost[prev, d] == switch_cost[first, d] and vary[d] != BY_PREV_AGENT
            if equal:
                alike[prev] = first
                break


@inlined
def smallest(x, n):
    """x[:n].min() without the price of NumPy's."""
    result = x[0]
    for i in range(1, n):
        result = min(result, x[i])
    return result


@inlined
def contexts(vary, t, n_agents):
    """The slots, counted from an agent's first, that can act at time t: from, to (exclusive)."""
    if vary == BY_TIME:
        return t, t + 1
    if vary == BY_PREV_AGENT:
        return 0, n_agents
    return 0, 1


@inlined
def in_use(policy, t, s, d):
    """Does the policy hand control to d in state s at time t, from any previous agent?"""
    found = False
    for prev in range(policy.shape[2]):
        found = found or policy[t, s, prev] == d
    return found


@inlined
def must_do(mode, changed, policy, before, t, s):
    """Must state s be backed up at time t? Not if a policy is followed, its value is known and nothing that it rests on changed."""
    found = mode != FOLLOW or changed[t + 1] != 0
    for prev in range(policy.shape[2]):
        found = found or policy[t, s, prev] != before[t, s, prev]
    return found


@inlined
def mark_needed(agents, row, problem, mode, policy, t, s, stamp, marks):
    """Mark the environment rows whose minimum each agent can need in state s at time t: those of actions that it may take."""
    starts, sizes, _, columns, _, widths, agent_row, _, _ = agents
    n_agents = policy.shape[2]
    for d in range(n_agents):
        if mode == FOLLOW and not in_use(policy, t, s, d):
            continue
        first, last = contexts(problem.vary[d], t, n_agents)
        for c in range(first, last):
            r = agent_row[problem.slot[d] + c, s]
            if sizes[r] == 0 or widths[r] > 0.0:
                for a in range(row.shape[1]):
                    marks[row[s, a], d] = stamp
            else:
                for j in range(starts[r], starts[r] + sizes[r]):
                    marks[row[s, columns[j]], d] = stamp


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


@kernel
def tie_break(seed, place, n):
    """A number from 0 to n - 1 that depends on the seed and the place alone."""
    return np.int64(mixed(np.uint64(seed) + np.uint64(place + 1) * GOLDEN) % np.uint64(n))


@inlined
def best_agent(q, seed, place):
    """The agent of least q; ties go to one of them at random."""
    best = smallest(q, q.size)
    ties = 0
    for d in range(q.size):
        if q[d] == best:
            ties += 1
    skip = tie_break(seed, place, ties) if ties > 1 else 0
    for d in range(q.size):
        if q[d] == best:
            if skip == 0:
                return d
            skip -= 1
    return 0  # only if a cost is not a number, which no checked problem has


@inlined
def agents_minima(agents, row, problem, mode, policy, t, s, x, agent_guess, hands):
    """m[prev, d]: what it costs if d takes over in state s at time t, before control and switching cost."""
    starts, sizes, totals, columns, weights, widths, agent_row, linear, _ = agents
    slot, vary, env_cost, _, _ = problem
    u, p, y, _, m, same, _, _, _, _, work, _, _, _, _, _, _ = hands
    n_agents, n_actions = same.size, row.shape[1]
    filled = -1  # the agent for whose column y was made
    for d in range(n_agents):
        if mode == FOLLOW and not in_use(policy, t, s, d):
            continue
        first, last = contexts(vary[d], t, n_agents)
        work[3] += last - first
        for c in range(first, last):
            r = agent_row[slot[d] + c, s]
            width = widths[r]
            if width == 0.0 and sizes[r] > 0:
                least = known_mean(starts, sizes, totals, columns, weights, r, s, env_cost, x, same[d], row)
            else:
                if filled != same[d]:
                    filled = same[d]
                    for a in range(n_actions):
                        y[a] = env_cost[s, a] + x[row[s, a], filled]
                if linear[0] > 0.0:
                    least = agent_in_intervals(starts, sizes, totals, columns, weights, width, linear[0], r, y, n_actions, hands)
                else:
                    least = agent_minimum(starts, sizes, totals, columns, weights, width, r, y, n_actions, agent_guess, u, p)
            m[c if last - first > 1 else 0, d] = least


@inlined
def switch(problem, mode, alike, m, q, policy, value, source, t, s, seed):
    """The outer minimum of Theorem 1 in state s, for every previous agent; or, with FOLLOW, the policy's choice.

    Did a value change?
    """
    _, vary, _, control_cost, switch_cost = problem
    n_agents = q.size
    changed = False
    for prev in range(n_agents):
        if mode == FOLLOW:
            d = policy[t, s, prev]
            c = prev if vary[d] == BY_PREV_AGENT else 0
            found = (control_cost[d] + switch_cost[prev, d]) + m[c, d]
        elif alike[prev] < prev:
            policy[t, s, prev] = policy[t, s, alike[prev]]
            found = value[t, s, alike[prev]]
        else:
            for d in range(n_agents):
                c = prev if vary[d] == BY_PREV_AGENT else 0
                q[d] = (control_cost[d] + switch_cost[prev, d]) + m[c, d]
            d = best_agent(q, seed, t * value.shape[1] + s)
            policy[t, s, prev] = d
            found = q[d]
        if mode == RAISE:
            found = max(found, source[t, s, prev])
        changed = changed or found != value[t, s, prev]
        value[t, s, prev] = found
    return changed


@kernel
def begin(problem, afresh, value, room):
    """Before the threads of a pass start."""
    horizon = room.changed.size - 1
    same_start(problem.switch_cost, problem.vary, room.alike)
    for i in range(3 * horizon):
        room.taken[i] = 0
        room.done[i] = 0
    for t in range(horizon):
        room.busy[t] = afresh
        room.changed[t] = afresh
    room.changed[horizon] = afresh
    for s in range(value.shape[1]):
        for d in range(value.shape[2]):
            value[horizon, s, d] = 0.0
    room.stamp[0] += horizon


@kernel
def backward(agents, environment, problem, mode, policy, before, value, source, seed, room, hands, phase, only):
    """Theorem 1 from the last step to the first, after `begin`; any number of threads may run it side by side.

    agents, environment: Layer. value: (L + 1, S, D), written. policy: (L, S, D), written, or, with FOLLOW, read. source: where
    v_{t+1} comes from: value itself, or with RAISE the values to be raised. before: with FOLLOW, the policy whose cost is in value
    already; what is the same is not computed again (unless begun afresh).

    A time step has three phases, each cut into chunks. Threads take chunks until none is left and wait until all are finished.
    Whoever takes a chunk, the numbers are the same. Starts at `phase` and returns where it waited too long, or the phase after
    the last. only: -1, or the one state that is backed up, in the three phases of one time step (see `visit`).
    """
    row = environment.row
    x, marks, guess, agent_guess, alike, any_changed, busy, taken, done, stamps = room
    horizon, n_states, n_agents = policy.shape
    single = only >= 0
    first_state, last_state = (only, only + 1) if single else (0, n_states)
    n_rows = row.shape[1] if single else environment.start.size
    row_chunks = (n_rows + ROWS_AT_ONCE - 1) // ROWS_AT_ONCE
    state_chunks = (last_state - first_state + STATES_AT_ONCE - 1) // STATES_AT_ONCE
    known_ahead = -1  # the time step for which `look_ahead` was done
    steady = mode != FOLLOW and not single  # are the rows that are needed the same at all times?
    for d in range(n_agents):
        steady = steady and problem.vary[d] != BY_TIME
    last_phase = phase + 3 if single else 3 * horizon
    while phase < last_phase:
        t = horizon - 1 - phase // 3
        kind = phase % 3
        after = source[t + 1]
        now_guess, later_guess = guess[t], guess[min(t + 1, horizon - 1)]
        stamp = np.int32((stamps[0] + (0 if steady else t)) % 2147483647)
        chunks = row_chunks if kind == ENVIRONMENT else state_chunks
        marks_stand = kind == MARK and steady and t < horizon - 1
        nothing_to_do = kind != MARK and not busy[t]
        if marks_stand or nothing_to_do:
            chunks = 0
        chunk = fetch_add(taken, phase, 1)
        while chunk < chunks:
            if kind != MARK and known_ahead != t and not single:
                look_ahead(after, hands)
                known_ahead = t
            begin_state = first_state + chunk * STATES_AT_ONCE
            end_state = min(begin_state + STATES_AT_ONCE, last_state)
            if kind == MARK:
                for s in range(begin_state, end_state):
                    if must_do(mode, any_changed, policy, before, t, s):
                        busy[t] = 1
                        mark_needed(agents, row, problem, mode, policy, t, s, stamp, marks)
            elif kind == ENVIRONMENT:
                for i in range(chunk * ROWS_AT_ONCE, min((chunk + 1) * ROWS_AT_ONCE, n_rows)):
                    r = row[first_state, i] if single else i
                    row_minima(environment, after, r, stamp, now_guess, later_guess, x, marks, hands)
            else:
                for s in range(begin_state, end_state):
                    if must_do(mode, any_changed, policy, before, t, s):
                        agents_minima(agents, row, problem, mode, policy, t, s, x, agent_guess, hands)
                        if switch(problem, mode, alike, hands.m, hands.q, policy, value, source, t, s, seed):
                            any_changed[t] = 1
            fetch_add(done, phase, 1)
            chunk = fetch_add(taken, phase, 1)
        looks = 0
        while fetch_add(done, phase, 0) < chunks:
            looks += 1
            if looks > PATIENCE:
                return phase
        phase += 1
    return phase
