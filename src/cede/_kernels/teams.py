"""Many teams, one workspace: what a team has seen is laid out, the team plays, and what it has seen is put away again.

While another team is at work, a team costs the memory of what it has seen: one row of a table of keys, sorted.
"""

from typing import Annotated

import numpy as np
from numba import types
from numpy.typing import NDArray

from cede._kernels.backup import CHOOSE, FOLLOW
from cede._kernels.backward import POLICY, VALUE, backward, begin, start_mean
from cede._kernels.baseline import RECORD, negate_costs, record_episode
from cede._kernels.bundle import Bundle, Float1, Float2, Float3, Float4, Int1, Int2, Int3, Int16s3, Int16s4, UInt64s2
from cede._kernels.compiling import kernel, unit
from cede._kernels.episodes import Steps, Truth, enter, step
from cede._kernels.layer import CountsArrays, cells_of, forget
from cede._kernels.learner import LearnerArrays, is_due, may_deviate, plan_step, visit
from cede._kernels.limits import PRICE, step_costs, update_prices
from cede._kernels.radii import RadiiAhead, set_radii
from cede._kernels.random_streams import draw_uniform, tie_seed
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede._kernels.tables import KeyTable, Table, add, add_key, growth, restore, take


class TeamArrays(Bundle):
    """What is kept of each of n teams while another one is at work.

    Where an array has first axis 1 instead of n, nothing is kept of each team: all use the one.
    """

    agents_seen: KeyTable  # a row for each team; columns: row * n_columns + column of the agents' table
    environment_seen: KeyTable  # the same of an environment that is not shared
    control_cost: Float2  # (n, D)
    switch_cost: Float3  # (n, D, D)
    slot: Int2  # (n, D) first slot of each agent in the table of all true agents
    start_agent: Int1  # (n,)
    seed: Int1  # (n,) of ties and samples
    age: Int1  # (n,) which of the ages that there are the team has
    stream: UInt64s2  # (n, 4) of random numbers, see `draw_uniform`
    judged: Int1  # (n,) for which episode the policy was made that was evaluated last, 0: none was
    judged_cost: Float1  # (n,) what it costs
    planned: Int1  # (n,) for which episode the plan was made, 0: there is none
    fresh: Int1  # (n,) 1: the plan is to be used in the next episode in any case
    policy: Int16s4  # (n or 1, L, S, D)
    value: Float4  # (n or 1, L + 1, S, D)
    agents_planned_visits: Float2  # (n or 1, rows)
    environment_planned_visits: Float2
    bounds: Float4  # (n or 1, L + 1, S, D) see `GreedyBounds`
    least_bound: Float3
    least_bound_at: Int3
    agents_recent: Int3  # (n or 1, window, L) see `Forgetting`
    environment_recent: Int3
    prices: Annotated[NDArray[np.void], PRICE, 2]  # (n or 1, members)
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
    steps: Steps
    agent_keys: Int1  # (n L,) where the steps of n episodes were counted: row * n_columns + column of the agents' table
    environment_rows: Int1  # (n L,)
    environment_outcomes: Int1  # (n L,)
    chance: Float1  # (2 L + 1,) random numbers of an episode
    agents_known: int  # where counted rows begin in the pool of the agents' table: behind what is known
    environment_known: int
    at_work: int  # which team is, -1: none
    shared: int  # 1: the environment's table is that of all teams, and `delta` counts what they add
    snapshot: Table  # the environment as it was when the round began
    delta: Table  # what was seen since


class LedgerArrays(Bundle):
    """What is written down of each team in a round."""

    expected_cost: Float2  # (teams, episodes) exact, of the policy
    cost: Float2  # (teams, episodes) realised
    control: Int3  # (teams, episodes, members) steps of each
    switches: Int2  # (teams, episodes)


# ------------------------------------------------------------------------------------------------- a team comes to work


@kernel
def lay_out(kept, i, counts, first):
    """Fill the counted rows of a table, which are empty, with what team i has seen. first: the first place to use."""
    table, n_columns = counts.seen, counts.n_columns
    column, weights, keys, amounts = table.column, table.weight, kept.column, kept.weight
    to, r = first, np.int64(-1)
    for j in range(kept.start[i], kept.start[i] + kept.size[i]):
        row = keys[j] // n_columns
        if row != r:
            r = row
            table.start[r] = to
        column[to] = keys[j] - row * n_columns
        weights[to] = amounts[j]
        table.size[r] += 1
        table.capacity[r] += 1
        table.total[r] += amounts[j]
        to += 1
    table.end = to


