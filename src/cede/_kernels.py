"""Every compiled function: arrays in, arrays out, trusting its input.

One backward pass (`backward`) serves planning and evaluation. Per time step t, with v = v_{t+1} and Theorem 1's recursion

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
    worse_lo, _, _ = look(u, p, n, lo)  # mass worse than lo: more than the budget
    if worse_lo <= budget:
        return 0.0, 0.0
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
                return sum_hi + hi * (worse_hi - budget), hi
        worse, equal, capped = look(u, p, n, theta)
        if worse <= budget < worse + equal:
            return capped - budget * theta, theta
        if worse > budget:
            exact = worse == worse_lo
            lo, worse_lo, sum_lo = theta, worse, capped - theta * worse
        else:
            exact = worse + equal == worse_hi
            hi, worse_hi, sum_hi = theta, worse + equal, capped - theta * (worse + equal)


@kernel
def least_sum(u, p, n, budget, guess):
    """max_theta [ sum_j p_j min(u_j, theta) - budget theta ] and the theta where it is reached.

    u >= 0 and p are padded (see `pad`); budget >= 0. `guess` is where to look first
    (0: no idea). It saves passes and changes nothing: theta is an outcome, found exactly, and the sum depends on it alone.
    """
    if guess > 0.0:
        worse, equal, capped = look(u, p, n, guess)
        if worse <= budget < worse + equal:
            return capped - budget * guess, guess
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
def mark_needed(agents, row, slot, vary, follow, policy, t, d, mark, marks):
    """Mark the environment rows whose minimum agent d can need at time t: those of actions that it may take."""
    n_states, n_actions = row.shape
    starts, sizes, _, columns, _, widths, agent_row = agents
    first, last = contexts(vary, t, policy.shape[2])
    for s in range(n_states):
        if follow and not in_use(policy, t, s, d):
            continue
        for c in range(first, last):
            r = agent_row[slot + c, s]
            if sizes[r] == 0 or widths[r] > 0.0:
                for a in range(n_actions):
                    marks[row[s, a]] = mark
            else:
                for j in range(starts[r], starts[r] + sizes[r]):
                    marks[row[s, columns[j]]] = mark


@kernel
def environment_minima(environment, v, mark, marks, guess, later_guess, u, p, x):
    """x[r] = min_p sum_s' p(s') v(s') over the set of row r, for every marked row.

    guess[r]: the outcome at which the mass ran out when this step was planned last (-1: never); later_guess: one time step later.
    """
    starts, sizes, totals, columns, weights, widths, _ = environment
    n_states = v.size
    best = smallest(v, n_states)
    constant = True
    for s in range(n_states):
        constant = constant and v[s] == best
    if constant:
        for r in range(x.size):
            x[r] = best
        return
    uniform, uniform_width = 0.0, -1.0  # unvisited rows share one width as a rule: one pass serves them all
    for r in range(x.size):
        if marks[r] != mark:
            continue
        width = widths[r]
        if width >= 2.0:
            x[r] = best
            continue
        n = sizes[r]
        if n == 0:
            if width != uniform_width:
                for j in range(n_states):
                    u[j] = v[j] - best
                    p[j] = 1.0
                value, _ = least_sum(u, p, pad(u, p, n_states), 0.5 * width * n_states, 0.0)
                uniform, uniform_width = best + value / n_states, width
            x[r] = uniform
            continue
        start = starts[r]
        value = 0.0
        if width == 0.0:
            for j in range(start, start + n):
                value += weights[j] * (v[columns[j]] - best)
        else:
            for j in range(n):
                u[j] = v[columns[start + j]] - best
                p[j] = weights[start + j]
            at = guess[r] if guess[r] >= 0 else later_guess[r]
            known = u[at] if at >= 0 else 0.0
            value, theta = least_sum(u, p, pad(u, p, n), 0.5 * width * totals[r], known)
            guess[r] = at if theta == known else position(u, n, theta)
        x[r] = best + value / totals[r]


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
def agent_minimum(starts, sizes, totals, columns, weights, width, r, y, guess, u, p):
    """min_p sum_a p(a) y(a) over the set of the agent's row r."""
    result = smallest(y, y.size)
    if width < 2.0:
        start, n, total = starts[r], sizes[r], totals[r]
        if n == 0:
            n, total = y.size, float(y.size)
            for j in range(n):
                u[j] = y[j] - result
                p[j] = 1.0
        else:
            for j in range(n):
                u[j] = y[columns[start + j]] - result
                p[j] = weights[start + j]
        known = u[guess[r]] if guess[r] >= 0 else 0.0
        value, theta = least_sum(u, p, pad(u, p, n), 0.5 * width * total, known)
        if theta != known:
            guess[r] = position(u, n, theta)
        result += value / total
    return result


@kernel
def tie_break(seed, place, n):
    """A number from 0 to n - 1 that depends on the seed and the place alone (splitmix64)."""
    z = np.uint64(seed) + np.uint64(place + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.int64(z % np.uint64(n))


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
def switch(control_cost, switch_cost, vary, m, alike, follow, policy, value, t, s, q, seed):
    """The outer minimum of Theorem 1 in state s, for every previous agent; or, with `follow`, the policy's choice."""
    n_agents = q.size
    for prev in range(n_agents):
        if follow:
            d = policy[t, s, prev]
            c = prev if vary[d] == BY_PREV_AGENT else 0
            value[t, s, prev] = (control_cost[d] + switch_cost[prev, d]) + m[c, d]
        elif alike[prev] < prev:
            policy[t, s, prev] = policy[t, s, alike[prev]]
            value[t, s, prev] = value[t, s, alike[prev]]
        else:
            for d in range(n_agents):
                c = prev if vary[d] == BY_PREV_AGENT else 0
                q[d] = (control_cost[d] + switch_cost[prev, d]) + m[c, d]
            d = best_agent(q, seed, t * value.shape[1] + s)
            policy[t, s, prev] = d
            value[t, s, prev] = q[d]


def room_to_work(horizon: int, n_states: int, n_actions: int, n_agents: int, n_rows: int, agent_rows: int) -> tuple[Any, Any]:
    """What `backward` needs beside its arguments: floats and ints. The ints remember where searches ended; used again for a
    similar plan they save passes, and change nothing else.
    """
    longest = max(n_states, n_actions) + BLOCK
    floats = np.empty(n_agents * n_rows + 2 * longest + n_actions + n_states + n_agents + n_agents * n_agents)
    ints = np.full((horizon + 1) * n_agents * n_rows + 2 * n_agents + agent_rows, -1, dtype=np.int32)
    return floats, ints


@kernel
def backward(agents, environment, slot, vary, env_cost, control_cost, switch_cost, follow, policy, value, seed, floats, ints):
    """Theorem 1 from the last step to the first.

    agents, environment: Layer. slot: (D,) first slot of each agent; vary: (D,) how it varies. env_cost: (S, A).
    control_cost: (D,). switch_cost: (D, D). value: (L + 1, S, D), written. policy: (L, S, D), written, or, with `follow`,
    read: value is then what that policy costs. floats, ints: of `room_to_work`.
    """
    starts, sizes, totals, columns, weights, widths, agent_row = agents
    row = environment.row
    horizon, n_states, n_agents = policy.shape
    n_actions = env_cost.shape[1]
    n_rows = environment.start.size
    size, longest = n_agents * n_rows, max(n_states, n_actions) + BLOCK
    x = floats[:size].reshape((n_agents, n_rows))  # least expected v_{t+1}(., d) of each environment row
    u, p = floats[size : size + longest], floats[size + longest : size + 2 * longest]
    rest = floats[size + 2 * longest :]
    y, v, q = rest[:n_actions], rest[n_actions : n_actions + n_states], rest[n_actions + n_states : n_actions + n_states + n_agents]
    m = rest[n_actions + n_states + n_agents :].reshape((n_agents, n_agents))  # m[prev, d]: the agent's minimum
    guess = ints[: horizon * size].reshape((horizon, n_agents, n_rows))
    marks = ints[horizon * size : (horizon + 1) * size].reshape((n_agents, n_rows))
    tail = ints[(horizon + 1) * size :]
    same, alike, agent_guess = tail[:n_agents], tail[n_agents : 2 * n_agents], tail[2 * n_agents :]
    for r in range(size):
        marks[r // n_rows, r % n_rows] = -1
    same_start(switch_cost, vary, alike)
    for s in range(n_states):
        for d in range(n_agents):
            value[horizon, s, d] = 0.0
    for t in range(horizon - 1, -1, -1):
        equal_columns(value[t + 1], same)
        for d in range(n_agents):
            mark_needed(agents, row, slot[d], vary[d], follow, policy, t, d, t, marks[same[d]])
        for d in range(n_agents):
            if same[d] == d:
                for s in range(n_states):
                    v[s] = value[t + 1, s, d]
                environment_minima(environment, v, t, marks[d], guess[t, d], guess[min(t + 1, horizon - 1), d], u, p, x[d])
        for s in range(n_states):
            filled = -1  # the agent for whose column y was made
            for d in range(n_agents):
                if follow and not in_use(policy, t, s, d):
                    continue
                first, last = contexts(vary[d], t, n_agents)
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
                        least = agent_minimum(starts, sizes, totals, columns, weights, width, r, y, agent_guess, u, p)
                    m[c if last - first > 1 else 0, d] = least
            switch(control_cost, switch_cost, vary, m, alike, follow, policy, value, t, s, q, seed)


# ------------------------------------------------------------------------------------------------- acting and counting


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


@kernel
def roll(agents, environment, slot, vary, env_cost, control_cost, switch_cost, policy, start, chance, states, who, actions, costs):
    """One episode under the true tables. chance: (2 L + 1,) uniform numbers; start: (S,) running sums of the start
    distribution; who: (L + 1,), who[0] = d_0 given, who[t + 1] acts at time t.
    """
    horizon = policy.shape[0]
    s = 0
    while s < start.size - 1 and start[s] <= chance[2 * horizon]:
        s += 1
    states[0] = s
    for t in range(horizon):
        s = states[t]
        prev = who[t]
        d = policy[t, s, prev]
        a = draw(agents, agents.row[slot[d] + context(vary[d], t, prev), s], chance[2 * t])
        states[t + 1] = draw(environment, environment.row[s, a], chance[2 * t + 1])
        who[t + 1] = d
        actions[t] = a
        costs[t] = env_cost[s, a] + control_cost[d] + switch_cost[prev, d]


@kernel
def sum_up(prevs, who, costs, control):
    """Cost and hand-overs of an episode; adds each agent's steps to control."""
    total, switches = 0.0, 0
    for t in range(who.size):
        total += costs[t]
        control[who[t]] += 1
        if who[t] != prevs[t]:
            switches += 1
    return total, switches


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
def count_steps(agents, environment, slot, vary, n_states, n_actions, flat, times, states, prevs, who, actions, nexts, rows):
    """Add steps to both pools, or, if one may be too short, add nothing and return how many places it wants.

    rows: (2, n) room to work.
    """
    n = states.size
    wanted_agents, wanted_environment = 0, 0
    for i in range(n):
        place = slot[who[i]] + context(vary[who[i]], times[i], prevs[i])
        rows[0, i] = place * n_states + states[i]
        rows[1, i] = states[i] * n_actions + (place if flat else actions[i])
        wanted_agents += 2 * (agents.size[rows[0, i]] + n) + 2
        wanted_environment += 2 * (environment.size[rows[1, i]] + n) + 2
    wanted_agents -= agents.column.size - agents.end[0]
    wanted_environment -= environment.column.size - environment.end[0]
    if wanted_agents > 0 or wanted_environment > 0:
        return max(wanted_agents, 0), max(wanted_environment, 0)
    for i in range(n):
        add_one(agents, rows[0, i], actions[i])
        add_one(environment, rows[1, i], nexts[i])
    return 0, 0


@kernel
def radii(visits, counted, constant, scale, result):
    """scale sqrt(constant / max(1, visits)) for the counted rows; the rows behind them are known."""
    for r in range(counted):
        result[r] = scale * np.sqrt(constant / max(1.0, visits[r]))
    for r in range(counted, visits.size):
        result[r] = 0.0


@kernel
def first_outside(values, size):
    """Where the first element lies that is no index below size; -1 if there is none."""
    for i in range(values.size):
        if not 0 <= values[i] < size:
            return i
    return -1


@kernel
def lower_costs(agents, env_cost, least, spread, radius, result):
    """result[s, slot]: mean cost seen of a slot in a state minus its radius, at least the least cost of the state."""
    n_states, n_slots = result.shape
    for c in range(n_slots):
        for s in range(n_states):
            r = c * n_states + s
            result[s, c] = least[s]
            if agents.total[r] > 0.0:
                mean = 0.0
                for j in range(agents.start[r], agents.start[r] + agents.size[r]):
                    mean += agents.weight[j] * env_cost[s, agents.column[j]]
                result[s, c] = max(least[s], mean / agents.total[r] - spread[s] * radius[r])
