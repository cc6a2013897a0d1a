"""Episodes under the true tables."""

import numpy as np
from numba import types

from cede._kernels.account import cost_after_end, is_hand_over, total_cost
from cede._kernels.bundle import Bundle, Float1, Float3, Int1
from cede._kernels.compiling import inlined, kernel, unit
from cede._kernels.problem import block_at, ends_in
from cede.planning.model import ModelArrays
from cede.rows.counting import slot_of


class Truth(Bundle):
    """The true problem, as a simulation needs it."""

    model: ModelArrays  # true tables, width 0
    start: Float1  # (S,) probabilities of the first state
    cumulated_start: Float1  # (S,) their running sums
    start_agent: int
    acting: Int1  # (D,) the member who acts when each agent is in control
    aim: Int1  # (D,) the member who is in control then, or is taking over
    random_cost: Float3  # (S, A, Q) what the environment may charge, all equally likely; empty: always the mean


class EpisodeArrays(Bundle):
    """One episode as it is played."""

    states: Int1  # (L + 1,)
    who: Int1  # (L + 1,) who[0] = d_0, who[t + 1] acts at time t
    actions: Int1  # (L,)
    costs: Float1  # (L,) environment, control, switching and arriving together; at an end also the rest of the steps
    env_costs: Float1  # (L,) what the environment charged for each action
    enter_costs: Float1  # (L,) what it charged for arriving
    n: int  # steps that were taken: fewer than L if the episode ended before


cost_of_step, cost_of_rest, hands_over = inlined(total_cost), inlined(cost_after_end), inlined(is_hand_over)


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
def first_state(truth, chance):
    """Draw the first state of an episode with a uniform number."""
    s = 0
    while s < truth.start.size - 1 and truth.cumulated_start[s] <= chance:
        s += 1
    return s


@kernel
def enter(truth, chance, steps):
    """Draw the first state of an episode. chance: uniform numbers, two for each step, a third one for each if costs are random, and
    the last one for this.
    """
    steps.states[0] = first_state(truth, chance[chance.size - 1])
    steps.who[0] = truth.start_agent
    steps.n = 0


@unit(types.none, Truth, types.int64, types.int64, types.float64, types.float64, types.float64, EpisodeArrays)
def step(truth, t, d, chance_of_action, chance_of_state, chance_of_cost, steps):
    """Let agent d act at time t, under the true tables, with a uniform number for each thing that is drawn."""
    problem, agents, environment, random_cost = truth.model.problem, truth.model.agents, truth.model.environment, truth.random_cost
    s, prev, now = steps.states[t], steps.who[t], t if problem.left.size > 0 else np.int64(0)
    a = draw(agents.table, agents.row[problem.slot[d] + slot_of(problem.vary[d], t, prev), s], chance_of_action)
    to = draw(environment.table, environment.row[block_at(problem, now) + s, a], chance_of_state)
    steps.states[t + 1] = to
    steps.who[t + 1] = d
    steps.actions[t] = a
    steps.env_costs[t] = problem.env_cost[s, a]
    if random_cost.size > 0:
        which = chance_of_cost * random_cost.shape[2]
        steps.env_costs[t] = random_cost[s, a, min(np.int64(which), random_cost.shape[2] - 1)]
    steps.enter_costs[t] = problem.enter_cost[to] if problem.enter_cost.size > 0 else 0.0
    control_cost = problem.control_cost[min(s, problem.control_cost.shape[0] - 1), d]
    switch_cost = problem.switch_cost[min(s, problem.switch_cost.shape[0] - 1), prev, d]
    steps.costs[t] = cost_of_step(steps.env_costs[t], control_cost, switch_cost, steps.enter_costs[t])
    if ends_in(problem, to) and problem.left.size > 0:
        steps.costs[t] += cost_of_rest(problem.discount, problem.env_cost[to, 0], problem.left[t + 1])
    steps.n = t + 1


@kernel
def step_with(truth, t, d, chance, steps):
    """Let agent d act at time t of an episode with a horizon. chance: see `enter`."""
    chance_of_cost = chance[2 * steps.actions.size + t] if truth.random_cost.size > 0 else 0.0
    step(truth, t, d, chance[2 * t], chance[2 * t + 1], chance_of_cost, steps)


@kernel
def is_over(truth, steps):
    """Return whether an episode has ended before the horizon."""
    return ends_in(truth.model.problem, steps.states[steps.n])


@kernel
def play_on(truth, policy, chance, steps, until):
    """Play on by a policy, (L, S, D), to time `until` or to the end of the episode. chance: see `enter`."""
    while steps.n < until and not is_over(truth, steps):
        t = steps.n
        step_with(truth, t, policy[t, steps.states[t], steps.who[t]], chance, steps)


@kernel
def play_episode(truth, policy, chance, steps):
    """Play one episode of a policy, (L, S, D), with these random numbers, see `enter`."""
    enter(truth, chance, steps)
    play_on(truth, policy, chance, steps, policy.shape[0])


@kernel
def add_step(truth, steps, t, control):
    """Count step t for the member who acted, control: (members,); return 1 if control was handed over, else 0."""
    prev, d = steps.who[t], steps.who[t + 1]
    control[truth.acting[d]] += 1
    return np.int64(hands_over(truth.aim, prev, d))
