"""The Bellman operator: one step of Theorem 1, for planning and for evaluation, for all states or one.

`backup` takes v_{t+1} to v_t by

    v_t(s, d) = min_u sum_d' kappa(d' | d, u) [ c_c(s, d') + c_x(s, d, d')
                                                + min_{p_d'} sum_a p_d'(a|s) ( c_e(s, a) + min_p sum_s' p(s'|s, a) w(s', d') ) ]

with w(s', d') = c_arrive(s') + discount v_{t+1}(s', d'), from the inside out: the environment's minimum for each row (s, a) and
agent, the agent's minimum, then the switch. Mostly an order u is obeyed at once, d' = u (`switch`); only with random answer times
who gets control next is drawn from the kernel kappa (`switch_by_orders`). In a terminal state no agent is in control, and v_t is
the cost of the remaining steps; without a horizon such a state is absorbing and costs 0: v_t = discount v_{t+1}. A finite horizon
is a loop over it (`backward`), a discount or an average a fixed point of it (fixed_point.py). Width 0 makes the inner minima
means; a given policy takes the place of the outer minimum.
"""

import numpy as np
from numba import types

from cede._kernels.compiling import fetch_add, inlined, kernel, unit
from cede._kernels.problem import BY_PREV_AGENT, BY_TIME, NO_ORDER, OBEYED, ProblemArrays, block_at, ends_in
from cede._kernels.random_streams import tie_break
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede.planning.minima import agent_minimum, environment_minima, known_mean, look_ahead, smallest
from cede.planning.model import ModelArrays

# Modes of a backup.
CHOOSE = 0  # the best agent everywhere, from v_{t+1}
FOLLOW = 1  # follow the given policy: the values are its cost
RAISE = 2  # the best agent everywhere, by a lookahead of one step from given values, which are raised to the result

INT, POLICY_NOW, VALUE_NOW = types.int64, types.int16[:, ::1], types.float64[:, ::1]
POLICY, VALUE = types.int16[:, :, ::1], types.float64[:, :, ::1]

MARK, ARRIVE, ENVIRONMENT, AGENTS, PHASES = 0, 1, 2, 3, 4  # phases of a step
ROWS_AT_ONCE, STATES_AT_ONCE = 64, 32  # chunks of a phase
PATIENCE = 20_000  # looks at another thread's work before giving the processor away


@inlined
def slots_at(vary, t, n_agents):
    """Return the slots, counted from an agent's first, that can act at time t: from, to (exclusive)."""
    if vary == BY_TIME:
        return t, t + 1
    if vary == BY_PREV_AGENT:
        return 0, n_agents
    return 0, 1


@inlined
def in_use(problem, policy, s, d):
    """Return whether the policy of this time step, (S, D), can hand control to d in state s, from any previous agent."""
    found = problem.order.size > 0  # with random outcomes, it may
    for prev in range(policy.shape[1]):
        found = found or policy[s, prev] == d
    return found


@inlined
def must_do(mode, changed_after, policy, before, s):
    """Return whether state s must be backed up: not if, with FOLLOW, neither its policy nor the next values have changed."""
    found = mode != FOLLOW or changed_after != 0
    for prev in range(policy.shape[1]):
        found = found or policy[s, prev] != before[s, prev]
    return found


@inlined
def agents_minima(model, mode, t, s, scratch, thread):
    """Write thread.m[prev, d]: the least expected cost with d in control in state s, without control and switching cost."""
    agents, problem, row = model.agents, model.problem, model.environment.row
    env_cost, y, m, same, x, policy = problem.env_cost, thread.y, thread.m, thread.same, scratch.x, thread.policy
    n_agents, n_actions, here = same.size, row.shape[1], block_at(problem, t) + s
    filled = -1  # the agent for whose column y was made
    for d in range(n_agents):
        if mode == FOLLOW and not in_use(problem, policy, s, d):
            continue
        first, last = slots_at(problem.vary[d], t, n_agents)
        thread.work[3] += last - first
        for c in range(first, last):
            r = agents.row[problem.slot[d] + c, s]
            if agents.width[r] == 0.0 and agents.table.size[r] > 0:
                least = known_mean(agents.table, r, s, here, env_cost, x, same[d], row)
            else:
                if filled != same[d]:
                    filled = same[d]
                    for a in range(n_actions):
                        y[a] = env_cost[s, a] + x[row[here, a], filled]
                least = agent_minimum(agents, r, n_actions, scratch, thread)
            m[c if last - first > 1 else 0, d] = least


