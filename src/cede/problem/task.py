"""What a learner is told of a problem: sizes, costs, horizon, who is in the team. No probabilities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cede._base import check
from cede._base.arrays import Floats
from cede.problem.takeover import Modes, checked_delays, fold, steps_to, way_to

VariesWith = Literal["time", "prev_agent"] | None

# What an agent's policy varies with, as compiled code reads it: the same numbers as in _kernels/data.py, which a test compares.
# They are repeated here so that describing a problem does not load Numba.
CONSTANT, BY_TIME, BY_PREV_AGENT = 0, 1, 2
KIND = {None: CONSTANT, "time": BY_TIME, "prev_agent": BY_PREV_AGENT}
LETTERS = {None: "(S, A)", "time": "(L, S, A)", "prev_agent": "(D, S, A)"}

# A plan holds (L + 1) S D values; beyond this many no machine could keep one, and products of sizes could overflow.
MOST_VALUES = 2**40
MOST_COST = 1e100  # so that no sum of costs can overflow


def checked_policy(owner: str, policy: ArrayLike, varies_with: VariesWith, shape: Sequence[int] | None = None) -> Floats:
    letters = LETTERS[varies_with]
    sides = shape if shape is not None else (None,) * (2 if varies_with is None else 3)
    result = check.array(owner, "policy", policy, sides, letters)
    check.distributions(owner, "policy", result)
    return result


def checked_names(owner: str, names: tuple[str, ...]) -> None:
    most = np.iinfo(np.int16).max
    if len(names) > most:
        check.fail(owner, "the number of agents", len(names), f"at most {most}")
    for i, name in enumerate(names):
        if name in names[:i]:
            check.fail(owner, f"the name of agents[{i}]", repr(name), f"different from that of agents[{names.index(name)}]")


def checked_switch_cost(owner: str, value: Any, n_agents: int) -> Floats:
    if check.ndim(value) == 0:
        each = check.number(owner, "switch_cost", value)
        value = each * (1.0 - np.eye(n_agents))
    given = check.copied(owner, "switch_cost", value, "(D, D)")
    barred = given == np.inf
    finite = check.array(owner, "switch_cost", np.where(barred, 0.0, given), (n_agents, n_agents), "(D, D)")
    if not barred.any():
        return finite
    stuck = np.flatnonzero(barred.all(axis=1))
    if len(stuck):
        check.fail(owner, f"switch_cost[{stuck[0]}]", "infinite for all agents", "finite for at least one: somebody is in control")
    given.setflags(write=False)
    return given


def name_index(owner: str, place: str, given: Any, names: Sequence[str]) -> int:
    """The index of somebody given by index or name."""
    if isinstance(given, str):
        if given not in names:
            check.fail(owner, place, repr(given), "one of " + ", ".join(map(repr, names)))
        return names.index(given)
    return check.index(owner, place, given, len(names))


@dataclass(frozen=True, eq=False)
class Task:
    """What a learner is told: sizes, costs, horizon and who is in the team. No probabilities.

    Build one directly for a system of your own, or take `mdp.task`. varies_with tells for each agent whether its policy may
    depend on time or on the previous agent; such agents are learned with a table for each.

    takeover_delay: steps that agents need to take over, by name; on_takeover: names of those who act themselves meanwhile, in a way
    of their own, instead of the agent before. Every step of such a hand-over is an agent of the task then (takeover.py): `agents`
    are more than the `members` of the team.
    """

    env_cost: Any  # (S, A) float64
    agents: Sequence[str]  # (D,) names
    horizon: int
    control_cost: Any = 0.0  # (D,) float64, or a number for all
    switch_cost: Any = 0.0  # (D, D) float64 [prev_agent, agent], or a number
    start_agent: Any = 0  # index or name; kept as the index
    varies_with: Sequence[VariesWith] | None = None  # (D,)
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None
    takeover_delay: Any = None  # steps by name; folded into the rest, and None then
    on_takeover: Sequence[str] = ()  # likewise
    modes: Modes | None = None  # who acts, and by which policy, when an agent is in control; None: itself, by its own

    def __post_init__(self) -> None:
        put = object.__setattr__
        env_cost = check.array("Task", "env_cost", self.env_cost, (None, None), "(S, A)")
        names = () if isinstance(self.agents, str) else tuple(self.agents)
        if not names:
            check.fail("Task", "agents", check.show(self.agents), "a sequence of at least one name")
        for i, name in enumerate(names):
            check.name("Task", f"agents[{i}]", name)
        checked_names("Task", names)
        horizon = check.integer("Task", "horizon", self.horizon, 1)
        control_cost = self.control_cost
        if check.ndim(control_cost) == 0:
            control_cost = np.full(len(names), check.number("Task", "control_cost", control_cost))
        varies_with = (None,) * len(names) if self.varies_with is None else tuple(self.varies_with)
        if len(varies_with) != len(names):
            check.fail("Task", "the length of varies_with", len(varies_with), str(len(names)))
        for i, kind in enumerate(varies_with):
            check.choice("Task", f"varies_with[{i}]", kind, tuple(KIND))
        put(self, "env_cost", env_cost)
        put(self, "agents", names)
        put(self, "horizon", horizon)
        put(self, "control_cost", check.array("Task", "control_cost", control_cost, (len(names),), "(D,)"))
        put(self, "switch_cost", checked_switch_cost("Task", self.switch_cost, len(names)))
        put(self, "varies_with", varies_with)
        if self.modes is None:
            self._fold()
        elif self.takeover_delay or self.on_takeover:
            check.fail(
                "Task", "takeover_delay", check.show(self.takeover_delay), "given to a task without: this one has it folded in"
            )
        elif not isinstance(self.modes, Modes) or len(self.modes.table) != len(names):
            check.fail("Task", "modes", check.show(self.modes), f"Modes of {len(names)} agents")
        values = (horizon + 1) * env_cost.shape[0] * self.n_agents
        if values > MOST_VALUES:
            check.fail("Task", "(horizon + 1) x states x agents", values, f"at most {MOST_VALUES}")
        for name in ("env_cost", "control_cost", "switch_cost"):
            costs = getattr(self, name)
            largest = float(np.abs(costs[np.isfinite(costs)]).max())
            if largest > MOST_COST:
                check.fail("Task", f"the largest {name}", largest, f"at most {MOST_COST:g} in size")
        put(self, "start_agent", self.agent_index("Task", "start_agent", self.start_agent))
        put(self, "state_names", check.names("Task", "state_names", self.state_names, env_cost.shape[0]))
        put(self, "action_names", check.names("Task", "action_names", self.action_names, env_cost.shape[1]))

    def _fold(self) -> None:
        """Make agents of the steps of hand-overs that take time."""
        assert self.varies_with is not None
        delays, own = checked_delays("Task", self.agents, self.takeover_delay or {}, self.on_takeover)
        if any(delays):
            if "prev_agent" in self.varies_with:
                name = self.agents[self.varies_with.index("prev_agent")]
                check.fail("Task", f"varies_with of {name!r}", "'prev_agent'", "None or 'time' in a team with takeover_delay")
            folded = fold(self.agents, self.switch_cost, delays, own)
            for given in (folded.agents, folded.modes.tables):
                checked_names("Task", given)
            acting, table, members = np.array(folded.modes.acting), folded.modes.table, len(self.agents)
            control_cost = self.control_cost[acting]
            for array in (control_cost, folded.switch_cost):
                array.setflags(write=False)
            put = object.__setattr__
            put(self, "varies_with", tuple(self.varies_with[i] if i < members else None for i in table))
            put(self, "control_cost", control_cost)
            put(self, "switch_cost", folded.switch_cost)
            put(self, "agents", folded.agents)
            put(self, "modes", folded.modes)
        object.__setattr__(self, "takeover_delay", None)
        object.__setattr__(self, "on_takeover", ())

    @cached_property
    def roles(self) -> Modes:
        """Who acts, and by which policy, when an agent is in control."""
        return Modes.plain(self.agents) if self.modes is None else self.modes

    @property
    def members(self) -> tuple[str, ...]:
        """The team: its agents without the steps of hand-overs that take time."""
        return tuple(self.agents[: max(self.roles.acting) + 1])

    @property
    def tables(self) -> tuple[str, ...]:
        """(T,) whose policies there are to be learned: those of the members, and of those who act differently while taking over."""
        return self.roles.tables

    @cached_property
    def acting(self) -> NDArray[np.int64]:
        """(D,) the member who acts when each agent is in control."""
        return np.array(self.roles.acting, dtype=np.int64)

    @cached_property
    def aim(self) -> NDArray[np.int64]:
        """(D,) the member who is in control then, or is taking over."""
        return np.array(self.roles.aim, dtype=np.int64)

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """(D,) the policy that each agent acts by."""
        return np.array(self.roles.table, dtype=np.int64)

    def step_cost(self, state: Any, prev_agent: Any, agent: Any, action: Any) -> Any:
        """What a step costs, or each of several: environment, control and hand-over (Eq. 1), added in the order of the kernels."""
        return self.env_cost[state, action] + self.control_cost[agent] + self.switch_cost[prev_agent, agent]

    def can_reach(self, agent: int) -> bool:
        """Can control come to an agent at all?"""
        return bool(np.isfinite(steps_to(self.switch_cost, agent)[self.start_agent]))

    def always(self, agent: int) -> NDArray[np.int16]:
        """(L, S, D) the switching policy that gives control to an agent as soon as can be, and leaves it there."""
        if not self.can_reach(agent):
            expected = f"one to whom control can come from {self.agents[self.start_agent]!r}, the start agent"
            check.fail("Task.always", "agent", repr(self.agents[agent]), expected)
        shape = (self.horizon, self.n_states, self.n_agents)
        return np.broadcast_to(np.array(way_to(self.switch_cost, agent), dtype=np.int16), shape).copy()

    @property
    def n_states(self) -> int:
        return int(self.env_cost.shape[0])

    @property
    def n_actions(self) -> int:
        return int(self.env_cost.shape[1])

    @property
    def n_agents(self) -> int:
        return len(self.agents)

    def agent_index(self, owner: str, place: str, agent: Any) -> int:
        """The index of an agent given by index or name."""
        return name_index(owner, place, agent, self.agents)

    @cached_property
    def table_varies(self) -> tuple[VariesWith, ...]:
        """(T,) what each policy varies with."""
        assert self.varies_with is not None
        return tuple(self.varies_with[int(np.argmax(self.table == i))] for i in range(len(self.tables)))

    @cached_property
    def n_slots(self) -> NDArray[np.int64]:
        """(T,) the slots of each policy: one, one per time step, or one per previous agent."""
        sizes = {None: 1, "time": self.horizon, "prev_agent": self.n_agents}
        return np.array([sizes[kind] for kind in self.table_varies], dtype=np.int64)

    @cached_property
    def first_slot(self) -> NDArray[np.int64]:
        """(T,) the first slot of each policy: they lie one after the other."""
        return np.concatenate([[0], np.cumsum(self.n_slots)[:-1]])

    @cached_property
    def slot(self) -> NDArray[np.int64]:
        """(D,) the first slot of the policy that each agent acts by."""
        return np.ascontiguousarray(self.first_slot[self.table])

    @cached_property
    def vary(self) -> NDArray[np.int64]:
        """(D,) varies_with as the codes of _kernels."""
        return np.array([KIND[kind] for kind in self.varies_with or ()], dtype=np.int64)

    def slot_shape(self, table: int) -> tuple[int, ...]:
        """The shape of a policy in this task."""
        shape = (self.n_states, self.n_actions)
        return shape if self.table_varies[table] is None else (int(self.n_slots[table]), *shape)

    def known_agents(self, owner: str, policies: Mapping[str, ArrayLike]) -> dict[int, Floats]:
        """Checked policies by their number among `tables`, each as (slots, S, A)."""
        result: dict[int, Floats] = {}
        for name, policy in policies.items():
            table = name_index(owner, "an agent of known_agents", name, self.tables)
            shape = self.slot_shape(table)
            checked = checked_policy(f"{owner}, known agent {name!r}", policy, self.table_varies[table], shape)
            result[table] = checked.reshape(-1, self.n_states, self.n_actions)
        return result
