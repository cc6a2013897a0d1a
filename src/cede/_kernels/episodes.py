"""Episodes: playing them under the true tables, and counting what was seen."""

import numpy as np

from cede._kernels.compiling import inlined, kernel
from cede._kernels.data import BY_PREV_AGENT, BY_TIME, CHUNK


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


@inlined
def find(pool, r, column):
    """Where in the pool `column` stands in row r, or would stand."""
    lo, hi = pool.start[r], pool.start[r] + pool.size[r]
    while lo < hi:
        middle = (lo + hi) // 2
        if pool.column[middle] < column:
            lo = middle + 1
        else:
            hi = middle
    return lo


@kernel
def add(pool, r, column, amount):
    """Count `column` in row r, keeping the row sorted. The caller has seen to it that the pool is long enough."""
    start, n = pool.start[r], pool.size[r]
    lo = find(pool, r, column)
    pool.total[r] += amount
    if lo < start + n and pool.column[lo] == column:
        pool.weight[lo] += amount
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
    pool.weight[lo] = amount
    pool.size[r] = n + 1


@kernel
def take(pool, r, column):
    """Undo that one `column` was counted in row r."""
    lo, last = find(pool, r, column), pool.start[r] + pool.size[r] - 1
    pool.total[r] -= 1.0
    pool.weight[lo] -= 1.0
    if pool.weight[lo] == 0.0:
        for j in range(lo, last):
            pool.column[j] = pool.column[j + 1]
            pool.weight[j] = pool.weight[j + 1]
        pool.size[r] -= 1


LEAST_WEIGHT = 1e-9  # of an outcome: what has faded to less is forgotten


@inlined
def fade(pool, fading, columns, episode, keys):
    """Forget after an episode, whose steps have just been counted. keys: row * columns + column of each."""
    for r in range(fading.factor.size):
        factor = fading.factor[r]
        if factor < 1.0 and pool.size[r] > 0:
            total, to = 0.0, pool.start[r]
            for j in range(pool.start[r], pool.start[r] + pool.size[r]):
                weight = pool.weight[j] * factor
                if weight >= LEAST_WEIGHT:
                    pool.column[to] = pool.column[j]
                    pool.weight[to] = weight
                    total += weight
                    to += 1
            pool.size[r] = to - pool.start[r]
            pool.total[r] = total
    longest = fading.recent.shape[0]
    if longest > 0:
        for i in range(fading.lengths.size):
            window = fading.lengths[i]
            if episode > window:
                gone = (episode - window - 1) % longest
                for t in range(fading.recent.shape[1]):
                    key = fading.recent[gone, t]
                    if key >= 0 and fading.window[key // columns] == window:
                        take(pool, key // columns, key % columns)
        now = (episode - 1) % longest
        for t in range(fading.recent.shape[1]):
            fading.recent[now, t] = keys[t] if t < keys.size else -1


@kernel
def fade_both(agents, environment, fading_agents, fading_environment, n_actions, columns, episode, agent_keys, environment_keys):
    """`fade` of both tables."""
    fade(agents, fading_agents, n_actions, episode, agent_keys)
    fade(environment, fading_environment, columns, episode, environment_keys)


@kernel
def keys_of_steps(places, slot, vary, flat, n_actions, times, states, prevs, who, actions, nexts, agents, environment):
    """Where steps are counted: row * columns + column of both tables."""
    for i in range(states.size):
        t, s, prev, d, a = times[i], states[i], prevs[i], who[i], actions[i]
        row, column, environment_row, outcome = cells_of(places, slot, vary, flat, t, s, prev, d, a, nexts[i])
        agents[i] = row * n_actions + column
        environment[i] = environment_row * places.columns + outcome


@inlined
def room_wanted(size, more):
    """So many places are enough, in all, for a row that grows by `more`, each time it moves to twice its room."""
    return 4 * (size + more) + 8


@kernel
def sums_wanted(pool, rows):
    """The places that a pool needs for more outcomes. rows: (n,) ascending, the row of each."""
    wanted, i = 0, 0
    while i < rows.size:
        j = i
        while j < rows.size and rows[j] == rows[i]:
            j += 1
        wanted += room_wanted(pool.size[rows[i]], j - i)
        i = j
    return wanted - (pool.column.size - pool.end[0])


@kernel
def add_sums(pool, rows, columns, amounts):
    """Add sparse sums to a pool."""
    for i in range(rows.size):
        add(pool, rows[i], columns[i], amounts[i])


@inlined
def cells_of(places, slot, vary, flat, t, s, prev, d, a, to):
    """Where a step is counted: row and column of the agents' table, row and column of the environment's."""
    place = slot[d] + context(vary[d], t, prev)
    agents, environment = places.agents[place, s], places.environment[s, place if flat else a]
    return agents, outcome_of(places.actions, place, s, a), environment, outcome_of(places.next_states, s, a, to)


@kernel
def outcome_of(leads, i, j, to):
    """The outcome that leads from place (i, j) to `to`; -1: there is none."""
    if leads.lead.size == 0:
        return to
    row = leads.lead[i, j]
    lo, hi = leads.begin[row], leads.begin[row + 1]
    end = hi
    while lo < hi:
        middle = (lo + hi) // 2
        if leads.to[middle] < to:
            lo = middle + 1
        else:
            hi = middle
    return leads.outcome[lo] if lo < end and leads.to[lo] == to else np.int64(-1)


@kernel
def count_steps(agents, environment, places, slot, vary, flat, times, states, prevs, who, actions, nexts, cells, done):
    """Add steps to both pools, from step done[0] on, until a pool may be too short; done[0] says how far that was.

    How many places each pool wants. cells: (4, CHUNK) room to work.
    """
    while done[0] < states.size:
        first = done[0]
        n = min(CHUNK, states.size - first)
        wanted_agents, wanted_environment = 0, 0
        for i in range(n):
            t, s, prev, d, a = times[first + i], states[first + i], prevs[first + i], who[first + i], actions[first + i]
            found = cells_of(places, slot, vary, flat, t, s, prev, d, a, nexts[first + i])
            cells[0, i], cells[1, i], cells[2, i], cells[3, i] = found
            wanted_agents += 2 * (agents.size[cells[0, i]] + n) + 2
            wanted_environment += 2 * (environment.size[cells[2, i]] + n) + 2
        wanted_agents -= agents.column.size - agents.end[0]
        wanted_environment -= environment.column.size - environment.end[0]
        if wanted_agents > 0 or wanted_environment > 0:
            return max(wanted_agents, 0), max(wanted_environment, 0)
        for i in range(n):
            add(agents, cells[0, i], cells[1, i], 1.0)
            add(environment, cells[2, i], cells[3, i], 1.0)
        done[0] += n
    return 0, 0


@kernel
def first_outside(values, size):
    """Where the first element lies that is no index below size; -1 if there is none."""
    for i in range(values.size):
        if not 0 <= values[i] < size:
            return i
    return -1
