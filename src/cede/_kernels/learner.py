"""A learner in compiled code: from counts to sets to plans.

Plans are made in full (`plan_step`), or greedily, only where the learner is (`visit`).
"""

import numpy as np
from numba import types

from cede._kernels.backup import CHOOSE, RAISE, backup, slots_at
from cede._kernels.backward import POLICY, VALUE, backward, begin, find_same_start
from cede._kernels.baseline import DEVIATE, KEEP_TO, UNDECIDED, Baseline, least_cost_within, proven_by_costs
from cede._kernels.bundle import Bundle, Float1, Float2, Float3, Int2
from cede._kernels.compiling import kernel, unit
from cede._kernels.layer import LayerArrays, believe_layer, believe_row, has_doubled, note_visits
from cede._kernels.limits import Limits, set_prices
from cede._kernels.model import ModelArrays
from cede._kernels.radii import PRINTED, Radii, linear_part, radius
from cede._kernels.sampling import sample_layer
from cede._kernels.scratch import PassScratch, ThreadScratch

DOUBLING, NEVER = 0, -1  # when a learner plans anew: after so many episodes, or one of these


class GreedyBounds(Bundle):
    """Values for greedy planning, only ever raised; all arrays are empty where plans are made in full."""

    values: Float3  # (L + 1, S, D)
    least: Float2  # (L + 1, D) their least over states
    least_at: Int2  # (L + 1, D) the first state that has it


class LearnerArrays(Bundle):
    """A learner: two layers of what it saw and believes, what it plans for, and what it promises."""

    agents: LayerArrays
    environment: LayerArrays
    model: ModelArrays  # the beliefs of both layers, and what things cost
    flat: int  # 1: the environment's layer holds p(s' | s, d), as for UCRL2
    prior: float  # pseudo-counts of a row from which tables are sampled; 0: they are not
    sticks: int  # see `sample_layer`
    env_cost: Float2  # (S, A) what the task says
    learned_cost: Float2  # (S, slots) env_cost of the problem, written where UCRL2 must learn it; else empty
    least_cost: Float1  # (S,) least environment cost over actions
    spread: Float1  # (S,) greatest minus least
    replan: int  # episodes that share a plan; DOUBLING or NEVER
    radii: Radii  # of the running episode
    greedy: GreedyBounds
    limits: Limits
    baseline: Baseline


@unit(types.none, LearnerArrays, types.int64, types.int64)
def learn_cost(learner, s, c):
    """Write the believed cost of slot c in state s, where UCRL2 must learn it: the mean seen minus its radius."""
    seen, r = learner.agents.counts.seen, c * learner.learned_cost.shape[0] + s
    result = learner.least_cost[s]
    if seen.total[r] > 0.0:
        mean = 0.0
        for j in range(seen.start[r], seen.start[r] + seen.size[r]):
            mean += seen.weight[j] * learner.env_cost[s, seen.column[j]]
        width = radius(PRINTED, seen.total[r], learner.radii.cost, learner.radii.environment_scale)
        result = max(result, mean / seen.total[r] - learner.spread[s] * width)
    learner.learned_cost[s, c] = result


@unit(types.none, LearnerArrays, types.int64)
def believe(learner, seed):
    """Make what follows from the counts: widths, tables that are unfolded or sampled (with the seed), and costs that are
    learned.
    """
    agents, environment, radii = learner.agents, learner.environment, learner.radii
    sampled = learner.prior > 0.0
    if not learner.flat:
        believe_layer(agents, radii.agents, radii.agents_scale, not sampled)
    believe_layer(environment, radii.environment, radii.environment_scale, not sampled)
    if sampled:
        sample_layer(agents, learner.prior, learner.sticks, seed, np.int64(0))
        sample_layer(environment, learner.prior, learner.sticks, seed, agents.counts.counted)
    for s in range(learner.learned_cost.shape[0]):
        for c in range(learner.learned_cost.shape[1]):
            learn_cost(learner, s, c)


@kernel
def is_due(learner, episode, planned):
    """Return whether there must be a new plan for this episode. planned: the episode for which the last one was made, 0: none."""
    if planned == 0:
        return True
    if learner.replan == DOUBLING:
        return has_doubled(learner.agents) or has_doubled(learner.environment)
    return learner.replan != NEVER and episode - planned >= learner.replan


@kernel
def prepare_plan(learner, value, seed, scratch):
    """Do all that comes before the pass of a plan: beliefs, prices, and the start of the pass."""
    believe(learner, seed)
    if learner.limits.priced.size > 0:
        set_prices(learner.limits)
    begin(learner.model.problem, np.int64(1), value, scratch)


@kernel
def finish_plan(learner):
    """Do all that comes after the pass of a plan: keep what the doubling rule compares with."""
    note_visits(learner.agents)
    note_visits(learner.environment)