@inlined
def best_agent(q, seed, place):
    """Return the agent of least q; ties are broken at random, by seed and place."""
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
def switch(problem, mode, t, s, seed, scratch, thread):
    """Take the outer minimum in state s for every previous agent; with FOLLOW, the policy's choice. Return whether a value changed.

    Ties are broken by seed and place.
    """
    priced = problem.price.size > 0
    m, q, policy, value, same_start = thread.m, thread.q, thread.policy, thread.value, scratch.same_start
    vary = problem.vary
    control_cost = problem.control_cost[min(s, problem.control_cost.shape[0] - 1)]
    switch_cost = problem.switch_cost[min(s, problem.switch_cost.shape[0] - 1)]
    n_agents = q.size
    changed = False
    for prev in range(n_agents):
        if mode == FOLLOW:
            d = np.int64(policy[s, prev])
            c = prev if vary[d] == BY_PREV_AGENT else 0
            found = (control_cost[d] + switch_cost[prev, d]) + m[c, d]
            if priced:
                found += problem.price[d] * problem.worth[t]
        elif same_start[prev] < prev:
            policy[s, prev] = policy[s, same_start[prev]]
            found = value[s, same_start[prev]]
        else:
            for d in range(n_agents):
                c = prev if vary[d] == BY_PREV_AGENT else 0
                q[d] = (control_cost[d] + switch_cost[prev, d]) + m[c, d]
                if priced:
                    q[d] += problem.price[d] * problem.worth[t]
            d = best_agent(q, seed, t * value.shape[0] + s)
            policy[s, prev] = d
            found = q[d]
        if mode == RAISE:
            found = max(found, thread.floor[s, prev])
        changed = changed or found != value[s, prev]
        value[s, prev] = found
    return changed


@unit(types.none, ProblemArrays, INT, INT, INT, INT, types.float64[:, ::1], types.float64[::1])
def put_costs_of_orders(problem, t, s, prev, only, m, q):
    """Write to q what each order costs in state s after prev, with all that follows: infinity for what is no order. m: as written
    by `agents_minima`. only: -1, or the one order that is wanted.
    """
    control_cost = problem.control_cost[min(s, problem.control_cost.shape[0] - 1)]
    switch_cost = problem.switch_cost[min(s, problem.switch_cost.shape[0] - 1)]
    for u in range(q.size):
        row = problem.order[prev, u]
        q[u] = np.inf if row == NO_ORDER else 0.0
        if row == NO_ORDER or (only >= 0 and u != only):
            continue
        for i in range(
            np.int64(0) if row == OBEYED else problem.first_outcome[row], 1 if row == OBEYED else problem.first_outcome[row + 1]
        ):
            d, chance = (u, 1.0) if row == OBEYED else (problem.outcome[i], problem.chance[i])
            cost = (control_cost[d] + switch_cost[prev, d]) + m[0, d]
            if problem.price.size > 0:
                cost += problem.price[d] * problem.worth[t]
            q[u] += chance * cost


@inlined
def switch_by_orders(problem, mode, t, s, seed, thread):
    """Do what `switch` does where some orders have random outcomes."""
    m, q, policy, value, changed = thread.m, thread.q, thread.policy, thread.value, False
    for prev in range(q.size):
        u = np.int64(policy[s, prev]) if mode == FOLLOW else np.int64(-1)
        put_costs_of_orders(problem, t, s, prev, u, m, q)
        if mode != FOLLOW:
            u = best_agent(q, seed, t * value.shape[0] + s)
            policy[s, prev] = u
        found = q[u]
        if mode == RAISE:
            found = max(found, thread.floor[s, prev])
        changed = changed or found != value[s, prev]
        value[s, prev] = found
    return changed


@inlined
def stay_at_end(problem, mode, t, s, thread):
    """Write the value of a terminal state, and a possible policy. Return whether a value changed."""
    policy, value, switch_cost = thread.policy, thread.value, problem.switch_cost[min(s, problem.switch_cost.shape[0] - 1)]
    ends, changed = problem.left.size > 0, False
    for prev in range(policy.shape[1]):
        found = problem.env_cost[s, 0] * problem.left[t] if ends else problem.discount * thread.after[s, prev]
        if mode != FOLLOW:
            d = prev
            while not switch_cost[prev, d] < np.inf or (problem.order.size > 0 and problem.order[prev, d] == NO_ORDER):
                d = (d + 1) % policy.shape[1]
            policy[s, prev] = d
        changed = changed or found != value[s, prev]
        value[s, prev] = found
    return changed


