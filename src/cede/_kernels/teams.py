"""Many teams, one bench: what a team has seen is laid out, the team plays, and what it has seen is put away again.

While another team is at work, a team costs the memory of what it has seen: one row of a pool, sorted by place.
"""

import numpy as np

from cede._kernels.compiling import inlined, kernel
from cede._kernels.data import CHOOSE, Caution, Fading, Ledger, Limits, Mind, Problem, Radii, Run, World
from cede._kernels.episodes import add, start_mean, take
from cede._kernels.minds import play_episodes
from cede._kernels.passes import backward, begin


@inlined
def lay_out(kept, i, n_columns, pool, first):
    """Fill the counted rows of a pool, which are empty, with what team i has seen. first: the first place of the pool to use."""
    to, r = first, np.int64(-1)
    for j in range(kept.start[i], kept.start[i] + kept.size[i]):
        row = kept.column[j] // n_columns
        if row != r:
            r = row
            pool.start[r] = to
        pool.column[to] = kept.column[j] - row * n_columns
        pool.weight[to] = kept.weight[j]
        pool.size[r] += 1
        pool.room[r] += 1
        pool.total[r] += kept.weight[j]
        to += 1
    pool.end[0] = to


@inlined
def clear(kept, i, n_columns, pool, first):
    """Empty the rows that team i has seen."""
    for j in range(kept.start[i], kept.start[i] + kept.size[i]):
        r = kept.column[j] // n_columns
        pool.size[r] = 0
        pool.room[r] = 0
        pool.total[r] = 0.0
    pool.end[0] = first


@kernel
def restore(pool, snapshot):
    """Make the environment's pool equal to the snapshot."""
    for r in range(pool.start.size):
        pool.start[r] = snapshot.start[r]
        pool.size[r] = snapshot.size[r]
        pool.room[r] = snapshot.room[r]
        pool.total[r] = snapshot.total[r]
    for j in range(snapshot.end[0]):
        pool.column[j] = snapshot.column[j]
        pool.weight[j] = snapshot.weight[j]
    pool.end[0] = snapshot.end[0]


@kernel
def growth(entries, rows, columns, steps):
    """So many places are enough for all rows that some steps change, each time a row moves to twice its room: by the outcomes
    that there are now, and by those that there can be.
    """
    return min(4 * (entries + steps) + 8 * min(rows, steps), rows * (4 * columns + 8))


@kernel
def reserve(kept, i, more, most):
    """Make sure that `more` outcomes fit into row i, of which there are at most `most`; the pool is long enough."""
    n, start = kept.size[i], kept.start[i]
    wanted = min(n + more, most)
    if wanted > kept.room[i]:
        target = kept.end[0]
        kept.room[i] = min(2 * wanted, most)
        kept.end[0] = target + kept.room[i]
        for j in range(n):
            kept.column[target + j] = kept.column[start + j]
            kept.weight[target + j] = kept.weight[start + j]
        kept.start[i] = target


@kernel
def places_wanted(kept, first, last, more, most):
    """How many places a pool lacks if every row from first to last is to take `more` outcomes."""
    wanted = 0
    for i in range(first, last):
        if min(kept.size[i] + more, most) > kept.room[i]:
            wanted += min(2 * (kept.size[i] + more), most)
    return wanted - (kept.column.size - kept.end[0])


@inlined
def limits_of_team(limits, control_cost, prices):
    return Limits(limits.least, limits.most, limits.acting, control_cost, limits.priced, prices)


@inlined
def caution_of_team(caution, control_cost, switch_cost, record):
    """Also writes the team's costs, negated, to where the bundle looks at them."""
    if caution.baseline.size > 0:
        for d in range(control_cost.size):
            caution.control_cost[d] = -control_cost[d]
            for to in range(control_cost.size):
                barred = switch_cost[d, to] == np.inf  # is in no policy
                caution.switch_cost[d, to] = np.inf if barred else -switch_cost[d, to]
    baseline, alpha, delta, start, opposite, control, switch, value, _ = caution
    return Caution(baseline, alpha, delta, start, opposite, control, switch, value, record)


