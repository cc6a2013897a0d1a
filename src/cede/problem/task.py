"""The task: what a learner is told of a problem. Sizes, costs, horizon and names, but no probabilities.

Where hand-overs take time, agents and members differ. The example of takeover.py, used in the docstrings below: a team of
"machine" and "human", where the human needs 2 steps to take over and the machine acts meanwhile. The task then has four agents:

    agent    name                                         acting      aim        table
    0        "machine"                                    machine     machine    machine
    1        "human"                                      human       human      human
    2        "human (taking over from machine, 1 of 2)"   machine     human      machine
    3        "human (taking over from machine, 2 of 2)"   machine     human      machine
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cede._base import check
from cede._base.arrays import Floats, Policy, for_kernels, read_only
from cede._base.remade import Remade
from cede.problem.takeover import Modes, checked_delays, fold, handovers_until, next_agent_towards

VariesWith = Literal["time", "prev_agent"] | None

# What an agent's policy varies with, as compiled code reads it: the same numbers as in _kernels/model.py, which a test compares.
# They are repeated here so that describing a problem does not load Numba.
CONSTANT, BY_TIME, BY_PREV_AGENT = 0, 1, 2
KIND = {None: CONSTANT, "time": BY_TIME, "prev_agent": BY_PREV_AGENT}
LETTERS = {None: "(S, A)", "time": "(L, S, A)", "prev_agent": "(D, S, A)"}

# A plan holds (L + 1) S D values; beyond this many no machine could keep one, and products of sizes could overflow.
MOST_VALUES = 2**40
MOST_COST, LEAST_COST = 1e100, 1e-100  # so that no sum of costs can overflow, and no square become 0


def checked_policy(owner: str, policy: ArrayLike, varies_with: VariesWith, shape: Sequence[int] | None = None) -> Floats:
    """Check an agent's policy and return it as a read-only float array, (S, A), (L, S, A) or (D, S, A) by `varies_with`.

    owner: who is named in the error. shape: the exact shape that it must have; None if any sizes will do.
    """
    letters = LETTERS[varies_with]
    sides = shape if shape is not None else (None,) * (2 if varies_with is None else 3)
    result = check.array(owner, "policy", policy, sides, letters)
    check.distributions(owner, "policy", result)
    return result


def checked_names(owner: str, names: tuple[str, ...]) -> None:
    """Check that the names of the agents differ, and that there are not too many agents for the int16 of a switching policy."""
    most = np.iinfo(np.int16).max
    if len(names) > most:
        check.fail(owner, "the number of agents", len(names), f"at most {most}")
    for i, name in enumerate(names):
        if name in names[:i]:
            check.fail(owner, f"the name of agents[{i}]", repr(name), f"different from that of agents[{names.index(name)}]")


def checked_switch_cost(owner: str, value: Any, n_agents: int) -> Floats:
    """Check switching costs, one number or (D, D), and return them as a read-only (D, D) array [prev_agent, agent].

    Infinity stands for a hand-over that is not possible; from each agent at least one must be possible.
    """
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
    """Return the index of an agent that is given by its index or by its name; `names` are all names in order."""
    if isinstance(given, str):
        if given not in names:
            check.fail(owner, place, check.show(given), check.one_of(names))
        return names.index(given)
    return check.index(owner, place, given, len(names))


@dataclass(frozen=True, eq=False)
class Task(Remade):
    """What a learner is told of a problem: sizes, costs, horizon and the names of the agents, but no probabilities.

    Build one directly for a system of your own, or take `mdp.task`.

    env_cost: (S, A), the cost of each action in each state. agents: D different names. horizon: L, the number of steps of an
    episode. control_cost: (D,), or one number for all agents. switch_cost: (D, D) [prev_agent, agent], or one number for every
    hand-over; infinity where a hand-over is not possible. start_agent: who is in control before the first step, an index or a name.
    varies_with: for each agent None, "time" or "prev_agent": what its policy may depend on besides the state; the learner keeps
    one table for each time step, or for each previous agent.

    takeover_delay: the number of steps that agents need to take over, by name, as in {"human": 2}. During these steps the agent
    before still acts, except if on_takeover lists the name: then the agent acts itself, by a separate policy for these steps.
    Every such step is added to the task as an agent of its own (takeover.py). `agents` and D then count these steps too, while
    `members` are the agents that were given.
    """

    env_cost: Any  # (S, A) float64
    agents: Sequence[str]  # (D,) names; the members first, then the steps of slow hand-overs
    horizon: int
    control_cost: Any = 0.0  # (D,) float64, or a number for all
    switch_cost: Any = 0.0  # (D, D) float64 [prev_agent, agent], or a number
    start_agent: Any = 0  # index or name; kept as the index
    varies_with: Sequence[VariesWith] | None = None  # (D,)
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None
    takeover_delay: Any = None  # steps by name; None once the steps have been added to `agents`
    on_takeover: Sequence[str] = ()  # names; empty once the steps have been added to `agents`
    modes: Modes | None = None  # who acts when each agent is in control; None: each agent acts itself, by its own policy

    def __post_init__(self) -> None:
        put = object.__setattr__
        env_cost = check.array("Task", "env_cost", self.env_cost, (None, None), "(S, A)")
        expected = "a sequence of at least one name"
        names = tuple(check.items("Task", "agents", self.agents, expected))
        if not names or isinstance(self.agents, Mapping | set | frozenset):
            check.fail("Task", "agents", check.show(self.agents), expected)
        for i, name in enumerate(names):
            check.name("Task", f"agents[{i}]", name)
        checked_names("Task", names)
        horizon = check.integer("Task", "horizon", self.horizon, 1)
        control_cost = self.control_cost
        if check.ndim(control_cost) == 0:
            control_cost = np.full(len(names), check.number("Task", "control_cost", control_cost))
        given = (None,) * len(names) if self.varies_with is None else self.varies_with
        varies_with = tuple(check.items("Task", "varies_with", given, "None, 'time' or 'prev_agent' for each agent"))
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
        elif self.takeover_delay is not None or self.on_takeover != ():
            check.fail(
                "Task", "takeover_delay", check.show(self.takeover_delay), "given to a task without: this one has it folded in"
            )
        else:
            self._check_modes(self.modes)
        values = (horizon + 1) * env_cost.shape[0] * self.n_agents
        if values > MOST_VALUES:
            check.fail("Task", "(horizon + 1) x states x agents", values, f"at most {MOST_VALUES}")
        largest = 0.0
        for name in ("env_cost", "control_cost", "switch_cost"):
            costs = getattr(self, name)
            largest = max(largest, float(np.abs(costs[np.isfinite(costs)]).max()))
            if largest > MOST_COST:
                check.fail("Task", f"the largest {name}", largest, f"at most {MOST_COST:g} in size")
        if 0.0 < largest < LEAST_COST:
            check.fail("Task", "the largest cost", largest, f"0, or at least {LEAST_COST:g} in size: use a smaller unit")
        put(self, "start_agent", self.agent_index("Task", "start_agent", self.start_agent))
        put(self, "state_names", check.names("Task", "state_names", self.state_names, env_cost.shape[0]))
        put(self, "action_names", check.names("Task", "action_names", self.action_names, env_cost.shape[1]))

    def _fold(self) -> None:
        """Replace takeover_delay and on_takeover by further agents, one for each step of a slow hand-over (takeover.py)."""
        assert self.varies_with is not None
        delays, own = checked_delays(
            "Task", self.agents, {} if self.takeover_delay is None else self.takeover_delay, self.on_takeover
        )
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

    def _check_modes(self, modes: Any) -> None:
        """Check modes that are given, as they are when a folded task is made again with other costs, or comes from a file.

        Kernels find the row of an agent by what its policy varies with, so all agents that act by one policy must agree in that.
        """
        check.instance("Task", "modes", modes, Modes)
        n, members, tables = self.n_agents, modes.members, modes.tables
        if len(modes.table) != n:
            check.fail("Task", "the number of agents of modes", len(modes.table), f"{n}, as of agents")
        if tables[:members] != self.agents[:members] or len(set(tables)) < len(tables):
            check.fail(
                "Task", "the names in modes.tables", check.show(tables), f"different, {check.show(self.agents[:members])} first"
            )
        assert self.varies_with is not None
        for i, kind in enumerate(self.varies_with):
            table = modes.table[i]
            expected = self.varies_with[table] if table < members else None
            if kind != expected or (n > members and kind == "prev_agent"):
                fits = "None or 'time'" if kind == expected else f"{expected!r}, as of the policy that it acts by"
                check.fail("Task", f"varies_with[{i}]", repr(kind), fits)

    @cached_property
    def roles(self) -> Modes:
        """Return who acts, and by which policy, when each agent is in control: `modes`, or its plain form if that is None."""
        return Modes.plain(self.agents) if self.modes is None else self.modes

    @property
    def members(self) -> tuple[str, ...]:
        """Return the names of the agents that the team consists of, without the steps of slow hand-overs.

        In the example of this module: ("machine", "human").
        """
        return tuple(self.agents[: max(self.roles.acting) + 1])

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the T policies that there are to learn.

        These are the members' policies, and then the separate policies of those in on_takeover. In the example of this module:
        ("machine", "human"); with on_takeover=["human"]: ("machine", "human", "human (taking over)").
        """
        return self.roles.tables

    @cached_property
    def acting(self) -> NDArray[np.int64]:
        """Return for each agent the member who acts, and whose control is paid, while that agent is in control, (D,).

        In the example of this module: [0, 1, 0, 0], since the machine acts while the human takes over.
        """
        return read_only(np.array(self.roles.acting, dtype=np.int64))

    @cached_property
    def aim(self) -> NDArray[np.int64]:
        """Return for each agent the member who has control or is getting it, (D,); a switch is where this changes.

        In the example of this module: [0, 1, 1, 1], since both steps of the hand-over lead to the human.
        """
        return read_only(np.array(self.roles.aim, dtype=np.int64))

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """Return for each agent the policy that it acts by, as an index into `tables`, (D,).

        In the example of this module: [0, 1, 0, 0]; with on_takeover=["human"]: [0, 1, 2, 2].
        """
        return read_only(np.array(self.roles.table, dtype=np.int64))

    def step_cost(self, state: Any, prev_agent: Any, agent: Any, action: Any) -> Any:
        """Return the cost of a step: environment, control and switching cost (Eq. 1), added in the order of the kernels.

        All arguments are indices, or arrays of indices for several steps.
        """
        return self.env_cost[state, action] + self.control_cost[agent] + self.switch_cost[prev_agent, agent]

    def can_reach(self, agent: int) -> bool:
        """Tell whether control can ever come to an agent, beginning with the start agent."""
        return bool(np.isfinite(handovers_until(self.switch_cost, agent)[self.start_agent]))

    def always(self, agent: int | str) -> NDArray[np.int16]:
        """Return the switching policy that gives control to one agent as soon as possible and leaves it there, (L, S, D).

        agent: an index or a name. The result holds agents, indexed [t, s, prev_agent]. If control cannot come to the agent, that is
        an error.
        """
        agent = self.agent_index("Task.always", "agent", agent)
        if not self.can_reach(agent):
            expected = f"one to whom control can come from {self.agents[self.start_agent]!r}, the start agent"
            check.fail("Task.always", "agent", repr(self.agents[agent]), expected)
        shape = (self.horizon, self.n_states, self.n_agents)
        return np.broadcast_to(np.array(next_agent_towards(self.switch_cost, agent), dtype=np.int16), shape).copy()

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
        """Return the index of an agent that is given by its index or by its name; owner and place are for the error."""
        return name_index(owner, place, agent, self.agents)

    @cached_property
    def table_varies(self) -> tuple[VariesWith, ...]:
        """Return what each policy varies with besides the state, for each of `tables`, (T,)."""
        assert self.varies_with is not None
        return tuple(self.varies_with[int(np.argmax(self.table == i))] for i in range(len(self.tables)))

    @cached_property
    def n_slots(self) -> NDArray[np.int64]:
        """Return the number of slots of each policy, (T,). A slot is one (S, A) table.

        A policy has one slot; L slots if it varies with time; D slots if it varies with the previous agent.
        """
        sizes = {None: 1, "time": self.horizon, "prev_agent": self.n_agents}
        return read_only(np.array([sizes[kind] for kind in self.table_varies], dtype=np.int64))

    @cached_property
    def first_slot(self) -> NDArray[np.int64]:
        """Return the first slot of each policy, (T,): the slots of all policies lie one after the other in one array."""
        return read_only(np.concatenate([[0], np.cumsum(self.n_slots)[:-1]]))

    @cached_property
    def slot(self) -> NDArray[np.int64]:
        """Return the first slot of the policy that each agent acts by, (D,)."""
        return read_only(np.ascontiguousarray(self.first_slot[self.table]))

    @cached_property
    def vary(self) -> NDArray[np.int64]:
        """Return varies_with as the codes CONSTANT, BY_TIME, BY_PREV_AGENT that compiled code reads, (D,)."""
        return read_only(np.array([KIND[kind] for kind in self.varies_with or ()], dtype=np.int64))

    def slot_shape(self, table: int) -> tuple[int, ...]:
        """Return the shape that a policy must have, given its index among `tables`: (S, A), (L, S, A) or (D, S, A)."""
        shape = (self.n_states, self.n_actions)
        return shape if self.table_varies[table] is None else (int(self.n_slots[table]), *shape)

    def known_agents(self, owner: str, policies: Mapping[str, ArrayLike]) -> dict[int, Floats]:
        """Check policies that are given by name; return them by their index among `tables`, each as (slots, S, A)."""
        result: dict[int, Floats] = {}
        for name, policy in check.mapping(owner, "known_agents", policies, "policies by the agents' names").items():
            check.name(owner, "an agent of known_agents", name)
            table = name_index(owner, "an agent of known_agents", name, self.tables)
            shape = self.slot_shape(table)
            checked = checked_policy(f"{owner}, known agent {name!r}", policy, self.table_varies[table], shape)
            result[table] = checked.reshape(-1, self.n_states, self.n_actions)
        return result


