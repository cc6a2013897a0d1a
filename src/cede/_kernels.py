"""Every compiled function: arrays in, arrays out, trusting its input.

One backward pass (`backward`) serves planning and evaluation; its parts serve greedy planning (`visit`). Per time step t, with v = v_{t+1} and Theorem 1's recursion

    v_t(s, d) = min_d' [ c_c(d') + c_x(d, d') + min_{p_d'} sum_a p_d'(a|s) ( c_e(s, a) + min_p sum_s' p(s'|s, a) v(s', d') ) ]

it takes the minima from the inside out: the environment's for each row (s, a) and agent, the agent's, then the switch.

Both inner minima are the same problem: the least mean of v over the distributions within L1 distance `width` of a centre.
With u = v - min v >= 0 and b = width / 2, moving mass b from the worst outcomes onto the best leaves

    min v + max_{theta >= 0} [ sum_j p_j min(u_j, theta) - b theta ],

a concave piecewise linear function of theta whose maximum lies at the outcome where the mass above falls to b. We search
that outcome with passes over the row instead of sorting it; see docs/decisions/0003-threshold-instead-of-sorting.md.

A layer of tables is passed as `Layer`. Row r holds the outcomes column[start[r] : start[r] + size[r]], sorted, with weights
that sum to total[r]; its distribution is weight / total. A row of size 0 was never seen and stands for the uniform one.

All kernels are in this one file on purpose: numba's cache on disk notices a change only in the file of the function that it
compiles, not in those of the functions that this one calls.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

Function = Callable[..., Any]


class Layer(NamedTuple):
    start: Any  # (rows,) int64: where a row begins in the pool
    size: Any  # (rows,) int64: how many outcomes it holds
    total: Any  # (rows,) float64: sum of its weights
    column: Any  # (pool,) int32: outcomes, ascending in each row
    weight: Any  # (pool,) float64
    width: Any  # (rows,) float64: L1 radius around weight / total
    row: Any  # agents: (slots, S); environment: (S, A) int64: which row serves which place


class Pool(NamedTuple):
    """A growing table of counts (counts.py); the first five fields as in `Layer`."""

    start: Any
    size: Any
    total: Any
    column: Any
    weight: Any
    room: Any  # (rows,) int64: how many outcomes fit before the row must move
    end: Any  # (1,) int64: first free place of the pool


# How an agent's policy varies: the place of a row among the agent's slots is 0, t or prev_agent.
CONSTANT, BY_TIME, BY_PREV_AGENT = 0, 1, 2

# Passes over long rows run over whole blocks, so that the compiler can use vector registers for all of them.
BLOCK = 16
FEW = 6  # outcomes up to which a row is short

# Share of the mass in question below which `search` goes from the worst outcome downward instead of halving.
NEAR = 0.03


def kernel(function: Function, **extra: Any) -> Function:
    """Compile on first call, cache on disk where a directory can be written, release the GIL.

    Kernels allocate nothing: what they need is passed in. So numba need not count references to arrays, which in small
    functions costs more than the work itself.
    """
    options = {"nogil": True, "error_model": "numpy", "_nrt": False, **extra}
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba found no directory that it may write to
        return numba.njit(**options)(function)  # type: ignore[no-any-return]


def inlined(function: Function) -> Function:
    """Like `kernel`, pasted into its callers: calls that pass many arrays cost more than what they do."""
    return kernel(function, inline="always")


def vector_kernel(function: Function) -> Function:
    """Like `kernel`; sums may be reordered, which lets them run in vector registers."""
    return kernel(function, fastmath={"reassoc", "nsz", "nnan"})


# ---------------------------------------------------------------------------------------------- the inner minimum


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


@kernel
def search(u, p, n, budget):
    """`least_sum` from scratch: narrow down (lo, hi) until theta is found."""
    lo, hi = 0.0, np.inf
    looks = 2
    worse_lo, _, _ = look(u, p, n, lo)  # mass worse than lo: more than the budget
    if worse_lo <= budget:
        return 0.0, 0.0, looks
    worse_hi = 0.0  # mass at hi and worse: at most the budget
    _, _, sum_hi = look(u, p, n, hi)  # sum of p u below hi
    sum_lo = 0.0  # sum of p u up to lo
    exact = False
    while True:
        # The mean of what lies between lo and hi splits it, unless it is all one value. Near hi, take outcome by outcome.
        theta = (sum_hi - sum_lo) / (worse_lo - worse_hi)
        if exact or not lo < theta < hi or budget - worse_hi < NEAR * (worse_lo - worse_hi):
            theta = largest_below(u, n, hi)
            if theta <= lo:  # rounding of the weights: nothing is left between, the budget runs out at hi
                return sum_hi + hi * (worse_hi - budget), hi, looks
        looks += 1
        worse, equal, capped = look(u, p, n, theta)
        if worse <= budget < worse + equal:
            return capped - budget * theta, theta, looks
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
    if guess > 0.0:
        worse, equal, capped = look(u, p, n, guess)
        if worse <= budget < worse + equal:
            return capped - budget * guess, guess, 1
    return search(u, p, n, budget)


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


# ------------------------------------------------------------------------------------------------ the backward pass


class Problem(NamedTuple):
    slot: Any  # (D,) int64: the first slot of each agent
    vary: Any  # (D,) int64: how it varies
    env_cost: Any  # (S, A)
    control_cost: Any  # (D,)
    switch_cost: Any  # (D, D)


class Room(NamedTuple):
    """What the threads of one pass share. The guesses remember where searches ended; used again for a similar plan they save
    passes, and change nothing else.
    """

    x: Any  # (D, rows): least expected v_{t+1}(., d) of each environment row
    marks: Any  # (D, rows) int32: the stamp of the last step that needed the row for this agent
    guess: Any  # (L, D, rows + 1) int32: outcome at which the mass ran out, -1: never; the last row is the uniform one
    agent_guess: Any  # (agents' rows,) int32
    alike: Any  # (D,) int64: see `same_start`
    changed: Any  # (L + 1,) int64: did a value of this time step change?
    taken: Any  # (3 L,) int64: chunks of each phase that a thread has begun
    done: Any  # (3 L,) int64: and those that are finished
    stamp: Any  # (1,) int64: one for each step ever done in this room


class Hands(NamedTuple):
    """What one thread works with."""

    u: Any  # outcomes of the row at hand, above the least
    p: Any  # and their weights
    y: Any  # (A or more,) what each action leads to
    q: Any  # (D,) what each agent leads to
    m: Any  # (D, D): m[prev, d], the agent's minimum
    same: Any  # (D,) int64: see `equal_columns`
    least: Any  # (D,) the least v_{t+1}(., d)
    constant: Any  # (D,) bool: is v_{t+1}(., d) one value?
    uniform: Any  # (D,) the minimum of rows that were never seen
    uniform_width: Any  # (D,) the width for which it holds, -1: none
    work: Any  # (4,) int64: environment rows minimised, outcomes gathered, outcomes looked at in passes, agents' minima


# What a pass does with the policy.
CHOOSE = 0  # the best agent everywhere, from the values of this pass
FOLLOW = 1  # what is given: the values are its cost
RAISE = 2  # the best agent everywhere, one step ahead of given values, which are raised by what is found

MARK, ENVIRONMENT, AGENTS = 0, 1, 2  # phases of a time step
ROWS_AT_ONCE, STATES_AT_ONCE = 256, 128  # how much of a phase a thread takes
PATIENCE = 20_000  # looks at another thread's work before giving the processor away


def room_to_work(horizon: int, n_agents: int, n_rows: int, agent_rows: int) -> Room:
    """What `backward` needs beside its arguments."""
    return Room(
        x=np.empty((n_agents, n_rows)),
        marks=np.full((n_agents, n_rows), -1, dtype=np.int32),
        guess=np.full((horizon, n_agents, n_rows + 1), -1, dtype=np.int32),
        agent_guess=np.full(agent_rows, -1, dtype=np.int32),
        alike=np.empty(n_agents, dtype=np.int64),
        changed=np.empty(horizon + 1, dtype=np.int64),
        taken=np.empty(3 * horizon, dtype=np.int64),
        done=np.empty(3 * horizon, dtype=np.int64),
        stamp=np.zeros(1, dtype=np.int64),
    )


def hands_to_work(n_states: int, n_actions: int, n_agents: int, work: Any) -> Hands:
    """A thread's own arrays; what it does is added to `work`."""
    longest = max(n_states, n_actions) + BLOCK
    return Hands(
        u=np.empty(longest),
        p=np.empty(longest),
        y=np.empty(n_actions),
        q=np.empty(n_agents),
        m=np.empty((n_agents, n_agents)),
        same=np.empty(n_agents, dtype=np.int64),
        least=np.empty(n_agents),
        constant=np.empty(n_agents, dtype=np.bool_),
        uniform=np.empty(n_agents),
        uniform_width=np.empty(n_agents),
        work=work,
    )