@inlined
def mind_of_team(mind, keep, i):
    """The arrays of team i at the bench."""
    slot, vary, env_cost, priced, _ = mind.problem
    control_cost = priced if mind.limits.most.size > 0 else keep.control_cost[i]
    kept, bounded = min(i, keep.planned_agents.shape[0] - 1), min(i, keep.bounds.shape[0] - 1)
    agents, environment = mind.fading_agents, mind.fading_environment
    return Mind(
        mind.seen_agents,
        mind.seen_environment,
        mind.counted_agents,
        mind.counted_environment,
        mind.places,
        Fading(agents.factor, agents.window, agents.lengths, keep.recent_agents[min(i, keep.recent_agents.shape[0] - 1)]),
        Fading(
            environment.factor,
            environment.window,
            environment.lengths,
            keep.recent_environment[min(i, keep.recent_environment.shape[0] - 1)],
        ),
        mind.flat,
        mind.agents_kind,
        mind.environment_kind,
        mind.prior,
        mind.sticks,
        mind.agents,
        mind.environment,
        mind.agents_width,
        mind.environment_width,
        mind.agents_case,
        mind.environment_case,
        mind.agents_extra,
        mind.environment_extra,
        Problem(slot, vary, env_cost, control_cost, keep.switch_cost[i]),
        mind.learned_cost,
        mind.true_cost,
        mind.least_cost,
        mind.spread,
        mind.replan,
        keep.planned_agents[kept],
        keep.planned_environment[kept],
        keep.bounds[bounded],
        keep.least_bound[bounded],
        keep.least_at[bounded],
        limits_of_team(mind.limits, keep.control_cost[i], keep.prices[min(i, keep.prices.shape[0] - 1)]),
        caution_of_team(mind.caution, keep.control_cost[i], keep.switch_cost[i], keep.record[min(i, keep.record.shape[0] - 1)]),
    )


@inlined
def world_of_team(world, slot, control_cost, switch_cost, start_agent, i):
    _, vary, env_cost, _, _ = world.problem
    problem = Problem(slot[i], vary, env_cost, control_cost[i], switch_cost[i])
    start = (world.start, world.cumulated_start, start_agent[i])
    return World(world.agents, world.environment, problem, *start, world.acting, world.aim)


@kernel
def come_to_work(seen, own, i, agents, environment, n_actions, columns, shared, given, held, at_work, fading):
    """Lay out what team i has seen, if it is not there already. Arguments: fields of `Keep` and `Bench`; fading: (2,) rows of each
    pool in which something may have been that was forgotten since.
    """
    last = at_work[0]
    if last == i:
        return
    if last >= 0:
        clear(seen, last, n_actions, agents, given[0])
        if not shared:
            clear(own, last, columns, environment, given[1])
        for r in range(fading[0]):
            agents.room[r] = 0
        for r in range(fading[1]):
            environment.room[r] = 0
    at_work[0] = -1
    lay_out(seen, i, n_actions, agents, given[0])
    if not shared:
        lay_out(own, i, columns, environment, given[1])
    held[0] = 0
    at_work[0] = i


@inlined
def pack(pool, counted, n_columns, kept, i):
    """Make what is kept of team i equal to the counted rows of a pool, some of which may have faded."""
    to = kept.start[i]
    total = 0.0
    for r in range(counted):
        for j in range(pool.start[r], pool.start[r] + pool.size[r]):
            kept.column[to] = r * n_columns + pool.column[j]
            kept.weight[to] = pool.weight[j]
            total += pool.weight[j]
            to += 1
    kept.size[i] = to - kept.start[i]
    kept.total[i] = total


