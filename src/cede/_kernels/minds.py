"""A learner in compiled code: from counts to radii to plans, and whole runs of episodes.

Plans are made in full (`make_plan`), or greedily, only where the learner is (`visit`).
"""

import numpy as np

from cede._kernels.compiling import inlined, kernel
from cede._kernels.data import (
    AT_MOST,
    CHOOSE,
    DECIDED,
    DEVIATE,
    DOUBLING,
    FOLLOW,
    KEEP_TO,
    NEVER,
    PROVEN,
    RAISE,
    Radii,
)
from cede._kernels.episodes import add, cells_of, enter, fade, start_mean, step
from cede._kernels.luck import GOLDEN, draw_uniform, mixed
from cede._kernels.passes import backward, begin, contexts, same_start
from cede._kernels.promises import least_within, note_episode, proven_by_costs, set_prices, step_costs, update_prices
from cede._kernels.radii import linear_part, radii, radius
from cede._kernels.samples import sample_tables


@inlined
def lower_cost(seen, true_cost, least, spread, r, s, constant, scale):
    """Mean cost seen in row r of an agent, in state s, minus its radius; at least the least cost of the state."""
    result = least[s]
    if seen.total[r] > 0.0:
        mean = 0.0
        for j in range(seen.start[r], seen.start[r] + seen.size[r]):
            mean += seen.weight[j] * true_cost[s, seen.column[j]]
        result = max(result, mean / seen.total[r] - spread[s] * radius(0, seen.total[r], constant, scale))
    return result


@inlined
def learn_cost(mind, numbers, s, c):
    """The believed cost of slot c in state s, where UCRL2 must learn it."""
    n_states = mind.learned_cost.shape[0]
    mind.learned_cost[s, c] = lower_cost(
        mind.seen_agents,
        mind.true_cost,
        mind.least_cost,
        mind.spread,
        c * n_states + s,
        s,
        numbers.cost,
        numbers.environment_scale,
    )


@inlined
def unfold(seen, c, layer, r):
    """Make row r of a belief from what was counted of its case: all its outcomes, also those not seen yet."""
    start, n, total = layer.start[r], layer.size[r], seen.total[c]
    for j in range(start, start + n):
        layer.weight[j] = 0.0 if total > 0.0 else 1.0
    for j in range(seen.start[c], seen.start[c] + seen.size[c]):
        layer.weight[start + seen.column[j]] = seen.weight[j]
    layer.total[r] = total if total > 0.0 else float(n)


@kernel
def believe(mind, numbers, seed):
    """Make the widths (and, for UCRL2, the costs) that follow from what was counted, and the tables that are not the counted ones
    themselves: unfolded, or sampled with the seed.
    """
    kind, scale = mind.agents_kind, numbers.agents_scale
    if not mind.flat:
        visits, constant = mind.seen_agents.total, numbers.agents
        radii(kind, visits, mind.agents_case, mind.counted_agents, constant, mind.agents_extra, scale, mind.agents_width)
        mind.agents.linear[0] = linear_part(kind, scale)
    kind, scale = mind.environment_kind, numbers.environment_scale
    constant, extra = numbers.environment, mind.environment_extra
    visits, counted = mind.seen_environment.total, mind.counted_environment
    radii(kind, visits, mind.environment_case, counted, constant, extra, scale, mind.environment_width)
    mind.environment.linear[0] = linear_part(kind, scale)
    if mind.prior > 0.0:
        sample_tables(mind, seed)
    else:
        if mind.agents.closed and not mind.flat:
            for r in range(mind.agents.start.size):
                if mind.agents_case[r] < mind.counted_agents:
                    unfold(mind.seen_agents, mind.agents_case[r], mind.agents, r)
        if mind.environment.closed:
            for r in range(mind.environment.start.size):
                if mind.environment_case[r] < mind.counted_environment:
                    unfold(mind.seen_environment, mind.environment_case[r], mind.environment, r)
    if mind.learned_cost.size > 0:
        n_states, n_slots = mind.learned_cost.shape
        for c in range(n_slots):
            for s in range(n_states):
                learn_cost(mind, numbers, s, c)