@intrinsic
def fetch_add(context, array, index, amount):  # noqa: ARG001 (numba passes its typing context)
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
def differs(policy, before, t, s):
    """Do the two policies differ in state s at time t, from any previous agent?"""
    found = False
    for prev in range(policy.shape[2]):
        found = found or policy[t, s, prev] != before[t, s, prev]
    return found


@inlined
def mark_needed(agents, row, slot, vary, t, n_agents, s, d, stamp, marks):
    """Mark the environment rows whose minimum agent d can need in state s at time t: those of actions that it may take."""
    starts, sizes, _, columns, _, widths, agent_row = agents
    first, last = contexts(vary[d], t, n_agents)
    for c in range(first, last):
        r = agent_row[slot[d] + c, s]
        if sizes[r] == 0 or widths[r] > 0.0:
            for a in range(row.shape[1]):
                marks[d, row[s, a]] = stamp
        else:
            for j in range(starts[r], starts[r] + sizes[r]):
                marks[d, row[s, columns[j]]] = stamp


@inlined
def look_ahead(after, hands):
    """What all rows of a time step need to know of v_{t+1} = after, (S, D)."""
    n_states, n_agents = after.shape
    equal_columns(after, hands.same)
    for d in range(n_agents):
        hands.uniform_width[d] = -1.0
        least, most = after[0, d], after[0, d]
        for s in range(1, n_states):
            least = min(least, after[s, d])
            most = max(most, after[s, d])
        hands.least[d] = least
        hands.constant[d] = least == most


