"""What a learner is made of: its settings as data, their checks, and the arrays that follow from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, log, sqrt
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from cede import _kernels
from cede._base import check
from cede._base.arrays import Floats, Ints, Policy
from cede._kernels import Fading, Layer, Limits, Mind, Radii, Sizes
from cede.learning.baseline import Caution, caution_for
from cede.learning.counts import Tally, all_agents, cases_of, shapes
from cede.learning.forgetting import NEVER_FADES, Forget, checked_forget, checked_rule, fading_of
from cede.learning.state import Memory
from cede.planning.belief import RADII, Belief, Scale, layer_of, true_environment
from cede.planning.planner import certain_policies, empty_plan, flatten, problem_of, run_pass
from cede.planning.tables import Table, read_only
from cede.problem.model import Environment, TwoLayerMDP
from cede.problem.structure import Outcomes, Structure, checked_structure
from cede.problem.task import Task

Replan = Literal["every", "doubling"] | int
Planning = Literal["full", "greedy"]
MOST_EPISODES = 2**62


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a learner believes and plans: all its settings, as data."""

    name: str
    radius: str | None = "printed"  # a key of belief.RADII; None: width 0
    agents_radius: str | None = None  # of the agents, if it is another one
    prior: float = 0.0  # pseudo-counts of a row, if tables are sampled
    delta: float = 0.1
    scale: Scale = field(default_factory=Scale)
    flat: bool = False  # learn p(s' | s, d) instead of the two layers
    known_agents: Mapping[int, Floats] = field(default_factory=dict)  # number among task.tables -> (slots, S, A)
    known_environment: Environment | None = None
    structure: Structure | None = None  # declared of what is not known
    forget: Mapping[str, Forget] = field(default_factory=dict)  # by agent
    forget_environment: Forget | None = None
    limits: tuple[Floats, Floats] | None = None  # (members,) the least and the most share of the steps of each
    caution: Caution | None = None  # never much worse than a baseline
    policy: Policy | None = None  # never plan, always this
    planning: Planning = "full"  # the whole plan, or only what is visited
    replan: Replan = "every"  # episode; when a count has doubled; or every so many episodes


def show_recipe(recipe: Recipe) -> str:
    """What kind of learner it is, in one line: all settings but tables and scale."""
    known = (sorted(recipe.known_agents), recipe.known_environment is not None, recipe.policy is not None)
    forgets = (dict(recipe.forget), recipe.forget_environment)
    promises = (recipe.limits and [ends.tolist() for ends in recipe.limits], recipe.caution and recipe.caution.digest)
    beyond = (recipe.agents_radius, recipe.prior, recipe.structure and recipe.structure.digest, forgets, promises)
    return f"{recipe.name} {recipe.radius} {recipe.delta} {recipe.flat} {known} {recipe.planning} {recipe.replan} {beyond}"


def structure_for(
    owner: str, task: Task, structure: Any, known_agents: Mapping[int, Any], known_environment: Environment | None
) -> Structure | None:
    """What is declared of all that is to be learned; of what is known nothing need be."""
    checked = checked_structure(owner, structure, task.n_states, task.n_actions, task.tables)
    if checked is None:
        return None
    known = {task.tables[table] for table in known_agents}
    agents = {name: cases for name, cases in checked.agents.items() if name not in known}
    left = Structure(agents, None if known_environment is not None else checked.environment)
    return left if left.agents or left.environment is not None else None


def checked_task(owner: str, task: Any) -> Task:
    if not isinstance(task, Task):
        hint = "a Task, as in mdp.task" if isinstance(task, TwoLayerMDP) else "a Task"
        check.fail(owner, "task", check.show(type(task).__name__), hint)
    return task


def checked_environment(owner: str, task: Task, environment: Environment | None) -> Environment | None:
    if environment is None:
        return None
    if not isinstance(environment, Environment):
        check.fail(owner, "known_environment", check.show(environment), "an Environment")
    mine, theirs = (environment.n_states, environment.n_actions), (task.n_states, task.n_actions)
    if mine != theirs:
        check.fail(owner, "(S, A) of known_environment", mine, f"{theirs}, as in the task")
    return environment


LEAST_PRIOR, MOST_PRIOR = 1e-6, 1e6