@inlined
def believe_at(mind, numbers, t, s):
    """`believe`, only what a backup of state s at time t needs."""
    n_agents = mind.problem.slot.size
    if not mind.flat:
        kind, scale = mind.agents_kind, numbers.agents_scale
        mind.agents.linear[0] = linear_part(kind, scale)
        for d in range(n_agents):
            first, last = contexts(mind.problem.vary[d], t, n_agents)
            for c in range(first, last):
                r = mind.agents.row[mind.problem.slot[d] + c, s]
                case = mind.agents_case[r]
                if case < mind.counted_agents:
                    constant = numbers.agents + mind.agents_extra[case]
                    mind.agents_width[r] = radius(kind, mind.seen_agents.total[case], constant, scale)
                    if mind.agents.closed:
                        unfold(mind.seen_agents, case, mind.agents, r)
    kind, scale = mind.environment_kind, numbers.environment_scale
    mind.environment.linear[0] = linear_part(kind, scale)
    for a in range(mind.environment.row.shape[1]):
        r = mind.environment.row[s, a]
        case = mind.environment_case[r]
        if case < mind.counted_environment:
            constant = numbers.environment + mind.environment_extra[case]
            mind.environment_width[r] = radius(kind, mind.seen_environment.total[case], constant, scale)
            if mind.environment.closed:
                unfold(mind.seen_environment, case, mind.environment, r)
        if mind.learned_cost.size > 0:
            learn_cost(mind, numbers, s, a)


@inlined
def has_doubled(total, planned):
    """Has a row been visited as often since the plan was made as before it, or for the first time?"""
    found = False
    for r in range(planned.size):
        found = found or total[r] >= planned[r] + max(1.0, planned[r])
    return found


@kernel
def tie_seed(seed, episode):
    """The seed of the ties of an episode: neighbouring seeds and episodes must not have neighbouring ties."""
    scrambled = mixed(np.uint64(seed) + GOLDEN) >> np.uint64(1)
    return np.int64(mixed(scrambled + np.uint64(episode) + GOLDEN) >> np.uint64(1))


@kernel
def is_due(mind, episode, planned):
    """Must there be a new plan for this episode? `planned`: the episode for which the last one was made, 0: none."""
    if planned == 0:
        return True
    if mind.replan == DOUBLING:
        return has_doubled(mind.seen_agents.total, mind.planned_agents) or has_doubled(
            mind.seen_environment.total, mind.planned_environment
        )
    return mind.replan != NEVER and episode - planned >= mind.replan


@kernel
def note_visits(mind):
    """Keep what the doubling rule compares with."""
    for r in range(mind.planned_agents.size):
        mind.planned_agents[r] = mind.seen_agents.total[r]
    for r in range(mind.planned_environment.size):
        mind.planned_environment[r] = mind.seen_environment.total[r]


@kernel
def find_least(bounds, t, d, least_bound, least_at):
    """The least bound of a time step, from the state that had it before."""
    for s in range(least_at[t, d], bounds.shape[1]):
        if bounds[t, s, d] == least_bound[t, d]:
            least_at[t, d] = s
            return
    at = 0
    for s in range(bounds.shape[1]):
        if bounds[t, s, d] < bounds[t, at, d]:
            at = s
    least_bound[t, d] = bounds[t, at, d]
    least_at[t, d] = at


@inlined
def visit(mind, numbers, policy, t, s, seed, room, hands):
    """Greedy planning: one backup of state s at time t, from values that were only ever raised; raises its own.

    Efroni, Merlis, Ghavamzadeh and Mannor 2019, with the switch as the decision. Writes policy[t, s, :].
    """
    horizon, n_agents = policy.shape[0], policy.shape[2]
    believe_at(mind, numbers, t, s)
    for d in range(n_agents):
        hands.same[d] = d
        hands.least[d] = mind.least_bound[t + 1, d]
        hands.constant[d] = t == horizon - 1
        hands.uniform_width[d] = -1.0
        hands.is_ranked[d] = False
    first, mode = np.int64(3 * (horizon - 1 - t)), np.int64(RAISE)
    for phase in range(first, first + 3):
        room.taken[phase] = 0
        room.done[phase] = 0
    room.changed[t] = 0
    room.stamp[0] += horizon
    bounds, only = mind.bounds, np.int64(s)
    backward(mind.agents, mind.environment, mind.problem, mode, policy, policy, bounds, bounds, seed, room, hands, first, only)
    if room.changed[t]:
        for d in range(n_agents):
            if mind.least_at[t, d] == s:
                find_least(bounds, t, d, mind.least_bound, mind.least_at)