@unit(types.none, KeyTable, types.int64, CountsArrays, types.int64)
def clear(kept, i, counts, first):
    """Empty the rows of a table that team i has seen."""
    table, keys = counts.seen, kept.column
    for j in range(kept.start[i], kept.start[i] + kept.size[i]):
        r = keys[j] // counts.n_columns
        table.size[r] = 0
        table.capacity[r] = 0
        table.total[r] = 0.0
    table.end = first
    if counts.forgetting.factor.size > 0:  # rows that were forgotten since are not among those of team i
        for r in range(counts.counted):
            table.capacity[r] = 0


@unit(types.none, Workspace, TeamArrays, types.int64)
def point_at_team(workspace, teams, i):
    """Point the arrays of learner and truth at those of team i."""
    learner, truth = workspace.learner, workspace.truth
    problem = learner.model.problem
    if learner.limits.most.size > 0:
        learner.limits.control_cost = teams.control_cost[i]
        learner.limits.prices = teams.prices[min(i, teams.prices.shape[0] - 1)]
    else:
        problem.control_cost = teams.control_cost[i]
    problem.switch_cost = teams.switch_cost[i]
    visits, bounds = min(i, teams.agents_planned_visits.shape[0] - 1), min(i, teams.bounds.shape[0] - 1)
    learner.agents.planned_visits = teams.agents_planned_visits[visits]
    learner.environment.planned_visits = teams.environment_planned_visits[visits]
    learner.greedy.values = teams.bounds[bounds]
    learner.greedy.least = teams.least_bound[bounds]
    learner.greedy.least_at = teams.least_bound_at[bounds]
    learner.agents.counts.forgetting.recent = teams.agents_recent[min(i, teams.agents_recent.shape[0] - 1)]
    learner.environment.counts.forgetting.recent = teams.environment_recent[min(i, teams.environment_recent.shape[0] - 1)]
    if learner.baseline.policy.size > 0:
        learner.baseline.record = teams.record[min(i, teams.record.shape[0] - 1)]
        negate_costs(problem, learner.baseline.opposite.problem)
    truth.model.problem.slot = teams.slot[i]
    truth.model.problem.control_cost = teams.control_cost[i]
    truth.model.problem.switch_cost = teams.switch_cost[i]
    truth.start_agent = teams.start_agent[i]


@kernel
def come_to_work(workspace, teams, i):
    """Lay out what team i has seen, if it is not there already, and point the workspace at the team's own arrays."""
    agents, environment, last = workspace.learner.agents.counts, workspace.learner.environment.counts, workspace.at_work
    if last != i:
        if last >= 0:
            clear(teams.agents_seen, last, agents, workspace.agents_known)
            if not workspace.shared:
                clear(teams.environment_seen, last, environment, workspace.environment_known)
        workspace.at_work = -1
        lay_out(teams.agents_seen, i, agents, workspace.agents_known)
        if not workspace.shared:
            lay_out(teams.environment_seen, i, environment, workspace.environment_known)
        workspace.value_known = 0
        workspace.at_work = i
    point_at_team(workspace, teams, i)


@kernel
def reserve(kept, i, more, most):
    """Make sure that `more` outcomes fit into row i, which has at most `most`; the pool is long enough."""
    n, start, columns, weights = kept.size[i], kept.start[i], kept.column, kept.weight
    wanted = min(n + more, most)
    if wanted > kept.capacity[i]:
        target = kept.end
        kept.capacity[i] = min(2 * wanted, most)
        kept.end = target + kept.capacity[i]
        for j in range(n):
            columns[target + j] = columns[start + j]
            weights[target + j] = weights[start + j]
        kept.start[i] = target


# ------------------------------------------------------------------------------------------------- a team puts its work away