def checked_prior(owner: str, prior: Any) -> float:
    """Pseudo-counts of a row."""
    result = check.number(owner, "prior", prior)
    if not LEAST_PRIOR <= result <= MOST_PRIOR:
        check.fail(owner, "prior", result, f"from {LEAST_PRIOR:g} to {MOST_PRIOR:g}")
    return result


def checked_knowledge(
    owner: str, task: Any, known_agents: Mapping[str, ArrayLike] | None, known_environment: Any, structure: Any
) -> dict[str, Any]:
    """What need not be learned, and what is declared of the rest."""
    agents = checked_task(owner, task).known_agents(owner, known_agents or {})
    environment = checked_environment(owner, task, known_environment)
    return {
        "known_agents": agents,
        "known_environment": environment,
        "structure": structure_for(owner, task, structure, agents, environment),
    }


BELIEFS = ("printed", "bernstein")


def checked_belief(owner: str, belief: Any) -> dict[str, Any]:
    """One kind of sets for both layers, or one for each."""
    if not isinstance(belief, Mapping):
        return {"radius": check.choice(owner, "belief", belief, BELIEFS)}
    if belief.keys() != {"agents", "environment"}:
        check.fail(owner, "belief", check.show(dict(belief)), "one name, or one for 'agents' and one for 'environment'")
    layers = ("agents", "environment")
    agents, environment = (check.choice(owner, f"belief[{layer!r}]", belief[layer], BELIEFS) for layer in layers)
    return {"radius": environment, "agents_radius": None if agents == environment else agents}


def checked_forgetting(
    owner: str, task: Task, forget: Any, forget_environment: Any, belief: Any, planning: Any, replan: Any
) -> dict[str, Any]:
    """What may be forgotten, by learners for whom that makes sense."""
    rules, environment = checked_forget(owner, forget, task.tables), checked_rule(owner, "forget_environment", forget_environment)
    if rules or environment is not None:
        if "bernstein" in (belief, *(belief.values() if isinstance(belief, Mapping) else ())):
            check.fail(owner, "belief", "'bernstein'", "'printed' with forget: these intervals are not for counts that fade")
        if planning == "greedy":
            check.fail(owner, "planning", "'greedy'", "'full' with forget: greedy planning never gives up what it once believed")
        if replan == "doubling":
            check.fail(owner, "replan", "'doubling'", "'every' or a number with forget: counts that fade may never double")
    return {"forget": rules, "forget_environment": environment}


def checked_planning(owner: str, planning: Any, replan: Any) -> dict[str, Any]:
    check.choice(owner, "planning", planning, ("full", "greedy"))
    if isinstance(replan, str):
        check.choice(owner, "replan", replan, ("every", "doubling"))
    else:
        replan = check.integer(owner, "replan", replan, 1, MOST_EPISODES)
    if planning == "greedy" and replan not in ("every", 1):
        check.fail(owner, "replan", check.show(replan), "'every': greedy planning has no whole plan to keep")
    return {"planning": planning, "replan": replan}


