"""The state of teams as arrays: what a shard starts from, what is kept of it, and what learners get back.

Teams that are alike in all but costs, seeds, agents and what they have seen are of one `Kind`. What changes of the teams of a
kind is a `State`, a dictionary of arrays: it can be cut, joined, sent, written to a file, and put to work anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base.arrays import Floats, Ints, Policy
from cede._kernels import RECORD
from cede.learning.counts import shapes
from cede.learning.settings import Recipe, fading_rules
from cede.learning.state import Memory, Seen
from cede.planning.planner import Plan, checked_policy, empty_plan
from cede.planning.tables import Table
from cede.problem.model import Environment
from cede.problem.task import Task

Luck = NDArray[np.uint64]  # (n, 4): a stream of numbers for each team, see `_kernels.draw_uniform`
State = dict[str, NDArray[Any]]  # what changes of the teams of one kind, first axis (but of the counts): team


@dataclass(frozen=True, eq=False)
class Kind:
    """What teams have in common."""

    task: Task  # as the first of them was told; costs of control and hand-over are the team's own
    recipe: Recipe  # without its scale, whose values come with every order
    varies: Ints  # (D,) how the true agents vary
    environment: Environment  # the true one
    shared: bool  # is the environment's belief that of the fleet?
    keeps_plans: bool  # from one episode to the next


@dataclass(frozen=True, eq=False)
class Roster:
    """What stays the same of n teams of one kind."""

    team: Ints  # (n,) their places in the fleet
    control_cost: Floats  # (n, D)
    switch_cost: Floats  # (n, D, D)
    slot: Ints  # (n, D) first slot of each agent in the shard's table of true agents
    start_agent: Ints  # (n,)
    seed: Ints  # (n,)
    age: Ints  # (n,) which of the ages of the kind each has: how many episodes it had seen before the run


def state_of(kind: Kind, memories: Sequence[Memory], policies: Sequence[Policy], luck: Luck) -> State:
    """The arrays of some teams of a kind. policies: those that are given, if their recipes have one. luck: (n, 4)."""
    n, task, recipe = len(memories), kind.task, kind.recipe
    state: State = {
        "luck": luck,
        "judged": np.zeros(n, dtype=np.int64),
        "cost": np.zeros(n),
        "planned": np.zeros(n, dtype=np.int64),
        "fresh": np.zeros(n, dtype=np.int64),
    }
    for name, layer in (("seen", "agents"), ("own", "environment")):
        seen: list[Seen] = [getattr(memory, layer) for memory in memories]
        state[f"{name}_size"] = np.array([len(part.key) for part in seen], dtype=np.int64)
        state[f"{name}_key"] = np.concatenate([part.key for part in seen])
        state[f"{name}_number"] = np.concatenate([part.number for part in seen])
    policy, value = empty_plan(task)
    if policies:
        state["policy"] = np.stack([unharmed(task, given) for given in policies])
        state["planned"] = np.ones(n, dtype=np.int64)
    elif kind.keeps_plans:
        state["policy"], state["value"] = np.zeros((n, *policy.shape), policy.dtype), np.zeros((n, *value.shape))
        for i, memory in enumerate(memories):  # zeros that nobody touches need no memory
            if memory.plan is not None:
                state["policy"][i], state["value"][i] = unharmed(task, memory.plan.policy), memory.plan.value
        state["planned"] = np.array([m.planned for m in memories], dtype=np.int64)
        state["fresh"] = np.array([must_use(m) for m in memories], dtype=np.int64)
    if recipe.replan == "doubling":
        for name, shape in zip(VISITS, shapes(task, flat=recipe.flat, structure=recipe.structure), strict=True):
            zeros = np.zeros(shape[0])
            state[name] = np.stack([visits if (visits := getattr(m, name)).size else zeros for m in memories])
    if recipe.planning == "greedy":  # not a number: to be made at the start
        none = np.full(value.shape, np.nan)
        state["bounds"] = np.stack([m.bounds if m.bounds.size else none for m in memories])
    for name, fading in zip(RECENT, fading_rules(task, recipe, Memory()), strict=True):
        if fading.recent.size:
            given = [getattr(memory, name) for memory in memories]
            state[name] = np.stack([array if array.size else fading.recent for array in given])
    for name, start in promises_at_start(task, recipe).items():
        state[name] = np.stack([array if (array := getattr(memory, name)).size else start for memory in memories])
    return state


def promises_at_start(task: Task, recipe: Recipe) -> dict[str, Floats]:
    """What a learner must remember for what it promises, as it is at the start."""
    result: dict[str, Floats] = {}
    if recipe.limits is not None:
        result["prices"] = np.zeros((3, len(task.members)))
    if recipe.caution is not None:
        result["record"] = np.zeros(RECORD)
    return result


VISITS = ("planned_agents", "planned_environment")
RECENT = ("recent_agents", "recent_environment")
PROMISES = ("prices", "record")


def unharmed(task: Task, policy: Policy) -> Policy:
    """A policy that was in other hands, before kernels trust it again."""
    if policy.min() < 0 or policy.max() >= task.n_agents:
        checked_policy("the learner's plan", task, policy)
    return policy


def must_use(memory: Memory) -> bool:
    """Has it a plan that nothing was counted since, to be used come what may?"""
    return memory.plan is not None and not memory.stale


def memories_of(kind: Kind, before: Sequence[Memory], state: State, episodes: int) -> list[Memory]:
    """What is left of the state for each learner; episodes: played since `before`. Large arrays are handed over, not copied."""
    result = []
    ends = {name: np.cumsum(state[f"{name}_size"]) for name in ("seen", "own")}
    for i, memory in enumerate(before):
        parts = {}
        for name, end in ends.items():
            part = slice(end[i] - state[f"{name}_size"][i], end[i])
            parts[name] = Seen(state[f"{name}_key"][part].copy(), state[f"{name}_number"][part].copy())
        kept: dict[str, Any] = {"plan": None, "planned": 0, "stale": False}
        if "value" in state and state["planned"][i] > 0:
            plan = Plan(state["policy"][i], state["value"][i])
            kept = {"plan": plan, "planned": int(state["planned"][i]), "stale": not state["fresh"][i]}
        for name in (*VISITS, *RECENT, *PROMISES, "bounds"):
            if name in state:
                kept[name] = state[name][i]
        own = 0 if kind.shared else episodes
        done = (memory.episodes + episodes, memory.environment_episodes + own)
        result.append(Memory(*done, parts["seen"], parts["own"], **kept))
    return result


def part_of(state: State, begin: int, end: int) -> State:
    """The state of the teams from begin to end."""
    result = {}
    for name, array in state.items():
        first, last = begin, end
        if name.startswith(("seen_", "own_")) and not name.endswith("_size"):
            ends = np.concatenate([[0], np.cumsum(state[name.split("_")[0] + "_size"])])
            first, last = ends[begin], ends[end]
        result[name] = array[first:last]
    return result


def joined(states: Sequence[State]) -> State:
    """The state of the teams of several shards, in their order."""
    if len(states) == 1:
        return states[0]
    return {name: np.concatenate([state[name] for state in states]) for name in states[0]}


def kept_rows(size: Ints, key: Ints, number: Floats, n_columns: int) -> Table:
    """A table with one row per team."""
    start = np.cumsum(size) - size
    total: Floats = np.bincount(np.repeat(np.arange(len(size)), size), weights=number, minlength=len(size)).astype(np.float64)
    end = np.array([len(key)], dtype=np.int64)
    return Table(start, size.copy(), total, key.copy(), number.copy(), size.copy(), end, n_columns)
