"""What a learner keeps between episodes: one declared table of fields.

`LearnerState` is that table: every field says what it is, which shape and type it has, how it begins, and which learners have it.
All other code iterates over it: start values, packing for shards, cutting and joining stacks, files, checkpoints, and all checks.
A new field is a line here and the code that uses it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints, Policy
from cede._kernels.baseline import RECORD
from cede._kernels.limits import PRICE
from cede._kernels.tables import Sums
from cede.learning.counts import MOST_COUNT, Counts, check_counted, check_sums, shapes
from cede.learning.forgetting import longest_window
from cede.learning.layer_prior import ALPHAS, KINDS
from cede.learning.settings import Settings
from cede.planning.passes import Plan, new_plan
from cede.problem.task import Task, checked_switching_policy

PRICE_NUMBERS, RECORD_NUMBERS = (dtype.itemsize // 8 for dtype in (PRICE, RECORD))


@dataclass(frozen=True, eq=False)
class Seen:
    """Sparse counts of one layer, packed: memory follows what was seen."""

    key: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # (n,) row * columns + column, ascending
    number: Floats = field(default_factory=lambda: np.empty(0))  # (n,)

    @classmethod
    def of(cls, counts: sp.csr_array) -> "Seen":
        """Pack a matrix of counts."""
        sums = Sums.of(counts)
        return cls(sums.row * counts.shape[1] + sums.column, sums.amount)

    @classmethod
    def of_row(cls, numbers: Floats) -> "Seen":
        """Pack one row of counts, (n,)."""
        key = np.flatnonzero(numbers)
        return cls(key, numbers[key].astype(np.float64))

    def row(self, n: int) -> Floats:
        """Return the counts as one row, (n,)."""
        result = np.zeros(n)
        result[self.key] = self.number
        return result

    def matrix(self, shape: tuple[int, int]) -> sp.csr_array:
        """Return the counts as a matrix of this shape."""
        rows, columns = np.divmod(self.key, shape[1])
        return Sums(rows, columns, self.number).matrix(*shape)


NOTHING = Seen()


@dataclass(frozen=True, eq=False)
class Sizes:
    """Task and settings of a learner, from which the shapes of all fields of its state follow."""

    task: Task
    told: Settings

    @cached_property
    def layers(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Return (rows, columns) of the counts of the agents, of those of the environment, and of the sums of costs."""
        return shapes(self.task, flat=self.told.flat, structure=self.told.structure)

    @cached_property
    def seen(self) -> dict[str, tuple[int, int]]:
        """Return (rows, columns) of every field of sparse numbers, by name."""
        agents, environment, costs = self.layers
        result = {"agents": agents, "environment": environment, "costs": costs, "starts": (1, self.task.n_states)}
        for name in KINDS:
            rows, columns = result[name]
            result |= {f"{name}_fitted": (rows, columns), f"{name}_bases": (len(KINDS[name]) * rows, columns)}
        return result

    @property
    def plan(self) -> tuple[int, int, int]:
        """Return (L, S, D), the shape of a policy as kernels read it; L is 1 without a horizon."""
        return self.task.plan_steps, self.task.n_states, self.task.n_agents

    @property
    def endless(self) -> bool:
        """Return whether there is no horizon."""
        return self.task.horizon is None

    @property
    def cost_window(self) -> int:
        """Return for how many episodes a cost that is learned counts; 0: for ever, or there is none."""
        return longest_window([self.told.forget_environment]) if self.layers[2][0] else 0


Shape = Callable[[Sizes], tuple[int, ...]]


def kept(
    dtype: Any, shape: Shape, when: Callable[[Sizes], bool], *, start: float = 0, limit: Callable[[Sizes], int] | None = None
) -> Any:
    """Declare an array field of `LearnerState`.

    dtype: its type. shape, when: functions of `Sizes`: its shape, and whether such a learner has the field. start: the value that
    fills it at first. limit: for indices into a table, a function of `Sizes` that returns how many places the table has; -1 is no
    place. In a state an empty array stands for one that is as at the start.
    """
    about = {"dtype": np.dtype(dtype), "shape": shape, "when": when, "start": start, "limit": limit}
    return field(default_factory=lambda: np.empty(0, dtype=dtype), metadata=about)


