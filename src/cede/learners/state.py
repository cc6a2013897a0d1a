"""The state of a learner between episodes, as one declared table of fields.

Every field of `LearnerState` declares its shape, type, start value, and which learners have it. All other code iterates over the
fields: start values, packing for shards, cutting and joining stacks, files, checkpoints, and checks. A new field is a line here and
the code that uses it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints, Policy
from cede._base.remade import Remade
from cede._kernels.limits import PRICE
from cede.beliefs.extras import Extra, Extras, check_extras, of_layer
from cede.beliefs.feature_prior import FeaturePrior, LayerRows
from cede.learners.promises import Baseline
from cede.learners.proof import RECORD, UNDECIDED
from cede.learners.settings import Settings
from cede.problem.policies import checked_switching_policy
from cede.problem.task import Task
from cede.rows.fading import FADED_UNIT, Window, longest_window
from cede.rows.places import AGENT, COSTS, ENVIRONMENT, START, Places
from cede.rows.stored import (
    MOST_COUNT,
    NOTHING,
    Counts,
    LayerCounts,
    apart,
    check_layer,
    check_outcomes_counted,
    check_sums,
    own_layers,
)

PRICE_NUMBERS, RECORD_NUMBERS = (dtype.itemsize // 8 for dtype in (PRICE, RECORD))


@dataclass(frozen=True, eq=False)
class Sizes(Remade):
    """Task and settings of a learner, from which the shapes of all fields of its state follow."""

    task: Task
    settings: Settings

    @cached_property
    def places(self) -> Places:
        """Return the rows of all layers."""
        return Places(self.task, self.settings.flat, self.settings.structure)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Return (rows, columns) of every layer, by name."""
        return self.places.shapes

    @cached_property
    def seen(self) -> dict[str, tuple[int, int]]:
        """Return (rows, columns) of the counts of all agents, of the environment, of the sums of costs and of first states."""
        shapes = self.places.shapes
        others = {"environment": shapes[ENVIRONMENT], "costs": shapes[COSTS], "starts": shapes[START]}
        return {"agents": (sum(self.places.agent_rows), self.task.n_actions), **others}

    @cached_property
    def arrays(self) -> "list[Field[Any]]":
        """Return the declared array fields, without policy and value, that such a learner has."""
        return [declared for declared in ARRAYS if declared.name not in PLAN and declared.metadata["when"](self)]

    @cached_property
    def option(self) -> FeaturePrior | None:
        """Return the option that owns the extras, or None."""
        task, settings = self.task, self.settings
        if settings.features is None:
            return None
        own, agents, environment = settings.modelled_agents(task), self.seen["agents"], self.seen["environment"]
        rows = self.places.agent_rows
        ends = np.cumsum(rows).tolist()
        blocks = {name: (end - n, end if name in own else end - n) for name, n, end in zip(task.tables, rows, ends, strict=True)}
        whole = {"environment": (0, environment[0] if settings.models_environment(task) else 0)}
        layers = {"agents": LayerRows(agents, blocks), "environment": LayerRows(environment, whole)}
        return FeaturePrior(settings.features, settings.prior, task.plan_steps, layers)

    @property
    def extras(self) -> tuple[Extra, ...]:
        """Return the extras that the option declares."""
        return () if self.option is None else self.option.extras

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
        """Return the number of episodes after which an observed cost is forgotten; 0: never, or no costs are learned."""
        return longest_window([self.settings.forgetting.environment]) if self.seen["costs"][0] else 0


Shape = Callable[[Sizes], tuple[int, ...]]
Names = tuple[str, ...]  # of the agents of a team, `task.tables`


def array_field(
    dtype: Any, shape: Shape, when: Callable[[Sizes], bool], *, start: float = 0, limit: Callable[[Sizes], int] | None = None
) -> Any:
    """Declare an array field of `LearnerState`.

    dtype: its type. shape, when: functions of `Sizes`: its shape, and whether such a learner has the field. start: the value that
    fills it at first. limit: for indices into a table, a function of `Sizes` that returns the length of the table; -1 is no index.
    In a state, an empty array stands for the start values.
    """
    about = {"dtype": np.dtype(dtype), "shape": shape, "when": when, "start": start, "limit": limit}
    return field(default_factory=partial(np.empty, 0, dtype), metadata=about)


