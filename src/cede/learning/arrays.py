"""Makes the arrays that the kernels need of a learner, from its task, its settings and what it has counted.

    task + settings + tally -> LearnerArrays: two layers (counts and belief of each), the problem to plan for, limits and baseline

In a table of counts the first `counted` rows are counted; rows of what is known, a policy or an environment, come after them.
"""

from collections.abc import Callable
from math import ceil, log, sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cede._base.arrays import Floats, Ints, Policy
from cede._kernels import learner as kernels
from cede._kernels.backup import CHOOSE
from cede._kernels.costs import CostLayer
from cede._kernels.endless import Endless, find_reached
from cede._kernels.layer import LayerArrays
from cede._kernels.learner import GreedyBounds, LearnerArrays
from cede._kernels.model import BeliefArrays, ModelArrays
from cede._kernels.radii import Constants, Radii, RadiusSizes, constants_ahead
from cede._kernels.tables import Table
from cede.learning.baseline import baseline_arrays
from cede.learning.counts import EnvironmentTally, Tally, all_agents, cases_of, shapes
from cede.learning.forgetting import forgetting_arrays
from cede.learning.limits import ends_of_step_costs, limits_arrays
from cede.learning.settings import Settings
from cede.learning.state import LearnerState, Sizes
from cede.planning.belief import RADII, Belief, true_environment
from cede.planning.endless import new_endless
from cede.planning.flatten import certain_policies
from cede.planning.passes import empty_plan, model_of, pass_scratch, problem_of, run_pass, share_pass, thread_scratch, worth_of
from cede.planning.scale import Scale
from cede.problem.structure import Outcomes
from cede.problem.takeover import next_agent_towards
from cede.problem.task import Task

# Of sets of kind "calibrated" (planning/belief.py): found by measurement over many worlds, see docs/decisions/0014.
AGENTS_PART, ENVIRONMENT_PART = 0.45, 0.15  # scales, times the square root of the rows that an episode meets
UNSEEN = 0.02  # of the constant: radius around the uniform distribution, for rows of the environment that were never seen
ACCURACY = 0.1  # of plans without horizon: this part of the range of values, over the square root of the steps seen


def new_tally(task: Task, told: Settings, state: LearnerState, shared: EnvironmentTally | None) -> Tally:
    """Make the growing counts of a learner from its state. Tables that it knows are appended after the counted rows.

    shared: the counts of the fleet's environment, if the learner belongs to one; None: it counts the environment by itself.
    """
    cases = cases_of(task, told.structure)
    agents = [(int(n) * rows, told.forget.get(name)) for name, n, rows in zip(task.tables, task.n_slots, cases, strict=True)]
    sizes = Sizes(task, told)
    forgetting = (
        forgetting_arrays(agents, task.plan_steps, state.agents_recent.copy()),
        forgetting_arrays([(sizes.layers[1][0], told.forget_environment)], task.plan_steps, state.environment_recent.copy()),
    )
    known: dict[str, sp.csr_array] = {}
    if told.known_agents:
        policies = [policy.reshape(-1, task.n_actions) for policy in told.known_agents.values()]
        known["known_agents"] = sp.csr_array(np.concatenate(policies))
    if told.known_environment is not None:
        known["known_environment"] = true_environment(told.known_environment).centre.matrix()
    counting: dict[str, Any] = {"flat": told.flat, "structure": told.structure, "forgetting": forgetting}
    return Tally(task, state.counts(sizes), environment=shared, **counting, **known)