@unit(types.int64, LearnerArrays, POLICY, VALUE, types.int64, PassScratch, ThreadScratch, types.int64)
def plan_pass(learner, policy, value, seed, scratch, thread, phase):
    """Run the pass of a plan from a phase on: in full, or with greedy planning one step ahead of the bounds everywhere."""
    if learner.greedy.values.size > 0:
        mode, source = np.int64(RAISE), learner.greedy.values
    else:
        mode, source = np.int64(CHOOSE), value
    return backward(learner.model, mode, policy, policy, value, source, seed, scratch, thread, phase)


@unit(types.none, LearnerArrays, POLICY, VALUE, types.int64, PassScratch, ThreadScratch)
def plan_step(learner, policy, value, seed, scratch, thread):
    """Make the plan of an episode from all that was counted: beliefs, prices, pass, visits. One thread."""
    prepare_plan(learner, value, seed, scratch)
    plan_pass(learner, policy, value, seed, scratch, thread, np.int64(0))
    finish_plan(learner)


# ------------------------------------------------------------------------------------------------- greedy planning


@kernel
def believe_at(learner, t, s):
    """`believe`, only what a backup of state s at time t needs."""
    agents, environment, problem, radii = learner.agents, learner.environment, learner.model.problem, learner.radii
    n_agents = problem.slot.size
    if not learner.flat:
        agents.belief.linear = linear_part(agents.kind, radii.agents_scale)
        for d in range(n_agents):
            first, last = slots_at(problem.vary[d], t, n_agents)
            for c in range(first, last):
                believe_row(agents, agents.belief.row[problem.slot[d] + c, s], radii.agents, radii.agents_scale)
    environment.belief.linear = linear_part(environment.kind, radii.environment_scale)
    for a in range(environment.belief.row.shape[1]):
        believe_row(environment, environment.belief.row[s, a], radii.environment, radii.environment_scale)
        if learner.learned_cost.size > 0:
            learn_cost(learner, s, a)


@kernel
def find_least(values, t, d, least, least_at):
    """Bring the least bound of a time step up to date, from the state that had it before."""
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
    """Back up state s at time t, from values that were only ever raised, raise its own, and write policy[t, s, :].

    Greedy planning (Efroni, Merlis, Ghavamzadeh and Mannor 2019), with the switch as the decision.
    """
    horizon, n_agents, values = policy.shape[0], policy.shape[2], learner.greedy.values
    find_same_start(learner.model.problem.switch_cost, learner.model.problem.vary, scratch.same_start)
    believe_at(learner, t, s)
    for d in range(n_agents):
        thread.same[d] = d
        thread.least[d] = learner.greedy.least[t + 1, d]
        thread.constant[d] = t == horizon - 1
        thread.uniform_width[d] = -1.0
        thread.is_ranked[d] = False
    first = 3 * (horizon - 1 - t)
    for phase in range(first, first + 3):
        scratch.taken[phase] = 0
        scratch.done[phase] = 0
    scratch.changed[t] = 0
    scratch.stamp += horizon
    none, mode = np.int64(0), np.int64(RAISE)
    backup(learner.model, mode, t, values[t + 1], values[t], policy[t], policy[t], values[t], seed, scratch, thread, s, none, none)
    if scratch.changed[t]:
        for d in range(n_agents):
            if learner.greedy.least_at[t, d] == s:
                find_least(values, t, d, learner.greedy.least, learner.greedy.least_at)


# ------------------------------------------------------------------------------------------------- a baseline


@unit(types.int64, LearnerArrays, POLICY, types.int64, types.float64, PassScratch, ThreadScratch)
def may_deviate(learner, policy, start_agent, most, scratch, thread):
    """Return 1 if it is proven that the total cost stays within 1 + alpha of the baseline's if this policy is played now, else 0.

    Decided once an episode. most: what an episode can cost.
    """
    baseline, record = learner.baseline, learner.baseline.record[0]
    if record.decided == UNDECIDED:
        spent, times, good = proven_by_costs(record, most, baseline.alpha, baseline.delta)
        record.at_most = most
        if not good:  # what is believed may prove more
            believe(learner, np.int64(0))
            value, start, opposite = baseline.value, baseline.start, baseline.opposite
            proven = least_cost_within(learner.model, baseline.policy, value, start, start_agent, scratch, thread)
            record.proven = max(record.proven, proven)
            worst = -least_cost_within(opposite, policy, value, start, start_agent, scratch, thread)
            record.at_most = min(most, worst)
            good = spent + record.at_most <= times * record.proven
        record.decided = DEVIATE if good else KEEP_TO
    return np.int64(record.decided == DEVIATE)