@dataclass(frozen=True, eq=False)
class LearnerState:
    """The state of one learner between episodes. `Learner.state` returns it."""

    counts: Counts = NOTHING  # without environment and costs if these are shared with a fleet; a layer that is missing is empty
    planned: int = 0  # the episode for which the plan was made; 0: there is no plan
    stale: bool = False  # whether an episode was counted since the last check whether a new plan is due
    extras: Extras = field(default_factory=dict)  # arrays that an option owns, by name; without the environment's if it is shared
    policy: Policy = array_field(np.int16, lambda s: s.plan, lambda s: True)
    value: Floats = array_field(float, lambda s: (s.plan[0] + 1, *s.plan[1:]), lambda s: s.settings.policy is None)
    found: Floats = array_field(
        float, lambda s: (2,), lambda s: s.endless and s.settings.policy is None
    )  # gain and error of the plan
    agents_planned_visits: Floats = array_field(float, lambda s: (s.seen["agents"][0],), lambda s: s.settings.replan == "doubling")
    environment_planned_visits: Floats = array_field(
        float, lambda s: (s.seen["environment"][0],), lambda s: s.settings.replan == "doubling"
    )
    bounds: Floats = array_field(
        float, lambda s: (s.plan[0] + 1, *s.plan[1:]), lambda s: s.settings.planning == "greedy", start=np.nan
    )
    agents_recent: Ints = array_field(
        int,
        lambda s: (longest_window(s.settings.forgetting.agents.values()), s.task.plan_steps),
        lambda s: longest_window(s.settings.forgetting.agents.values()) > 0,
        start=-1,
        limit=lambda s: prod(s.seen["agents"]),
    )
    environment_recent: Ints = array_field(
        int,
        lambda s: (longest_window([s.settings.forgetting.environment]), s.task.plan_steps),
        lambda s: longest_window([s.settings.forgetting.environment]) > 0,
        start=-1,
        limit=lambda s: prod(s.seen["environment"]),
    )
    costs_recent_row: Ints = array_field(
        int,
        lambda s: (s.cost_window, len(s.task.charges) * s.task.plan_steps),
        lambda s: s.cost_window > 0,
        start=-1,
        limit=lambda s: s.seen["costs"][0],
    )
    costs_recent_part: Floats = array_field(
        float, lambda s: (s.cost_window, len(s.task.charges) * s.task.plan_steps), lambda s: s.cost_window > 0
    )
    prices: Floats = array_field(float, lambda s: (len(s.task.members) * PRICE_NUMBERS,), lambda s: s.settings.limits is not None)
    taken: Ints = array_field(  # steps of each member since the plan was made
        int, lambda s: (len(s.task.members),), lambda s: s.endless and s.settings.limits is not None, limit=lambda s: 2**53
    )
    spent: Floats = array_field(float, lambda s: (2,), lambda s: s.settings.trials is not None)  # episodes, and their cost
    record: Floats = array_field(float, lambda s: (RECORD_NUMBERS,), lambda s: s.settings.baseline is not None)

    @property
    def episodes(self) -> int:
        """Return how many episodes were counted; steps without a horizon."""
        return self.counts.episodes

    @property
    def environment_episodes(self) -> int:
        """Return how many of them are in its own environment counts."""
        return self.counts.environment_episodes

    @property
    def has_plan(self) -> bool:
        """Return whether there is a plan."""
        return bool(self.policy.size and self.value.size)

    def without_environment(self, shared: Collection[str] = ()) -> "LearnerState":
        """Return the state of a learner that joins a fleet: without environment counts, and without a plan. shared: names of layers
        of agents that it shares, too.
        """
        record = self.record.copy()
        record.view(RECORD)["decided"] = UNDECIDED
        extras, start = of_layer(self.extras, "agents"), LearnerState()
        counts = Counts(own_layers(self.counts, shared), self.episodes, 0, self.counts.others_episodes)
        return replace(self, counts=counts, planned=0, extras=extras, policy=start.policy, value=start.value, record=record)

    def with_environment(
        self, sizes: Sizes, layers: Mapping[str, LayerCounts], episodes: int, agents_episodes: int, extras: Extras
    ) -> "LearnerState":
        """Return the state of a learner that leaves a fleet. layers, extras: that were shared. episodes, agents_episodes: counted
        into the environment, and into shared agents if it has some.
        """
        declared = {extra.name for extra in sizes.extras}
        extras = {**self.extras, **{name: array for name, array in extras.items() if name in declared}}
        others = max(self.counts.others_episodes, agents_episodes - self.episodes)
        return replace(self, counts=Counts({**own_layers(self.counts), **layers}, self.episodes, episodes, others), extras=extras)

    def never_left(self, baseline: Baseline | None) -> tuple[str, ...]:
        """Return the warning that a learner has kept to its baseline in all episodes so far, and why; or nothing."""
        seen = self.record.view(RECORD)[0] if self.record.size else None
        if baseline is None or seen is None or seen["explored"] > 0 or seen["kept"] == 0:
            return ()
        text = f"it has kept to its baseline ({check.printable(baseline.name)}) in all {seen['kept']:,.0f} episodes so far"
        if baseline.start is None:
            text += ": without start= its sets must prove what deviating costs from every first state, which may never happen"
        return (text,)

    @property
    def must_use_plan(self) -> bool:
        """Return whether the next episode must use the plan: no episode was counted since the last check."""
        return self.has_plan and not self.stale


