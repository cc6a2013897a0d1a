"""Compiled counting: the row and the outcome in which a step is counted, and how counts fade."""

import numpy as np
from numba import types

from cede._kernels.bundle import Bundle, Float1, Int1, Int2
from cede._kernels.compiling import inlined, kernel, unit
from cede._kernels.problem import BY_PREV_AGENT, BY_TIME, block_at
from cede._kernels.tables import Table, add, take

CHUNK = 64  # steps counted at once: the room wanted for them grows with their number squared
LEAST_WEIGHT = 1e-9  # an outcome that has faded to less is forgotten


class OutcomeIndex(Bundle):
    """The inverse of `Outcomes.to`: from a next state of (s, a), or an action of (slot, s), to the outcome."""

    entry: Int2  # (places) which of the lists below; empty: the outcome is the next state or action
    begin: Int1  # (lists + 1,) where each list begins in the next two
    to: Int1  # (n,) ascending in each list
    outcome: Int1  # (n,) the outcome that leads there


class Forgetting(Bundle):
    """How counts fade after every episode."""

    factor: Float1  # (rows,) by which counts are multiplied; empty: counts do not fade
    window: Int1  # (rows,) episodes for which a step counts, 0: for ever
    lengths: Int1  # (n,) the windows that there are
    recent: Int2  # (longest window, L) row * n_columns + column of the last steps, -1: none


class CountsArrays(Bundle):
    """Where the steps of one layer are counted."""

    seen: Table  # the counts; rows from `counted` on hold known probabilities
    counted: int  # rows that are counted
    n_columns: int  # outcomes that a row can have
    place: Int2  # agents: (slots, S); environment: (periods * S, A), or with slots for UCRL2: the row in which a step is counted
    outcomes: OutcomeIndex
    forgetting: Forgetting


@inlined
def slot_of(vary, t, prev):
    """Return the slot, counted from the agent's first, that acts at time t after prev."""
    if vary == BY_TIME:
        return t
    if vary == BY_PREV_AGENT:
        return prev
    return 0


@unit(types.int64, OutcomeIndex, types.int64, types.int64, types.int64)
def find_outcome(index, i, j, to):
    """Return the outcome that leads from place (i, j) to `to`, by binary search; -1: there is none."""
    row = index.entry[i, j]
    lo, hi = index.begin[row], index.begin[row + 1]
    end, targets = hi, index.to
    while lo < hi:
        middle = (lo + hi) // 2
        if targets[middle] < to:
            lo = middle + 1
        else:
            hi = middle
    return index.outcome[lo] if lo < end and targets[lo] == to else np.int64(-1)


@kernel
def outcome_of(index, i, j, to):
    """Return the outcome that leads from place (i, j) to `to`; -1: there is none."""
    return to if index.entry.size == 0 else find_outcome(index, i, j, to)


@kernel
def cells_of(agents, environment, problem, flat, t, s, prev, d, a, to):
    """Return where a step is counted: row and column of the agents' table, row and column of the environment's."""
    slot = problem.slot[d] + slot_of(problem.vary[d], t, prev)
    now = block_at(problem, t) + s
    row, environment_row = agents.place[slot, s], environment.place[now, slot if flat else a]
    return row, outcome_of(agents.outcomes, slot, s, a), environment_row, outcome_of(environment.outcomes, s, a, to)


@kernel
def keys_of_steps(agents, environment, problem, flat, times, states, prevs, who, actions, nexts, agent_keys, environment_keys):
    """Write row * n_columns + column of where each step is counted, for both layers."""
    for i in range(states.size):
        t, s, prev, d, a = times[i], states[i], prevs[i], who[i], actions[i]
        row, column, environment_row, outcome = cells_of(agents, environment, problem, flat, t, s, prev, d, a, nexts[i])
        agent_keys[i] = row * agents.n_columns + column
        environment_keys[i] = environment_row * environment.n_columns + outcome


@kernel
def count_steps(agents, environment, problem, flat, times, states, prevs, who, actions, nexts, cells, done):
    """Add steps to the tables of both layers, from step done[0] on, until a pool may be too short; done[0] is then the first step
    that was not added.

    Return how many places each pool lacks. cells: (4, CHUNK) scratch.
    """
    while done[0] < states.size:
        first = done[0]
        n = min(CHUNK, states.size - first)
        wanted_agents, wanted_environment = 0, 0
        for i in range(n):
            t, s, prev, d, a = times[first + i], states[first + i], prevs[first + i], who[first + i], actions[first + i]
            found = cells_of(agents, environment, problem, flat, t, s, prev, d, a, nexts[first + i])
            cells[0, i], cells[1, i], cells[2, i], cells[3, i] = found
            wanted_agents += 2 * (agents.seen.size[cells[0, i]] + n) + 2
            wanted_environment += 2 * (environment.seen.size[cells[2, i]] + n) + 2
        wanted_agents -= agents.seen.column.size - agents.seen.end
        wanted_environment -= environment.seen.column.size - environment.seen.end
        if wanted_agents > 0 or wanted_environment > 0:
            return max(wanted_agents, 0), max(wanted_environment, 0)
        for i in range(n):
            add(agents.seen, cells[0, i], cells[1, i], 1.0)
            add(environment.seen, cells[2, i], cells[3, i], 1.0)
        done[0] += n
    return 0, 0


# ------------------------------------------------------------------------------------------------- forgetting


@unit(types.none, CountsArrays, types.int64, types.int64[::1])
def forget(counts, episode, keys):
    """Fade counts after an episode, whose steps have just been counted. keys: row * n_columns + column of each."""
    table, fading, columns = counts.seen, counts.forgetting, counts.n_columns
    column, weights, sizes = table.column, table.weight, table.size
    for r in range(fading.factor.size):
        factor = fading.factor[r]
        if factor < 1.0 and sizes[r] > 0:
            total, to = 0.0, table.start[r]
            for j in range(table.start[r], table.start[r] + sizes[r]):
                weight = weights[j] * factor
                if weight >= LEAST_WEIGHT:
                    column[to] = column[j]
                    weights[to] = weight
                    total += weight
                    to += 1
            sizes[r] = to - table.start[r]
            table.total[r] = total
    recent = fading.recent
    longest = recent.shape[0]
    if longest > 0:
        for i in range(fading.lengths.size):
            window = fading.lengths[i]
            if episode > window:
                gone = (episode - window - 1) % longest
                for t in range(recent.shape[1]):
                    key = recent[gone, t]
                    if key >= 0 and fading.window[key // columns] == window:
                        take(table, key // columns, key % columns, 1.0)
        now = (episode - 1) % longest
        for t in range(recent.shape[1]):
            recent[now, t] = keys[t] if t < keys.size else -1


@kernel
def part_kept(fading):
    """Return the factor by which counts fade after an episode, if all rows fade by one rule; for a window of w episodes, the factor
    1 - 1/w of an equally long memory.
    """
    if fading.factor.size == 0:
        return 1.0
    if fading.lengths.size > 0:
        return 1.0 - 1.0 / fading.lengths[0]
    return fading.factor[0]