@unit(types.none, ModelArrays, INT, INT, POLICY_NOW, POLICY_NOW, INT, INT, INT, PassScratch)
def mark_needed(model, mode, t, policy, before, stamp, first, last, scratch):
    """Mark the environment rows whose minimum each agent can need in the states from first to last (exclusive).

    Those are the rows of the actions that the agent may take. scratch.busy[t]: whether time t needs any work.
    """
    table, widths, agent_row, row = model.agents.table, model.agents.width, model.agents.row, model.environment.row
    starts, sizes, columns = table.start, table.size, table.column
    vary, slot, marks, n_agents = model.problem.vary, model.problem.slot, scratch.marks, policy.shape[1]
    block = block_at(model.problem, t)
    for s in range(first, last):
        if ends_in(model.problem, s) or not must_do(mode, scratch.changed[t + 1], policy, before, s):
            continue
        scratch.busy[t] = 1
        for d in range(n_agents):
            if mode == FOLLOW and not in_use(model.problem, policy, s, d):
                continue
            begin, end = slots_at(vary[d], t, n_agents)
            for c in range(begin, end):
                r = agent_row[slot[d] + c, s]
                if sizes[r] == 0 or widths[r] > 0.0:
                    for a in range(row.shape[1]):
                        marks[row[block + s, a], d] = stamp
                else:
                    for j in range(starts[r], starts[r] + sizes[r]):
                        marks[row[block + s, columns[j]], d] = stamp


@unit(types.none, ModelArrays, INT, INT, INT, INT, INT, PassScratch, ThreadScratch)
def back_up_states(model, mode, t, seed, first, last, scratch, thread):
    """Take the agents' minima and the switch in the states from first to last (exclusive)."""
    changed, policy, before = scratch.changed, thread.policy, thread.before
    for s in range(first, last):
        if ends_in(model.problem, s):
            if stay_at_end(model.problem, mode, t, s, thread):
                changed[t] = 1
        elif must_do(mode, changed[t + 1], policy, before, s):
            agents_minima(model, mode, t, s, scratch, thread)
            if model.problem.order.size > 0:
                moved = switch_by_orders(model.problem, mode, t, s, seed, thread)
            else:
                moved = switch(model.problem, mode, t, s, seed, scratch, thread)
            if moved:
                changed[t] = 1


@kernel
def arrive(problem, after, first, last, arrival):
    """Write w(s, d) = c_arrive(s) + discount v_{t+1}(s, d) for the states from first to last (exclusive)."""
    discount, costs = problem.discount, problem.enter_cost.size > 0
    for s in range(first, last):
        enter_cost = problem.enter_cost[s] if costs else 0.0
        for d in range(after.shape[1]):
            arrival[s, d] = enter_cost + discount * after[s, d]


STEP = (VALUE_NOW, VALUE_NOW, POLICY_NOW, POLICY_NOW, VALUE_NOW)  # after, value, policy, before, floor


@unit(INT, ModelArrays, INT, INT, *STEP, INT, PassScratch, ThreadScratch, INT, INT, INT)
def backup(model, mode, t, after, value, policy, before, floor, seed, scratch, thread, only, same_rows, phase):
    """Apply the Bellman operator at time t: v_t from v_{t+1}. Any number of threads may run it side by side.

    after: (S, D) v_{t+1}; if only one state is backed up, w above. value: (S, D) v_t, written. policy: (S, D) written, or with
    FOLLOW read. before: with FOLLOW, the policy whose cost is in value already; unchanged states are not computed again. floor:
    with RAISE, the values to be raised. only: -1, or the one state that is backed up. same_rows: whether all time steps need the
    same rows.

    A step has four phases, each cut into chunks. Threads take chunks until none is left and wait until all are finished. The result
    does not depend on the distribution of chunks. Starts at `phase` and returns PHASES, or the phase in which it waited too long
    for another thread.
    """
    horizon, single = scratch.busy.size, only >= 0
    first_state, last_state = (only, only + 1) if single else (0, value.shape[0])
    n_rows = model.environment.row.shape[1] if single else model.environment.table.start.size
    stamp = (scratch.stamp + (0 if same_rows else t)) % 2147483647
    thread.after, thread.value, thread.policy, thread.before, thread.floor = after, value, policy, before, floor
    looked_ahead = single
    adds_up = not single and scratch.arrival.size > 0
    ahead = scratch.arrival if adds_up else after
    while phase < PHASES:
        place = PHASES * (horizon - 1 - t) + phase
        begin, end, at_once = first_state, last_state, STATES_AT_ONCE
        if phase == ENVIRONMENT:
            begin, end, at_once = 0, n_rows, ROWS_AT_ONCE
        chunks = (end - begin + at_once - 1) // at_once
        marks_stand = phase == MARK and same_rows and t < horizon - 1
        if marks_stand or (phase != MARK and not scratch.busy[t]) or (phase == ARRIVE and not adds_up):
            chunks = 0
        chunk = fetch_add(scratch.taken, place, 1)
        while chunk < chunks:
            if phase > ARRIVE and not looked_ahead:
                look_ahead(ahead, thread)
                looked_ahead = True
            first = begin + chunk * at_once
            last = min(first + at_once, end)
            if phase == MARK:
                mark_needed(model, mode, t, policy, before, stamp, first, last, scratch)
            elif phase == ARRIVE:
                arrive(model.problem, after, first, last, scratch.arrival)
            elif phase == ENVIRONMENT:
                here = block_at(model.problem, t) + only if single else only
                environment_minima(model.environment, t, ahead, stamp, first, last, here, scratch, thread)
            else:
                back_up_states(model, mode, t, seed, first, last, scratch, thread)
            fetch_add(scratch.done, place, 1)
            chunk = fetch_add(scratch.taken, place, 1)
        looks = 0
        while fetch_add(scratch.done, place, 0) < chunks:
            looks += 1
            if looks > PATIENCE:
                return phase
        phase += 1
    return phase