PLAN = ("policy", "value")
NUMBERS = tuple(declared.name for declared in fields(LearnerState) if declared.type in (int, bool))
EPISODES = ("episodes", "environment_episodes", "others_episodes")
ARRAYS: tuple[Field[Any], ...] = tuple(declared for declared in fields(LearnerState) if declared.metadata)

Arrays = dict[str, NDArray[Any]]


def at_start(declared: Field[Any], sizes: Sizes) -> NDArray[Any]:
    """Return an array field as it is at the start."""
    return np.full(declared.metadata["shape"](sizes), declared.metadata["start"], dtype=declared.metadata["dtype"])


# -------------------------------------------------------------------------------- one learner, as arrays by name


def pack_state(state: LearnerState) -> tuple[dict[str, Any], Arrays]:
    """Return the numbers of a state, and its arrays by name. `unpack_state` is the inverse."""
    numbers: dict[str, Any] = {name: getattr(state.counts, name) for name in EPISODES}
    numbers |= {name: getattr(state, name) for name in NUMBERS}
    numbers["layers"] = list(state.counts.layers)
    arrays: Arrays = {declared.name: np.ascontiguousarray(getattr(state, declared.name)) for declared in ARRAYS}
    for i, layer in enumerate(state.counts.layers.values()):
        arrays |= {f"counts/{i}/key": layer.key, f"counts/{i}/number": layer.number}
    return numbers, arrays | {f"extras/{name}": array for name, array in state.extras.items()}


