"""Makes the arrays of a learner for the kernels, from its task, settings and counts.

    task + settings + counts -> LearnerArrays: two layers (counts and belief of each), the problem to plan for, limits and baseline

In a table of counts the first `counted` rows are counted; rows of a known policy or environment follow.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base.arrays import Floats
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
from cede.learners.compiled import GreedyBounds, LearnerArrays
from cede.learners.limits import limits_arrays
from cede.learners.proof import RECORD, BaselineArrays
from cede.learners.settings import Settings
from cede.learners.state import LearnerState, Sizes
from cede.planning.fixed_point import Endless, find_reached, new_endless
from cede.planning.flatten import certain_policies
from cede.planning.model import ModelArrays
from cede.problem.arrays import problem_of, worth_of
from cede.problem.structure import Outcomes
from cede.problem.task import Task
from cede.rows.cost_sums import CostLayer
from cede.rows.fading import forgetting_arrays
from cede.rows.places import COSTS, ENVIRONMENT
from cede.rows.working import SharedCounts, Working

ACCURACY = 0.1  # of plans without horizon: this fraction of the range of values, over the square root of the number of steps


def load_counts(sizes: Sizes, state: LearnerState, shared: SharedCounts | None) -> Working:
    """Make the working counts of a learner from its state. Known tables are appended after the counted rows.

    shared: the environment counts of the fleet, if the learner belongs to one; None: the learner has its own.
    """
    task, settings, places = sizes.task, sizes.settings, sizes.places
    rules = settings.forgetting
    agents = [(n, rules.agents.get(name)) for name, n in zip(task.tables, places.agent_rows, strict=True)]
    environment = [(places.shapes[ENVIRONMENT][0], rules.environment)]
    forgetting = (
        forgetting_arrays(agents, task.plan_steps, state.agents_recent.copy()),
        forgetting_arrays(environment, task.plan_steps, state.environment_recent.copy()),
    )
    known: dict[str, sp.csr_array] = {}
    if settings.knowledge.agents:
        policies = [policy.reshape(-1, task.n_actions) for policy in settings.knowledge.agents.values()]
        known["known_agents"] = sp.csr_array(np.concatenate(policies))
    if settings.knowledge.environment is not None:
        known["known_environment"] = true_environment(settings.knowledge.environment).centre.matrix()
    return Working(places, state.counts, shared=shared, forgetting=forgetting, **known)


def new_arrays(sizes: Sizes, working: Working) -> LearnerArrays:
    """Make the arrays of a learner for the kernels, which read and write the tables of the working counts in place."""
    task, settings = sizes.task, sizes.settings
    agents, environment = agents_layer(task, settings, working), environment_layer(task, settings, working)
    costs, radii = working.costs, radius_sizes(sizes)
    costs.kind = radii.cost_kind
    problem = problem_of(task, first_env_cost(task, settings, costs))
    for name in ("enter_cost", "control_cost", "switch_cost") if costs.least.size else ():  # the planner reads believed costs
        setattr(problem, name, getattr(problem, name).copy())
    limits = limits_arrays(task, settings.limits, problem.control_cost)
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
        **trial_arrays(task, settings),
        flat=int(settings.flat),
        prior=float(settings.prior),
        sticks=sticks_for(settings.prior),
        least_step=task.ends_of_step_cost[0],
        most_step=task.ends_of_step_cost[1],
        replan=replan_code(settings),
        radii=Radii(),
        sizes=radii,
        endless=endless_of(task, settings),
        greedy=GreedyBounds(**bounds),
        limits=limits,
        baseline=baseline_arrays(task, settings, model, limits.control_cost),
    )
    if task.horizon is None:
        low, high = task.ends_of_step_cost
        arrays.accuracy = ACCURACY * (high - low or abs(high) or 1.0) / (1.0 if task.discount is None else 1.0 - task.discount)
    return arrays


def endless_of(task: Task, settings: Settings) -> Endless:
    """Make the arrays of a plan without horizon. In a known environment, averages are over states reachable from its start."""
    endless, known = new_endless(task), settings.knowledge.environment
    if known is not None and task.horizon is None and task.discount is None:
        anything = np.ones((int(task.layout.n_slots.sum()), task.n_states, task.n_actions)) / task.n_actions
        for number, policy in settings.knowledge.agents.items():
            anything[task.layout.slots(number)] = policy
        agents = Belief.of(anything.reshape(-1, task.n_actions), 0.0, anything.shape[:2])
        model = ModelArrays(agents=agents.arrays, environment=true_environment(known).arrays, problem=problem_of(task))
        find_reached(model, known.start, task.start_agent, endless.reached)
    return endless


def trial_arrays(task: Task, settings: Settings) -> dict[str, Any]:
    """Return the fields of `LearnerArrays` about trial episodes; kernels have none where a trial needs approval."""
    trials = settings.trials
    able, since = ([], np.empty(0, dtype=np.int64)) if trials is None or trials.approval else trials.of_members(task)
    inside = np.zeros(task.n_states if able and trials is not None and trials.states else 0, dtype=np.bool_)
    inside[list(trials.states) if trials is not None and inside.size else []] = True
    return {
        "trials": np.stack([task.ways_to(member) for member in able]) if able else np.empty((0, 0, 0), dtype=np.int64),
        "since": since,
        "tried": np.array(able, dtype=np.int64),
        "trial_steps": task.plan_steps if trials is None or trials.steps is None else trials.steps,
        "trial_in": inside,
        "spent": np.zeros(2 if trials is not None else 0),
    }


def first_env_cost(task: Task, settings: Settings, costs: CostLayer) -> Floats:
    """Return the array of environment costs for planning: that of the task; if costs are learned, a copy for believed costs."""
    known = task.env_cost
    if settings.flat:  # the actions are the slots: where actions differ in cost, theirs is learned
        known = np.repeat(task.extremes_of_env_cost[0][:, None], int(task.layout.n_slots.sum()), axis=1)
    return known if not costs.least.size else np.where(np.isnan(known), 0.0, known)


def baseline_arrays(task: Task, settings: Settings, model: ModelArrays, control_cost: Floats) -> BaselineArrays:
    """Return the baseline in the form that kernels read; empty arrays without one.

    model: the model that the learner plans with. control_cost: (S or 1, D), without prices of limits.
    """
    baseline, plain = settings.baseline, model
    if baseline is None:
        nothing = {"policy": np.empty((0, 0, 0), dtype=np.int16), "value": np.empty((0, 0, 0)), "record": np.empty(0, dtype=RECORD)}
        return BaselineArrays(start=np.empty(0), plain=model, opposite=model, **nothing)
    if settings.limits is not None:
        problem = problem_of(task, model.problem.env_cost)  # the arrays into which believed costs are written
        problem.enter_cost, problem.control_cost = model.problem.enter_cost, control_cost
        problem.switch_cost = model.problem.switch_cost
        plain = ModelArrays(agents=model.agents, environment=model.environment, problem=problem)
    opposite = problem_of(task)
    opposite.switch_cost = np.where(np.isinf(opposite.switch_cost), np.inf, -opposite.switch_cost)  # impossible: still infinite
    for name in ("env_cost", "control_cost", "enter_cost"):
        setattr(opposite, name, -getattr(opposite, name))
    return BaselineArrays(
        policy=baseline.policy,
        alpha=baseline.alpha,
        delta=settings.delta,
        start=np.empty(0) if baseline.start is None else baseline.start,
        plain=plain,
        opposite=ModelArrays(agents=model.agents, environment=model.environment, problem=opposite),
        value=np.empty((task.plan_steps + 1, task.n_states, task.n_agents)),
        record=np.zeros(1, dtype=RECORD),
    )


# ------------------------------------------------------------------------------------------------- layers


def agents_layer(task: Task, settings: Settings, working: Working) -> LayerArrays:
    """Make the layer of the agents.

    The centre of its belief is the table of counts itself; or a separate table with all actions in every row, if a structure
    relabels outcomes or rows are sampled (`has_own_agents_table`).
    """
    counts, apart = working.agents, has_own_agents_table(settings)
    whole = working.places.agents
    row, behind = (whole.row, len(whole.case)) if apart else (counts.place.copy(), counts.counted)
    for number, policy in settings.knowledge.agents.items():
        places = task.layout.slots(number)
        row[places] = behind + np.arange(len(policy) * task.n_states).reshape(-1, task.n_states)
        behind += len(policy) * task.n_states
    case = np.concatenate([whole.case if apart else np.arange(counts.counted), np.arange(counts.counted, counts.seen.n_rows)])
    case = only_used(case, row, counts.seen.n_rows)
    table = full_agents_table(task, whole.to, counts.seen.matrix().toarray()[counts.counted :]) if apart else counts.seen
    belief = new_belief(table, row, closed=apart)
    if settings.flat:
        belief = certain_belief(task).arrays
    outcomes = np.full(counts.counted, float(task.n_actions))
    n_slots = task.layout.n_slots
    users = np.repeat(np.bincount(task.table, minlength=len(n_slots)), n_slots)[:, None]  # agents who act by each slot
    kind = None if settings.belief is None else settings.belief.of_layers[0]
    return new_layer(AGENTS_LAYER, kind, counts, belief, case, outcomes, users, doubling=settings.replan == "doubling")


def environment_layer(task: Task, settings: Settings, working: Working) -> LayerArrays:
    """Make the layer of the environment.

    The centre of its belief is the table of counts itself; or a separate table: with all declared outcomes in every row if there is
    a structure, or with room for sampled rows if there is a prior.
    """
    counts, outcomes = working.environment, settings.outcomes
    table, row, case = counts.seen, counts.place.copy(), np.arange(counts.seen.n_rows)
    if settings.knowledge.environment is not None:
        row = counts.counted + true_environment(settings.knowledge.environment).row
    elif outcomes is not None:
        table, row, case = full_environment_table(task, outcomes), outcomes.row.copy(), outcomes.case
    elif settings.prior:
        places = len(table.column) + min(sticks_for(settings.prior), task.n_states) * table.n_rows
        table = room_for_samples(table.n_rows, places, task.n_states)
    belief = new_belief(table, row, closed=settings.knowledge.environment is None and outcomes is not None)
    case = only_used(case, row, counts.seen.n_rows)
    possible = np.full(counts.counted, float(task.n_states)) if outcomes is None else outcomes.n_outcomes.astype(np.float64)
    kind = None if settings.belief is None else settings.belief.environment
    return new_layer(ENVIRONMENT_LAYER, kind, counts, belief, case, possible, 1, doubling=settings.replan == "doubling")


def refresh_layer(layer: LayerArrays, settings: Settings, n_states: int) -> None:
    """Update the belief of the environment after its table of counts was replaced or became longer."""
    belief, seen = layer.belief, layer.counts.seen
    if settings.knowledge.environment is None and settings.outcomes is None:
        if not settings.prior:
            if belief.table is not seen:
                belief.table = seen
        else:
            places = len(seen.column) + len(layer.expected.column) + min(sticks_for(settings.prior), n_states) * seen.n_rows
            if len(belief.table.column) < places:
                belief.table = room_for_samples(seen.n_rows, places, n_states)


def has_own_agents_table(settings: Settings) -> bool:
    """Return whether the agents' belief has a table separate from the counts: for samples, and for relabelled outcomes."""
    declared = {} if settings.structure is None else settings.structure.agents
    return settings.prior > 0 or any(isinstance(seen, Outcomes) for seen in declared.values())


