"""Episodes under the true tables."""

from numba import types

from cede._kernels.bundle import Bundle, Float1, Int1
from cede._kernels.compiling import kernel, unit
from cede._kernels.layer import slot_of
from cede._kernels.model import ModelArrays


class Truth(Bundle):
    """The true problem, as a simulation needs it."""

    model: ModelArrays  # true tables, width 0
    start: Float1  # (S,) probabilities of the first state
    cumulated_start: Float1  # (S,) their running sums
    start_agent: int
    acting: Int1  # (D,) the member who acts when each agent is in control
    aim: Int1  # (D,) the member who is in control then, or is taking over


class Steps(Bundle):
    """One episode as it is played."""

    states: Int1  # (L + 1,)
    who: Int1  # (L + 1,) who[0] = d_0, who[t + 1] acts at time t
    actions: Int1  # (L,)
    costs: Float1  # (L,)


@kernel
def draw(table, r, chance):
    """Return the outcome of row r at which the cumulated probability passes chance."""
    n, start, weights = table.size[r], table.start[r], table.weight
    left = chance * table.total[r]
    for j in range(start, start + n - 1):
        left -= weights[j]
        if left < 0.0:
            return table.column[j]
    return table.column[start + n - 1]


@kernel
def enter(truth, chance, steps):
    """Draw the first state of an episode. chance: (2 L + 1,) uniform numbers, the last one for this."""
    s = 0
    while s < truth.start.size - 1 and truth.cumulated_start[s] <= chance[chance.size - 1]:
        s += 1
    steps.states[0] = s
    steps.who[0] = truth.start_agent


@unit(types.none, Truth, types.int64, types.int64, types.float64[::1], Steps)
def step(truth, t, d, chance, steps):
    """Let agent d act at time t, under the true tables."""
    problem, agents, environment = truth.model.problem, truth.model.agents, truth.model.environment
    s, prev = steps.states[t], steps.who[t]
    a = draw(agents.table, agents.row[problem.slot[d] + slot_of(problem.vary[d], t, prev), s], chance[2 * t])
    steps.states[t + 1] = draw(environment.table, environment.row[s, a], chance[2 * t + 1])
    steps.who[t + 1] = d
    steps.actions[t] = a
    steps.costs[t] = problem.env_cost[s, a] + problem.control_cost[d] + problem.switch_cost[prev, d]


@kernel
def play_episode(truth, policy, chance, steps):
    """Play one episode of a policy, (L, S, D), with these random numbers, (2 L + 1,)."""
    enter(truth, chance, steps)
    for t in range(policy.shape[0]):
        step(truth, t, policy[t, steps.states[t], steps.who[t]], chance, steps)