@inlined
def row_minima(environment, after, r, stamp, guess, later_guess, x, marks, hands):
    """x[d, r] = min_p sum_s' p(s') v(s', d) over the set of row r, for every agent that needs it.

    guess[d, r]: the outcome at which the mass ran out when this step was planned last (-1: never); later_guess: one step later.
    """
    starts, sizes, totals, columns, weights, widths, _ = environment
    u, p, _, _, _, same, least, constant, uniform, uniform_width, work = hands
    n_states, n_agents = after.shape
    width, start, n = widths[r], starts[r], sizes[r]
    padded = -1  # p is not filled yet
    helpful = -1  # where the mass ran out for another agent
    for d in range(n_agents):
        needed = False
        if same[d] == d:
            for e in range(d, n_agents):
                needed = needed or (same[e] == d and marks[e, r] == stamp)
        if not needed:
            continue
        best = least[d]
        if constant[d] or width >= 2.0:
            x[d, r] = best
            continue
        work[0] += 1
        if n == 0:
            if width != uniform_width[d]:  # unvisited rows share one width as a rule: one pass serves them all
                for j in range(n_states):
                    u[j] = after[j, d] - best
                    p[j] = 1.0
                at = guess[d, -1]
                known = u[at] if at >= 0 else 0.0
                value, theta, looks = least_sum(u, p, pad(u, p, n_states), 0.5 * width * n_states, known)
                guess[d, -1] = at if theta == known else position(u, n_states, theta)
                uniform[d], uniform_width[d] = best + value / n_states, width
                work[1] += n_states
                work[2] += looks * n_states
            x[d, r] = uniform[d]
            continue
        work[1] += n
        value = 0.0
        if width == 0.0:
            for j in range(start, start + n):
                value += weights[j] * (after[columns[j], d] - best)
        else:
            for j in range(n):
                u[j] = after[columns[start + j], d] - best
            if padded < 0:
                for j in range(n):
                    p[j] = weights[start + j]
                padded = pad(u, p, n)
            at = guess[d, r] if guess[d, r] >= 0 else (helpful if helpful >= 0 else later_guess[d, r])
            known = u[at] if at >= 0 else 0.0
            value, theta, looks = least_sum(u, p, padded, 0.5 * width * totals[r], known)
            helpful = at if theta == known else position(u, n, theta)
            guess[d, r] = helpful
            work[2] += looks * n
        x[d, r] = best + value / totals[r]


