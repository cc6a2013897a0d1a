"""A learner in compiled code: from counts to sets to plans.

Plans are made in full (`plan_step`), or greedily, only where the learner is (`visit`).
"""

from math import sqrt

import numpy as np
from numba import types

from cede._kernels.bundle import Bool1, Bundle, Float1, Float2, Float3, Int1, Int2, Int3
from cede._kernels.compiling import kernel, unit
from cede._kernels.limits import Limits, set_prices, update_prices
from cede._kernels.problem import block_at
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede.beliefs.calibrated import calibrated_scale
from cede.beliefs.constants import Radii, RadiusSizes
from cede.beliefs.layer import (
    LayerArrays,
    believe_cost,
    believe_costs,
    believe_layer,
    believe_row,
    believe_team_costs,
    has_doubled,
    note_visits,
    put_cost,
    put_costs,
    put_team_costs,
    sample_layer,
    set_form,
)
from cede.learners.proof import DEVIATE, KEEP_TO, UNDECIDED, BaselineArrays, least_cost_within, proven_by_costs
from cede.learners.trials import scheduled_trial
from cede.planning.backup import (
    CHOOSE,
    FOLLOW,
    PHASES,
    POLICY,
    RAISE,
    VALUE,
    arrive,
    backup,
    backward,
    begin,
    find_same_start,
    slots_at,
)
from cede.planning.fixed_point import Endless, settle
from cede.planning.model import ModelArrays
from cede.rows.cost_sums import CostLayer

DOUBLING, NEVER = 0, -1  # when a learner plans anew: after so many episodes, or one of these


class GreedyBounds(Bundle):
    """Values for greedy planning, only ever raised; all arrays are empty where plans are made in full."""

    values: Float3  # (L + 1, S, D)
    arrival: Float3  # (L + 1, S, D) enter_cost(s) + discount values[t, s, d]; the same array where that is `values`
    least: Float2  # (L + 1, D) the least of `arrival` over states
    least_at: Int2  # (L + 1, D) the first state that has it


class LearnerArrays(Bundle):
    """A learner: two layers of counts and beliefs, learned costs, the problem to plan for, limits, and a baseline."""

    agents: LayerArrays
    environment: LayerArrays
    costs: CostLayer
    model: ModelArrays  # the beliefs of both layers, and the costs
    trials: Int3  # (members, S or 1, D) next agent on the way to each member, by previous agent; empty: no trial episodes
    tried: Int1  # (members,) who they are
    trial_steps: int  # of a trial episode; from then on the plan is followed
    trial_in: Bool1  # (S,) the states in which it takes place; empty: all
    spent: Float1  # (2,) episodes, and their cost; empty: not counted
    since: Int1  # (members,) how many episodes were over when each of these joined
    driving: int  # the member whose trial episode the planned episode is; -1: none
    flat: int  # 1: the environment's layer holds p(s' | s, d), as for UCRL2
    prior: float  # pseudo-counts of a row for sampled tables; 0: tables are not sampled
    sticks: int  # see `sample_layer`
    least_step: float  # the least and the greatest cost of a step
    most_step: float
    replan: int  # episodes that share a plan, or steps where there is no horizon; DOUBLING or NEVER
    endless: Endless  # for plans without horizon
    accuracy: float  # of such a plan, times the square root of the steps seen
    radii: Radii  # of the running episode
    sizes: RadiusSizes  # from which they follow
    greedy: GreedyBounds
    limits: Limits
    baseline: BaselineArrays


@kernel
def steps_of_episode(learner):
    """Return how many steps episodes have had, on average; without horizon, how many steps ahead matter.

    All steps count in the environment, whoever acted; of agents, counts may be shared, dropped or taken over. If the environment
    forgets, the agents' counts say it instead.
    """
    problem, counts, most = learner.model.problem, learner.environment.counts, learner.radii.common
    if problem.left.size == 0:
        return 1.0 / (1.0 - problem.discount) if problem.discount < 1.0 else np.inf
    if counts.forgetting.factor.size > 0:
        counts, most = learner.agents.counts, learner.radii.steps
    total = 0.0
    for r in range(counts.counted):
        total += counts.seen.total[r]
    return total * learner.sizes.horizon / most if most > 0.0 else 1.0


