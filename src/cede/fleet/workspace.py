"""The workspace in which one team after the other plays: the counts of a team are loaded before and stored after it plays.

A team that is not loaded needs only the memory of its counts: one row of a table of sorted keys.
"""

from typing import Annotated

import numpy as np
from numba import types
from numpy.typing import NDArray

from cede._kernels.bundle import Bundle, Float1, Float2, Float3, Float4, Int1, Int2, Int3, Int16s3, Int16s4, UInt64s2
from cede._kernels.compiling import inlined, kernel, unit
from cede._kernels.limits import PRICE
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede._kernels.tables import KeyTable
from cede.fleet.episodes import EpisodeArrays, Truth
from cede.fleet.share import Share, load_layer, store_costs, store_layer
from cede.learners.compiled import LearnerArrays
from cede.learners.proof import RECORD, negate_costs
from cede.planning.fixed_point import Endless


class TeamArrays(Bundle):
    """The arrays of n teams, one of which is at work.

    Where an array has first axis 1 instead of n, all teams use the one.
    """

    agents_seen: KeyTable  # a row for each team; columns: row * n_columns + column of the agents' table
    environment_seen: KeyTable  # the same of an environment that is not shared
    costs_seen: KeyTable  # and of its costs
    starts_seen: KeyTable  # a row for each team; columns: the first states of its episodes
    control_cost: Float3  # (n, S or 1, D) as the learner believes; `plan_step` writes what is learned
    switch_cost: Float4  # (n, S or 1, D, D)
    true_control_cost: Float3  # (n, S or 1, D)
    true_switch_cost: Float4  # (n, S or 1, D, D)
    step_ends: Float2  # (n, 2) the least and the greatest cost of a step
    slot: Int2  # (n, D) first slot of each agent in the table of all true agents
    start_agent: Int1  # (n,)
    seed: Int1  # (n,) of ties and samples
    age: Int1  # (n,) which of the ages that there are the team has
    stream: UInt64s2  # (n, 4) of random numbers, see `draw_uniform`
    judged: Int1  # (n,) for which episode the policy was made that was evaluated last, 0: none was
    judged_cost: Float1  # (n,) what it costs
    state: Int1  # (n,) without horizon: where the team is, -1: its run has not begun
    agent: Int1  # (n,) and who is in control there
    best_value: Float3  # (n or 1, S, D) with a discount and no horizon: the value of the best policy
    planned: Int1  # (n,) for which episode the plan was made, 0: there is none
    fresh: Int1  # (n,) 1: the plan is to be used in the next episode in any case
    policy: Int16s4  # (n or 1, L, S, D)
    value: Float4  # (n or 1, L + 1, S, D)
    agents_planned_visits: Float2  # (n or 1, rows)
    environment_planned_visits: Float2
    bounds: Float4  # (n or 1, L + 1, S, D) see `GreedyBounds`
    arrival: Float4
    least_bound: Float3
    least_bound_at: Int3
    agents_recent: Int3  # (n or 1, window, L) see `Forgetting`
    environment_recent: Int3
    costs_recent_row: Int3  # (n or 1, window, charges L) see `CostLayer`
    costs_recent_part: Float3
    prices: Annotated[NDArray[np.void], PRICE, 2]  # (n or 1, members)
    taken: Int2  # (n or 1, members) see `Limits`
    spent: Float2  # (n or 1, 2) see `LearnerArrays`
    found: Float2  # (n or 1, 2) without horizon: gain and error of the plan
    record: Annotated[NDArray[np.void], RECORD, 2]  # (n or 1, 1)


