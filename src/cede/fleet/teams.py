"""Many teams, one workspace: the counts of a team are loaded, the team plays, and its counts are stored again.

While another team is at work, a team costs the memory of its counts: one row of a table of keys, sorted.
"""

from typing import Annotated

import numpy as np
from numba import types
from numpy.typing import NDArray

from cede._kernels.bundle import Bool1, Bundle, Float1, Float2, Float3, Float4, Int1, Int2, Int3, Int16s3, Int16s4, UInt64s2
from cede._kernels.compiling import kernel, unit
from cede._kernels.limits import PRICE, step_costs, update_prices
from cede._kernels.problem import ends_in
from cede._kernels.random_streams import draw_uniform, tie_seed
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede._kernels.tables import KeyTable, add, add_key
from cede.beliefs.constants import RadiiAhead, put_constants, set_radii
from cede.beliefs.layer import row_has_doubled
from cede.fleet.episodes import EpisodeArrays, Truth, add_step, enter, first_state, is_over, play_episode, play_on, step
from cede.fleet.share import Share, load_layer, reserve, store_costs, store_layer
from cede.learners.compiled import DOUBLING, NEVER, LearnerArrays, is_due, may_deviate, plan_step, visit
from cede.learners.proof import RECORD, negate_costs, record_episode
from cede.planning.backup import CHOOSE, FOLLOW, POLICY, VALUE, backward, begin, start_mean
from cede.planning.fixed_point import Endless, find_reached, settle, settle_gains
from cede.rows.cost_sums import N_SUMS, count_costs, forget_costs, rows_of_costs
from cede.rows.counting import LEAST_WEIGHT, cells_of, forget, part_kept, slot_of


class TeamArrays(Bundle):
    """What is kept of each of n teams while another one is at work.

    Where an array has first axis 1 instead of n, nothing is kept of each team: all use the one.
    """

    agents_seen: KeyTable  # a row for each team; columns: row * n_columns + column of the agents' table
    environment_seen: KeyTable  # the same of an environment that is not shared
    costs_seen: KeyTable  # and of its costs
    starts_seen: KeyTable  # a row for each team; columns: the first states of its episodes
    control_cost: Float3  # (n, S or 1, D)
    switch_cost: Float4  # (n, S or 1, D, D)
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
    costs_recent_row: Int3  # (n or 1, window, 2 L) see `CostLayer`
    costs_recent_part: Float3
    prices: Annotated[NDArray[np.void], PRICE, 2]  # (n or 1, members)
    taken: Int2  # (n or 1, members) see `Limits`
    found: Float2  # (n or 1, 2) without horizon: gain and error of the plan
    record: Annotated[NDArray[np.void], RECORD, 2]  # (n or 1, 1)


class Workspace(Bundle):
    """Where one team after the other is at work. A kernel points the arrays of `learner` and `truth` at those of the team."""

    learner: LearnerArrays  # its tables hold what the team at work has seen
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
    cost_rows: Int1  # (2 n L,) where the costs of each step, and of arriving, were counted, -1: nowhere
    cost_parts: Float1  # (2 n L,) and what was
    counted: int  # steps that the team at work has counted
    chance: Float1  # random numbers of an episode, see `enter`; without horizon those of a step, see `play_block`
    at_work: int  # which team is, -1: none
    agents: Share  # which rows of each layer the teams share
    environment: Share
    costs: Share
    endless: Endless  # for evaluations without horizon
    accuracy: float  # of these


class LedgerArrays(Bundle):
    """What is written down of each team in a round."""

    evaluated: Bool1  # (episodes,) whether policies are evaluated before the episode; expected_cost is carried on between
    expected_cost: Float2  # (teams, episodes) exact, of the policy; without horizon see `play_block`
    regret: Float2  # (teams, episodes) without horizon, of a block of steps; else written later
    cost: Float2  # (teams, episodes) realised
    control: Int3  # (teams, episodes, members) steps of each
    switches: Int2  # (teams, episodes)


# ------------------------------------------------------------------------------------------------- counts of a team