@kernel
def visit_once(mind, numbers, policy, t, s, seed, room, hands):
    """`visit`, for a system that is not simulated."""
    same_start(mind.problem.switch_cost, mind.problem.vary, room.alike)
    visit(mind, numbers, policy, t, s, seed, room, hands)


@inlined
def make_plan(mind, policy, value, seed, room, hands):
    """The optimistic plan of what is believed: in full, or, with greedy planning, one step ahead of the bounds everywhere."""
    begin(mind.problem, np.int64(1), value, room)
    mode, source = (RAISE, mind.bounds) if mind.bounds.size > 0 else (CHOOSE, value)
    first, only = np.int64(0), np.int64(-1)
    backward(mind.agents, mind.environment, mind.problem, mode, policy, policy, value, source, seed, room, hands, first, only)


@inlined
def cost_of(world, policy, before, value, afresh, room, hands):
    """The exact expected cost of a policy. `value` holds that of `before` unless afresh; both are brought up to date."""
    begin(world.problem, afresh, value, room)
    mode, seed, first = np.int64(FOLLOW), np.int64(0), np.int64(0)  # not the constants: kernels are compiled for each of those
    agents, environment, only = world.agents, world.environment, np.int64(-1)
    backward(agents, environment, world.problem, mode, policy, before, value, value, seed, room, hands, first, only)
    horizon, n_states, n_agents = policy.shape
    for t in range(horizon):
        for s in range(n_states):
            for d in range(n_agents):
                before[t, s, d] = policy[t, s, d]
    return start_mean(world.start, value, world.start_agent)


@inlined
def may_deviate(mind, numbers, policy, start_agent, most, room, hands):
    """Is it proven that the total cost stays within 1 + alpha of the baseline's if this policy is played now? Decided once an
    episode. most: what an episode can cost.
    """
    caution, record = mind.caution, mind.caution.record
    if record[DECIDED] == 0.0:
        spent, times, good = proven_by_costs(record, most, caution.alpha, caution.delta)
        record[AT_MOST] = most
        if not good:  # what is believed may prove more
            believe(mind, numbers, np.int64(0))
            agents, environment, value, start = mind.agents, mind.environment, caution.value, caution.start
            problem, baseline, opposite = mind.problem, caution.baseline, caution.opposite
            proven = least_within(agents, environment, problem, baseline, value, start, start_agent, room, hands)
            record[PROVEN] = max(record[PROVEN], proven)
            worst = -least_within(agents, environment, opposite, policy, value, start, start_agent, room, hands)
            record[AT_MOST] = min(most, worst)
            good = spent + record[AT_MOST] <= times * record[PROVEN]
        record[DECIDED] = DEVIATE if good else KEEP_TO
    return record[DECIDED] == DEVIATE


@kernel
def decide(mind, numbers, policy, start_agent, most, room, hands):
    """`may_deviate`, for a system that is not simulated."""
    return may_deviate(mind, numbers, policy, start_agent, most, room, hands)


@inlined
def count_episode(mind, steps, log, first):
    """Count an episode, and write down what was counted, from place `first` of the log on."""
    slot, vary = mind.problem.slot, mind.problem.vary
    n_actions = mind.true_cost.shape[1]
    for t in range(steps.actions.size):
        s, prev, d, a = steps.states[t], steps.who[t], steps.who[t + 1], steps.actions[t]
        row, column, environment, outcome = cells_of(mind.places, slot, vary, mind.flat, t, s, prev, d, a, steps.states[t + 1])
        add(mind.seen_agents, row, column, 1.0)
        add(mind.seen_environment, environment, outcome, 1.0)
        log.agents[first + t] = row * n_actions + column
        log.row[first + t] = environment
        log.to[first + t] = outcome


