"""What a learner is made of: its settings as data, their checks, and the arrays that follow from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from cede import _check, _kernels
from cede._check import Floats
from cede._kernels import Mind, Radii, Sizes
from cede.belief import RADII, Belief, Scale, layer_of
from cede.counts import Tally, shapes
from cede.memory import Memory
from cede.model import Environment, Task, TwoLayerMDP
from cede.planning import Policy, certain_policies, empty_plan, flatten, problem_of, run_pass
from cede.table import read_only

Replan = Literal["every", "doubling"] | int
Planning = Literal["full", "greedy"]
MOST_EPISODES = 2**62


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a learner believes and plans: all its settings, as data."""

    name: str
    radius: str | None = "printed"  # a key of belief.RADII; None: width 0
    delta: float = 0.1
    scale: Scale = field(default_factory=Scale)
    flat: bool = False  # learn p(s' | s, d) instead of the two layers
    known_agents: Mapping[int, Floats] = field(default_factory=dict)  # agent -> (slots, S, A)
    known_environment: Environment | None = None
    policy: Policy | None = None  # never plan, always this
    planning: Planning = "full"  # the whole plan, or only what is visited
    replan: Replan = "every"  # episode; when a count has doubled; or every so many episodes


def show_recipe(recipe: Recipe) -> str:
    """What kind of learner it is, in one line: all settings but tables and scale."""
    known = (sorted(recipe.known_agents), recipe.known_environment is not None, recipe.policy is not None)
    return f"{recipe.name} {recipe.radius} {recipe.delta} {recipe.flat} {known} {recipe.planning} {recipe.replan}"


def checked_task(owner: str, task: Any) -> Task:
    if not isinstance(task, Task):
        hint = "a Task, as in mdp.task" if isinstance(task, TwoLayerMDP) else "a Task"
        _check.fail(owner, "task", _check.show(type(task).__name__), hint)
    return task


def checked_environment(owner: str, task: Task, environment: Environment | None) -> Environment | None:
    if environment is None:
        return None
    if not isinstance(environment, Environment):
        _check.fail(owner, "known_environment", _check.show(environment), "an Environment")
    mine, theirs = (environment.n_states, environment.n_actions), (task.n_states, task.n_actions)
    if mine != theirs:
        _check.fail(owner, "(S, A) of known_environment", mine, f"{theirs}, as in the task")
    return environment


def checked_planning(owner: str, planning: Any, replan: Any) -> dict[str, Any]:
    _check.choice(owner, "planning", planning, ("full", "greedy"))
    if isinstance(replan, str):
        _check.choice(owner, "replan", replan, ("every", "doubling"))
    else:
        replan = _check.integer(owner, "replan", replan, 1, MOST_EPISODES)
    if planning == "greedy" and replan not in ("every", 1):
        _check.fail(owner, "replan", _check.show(replan), "'every': greedy planning has no whole plan to keep")
    return {"planning": planning, "replan": replan}


def mind_of(task: Task, recipe: Recipe, tally: Tally, rows: tuple[Any, Any], old: Mind | None) -> Mind:
    """The arrays of a learner for the kernels; the old ones, but for the tables of counts, if there are any."""
    tables = (tally.agents, tally.environment.table)
    pools = [table.pool for table in tables]
    widths = [np.zeros(table.n_rows) for table in tables] if old is None else [old.agents_width, old.environment_width]
    layers = [layer_of(table, width, row) for table, width, row in zip(tables, widths, rows, strict=True)]
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
    return Mind(
        seen_agents=pools[0],
        seen_environment=pools[1],
        counted_agents=tally.agent_rows,
        counted_environment=tally.environment.rows,
        flat=recipe.flat,
        agents=layers[0],
        environment=layers[1],
        agents_width=widths[0],
        environment_width=widths[1],
        problem=problem_of(task, env_cost),
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
    )


def sizes_of(task: Task, recipe: Recipe) -> Sizes:
    """What the constants of its radii depend on. Agents that are known count as one table, whatever they vary with."""
    slots = int(task.n_slots.sum())
    if not recipe.flat:
        slots = sum(1 if d in recipe.known_agents else int(n) for d, n in enumerate(task.n_slots))
    _, environment = shapes(task, flat=recipe.flat)
    sizes = (task.horizon, task.n_states, task.n_actions, slots * task.n_states, environment[0])
    return Sizes(RADII[recipe.radius], recipe.delta, *sizes)


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
    if recipe.planning == "full":
        return mind
    bounds = memory.bounds.copy() if memory.bounds.size else optimistic_start(mind, task)
    least = bounds.argmin(axis=1)
    return mind._replace(bounds=bounds, least_bound=bounds.min(axis=1), least_at=least.astype(np.int64))


def optimistic_start(mind: Mind, task: Task) -> Floats:
    """The first bounds of greedy planning: what the task would cost if all that is not known were at its best."""
    if not mind.flat:
        mind.agents_width[: mind.counted_agents] = 2.0
    mind.environment_width[: mind.counted_environment] = 2.0
    policy, bounds = empty_plan(task)
    run_pass(mind.problem, mind.agents, mind.environment, _kernels.CHOOSE, policy, bounds, 0)
    return bounds


def known_parts(task: Task, recipe: Recipe) -> dict[str, Any]:
    """The tables that are given, to be laid behind the counted rows."""
    parts: dict[str, Any] = {}
    if recipe.known_agents:
        tables = [policy.reshape(-1, task.n_actions) for policy in recipe.known_agents.values()]
        parts["known_agents"] = sp.csr_array(np.concatenate(tables))
    if recipe.known_environment is not None:
        parts["known_environment"] = recipe.known_environment.truth.centre.matrix()
    return parts


def row_maps(task: Task, recipe: Recipe, tally: Tally) -> tuple[Any, Any]:
    """Which row of its table serves which place: the counted one, or the given one behind."""
    agents = np.arange(tally.agent_rows).reshape(-1, task.n_states)
    behind = tally.agent_rows
    for agent, policy in recipe.known_agents.items():
        places = slice(task.slot[agent], task.slot[agent] + task.n_slots[agent])
        agents[places] = behind + np.arange(len(policy) * task.n_states).reshape(-1, task.n_states)
        behind += len(policy) * task.n_states
    rows = tally.environment.rows
    environment = np.arange(rows).reshape(task.n_states, -1)
    if recipe.known_environment is not None:
        environment = rows + recipe.known_environment.truth.row
    return agents, environment


def certain_belief(task: Task) -> Belief:
    """The agents of the flattened problem."""
    slots = int(task.n_slots.sum())
    tables = np.concatenate([policy.reshape(-1, slots) for policy in certain_policies(task)])
    return Belief.of(tables, 0.0, (slots, task.n_states))