@unit(types.none, LearnerArrays, types.int64)
def believe(learner, seed):
    """Update beliefs from counts: widths, unfolded or sampled tables (with the seed), and learned costs."""
    agents, environment, radii = learner.agents, learner.environment, learner.radii
    sampled, agents_scale, scale = learner.prior > 0.0, radii.agents_scale, radii.environment_scale
    if agents.part > 0.0:
        agents_scale = calibrated_scale(agents, agents_scale, steps_of_episode(learner))
    if environment.part > 0.0:
        scale = calibrated_scale(environment, scale, steps_of_episode(learner))
    if not learner.flat:
        believe_layer(agents, radii.agents, agents_scale, not sampled)
    believe_layer(environment, radii.environment, scale, not sampled)
    if sampled:
        first = np.int64(0)
        for layer in (agents, environment):
            sample_layer(layer.belief, layer.counts, layer.expected, layer.case, learner.prior, learner.sticks, seed, first)
            first += layer.counts.counted
    if learner.costs.least.size > 0:
        believe_costs(learner.costs, radii.cost, scale, learner.prior, seed)
        put_costs(learner.costs, learner.model.problem, learner.limits.control_cost, learner.costs.low, 1.0)
        if learner.baseline.policy.size > 0:
            opposite = learner.baseline.opposite.problem
            put_costs(learner.costs, opposite, opposite.control_cost, learner.costs.high, -1.0)


@kernel
def least_alone(learner, member):
    """Return what an episode costs at least if a member, an agent of the task, has control throughout: its known costs, and all
    else at its least.
    """
    problem = learner.model.problem
    costs, env_cost, terminal, enter_cost = problem.control_cost, problem.env_cost, problem.terminal, problem.enter_cost
    least, shortest, least_enter = np.inf, problem.left[0], 0.0
    for s in range(env_cost.shape[0]):
        cheapest = env_cost[s, 0]
        for a in range(1, env_cost.shape[1]):
            cheapest = min(cheapest, env_cost[s, a])
        if enter_cost.size > 0:
            least_enter = enter_cost[s] if s == 0 else min(least_enter, enter_cost[s])
        if terminal.size > 0 and terminal[s]:
            shortest = 1.0  # it may end after the first step
            if cheapest < 0.0:
                return -np.inf
        else:
            least = min(least, costs[min(s, costs.shape[0] - 1), member] + cheapest)
    least += least_enter
    return min(least, least * problem.left[0]) if shortest == 1.0 else least * shortest


@kernel
def trial_member(learner, episode):
    """Return the member, of n, whose trial episode k = 1, 2, ... is; -1: it is none. A member whose known costs alone are more than
    the mean cost of an episode so far is not tried.
    """
    found = scheduled_trial(learner.since, episode)
    spent = learner.spent
    if found >= 0 and spent[0] > 0.0 and least_alone(learner, learner.tried[found]) > spent[1] / spent[0]:
        return np.int64(-1)
    return found


@kernel
def put_trial(learner, member, policy):
    """Write the policy of a member's trial episode, where it takes place, over that of the plan."""
    rows, only_some = learner.trials.shape[1], learner.trial_in.size > 0
    for t in range(min(policy.shape[0], learner.trial_steps)):
        for s in range(policy.shape[1]):
            if not only_some or learner.trial_in[s]:
                for prev in range(policy.shape[2]):
                    policy[t, s, prev] = learner.trials[member, min(s, rows - 1), prev]


@kernel
def is_partial(learner, policy):
    """Return whether trial episodes follow the plan in some steps or states."""
    return learner.trial_steps < policy.shape[0] or learner.trial_in.size > 0


@kernel
def begin_trial(learner, policy):
    """Check whether the planned episode is a trial episode; if so, write the policy that gives control to its member."""
    learner.driving = -1
    if learner.trials.size > 0:
        learner.driving = trial_member(learner, np.int64(learner.radii.steps / learner.sizes.horizon + 0.5) + 1)
    if learner.driving >= 0:
        put_trial(learner, learner.driving, policy)


