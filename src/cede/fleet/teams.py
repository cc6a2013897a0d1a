"""The episodes of a team in compiled code: plan where it is due, evaluate, play, count; with a horizon and without."""

import numpy as np
from numba import types

from cede._kernels.bundle import Bool1, Bundle, Float2, Int2, Int3
from cede._kernels.compiling import kernel, unit
from cede._kernels.limits import update_prices
from cede._kernels.problem import ends_in
from cede._kernels.random_streams import draw_uniform, tie_seed
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede._kernels.tables import KeyTable, add, add_key
from cede.beliefs.constants import RadiiAhead, put_constants, set_radii
from cede.beliefs.layer import row_has_doubled
from cede.fleet.episodes import (
    EpisodeArrays,
    Truth,
    enter,
    first_state,
    hands_over,
    is_over,
    play_episode,
    play_on,
    step,
)
from cede.fleet.share import reserve
from cede.fleet.workspace import TeamArrays, Workspace, load_team, of_team, point_at_team, store_team
from cede.learners.compiled import DOUBLING, NEVER, is_due, may_deviate, plan_step, visit
from cede.learners.proof import record_episode
from cede.planning.backup import CHOOSE, FOLLOW, POLICY, VALUE, backward, begin, start_mean
from cede.planning.fixed_point import find_reached, settle, settle_gains
from cede.rows.cost_sums import N_SUMS, by_state, count_costs, forget_costs, rows_of_costs, rows_of_team_costs
from cede.rows.counting import LEAST_WEIGHT, cells_of, forget, part_kept, slot_of


class LedgerArrays(Bundle):
    """The columns of a `Ledger`, for one round."""

    evaluated: Bool1  # (episodes,) whether policies are evaluated before the episode; expected_cost is carried on between
    expected_cost: Float2  # (teams, episodes) exact, of the policy; without horizon see `play_block`
    regret: Float2  # (teams, episodes) without horizon, of a block of steps; else written later
    cost: Float2  # (teams, episodes) realised
    control: Int3  # (teams, episodes, members) steps of each
    switches: Int2  # (teams, episodes)


@unit(types.none, Truth, EpisodeArrays, types.int64, types.int64, types.float64, LedgerArrays, types.int64, types.int64)
def enter_steps(truth, steps, first, last, discount, ledger, i, e):
    """Add the steps from time first to last (exclusive) to what is recorded of team i in episode e."""
    weight = 1.0
    for t in range(first, last):
        prev, d = steps.who[t], steps.who[t + 1]
        ledger.cost[i, e] += weight * steps.costs[t]
        weight *= discount
        ledger.control[i, e, truth.acting[d]] += 1
        ledger.switches[i, e] += hands_over(truth.aim, prev, d)


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
    states, who, actions, charges, true = steps.states, steps.who, steps.actions, costs.charges, workspace.truth.model.problem
    rows, parts = workspace.cost_rows, workspace.cost_parts
    for t in range(begin, end):
        s, prev, d, a, to = states[t], who[t], who[t + 1], actions[t], states[t + 1]
        row, column, environment_row, outcome = cells_of(agents, environment, problem, learner.flat, t, s, prev, d, a, to)
        add(agents.seen, row, column, 1.0)
        add(environment.seen, environment_row, outcome, 1.0)
        workspace.agent_keys[at] = row * agents.n_columns + column
        workspace.environment_keys[at] = environment_row * environment.n_columns + outcome
        if costs.least.size > 0:
            place, i = problem.slot[d] + slot_of(problem.vary[d], t, prev) if learner.flat else a, charges * at
            rows[i], rows[i + 1] = rows_of_costs(costs, s, place, to)
            parts[i], parts[i + 1] = steps.env_costs[t], steps.enter_costs[t]
            if charges > 2:
                rows[i + 2], rows[i + 3] = rows_of_team_costs(costs, s, prev, d)
                parts[i + 2], parts[i + 3] = by_state(true.control_cost, s)[d], by_state(true.switch_cost, s)[prev, d]
        at += 1
    if costs.least.size > 0:
        first, last = charges * workspace.counted, charges * at
        count_costs(costs, rows[first:last], parts[first:last])
    workspace.counted = at