# ------------------------------------------------------------------------------------------------- a finite horizon


@kernel
def find_same_start(switch_cost, vary, first_state, last_state, same_start):
    """Write to same_start[prev] the first previous agent with the same costs of all hand-overs, and so the same values.

    switch_cost: (S or 1, D, D), of which the states from first_state to last_state (exclusive) are compared.
    """
    n_agents = same_start.size
    for prev in range(n_agents):
        same_start[prev] = prev
        for first in range(prev):
            equal = True
            for s in range(first_state, last_state):
                for d in range(n_agents):
                    equal = equal and switch_cost[s, prev, d] == switch_cost[s, first, d] and vary[d] != BY_PREV_AGENT
                if not equal:
                    break
            if equal:
                same_start[prev] = first
                break


@kernel
def begin(problem, afresh, value, scratch):
    """Prepare a pass, before its threads start. afresh: 1, or 0 where value, (L + 1, S, D), holds the cost of a known policy."""
    horizon, changed, busy, taken, done = scratch.busy.size, scratch.changed, scratch.busy, scratch.taken, scratch.done
    find_same_start(problem.switch_cost, problem.vary, np.int64(0), problem.switch_cost.shape[0], scratch.same_start)
    taken[:], done[:] = 0, 0
    busy[:], changed[:] = afresh, afresh
    value[horizon, :, :] = 0.0
    scratch.stamp += horizon


@unit(INT, ModelArrays, INT, POLICY, POLICY, VALUE, VALUE, INT, PassScratch, ThreadScratch, INT)
def backward(model, mode, policy, before, value, source, seed, scratch, thread, phase):
    """Apply `backup` from the last step to the first, after `begin`; any number of threads may run it side by side.

    value: (L + 1, S, D), written. policy: (L, S, D), written, or with FOLLOW read. source: where v_{t+1} comes from: value
    itself, or with RAISE the values to be raised. before: see `backup`. Starts at `phase`, counted over all steps, and returns
    the phase after the last, or the one in which it waited too long for another thread.
    """
    horizon = policy.shape[0]
    same_rows = mode != FOLLOW and model.problem.period.size == 0  # are the rows that are needed the same at all times?
    for d in range(model.problem.vary.size):
        same_rows = same_rows and model.problem.vary[d] != BY_TIME
    none = np.int64(-1)
    while phase < PHASES * horizon:
        t = horizon - 1 - phase // PHASES
        here = phase % PHASES
        reached = backup(
            model, mode, t, source[t + 1], value[t], policy[t], before[t], source[t], seed, scratch, thread, none, same_rows, here
        )
        phase += reached - here
        if reached < PHASES:
            break
    return phase


@kernel
def start_mean(start, value, start_agent):
    """Return the expected cost of an episode: the mean of v_0(., start_agent) over the start distribution."""
    total = 0.0
    for s in range(start.size):
        total += start[s] * value[0, s, start_agent]
    return total


@kernel
def run_backward(model, mode, policy, value, seed, scratch, thread, phase):
    """Run the kernel `backward` on one policy and one value; this wrapper can be called from Python."""
    return backward(model, mode, policy, policy, value, value, seed, scratch, thread, phase)