@inlined
def known_mean(starts, sizes, totals, columns, weights, r, s, cost, x, d, row):
    """sum_a p(a) (c_e(s, a) + x(s, a)) for an agent whose row r is certain; only the actions that it takes are looked at.

    Summed as differences from the first action: where all actions are equal there is no rounding, and ties stay ties.
    """
    first = columns[starts[r]]
    base = cost[s, first] + x[d, row[s, first]]
    result = 0.0
    for j in range(starts[r] + 1, starts[r] + sizes[r]):
        a = columns[j]
        result += weights[j] * (cost[s, a] + x[d, row[s, a]] - base)
    return base + result / totals[r]


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


@inlined
def mixed(z):
    """64 bits that look random (the finish of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def tie_break(seed, place, n):
    """A number from 0 to n - 1 that depends on the seed and the place alone."""
    return np.int64(mixed(np.uint64(seed) + np.uint64(place + 1) * np.uint64(0x9E3779B97F4A7C15)) % np.uint64(n))


@kernel
def tie_seed(seed, episode):
    """The seed of the ties of an episode: neighbouring seeds and episodes must not have neighbouring ties."""
    step = np.uint64(0x9E3779B97F4A7C15)
    scrambled = mixed(np.uint64(seed) + step) >> np.uint64(1)
    return np.int64(mixed(scrambled + np.uint64(episode) + step) >> np.uint64(1))


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
    starts, sizes, totals, columns, weights, widths, agent_row = agents
    slot, vary, env_cost, _, _ = problem
    u, p, y, _, m, same, _, _, _, _, work = hands
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
                        y[a] = env_cost[s, a] + x[filled, row[s, a]]
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
    for t in range(horizon + 1):
        room.changed[t] = afresh
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
    x, marks, guess, agent_guess, alike, any_changed, taken, done, stamps = room
    horizon, n_states, n_agents = policy.shape
    single = only >= 0
    first_state, last_state = (only, only + 1) if single else (0, n_states)
    n_rows = row.shape[1] if single else environment.start.size
    row_chunks = (n_rows + ROWS_AT_ONCE - 1) // ROWS_AT_ONCE
    state_chunks = (last_state - first_state + STATES_AT_ONCE - 1) // STATES_AT_ONCE
    known_ahead = -1  # the time step for which `look_ahead` was done
    last_phase = phase + 3 if single else 3 * horizon
    while phase < last_phase:
        t = horizon - 1 - phase // 3
        kind = phase % 3
        after = source[t + 1]
        stamp = np.int32((stamps[0] + t) % 2147483647)
        chunks = row_chunks if kind == ENVIRONMENT else state_chunks
        if kind != MARK and known_ahead != t and not single:
            look_ahead(after, hands)
            known_ahead = t
        chunk = fetch_add(taken, phase, 1)
        while chunk < chunks:
            begin_state = first_state + chunk * STATES_AT_ONCE
            end_state = min(begin_state + STATES_AT_ONCE, last_state)
            if kind == MARK:
                for s in range(begin_state, end_state):
                    if mode != FOLLOW or any_changed[t + 1] or differs(policy, before, t, s):
                        for d in range(n_agents):
                            if mode != FOLLOW or in_use(policy, t, s, d):
                                mark_needed(agents, row, problem.slot, problem.vary, t, n_agents, s, d, stamp, marks)
            elif kind == ENVIRONMENT:
                for i in range(chunk * ROWS_AT_ONCE, min((chunk + 1) * ROWS_AT_ONCE, n_rows)):
                    r = row[first_state, i] if single else i
                    row_minima(environment, after, r, stamp, guess[t], guess[min(t + 1, horizon - 1)], x, marks, hands)
            else:
                changed = False
                for s in range(begin_state, end_state):
                    if mode != FOLLOW or any_changed[t + 1] or differs(policy, before, t, s):
                        agents_minima(agents, row, problem, mode, policy, t, s, x, agent_guess, hands)
                        moved = switch(problem, mode, alike, hands.m, hands.q, policy, value, source, t, s, seed)
                        changed = changed or moved
                if changed:
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


# ------------------------------------------------------------------------------------------------- acting and counting


class World(NamedTuple):
    """The truth, as a simulation needs it."""

    agents: Layer
    environment: Layer
    problem: Problem
    start: Any  # (S,) probabilities
    cumulated_start: Any  # (S,) their running sums
    start_agent: Any  # int


class Steps(NamedTuple):
    """One episode as it is played."""

    states: Any  # (L + 1,) int64
    who: Any  # (L + 1,) int64: who[0] = d_0, who[t + 1] acts at time t
    actions: Any  # (L,) int64
    costs: Any  # (L,)
    times: Any  # (L,) int64: 0, 1, 2, ...
    rows: Any  # (2, CHUNK) int64: room to count in


CHUNK = 64  # steps counted at once: the room wanted for them grows with their number squared


@inlined
def context(vary, t, prev):
    """The slot, counted from the agent's first, that acts at time t after prev."""
    if vary == BY_TIME:
        return t
    if vary == BY_PREV_AGENT:
        return prev
    return 0