@unit(types.none, Workspace, TeamArrays, types.int64)
def point_at_team(workspace, teams, i):
    """Point the arrays of learner and truth at those of team i."""
    learner, truth = workspace.learner, workspace.truth
    problem = learner.model.problem
    if learner.limits.most.size > 0:
        learner.limits.control_cost = teams.control_cost[i]
        learner.limits.prices = teams.prices[min(i, teams.prices.shape[0] - 1)]
        learner.limits.taken = teams.taken[min(i, teams.taken.shape[0] - 1)]
    else:
        problem.control_cost = teams.control_cost[i]
    problem.switch_cost = teams.switch_cost[i]
    visits, bounds = min(i, teams.agents_planned_visits.shape[0] - 1), min(i, teams.bounds.shape[0] - 1)
    learner.greedy.arrival = teams.arrival[bounds]
    learner.agents.planned_visits = teams.agents_planned_visits[visits]
    learner.environment.planned_visits = teams.environment_planned_visits[visits]
    learner.greedy.values = teams.bounds[bounds]
    learner.greedy.least = teams.least_bound[bounds]
    learner.greedy.least_at = teams.least_bound_at[bounds]
    learner.agents.counts.forgetting.recent = teams.agents_recent[min(i, teams.agents_recent.shape[0] - 1)]
    learner.environment.counts.forgetting.recent = teams.environment_recent[min(i, teams.environment_recent.shape[0] - 1)]
    learner.costs.recent_row = teams.costs_recent_row[min(i, teams.costs_recent_row.shape[0] - 1)]
    learner.costs.recent_part = teams.costs_recent_part[min(i, teams.costs_recent_part.shape[0] - 1)]
    if learner.baseline.policy.size > 0:
        learner.baseline.record = teams.record[min(i, teams.record.shape[0] - 1)]
        negate_costs(problem, learner.baseline.opposite.problem)
    truth.model.problem.slot = teams.slot[i]
    truth.model.problem.control_cost = teams.control_cost[i]
    truth.model.problem.switch_cost = teams.switch_cost[i]
    truth.start_agent = teams.start_agent[i]


@kernel
def load_team(workspace, teams, i):
    """Lay out the counts of team i, if they are not there already, and point the workspace at the team's own arrays."""
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
        rows, parts = workspace.cost_rows[: 2 * n], workspace.cost_parts[: 2 * n]
        store_costs(learner.costs.counts, workspace.costs, teams.costs_seen, i, rows, parts)
    store_layer(learner.agents.counts, workspace.agents, teams.agents_seen, i, workspace.agent_keys[:n])
    store_layer(learner.environment.counts, workspace.environment, teams.environment_seen, i, workspace.environment_keys[:n])


# ------------------------------------------------------------------------------------------------- at work


@unit(types.float64, Truth, POLICY, POLICY, VALUE, types.int64, PassScratch, ThreadScratch)
def evaluate(truth, policy, before, value, afresh, scratch, thread):
    """Return the exact expected cost of a policy. value holds that of `before` unless afresh; both are brought up to date."""
    begin(truth.model.problem, afresh, value, scratch)
    none = np.int64(0)
    backward(truth.model, np.int64(FOLLOW), policy, before, value, value, none, scratch, thread, none)
    horizon, n_states, n_agents = policy.shape
    for t in range(horizon):
        for s in range(n_states):
            for d in range(n_agents):
                before[t, s, d] = policy[t, s, d]
    return start_mean(truth.start, value, truth.start_agent)


@unit(types.none, Workspace, types.int64, types.int64)
def count_played(workspace, begin, end):
    """Count the steps that were played from time begin to end (exclusive), and write down where."""
    learner, steps, at = workspace.learner, workspace.steps, workspace.counted
    agents, environment, costs, problem = learner.agents.counts, learner.environment.counts, learner.costs, learner.model.problem
    states, who, actions, first = steps.states, steps.who, steps.actions, 2 * workspace.counted
    for t in range(begin, end):
        s, prev, d, a, to = states[t], who[t], who[t + 1], actions[t], states[t + 1]
        row, column, environment_row, outcome = cells_of(agents, environment, problem, learner.flat, t, s, prev, d, a, to)
        add(agents.seen, row, column, 1.0)
        add(environment.seen, environment_row, outcome, 1.0)
        workspace.agent_keys[at] = row * agents.n_columns + column
        workspace.environment_keys[at] = environment_row * environment.n_columns + outcome
        if costs.least.size > 0:
            place = problem.slot[d] + slot_of(problem.vary[d], t, prev) if learner.flat else a
            workspace.cost_rows[2 * at], workspace.cost_rows[2 * at + 1] = rows_of_costs(costs, s, place, to)
            workspace.cost_parts[2 * at], workspace.cost_parts[2 * at + 1] = steps.env_costs[t], steps.enter_costs[t]
        at += 1
    if costs.least.size > 0:
        count_costs(costs, workspace.cost_rows[first : 2 * at], workspace.cost_parts[first : 2 * at])
    workspace.counted = at


