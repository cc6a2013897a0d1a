"""The problem: an environment and a team of agents make a two-layer Markov decision process (Section 2 of the paper).

    Environment + Team = TwoLayerMDP, the true model.   Task (task.py): the input of a learner.

Each class checks its arguments when it is built; all other code trusts them. Arrays are indexed in the order
[t, s, prev_agent, agent, a, s_next], leaving out what is absent. S, A, D and L are the numbers of states, actions, agents and time
steps (the horizon).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Floats, canonical, read_only
from cede._base.calls import clear_constructor
from cede._base.remade import Remade
from cede._base.reprs import listed, plural, short_repr
from cede.problem.costs import (
    checked_can_switch,
    checked_enter_cost,
    checked_grab_cost,
    checked_periods,
    checked_switch_cost,
    checked_terminal,
    named_or_numbers,
    without_dead_ends,
)
from cede.problem.layout import KIND, VariesWith
from cede.problem.names import checked_names
from cede.problem.policies import LETTERS, checked_policy
from cede.problem.structure import Outcomes, Structure, checked_structure
from cede.problem.takeover import check_own_policy, checked_delay
from cede.problem.task import Task


@clear_constructor
@dataclass(frozen=True, eq=False)
class Environment(Remade):
    """The transition probabilities and the costs of the system.

    transition: probabilities of the next state, an (S, A, S) array or a SciPy sparse `(S*A, S)` matrix with row `s*A + a`; kept
    sparse. cost: (S, A), or (S,) if the action does not matter; any finite numbers, also negative. Random costs: (S, A, Q), Q
    equally likely numbers; for any distribution give its quantiles, as in scipy.stats.beta(2, 5).ppf((np.arange(100) + 0.5) / 100).
    start: (S,) probabilities of the first state.

    enter_cost: what arriving in a state costs, (S,), or by state as in {"crash": 10.0}. terminal: states in which an episode ends,
    by index or name; their transition probabilities are ignored. state_names, action_names: S and A strings for reports and
    pictures.

    varies_with: "time" if there is a table for each time step of an episode: transition is then (L, S, A, S), or a sequence of L
    sparse matrices. periods: the index of the table of each time step, (L,), if several time steps share a table.
    """

    transition: Any  # kept as scipy.sparse.csr_array of shape (S*A, S), or (P*S*A, S) if there are P tables
    cost: Any  # kept as (S, A) float64: the mean
    start: Any  # (S,) float64
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None
    enter_cost: Any = None  # (S,) float64; None: arriving costs nothing
    terminal: Any = ()  # indices, ascending
    varies_with: Literal["time"] | None = None
    periods: Any = None  # (L,) int64; None: one table holds always
    random_cost: Any = None  # (S, A, Q) float64, the original `cost`; None: costs are not random

    def __post_init__(self) -> None:
        owner = "Environment"
        check.choice(owner, "varies_with", self.varies_with, (None, "time"))
        transition, tables = checked_tables(self.transition, self.varies_with == "time", self.periods)
        n_states = transition.shape[1]
        n_actions = transition.shape[0] // n_states // tables
        cost, random_cost = self.cost, self.random_cost
        if check.ndim(cost) == 3:
            random_cost = check.array(owner, "cost", cost, (n_states, n_actions, None), "(S, A, Q)")
        if random_cost is not None:
            random_cost = check.array(owner, "random_cost", random_cost, (n_states, n_actions, None), "(S, A, Q)")
            cost = random_cost.mean(axis=2)
        if check.ndim(cost) == 1:
            per_state = check.array(owner, "cost", cost, (n_states,), "(S,)")
            cost = np.repeat(per_state[:, None], n_actions, axis=1)
        for array in (transition.data, transition.indices, transition.indptr):
            read_only(array)
        periods = None
        if tables > 1:
            periods = np.arange(tables) if self.periods is None else self.periods
            periods = checked_periods(owner, periods, len(check.items(owner, "periods", periods, "numbers")))
        self._set(
            transition=transition,
            cost=check.array(owner, "cost", cost, (n_states, n_actions), "(S, A)"),
            random_cost=random_cost,
            start=check.probabilities(owner, "start", self.start, (n_states,), "(S,)"),
            state_names=check.names(owner, "state_names", self.state_names, n_states),
            action_names=check.names(owner, "action_names", self.action_names, n_actions),
            periods=periods,
            varies_with=None if periods is None else "time",
        )
        enter_cost = checked_enter_cost(owner, self.enter_cost, n_states, self.state_names)
        if enter_cost is not None:
            check.finite(owner, "enter_cost", enter_cost)
        self._set(enter_cost=enter_cost, terminal=checked_terminal(owner, self.terminal, n_states, self.state_names))
        for s in self.terminal:
            if self.start[s] > 0:
                check.fail(owner, f"start[{s}]", self.start[s], "0: an episode cannot begin in a terminal state")

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            tables = f"{self.n_tables:,} tables" if self.periods is not None else None
            ends = f"ends in {plural(len(self.terminal), 'state')}" if self.terminal else None
            possible = f"{self.transition.nnz:,} possible steps"
            return plural(self.n_states, "state"), plural(self.n_actions, "action"), tables, possible, ends

        return short_repr(self, parts)

    @property
    def n_states(self) -> int:
        return int(self.transition.shape[1])

    @property
    def n_tables(self) -> int:
        """Return how many tables of probabilities there are: 1 unless it varies with time."""
        return 1 if self.periods is None else int(self.periods.max()) + 1

    @property
    def n_actions(self) -> int:
        return int(self.transition.shape[0] // self.transition.shape[1] // self.n_tables)

    @cached_property
    def tables(self) -> tuple[sp.csr_array, ...]:
        """Return the tables of probabilities, (S*A, S) each."""
        rows = self.n_states * self.n_actions
        return tuple(self.transition[i * rows : (i + 1) * rows] for i in range(self.n_tables))

    @cached_property
    def cumulated_start(self) -> Floats:
        """Return the running sums of `start`, (S,), from which the first state is drawn."""
        return read_only(np.cumsum(self.start))


def checked_tables(value: Any, varies: bool, periods: Any) -> tuple[sp.csr_array, int]:
    """Check the transition probabilities of an environment; return them as one matrix, and the number of tables in it.

    varies: whether there is a table for each time step. periods: the index of the table of each time step, (L,), or None.
    """
    owner = "Environment"
    if not varies and periods is None:
        return checked_transition(value), 1
    wanted = None
    if periods is not None:
        numbers = check.integers(owner, "periods", periods, 1)
        if not numbers.size or numbers.min() < 0:
            check.fail(owner, "periods", check.show(periods), "a number from 0 on for each time step")
        wanted = int(numbers.max()) + 1
    expected = "a table for each time step: (L, S, A, S), or a sequence of sparse matrices"
    if sp.issparse(value):
        if wanted is None or value.ndim != 2 or not value.shape[0] or value.shape[0] % wanted:
            check.fail(owner, "transition", "one matrix", expected)
        matrix, rows = sp.csr_array(value), value.shape[0] // wanted  # as it is kept: table after table
        value = [matrix[i * rows : (i + 1) * rows] for i in range(wanted)]
    tables = [checked_transition(table) for table in check.items(owner, "transition", value, expected)]
    if not tables:
        check.fail(owner, "transition", "empty", expected)
    for i, table in enumerate(tables):
        if table.shape != tables[0].shape:
            check.fail(owner, f"the shape of transition[{i}]", table.shape, f"{tables[0].shape}, as of transition[0]")
    if wanted is not None and wanted != len(tables):
        check.fail(owner, "the number of tables of transition", len(tables), f"{wanted}, by periods")
    return sp.csr_array(sp.vstack(tables, format="csr")), len(tables)


def checked_transition(value: Any) -> sp.csr_array:
    """Check transition probabilities, dense (S, A, S) or sparse (S*A, S); return them sparse, (S*A, S), in canonical form."""
    owner, argument = "Environment", "transition"
    if not sp.issparse(value):
        sides = np.shape(value) if check.ndim(value) == 3 else (None, None, None)
        if sides[0] != sides[2]:
            check.fail(owner, f"the shape of {argument}", sides, "(S, A, S), first and last equal")
        dense = check.probabilities(owner, argument, value, sides, "(S, A, S)")
        return canonical(sp.csr_array(dense.reshape(-1, dense.shape[2])))
    rows, n_states = value.shape if value.ndim == 2 else (0, 0)
    if n_states == 0 or rows == 0 or rows % n_states:
        check.fail(owner, f"the shape of the sparse {argument}", value.shape, "(S*A, S), row s*A + a")
    if value.dtype.kind not in "fiub":
        check.fail(owner, f"the type of {argument}", value.dtype, "a real number type")
    matrix = canonical(sp.csr_array(value, dtype=np.float64))
    n_actions = rows // n_states
    for bad, expected in ((~np.isfinite(matrix.data), "a finite number"), (matrix.data < 0, "a probability, at least 0")):
        if bad.any():
            where = int(np.argmax(bad))
            row = int(np.searchsorted(matrix.indptr, where, side="right")) - 1
            place = check.place_of(argument, (*divmod(row, n_actions), matrix.indices[where]))
            check.fail(owner, place, matrix.data[where], expected)
    sums = np.asarray(matrix.sum(axis=1)).reshape(n_states, n_actions)
    precision, terms = check.precision_of(value.dtype), np.diff(matrix.indptr)
    wrong = np.argwhere(np.abs(sums - 1.0) > check.rounding_of_sums(precision, terms.reshape(sums.shape)))
    if len(wrong):
        s, a = wrong[0]
        raise ValueError(f"{owner}: {argument}[{s}, {a}] sums to {sums[s, a]:.10g}, must be 1")
    if precision > 0.0:
        matrix.data /= np.repeat(sums.ravel(), terms)
    return matrix


@clear_constructor
@dataclass(frozen=True, eq=False)
class Agent(Remade):
    """An agent that can be in control: a person, a machine, a model.

    policy: the probability of each action in each state, (S, A). With varies_with="time" it is (L, S, A), one table for each time
    step; with varies_with="prev_agent" it is (D, S, A), one table for each agent that may have been in control before (the
    paper's remark on policies that change with the hand-over). control_cost: the cost of each step in control, one number or (S,).

    takeover_delay: how many steps the agent needs to take over, or the probabilities of 0, 1, 2, ... steps (see `Task`). During
    these steps the previous agent still acts; or, with on_takeover, (S, A), the agent itself acts by that policy.
    """

    name: str
    policy: Any  # (S, A), (L, S, A) or (D, S, A) float64
    control_cost: Any = 0.0  # a float, or (S,) float64
    varies_with: VariesWith = None
    takeover_delay: Any = 0  # an int, or a tuple of floats
    on_takeover: Any = None  # (S, A) float64

    def __post_init__(self) -> None:
        check.name("Agent", "name", self.name)
        owner = f"Agent {self.name!r}"
        check.choice(owner, "varies_with", self.varies_with, tuple(KIND))
        policy = checked_policy(owner, self.policy, self.varies_with)
        cost = self.control_cost
        if check.ndim(cost) == 1:
            cost = check.array(owner, "control_cost", cost, (policy.shape[-2],), "(S,)")
        else:
            cost = check.number(owner, "control_cost", cost)
        delay = checked_delay(owner, "takeover_delay", self.takeover_delay)
        self._set(policy=policy, control_cost=cost, takeover_delay=delay)
        if self.on_takeover is not None:
            check_own_policy(owner, "takeover_delay", delay)
            self._set(on_takeover=check.probabilities(owner, "on_takeover", self.on_takeover, policy.shape[-2:], "(S, A)"))

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            cost = "by state" if check.ndim(self.control_cost) else f"{self.control_cost:g}"
            varies = None if self.varies_with is None else f"varies with {self.varies_with}"
            steps = self.takeover_delay
            delay = (
                None
                if not steps
                else "takes over in a random time"
                if isinstance(steps, tuple)
                else f"takes over in {plural(steps, 'step')}"
            )
            sizes = f"{plural(self.policy.shape[-2], 'state')}, {plural(self.policy.shape[-1], 'action')}"
            return repr(listed([self.name])), sizes, f"control cost {cost}", varies, delay

        return short_repr(self, parts)


@clear_constructor
@dataclass(frozen=True, eq=False)
class Team(Remade):
    """The agents that share the system, and the cost of handing control from one to another.

    agents: D agents with different names. switch_cost: one number (each hand-over costs that much and staying is free), or a (D, D)
    array indexed [prev_agent, agent], with infinity where a hand-over is not possible; or (S, D, D) if it depends on the state; or
    by name as in {("robot", "operator"): 0.3}, where others cost nothing. grab_cost: the cost of a hand-over that the task does not
    allow but that happens, for example without its takeover_delay; in the same forms, by default switch_cost (see `Task`).
    can_switch: which hand-overs are allowed, booleans (D, D) or (S, D, D), or a function of state, prev_agent and agent (see
    `Task`).
    """

    agents: Sequence[Agent]
    switch_cost: Any = 0.0  # kept as (D, D) or (S, D, D) float64
    grab_cost: Any = None  # kept as (D, D) or (S, D, D) float64, or None
    can_switch: Any = None  # booleans (D, D) or (S, D, D), or a function

    def __post_init__(self) -> None:
        agents = tuple(self.agents) if isinstance(self.agents, Sequence) and not isinstance(self.agents, str | bytes) else ()
        if not agents:
            check.fail("Team", "agents", check.show(self.agents), "a sequence of at least one Agent")
        for i, agent in enumerate(agents):
            if not isinstance(agent, Agent):
                check.fail("Team", f"agents[{i}]", check.show(agent), "an Agent")
        names = tuple(agent.name for agent in agents)
        checked_names("Team", names)
        switch_cost = checked_switch_cost("Team", self.switch_cost, names)
        barred = bool(np.isinf(switch_cost).any()) or self.can_switch is not None or any(agent.takeover_delay for agent in agents)
        grab_cost = checked_grab_cost("Team", self.grab_cost, names, switch_cost, None, barred)
        if self.can_switch is not None and not callable(self.can_switch):
            self._set(can_switch=checked_can_switch("Team", self.can_switch, None, names))
        if switch_cost.ndim == 2:
            without_dead_ends("Team", switch_cost, names, None, ())
        for name, costs in (("switch_cost", switch_cost), ("grab_cost", grab_cost)):
            if costs is not None:  # a problem states all costs; a learner's task may not
                check.finite("Team", name, np.where(np.isinf(costs), 0.0, costs))
        self._set(agents=agents, switch_cost=switch_cost, grab_cost=grab_cost)

    @property
    def n_agents(self) -> int:
        return len(self.agents)

    def __repr__(self) -> str:
        return short_repr(self, lambda: (f"{plural(len(self.agents), 'agent')}: {listed([agent.name for agent in self.agents])}",))


@clear_constructor
@dataclass(frozen=True, eq=False)
class TwoLayerMDP(Remade):
    """The whole problem: an environment, a team, and a horizon. `task` is the input of a learner.

    horizon: L, the number of steps of an episode; None if there is none. discount: the discount factor per step; None for no
    discount. Without horizon and discount, the value of a policy is its average cost of a step. start_agent: the agent in control
    before the first step, an index or a name. structure: a declaration that is true of this problem; a learner uses it only if it
    is passed as `structure=`.
    """

    environment: Environment
    team: Team
    horizon: Any  # an int, or None
    start_agent: Any = 0  # index or name; kept as the index
    structure: Structure | None = None
    discount: float | None = None

    def __post_init__(self) -> None:
        owner = "TwoLayerMDP"
        check.instance(owner, "environment", self.environment, Environment)
        check.instance(owner, "team", self.team, Team)
        if self.horizon is not None:
            self._set(horizon=check.integer(owner, "horizon", self.horizon, 1))
        if self.environment.periods is not None and self.horizon is not None and len(self.environment.periods) != self.horizon:
            expected = f"{self.horizon}, the horizon"
            check.fail(owner, "the number of time steps of the environment's tables", len(self.environment.periods), expected)
        if callable(self.team.can_switch):  # as booleans it can be copied to other processes
            states = named_or_numbers(self.environment.state_names, self.environment.n_states)
            allowed = checked_can_switch("Team", self.team.can_switch, states, [a.name for a in self.team.agents])
            self._set(team=replace(self.team, can_switch=allowed))
        self._set(start_agent=self.task.start_agent, discount=self.task.discount)
        checked_structure(owner, self.structure, self.task.n_states, self.task.n_actions, self.task.tables)
        for table, a in enumerate(self.team.agents):
            shape = self.task.slot_shape(table)
            if a.policy.shape != shape:
                letters = LETTERS[a.varies_with]
                check.fail(f"Agent {a.name!r}", "the shape of policy", a.policy.shape, f"{letters} = {shape} in this problem")

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            time = "no horizon" if self.horizon is None else f"horizon {self.horizon:,}"
            discount = None if self.discount is None else f"discount {self.discount:g}"
            return repr(self.environment), repr(self.team), time, discount

        return short_repr(self, parts)

    @cached_property
    def task(self) -> Task:
        """Return the input of a learner: everything but the probabilities."""
        agents, environment = self.team.agents, self.environment
        control = np.broadcast_arrays(*(a.control_cost for a in agents))
        return Task(
            env_cost=environment.cost,
            agents=[a.name for a in agents],
            horizon=self.horizon,
            control_cost=np.stack(control, axis=-1),
            enter_cost=environment.enter_cost,
            terminal=environment.terminal,
            discount=self.discount,
            periods=environment.periods,
            switch_cost=self.team.switch_cost,
            grab_cost=self.team.grab_cost,
            can_switch=self.team.can_switch,
            start_agent=self.start_agent,
            varies_with=[a.varies_with for a in agents],
            state_names=environment.state_names,
            action_names=environment.action_names,
            takeover_delay={a.name: a.takeover_delay for a in agents if a.takeover_delay},
            on_takeover=[a.name for a in agents if a.on_takeover is not None],
        )

    @property
    def policies(self) -> list[Floats]:
        """Return the T policies of the team in the order of `task.tables`: all `policy`, then all `on_takeover` that are given."""
        agents = self.team.agents
        return [a.policy for a in agents] + [a.on_takeover for a in agents if a.on_takeover is not None]


def solo(environment: Environment, horizon: int | None, *, discount: float | None = None) -> TwoLayerMDP:
    """Return an environment as the problem of a single agent; `planning/planner.py: best_policy` solves it.

    There is one agent for each action, which always takes that action, and hand-overs are free.
    """
    check.instance("solo", "environment", environment, Environment)
    n, a = environment.n_states, environment.n_actions
    names = environment.action_names or [str(i) for i in range(a)]
    return TwoLayerMDP(
        environment,
        Team([Agent(name, np.tile(np.eye(a)[i], (n, 1))) for i, name in enumerate(names)]),
        horizon,
        discount=discount,
    )


# Environments that passed `check_support`, by declaration: fleets check the same pair many times.
_fitting: "WeakKeyDictionary[Outcomes, WeakSet[Environment]]" = WeakKeyDictionary()


def check_support(owner: str, outcomes: Outcomes, environment: Environment) -> None:
    """Check that a structure declares every possible step of an environment; kernels rely on it."""
    known = _fitting.setdefault(outcomes, WeakSet())
    if environment in known:
        return
    steps = sp.csr_array(environment.transition)
    if environment.terminal:  # transitions of terminal states are ignored
        ends = np.repeat(np.isin(np.arange(environment.n_states), environment.terminal), environment.n_actions)
        steps = sp.csr_array(sp.diags_array((~ends).astype(np.float64)) @ steps)
        steps.eliminate_zeros()
    possible = sp.csr_array((np.ones(steps.nnz, dtype=np.int8), steps.indices, steps.indptr), shape=steps.shape)
    beyond = sp.coo_array(possible - possible.multiply(outcomes.allowed()))
    beyond.eliminate_zeros()
    if beyond.nnz:
        row, to = int(beyond.coords[0][0]), int(beyond.coords[1][0])
        s, a = divmod(row, environment.n_actions)
        place = f"the next state {to} of state {s} with action {a}"
        check.fail(owner, place, "possible in mdp", f"one of {outcomes.states_from(s, a)}, which the learner's structure declares")
    known.add(environment)