@inlined
def draw(layer, r, chance):
    """The outcome of row r at which the cumulated probability passes chance."""
    n = layer.size[r]
    start = layer.start[r]
    left = chance * layer.total[r]
    for j in range(start, start + n - 1):
        left -= layer.weight[j]
        if left < 0.0:
            return layer.column[j]
    return layer.column[start + n - 1]


@inlined
def enter(world, chance, steps):
    """The first state of an episode. chance: (2 L + 1,) uniform numbers, the last one for this."""
    s = 0
    while s < world.start.size - 1 and world.cumulated_start[s] <= chance[chance.size - 1]:
        s += 1
    steps.states[0] = s
    steps.who[0] = world.start_agent


@inlined
def step(world, t, d, chance, steps):
    """Agent d acts at time t, under the true tables."""
    slot, vary, env_cost, control_cost, switch_cost = world.problem
    s, prev = steps.states[t], steps.who[t]
    a = draw(world.agents, world.agents.row[slot[d] + context(vary[d], t, prev), s], chance[2 * t])
    steps.states[t + 1] = draw(world.environment, world.environment.row[s, a], chance[2 * t + 1])
    steps.who[t + 1] = d
    steps.actions[t] = a
    steps.costs[t] = env_cost[s, a] + control_cost[d] + switch_cost[prev, d]


@kernel
def roll(world, policy, chance, steps):
    """One episode of a policy."""
    enter(world, chance, steps)
    for t in range(policy.shape[0]):
        step(world, t, policy[t, steps.states[t], steps.who[t]], chance, steps)


@kernel
def start_mean(start, value, start_agent):
    """What a value says of a whole episode."""
    total = 0.0
    for s in range(start.size):
        total += start[s] * value[0, s, start_agent]
    return total


@kernel
def add_one(pool, r, column):
    """Count one more `column` in row r, keeping the row sorted. The caller has seen to it that the pool is long enough."""
    start, n = pool.start[r], pool.size[r]
    lo, hi = start, start + n
    while lo < hi:
        middle = (lo + hi) // 2
        if pool.column[middle] < column:
            lo = middle + 1
        else:
            hi = middle
    pool.total[r] += 1.0
    if lo < start + n and pool.column[lo] == column:
        pool.weight[lo] += 1.0
        return
    if n == pool.room[r]:  # move the row to the end of the pool, with twice the room
        target = pool.end[0]
        pool.room[r] = 2 * n + 2
        pool.end[0] = target + pool.room[r]
        for j in range(n):
            pool.column[target + j] = pool.column[start + j]
            pool.weight[target + j] = pool.weight[start + j]
        pool.start[r] = target
        lo += target - start
        start = target
    for j in range(start + n, lo, -1):
        pool.column[j] = pool.column[j - 1]
        pool.weight[j] = pool.weight[j - 1]
    pool.column[lo] = column
    pool.weight[lo] = 1.0
    pool.size[r] = n + 1


