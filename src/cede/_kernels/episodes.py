"""Episodes: playing them under the true tables, and counting what was seen."""

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
def places(slot, vary, n_states, n_actions, flat, t, s, prev, d, a):
    """The rows in which a step is counted: the agents', the environment's."""
    place = slot[d] + context(vary[d], t, prev)
    return place * n_states + s, s * n_actions + (place if flat else a)


@kernel
def count_steps(agents, environment, slot, vary, n_states, n_actions, flat, times, states, prevs, who, actions, nexts, rows, done):
    """Add steps to both pools, from step done[0] on, until a pool may be too short; done[0] says how far that was.

    How many places each pool wants. rows: (2, CHUNK) room to work.
    """
    while done[0] < states.size:
        first = done[0]
        n = min(CHUNK, states.size - first)
        wanted_agents, wanted_environment = 0, 0
        for i in range(n):
            t, s, prev, d, a = times[first + i], states[first + i], prevs[first + i], who[first + i], actions[first + i]
            rows[0, i], rows[1, i] = places(slot, vary, n_states, n_actions, flat, t, s, prev, d, a)
            wanted_agents += 2 * (agents.size[rows[0, i]] + n) + 2
            wanted_environment += 2 * (environment.size[rows[1, i]] + n) + 2
        wanted_agents -= agents.column.size - agents.end[0]
        wanted_environment -= environment.column.size - environment.end[0]
        if wanted_agents > 0 or wanted_environment > 0:
            return max(wanted_agents, 0), max(wanted_environment, 0)
        for i in range(n):
            add(agents, rows[0, i], actions[first + i], 1.0)
            add(environment, rows[1, i], nexts[first + i], 1.0)
        done[0] += n
    return 0, 0


@kernel
def first_outside(values, size):
    """Where the first element lies that is no index below size; -1 if there is none."""
    for i in range(values.size):
        if not 0 <= values[i] < size:
            return i
    return -1
