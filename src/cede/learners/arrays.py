"""Makes the arrays that the kernels need of a learner, from its task, its settings and what it has counted.

    task + settings + counts -> LearnerArrays: two layers (counts and belief of each), the problem to plan for, limits and baseline

In a table of counts the first `counted` rows are counted; rows of what is known, a policy or an environment, come after them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cede._base.arrays import Floats, Ints, Policy
from cede.beliefs.belief import Belief
from cede.beliefs.constants import Radii, RadiusSizes
from cede.beliefs.costs import BERNSTEIN_INTERVALS, NO_INTERVALS, UCRL2_INTERVALS
from cede.beliefs.layer import (
    AGENTS_LAYER,
    ENVIRONMENT_LAYER,
    LayerArrays,
    full_agents_table,
    full_environment_table,
    new_belief,
    new_layer,
    only_used,
)
from cede.beliefs.posterior import room_for_samples, sticks_for
from cede.beliefs.registry import code_of
from cede.beliefs.truth import true_environment
from cede.learners import compiled as kernels
from cede.learners.baseline import baseline_arrays
from cede.learners.compiled import GreedyBounds, LearnerArrays
from cede.learners.limits import ends_of_step_costs, limits_arrays
from cede.learners.settings import Settings
from cede.learners.state import LearnerState, Sizes
from cede.planning.backup import CHOOSE
from cede.planning.fixed_point import Endless, find_reached, new_endless
from cede.planning.flatten import certain_policies
from cede.planning.model import ModelArrays
from cede.planning.passes import empty_plan, model_of, pass_scratch, run_pass, share_pass, thread_scratch
from cede.problem.arrays import problem_of, worth_of
from cede.problem.structure import Outcomes
from cede.problem.takeover import next_agent_towards
from cede.problem.task import Task
from cede.rows.cost_sums import CostLayer
from cede.rows.fading import forgetting_arrays
from cede.rows.places import COSTS, ENVIRONMENT, agent_rows, all_agents, cases_of, layer_shapes
from cede.rows.working import SharedCounts, Working

ACCURACY = 0.1  # of plans without horizon: this part of the range of values, over the square root of the steps seen


def load_counts(task: Task, settings: Settings, state: LearnerState, shared: SharedCounts | None) -> Working:
    """Make the working counts of a learner from its state. Tables that it knows are appended after the counted rows.

    shared: the counts of the fleet's environment, if the learner belongs to one; None: it counts the environment by itself.
    """
    agents = [(n, settings.forget.get(name)) for name, n in zip(task.tables, agent_rows(task, settings.structure), strict=True)]
    sizes = Sizes(task, settings)
    forgetting = (
        forgetting_arrays(agents, task.plan_steps, state.agents_recent.copy()),
        forgetting_arrays([(sizes.layers[1][0], settings.forget_environment)], task.plan_steps, state.environment_recent.copy()),
    )
    known: dict[str, sp.csr_array] = {}
    if settings.known_agents:
        policies = [policy.reshape(-1, task.n_actions) for policy in settings.known_agents.values()]
        known["known_agents"] = sp.csr_array(np.concatenate(policies))
    if settings.known_environment is not None:
        known["known_environment"] = true_environment(settings.known_environment).centre.matrix()
    counting: dict[str, Any] = {"flat": settings.flat, "structure": settings.structure, "forgetting": forgetting}
    return Working(task, state.counts, shared=shared, **counting, **known)


def new_arrays(task: Task, settings: Settings, working: Working) -> LearnerArrays:
    """Make the arrays of a learner for the kernels. They read and write the tables of the working counts in place."""
    agents, environment = agents_layer(task, settings, working), environment_layer(task, settings, working)
    (least, most), enter = task.extremes_of_env_cost, task.extremes_of_enter_cost
    costs, sizes = working.costs, radius_sizes(task, settings)
    costs.kind = sizes.cost_kind
    problem, limits = problem_of(task, first_env_cost(task, settings, costs)), limits_arrays(task, settings.limits)
    if costs.enter_place.size:
        problem.enter_cost = np.where(np.isnan(task.enter_cost), enter[0], task.enter_cost)  # the planner reads what is believed
    if settings.limits is not None:
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
        auditions=auditions_of(task) if settings.trial_episodes else np.empty((0, 0), dtype=np.int64),
        flat=int(settings.flat),
        prior=float(settings.prior),
        sticks=sticks_for(settings.prior),
        least_cost=least,
        spread=most - least,
        least_enter=enter[0],
        most_enter=enter[1],
        replan=replan_code(settings),
        radii=Radii(),
        sizes=sizes,
        endless=endless_of(task, settings),
        greedy=GreedyBounds(**bounds),
        limits=limits,
        baseline=baseline_arrays(task, settings.baseline, settings.delta, model),
    )
    if task.horizon is None:
        low, high = ends_of_step_costs(arrays, limits.control_cost)
        arrays.accuracy = ACCURACY * (high - low or abs(high) or 1.0) / (1.0 if task.discount is None else 1.0 - task.discount)
    return arrays


def endless_of(task: Task, settings: Settings) -> Endless:
    """Make the arrays of a plan without horizon. Where the environment is known, averages are about what its start can lead to."""
    endless, known = new_endless(task), settings.known_environment
    if known is not None and task.horizon is None and task.discount is None:
        anything = np.ones((int(task.n_slots.sum()), task.n_states, task.n_actions)) / task.n_actions
        for number, policy in settings.known_agents.items():
            anything[task.first_slot[number] : task.first_slot[number] + task.n_slots[number]] = policy
        agents = Belief.of(anything.reshape(-1, task.n_actions), 0.0, anything.shape[:2])
        find_reached(model_of(task, agents, true_environment(known)), known.start, task.start_agent, endless.reached)
    return endless


def auditions_of(task: Task) -> Ints:
    """Return who gets control next, given who had it, if a member is to have it, (members, D); of those whom control can reach."""
    able = [member for member in range(len(task.members)) if task.can_reach(member)]
    return np.array([next_agent_towards(task.can_hand_over, member) for member in able], dtype=np.int64)


def first_env_cost(task: Task, settings: Settings, costs: CostLayer) -> Floats:
    """Return the array of costs that a learner plans with: what the task says; where costs are learned, one of its own, into which
    what is believed is written.
    """
    known = task.env_cost
    if settings.flat:  # the actions are the slots: where actions differ in cost, theirs is learned
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


def put_state(arrays: LearnerArrays, task: Task, settings: Settings, state: LearnerState) -> None:
    """Copy into the arrays of a learner what its state holds beside counts and plan; what is empty is as at the start."""
    if settings.planning == "greedy":
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


def agents_layer(task: Task, settings: Settings, working: Working) -> LayerArrays:
    """Make the layer of the agents.

    Its belief uses the table of counts itself as centre; or a table of its own with all actions in every row, if outcomes are
    relabelled by a structure or rows are sampled (`has_own_agents_table`).
    """
    counts, apart = working.agents, has_own_agents_table(settings)
    whole = all_agents(task, settings.structure)
    row, behind = (whole.row, len(whole.case)) if apart else (counts.place.copy(), counts.counted)
    for number, policy in settings.known_agents.items():
        places = slice(task.first_slot[number], task.first_slot[number] + task.n_slots[number])
        row[places] = behind + np.arange(len(policy) * task.n_states).reshape(-1, task.n_states)
        behind += len(policy) * task.n_states
    case = np.concatenate([whole.case if apart else np.arange(counts.counted), np.arange(counts.counted, counts.seen.n_rows)])
    case = only_used(case, row, counts.seen.n_rows)
    table = full_agents_table(task, whole.to, counts.seen.matrix().toarray()[counts.counted :]) if apart else counts.seen
    belief = new_belief(table, row, closed=apart)
    if settings.flat:
        belief = certain_belief(task).arrays
    outcomes = np.full(counts.counted, float(task.n_actions))
    users = np.repeat(np.bincount(task.table, minlength=len(task.n_slots)), task.n_slots)[:, None]  # agents who act by each slot
    name, doubling = settings.agents_radius or settings.radius, settings.replan == "doubling"
    return new_layer(AGENTS_LAYER, name, counts, belief, case, outcomes, users, doubling=doubling)


def environment_layer(task: Task, settings: Settings, working: Working) -> LayerArrays:
    """Make the layer of the environment.

    Its belief uses the table of counts itself as centre; or a table of its own, with all declared outcomes in every row if there is
    a structure, or with room for sampled rows if there is a prior.
    """
    counts, outcomes = working.environment, settings.outcomes
    table, row, case = counts.seen, counts.place.copy(), np.arange(counts.seen.n_rows)
    if settings.known_environment is not None:
        row = counts.counted + true_environment(settings.known_environment).row
    elif outcomes is not None:
        table, row, case = full_environment_table(task, outcomes), outcomes.row.copy(), outcomes.case
    elif settings.prior:
        places = len(table.column) + min(sticks_for(settings.prior), task.n_states) * table.n_rows
        table = room_for_samples(table.n_rows, places, task.n_states)
    belief = new_belief(table, row, closed=settings.known_environment is None and outcomes is not None)
    case = only_used(case, row, counts.seen.n_rows)
    possible = np.full(counts.counted, float(task.n_states)) if outcomes is None else outcomes.n_outcomes.astype(np.float64)
    return new_layer(ENVIRONMENT_LAYER, settings.radius, counts, belief, case, possible, 1, doubling=settings.replan == "doubling")


def refresh_layer(layer: LayerArrays, settings: Settings, n_states: int) -> None:
    """Bring the belief of the environment up to date after its table of counts was replaced or became longer."""
    belief, seen = layer.belief, layer.counts.seen
    if settings.known_environment is None and settings.outcomes is None:
        if not settings.prior:
            if belief.table is not seen:
                belief.table = seen
        else:
            places = len(seen.column) + len(layer.expected.column) + min(sticks_for(settings.prior), n_states) * seen.n_rows
            if len(belief.table.column) < places:
                belief.table = room_for_samples(seen.n_rows, places, n_states)


def has_own_agents_table(settings: Settings) -> bool:
    """Return whether the agents' belief has a table of its own beside the counts: for samples, and for relabelled outcomes."""
    declared = {} if settings.structure is None else settings.structure.agents
    return settings.prior > 0 or any(isinstance(seen, Outcomes) for seen in declared.values())


