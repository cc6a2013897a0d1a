"""The problem: an environment and a team of agents make a two-layer Markov decision process (Section 2 of the paper).

    Environment + Team = TwoLayerMDP, the truth.        Task: what a learner is told of it.

Input is checked here, once. Index order is [t, s, prev_agent, agent, a, s_next], leaving out what is absent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from cede import _check
from cede._check import Floats
from cede._kernels import BY_PREV_AGENT, BY_TIME, CONSTANT
from cede.belief import Belief
from cede.structure import Structure, checked_structure
from cede.table import Table, canonical, distinct_rows

VariesWith = Literal["time", "prev_agent"] | None

KIND = {None: CONSTANT, "time": BY_TIME, "prev_agent": BY_PREV_AGENT}
LETTERS = {None: "(S, A)", "time": "(L, S, A)", "prev_agent": "(D, S, A)"}

# A plan holds (L + 1) S D values; beyond this many no machine could keep one, and products of sizes could overflow.
MOST_VALUES = 2**40
MOST_COST = 1e100  # so that no sum of costs can overflow


@dataclass(frozen=True, eq=False)
class Environment:
    """How the system moves and what that costs.

    transition: (S, A, S) array or SciPy sparse (S*A, S) matrix, row s*A + a; kept as the latter. cost: (S, A), or (S,) if it does
    not depend on the action; any finite number, also negative. start: (S,) probabilities of the first state.
    """

    transition: Any  # kept as scipy.sparse.csr_array of shape (S*A, S)
    cost: Any  # kept as (S, A) float64
    start: Any  # (S,) float64
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        transition = checked_transition(self.transition)
        n_states = transition.shape[1]
        n_actions = transition.shape[0] // n_states
        cost = self.cost
        if _check.ndim(cost) == 1:
            per_state = _check.array("Environment", "cost", cost, (n_states,), "(S,)")
            cost = np.repeat(per_state[:, None], n_actions, axis=1)
        cost = _check.array("Environment", "cost", cost, (n_states, n_actions), "(S, A)")
        start = _check.array("Environment", "start", self.start, (n_states,), "(S,)")
        _check.distributions("Environment", "start", start)
        put = object.__setattr__
        put(self, "transition", transition)
        put(self, "cost", cost)
        put(self, "start", start)
        put(self, "state_names", _check.names("Environment", "state_names", self.state_names, n_states))
        put(self, "action_names", _check.names("Environment", "action_names", self.action_names, n_actions))

    @property
    def n_states(self) -> int:
        return int(self.transition.shape[1])

    @property
    def n_actions(self) -> int:
        return int(self.transition.shape[0] // self.transition.shape[1])

    @cached_property
    def cumulated_start(self) -> Floats:
        """(S,) running sums of the start distribution, to draw the first state from."""
        return np.cumsum(self.start)

    @cached_property
    def truth(self) -> Belief:
        """The true table, width 0; equal rows are kept and planned once."""
        rows, which = distinct_rows(self.transition)
        return Belief(Table.of(rows), np.zeros(rows.shape[0]), which.reshape(self.n_states, self.n_actions))


def checked_transition(value: Any) -> sp.csr_array:
    owner, argument = "Environment", "transition"
    if not sp.issparse(value):
        dense = _check.array(owner, argument, value, (None, None, None), "(S, A, S)")
        if dense.shape[0] != dense.shape[2]:
            _check.fail(owner, f"the shape of {argument}", dense.shape, "(S, A, S), first and last equal")
        _check.distributions(owner, argument, dense)
        return canonical(sp.csr_array(dense.reshape(-1, dense.shape[2])))
    rows, n_states = value.shape
    if n_states == 0 or rows == 0 or rows % n_states:
        _check.fail(owner, f"the shape of the sparse {argument}", (rows, n_states), "(S*A, S), row s*A + a")
    if value.dtype.kind not in "fiub":
        _check.fail(owner, f"the type of {argument}", value.dtype, "a real number type")
    matrix = canonical(sp.csr_array(value, dtype=np.float64))
    n_actions = rows // n_states
    places = sp.coo_array(matrix)

    def place(where: int) -> str:
        row, column = int(places.coords[0][where]), int(places.coords[1][where])
        return f"{argument}[{row // n_actions}, {row % n_actions}, {column}]"

    for bad, expected in ((~np.isfinite(matrix.data), "a finite number"), (matrix.data < 0, "a probability, at least 0")):
        if bad.any():
            where = int(np.argmax(bad))
            _check.fail(owner, place(where), places.data[where], expected)
    sums = np.asarray(matrix.sum(axis=1)).reshape(n_states, n_actions)
    wrong = np.argwhere(np.abs(sums - 1.0) > _check.TOLERANCE)
    if len(wrong):
        s, a = wrong[0]
        raise ValueError(f"{owner}: {argument}[{s}, {a}] sums to {sums[s, a]:.10g}, must be 1")
    return matrix


@dataclass(frozen=True, eq=False)
class Agent:
    """One who can be in control: a person, a machine, a model.

    policy: (S, A), the probability of each action in each state. With varies_with="time" it is (L, S, A); with "prev_agent" it
    is (D, S, A) and depends on who was in control before (the paper's remark on policies that change with the hand-over).
    control_cost: what each step in control costs.
    """

    name: str
    policy: Any  # (S, A), (L, S, A) or (D, S, A) float64
    control_cost: float = 0.0
    varies_with: VariesWith = None

    def __post_init__(self) -> None:
        _check.name("Agent", "name", self.name)
        owner = f"Agent {self.name!r}"
        _check.choice(owner, "varies_with", self.varies_with, tuple(KIND))
        policy = checked_policy(owner, self.policy, self.varies_with)
        object.__setattr__(self, "policy", policy)
        object.__setattr__(self, "control_cost", _check.number(owner, "control_cost", self.control_cost))


def checked_policy(owner: str, policy: ArrayLike, varies_with: VariesWith, shape: Sequence[int] | None = None) -> Floats:
    letters = LETTERS[varies_with]
    sides = shape if shape is not None else (None,) * (2 if varies_with is None else 3)
    result = _check.array(owner, "policy", policy, sides, letters)
    _check.distributions(owner, "policy", result)
    return result


@dataclass(frozen=True, eq=False)
class Team:
    """The agents, and what it costs to hand control from one to another.

    switch_cost: a number (every hand-over costs it, staying is free) or a (D, D) array [prev_agent, agent].
    """

    agents: Sequence[Agent]
    switch_cost: Any = 0.0  # kept as (D, D) float64

    def __post_init__(self) -> None:
        agents = tuple(self.agents) if isinstance(self.agents, Sequence) else ()
        if not agents:
            _check.fail("Team", "agents", _check.show(self.agents), "a sequence of at least one Agent")
        for i, agent in enumerate(agents):
            if not isinstance(agent, Agent):
                _check.fail("Team", f"agents[{i}]", _check.show(agent), "an Agent")
        checked_names("Team", tuple(agent.name for agent in agents))
        object.__setattr__(self, "agents", agents)
        object.__setattr__(self, "switch_cost", checked_switch_cost("Team", self.switch_cost, len(agents)))

    @property
    def n_agents(self) -> int:
        return len(self.agents)


def checked_names(owner: str, names: tuple[str, ...]) -> None:
    most = np.iinfo(np.int16).max
    if len(names) > most:
        _check.fail(owner, "the number of agents", len(names), f"at most {most}")
    for i, name in enumerate(names):
        if name in names[:i]:
            _check.fail(owner, f"the name of agents[{i}]", repr(name), f"different from that of agents[{names.index(name)}]")


def checked_switch_cost(owner: str, value: Any, n_agents: int) -> Floats:
    if _check.ndim(value) == 0:
        each = _check.number(owner, "switch_cost", value)
        value = each * (1.0 - np.eye(n_agents))
    return _check.array(owner, "switch_cost", value, (n_agents, n_agents), "(D, D)")


@dataclass(frozen=True, eq=False)
class Task:
    """What a learner is told: sizes, costs, horizon and who is in the team. No probabilities.

    Build one directly for a system of your own, or take `mdp.task`. varies_with tells for each agent whether its policy may
    depend on time or on the previous agent; such agents are learned with a table for each.
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

    def __post_init__(self) -> None:
        put = object.__setattr__
        env_cost = _check.array("Task", "env_cost", self.env_cost, (None, None), "(S, A)")
        names = () if isinstance(self.agents, str) else tuple(self.agents)
        if not names:
            _check.fail("Task", "agents", _check.show(self.agents), "a sequence of at least one name")
        for i, name in enumerate(names):
            _check.name("Task", f"agents[{i}]", name)
        checked_names("Task", names)
        horizon = _check.integer("Task", "horizon", self.horizon, 1)
        values = (horizon + 1) * env_cost.shape[0] * len(names)
        if values > MOST_VALUES:
            _check.fail("Task", "(horizon + 1) x states x agents", values, f"at most {MOST_VALUES}")
        control_cost = self.control_cost
        if _check.ndim(control_cost) == 0:
            control_cost = np.full(len(names), _check.number("Task", "control_cost", control_cost))
        varies_with = (None,) * len(names) if self.varies_with is None else tuple(self.varies_with)
        if len(varies_with) != len(names):
            _check.fail("Task", "the length of varies_with", len(varies_with), str(len(names)))
        for i, kind in enumerate(varies_with):
            _check.choice("Task", f"varies_with[{i}]", kind, tuple(KIND))
        put(self, "env_cost", env_cost)
        put(self, "agents", names)
        put(self, "horizon", horizon)
        put(self, "control_cost", _check.array("Task", "control_cost", control_cost, (len(names),), "(D,)"))
        put(self, "switch_cost", checked_switch_cost("Task", self.switch_cost, len(names)))
        put(self, "varies_with", varies_with)
        for name in ("env_cost", "control_cost", "switch_cost"):
            largest = float(np.abs(getattr(self, name)).max())
            if largest > MOST_COST:
                _check.fail("Task", f"the largest {name}", largest, f"at most {MOST_COST:g} in size")
        put(self, "start_agent", self.agent_index("Task", "start_agent", self.start_agent))
        put(self, "state_names", _check.names("Task", "state_names", self.state_names, env_cost.shape[0]))
        put(self, "action_names", _check.names("Task", "action_names", self.action_names, env_cost.shape[1]))

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
        if isinstance(agent, str):
            if agent not in self.agents:
                _check.fail(owner, place, repr(agent), "one of " + ", ".join(map(repr, self.agents)))
            return self.agents.index(agent)
        return _check.index(owner, place, agent, self.n_agents)

    @cached_property
    def n_slots(self) -> NDArray[np.int64]:
        """(D,) tables that each agent has: one, one per time step, or one per previous agent."""
        sizes = {None: 1, "time": self.horizon, "prev_agent": self.n_agents}
        return np.array([sizes[kind] for kind in self.varies_with or ()], dtype=np.int64)

    @cached_property
    def slot(self) -> NDArray[np.int64]:
        """(D,) the first slot of each agent: its tables lie one after the other."""
        return np.concatenate([[0], np.cumsum(self.n_slots)[:-1]])

    @cached_property
    def vary(self) -> NDArray[np.int64]:
        """(D,) varies_with as the codes of _kernels."""
        return np.array([KIND[kind] for kind in self.varies_with or ()], dtype=np.int64)

    def slot_shape(self, agent: int) -> tuple[int, ...]:
        """The shape of an agent's policy in this task."""
        assert self.varies_with is not None
        table = (self.n_states, self.n_actions)
        return table if self.varies_with[agent] is None else (int(self.n_slots[agent]), *table)

    def known_agents(self, owner: str, policies: Mapping[str, ArrayLike]) -> dict[int, Floats]:
        """Checked policies by agent index, each as (slots, S, A)."""
        assert self.varies_with is not None
        result: dict[int, Floats] = {}
        for name, policy in policies.items():
            agent = self.agent_index(owner, "an agent of known_agents", name)
            shape = self.slot_shape(agent)
            checked = checked_policy(f"{owner}, known agent {name!r}", policy, self.varies_with[agent], shape)
            result[agent] = checked.reshape(-1, self.n_states, self.n_actions)
        return result


@dataclass(frozen=True, eq=False)
class TwoLayerMDP:
    """The whole truth: who may act, how, and what then happens. `task` is the part that a learner is told."""

    environment: Environment
    team: Team
    horizon: int
    start_agent: Any = 0  # index or name; kept as the index
    structure: Structure | None = None  # what may be declared of it; learners use it only if they are told (structure=)

    def __post_init__(self) -> None:
        owner = "TwoLayerMDP"
        if not isinstance(self.environment, Environment):
            _check.fail(owner, "environment", _check.show(self.environment), "an Environment")
        if not isinstance(self.team, Team):
            _check.fail(owner, "team", _check.show(self.team), "a Team")
        _check.integer(owner, "horizon", self.horizon, 1)
        object.__setattr__(self, "start_agent", self.task.start_agent)
        checked_structure(owner, self.structure, self.task.n_states, self.task.n_actions, self.task.agents)
        for agent, a in enumerate(self.team.agents):
            shape = self.task.slot_shape(agent)
            if a.policy.shape != shape:
                letters = LETTERS[a.varies_with]
                _check.fail(f"Agent {a.name!r}", "the shape of policy", a.policy.shape, f"{letters} = {shape} in this problem")

    @cached_property
    def task(self) -> Task:
        agents = self.team.agents
        return Task(
            env_cost=self.environment.cost,
            agents=[a.name for a in agents],
            horizon=self.horizon,
            control_cost=np.array([a.control_cost for a in agents]),
            switch_cost=self.team.switch_cost,
            start_agent=self.start_agent,
            varies_with=[a.varies_with for a in agents],
            state_names=self.environment.state_names,
            action_names=self.environment.action_names,
        )

    @cached_property
    def truth(self) -> tuple[Belief, Belief]:
        """The true tables of agents and environment, width 0."""
        tables = np.concatenate([a.policy.reshape(-1, self.task.n_actions) for a in self.team.agents])
        slots = len(tables) // self.task.n_states
        return Belief.of(tables, 0.0, (slots, self.task.n_states)), self.environment.truth