@dataclass(frozen=True, eq=False)
class LearnerState:
    """What one learner keeps between episodes. `Learner.state` returns it."""

    episodes: int = 0  # episodes that were counted
    environment_episodes: int = 0  # episodes that were counted into `environment`
    planned: int = 0  # the episode for which the plan was made; 0: there is no plan
    stale: bool = False  # whether an episode was counted since it was last checked if a new plan is due
    agents: Seen = NOTHING
    environment: Seen = NOTHING  # empty if it is shared with a fleet
    costs: Seen = NOTHING  # sums of costs that are learned; the same
    starts: Seen = NOTHING  # how often each state was the first of an episode of this team; with a horizon
    agents_fitted: Seen = NOTHING  # of a prior from features: see `LayerPrior`; the environment's is empty if it is shared
    agents_bases: Seen = NOTHING
    environment_fitted: Seen = NOTHING
    environment_bases: Seen = NOTHING
    policy: Policy = kept(np.int16, lambda s: s.plan, lambda s: True)
    value: Floats = kept(float, lambda s: (s.plan[0] + 1, *s.plan[1:]), lambda s: s.told.policy is None)
    found: Floats = kept(float, lambda s: (2,), lambda s: s.endless and s.told.policy is None)  # gain and error of the plan
    agents_planned_visits: Floats = kept(float, lambda s: (s.layers[0][0],), lambda s: s.told.replan == "doubling")
    environment_planned_visits: Floats = kept(float, lambda s: (s.layers[1][0],), lambda s: s.told.replan == "doubling")
    bounds: Floats = kept(float, lambda s: (s.plan[0] + 1, *s.plan[1:]), lambda s: s.told.planning == "greedy", start=np.nan)
    agents_recent: Ints = kept(
        int,
        lambda s: (longest_window(s.told.forget.values()), s.task.plan_steps),
        lambda s: longest_window(s.told.forget.values()) > 0,
        start=-1,
        limit=lambda s: s.layers[0][0] * s.layers[0][1],
    )
    environment_recent: Ints = kept(
        int,
        lambda s: (longest_window([s.told.forget_environment]), s.task.plan_steps),
        lambda s: longest_window([s.told.forget_environment]) > 0,
        start=-1,
        limit=lambda s: s.layers[1][0] * s.layers[1][1],
    )
    costs_recent_row: Ints = kept(
        int, lambda s: (s.cost_window, 2 * s.task.plan_steps), lambda s: s.cost_window > 0, start=-1, limit=lambda s: s.layers[2][0]
    )
    costs_recent_part: Floats = kept(float, lambda s: (s.cost_window, 2 * s.task.plan_steps), lambda s: s.cost_window > 0)
    prices: Floats = kept(float, lambda s: (len(s.task.members) * PRICE_NUMBERS,), lambda s: s.told.limits is not None)
    taken: Ints = kept(  # steps of each member since the plan was made
        int, lambda s: (len(s.task.members),), lambda s: s.endless and s.told.limits is not None, limit=lambda s: 2**53
    )
    record: Floats = kept(float, lambda s: (RECORD_NUMBERS,), lambda s: s.told.baseline is not None)
    agents_scores: Floats = kept(
        float, lambda s: (len(s.task.tables), len(KINDS["agents"]), len(ALPHAS)), lambda s: s.told.features is not None
    )
    environment_scores: Floats = kept(
        float, lambda s: (1, len(KINDS["environment"]), len(ALPHAS)), lambda s: s.told.features is not None
    )
    fitted_at: Ints = kept(  # episodes of agents and environment
        int, lambda s: (2,), lambda s: s.told.features is not None, limit=lambda s: most_episodes(s.task) + 1
    )

    @property
    def has_plan(self) -> bool:
        """Return whether there is a plan."""
        return bool(self.policy.size and self.value.size)

    def plan(self, task: Task) -> Plan | None:
        """Return the current plan; None if there is none."""
        numbers = self.found.tolist() if self.found.size else (0.0, 0.0)
        return new_plan(task, self.policy, self.value, *numbers) if self.has_plan else None

    @property
    def must_use_plan(self) -> bool:
        """Return whether there is a plan and nothing was counted since it was last checked: the next episode then uses it."""
        return self.has_plan and not self.stale

    @classmethod
    def of(cls, counts: Counts) -> "LearnerState":
        """Return the state of a learner that has seen these counts and has no plan yet."""
        seen: dict[str, Any] = {name: Seen.of(getattr(counts, name)) for name in COUNTED}
        return cls(counts.episodes, counts.environment_episodes, **seen, starts=Seen.of_row(counts.starts))

    def counts(self, sizes: Sizes) -> Counts:
        """Return the counts as matrices."""
        agents, environment, costs = (getattr(self, name).matrix(shape) for name, shape in zip(COUNTED, sizes.layers, strict=True))
        starts = self.starts.row(sizes.task.n_states)
        return Counts(agents, environment, self.episodes, self.environment_episodes, costs, starts)