def checked_switching_policy(owner: str, task: Task, policy: ArrayLike) -> Policy:
    """Check a switching policy, (L, S, D) agents, and return it in the type that kernels read."""
    given = check.unmasked(owner, "policy", policy)
    shape = (task.horizon, task.n_states, task.n_agents)
    if given is None or given.dtype.kind == "O":
        check.fail(owner, "policy", check.show(policy), f"an array of integers of shape (L, S, D) = {shape}")
    if given.dtype.kind not in "iu":
        check.fail(owner, "the type of policy", given.dtype, "an integer type")
    if given.shape != shape:
        check.fail(owner, "the shape of policy", given.shape, f"(L, S, D) = {shape}")
    bad = np.argwhere((given < 0) | (given >= task.n_agents))
    if len(bad):
        place = check.place_of("policy", bad[0])
        check.fail(owner, place, given[tuple(bad[0])], f"an agent from 0 to {task.n_agents - 1}")
    if not np.isfinite(task.switch_cost).all():
        barred = np.isinf(np.take_along_axis(task.switch_cost[None, None], given[..., None].astype(np.int64), axis=3)[..., 0])
        if barred.any():
            where = np.argwhere(barred)[0]
            expected = f"an agent to whom {task.agents[where[2]]!r} can hand control"
            check.fail(
                owner, check.place_of("policy", where), f"{given[tuple(where)]} ({task.agents[given[tuple(where)]]!r})", expected
            )
    return for_kernels(given)