@inlined
def forget(mind, log, first, horizon, episode):
    """What fades after an episode, which was logged from place `first` on."""
    n_actions, columns = mind.true_cost.shape[1], mind.places.columns
    last = first + horizon
    if mind.fading_agents.factor.size > 0:
        fade(mind.seen_agents, mind.fading_agents, n_actions, episode, log.agents[first:last])
    if mind.fading_environment.factor.size > 0:
        for i in range(first, last):
            log.row[i] = log.row[i] * columns + log.to[i]
        fade(mind.seen_environment, mind.fading_environment, columns, episode, log.row[first:last])
        for i in range(first, last):
            log.row[i] = log.row[i] // columns


@inlined
def play_episodes(bench, mind, world, numbers, seed, episode, stream, evaluate_every, policy, value, ledger, run):
    """n episodes of one team: plan where it is due, evaluate, play, count.

    bench: what it works with; mind, world: its own. numbers: Radii of (n,) arrays. episode: k of the first. stream: its luck.
    policy, value: the plan, if there is one (run.planned). With evaluate_every = m policies are evaluated before episodes 1,
    m + 1, ..., and the cost carried on between.
    """
    horizon = policy.shape[0]
    greedy = mind.bounds.size > 0
    least_cost, most_cost = step_costs(mind.least_cost, mind.spread, mind.limits.own, mind.problem.switch_cost)
    room, true_room, hands, steps, chance = bench.room, bench.true_room, bench.hands, bench.steps, bench.luck
    for i in range(ledger.cost.size):
        k = episode + i
        now = Radii(
            numbers.agents[i], numbers.environment[i], numbers.cost[i], numbers.agents_scale[i], numbers.environment_scale[i]
        )
        ties = tie_seed(seed, k)
        looking = run.judged[0] == 0 or (k - 1) % evaluate_every == 0
        if (looking or not greedy) and not run.fresh[0] and is_due(mind, k, run.planned[0]):
            believe(mind, now, ties)
            set_prices(mind.limits)
            make_plan(mind, policy, value, ties, room, hands)
            note_visits(mind)
            run.planned[0] = k
        run.fresh[0] = 0
        acting, name = policy, run.planned[0]
        keeping = False
        if mind.caution.baseline.size > 0:
            keeping = not may_deviate(mind, now, policy, world.start_agent, horizon * most_cost, room, hands)
        if keeping:
            acting, name = mind.caution.baseline, np.int64(-1)
        if looking and name != run.judged[0]:  # the same plan costs the same
            afresh = np.int64(run.held[0] == 0)
            run.cost[0] = cost_of(world, acting, bench.before, bench.true_value, afresh, true_room, hands)
            run.judged[0], run.held[0] = name, 1
        ledger.expected_cost[i] = run.cost[0]
        if greedy:  # after evaluation, which may have used the same room
            same_start(mind.problem.switch_cost, mind.problem.vary, room.alike)
        draw_uniform(stream, chance)
        enter(world, chance, steps)
        total, handed = 0.0, 0
        for t in range(horizon):
            if greedy:
                visit(mind, now, policy, t, steps.states[t], ties, room, hands)
            step(world, t, acting[t, steps.states[t], steps.who[t]], chance, steps)
            total += steps.costs[t]
            ledger.control[i, world.acting[steps.who[t + 1]]] += 1
            handed += world.aim[steps.who[t + 1]] != world.aim[steps.who[t]]
        ledger.cost[i] = total
        ledger.switches[i] = handed
        if mind.limits.most.size > 0:
            update_prices(mind.limits, ledger.control[i], least_cost, most_cost)
        if mind.caution.baseline.size > 0:
            note_episode(mind.caution.record, True, total, horizon * most_cost)
        count_episode(mind, steps, bench.log, i * horizon)
        forget(mind, bench.log, i * horizon, horizon, k)