@unit(types.none, Workspace, types.int64, types.int64)
def forget_episode(workspace, first, episode):
    """Let the counts of all layers fade after an episode, whose steps were written down from place `first` on."""
    learner, last = workspace.learner, workspace.counted
    if learner.costs.counts.forgetting.factor.size > 0:
        forget_costs(learner.costs, episode, workspace.cost_rows[2 * first : 2 * last], workspace.cost_parts[2 * first : 2 * last])
    if learner.agents.counts.forgetting.factor.size > 0:
        forget(learner.agents.counts, episode, workspace.agent_keys[first:last])
    if learner.environment.counts.forgetting.factor.size > 0:
        forget(learner.environment.counts, episode, workspace.environment_keys[first:last])


@unit(types.none, KeyTable, types.int64, types.int64, types.float64)
def count_start(starts, i, s, keep):
    """Count that an episode of team i started in state s. keep: the part that is left of older counts."""
    if keep < 1.0:
        to = starts.start[i]
        for j in range(starts.start[i], starts.start[i] + starts.size[i]):
            weight = starts.weight[j] * keep
            if weight >= LEAST_WEIGHT:
                starts.column[to] = starts.column[j]
                starts.weight[to] = weight
                to += 1
        starts.size[i] = to - starts.start[i]
    add_key(starts, i, s, 1.0)


@unit(types.none, Workspace, POLICY, types.int64)
def play_greedily(workspace, policy, seed):
    """Play an episode while planning greedily: back up each state as it is visited."""
    truth, steps, chance = workspace.truth, workspace.steps, workspace.chance
    enter(truth, chance, steps)
    while steps.n < policy.shape[0] and not is_over(truth, steps):
        t = steps.n
        visit(workspace.learner, policy, t, steps.states[t], seed, workspace.scratch, workspace.thread)
        play_on(truth, policy, chance, steps, t + 1)


@unit(types.none, Workspace, TeamArrays, RadiiAhead, types.int64, types.int64, LedgerArrays, POLICY, VALUE)
def play_team(workspace, teams, ahead, i, episode, ledger, policy, value):
    """Play the next episodes of team i, which has come to work: plan where it is due, evaluate, play, count.

    episode: k of the first one. policy, value: the team's plan, if there is one (teams.planned).
    """
    learner, truth, steps, chance = workspace.learner, workspace.truth, workspace.steps, workspace.chance
    scratch, true_scratch, thread = workspace.scratch, workspace.true_scratch, workspace.thread
    age = teams.age[i]
    limits, baseline, greedy = learner.limits, learner.baseline, learner.greedy.values.size > 0
    problem = learner.model.problem
    arriving = (learner.least_enter, learner.most_enter)
    ends = (teams.control_cost[i], problem.switch_cost, problem.terminal)
    least_cost, most_cost = step_costs(learner.least_cost, learner.spread, arriving[0], arriving[1], ends[0], ends[1], ends[2])
    dearest = problem.left[0] * most_cost  # of all episodes
    forgets = learner.agents.counts.forgetting.factor.size + learner.environment.counts.forgetting.factor.size > 0
    for e in range(ledger.cost.shape[1]):
        k = episode + e
        set_radii(learner.radii, ahead, age, e)
        ties = tie_seed(teams.seed[i], k)
        looking = ledger.evaluated[e]
        if (looking or not greedy) and not teams.fresh[i] and is_due(learner, k, teams.planned[i]):
            plan_step(learner, policy, value, ties, scratch, thread)
            teams.planned[i] = k
        teams.fresh[i] = 0
        acting, name = policy, teams.planned[i]
        cautious = baseline.policy.size > 0
        if cautious and not may_deviate(learner, policy, truth.start_agent, dearest, scratch, thread):
            acting, name = baseline.policy, np.int64(-1)
        if looking and name != teams.judged[i]:  # the same plan costs the same
            afresh = np.int64(workspace.value_known == 0)
            cost = evaluate(truth, acting, workspace.before, workspace.true_value, afresh, true_scratch, thread)
            teams.judged_cost[i], teams.judged[i], workspace.value_known = cost, name, 1
        ledger.expected_cost[i, e] = teams.judged_cost[i]
        draw_uniform(teams.stream[i], chance)
        if greedy:
            play_greedily(workspace, policy, ties)
        else:
            play_episode(truth, acting, chance, steps)
        total, handed, weight = 0.0, 0, 1.0
        for t in range(steps.n):
            total += weight * steps.costs[t]
            weight *= problem.discount
            handed += add_step(truth, steps, t, ledger.control[i, e])
        ledger.cost[i, e] = total
        ledger.switches[i, e] = handed
        if limits.most.size > 0:
            update_prices(limits, ledger.control[i, e], least_cost, most_cost)
        if cautious:
            record_episode(baseline, True, total, dearest)
        first = workspace.counted
        count_start(teams.starts_seen, i, steps.states[0], part_kept(learner.environment.counts.forgetting))
        count_played(workspace, np.int64(0), steps.n)
        if forgets:
            forget_episode(workspace, first, k)