def mind_of(task: Task, recipe: Recipe, tally: Tally, rows: tuple[Any, Any], old: Mind | None) -> Mind:
    """The arrays of a learner for the kernels; the old ones, but for the tables of counts, if there are any."""
    tables = (tally.agents, tally.environment.table)
    pools = [table.pool for table in tables]
    cases = (agent_cases(task, recipe, tally, rows[0]), environment_cases(recipe, tables[1], rows[1]))
    widths = [np.zeros(len(case)) for case in cases] if old is None else [old.agents_width, old.environment_width]
    linear = [np.zeros(1), np.zeros(1)] if old is None else [old.agents.linear, old.environment.linear]
    given = zip((drawn_agents, drawn_environment), tables, widths, rows, linear, strict=True)
    layers = [draw(task, recipe, tally, table, width, row, part) for draw, table, width, row, part in given]
    if recipe.flat:
        layers[0] = certain_belief(task).layer if old is None else old.agents
    if old is not None:
        return old._replace(seen_agents=pools[0], seen_environment=pools[1], agents=layers[0], environment=layers[1])
    least, most = task.env_cost.min(axis=1), task.env_cost.max(axis=1)
    env_cost, learned_cost = task.env_cost, np.empty((0, 0))
    if recipe.flat:
        env_cost = flatten(task).env_cost
        if (most > least).any():
            learned_cost = env_cost.copy()
            env_cost = learned_cost  # the planner reads what `believe` writes
    doubling = recipe.replan == "doubling"
    limits, problem = limits_for(task, recipe), problem_of(task, env_cost)
    if recipe.limits is not None:
        problem = problem._replace(control_cost=read_only(limits.priced))  # the planner reads what `set_prices` writes
    return Mind(
        seen_agents=pools[0],
        seen_environment=pools[1],
        counted_agents=tally.agent_rows,
        counted_environment=tally.environment.rows,
        places=tally.places,
        fading_agents=tally.fading[0],
        fading_environment=tally.fading[1],
        flat=recipe.flat,
        agents_kind=RADII[recipe.agents_radius or recipe.radius],
        environment_kind=RADII[recipe.radius],
        prior=float(recipe.prior),
        sticks=sticks_for(recipe.prior),
        agents=layers[0],
        environment=layers[1],
        agents_width=widths[0],
        environment_width=widths[1],
        agents_case=cases[0],
        environment_case=cases[1],
        agents_extra=np.zeros(tally.agent_rows),
        environment_extra=fewer_outcomes(recipe, tally),
        problem=problem,
        learned_cost=learned_cost,
        true_cost=read_only(task.env_cost),
        least_cost=least,
        spread=most - least,
        replan=replan_code(recipe),
        planned_agents=np.zeros(tally.agent_rows if doubling else 0),
        planned_environment=np.zeros(tally.environment.rows if doubling else 0),
        bounds=np.empty((0, 0, 0)),
        least_bound=np.empty((0, 0)),
        least_at=np.empty((0, 0), dtype=np.int64),
        limits=limits,
        caution=caution_for(task, recipe.caution, recipe.delta),
    )


def limits_for(task: Task, recipe: Recipe) -> Limits:
    """The arrays of its limits for the kernels."""
    least, most = (np.empty(0), np.empty(0)) if recipe.limits is None else recipe.limits
    sizes = (len(most) and task.n_agents, len(most))
    own = read_only(task.control_cost)
    return Limits(
        least.copy(), most.copy(), task.acting.copy(), own, np.zeros(sizes[0]), np.zeros((3 if sizes[1] else 0, sizes[1]))
    )


def is_scaled(recipe: Recipe) -> bool:
    """Are its radii narrower than those that carry the guarantee?"""
    return any(not isinstance(part, float) or part < 1.0 for part in (recipe.scale.agents, recipe.scale.environment))


def declared(recipe: Recipe) -> Outcomes | None:
    """The structure of the environment, if there is one."""
    return None if recipe.structure is None else recipe.structure.environment


def agents_apart(recipe: Recipe) -> bool:
    """Has the agents' belief tables of its own, beside the counts?"""
    declared = {} if recipe.structure is None else recipe.structure.agents
    return recipe.prior > 0 or any(isinstance(seen, Outcomes) for seen in declared.values())


def agent_cases(task: Task, recipe: Recipe, tally: Tally, row: Ints) -> Ints:
    """The counted row behind each row of the agents' belief; those that serve no place, as they are known, count as known."""
    rows = all_agents(task, recipe.structure).case if agents_apart(recipe) else np.arange(tally.agent_rows)
    known = np.arange(tally.agent_rows, tally.agents.n_rows)
    return only_used(np.concatenate([rows, known]), row, tally.agents.n_rows)


def only_used(case: Ints, row: Ints, beyond: int) -> Ints:
    used = np.zeros(len(case), dtype=np.bool_)
    used[row] = True
    return np.where(used, case, beyond)


def environment_cases(recipe: Recipe, table: Table, row: Ints) -> Ints:
    """Likewise of the environment's belief."""
    outcomes = declared(recipe)
    return only_used(np.arange(table.n_rows) if outcomes is None else outcomes.case, row, table.n_rows)


