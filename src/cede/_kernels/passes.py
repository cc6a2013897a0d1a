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
from cede._kernels.rows import agent_in_intervals, agent_minimum, known_mean, look_ahead, row_minima, smallest

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
