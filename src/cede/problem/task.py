"""The task, the input of a learner: sizes, costs, horizon and names of a problem, but no probabilities.

Where hand-overs take time, agents and members differ. The example of takeover.py, used in the docstrings below: a team of
"machine" and "human", where the human needs 2 steps to take over and the machine acts meanwhile. The task then has four agents:

    agent    name                                         acting      aim        table
    0        "machine"                                    machine     machine    machine
    1        "human"                                      human       human      human
    2        "human (taking over from machine, 1 of 2)"   machine     human      machine
    3        "human (taking over from machine, 2 of 2)"   machine     human      machine
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints, read_only
from cede._base.calls import clear_constructor
from cede._base.remade import Remade
from cede._base.reprs import listed, plural, short_repr
from cede._kernels.account import total_cost
from cede.problem.costs import (
    RANGES,
    check_sizes_of_costs,
    checked_can_switch,
    checked_control_cost,
    checked_enter_cost,
    checked_env_cost,
    checked_grab_cost,
    checked_periods,
    checked_ranges,
    checked_sizes,
    checked_switch_cost,
    checked_terminal,
    known_at_ends,
    named_or_numbers,
    names_given,
    with_cost_at_ends,
    with_locks,
    without_dead_ends,
)
from cede.problem.layout import Layout, VariesWith, checked_varies_with, layout_of
from cede.problem.names import checked_names, in_kind, name_index, numbers_by_name, place_index
from cede.problem.policies import policy_of_rule
from cede.problem.takeover import (
    Modes,
    check_modes,
    checked_delays,
    fold,
    handovers_until,
    next_agent_towards,
    price_of_members,
)

CHARGES = ("cost", "enter_cost", "control_cost", "switch_cost")  # of a step: for the action, arriving, control, the hand-over

# A plan holds (L + 1) S D values; beyond this number no memory is large enough, and products of sizes could overflow.
MOST_VALUES = 2**40


NOT_GIVEN: Any = ...


@clear_constructor
@dataclass(frozen=True, eq=False)
class Task(Remade):
    """The input of a learner: sizes, costs, horizon, terminal states and names of the agents, but no probabilities.

    Build one directly for a system of your own, or take `mdp.task`.

    agents: D different names. horizon: L, the number of steps of an episode; None if there is none (see discount).

    env_cost: (S, A), the cost of each action in each state; or (S,), together with n_actions, if all actions cost the same. NaN:
    the cost is unknown and is learned, within cost_range = (least, most). If all costs are unknown, leave env_cost out and give
    n_states and n_actions.

    control_cost: of a step in control, one number, (D,), by name as in {"operator": 0.2}, or (S, D) if it depends on the state.
    switch_cost: of a hand-over, one number, (D, D) [prev_agent, agent], (S, D, D), or by name as in {("robot", "operator"): 0.3},
    where others cost nothing; infinity where a hand-over is not possible.
    can_switch: whether a hand-over is allowed: booleans (D, D) or (S, D, D) [state, prev_agent, agent], or a function of state,
    prev_agent and agent, by names where there are names, which is called once for each. Where it is False, switch_cost becomes
    infinite; such a hand-over that happens all the same costs what switch_cost said (`grab_cost`).
    enter_cost: of arriving in a state, (S,), or by state as in {"crash": 10.0}; NaN where it must be learned, within
    enter_cost_range (by default cost_range). control_cost and switch_cost may be NaN, too: what an agent or a hand-over really
    costs is then learned, within control_cost_range and switch_cost_range (by default cost_range).

    terminal: states in which an episode ends, by index or name. No agent is in control there. With a horizon, each remaining step
    costs env_cost of that state, 0 if it is unknown.

    discount: the discount factor per step; None for no discount. Without a horizon the value of a policy is its discounted cost;
    without a discount either, it is the long-run average cost of a step.

    start_agent: the agent in control before the first step, an index or a name. varies_with: for each agent None, "time" or
    "prev_agent": what its policy may depend on besides the state; the learner keeps one table for each time step, or for each
    previous agent. periods: the index of the environment table of each time step, (L,), as in [0] * 12 + [1] * 12 for morning and
    evening; None if it does not vary with time.

    takeover_delay: the number of steps that agents need to take over, by name, as in {"human": 2}. During these steps the previous
    agent still acts; or, if on_takeover lists the name, the agent itself acts by a separate policy. Every such step is added to the
    task as a further agent (takeover.py). `agents` and D then include these steps, while `members` are the agents of the team.
    Where the time is random but its distribution is known, give the probabilities of 0, 1, 2, ... steps instead, as in
    {"human": [0.3, 0.3, 0.2]}; what is missing to 1 is that there is no answer. What is chosen is then an order to that agent.

    grab_cost: the cost of a hand-over that the task does not allow but that happens, because an agent takes control at once or
    breaks off a hand-over: one number, (M, M) for M members, (S, M, M), or by name as switch_cost. By default, and for pairs that
    are not named, it is the switch_cost of the pair. Infinity: unknown, and not charged.
    """

    env_cost: Any = None  # (S, A) float64, NaN where it is unknown
    agents: Sequence[str] = ()  # (D,) names; the members first, then the steps of slow hand-overs
    horizon: Any = NOT_GIVEN  # an int, or None
    control_cost: Any = 0.0  # (D,) or (S, D) float64, NaN where it is unknown
    switch_cost: Any = 0.0  # (D, D) [prev_agent, agent] or (S, D, D) float64, NaN where it is unknown
    start_agent: Any = 0  # index or name; kept as the index
    varies_with: Sequence[VariesWith] | None = None  # (D,)
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None
    takeover_delay: Any = None  # steps by name; None once the steps have been added to `agents`
    on_takeover: Sequence[str] = ()  # names; empty once the steps have been added to `agents`
    modes: Modes | None = None  # who acts when each agent is in control; None: each agent acts itself, by its own policy
    n_states: Any = None  # S, an int
    n_actions: Any = None  # A, an int
    cost_range: Any = None  # (least, most) that an unknown env_cost can be; None if all are known
    enter_cost: Any = None  # (S,) float64, NaN where it is unknown; None: arriving costs nothing
    enter_cost_range: Any = None  # (least, most) that an unknown enter_cost can be
    terminal: Any = ()  # indices of states in which an episode ends, ascending
    discount: float | None = None
    periods: Any = None  # (L,) int64
    grab_cost: Any = None  # (M, M) [member before, member] or (S, M, M) float64; None: as switch_cost says; NaN: learned
    control_cost_range: Any = None  # (least, most) that an unknown control_cost can be
    switch_cost_range: Any = None  # (least, most) that an unknown switch_cost can be
    can_switch: InitVar[Any] = None  # booleans or a function; goes into `switch_cost`

    def __post_init__(self, can_switch: Any) -> None:
        expected = "a sequence of at least one name"
        names = tuple(check.items("Task", "agents", self.agents, expected))
        if not names or isinstance(self.agents, Mapping | set | frozenset):
            check.fail("Task", "agents", check.show(self.agents), expected)
        for i, name in enumerate(names):
            check.name("Task", f"agents[{i}]", name)
        checked_names("Task", names)
        if self.horizon is NOT_GIVEN:
            check.fail("Task", "horizon", "missing", "the number of steps of an episode, or None if there is none")
        horizon = None if self.horizon is None else check.integer("Task", "horizon", self.horizon, 1)
        named = tuple(None if names is None else names_given(names) for names in (self.state_names, self.action_names))
        n_states, n_actions = checked_sizes("Task", self.env_cost, self.n_states, self.n_actions, named)
        self._set(agents=names, horizon=horizon, n_states=n_states, n_actions=n_actions)
        self._set(
            varies_with=checked_varies_with("Task", self.varies_with, len(names), horizon),
            discount=None if self.discount is None else check.probability("Task", "discount", self.discount),
            control_cost=checked_control_cost("Task", self.control_cost, names, n_states),
            switch_cost=checked_switch_cost("Task", self.switch_cost, names, n_states),
            state_names=check.names("Task", "state_names", self.state_names, n_states),
            action_names=check.names("Task", "action_names", self.action_names, n_actions),
            periods=checked_periods("Task", self.periods, horizon),
        )
        self._check_costs()
        if can_switch is not None:
            self._lock(can_switch)
        self._set(switch_cost=without_dead_ends("Task", self.switch_cost, self.agents, self.state_names, self.terminal))
        if self.modes is None:
            self._fold()
        elif self.takeover_delay is not None or self.on_takeover != ():
            expected = "given to a task without: this one has it folded in"
            check.fail("Task", "takeover_delay", check.show(self.takeover_delay), expected)
        else:
            check_modes("Task", self.modes, self.agents, self.varies_with or ())
        prices = price_of_members(self.switch_cost, np.array(self.roles.aim))
        barred = bool(np.isinf(self.switch_cost).any())
        self._set(grab_cost=checked_grab_cost("Task", self.grab_cost, self.members, prices, n_states, barred))
        values = (self.plan_steps + 1) * n_states * self.n_agents
        if values > MOST_VALUES:
            check.fail("Task", "(horizon + 1) x states x agents", values, f"at most {MOST_VALUES}")
        self._set(start_agent=self.agent_index("Task", "start_agent", self.start_agent))

    def _lock(self, can_switch: Any) -> None:
        """Put can_switch into switch_cost. What a hand-over cost without it is its grab_cost."""
        if self.modes is not None:
            check.fail("Task", "can_switch", check.show(can_switch), "given to a task without steps of hand-overs: of its members")
        states = named_or_numbers(self.state_names, self.n_states)
        allowed = checked_can_switch("Task", can_switch, states, self.agents)
        never = ~allowed.reshape(-1, len(self.agents), len(self.agents)).any(axis=0)
        said = np.where(never & np.isnan(self.switch_cost), np.inf, self.switch_cost)  # such a price is not learned
        price = said if self.grab_cost is None and not allowed.all() else self.grab_cost
        self._set(switch_cost=with_locks(self.switch_cost, allowed), grab_cost=price)

    def _check_costs(self) -> None:
        """Check costs of actions and of arriving, their ranges, and the states in which episodes end."""
        terminal = checked_terminal("Task", self.terminal, self.n_states, self.state_names)
        if terminal and self.horizon is None and self.discount is None:
            expected = "left out for averages, which have no end; with a discount runs may end"
            check.fail("Task", "terminal", check.show(list(terminal)), expected)
        env_cost = checked_env_cost("Task", self.env_cost, (self.n_states, self.n_actions))
        if terminal:
            env_cost = with_cost_at_ends("Task", env_cost, terminal, endless=self.horizon is None)
        enter_cost = checked_enter_cost("Task", self.enter_cost, self.n_states, self.state_names)
        self._set(env_cost=env_cost, enter_cost=enter_cost, terminal=terminal)
        for name, sides in (("control_cost", 2), ("switch_cost", 3)):
            if terminal and getattr(self, name).ndim == sides:
                self._set(**{name: known_at_ends(getattr(self, name), terminal)})
        costs, ranges = ({name: getattr(self, name) for name in names} for names in (RANGES.keys(), RANGES.values()))
        self._set(**checked_ranges("Task", costs, ranges))
        check_sizes_of_costs("Task", {name: getattr(self, name) for name in (*RANGES.keys(), *RANGES.values())})

    def _fold(self) -> None:
        """Replace takeover_delay and on_takeover by further agents, one for each step of a slow hand-over (takeover.py)."""
        assert self.varies_with is not None
        unchecked = {} if self.takeover_delay is None else self.takeover_delay
        delays, own = checked_delays("Task", self.agents, unchecked, self.on_takeover)
        if any(delays):
            if "prev_agent" in self.varies_with:
                name = self.agents[self.varies_with.index("prev_agent")]
                check.fail("Task", f"varies_with of {name!r}", "'prev_agent'", "None or 'time' in a team with takeover_delay")
            folded = fold(self.agents, self.switch_cost, delays, own)
            for names in (folded.agents, folded.modes.tables):
                checked_names("Task", names)
            modes, members = folded.modes, len(self.agents)
            self._set(
                varies_with=tuple(self.varies_with[i] if i < members else None for i in modes.table),
                control_cost=read_only(np.ascontiguousarray(self.control_cost[..., np.array(modes.acting)])),
                switch_cost=read_only(folded.switch_cost),
                agents=folded.agents,
                modes=modes,
            )
        self._set(takeover_delay=None, on_takeover=())

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            time = "no horizon" if self.horizon is None else f"horizon {self.horizon:,}"
            discount = None if self.discount is None else f"discount {self.discount:g}"
            ends = f"ends in {plural(len(self.terminal), 'state')}" if self.terminal else None
            some_known = not np.isnan(self.env_cost[~self.is_terminal]).all() or self.learns_team_costs
            costs = None if not self.learns_costs else "some costs are learned" if some_known else "costs are learned"
            sizes = f"{plural(self.n_states, 'state')}, {plural(self.n_actions, 'action')}"
            return sizes, time, discount, ends, costs, f"agents: {listed(self.agents)}"

        return short_repr(self, parts)

    @cached_property
    def roles(self) -> Modes:
        """Return who acts, and by which policy, when each agent is in control: `modes`, or its plain form if that is None."""
        return Modes.plain(self.agents) if self.modes is None else self.modes

    @cached_property
    def members(self) -> tuple[str, ...]:
        """Return the names of the agents of the team, without steps of slow hand-overs: ("machine", "human") in the example."""
        return tuple(self.agents[: max(self.roles.acting) + 1])

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the T policies to learn: those of the members, then those for taking over (on_takeover).

        With on_takeover=["human"] in the example of this module: ("machine", "human", "human (taking over)").
        """
        return self.roles.tables

    @cached_property
    def acting(self) -> NDArray[np.int64]:
        """Return the member who acts, and whose control is paid, while each agent is in control, (D,): [0, 1, 0, 0] here."""
        return read_only(np.array(self.roles.acting, dtype=np.int64))

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """Return the policy that each agent acts by, an index into `tables`, (D,); in the example: [0, 1, 0, 0]."""
        return read_only(np.array(self.roles.table, dtype=np.int64))

    def control_costs(self, state: Any, prev_agent: Any, agent: Any) -> tuple[Any, Any]:
        """Return the costs of control and of the hand-over in a step, NaN where they are learned. All arguments are indices, or
        arrays of indices.

        An impossible hand-over that happens costs its grab_cost, or 0 where that is unknown (is_unpriced).
        """
        control = self.control_cost[agent] if self.control_cost.ndim == 1 else self.control_cost[state, agent]
        if self._paid.ndim == 2:
            return control, self._paid[prev_agent, agent]
        return control, self._paid[state, prev_agent, agent]

    @cached_property
    def hand_over_cost(self) -> Floats:
        """Return the cost of each hand-over that happens, (D, D) or (S, D, D): switch_cost, or grab_cost where that is infinite;
        NaN where it is learned.
        """
        if self.can_choose.all():
            return self.switch_cost  # type: ignore[no-any-return]
        own = self.grab_cost if self.grab_cost is not None else price_of_members(self.switch_cost, self.layout.aim)
        return read_only(
            np.where(np.isinf(self.switch_cost), own[..., self.layout.aim[:, None], self.layout.aim], self.switch_cost)
        )

    @cached_property
    def _paid(self) -> Floats:
        """Return `hand_over_cost` with 0 where the price is unknown."""
        unknown = np.isinf(self.hand_over_cost)
        return self.hand_over_cost if not unknown.any() else read_only(np.where(unknown, 0.0, self.hand_over_cost))

    @cached_property
    def is_unpriced(self) -> NDArray[np.bool_]:
        """Return which impossible hand-overs have no known grab_cost in any state, (D, D) [prev_agent, agent]."""
        return read_only(np.isinf(self.hand_over_cost.reshape(-1, self.n_agents, self.n_agents)).min(axis=0))

    def leaves_out(self, state: int, prev_agent: int, agent: int) -> bool:
        """Return whether the cost of a hand-over that happens in a state is not known, and so not charged."""
        prices = self.hand_over_cost
        return bool(np.isinf(prices[prev_agent, agent] if prices.ndim == 2 else prices[state, prev_agent, agent]))

    def step_cost(self, state: Any, prev_agent: Any, agent: Any, env_cost: Any, enter_cost: Any = 0.0) -> Any:
        """Return the cost of a step (Eq. 1): environment, control, switching and arrival cost.

        state, prev_agent, agent: indices, or arrays of indices. agent: the agent in control, even after an impossible hand-over
        (see `control_costs`). env_cost, enter_cost: charged by the environment.
        """
        control, switching = self.control_costs(state, prev_agent, agent)
        return total_cost(env_cost, control, switching, enter_cost)

    @cached_property
    def can_choose(self) -> NDArray[np.bool_]:
        """Return which agents can be chosen, (1, D, D) or, if that depends on the state, (S, D, D) [state, prev_agent, agent]."""
        possible = ~np.isinf(self.switch_cost).reshape(-1, self.n_agents, self.n_agents)
        return read_only(self.roles.orders.possible(possible if (possible != possible[0]).any() else possible[:1]))

    @cached_property
    def can_hand_over(self) -> NDArray[np.bool_]:
        """Return which agents can be chosen in some state, (D, D) [prev_agent, agent]."""
        return read_only(self.can_choose.max(axis=0))

    def may_choose(self, state: int, prev_agent: int) -> NDArray[np.bool_]:
        """Return which agents can be chosen in a state after prev_agent, (D,)."""
        result: NDArray[np.bool_] = self.can_choose[min(state, len(self.can_choose) - 1), prev_agent]
        return result

    @cached_property
    def has_orders(self) -> bool:
        """Return whether some choices are orders, whose outcome is random (takeover.py)."""
        return bool(self.roles.chance)

    @cached_property
    def is_terminal(self) -> NDArray[np.bool_]:
        """Return which states are terminal, (S,)."""
        return read_only(np.isin(np.arange(self.n_states), self.terminal))

    @property
    def learns_costs(self) -> bool:
        """Return whether some costs are unknown."""
        return any(getattr(self, argument) is not None for argument in RANGES.values())

    @property
    def learns_team_costs(self) -> bool:
        """Return whether some costs of control or of hand-overs are unknown."""
        return self.control_cost_range is not None or self.switch_cost_range is not None

    @property
    def charges(self) -> tuple[str, ...]:
        """Return the names of the costs of a step that may be unknown: of the environment, and of the team if some of these are."""
        return CHARGES if self.learns_team_costs else CHARGES[:2]

    def extremes(self, name: str) -> tuple[Floats, Floats]:
        """Return the least and the greatest that costs can be, in the shape of the field `name`; equal where they are known."""
        costs, ends = getattr(self, name), getattr(self, RANGES[name])
        if ends is None:
            return costs, costs
        low, high = (read_only(np.where(np.isnan(costs), end, costs)) for end in ends)
        return low, high

    @cached_property
    def extremes_of_env_cost(self) -> tuple[Floats, Floats]:
        """Return the least and the greatest possible environment cost of an action in each state, (S,) each."""
        low, high = self.extremes("env_cost")
        return read_only(low.min(axis=1)), read_only(high.max(axis=1))

    @cached_property
    def ends_of_step_cost(self) -> tuple[float, float]:
        """Return the least and the greatest possible cost of a step, without impossible hand-overs.

        The remaining steps after an early end are steps, too.
        """
        (least, most), barred = self.extremes_of_env_cost, np.isinf(self.switch_cost)
        arriving = (np.zeros(1), np.zeros(1)) if self.enter_cost is None else self.extremes("enter_cost")
        control, switching = self.extremes("control_cost"), self.extremes("switch_cost")
        extra = [np.where(barred, far, control[i][..., None, :] + switching[i]) for i, far in enumerate((np.inf, -np.inf))]
        low = least + extra[0].min(axis=(-2, -1)) + arriving[0].min()
        high = least + (most - least) + extra[1].max(axis=(-2, -1)) + arriving[1].max()
        ends = np.where(self.is_terminal, least, low).min(), np.where(self.is_terminal, most, high).max()
        return float(ends[0]), float(ends[1])

    @property
    def weighs_steps(self) -> bool:
        """Return whether there are both a horizon and a discount: then costs are discounted, but shares of steps are not."""
        return self.horizon is not None and self.discount is not None

    @cached_property
    def plan_steps(self) -> int:
        """Return the number of time steps of a plan: L, or 1 without a horizon."""
        return 1 if self.horizon is None else self.horizon

    @cached_property
    def policy_shape(self) -> tuple[int, ...]:
        """Return the shape of a switching policy: (L, S, D), or (S, D) without a horizon."""
        sides = (self.n_states, self.n_agents)
        return sides if self.horizon is None else (self.horizon, *sides)

    @cached_property
    def n_periods(self) -> int:
        """Return the number of tables of the environment: 1 unless it varies with time."""
        return 1 if self.periods is None else int(self.periods.max()) + 1

    def with_unknown_costs(
        self, cost_range: tuple[float, float] | None = None, *, which: str | Sequence[str] = "env_cost"
    ) -> "Task":
        """Return the task with unknown costs.

        cost_range: by default, for each kind of costs, from its least to its greatest. which: "env_cost", "control_cost",
        "switch_cost", or several of them. Costs of terminal states, of keeping control, and infinite costs stay known.
        """
        owner, barred, aim = "with_unknown_costs", np.isinf(self.switch_cost), self.layout.aim
        ends = (self.is_terminal[:, None], self.is_terminal[:, None, None])
        stay = {
            "env_cost": ends[0],
            "control_cost": ends[0] if self.control_cost.ndim == 2 else np.zeros(1, dtype=np.bool_),
            "switch_cost": barred | (aim[:, None] == aim) | (ends[1] if self.switch_cost.ndim == 3 else False),
        }
        unknown: dict[str, Any] = {}
        for name in (which,) if isinstance(which, str) else check.items(owner, "which", which, "names of costs"):
            known = stay[check.choice(owner, "which", name, tuple(stay))]
            low, high = (end[np.isfinite(end)] for end in self.extremes(name))
            span = cost_range or (float(low.min()), float(high.max()))
            if cost_range is None and span[0] == span[1]:
                expected = f"given: all costs are {span[0]:g}, and a range of one number would reveal them"
                check.fail(owner, RANGES[name], "missing", expected)
            unknown |= {name: np.where(known, getattr(self, name), np.nan), RANGES[name]: span}
        return replace(self, **unknown)

    def only_costs(self, **costs: Any) -> "Task":
        """Return the task with all costs 0 except `costs`, by the names of fields. Impossible hand-overs stay impossible."""
        barred = np.where(np.isinf(self.switch_cost), np.inf, 0.0)
        nothing: dict[str, Any] = {
            "env_cost": np.zeros((self.n_states, self.n_actions)),
            "control_cost": 0.0,
            "switch_cost": barred,
        }
        return replace(self, **{**nothing, "enter_cost": None, "grab_cost": None, **costs})

    def can_reach(self, agent: int | str) -> bool:
        """Return whether hand-overs can lead from the start agent to an agent, index or name."""
        agent = self.agent_index("Task.can_reach", "agent", agent)
        return bool(np.isfinite(handovers_until(self.can_hand_over, agent)[self.start_agent]))

    def ways_to(self, agent: int) -> Ints:
        """Return the next agent on the way from each agent to one, (1, D), or by state (S, D)."""
        possible = self.can_choose
        return next_agent_towards(possible if len(possible) > 1 else possible[0], agent).reshape(-1, self.n_agents)

    def always(self, agent: int | str) -> NDArray[np.int16]:
        """Return the policy that gives control to one agent as soon as possible and leaves it there, (L, S, D) [t, s, prev_agent],
        or (S, D) without a horizon. agent: an index or a name. Fails if the agent cannot be reached from the start agent.
        """
        agent = self.agent_index("Task.always", "agent", agent)
        if not self.can_reach(agent):
            expected = f"one to whom control can come from {self.agents[self.start_agent]!r}, the start agent"
            check.fail("Task.always", "agent", repr(self.agents[agent]), expected)
        return np.broadcast_to(self.ways_to(agent).astype(np.int16), self.policy_shape).copy()

    def rule(self, rule: Callable[..., int | str]) -> NDArray[np.int16]:
        """Return the switching policy of a rule: a function (t, state, prev_agent), or (state, prev_agent) without a horizon, that
        returns the member that should be in control, by index or name.

        It is called with the name of the state, if states have names, else with its index; and with the name of the member that has
        control, or is getting it. Where that member cannot be put in control at once, the policy does what leads there soonest: it
        begins the hand-over as early as it is allowed, and goes on with one that takes time. While a lock forbids it, the previous
        agent stays.

        The result is (L, S, D) [t, s, prev_agent], or (S, D): for `baseline=`, `estimate`, `expected_cost`, `fixed`.
        """
        return policy_of_rule(self, rule)

    @cached_property
    def n_agents(self) -> int:
        return len(self.agents)

    def agent_index(self, owner: str, place: str, agent: Any) -> int:
        """Return the index of an agent, given its index or name; owner and place are for the error."""
        if agent is NOT_GIVEN:
            check.fail(owner, place, "missing", check.one_of(self.agents))
        if isinstance(agent, str):
            return name_index(owner, place, agent, self.agents)
        return check.index(owner, place, agent, self.n_agents)

    def state_index(self, owner: str, place: str, state: Any) -> int:
        """Return the index of a state, given its index or name; owner and place are for the error."""
        if state is NOT_GIVEN:
            by_number = f"an integer from 0 to {self.n_states - 1}"
            check.fail(owner, place, "missing", by_number if self.state_names is None else check.one_of(self.state_names))
        if isinstance(state, str):
            return place_index(owner, place, state, self.n_states, self.state_names, self._states_by_name)
        return check.index(owner, place, state, self.n_states)

    def action_index(self, owner: str, place: str, action: Any) -> int:
        """Return the index of an action, given its index or name; owner and place are for the error."""
        if isinstance(action, str):
            return place_index(owner, place, action, self.n_actions, self.action_names, self._actions_by_name)
        return check.index(owner, place, action, self.n_actions)

    @cached_property
    def _states_by_name(self) -> dict[str, int]:
        return numbers_by_name(self.state_names)

    @cached_property
    def _actions_by_name(self) -> dict[str, int]:
        return numbers_by_name(self.action_names)

    @overload
    def who_acts(self, agent: int) -> int: ...
    @overload
    def who_acts(self, agent: str) -> str: ...
    def who_acts(self, agent: int | str) -> int | str:
        """Return the member who acts while an agent is in control: its name if `agent` is a name, else its index.

        In the example of this module the machine acts while "human (taking over from machine, 1 of 2)" is in control.
        """
        member = int(self.acting[self.agent_index("Task.who_acts", "agent", agent)])
        result: int | str = in_kind(member, self.members, agent)
        return result

    @cached_property
    def table_varies(self) -> tuple[VariesWith, ...]:
        """Return what each policy varies with besides the state, for each of `tables`, (T,)."""
        assert self.varies_with is not None
        return tuple(self.varies_with[int((self.table == i).argmax())] for i in range(len(self.tables)))

    @cached_property
    def layout(self) -> Layout:
        """Return the array layout for kernels and counts: policies of the agents, weights of later costs."""
        return layout_of(self.roles.aim, self.table, self.varies_with or (), self.horizon, self.discount)

    def slot_shape(self, table: int) -> tuple[int, ...]:
        """Return the shape that a policy must have, given its index among `tables`: (S, A), (L, S, A) or (D, S, A)."""
        shape = (self.n_states, self.n_actions)
        return shape if self.table_varies[table] is None else (int(self.layout.n_slots[table]), *shape)