def new_arrays(task: Task, told: Settings, tally: Tally) -> LearnerArrays:
    """Make the arrays of a learner for the kernels. They read and write the tables of the tally in place."""
    agents, environment = agents_layer(task, told, tally), environment_layer(task, told, tally)
    (least, most), enter = task.extremes_of_env_cost, task.extremes_of_enter_cost
    costs, sizes = tally.costs, radius_sizes(task, told)
    costs.kind = sizes.cost_kind
    problem, limits = problem_of(task, first_env_cost(task, told, costs)), limits_arrays(task, told.limits)
    if costs.enter_place.size:
        problem.enter_cost = np.where(np.isnan(task.enter_cost), enter[0], task.enter_cost)  # the planner reads what is believed
    if told.limits is not None:
        problem.control_cost, problem.price = limits.priced, limits.price  # the planner reads what `set_prices` writes
        problem.worth = worth_of(task) if limits.price.size else np.empty(0)
    model = ModelArrays(agents=agents.belief, environment=environment.belief, problem=problem)
    none = np.empty((0, 0, 0))
    bounds = {"values": none, "arrival": none, "least": np.empty((0, 0)), "least_at": np.empty((0, 0), dtype=np.int64)}
    arrays = LearnerArrays(
        agents=agents,
        environment=environment,
        costs=costs,
        model=model,
        auditions=auditions_of(task) if told.auditions else np.empty((0, 0), dtype=np.int64),
        flat=int(told.flat),
        prior=float(told.prior),
        sticks=sticks_for(told.prior),
        least_cost=least,
        spread=most - least,
        least_enter=enter[0],
        most_enter=enter[1],
        replan=replan_code(told),
        radii=Radii(),
        sizes=sizes,
        endless=endless_of(task, told),
        greedy=GreedyBounds(**bounds),
        limits=limits,
        baseline=baseline_arrays(task, told.baseline, told.delta, model),
    )
    if task.horizon is None:
        low, high = ends_of_step_costs(arrays, limits.control_cost)
        arrays.accuracy = ACCURACY * (high - low or abs(high) or 1.0) / (1.0 if task.discount is None else 1.0 - task.discount)
    return arrays


def endless_of(task: Task, told: Settings) -> Endless:
    """Make the arrays of a plan without horizon. Where the environment is known, averages are about what its start can lead to."""
    endless, known = new_endless(task), told.known_environment
    if known is not None and task.horizon is None and task.discount is None:
        anything = np.ones((int(task.n_slots.sum()), task.n_states, task.n_actions)) / task.n_actions
        for number, policy in told.known_agents.items():
            anything[task.first_slot[number] : task.first_slot[number] + task.n_slots[number]] = policy
        agents = Belief.of(anything.reshape(-1, task.n_actions), 0.0, anything.shape[:2])
        find_reached(model_of(task, agents, true_environment(known)), known.start, task.start_agent, endless.reached)
    return endless


def auditions_of(task: Task) -> Ints:
    """Return who gets control next, given who had it, if a member is to have it, (members, D); of those whom control can reach."""
    able = [member for member in range(len(task.members)) if task.can_reach(member)]
    return np.array([next_agent_towards(task.can_hand_over, member) for member in able], dtype=np.int64)


def first_env_cost(task: Task, told: Settings, costs: CostLayer) -> Floats:
    """Return the array of costs that a learner plans with: what the task says; where costs are learned, one of its own, into which
    what is believed is written.
    """
    known = task.env_cost
    if told.flat:  # the actions are the slots: where actions differ in cost, theirs is learned
        known = np.repeat(task.extremes_of_env_cost[0][:, None], int(task.n_slots.sum()), axis=1)
    return known if not costs.least.size else np.where(np.isnan(known), 0.0, known)


# Where the arrays that a learner keeps beside counts and plan (state.py) lie among those of the kernels, by name.
KEPT: dict[str, Callable[[LearnerArrays], NDArray[Any]]] = {
    "agents_planned_visits": lambda arrays: arrays.agents.planned_visits,
    "environment_planned_visits": lambda arrays: arrays.environment.planned_visits,
    "bounds": lambda arrays: arrays.greedy.values,
    "agents_recent": lambda arrays: arrays.agents.counts.forgetting.recent,
    "environment_recent": lambda arrays: arrays.environment.counts.forgetting.recent,
    "costs_recent_row": lambda arrays: arrays.costs.recent_row,
    "costs_recent_part": lambda arrays: arrays.costs.recent_part,
    "taken": lambda arrays: arrays.limits.taken,
    "prices": lambda arrays: arrays.limits.prices.view(np.float64),
    "record": lambda arrays: arrays.baseline.record.view(np.float64),
}