@unit(types.none, LearnerArrays, POLICY, VALUE, PassScratch, ThreadScratch)
def finish_trial(learner, policy, value, scratch, thread):
    """After the pass of a partial trial episode, whose policy is the plan's, write that of the trial, and evaluate it."""
    if learner.driving >= 0 and is_partial(learner, policy):
        put_trial(learner, learner.driving, policy)
        begin(learner.model.problem, np.int64(1), value, scratch)
        none = np.int64(0)
        backward(learner.model, np.int64(FOLLOW), policy, policy, value, value, none, scratch, thread, none)


@kernel
def is_due(learner, episode, planned):
    """Return whether this episode needs a new plan. planned: the episode for which the last plan was made; 0: none."""
    if planned == 0 or scheduled_trial(learner.since, episode) >= 0 or scheduled_trial(learner.since, planned) >= 0:
        return True
    if learner.replan == DOUBLING:
        return has_doubled(learner.agents) or has_doubled(learner.environment)
    return learner.replan != NEVER and episode - planned >= learner.replan


@unit(types.none, LearnerArrays)
def move_prices(learner):
    """Move the prices of limits by the steps that were taken since the last plan; where there is no horizon."""
    limits, taken = learner.limits, 0
    for member in range(limits.taken.size):
        taken += limits.taken[member]
    if taken > 0:
        update_prices(limits, limits.taken, learner.least_step, learner.most_step)
    for member in range(limits.taken.size):
        limits.taken[member] = 0


@kernel
def prepare_plan(learner, policy, value, seed, scratch):
    """Prepare the pass of a plan: beliefs, prices, a trial episode, and the start of the pass."""
    believe(learner, seed)
    begin_trial(learner, policy)
    if learner.limits.priced.size > 0:
        if learner.limits.taken.size > 0:
            move_prices(learner)
        set_prices(learner.limits)
    if learner.model.problem.left.size > 0:
        begin(learner.model.problem, np.int64(1), value, scratch)


@kernel
def finish_plan(learner):
    """Finish the pass of a plan: store the visits that the doubling rule compares with."""
    note_visits(learner.agents)
    note_visits(learner.environment)


@unit(types.int64, LearnerArrays, POLICY, VALUE, types.int64, PassScratch, ThreadScratch, types.int64)
def plan_pass(learner, policy, value, seed, scratch, thread, phase):
    """Run the pass of a plan from a phase on: in full, or with greedy planning one step ahead of the bounds everywhere."""
    if learner.greedy.values.size > 0:
        mode, source = np.int64(RAISE), learner.greedy.values
    else:
        chooses = learner.driving < 0 or is_partial(learner, policy)
        mode, source = np.int64(CHOOSE if chooses else FOLLOW), value
    return backward(learner.model, mode, policy, policy, value, source, seed, scratch, thread, phase)


@unit(types.none, LearnerArrays, POLICY, VALUE, types.int64, PassScratch, ThreadScratch)
def plan_endless(learner, policy, value, seed, scratch, thread):
    """Find the fixed point of a plan without horizon, starting from the last plan's value. Write (1, S, D) and (2, S, D)."""
    accuracy = learner.accuracy / sqrt(max(1.0, learner.radii.steps))
    settle(learner.model, np.int64(CHOOSE), policy[0], value, seed, accuracy, learner.endless, scratch, thread)


@unit(types.none, LearnerArrays, POLICY, VALUE, types.int64, PassScratch, ThreadScratch)
def plan_step(learner, policy, value, seed, scratch, thread):
    """Make the plan of an episode from the counts: beliefs, prices, pass, visits. One thread."""
    prepare_plan(learner, policy, value, seed, scratch)
    if learner.model.problem.left.size > 0:
        plan_pass(learner, policy, value, seed, scratch, thread, np.int64(0))
        finish_trial(learner, policy, value, scratch, thread)
    else:
        plan_endless(learner, policy, value, seed, scratch, thread)
    finish_plan(learner)


# ------------------------------------------------------------------------------------------------- greedy planning