# ------------------------------------------------------------------------------------------------- without horizon


@unit(types.float64, Workspace, POLICY, types.int64, types.int64)
def evaluate_endless(workspace, policy, s, d):
    """Evaluate a policy, (1, S, D), under the true tables. With a discount its value goes to workspace.true_value[0], and the mean
    of that over the start is returned; for averages the cost of a step in the long run, from state s after agent d.
    """
    truth, value, endless, accuracy = workspace.truth, workspace.true_value, workspace.endless, workspace.accuracy
    for i in range(value.shape[1]):
        for j in range(value.shape[2]):
            value[0, i, j] = 0.0
    mode, none, scratch, thread = np.int64(FOLLOW), np.int64(0), workspace.true_scratch, workspace.thread
    if truth.model.problem.discount == 1.0:
        find_reached(truth.model, truth.start, truth.start_agent, endless.reached)
    settle(truth.model, mode, policy[0], value, none, accuracy, endless, scratch, thread)
    if truth.model.problem.discount == 1.0 and endless.error > 2.0 * accuracy:  # the long run depends on where it begins
        settle_gains(truth.model, policy[0], value, accuracy, endless, scratch, thread)
        return value[1, s, d]
    return endless.gain if truth.model.problem.discount == 1.0 else start_mean(truth.start, value, truth.start_agent)


@unit(types.none, Workspace, TeamArrays, RadiiAhead, types.int64, types.int64, types.int64, LedgerArrays, POLICY, VALUE)
def play_block(workspace, teams, ahead, i, episode, e, ledger, policy, value):
    """Play one block of steps of team i, whose run has no horizon: before each step plan where it is due, after it count.

    episode: the number of the block's first step, from 1. e: the column of the ledger. expected_cost is the mean over the steps of
    what the policy in force costs: for averages a step of it in the long run, with a discount all that comes from the start on.
    regret, with a discount: how much more the policy in force costs than the best one from where the team is, added up. Before each
    step random numbers are drawn: of the action, of the next state, of the state in which the next run begins if this one ends, and
    of the cost if it is random.
    """
    learner, truth, steps, chance = workspace.learner, workspace.truth, workspace.steps, workspace.chance
    block, discounted = steps.actions.size, truth.model.problem.discount < 1.0
    if teams.state[i] < 0:
        draw_uniform(teams.stream[i], chance)
        teams.state[i], teams.agent[i] = first_state(truth, chance[2]), truth.start_agent
    steps.states[0], steps.who[0] = teams.state[i], teams.agent[i]
    due = not teams.fresh[i] and is_due(learner, episode, teams.planned[i])
    done = episode - 1  # steps counted before
    expected, regret, total, handed = 0.0, 0.0, 0.0, 0
    best = teams.best_value[min(i, teams.best_value.shape[0] - 1)]
    for t in range(block):
        s, prev = steps.states[t], steps.who[t]
        if due:
            put_constants(learner.sizes, workspace.counted, ahead, teams.age[i], learner.radii)
            plan_step(learner, policy, value, tie_seed(teams.seed[i], done + t + 1), workspace.scratch, workspace.thread)
            teams.planned[i] = done + t + 1
            teams.found[i, 0], teams.found[i, 1] = learner.endless.gain, learner.endless.error
        teams.fresh[i] = 0
        if teams.judged[i] != teams.planned[i] or (discounted and not workspace.value_known):
            teams.judged_cost[i] = evaluate_endless(workspace, policy, s, prev)
            teams.judged[i], workspace.value_known = teams.planned[i], 1
        expected += teams.judged_cost[i]
        if discounted:
            regret += workspace.true_value[0, s, prev] - best[s, prev]
        d = np.int64(policy[0, s, prev])
        draw_uniform(teams.stream[i], chance)
        step(truth, t, d, chance[0], chance[1], chance[chance.size - 1], steps)
        total += steps.costs[t]
        handed += add_step(truth, steps, t, ledger.control[i, e])
        if learner.limits.taken.size > 0:
            learner.limits.taken[truth.acting[d]] += 1
        at = workspace.counted
        count_played(workspace, t, t + 1)
        if learner.agents.counts.forgetting.factor.size + learner.environment.counts.forgetting.factor.size > 0:
            forget_episode(workspace, at, done + t + 1)
        due = replan_due(learner, workspace, at, done + t + 2 - teams.planned[i])
        if ends_in(truth.model.problem, steps.states[t + 1]):
            steps.states[t + 1], steps.who[t + 1] = first_state(truth, chance[2]), truth.start_agent
    teams.state[i], teams.agent[i] = steps.states[block], steps.who[block]
    ledger.expected_cost[i, e] = expected / block
    ledger.regret[i, e] = regret
    ledger.cost[i, e] = total
    ledger.switches[i, e] = handed