PLAN = ("policy", "value")
SEEN = tuple(one.name for one in fields(LearnerState) if one.type is Seen)
COUNTED = ("agents", "environment", "costs")
NUMBERS = tuple(one.name for one in fields(LearnerState) if one.type in (int, bool))
ARRAYS: tuple[Field[Any], ...] = tuple(one for one in fields(LearnerState) if one.metadata)
PRIOR = (*(f"{layer}_{part}" for layer in KINDS for part in ("fitted", "bases", "scores")), "fitted_at")  # not for kernels

Arrays = dict[str, NDArray[Any]]


def has(sizes: Sizes) -> list[Field[Any]]:
    """Return the array fields, without policy and value, that a learner with this task and these settings keeps."""
    return [one for one in ARRAYS if one.name not in PLAN and one.metadata["when"](sizes)]


def at_start(one: Field[Any], sizes: Sizes) -> NDArray[Any]:
    """Return an array field as it is at the start."""
    return np.full(one.metadata["shape"](sizes), one.metadata["start"], dtype=one.metadata["dtype"])


def plan_arrays(task: Task, plan: Plan | None) -> Arrays:
    """Return a plan as fields of a state, in the form that kernels read; empty if there is none, or its value is not known."""
    if plan is None or np.isnan(plan.value.flat[0]):
        return {}
    if task.horizon is not None:
        return {"policy": plan.policy, "value": plan.value}
    value = np.stack([plan.value, np.zeros_like(plan.value)])
    found = np.array([plan.gain or 0.0, plan.error])
    return {"policy": plan.policy[None], "value": value, "found": found}


# -------------------------------------------------------------------------------- one learner, as arrays by name


def pack_state(state: LearnerState) -> tuple[dict[str, Any], Arrays]:
    """Return the numbers of a state, and its arrays by name. `unpack_state` is the inverse."""
    numbers = {name: getattr(state, name) for name in NUMBERS}
    arrays: Arrays = {one.name: np.ascontiguousarray(getattr(state, one.name)) for one in ARRAYS}
    for name in SEEN:
        arrays |= {f"{name}_key": getattr(state, name).key, f"{name}_number": getattr(state, name).number}
    return numbers, arrays