def put_state(arrays: LearnerArrays, task: Task, told: Settings, state: LearnerState) -> None:
    """Copy into the arrays of a learner what its state holds beside counts and plan; what is empty is as at the start."""
    if told.planning == "greedy":
        has_bounds = state.bounds.size and not np.isnan(state.bounds.flat[0])
        put_bounds(arrays.greedy, task, state.bounds.copy() if has_bounds else optimistic_start(arrays, task))
    for name, place in KEPT.items():
        kept = getattr(state, name)
        if kept.size and name != "bounds":
            place(arrays)[...] = kept


def get_state(arrays: LearnerArrays) -> dict[str, NDArray[Any]]:
    """Return what a learner keeps beside counts and plan: fields of `LearnerState`."""
    return {name: place(arrays).copy() for name, place in KEPT.items()}


def put_bounds(greedy: GreedyBounds, task: Task, values: Floats) -> None:
    """Set the values of greedy planning, (L + 1, S, D), and what the kernels keep beside them: what it costs to arrive, and the
    minima of that over states.
    """
    greedy.values, greedy.arrival = values, arrivals(task, values)
    greedy.least = greedy.arrival.min(axis=1)
    greedy.least_at = greedy.arrival.argmin(axis=1).astype(np.int64)


def arrivals(task: Task, values: Floats) -> Floats:
    """Return what it costs to arrive, with all that comes after, from values, (..., S, D); the same array where that is equal."""
    if task.enter_cost is None and task.discount is None:
        return values
    enter = 0.0 if task.enter_cost is None else task.enter_cost[:, None]
    result: Floats = enter + task.factor * values
    return result


def optimistic_start(arrays: LearnerArrays, task: Task) -> Floats:
    """Return the first values of greedy planning, (L + 1, S, D): the least cost if whatever is not known were as favourable as
    possible.
    """
    for layer in (arrays.environment,) if arrays.flat else (arrays.agents, arrays.environment):
        layer.belief.width[layer.case < layer.counts.counted] = 2.0
    place = arrays.costs.counts.place
    if place.size:  # costs that are not known are at their least
        arrays.model.problem.env_cost[place >= 0] = arrays.costs.least[place[place >= 0]]
    policy, bounds = empty_plan(task)
    run_pass(arrays.model, CHOOSE, policy, bounds, 0)
    return bounds


def make_plan(arrays: LearnerArrays, policy: Policy, value: Floats, seed: int) -> None:
    """Make the plan of an episode from all that was counted, with as many threads as pay off.

    With the kernel `finish_plan`, which takes note of it, this is equal to the kernel `plan_step`.

    policy: (L, S, D), written. value: (L + 1, S, D), written; without horizon (2, S, D), of which value[0] is where the search for
    the fixed point begins. seed: of ties and samples.
    """
    scratch = pass_scratch(arrays.model, policy.shape)
    kernels.prepare_plan(arrays, policy, value, seed, scratch)
    if not arrays.model.problem.left.size:
        n_states, n_agents = policy.shape[1:]
        thread = thread_scratch(n_states, arrays.environment.belief.row.shape[1], n_agents)
        kernels.plan_endless(arrays, policy, value, seed, scratch, thread)
        return
    share_pass(
        arrays.model,
        len(policy),
        scratch,
        lambda thread, phase: kernels.plan_pass(arrays, policy, value, seed, scratch, thread, phase),
    )


# ------------------------------------------------------------------------------------------------- layers