@kernel
def believe_at(learner, t, s):
    """Update the beliefs that a backup of state s at time t needs; `believe` updates all."""
    agents, environment, problem, radii = learner.agents, learner.environment, learner.model.problem, learner.radii
    n_agents = problem.slot.size
    if not learner.flat:
        set_form(agents, radii.agents_scale)
        for d in range(n_agents):
            first, last = slots_at(problem.vary[d], t, n_agents)
            for c in range(first, last):
                believe_row(agents, agents.belief.row[problem.slot[d] + c, s], radii.agents, radii.agents_scale)
    set_form(environment, radii.environment_scale)
    here = block_at(problem, t) + s
    for a in range(environment.belief.row.shape[1]):
        believe_row(environment, environment.belief.row[here, a], radii.environment, radii.environment_scale)
        if learner.costs.least.size > 0 and learner.costs.counts.place[s, a] >= 0:
            believe_cost(learner.costs, learner.costs.counts.place[s, a], radii.cost, radii.environment_scale)
            put_cost(learner.costs, problem, s, a, learner.costs.low, 1.0)
    if learner.costs.charges > 2:
        believe_team_costs(learner.costs, s, radii.cost, radii.environment_scale)
        put_team_costs(learner.costs, problem, learner.limits.control_cost, s, learner.costs.low, 1.0)


@kernel
def find_least(values, t, d, least, least_at):
    """Update the least bound of a time step, starting from the state that had it before."""
    for s in range(least_at[t, d], values.shape[1]):
        if values[t, s, d] == least[t, d]:
            least_at[t, d] = s
            return
    at = 0
    for s in range(values.shape[1]):
        if values[t, s, d] < values[t, at, d]:
            at = s
    least[t, d] = values[t, at, d]
    least_at[t, d] = at


@unit(types.none, LearnerArrays, POLICY, types.int64, types.int64, types.int64, PassScratch, ThreadScratch)
def visit(learner, policy, t, s, seed, scratch, thread):
    """Back up state s at time t, raise its values, which never decrease, and write policy[t, s, :].

    Greedy planning (Efroni, Merlis, Ghavamzadeh and Mannor 2019), with the switch as the decision.
    """
    horizon, n_agents, values, arrival = policy.shape[0], policy.shape[2], learner.greedy.values, learner.greedy.arrival
    problem = learner.model.problem
    row = min(s, problem.switch_cost.shape[0] - 1)
    believe_at(learner, t, s)
    find_same_start(problem.switch_cost, problem.vary, row, row + 1, scratch.same_start)
    for d in range(n_agents):
        thread.same[d] = d
        thread.least[d] = learner.greedy.least[t + 1, d]
        thread.constant[d] = t == horizon - 1 and problem.enter_cost.size == 0
        thread.uniform_width[d] = -1.0
        thread.is_ranked[d] = False
    first = PHASES * (horizon - 1 - t)
    for phase in range(first, first + PHASES):
        scratch.taken[phase] = 0
        scratch.done[phase] = 0
    scratch.changed[t] = 0
    scratch.stamp += horizon
    none, mode, now = np.int64(0), np.int64(RAISE), values[t]
    backup(learner.model, mode, t, arrival[t + 1], now, policy[t], policy[t], now, seed, scratch, thread, s, none, none)
    if scratch.changed[t]:
        arrive(problem, now, s, s + 1, arrival[t])
        for d in range(n_agents):
            if learner.greedy.least_at[t, d] == s:
                find_least(arrival, t, d, learner.greedy.least, learner.greedy.least_at)


# ------------------------------------------------------------------------------------------------- a baseline


@unit(types.int64, LearnerArrays, POLICY, types.int64, types.float64, PassScratch, ThreadScratch)
def may_deviate(learner, policy, start_agent, most, scratch, thread):
    """Return 1 if the total cost provably stays within 1 + alpha times the baseline's when this policy is played now, else 0.

    It is decided once per episode. most: greatest cost of an episode.
    """
    baseline, record = learner.baseline, learner.baseline.record[0]
    if record.decided == UNDECIDED:
        spent, times, good = proven_by_costs(record, most, baseline.alpha, baseline.delta)
        record.at_most = most
        if not good:  # confidence sets may prove more
            believe(learner, np.int64(0))
            value, start, opposite = baseline.value, baseline.start, baseline.opposite
            proven = least_cost_within(baseline.plain, baseline.policy, value, start, start_agent, scratch, thread)
            record.proven = max(record.proven, proven)
            worst = -least_cost_within(opposite, policy, value, start, start_agent, scratch, thread)
            record.at_most = min(most, worst)
            good = spent + record.at_most <= times * record.proven
        record.decided = DEVIATE if good else KEEP_TO
    return np.int64(record.decided == DEVIATE)