def unpack_state(sizes: Sizes, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> LearnerState:
    """Make a state from numbers and arrays that come from outside. All are checked here, since kernels trust them afterwards."""
    found: dict[str, Any] = {}
    for name in NUMBERS:
        if name == "stale":
            found[name] = check.choice("file", name, numbers[name], (True, False))
        else:
            found[name] = check.integer("file", name, numbers[name], 0, most_episodes(sizes.task))
    if found["planned"] > found["episodes"] + 1:
        check.fail("file", "planned", found["planned"], f"at most {found['episodes'] + 1}, the next episode")
    later = ("starts", *(PRIOR if sizes.told.features is None else ()))  # files of older schemas do not have them
    arrays = {**{name: array for name, array in pack_state(LearnerState())[1].items() if name.startswith(later)}, **arrays}
    for name, shape in sizes.seen.items():
        found[name] = Seen(arrays[f"{name}_key"], arrays[f"{name}_number"])
        check_seen("file", name, found[name], shape)
    rows, columns = np.divmod(found["environment"].key, sizes.layers[1][1])
    check_counted("file", sizes.told.outcomes, rows, columns)
    for one in ARRAYS:
        found[one.name] = arrays[one.name]
        check_array("file", one, arrays[one.name], sizes)
    if found["policy"].size != 0 and found["value"].size == 0 and sizes.told.policy is None:
        check.fail("file", "the value of the plan", "missing", "there, as its policy is")
    state = LearnerState(**found)
    check_possible("file", sizes, state)
    return state


def most_episodes(task: Task) -> int:
    """Return how many episodes may have been counted at most, so that the number of their steps does not overflow."""
    return MOST_COUNT // (task.plan_steps + 1)


def check_possible(owner: str, sizes: Sizes, state: "LearnerState") -> None:
    """Check that no more was counted than can have been seen in so many episodes. Radii rest on that: a row has at most so many
    visits as there were steps.
    """
    steps = sizes.task.plan_steps
    for name, episodes in (("agents", state.episodes), ("environment", state.environment_episodes)):
        counted = float(getattr(state, name).number.sum())
        if counted > episodes * steps * (1 + 1e-9):
            check.fail(
                owner, f"the sum of the counts of {name}", f"{counted:g}", f"possible in {episodes} episodes of {steps} steps"
            )
    check_cost_sums(owner, sizes, state.costs, state.environment_episodes)
    begun = float(state.starts.number.sum())
    if begun > state.episodes * (1 + 1e-9) or (sizes.endless and begun):
        check.fail(owner, "the sum of starts", f"{begun:g}", f"possible in {state.episodes} episodes")


def check_cost_sums(owner: str, sizes: Sizes, seen: "Seen", episodes: int) -> None:
    """Check sums of costs, and that there are no more than two for each step of so many episodes."""
    if len(seen.key):
        sums = seen.matrix(sizes.layers[2])
        check_sums(owner, sums)
        counted = float(sums[:, [0]].sum())
        if counted > 2 * episodes * sizes.task.plan_steps * (1 + 1e-9):
            check.fail(owner, "the number of costs", f"{counted:g}", f"possible in {episodes} episodes")


def check_seen(owner: str, layer: str, seen: Seen, shape: tuple[int, int], owners: Ints | None = None) -> None:
    """Check sparse counts: ascending places of a table of this shape, with finite numbers above 0.

    owner, layer: named in errors. owners: (n,) ascending, the team of each count, if the counts of several teams are concatenated.
    """
    key, number = seen.key, seen.number
    if key.dtype != np.int64 or number.dtype != np.float64 or key.ndim != 1 or key.shape != number.shape:
        check.fail(owner, f"the counts of {layer}", f"{key.dtype} and {number.dtype}", "places and numbers, as many of each")
    rises = key[1:] > key[:-1] if owners is None else (key[1:] > key[:-1]) | (owners[1:] > owners[:-1])
    if layer.endswith("_bases") and (number > 1.0).any():
        check.fail(owner, f"the counts of {layer}", "impossible", "probabilities")
    inside = bool(((key >= 0) & (key < shape[0] * shape[1])).all()) and bool(rises.all())
    if not inside or not bool(((number > 0) & (number <= MOST_COUNT)).all()):
        check.fail(owner, f"the counts of {layer}", "impossible", "ascending places of the table, with finite numbers above 0")


def check_array(owner: str, one: Field[Any], array: NDArray[Any], sizes: Sizes, n: int | None = None) -> None:
    """Check an array of a declared field. The array of one learner may be empty: as at the start.

    n: the length of the first axis, if the arrays of n teams are stacked; None for one learner.
    """
    shape = one.metadata["shape"](sizes) if n is None else (n, *one.metadata["shape"](sizes))
    dtype, limit = one.metadata["dtype"], one.metadata["limit"]
    if n is None and array.size == 0 and array.dtype == dtype:
        return
    if array.dtype != dtype or array.shape != shape or (n is None and one.name not in PLAN and not one.metadata["when"](sizes)):
        check.fail(owner, f"the shape of {one.name}", f"{array.shape} of {array.dtype}", f"{shape} of {dtype}")
    if dtype.kind == "f" and not (np.isfinite(array) | (np.isnan(array) & np.isnan(one.metadata["start"]))).all():
        check.fail(owner, one.name, "not finite", "finite numbers")
    if one.name == "found" and (array[..., 1] < 0.0).any():
        check.fail(owner, "the error of the plan", array[..., 1].min(), "at least 0")
    if limit is not None and not ((array >= -1) & (array < limit(sizes))).all():
        check.fail(owner, one.name, "beyond the table", "steps that can be")
    if one.name == "policy":
        for policy in array[None] if n is None else array:
            checked_switching_policy(owner, sizes.task, policy if sizes.task.horizon is not None else policy[0])


# ------------------------------------------------------------------------------------------------- many learners, stacked


def stack_states(sizes: Sizes, states: Sequence[LearnerState], keeps_plans: bool) -> Arrays:
    """Stack the states of n learners with the same settings: arrays by name, whose first axis is the team.

    Counts are concatenated; the array NAME_size, (n,), says how many each team has. keeps_plans: whether policy and value are
    included.
    """
    result: Arrays = {"planned": np.array([state.planned if keeps_plans else 0 for state in states], dtype=np.int64)}
    result["fresh"] = np.array([keeps_plans and state.must_use_plan for state in states], dtype=np.int64)
    for name in SEEN:
        seen: list[Seen] = [getattr(state, name) for state in states]
        result[f"{name}_size"] = np.array([len(one.key) for one in seen], dtype=np.int64)
        result[f"{name}_key"] = np.concatenate([one.key for one in seen])
        result[f"{name}_number"] = np.concatenate([one.number for one in seen])
    for one in has(sizes) + [one for one in ARRAYS if keeps_plans and one.name in PLAN]:
        shape, given = one.metadata["shape"](sizes), [getattr(state, one.name) for state in states]
        if one.name in PLAN:  # zeros that are never touched need no memory
            result[one.name] = np.zeros((len(states), *shape), dtype=one.metadata["dtype"])
            for i, array in enumerate(given):
                if states[i].has_plan:
                    result[one.name][i] = array
        else:
            start = at_start(one, sizes)
            result[one.name] = np.stack([array if array.size else start for array in given])
    return result


def unstack_states(sizes: Sizes, stacked: Arrays, before: Sequence[LearnerState], episodes: int, own: int) -> list[LearnerState]:
    """Return the states of n learners from a stack, as `stack_states` makes it, after a run.

    before: the states before the run. episodes: how many episodes were counted since. own: how many of them into the learner's own
    environment counts. Large arrays are handed over, not copied.
    """
    result = []
    ends = {name: np.cumsum(stacked[f"{name}_size"]) for name in SEEN}
    for i, state in enumerate(before):
        found: dict[str, Any] = {one.name: stacked[one.name][i] for one in has(sizes)}
        for name, end in ends.items():
            part = slice(end[i] - stacked[f"{name}_size"][i], end[i])
            found[name] = Seen(stacked[f"{name}_key"][part].copy(), stacked[f"{name}_number"][part].copy())
        if "value" in stacked and stacked["planned"][i] > 0:
            found |= {name: stacked[name][i] for name in PLAN}
            found |= {"planned": int(stacked["planned"][i]), "stale": not stacked["fresh"][i]}
        found |= {"episodes": state.episodes + episodes, "environment_episodes": state.environment_episodes + own}
        result.append(LearnerState(**found))
    return result


def part_of(stacked: Arrays, begin: int, end: int) -> Arrays:
    """Return the stack of the teams from begin to end."""
    result = {}
    for name, array in stacked.items():
        layer, _, part = name.rpartition("_")
        first, last = begin, end
        if layer in SEEN and part in ("key", "number"):
            ends = np.concatenate([[0], np.cumsum(stacked[f"{layer}_size"])])
            first, last = ends[begin], ends[end]
        result[name] = array[first:last]
    return result


def joined(stacks: Sequence[Arrays]) -> Arrays:
    """Return one stack of the teams of several stacks, in their order."""
    if len(stacks) == 1:
        return stacks[0]
    return {name: np.concatenate([stack[name] for stack in stacks]) for name in stacks[0]}


def check_stack(owner: str, sizes: Sizes, stacked: Arrays, n: int) -> None:
    """Check a stack of n states that comes from outside, before a kernel reads it."""
    for name, shape in sizes.seen.items():
        size, seen = stacked[f"{name}_size"], Seen(stacked[f"{name}_key"], stacked[f"{name}_number"])
        if size.dtype != np.int64 or size.shape != (n,) or (size < 0).any() or size.sum() != len(seen.key):
            check.fail(owner, f"the sizes of the counts of {name}", "torn", "one for each team, as many as there are counts")
        check_seen(owner, name, seen, shape, np.repeat(np.arange(n), size))
    rows, columns = np.divmod(stacked["environment_key"], sizes.layers[1][1])
    check_counted(owner, sizes.told.outcomes, rows, columns)
    for name, most in (("planned", most_episodes(sizes.task)), ("fresh", 1)):
        array = stacked[name]
        if array.dtype != np.int64 or array.shape != (n,) or (array < 0).any() or (array > most).any():
            check.fail(owner, name, "impossible", f"integers from 0 to {most}, one for each team")
    for i, (begin, end) in enumerate(pairwise([0, *np.cumsum(stacked["costs_size"]).tolist()])):
        seen = Seen(stacked["costs_key"][begin:end], stacked["costs_number"][begin:end])
        if len(seen.key):
            check_sums(f"{owner}, team {i}", seen.matrix(sizes.layers[2]))
    for one in ARRAYS:
        if one.name in stacked:
            check_array(owner, one, stacked[one.name], sizes, n)