def certain_belief(task: Task) -> Belief:
    """Return the agents of the flattened problem as a belief of width 0: each slot takes its own action with probability 1."""
    slots = int(task.n_slots.sum())
    tables = np.concatenate([policy.reshape(-1, slots) for policy in certain_policies(task)])
    return Belief.of(tables, 0.0, (slots, task.n_states))


# ------------------------------------------------------------------------------------------------- numbers


def replan_code(settings: Settings) -> int:
    """Return the rule when to plan again as the kernels know it: a number of episodes, DOUBLING or NEVER."""
    if settings.policy is not None:
        return kernels.NEVER
    if isinstance(settings.replan, str):
        return kernels.DOUBLING if settings.replan == "doubling" else 1
    assert settings.replan is not None
    return settings.replan


def radius_sizes(task: Task, settings: Settings) -> RadiusSizes:
    """Return the sizes on which the constants of the radii depend.

    As in the paper all agents count, also those that are known, these with one slot each whatever they vary with. If it is declared
    which states are alike to an agent, only agents that are learned count, with their cases.
    """
    layers = layer_shapes(task, flat=settings.flat, structure=settings.structure)
    (rows, outcomes), (cost_rows, _) = layers[ENVIRONMENT], layers[COSTS]
    slots = [1 if d in settings.known_agents and not settings.flat else int(n) for d, n in enumerate(task.n_slots)]
    cases = cases_of(task, settings.structure)
    if settings.structure is not None and settings.structure.agents:
        slots = [0 if d in settings.known_agents else n for d, n in enumerate(slots)]
    rows_of_agents = sum(n * seen for n, seen in zip(slots, cases, strict=True))
    learns = cost_rows > 0 and settings.radius is not None
    # UCRL2's intervals around mean costs are those of its own paper; else delta is split, see beliefs/costs.py
    tables, costs = (
        (settings.delta, settings.delta) if settings.flat or not learns else (settings.delta * 2 / 3, settings.delta / 3)
    )
    return RadiusSizes(
        agents_kind=code_of(settings.agents_radius or settings.radius),
        environment_kind=code_of(settings.radius),
        delta=tables,
        horizon=task.plan_steps,
        outcomes=outcomes,
        n_actions=task.n_actions,
        agent_rows=rows_of_agents,
        environment_rows=rows,
        cost_kind=(UCRL2_INTERVALS if settings.flat else BERNSTEIN_INTERVALS) if learns else NO_INTERVALS,
        cost_rows=rows_of_agents if settings.flat else cost_rows,
        cost_delta=costs,
        agent_values=task.plan_steps,
        state_values=max(1, task.plan_steps - 1) * task.n_agents,
    )