@kernel
def replan_due(learner, workspace, at, steps):
    """Return whether it is time for a new plan after the step that was written down at place `at`: what `is_due` returns, but only
    the rows of this step are looked at. steps: since the plan was made.
    """
    if learner.replan == DOUBLING:
        agents, environment = learner.agents, learner.environment
        row = workspace.agent_keys[at] // agents.counts.n_columns
        environment_row = workspace.environment_keys[at] // environment.counts.n_columns
        return row_has_doubled(agents, row) or row_has_doubled(environment, environment_row)
    return learner.replan != NEVER and steps >= learner.replan


@kernel
def play_teams(workspace, teams, ahead, episodes, first, last, ledger, at):
    """Play the next episodes of the teams from first to last, as many as the ledger has room for; at[0]: the team that comes next.

    episodes: (ages,) k of the first episode of each age. Whatever stops this, up to at[0] all is done. The caller has made all
    pools long enough for one team in the workspace, and for all of them in `teams` and in what they share.
    """
    learner = workspace.learner
    agents, environment, costs = learner.agents.counts, learner.environment.counts, learner.costs.counts
    steps = workspace.steps.actions.size * ledger.cost.shape[1]
    n_states = np.int64(workspace.truth.start.size)
    for i in range(max(first, at[0]), last):
        load_team(workspace, teams, i)
        if workspace.agents.has_own:
            reserve(teams.agents_seen, i, steps, agents.counted * agents.n_columns)
        if workspace.environment.has_own:
            reserve(teams.environment_seen, i, steps, environment.counted * environment.n_columns)
        if workspace.costs.has_own:
            reserve(teams.costs_seen, i, 2 * N_SUMS * steps, costs.counted * N_SUMS)
        reserve(teams.starts_seen, i, np.int64(ledger.cost.shape[1]), n_states)
        policy = teams.policy[min(i, teams.policy.shape[0] - 1)]
        value = teams.value[min(i, teams.value.shape[0] - 1)]
        workspace.counted = 0
        if policy.shape[0] == workspace.steps.actions.size and learner.model.problem.left.size > 0:
            play_team(workspace, teams, ahead, i, episodes[teams.age[i]], ledger, policy, value)
        else:
            for e in range(ledger.cost.shape[1]):
                first_step = episodes[teams.age[i]] + workspace.counted
                play_block(workspace, teams, ahead, i, first_step, e, ledger, policy, value)
        store_team(workspace, teams, i)
        at[0] = i + 1


@kernel
def endless_optimum(workspace, teams, i, policy, value):
    """Return the least cost of a step in the long run of team i; with a discount the least cost of all that comes from the start,
    and write its value from everywhere into teams.best_value.
    """
    truth, endless = workspace.truth, workspace.endless
    for s in range(value.shape[1]):
        for d in range(value.shape[2]):
            value[0, s, d] = 0.0
    mode, none, accuracy = np.int64(CHOOSE), np.int64(0), workspace.accuracy
    if truth.model.problem.discount == 1.0:
        find_reached(truth.model, truth.start, truth.start_agent, endless.reached)
    settle(truth.model, mode, policy[0], value, none, accuracy, endless, workspace.true_scratch, workspace.thread)
    if truth.model.problem.discount == 1.0:
        return endless.gain
    for s in range(value.shape[1]):
        for d in range(value.shape[2]):
            teams.best_value[i, s, d] = value[0, s, d]
    return start_mean(truth.start, value, truth.start_agent)


@kernel
def find_optima(workspace, teams, policy, value, first, last, result):
    """Write the least expected cost of an episode of each team from first to last, when all is known; without horizon, see
    `endless_optimum`. policy, value: scratch.
    """
    truth = workspace.truth
    for i in range(first, last):
        point_at_team(workspace, teams, i)
        if truth.model.problem.left.size == 0:
            result[i] = endless_optimum(workspace, teams, i, policy, value)
            continue
        begin(truth.model.problem, np.int64(1), value, workspace.true_scratch)
        mode, none = np.int64(CHOOSE), np.int64(0)
        backward(truth.model, mode, policy, policy, value, value, none, workspace.true_scratch, workspace.thread, none)
        result[i] = start_mean(truth.start, value, truth.start_agent)