@unit(types.none, Workspace, types.int64, types.int64)
def forget_episode(workspace, first, episode):
    """Let the counts of all layers fade after an episode, whose steps were written down from place `first` on."""
    learner, last = workspace.learner, workspace.counted
    if learner.costs.counts.forgetting.factor.size > 0:
        begin, end = learner.costs.charges * first, learner.costs.charges * last
        forget_costs(learner.costs, episode, workspace.cost_rows[begin:end], workspace.cost_parts[begin:end])
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
    """Play the next episodes of team i, which was loaded: plan where it is due, evaluate, play, count.

    episode: k of the first one. policy, value: the team's plan, if there is one (teams.planned).
    """
    learner, truth, steps, chance = workspace.learner, workspace.truth, workspace.steps, workspace.chance
    scratch, true_scratch, thread = workspace.scratch, workspace.true_scratch, workspace.thread
    age = teams.age[i]
    limits, baseline, greedy = learner.limits, learner.baseline, learner.greedy.values.size > 0
    problem = learner.model.problem
    dearest = problem.left[0] * learner.most_step  # of all episodes
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
        enter_steps(truth, steps, np.int64(0), steps.n, problem.discount, ledger, i, e)
        if learner.spent.size > 0:
            learner.spent[0] += 1.0
            learner.spent[1] += ledger.cost[i, e]
        if limits.most.size > 0:
            update_prices(limits, ledger.control[i, e], learner.least_step, learner.most_step)
        if cautious:
            record_episode(baseline, True, ledger.cost[i, e], dearest)
        first = workspace.counted
        count_start(teams.starts_seen, i, steps.states[0], part_kept(learner.environment.counts.forgetting))
        count_played(workspace, np.int64(0), steps.n)
        if forgets:
            forget_episode(workspace, first, k)


# ------------------------------------------------------------------------------------------------- without horizon


@unit(types.none, Workspace, types.int64, POLICY, VALUE)
def settle_truth(workspace, mode, policy, value):
    """Find the value of a policy, (1, S, D), under the true tables; with mode CHOOSE the best policy and its value."""
    truth, endless = workspace.truth, workspace.endless
    for s in range(value.shape[1]):
        for d in range(value.shape[2]):
            value[0, s, d] = 0.0
    if truth.model.problem.discount == 1.0:
        find_reached(truth.model, truth.start, truth.start_agent, endless.reached)
    none, accuracy = np.int64(0), workspace.accuracy
    settle(truth.model, mode, policy[0], value, none, accuracy, endless, workspace.true_scratch, workspace.thread)


@unit(types.float64, Workspace, POLICY, types.int64, types.int64)
def evaluate_endless(workspace, policy, s, d):
    """Evaluate a policy, (1, S, D), under the true tables. With a discount its value goes to workspace.true_value[0], and the mean
    of that over the start is returned; for averages the cost of a step in the long run, from state s after agent d.
    """
    truth, value, endless, accuracy = workspace.truth, workspace.true_value, workspace.endless, workspace.accuracy
    settle_truth(workspace, np.int64(FOLLOW), policy, value)
    if truth.model.problem.discount < 1.0:
        return start_mean(truth.start, value, truth.start_agent)
    if endless.error > 2.0 * accuracy:  # the long run depends on where it begins
        settle_gains(truth.model, policy[0], value, accuracy, endless, workspace.true_scratch, workspace.thread)
        return value[1, s, d]
    return endless.gain


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
    expected, regret, best = 0.0, 0.0, of_team(teams.best_value, i)
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
        draw_uniform(teams.stream[i], chance)
        order, chance_of_order = np.int64(policy[0, s, prev]), chance[3] if truth.model.problem.order.size > 0 else 0.0
        step(truth, t, order, chance_of_order, chance[0], chance[1], chance[chance.size - 1], steps)
        d = steps.who[t + 1]
        enter_steps(truth, steps, t, t + 1, 1.0, ledger, i, e)
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
            reserve(teams.costs_seen, i, learner.costs.charges * N_SUMS * steps, costs.counted * N_SUMS)
        reserve(teams.starts_seen, i, np.int64(ledger.cost.shape[1]), n_states)
        policy = of_team(teams.policy, i)
        value = of_team(teams.value, i)
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
    truth = workspace.truth
    settle_truth(workspace, np.int64(CHOOSE), policy, value)
    if truth.model.problem.discount == 1.0:
        return workspace.endless.gain
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