def fewer_outcomes(recipe: Recipe, tally: Tally) -> Floats:
    """What the constant of a row's radius is less by than that of a row with the most outcomes (belief.py)."""
    outcomes = declared(recipe)
    if outcomes is None or recipe.radius not in ("printed", "bernstein"):
        return np.zeros(tally.environment.rows)
    n = outcomes.n_outcomes
    most = outcomes.to.shape[1]
    less: Floats = 2 * (n - most) * log(2.0) if recipe.radius == "printed" else np.log(n / most)
    return less


def drawn_agents(task: Task, recipe: Recipe, tally: Tally, table: Table, width: Floats, row: Ints, linear: Floats) -> Layer:
    """The agents' belief: what was counted, as it lies there; or arrays for all outcomes, where known rows stand already."""
    if not agents_apart(recipe):
        return layer_of(table, width, row, linear, False)
    known = table.matrix().toarray()[tally.agent_rows :]
    to = all_agents(task, recipe.structure).to
    n, n_actions = len(to) + len(known), task.n_actions
    weight = np.concatenate([np.ones(to.shape), known])
    column = np.concatenate([to, np.tile(np.arange(n_actions), (len(known), 1))]).astype(np.int32).ravel()
    size = np.full(n, n_actions, dtype=np.int64)
    arrays = (np.arange(n) * n_actions, size, weight.sum(axis=1), column, weight.ravel(), size, np.array([column.size]))
    return layer_of(Table(*arrays, n_actions), width, row, linear, True)


def drawn_environment(task: Task, recipe: Recipe, tally: Tally, table: Table, width: Floats, row: Ints, linear: Floats) -> Layer:
    """The environment's belief, likewise; or arrays for all outcomes of a structure, or for samples."""
    outcomes = declared(recipe)
    if outcomes is not None:
        possible = outcomes.to >= 0
        size = possible.sum(axis=1).astype(np.int64)
        column = outcomes.to[possible]
        end = np.array([column.size], dtype=np.int64)
        arrays = (np.cumsum(size) - size, size, size.astype(np.float64), column, np.ones(column.size), size, end)
        return layer_of(Table(*arrays, task.n_states), width, row, linear, True)
    if not recipe.prior or recipe.known_environment is not None:
        return layer_of(table, width, row, linear, False)
    places = len(table.column) + min(sticks_for(recipe.prior), task.n_states) * table.n_rows
    rows = [np.zeros(table.n_rows, dtype=np.int64) for _ in range(3)]
    pool = (np.zeros(places, dtype=np.int32), np.zeros(places))
    arrays = (rows[0], rows[1], np.ones(table.n_rows), *pool, rows[2], np.array([places]))
    return layer_of(Table(*arrays, task.n_states), width, row, linear, False)


def sticks_for(prior: float) -> int:
    """Enough for all but a thousandth of a row's mass, nearly always: their number is about Poisson(7 prior)."""
    return ceil(7 * prior + 10 * sqrt(prior)) + 12


def fading_rules(task: Task, recipe: Recipe, memory: Memory) -> tuple[Fading, Fading]:
    """How its tables forget, with the last steps that it remembers."""
    if not recipe.forget and recipe.forget_environment is None:
        return NEVER_FADES, NEVER_FADES
    cases = cases_of(task, recipe.structure)
    agents = [(int(n) * rows, recipe.forget.get(name)) for name, n, rows in zip(task.tables, task.n_slots, cases, strict=True)]
    _, (rows, _) = shapes(task, flat=recipe.flat, structure=recipe.structure)
    recent = (memory.recent_agents.copy(), memory.recent_environment.copy())
    return fading_of(agents, task.horizon, recent[0]), fading_of([(rows, recipe.forget_environment)], task.horizon, recent[1])


def sizes_of(task: Task, recipe: Recipe) -> Sizes:
    """What the constants of its radii depend on. As in the paper all agents count, those that are known with one table, whatever
    they vary with; where it is declared what an agent sees, only the cases of those that are learned do.
    """
    _, (rows, outcomes) = shapes(task, flat=recipe.flat, structure=recipe.structure)
    slots = [1 if d in recipe.known_agents and not recipe.flat else int(n) for d, n in enumerate(task.n_slots)]
    cases = cases_of(task, recipe.structure)
    if recipe.structure is not None and recipe.structure.agents:
        slots = [0 if d in recipe.known_agents else n for d, n in enumerate(slots)]
    agent_rows = sum(n * seen for n, seen in zip(slots, cases, strict=True))
    kinds = (RADII[recipe.agents_radius or recipe.radius], RADII[recipe.radius])
    return Sizes(*kinds, recipe.delta, task.horizon, outcomes, task.n_actions, agent_rows, rows)