@kernel
def count_steps(agents, environment, slot, vary, n_states, n_actions, flat, times, states, prevs, who, actions, nexts, rows, done):
    """Add steps to both pools, from step `done` on, until a pool may be too short.

    How many steps are counted then, and how many places each pool wants. rows: (2, CHUNK) room to work.
    """
    while done < states.size:
        n = min(CHUNK, states.size - done)
        wanted_agents, wanted_environment = 0, 0
        for i in range(n):
            d = who[done + i]
            place = slot[d] + context(vary[d], times[done + i], prevs[done + i])
            rows[0, i] = place * n_states + states[done + i]
            rows[1, i] = states[done + i] * n_actions + (place if flat else actions[done + i])
            wanted_agents += 2 * (agents.size[rows[0, i]] + n) + 2
            wanted_environment += 2 * (environment.size[rows[1, i]] + n) + 2
        wanted_agents -= agents.column.size - agents.end[0]
        wanted_environment -= environment.column.size - environment.end[0]
        if wanted_agents > 0 or wanted_environment > 0:
            return done, max(wanted_agents, 0), max(wanted_environment, 0)
        for i in range(n):
            add_one(agents, rows[0, i], actions[done + i])
            add_one(environment, rows[1, i], nexts[done + i])
        done += n
    return done, 0, 0


@kernel
def first_outside(values, size):
    """Where the first element lies that is no index below size; -1 if there is none."""
    for i in range(values.size):
        if not 0 <= values[i] < size:
            return i
    return -1


# ------------------------------------------------------------------------------------------------- believing and planning


class Mind(NamedTuple):
    """A learner: what it saw, what it believes, how it plans."""

    seen_agents: Pool
    seen_environment: Pool
    counted_agents: Any  # int: rows of the first that are counted; those behind are known
    counted_environment: Any  # int
    flat: Any  # bool: the second holds p(s' | s, d)
    agents: Layer  # the belief
    environment: Layer
    agents_width: Any  # (rows,) their widths, to be written by `believe`
    environment_width: Any
    problem: Problem
    learned_cost: Any  # (S, slots): env_cost of the problem, to be written where it must be learned; else empty
    true_cost: Any  # (S, A)
    least_cost: Any  # (S,) least of the true cost over actions
    spread: Any  # (S,) greatest minus least
    replan: Any  # int: episodes that share a plan; DOUBLING or NEVER
    planned_agents: Any  # (rows,) visits when the plan was made, for DOUBLING; else empty
    planned_environment: Any
    bounds: Any  # (L + 1, S, D) values for greedy planning, only ever raised; else empty
    least_bound: Any  # (L + 1, D) their least over states
    least_at: Any  # (L + 1, D) int64: the first state that has it


class Radii(NamedTuple):
    """The numbers of one episode from which radii follow: scale sqrt(constant / max(1, visits))."""

    agents: Any  # constants
    agents_scale: Any
    environment: Any
    environment_scale: Any
    cost: Any


DOUBLING, NEVER = 0, -1


@inlined
def radius(visits, constant, scale):
    return scale * np.sqrt(constant / max(1.0, visits))


@kernel
def radii(visits, counted, constant, scale, result):
    """The radius of each counted row; the rows behind them are known."""
    for r in range(counted):
        result[r] = radius(visits[r], constant, scale)
    for r in range(counted, visits.size):
        result[r] = 0.0


@inlined
def lower_cost(seen, true_cost, least, spread, r, s, constant, scale):
    """Mean cost seen in row r of an agent, in state s, minus its radius; at least the least cost of the state."""
    result = least[s]
    if seen.total[r] > 0.0:
        mean = 0.0
        for j in range(seen.start[r], seen.start[r] + seen.size[r]):
            mean += seen.weight[j] * true_cost[s, seen.column[j]]
        result = max(result, mean / seen.total[r] - spread[s] * radius(seen.total[r], constant, scale))
    return result


@kernel
def believe(mind, numbers):
    """Make the widths (and, for UCRL2, the costs) that follow from what was counted."""
    if not mind.flat:
        radii(mind.seen_agents.total, mind.counted_agents, numbers.agents, numbers.agents_scale, mind.agents_width)
    scale = numbers.environment_scale
    radii(mind.seen_environment.total, mind.counted_environment, numbers.environment, scale, mind.environment_width)
    if mind.learned_cost.size > 0:
        n_states, n_slots = mind.learned_cost.shape
        for c in range(n_slots):
            for s in range(n_states):
                mind.learned_cost[s, c] = lower_cost(
                    mind.seen_agents, mind.true_cost, mind.least_cost, mind.spread, c * n_states + s, s, numbers.cost, scale
                )