class Workspace(Bundle):
    """Where one team after the other is at work. A kernel points the arrays of `learner` and `truth` at those of the team."""

    learner: LearnerArrays  # its tables hold the counts of the team at work
    truth: Truth  # the agents of all teams
    scratch: PassScratch
    true_scratch: PassScratch
    thread: ThreadScratch
    before: Int16s3  # (L, S, D) the policy evaluated last
    true_value: Float3  # (L + 1, S, D) and its value
    value_known: int  # 1: the last two are those of the team at work
    steps: EpisodeArrays
    agent_keys: Int1  # (n L,) where the steps of n episodes were counted: row * n_columns + column of the agents' table
    environment_keys: Int1  # (n L,) the same of the environment's table
    cost_rows: Int1  # (charges n L,) where the costs of each step were counted, -1: nowhere
    cost_parts: Float1  # (charges n L,) and what was
    counted: int  # steps that the team at work has counted
    chance: Float1  # random numbers of an episode, see `enter`; without horizon those of a step, see `play_block`
    at_work: int  # which team is, -1: none
    agents: Share  # which rows of each layer the teams share
    environment: Share
    costs: Share
    endless: Endless  # for evaluations without horizon
    accuracy: float  # of these


@inlined
def of_team(arrays, i):
    """Return the array of team i, or the one that all teams use."""
    return arrays[min(i, arrays.shape[0] - 1)]


@unit(types.none, Workspace, TeamArrays, types.int64)
def point_at_team(workspace, teams, i):
    """Point the arrays of learner and truth at those of team i."""
    learner, truth = workspace.learner, workspace.truth
    problem = learner.model.problem
    learner.limits.control_cost = teams.control_cost[i]
    if learner.limits.most.size > 0:
        learner.limits.prices = of_team(teams.prices, i)
        learner.limits.taken = of_team(teams.taken, i)
    else:
        problem.control_cost = teams.control_cost[i]
    problem.switch_cost = teams.switch_cost[i]
    learner.spent = of_team(teams.spent, i)
    learner.least_step, learner.most_step = teams.step_ends[i, 0], teams.step_ends[i, 1]
    learner.greedy.arrival = of_team(teams.arrival, i)
    learner.agents.planned_visits = of_team(teams.agents_planned_visits, i)
    learner.environment.planned_visits = of_team(teams.environment_planned_visits, i)
    learner.greedy.values = of_team(teams.bounds, i)
    learner.greedy.least = of_team(teams.least_bound, i)
    learner.greedy.least_at = of_team(teams.least_bound_at, i)
    learner.agents.counts.forgetting.recent = of_team(teams.agents_recent, i)
    learner.environment.counts.forgetting.recent = of_team(teams.environment_recent, i)
    learner.costs.recent_row = of_team(teams.costs_recent_row, i)
    learner.costs.recent_part = of_team(teams.costs_recent_part, i)
    if learner.baseline.policy.size > 0:
        plain = learner.baseline.plain.problem
        plain.control_cost = teams.control_cost[i]
        plain.switch_cost = teams.switch_cost[i]
        learner.baseline.record = of_team(teams.record, i)
        negate_costs(plain, learner.baseline.opposite.problem)
    truth.model.problem.slot = teams.slot[i]
    truth.model.problem.control_cost = teams.true_control_cost[i]
    truth.model.problem.switch_cost = teams.true_switch_cost[i]
    truth.start_agent = teams.start_agent[i]


@kernel
def load_team(workspace, teams, i):
    """Unpack the counts of team i, if they are not there already, and point the workspace at the team's own arrays."""
    learner, last = workspace.learner, workspace.at_work
    if last != i:
        load_layer(teams.agents_seen, last, i, learner.agents.counts, workspace.agents)
        load_layer(teams.environment_seen, last, i, learner.environment.counts, workspace.environment)
        load_layer(teams.costs_seen, last, i, learner.costs.counts, workspace.costs)
        workspace.value_known = 0
        workspace.at_work = i
    point_at_team(workspace, teams, i)


@unit(types.none, Workspace, TeamArrays, types.int64)
def store_team(workspace, teams, i):
    """Add the steps that were counted to the counts of team i, and to those that teams share. Shared rows are then again as they
    were when the round began.
    """
    learner, n = workspace.learner, workspace.counted
    if learner.costs.least.size > 0:
        last = learner.costs.charges * n
        rows, parts = workspace.cost_rows[:last], workspace.cost_parts[:last]
        store_costs(learner.costs.counts, workspace.costs, teams.costs_seen, i, rows, parts)
    store_layer(learner.agents.counts, workspace.agents, teams.agents_seen, i, workspace.agent_keys[:n])
    store_layer(learner.environment.counts, workspace.environment, teams.environment_seen, i, workspace.environment_keys[:n])