def agents_layer(task: Task, told: Settings, tally: Tally) -> LayerArrays:
    """Make the layer of the agents.

    Its belief uses the table of counts itself as centre; or a table of its own with all actions in every row, if outcomes are
    relabelled by a structure or rows are sampled (`has_own_agents_table`).
    """
    counts, apart = tally.agents, has_own_agents_table(told)
    whole = all_agents(task, told.structure)
    row, behind = (whole.row, len(whole.case)) if apart else (counts.place.copy(), counts.counted)
    for number, policy in told.known_agents.items():
        places = slice(task.first_slot[number], task.first_slot[number] + task.n_slots[number])
        row[places] = behind + np.arange(len(policy) * task.n_states).reshape(-1, task.n_states)
        behind += len(policy) * task.n_states
    case = np.concatenate([whole.case if apart else np.arange(counts.counted), np.arange(counts.counted, counts.seen.n_rows)])
    case = only_used(case, row, counts.seen.n_rows)
    table = full_agents_table(task, whole.to, counts.seen.matrix().toarray()[counts.counted :]) if apart else counts.seen
    belief = new_belief(table, row, closed=apart)
    if told.flat:
        belief = certain_belief(task).arrays
    kind, doubling = RADII[told.agents_radius or told.radius], told.replan == "doubling"
    visits = np.zeros(counts.counted if doubling else 0)
    outcomes = np.full(counts.counted if kind in (RADII["kl"], RADII["calibrated"]) else 0, float(task.n_actions))
    users = np.repeat(np.bincount(task.table, minlength=len(task.n_slots)), task.n_slots)[:, None]  # agents who act by each slot
    extra = more_functions(kind, counts.place, users, counts.counted)
    more = {"extra": extra, "outcomes": outcomes, "unseen": 0.0, "part": AGENTS_PART}
    more["expected"] = Table.empty(0, task.n_actions)
    return LayerArrays(counts=counts, kind=kind, belief=belief, case=case, planned_visits=visits, **more)


def environment_layer(task: Task, told: Settings, tally: Tally) -> LayerArrays:
    """Make the layer of the environment.

    Its belief uses the table of counts itself as centre; or a table of its own, with all declared outcomes in every row if there is
    a structure, or with room for sampled rows if there is a prior.
    """
    counts, outcomes = tally.environment, told.outcomes
    extra = more_functions(RADII[told.radius], counts.place, 1, counts.counted)
    table, row, case = counts.seen, counts.place.copy(), np.arange(counts.seen.n_rows)
    if told.known_environment is not None:
        row = counts.counted + true_environment(told.known_environment).row
    elif outcomes is not None:
        table, row, case = full_environment_table(task, outcomes), outcomes.row.copy(), outcomes.case
        extra = fewer_outcomes(outcomes, told.radius, extra)
    elif told.prior:
        places = len(table.column) + min(sticks_for(told.prior), task.n_states) * table.n_rows
        table = room_for_samples(table.n_rows, places, task.n_states)
    belief = new_belief(table, row, closed=told.known_environment is None and outcomes is not None)
    visits = np.zeros(counts.counted if told.replan == "doubling" else 0)
    case = only_used(case, row, counts.seen.n_rows)
    possible = np.full(counts.counted, float(task.n_states)) if outcomes is None else outcomes.n_outcomes.astype(np.float64)
    known = {"extra": extra, "outcomes": possible if told.radius in ("kl", "calibrated") else np.empty(0)}
    more: dict[str, Any] = {**known, "planned_visits": visits, "unseen": UNSEEN, "part": ENVIRONMENT_PART}
    more["expected"] = Table.empty(0, task.n_states)
    return LayerArrays(counts=counts, kind=RADII[told.radius], belief=belief, case=case, **more)


def refresh_layer(layer: LayerArrays, told: Settings, n_states: int) -> None:
    """Bring the belief of the environment up to date after its table of counts was replaced or became longer."""
    belief, seen = layer.belief, layer.counts.seen
    if told.known_environment is None and told.outcomes is None:
        if not told.prior:
            if belief.table is not seen:
                belief.table = seen
        else:
            places = len(seen.column) + len(layer.expected.column) + min(sticks_for(told.prior), n_states) * seen.n_rows
            if len(belief.table.column) < places:
                belief.table = room_for_samples(seen.n_rows, places, n_states)