@unit(types.none, CountsArrays, KeyTable, types.int64)
def pack(counts, kept, i):
    """Make what is kept of team i equal to the counted rows of a table, some of which may have faded."""
    table, to, total = counts.seen, kept.start[i], 0.0
    for r in range(counts.counted):
        for j in range(table.start[r], table.start[r] + table.size[r]):
            kept.column[to] = r * counts.n_columns + table.column[j]
            kept.weight[to] = table.weight[j]
            total += table.weight[j]
            to += 1
    kept.size[i] = to - kept.start[i]
    kept.total[i] = total


@unit(types.none, Workspace, TeamArrays, types.int64, types.int64)
def put_away(workspace, teams, i, steps):
    """Add the steps that were counted to what is kept of team i. A shared environment is again as all teams saw it; what the team
    added is in delta.
    """
    agents, environment = workspace.learner.agents.counts, workspace.learner.environment.counts
    agents_fade, environment_fades = agents.forgetting.factor.size > 0, environment.forgetting.factor.size > 0
    rows, outcomes = workspace.environment_rows, workspace.environment_outcomes
    for j in range(steps):
        if not agents_fade:
            add_key(teams.agents_seen, i, workspace.agent_keys[j], 1.0)
        if workspace.shared:
            take(environment.seen, rows[j], outcomes[j])
            add(workspace.delta, rows[j], outcomes[j], 1.0)
        elif not environment_fades:
            add_key(teams.environment_seen, i, rows[j] * environment.n_columns + outcomes[j], 1.0)
    if agents_fade:
        pack(agents, teams.agents_seen, i)
    if environment_fades:
        pack(environment, teams.environment_seen, i)


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


@unit(types.none, Workspace, types.int64)
def count_episode(workspace, first):
    """Count the episode that was played, and write down where, from place `first` on."""
    learner, steps = workspace.learner, workspace.steps
    agents, environment, problem = learner.agents.counts, learner.environment.counts, learner.model.problem
    states, who, actions = steps.states, steps.who, steps.actions
    for t in range(actions.size):
        s, prev, d, a = states[t], who[t], who[t + 1], actions[t]
        row, column, environment_row, outcome = cells_of(
            agents, environment, problem, learner.flat, t, s, prev, d, a, states[t + 1]
        )
        add(agents.seen, row, column, 1.0)
        add(environment.seen, environment_row, outcome, 1.0)
        workspace.agent_keys[first + t] = row * agents.n_columns + column
        workspace.environment_rows[first + t] = environment_row
        workspace.environment_outcomes[first + t] = outcome


@unit(types.none, Workspace, types.int64, types.int64)
def forget_episode(workspace, first, episode):
    """Let the counts of both layers fade after an episode, whose steps were written down from place `first` on."""
    learner, rows, outcomes = workspace.learner, workspace.environment_rows, workspace.environment_outcomes
    last, columns = first + workspace.steps.actions.size, learner.environment.counts.n_columns
    if learner.agents.counts.forgetting.factor.size > 0:
        forget(learner.agents.counts, episode, workspace.agent_keys[first:last])
    if learner.environment.counts.forgetting.factor.size > 0:
        for i in range(first, last):
            rows[i] = rows[i] * columns + outcomes[i]
        forget(learner.environment.counts, episode, rows[first:last])
        for i in range(first, last):
            rows[i] = rows[i] // columns


@unit(types.none, Workspace, POLICY, types.int64)
def play_greedily(workspace, policy, seed):
    """Play an episode while planning greedily: back up each state as it is visited."""
    truth, steps, chance = workspace.truth, workspace.steps, workspace.chance
    enter(truth, chance, steps)
    for t in range(policy.shape[0]):
        s = steps.states[t]
        visit(workspace.learner, policy, t, s, seed, workspace.scratch, workspace.thread)
        step(truth, t, policy[t, s, steps.who[t]], chance, steps)