@inlined
def believe_at(mind, numbers, t, s):
    """`believe`, only what a backup of state s at time t needs."""
    n_agents = mind.problem.slot.size
    if not mind.flat:
        for d in range(n_agents):
            first, last = contexts(mind.problem.vary[d], t, n_agents)
            for c in range(first, last):
                r = mind.agents.row[mind.problem.slot[d] + c, s]
                if r < mind.counted_agents:
                    mind.agents_width[r] = radius(mind.seen_agents.total[r], numbers.agents, numbers.agents_scale)
    n_states, n_columns = mind.environment.row.shape
    for a in range(n_columns):
        r = mind.environment.row[s, a]
        if r < mind.counted_environment:
            mind.environment_width[r] = radius(mind.seen_environment.total[r], numbers.environment, numbers.environment_scale)
        if mind.learned_cost.size > 0:
            mind.learned_cost[s, a] = lower_cost(
                mind.seen_agents,
                mind.true_cost,
                mind.least_cost,
                mind.spread,
                a * n_states + s,
                s,
                numbers.cost,
                numbers.environment_scale,
            )


@inlined
def has_doubled(total, planned):
    """Has a row been visited as often since the plan was made as before it, or for the first time?"""
    found = False
    for r in range(planned.size):
        found = found or total[r] >= planned[r] + max(1.0, planned[r])
    return found


@kernel
def is_due(mind, episode, planned):
    """Must there be a new plan for this episode? `planned`: the episode for which the last one was made, 0: none."""
    if planned == 0:
        return True
    if mind.replan == DOUBLING:
        return has_doubled(mind.seen_agents.total, mind.planned_agents) or has_doubled(
            mind.seen_environment.total, mind.planned_environment
        )
    return mind.replan != NEVER and episode - planned >= mind.replan


@kernel
def note_visits(mind):
    """Keep what the doubling rule compares with."""
    for r in range(mind.planned_agents.size):
        mind.planned_agents[r] = mind.seen_agents.total[r]
    for r in range(mind.planned_environment.size):
        mind.planned_environment[r] = mind.seen_environment.total[r]


@kernel
def find_least(bounds, t, d, least_bound, least_at):
    """The least bound of a time step, from the state that had it before."""
    for s in range(least_at[t, d], bounds.shape[1]):
        if bounds[t, s, d] == least_bound[t, d]:
            least_at[t, d] = s
            return
    at = 0
    for s in range(bounds.shape[1]):
        if bounds[t, s, d] < bounds[t, at, d]:
            at = s
    least_bound[t, d] = bounds[t, at, d]
    least_at[t, d] = at


@inlined
def visit(mind, numbers, policy, t, s, seed, room, hands):
    """Greedy planning: one backup of state s at time t, from values that were only ever raised; raises its own.

    Efroni, Merlis, Ghavamzadeh and Mannor 2019, with the switch as the decision. Writes policy[t, s, :].
    """
    horizon, n_agents = policy.shape[0], policy.shape[2]
    believe_at(mind, numbers, t, s)
    for d in range(n_agents):
        hands.same[d] = d
        hands.least[d] = mind.least_bound[t + 1, d]
        hands.constant[d] = t == horizon - 1
        hands.uniform_width[d] = -1.0
    first, mode = np.int64(3 * (horizon - 1 - t)), np.int64(RAISE)
    for phase in range(first, first + 3):
        room.taken[phase] = 0
        room.done[phase] = 0
    room.changed[t] = 0
    room.stamp[0] += horizon
    bounds, only = mind.bounds, np.int64(s)
    backward(mind.agents, mind.environment, mind.problem, mode, policy, policy, bounds, bounds, seed, room, hands, first, only)
    if room.changed[t]:
        for d in range(n_agents):
            if mind.least_at[t, d] == s:
                find_least(bounds, t, d, mind.least_bound, mind.least_at)


@kernel
def visit_once(mind, numbers, policy, t, s, seed, room, hands):
    """`visit`, for a system that is not simulated."""
    same_start(mind.problem.switch_cost, mind.problem.vary, room.alike)
    visit(mind, numbers, policy, t, s, seed, room, hands)