def new_belief(table: Table, row: Ints, *, closed: bool) -> BeliefArrays:
    """Make a belief of width 0 with a table as its centre. row: the row of each place. closed: see `Belief`."""
    return BeliefArrays(table=table, width=np.zeros(table.n_rows), row=row, closed=int(closed))


def has_own_agents_table(told: Settings) -> bool:
    """Return whether the agents' belief has a table of its own beside the counts: for samples, and for relabelled outcomes."""
    declared = {} if told.structure is None else told.structure.agents
    return told.prior > 0 or any(isinstance(seen, Outcomes) for seen in declared.values())


def full_agents_table(task: Task, to: Ints, known: Floats) -> Table:
    """Make a table with all actions in every row.

    to: (rows, A) the action that each outcome means. known: (n, A) probabilities of known rows, which are appended.
    """
    n, n_actions = len(to) + len(known), task.n_actions
    weight = np.concatenate([np.ones(to.shape), known])
    column = np.concatenate([to, np.tile(np.arange(n_actions), (len(known), 1))]).astype(np.int32).ravel()
    size = np.full(n, n_actions, dtype=np.int64)
    return Table.from_arrays(n_actions, np.arange(n) * n_actions, size, column, weight.ravel(), weight.sum(axis=1))


def full_environment_table(task: Task, outcomes: Outcomes) -> Table:
    """Make a table with all declared outcomes of a structure in every row."""
    possible = outcomes.to >= 0
    size = possible.sum(axis=1).astype(np.int64)
    column = outcomes.to[possible].astype(np.int32)
    return Table.from_arrays(task.n_states, np.cumsum(size) - size, size, column, np.ones(column.size), size.astype(np.float64))


def room_for_samples(n_rows: int, places: int, n_states: int) -> Table:
    """Make an empty table into which rows are sampled. places: how many outcomes it can hold in total."""
    rows = (np.zeros(n_rows, dtype=np.int64), np.zeros(n_rows, dtype=np.int64))
    return Table.from_arrays(n_states, *rows, np.zeros(places, dtype=np.int32), np.zeros(places), np.ones(n_rows))


def only_used(case: Ints, row: Ints, beyond: int) -> Ints:
    """Return the counted row behind each row of a belief, (rows,), with `beyond` where a row serves no place.

    Rows serve no place if an agent or the environment is known instead. beyond: any number above all counted rows, which kernels
    take for a known row.
    """
    used = np.zeros(len(case), dtype=np.bool_)
    used[row] = True
    return np.where(used, case, beyond)


def fewer_outcomes(outcomes: Outcomes, radius: str | None, none: Floats) -> Floats:
    """Return the (negative) amounts that are added to the constant of each row's radius, since some rows have fewer outcomes than
    others.

    none: zeros, returned for radii whose constant does not depend on the row. The formulas are in planning/belief.py.
    """
    if radius not in ("printed", "bernstein"):
        return none
    n, most = outcomes.n_outcomes, outcomes.to.shape[1]
    less: Floats = 2 * (n - most) * log(2.0) if radius == "printed" else np.log(n / most)
    return less


def more_functions(kind: int, place: Ints, users: Ints | int, counted: int) -> Floats:
    """Return the amounts that are added to the constant of each row's radius, (counted,), because the set "kl-value" must be right
    about more functions of a row's outcomes; zeros for other sets.

    One function for each place that points to the row, and for each agent who acts there. place: the row of each place. users: how
    many agents act by it.
    """
    if kind != RADII["kl-value"]:
        return np.zeros(counted)
    functions = np.bincount(place.ravel(), weights=np.broadcast_to(users, place.shape).ravel(), minlength=counted)[:counted]
    result: Floats = np.log(np.maximum(functions, 1.0))
    return result