@inlined
def put_away(bench, keep, i, steps):
    """Add what was logged to what is kept of team i; a shared environment is again as all teams saw it, the rest is in delta."""
    mind, columns = bench.mind, bench.mind.places.columns
    fading = (mind.fading_agents.factor.size > 0, mind.fading_environment.factor.size > 0)
    for j in range(steps):
        if not fading[0]:
            add(keep.seen, i, bench.log.agents[j], 1.0)
        if bench.shared:
            take(mind.seen_environment, bench.log.row[j], bench.log.to[j])
            add(bench.delta, bench.log.row[j], bench.log.to[j], 1.0)
        elif not fading[1]:
            add(keep.own, i, bench.log.row[j] * columns + bench.log.to[j], 1.0)
    if fading[0]:
        pack(mind.seen_agents, mind.counted_agents, mind.true_cost.shape[1], keep.seen, i)
    if fading[1]:
        pack(mind.seen_environment, mind.counted_environment, columns, keep.own, i)


@kernel
def play_teams(bench, keep, numbers, episodes, evaluate_every, first, last, ledger, at):
    """The next episodes of the teams from first to last, as many as the ledger has room for; at[0]: the team that comes next.

    By age of the team, episodes: k of the first one; numbers: Radii of (ages, n) arrays.

    Whatever stops it, up to at[0] all is done. The caller has seen to it that all pools are long enough for one team at the bench,
    and for all of them in `keep` and `delta`.
    """
    mind, steps = bench.mind, bench.steps.actions.size * ledger.cost.shape[1]
    environment, snapshot = mind.seen_environment, bench.snapshot
    columns = mind.places.columns
    sizes = (mind.true_cost.shape[1], columns, bench.shared)
    needed = 0
    if bench.shared:
        needed = growth(snapshot.end[0], mind.counted_environment, columns, steps)
    for i in range(max(first, at[0]), last):
        work = (bench.given, bench.held, bench.at_work, bench.fading)
        come_to_work(keep.seen, keep.own, i, mind.seen_agents, environment, *sizes, *work)
        if environment.column.size - environment.end[0] < needed:
            restore(environment, snapshot)
        own = min(i, keep.policy.shape[0] - 1)
        one = slice(i, i + 1)
        run = Run(keep.planned[one], keep.fresh[one], keep.judged[one], keep.cost[one], bench.held)
        page = Ledger(ledger.expected_cost[i], ledger.cost[i], ledger.control[i], ledger.switches[i])
        reserve(keep.seen, i, steps, mind.counted_agents * mind.true_cost.shape[1])
        if not bench.shared:
            reserve(keep.own, i, steps, mind.counted_environment * columns)
        policy, value = keep.policy[own], keep.value[min(i, keep.value.shape[0] - 1)]
        own_mind = mind_of_team(mind, keep, i)
        own_world = world_of_team(bench.world, keep.slot, keep.control_cost, keep.switch_cost, keep.start_agent, i)
        seed, luck, age = keep.seed[i], keep.luck[i], keep.age[i]
        agents_scale, environment_scale = numbers.agents_scale[age], numbers.environment_scale[age]
        now = Radii(numbers.agents[age], numbers.environment[age], numbers.cost[age], agents_scale, environment_scale)
        play_episodes(bench, own_mind, own_world, now, seed, episodes[age], luck, evaluate_every, policy, value, page, run)
        put_away(bench, keep, i, steps)
        at[0] = i + 1


@kernel
def find_optima(world, slot, control_cost, switch_cost, start_agent, policy, value, room, hands, first, last, result):
    """The least expected cost of an episode of each team from first to last, when all is known.

    slot to start_agent: fields of `Keep`. policy, value: room for a plan.
    """
    for i in range(first, last):
        own = world_of_team(world, slot, control_cost, switch_cost, start_agent, i)
        begin(own.problem, np.int64(1), value, room)
        mode, seed, phase, only = np.int64(CHOOSE), np.int64(0), np.int64(0), np.int64(-1)
        tables = (own.agents, own.environment, own.problem)
        backward(*tables, mode, policy, policy, value, value, seed, room, hands, phase, only)
        result[i] = start_mean(own.start, value, own.start_agent)