def radii_ahead(scale: Scale, sizes: Sizes, episode: int, environment_episodes: int, n: int) -> Radii:
    """The numbers behind the radii of n episodes from `episode` on, as arrays; of fewer, but at least one, if the scale of a later
    one fails.
    """
    scales = [scale.ahead(layer, episode, n) for layer in ("agents", "environment")]
    n = min(len(part) for part in scales)
    result = Radii(np.empty(n), np.empty(n), np.empty(n), *(part[:n] for part in scales))
    _kernels.constants_ahead(sizes, episode, environment_episodes, result)
    return result


def replan_code(recipe: Recipe) -> int:
    """Of the kernels."""
    if recipe.policy is not None:
        return _kernels.NEVER
    if isinstance(recipe.replan, str):
        return _kernels.DOUBLING if recipe.replan == "doubling" else 1
    return recipe.replan


def with_memory(mind: Mind, task: Task, recipe: Recipe, memory: Memory) -> Mind:
    """What a learner remembers beside counts, for its way to plan."""
    if memory.planned_agents.size:
        mind.planned_agents[:], mind.planned_environment[:] = memory.planned_agents, memory.planned_environment
    if memory.prices.size:
        mind.limits.prices[:] = memory.prices
    if memory.record.size:
        mind.caution.record[:] = memory.record
    if recipe.planning == "full":
        return mind
    bounds = memory.bounds.copy() if memory.bounds.size else optimistic_start(mind, task)
    least = bounds.argmin(axis=1)
    return mind._replace(bounds=bounds, least_bound=bounds.min(axis=1), least_at=least.astype(np.int64))


def optimistic_start(mind: Mind, task: Task) -> Floats:
    """The first bounds of greedy planning: what the task would cost if all that is not known were at its best."""
    if not mind.flat:
        mind.agents_width[mind.agents_case < mind.counted_agents] = 2.0
    mind.environment_width[mind.environment_case < mind.counted_environment] = 2.0
    policy, bounds = empty_plan(task)
    run_pass(mind.problem, mind.agents, mind.environment, _kernels.CHOOSE, policy, bounds, 0)
    return bounds


def tally_parts(task: Task, recipe: Recipe, memory: Memory) -> dict[str, Any]:
    """How it counts, and the tables that are given, to be laid behind the counted rows."""
    parts: dict[str, Any] = {"flat": recipe.flat, "structure": recipe.structure, "fading": fading_rules(task, recipe, memory)}
    if recipe.known_agents:
        tables = [policy.reshape(-1, task.n_actions) for policy in recipe.known_agents.values()]
        parts["known_agents"] = sp.csr_array(np.concatenate(tables))
    if recipe.known_environment is not None:
        parts["known_environment"] = true_environment(recipe.known_environment).centre.matrix()
    return parts


def row_maps(task: Task, recipe: Recipe, tally: Tally) -> tuple[Any, Any]:
    """Which row of its table serves which place: the counted one, or the given one behind."""
    agents, behind = tally.places.agents.copy(), tally.agent_rows
    if agents_apart(recipe):
        whole = all_agents(task, recipe.structure)
        agents, behind = whole.row, len(whole.case)
    for table, policy in recipe.known_agents.items():
        places = slice(task.first_slot[table], task.first_slot[table] + task.n_slots[table])
        agents[places] = behind + np.arange(len(policy) * task.n_states).reshape(-1, task.n_states)
        behind += len(policy) * task.n_states
    environment = tally.places.environment.copy()
    if recipe.known_environment is not None:
        environment = tally.environment.rows + true_environment(recipe.known_environment).row
    elif (outcomes := declared(recipe)) is not None:
        environment = outcomes.row.copy()
    return agents, environment


def certain_belief(task: Task) -> Belief:
    """The agents of the flattened problem."""
    slots = int(task.n_slots.sum())
    tables = np.concatenate([policy.reshape(-1, slots) for policy in certain_policies(task)])
    return Belief.of(tables, 0.0, (slots, task.n_states))