def certain_belief(task: Task) -> Belief:
    """Return the agents of the flattened problem as a belief of width 0: each slot takes its own action with probability 1."""
    slots = int(task.n_slots.sum())
    tables = np.concatenate([policy.reshape(-1, slots) for policy in certain_policies(task)])
    return Belief.of(tables, 0.0, (slots, task.n_states))


# ------------------------------------------------------------------------------------------------- numbers


def sticks_for(prior: float) -> int:
    """Return how many sticks are broken for a row (see `sample_layer`), so that nearly always less than a thousandth of its mass is
    left.

    The number that is needed is about Poisson(7 prior).
    """
    return ceil(7 * prior + 10 * sqrt(prior)) + 12


def replan_code(told: Settings) -> int:
    """Return the rule when to plan again as the kernels know it: a number of episodes, DOUBLING or NEVER."""
    if told.policy is not None:
        return kernels.NEVER
    if isinstance(told.replan, str):
        return kernels.DOUBLING if told.replan == "doubling" else 1
    assert told.replan is not None
    return told.replan


def radius_sizes(task: Task, told: Settings) -> RadiusSizes:
    """Return the sizes on which the constants of the radii depend.

    As in the paper all agents count, also those that are known, these with one slot each whatever they vary with. If it is declared
    which states are alike to an agent, only agents that are learned count, with their cases.
    """
    _, (rows, outcomes), (cost_rows, _) = shapes(task, flat=told.flat, structure=told.structure)
    slots = [1 if d in told.known_agents and not told.flat else int(n) for d, n in enumerate(task.n_slots)]
    cases = cases_of(task, told.structure)
    if told.structure is not None and told.structure.agents:
        slots = [0 if d in told.known_agents else n for d, n in enumerate(slots)]
    agent_rows = sum(n * seen for n, seen in zip(slots, cases, strict=True))
    learns = cost_rows > 0 and told.radius is not None
    # UCRL2's intervals around mean costs are those of its own paper; else delta is split, see planning/belief.py
    tables, costs = (told.delta, told.delta) if told.flat or not learns else (told.delta * 2 / 3, told.delta / 3)
    return RadiusSizes(
        agents_kind=RADII[told.agents_radius or told.radius],
        environment_kind=RADII[told.radius],
        delta=tables,
        horizon=task.plan_steps,
        outcomes=outcomes,
        n_actions=task.n_actions,
        agent_rows=agent_rows,
        environment_rows=rows,
        cost_kind=RADII["printed" if told.flat else "bernstein"] if learns else RADII[None],
        cost_rows=agent_rows if told.flat else cost_rows,
        cost_delta=costs,
        agent_values=task.plan_steps,
        state_values=max(1, task.plan_steps - 1) * task.n_agents,
    )


def radii_ahead(scale: Scale, sizes: RadiusSizes, episode: int, environment_episodes: int, n: int) -> dict[str, Floats]:
    """Return the constants and scales behind the radii of n episodes from `episode` on: (n,) arrays by the names of `Radii`.

    environment_episodes: how many episodes were counted into the environment before. If the scale of a later episode fails, the
    arrays end before it; they hold at least one episode.
    """
    scales = {f"{layer}_scale": scale.ahead(layer, episode, n) for layer in ("agents", "environment")}
    n = min(len(part) for part in scales.values())
    names = ("agents", "environment", "cost", "steps", "common")
    constants = Constants(**{name: np.empty(n) for name in names})
    constants_ahead(sizes, episode, environment_episodes, constants)
    found = {name: getattr(constants, name) for name in names}
    return {**found, **{name: part[:n] for name, part in scales.items()}}


def put_radii(radii: Radii, scale: Scale, sizes: RadiusSizes, episode: int, environment_episodes: int) -> None:
    """Write the constants and scales of one episode into `radii`. The arguments are those of `radii_ahead`."""
    for name, numbers in radii_ahead(scale, sizes, episode, environment_episodes, 1).items():
        setattr(radii, name, float(numbers[0]))