@unit(types.none, Workspace, TeamArrays, RadiiAhead, types.int64, types.int64, types.int64, LedgerArrays, POLICY, VALUE)
def play_team(workspace, teams, ahead, i, episode, evaluate_every, ledger, policy, value):
    """Play the next episodes of team i, which has come to work: plan where it is due, evaluate, play, count.

    episode: k of the first one. policy, value: the team's plan, if there is one (teams.planned). With evaluate_every = m policies
    are evaluated before episodes 1, m + 1, ..., and the cost carried on between.
    """
    learner, truth, steps, chance = workspace.learner, workspace.truth, workspace.steps, workspace.chance
    scratch, true_scratch, thread = workspace.scratch, workspace.true_scratch, workspace.thread
    horizon, age = policy.shape[0], teams.age[i]
    limits, baseline, greedy = learner.limits, learner.baseline, learner.greedy.values.size > 0
    least_cost, most_cost = step_costs(learner.least_cost, learner.spread, teams.control_cost[i], learner.model.problem.switch_cost)
    forgets = learner.agents.counts.forgetting.factor.size + learner.environment.counts.forgetting.factor.size > 0
    for e in range(ledger.cost.shape[1]):
        k = episode + e
        set_radii(learner.radii, ahead, age, e)
        ties = tie_seed(teams.seed[i], k)
        looking = teams.judged[i] == 0 or (k - 1) % evaluate_every == 0
        if (looking or not greedy) and not teams.fresh[i] and is_due(learner, k, teams.planned[i]):
            plan_step(learner, policy, value, ties, scratch, thread)
            teams.planned[i] = k
        teams.fresh[i] = 0
        acting, name = policy, teams.planned[i]
        cautious = baseline.policy.size > 0
        if cautious and not may_deviate(learner, policy, truth.start_agent, horizon * most_cost, scratch, thread):
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
            enter(truth, chance, steps)
            for t in range(horizon):
                step(truth, t, acting[t, steps.states[t], steps.who[t]], chance, steps)
        total, handed = 0.0, 0
        for t in range(horizon):
            total += steps.costs[t]
            ledger.control[i, e, truth.acting[steps.who[t + 1]]] += 1
            handed += truth.aim[steps.who[t + 1]] != truth.aim[steps.who[t]]
        ledger.cost[i, e] = total
        ledger.switches[i, e] = handed
        if limits.most.size > 0:
            update_prices(limits, ledger.control[i, e], least_cost, most_cost)
        if cautious:
            record_episode(baseline, True, total, horizon * most_cost)
        count_episode(workspace, e * horizon)
        if forgets:
            forget_episode(workspace, e * horizon, k)


@kernel
def play_teams(workspace, teams, ahead, episodes, evaluate_every, first, last, ledger, at):
    """Play the next episodes of the teams from first to last, as many as the ledger has room for; at[0]: the team that comes next.

    episodes: (ages,) k of the first episode of each age. Whatever stops this, up to at[0] all is done. The caller has made all
    pools long enough for one team in the workspace, and for all of them in `teams` and `delta`.
    """
    learner = workspace.learner
    agents, environment, snapshot = learner.agents.counts, learner.environment.counts, workspace.snapshot
    steps = workspace.steps.actions.size * ledger.cost.shape[1]
    needed = 0
    if workspace.shared:
        needed = growth(snapshot.end, environment.counted, environment.n_columns, steps)
    for i in range(max(first, at[0]), last):
        come_to_work(workspace, teams, i)
        if environment.seen.column.size - environment.seen.end < needed:
            restore(environment.seen, snapshot)
        reserve(teams.agents_seen, i, steps, agents.counted * agents.n_columns)
        if not workspace.shared:
            reserve(teams.environment_seen, i, steps, environment.counted * environment.n_columns)
        policy = teams.policy[min(i, teams.policy.shape[0] - 1)]
        value = teams.value[min(i, teams.value.shape[0] - 1)]
        play_team(workspace, teams, ahead, i, episodes[teams.age[i]], evaluate_every, ledger, policy, value)
        put_away(workspace, teams, i, steps)
        at[0] = i + 1


@kernel
def find_optima(workspace, teams, policy, value, first, last, result):
    """Write the least expected cost of an episode of each team from first to last, when all is known. policy, value: scratch."""
    truth = workspace.truth
    for i in range(first, last):
        point_at_team(workspace, teams, i)
        begin(truth.model.problem, np.int64(1), value, workspace.true_scratch)
        mode, none = np.int64(CHOOSE), np.int64(0)
        backward(truth.model, mode, policy, policy, value, value, none, workspace.true_scratch, workspace.thread, none)
        result[i] = start_mean(truth.start, value, truth.start_agent)
