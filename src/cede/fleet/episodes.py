"""Episodes under the true tables."""

import numpy as np
from numba import types

from cede._kernels.account import cost_after_end, is_hand_over, total_cost
from cede._kernels.bundle import Bundle, Float1, Float3, Int1
from cede._kernels.compiling import inlined, kernel, unit
from cede._kernels.problem import block_at, ends_in
from cede.planning.model import ModelArrays
from cede.problem.model import Environment
from cede.problem.task import Task
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

    @classmethod
    def of(cls, task: Task, environment: Environment, model: ModelArrays) -> "Truth":
        """Return the true problem of a team. model: the true tables."""
        start = {"start": environment.start, "cumulated_start": environment.cumulated_start, "start_agent": int(task.start_agent)}
        random_cost = np.empty((0, 0, 0)) if environment.random_cost is None else environment.random_cost
        return cls(model=model, **start, acting=task.acting, aim=task.layout.aim, random_cost=random_cost)


class EpisodeArrays(Bundle):
    """One episode as it is played."""

    states: Int1  # (L + 1,)
    who: Int1  # (L + 1,) who[0] = d_0, who[t + 1] acts at time t
    actions: Int1  # (L,)
    costs: Float1  # (L,) environment, control, switching and arriving together; at an end also the rest of the steps
    env_costs: Float1  # (L,) what the environment charged for each action
    enter_costs: Float1  # (L,) what it charged for arriving
    n: int  # steps that were taken: fewer than L if the episode ended before

    @classmethod
    def empty(cls, steps: int) -> "EpisodeArrays":
        """Make arrays for so many steps: those of an episode, or without horizon those of a block."""
        states, who, actions = (np.empty(steps + n, dtype=np.int64) for n in (1, 1, 0))
        costs = {name: np.empty(steps) for name in ("costs", "env_costs", "enter_costs")}
        return cls(states=states, who=who, actions=actions, **costs)


def numbers_drawn(environment: Environment, task: Task) -> int:
    """Return how many random numbers are drawn for an episode (see `enter`), or without horizon for a step (see `play_block`)."""
    for_each = 2 + (environment.random_cost is not None)
    drawn = for_each + 1 if task.horizon is None else for_each * task.plan_steps + 1
    return drawn + task.plan_steps if task.has_orders else drawn


cost_of_step, cost_of_rest, hands_over = inlined(total_cost), inlined(cost_after_end), inlined(is_hand_over)


@kernel
def obeyed_by(problem, prev, u, chance):
    """Return who gets control after prev by an order u, drawn with a uniform number where that is random."""
    row = problem.order[prev, u]
    if row < 0:
        return u
    last = problem.first_outcome[row + 1] - 1
    for i in range(problem.first_outcome[row], last):
        chance -= problem.chance[i]
        if chance < 0.0:
            return problem.outcome[i]
    return problem.outcome[last]


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
    """Draw the first state of an episode. chance: uniform numbers, two for each step, a third one for each if costs are random,
    another one for each if orders have random outcomes, and the last one for this.
    """
    steps.states[0] = first_state(truth, chance[chance.size - 1])
    steps.who[0] = truth.start_agent
    steps.n = 0


@unit(types.none, Truth, types.int64, types.int64, *[types.float64] * 4, EpisodeArrays)
def step(truth, t, order, chance_of_order, chance_of_action, chance_of_state, chance_of_cost, steps):
    """Give an order at time t, and let who gets control act under the true tables. chance_of_...: a uniform number for each thing
    that is drawn.
    """
    problem, agents, environment, random_cost = truth.model.problem, truth.model.agents, truth.model.environment, truth.random_cost
    s, prev, now = steps.states[t], steps.who[t], t if problem.left.size > 0 else np.int64(0)
    d = obeyed_by(problem, prev, order, chance_of_order) if problem.order.size > 0 else order
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
def step_with(truth, t, order, chance, steps):
    """Give an order at time t of an episode with a horizon, and let who gets control act. chance: see `enter`."""
    horizon, problem = steps.actions.size, truth.model.problem
    chance_of_cost = chance[2 * horizon + t] if truth.random_cost.size > 0 else 0.0
    chance_of_order = chance[chance.size - 1 - horizon + t] if problem.order.size > 0 else 0.0
    step(truth, t, order, chance_of_order, chance[2 * t], chance[2 * t + 1], chance_of_cost, steps)


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