def certain_belief(task: Task) -> Belief:
    """Return the agents of the flattened problem as a belief of width 0: each slot takes its own action with probability 1."""
    slots = int(task.layout.n_slots.sum())
    tables = np.concatenate([policy.reshape(-1, slots) for policy in certain_policies(task)])
    return Belief.of(tables, 0.0, (slots, task.n_states))


# ------------------------------------------------------------------------------------------------- numbers


def replan_code(settings: Settings) -> int:
    """Return the rule for new plans as a number for the kernels: a number of episodes, DOUBLING or NEVER."""
    if settings.policy is not None:
        return kernels.NEVER
    if isinstance(settings.replan, str):
        return kernels.DOUBLING if settings.replan == "doubling" else 1
    assert settings.replan is not None
    return settings.replan


def radius_sizes(sizes: Sizes) -> RadiusSizes:
    """Return the sizes on which the constants of the radii depend.

    As in the paper all agents count, known agents with one slot each even if they vary. With declared structure of agents, only
    learned agents count, with their cases.
    """
    task, settings, places = sizes.task, sizes.settings, sizes.places
    (rows, outcomes), (cost_rows, _) = places.shapes[ENVIRONMENT], places.shapes[COSTS]
    slots = [1 if d in settings.knowledge.agents and not settings.flat else int(n) for d, n in enumerate(task.layout.n_slots)]
    if settings.structure is not None and settings.structure.agents:
        slots = [0 if d in settings.knowledge.agents else n for d, n in enumerate(slots)]
    rows_of_agents = sum(n * seen for n, seen in zip(slots, places.cases, strict=True))
    agents_kind, environment_kind = (None, None) if settings.belief is None else settings.belief.of_layers
    learns = cost_rows > 0 and settings.belief is not None
    # UCRL2 has the intervals of its own paper around mean costs; all others split delta, see beliefs/costs.py
    tables, costs = (
        (settings.delta, settings.delta) if settings.flat or not learns else (settings.delta * 2 / 3, settings.delta / 3)
    )
    return RadiusSizes(
        agents_kind=code_of(agents_kind),
        environment_kind=code_of(environment_kind),
        delta=tables,
        horizon=task.plan_steps,
        outcomes=outcomes,
        n_actions=task.n_actions,
        agent_rows=rows_of_agents,
        environment_rows=rows,
        cost_kind=(UCRL2_INTERVALS if settings.flat else BERNSTEIN_INTERVALS) if learns else NO_INTERVALS,
        cost_rows=cost_rows if not settings.flat else rows_of_agents + sizes.places.costs.n_team_rows,
        cost_delta=costs,
        agent_values=task.plan_steps,
        state_values=max(1, task.plan_steps - 1) * task.n_agents,
    )