def unpack_state(sizes: Sizes, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> LearnerState:
    """Make a state from numbers and arrays of a file. All are checked here, since kernels do not check them."""
    values: dict[str, Any] = {}
    for name in (*EPISODES, *NUMBERS):
        if name == "stale":
            values[name] = check.choice("file", name, numbers[name], (True, False))
        else:
            values[name] = check.integer("file", name, numbers.get(name, 0), 0, most_episodes(sizes.task))
    if values["planned"] > values["episodes"] + 1:
        check.fail("file", "planned", values["planned"], f"at most {values['episodes'] + 1}, the next episode")
    values["counts"] = Counts(unpack_layers(sizes, numbers, arrays), *(values.pop(name) for name in EPISODES))
    for declared in ARRAYS:
        nothing = np.empty(0, dtype=declared.metadata["dtype"])  # of a field that older files lack: its start values
        values[declared.name] = arrays.get(declared.name, nothing)
        check_array("file", declared, values[declared.name], sizes)
    values["extras"] = {name.removeprefix("extras/"): array for name, array in arrays.items() if name.startswith("extras/")}
    check_extras("file", sizes.extras, values["extras"])
    if values["policy"].size != 0 and values["value"].size == 0 and sizes.settings.policy is None:
        check.fail("file", "the value of the plan", "missing", "there, as its policy is")
    state = LearnerState(**values)
    check_possible("file", sizes, state.counts)
    return state


def unpack_layers(sizes: Sizes, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> dict[str, LayerCounts]:
    """Make the layers of stored counts, after checks. Before schema 7, one table held the rows of all agents."""
    layers = {}
    if "layers" in numbers:
        for i, name in enumerate(numbers["layers"]):
            shape = sizes.shapes[check.choice("file", "a layer", name, tuple(sizes.shapes))]
            layers[name] = LayerCounts(shape, arrays[f"counts/{i}/key"], arrays[f"counts/{i}/number"])
    else:
        fused = LayerCounts(sizes.seen["agents"], arrays["agents_key"], arrays["agents_number"])
        check_layer("file", "agents", fused)
        rows = sizes.places.agent_rows
        layers = dict(zip((f"{AGENT}{name}" for name in sizes.task.tables), apart(fused, rows), strict=True))
        for name, old in ((ENVIRONMENT, "environment"), (COSTS, "costs"), (START, "starts")):
            if f"{old}_key" in arrays:
                layers[name] = LayerCounts(sizes.shapes[name], arrays[f"{old}_key"], arrays[f"{old}_number"])
    for name, layer in layers.items():
        check_layer("file", name, layer)
    check_outcomes_counted("file", sizes.settings.outcomes, layers.get(ENVIRONMENT, LayerCounts.empty((0, 1))))
    return layers


def most_episodes(task: Task) -> int:
    """Return the greatest number of episodes for which the number of steps does not overflow."""
    return MOST_COUNT // (task.plan_steps + 1)


def first_state(owner: str, sizes: Sizes, counts: Counts | None) -> LearnerState:
    """Return the state of a new learner. counts: earlier counts, which are checked: layers, whole numbers unless they fade, and
    `check_possible`.
    """
    if counts is None:
        return LearnerState()
    rules = sizes.settings.forgetting
    windows = [rule for rule in (*rules.agents.values(), rules.environment) if isinstance(rule, Window)]
    if windows:
        check.fail(owner, "counts", "given", f"left out with {windows[0]}: it must see the steps to forget them")
    check.instance(owner, "counts", counts, Counts)
    for name, layer in counts.layers.items():
        shape = sizes.shapes.get(name)
        if layer.shape != shape:
            check.fail(owner, f"the shape of {name} in counts", layer.shape, "a layer of the task" if shape is None else str(shape))
        fades = rules.environment if name == ENVIRONMENT else rules.agents.get(name.removeprefix(AGENT))
        units = layer.number * FADED_UNIT  # counts that faded at once are multiples of such a unit
        fraction = layer.number[units != np.round(units)]
        if name not in (COSTS, START) and fades is None and len(fraction):
            check.fail(owner, f"a count of {name}", fraction[0], f"whole, or a multiple of 1/{FADED_UNIT:g}: it forgets nothing")
    check_outcomes_counted(owner, sizes.settings.outcomes, counts.completed(sizes.shapes).layers[ENVIRONMENT])
    check_possible(owner, sizes, counts)
    return LearnerState(counts)


def check_possible(owner: str, sizes: Sizes, counts: Counts) -> None:
    """Check that counts are not greater than the number of steps of their episodes allows. Radii rely on that."""
    steps, whole = sizes.task.plan_steps, counts.completed(sizes.shapes)
    agents = ((f"{AGENT}{name}", layer, counts.episodes + counts.others_episodes) for name, layer in whole.agent_layers.items())
    for name, layer, episodes in (*agents, (ENVIRONMENT, whole.layers[ENVIRONMENT], counts.environment_episodes)):
        if layer.total > episodes * steps * (1 + 1e-9):
            expected = f"possible in {episodes} episodes of {steps} steps"
            check.fail(owner, f"the sum of the counts of {name}", f"{layer.total:g}", expected)
    check_cost_sums(owner, sizes, whole.layers[COSTS], counts.environment_episodes)
    begun = whole.layers[START].total
    if begun > counts.episodes * (1 + 1e-9) or (sizes.endless and begun):
        check.fail(owner, "the sum of starts", f"{begun:g}", f"possible in {counts.episodes} episodes")


def check_cost_sums(owner: str, sizes: Sizes, layer: LayerCounts, episodes: int) -> None:
    """Check sums of costs, and that there are at most as many for each step of the counted episodes as it has charges."""
    if len(layer.key):
        check_sums(owner, layer)
        counted = float(layer.matrix[:, [0]].sum())
        if counted > len(sizes.task.charges) * episodes * sizes.task.plan_steps * (1 + 1e-9):
            check.fail(owner, "the number of costs", f"{counted:g}", f"possible in {episodes} episodes")


def check_array(owner: str, declared: Field[Any], array: NDArray[Any], sizes: Sizes, n: int | None = None) -> None:
    """Check an array of a declared field. The array of one learner may be empty, for the start values.

    n: the length of the first axis, if the arrays of n teams are stacked; None for one learner.
    """
    shape = declared.metadata["shape"](sizes) if n is None else (n, *declared.metadata["shape"](sizes))
    dtype, limit = declared.metadata["dtype"], declared.metadata["limit"]
    if n is None and array.size == 0 and array.dtype == dtype:
        return
    if (
        array.dtype != dtype
        or array.shape != shape
        or (n is None and declared.name not in PLAN and not declared.metadata["when"](sizes))
    ):
        check.fail(owner, f"the shape of {declared.name}", f"{array.shape} of {array.dtype}", f"{shape} of {dtype}")
    if dtype.kind == "f" and not (np.isfinite(array) | (np.isnan(array) & np.isnan(declared.metadata["start"]))).all():
        check.fail(owner, declared.name, "not finite", "finite numbers")
    if declared.name == "found" and (array[..., 1] < 0.0).any():
        check.fail(owner, "the error of the plan", array[..., 1].min(), "at least 0")
    if limit is not None and not ((array >= -1) & (array < limit(sizes))).all():
        check.fail(owner, declared.name, "beyond the table", "steps that can be")
    if declared.name == "policy":
        for policy in array[None] if n is None else array:
            checked_switching_policy(owner, sizes.task, policy if sizes.task.horizon is not None else policy[0])