@inlined
def make_plan(mind, policy, value, seed, room, hands):
    """The optimistic plan of what is believed: in full, or, with greedy planning, one step ahead of the bounds everywhere."""
    begin(mind.problem, np.int64(1), value, room)
    mode, source = (RAISE, mind.bounds) if mind.bounds.size > 0 else (CHOOSE, value)
    first, only = np.int64(0), np.int64(-1)
    backward(mind.agents, mind.environment, mind.problem, mode, policy, policy, value, source, seed, room, hands, first, only)


@inlined
def cost_of(world, policy, before, value, afresh, room, hands):
    """The exact expected cost of a policy. `value` holds that of `before` unless afresh; both are brought up to date."""
    begin(world.problem, afresh, value, room)
    mode, seed, first = np.int64(FOLLOW), np.int64(0), np.int64(0)  # not the constants: kernels are compiled for each of those
    agents, environment, only = world.agents, world.environment, np.int64(-1)
    backward(agents, environment, world.problem, mode, policy, before, value, value, seed, room, hands, first, only)
    horizon, n_states, n_agents = policy.shape
    for t in range(horizon):
        for s in range(n_states):
            for d in range(n_agents):
                before[t, s, d] = policy[t, s, d]
    return start_mean(world.start, value, world.start_agent)


class Ledger(NamedTuple):
    """What is written down of n episodes of D agents."""

    expected_cost: Any  # (n,) exact, of the policy
    cost: Any  # (n,) realised
    control: Any  # (n, D) int64: steps of each agent
    switches: Any  # (n,) int64


@kernel
def play_episodes(
    mind,
    world,
    numbers,
    seed,
    episode,
    planned,
    chance,
    counting,
    evaluate_every,
    policy,
    value,
    room,
    before,
    true_value,
    evaluated,
    true_room,
    hands,
    steps,
    ledger,
):
    """Up to n episodes: plan where it is due, evaluate, play, count.

    numbers: Radii of (n,) arrays. episode: k of the first; planned: for which episode policy and value were made, 0: none.
    chance: (n, 2 L + 1). counting: False: the caller counts each episode, there is one. before, true_value: the policy evaluated last
    and its value, if `evaluated`; with evaluate_every = m that is done before episodes 1, m + 1, ... and the cost carried on between.

    Returns the episodes played, for which episode the plan was made, how many steps of the last episode are counted, whether
    there is a policy evaluated last, and the pools' wants.
    """
    horizon = policy.shape[0]
    greedy = mind.bounds.size > 0
    states, who, actions, costs, times, rows = steps
    n = chance.shape[0]
    for i in range(n):
        k = episode + i
        now = Radii(
            numbers.agents[i], numbers.agents_scale[i], numbers.environment[i], numbers.environment_scale[i], numbers.cost[i]
        )
        ties = tie_seed(seed, k)
        looking = not evaluated or (k - 1) % evaluate_every == 0
        if (looking or not greedy) and is_due(mind, k, planned):
            believe(mind, now)
            make_plan(mind, policy, value, ties, room, hands)
            note_visits(mind)
            planned = k
        if looking:
            ledger.expected_cost[i] = cost_of(world, policy, before, true_value, np.int64(not evaluated), true_room, hands)
            evaluated = True
        else:
            ledger.expected_cost[i] = start_mean(world.start, true_value, world.start_agent)
        if greedy:  # after evaluation, which may have used the same room
            same_start(mind.problem.switch_cost, mind.problem.vary, room.alike)
        enter(world, chance[i], steps)
        total, handed = 0.0, 0
        for t in range(horizon):
            if greedy:
                visit(mind, now, policy, t, states[t], ties, room, hands)
            step(world, t, policy[t, states[t], who[t]], chance[i], steps)
            total += costs[t]
            ledger.control[i, who[t + 1]] += 1
            handed += who[t + 1] != who[t]
        ledger.cost[i] = total
        ledger.switches[i] = handed
        if not counting:
            return i + 1, planned, 0, evaluated, 0, 0
        n_states, columns = mind.environment.row.shape
        done, more_agents, more_environment = count_steps(
            mind.seen_agents,
            mind.seen_environment,
            mind.problem.slot,
            mind.problem.vary,
            n_states,
            columns,
            mind.flat,
            times,
            states[:-1],
            who[:-1],
            who[1:],
            actions,
            states[1:],
            rows,
            np.int64(0),
        )
        if done < horizon:
            return i + 1, planned, done, evaluated, more_agents, more_environment
    return n, planned, horizon, evaluated, 0, 0
