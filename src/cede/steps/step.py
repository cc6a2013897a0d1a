"""A step, from one decision to the next: one record type, its columns, and Episodes."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints, read_only
from cede._base.remade import Remade
from cede._base.reprs import plural, short_repr
from cede._kernels.account import is_hand_over
from cede.problem.costs import partly_known
from cede.problem.task import CHARGES

Bools = NDArray[np.bool_]
WHO, WHERE = "who acted in the step before", "where the step before led"  # expected values, in errors


class Step(NamedTuple):
    """One step. States, agents and actions are indices from 0."""

    t: int  # time in its episode; 0 without a horizon
    state: int
    prev_agent: int  # the agent in control before
    agent: int  # the agent in control, even if another one was chosen
    action: int
    next_state: int
    cost: float  # charged by the environment for the action
    enter_cost: float = 0.0  # and for arriving in next_state
    chosen: int | None = None  # the agent that the learner chose; None: it was not asked
    moved: bool = False  # whether the system was moved since the step before
    session: str | None = None  # which of several sessions at once; None: there is one
    control_cost: float = np.nan  # charged for the agent's control, and for the hand-over; NaN: as the task says
    switch_cost: float = np.nan


@dataclass(frozen=True, eq=False)
class Steps:
    """The columns of n steps of one session; the names are those of `Step`."""

    t: Ints  # (n,)
    state: Ints  # (n,)
    prev_agent: Ints  # (n,)
    agent: Ints  # (n,)
    action: Ints  # (n,)
    next_state: Ints  # (n,)
    cost: Floats  # (n,) NaN where it is not given
    enter_cost: Floats  # (n,)
    chosen: Ints | None = None  # (n,) -1: the learner was not asked; None: of no step
    moved: Bools | None = None  # (n,) None: nowhere
    control_cost: Floats | None = None  # (n,) NaN where it is not given; None: nowhere
    switch_cost: Floats | None = None  # (n,)

    @classmethod
    def of(cls, steps: Sequence[Step]) -> "Steps":
        """Make columns of single steps. `chosen`, `moved` and `session` are left out."""
        places = np.array([step[:6] for step in steps], dtype=np.int64).reshape(-1, 6).T.copy()
        costs = np.array([[getattr(step, name) for step in steps] for name in CHARGES], dtype=np.float64)
        team = {name: part for name, part in zip(CHARGES[2:], costs[2:], strict=True) if not np.isnan(part).all()}
        return cls(*places, *costs[:2], **team)

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.state)

    @property
    def places(self) -> tuple[Ints, ...]:
        """Return t, state, prev_agent, agent, action and next_state, (n,) each, as kernels take them: writable int64."""
        columns = (self.t, self.state, self.prev_agent, self.agent, self.action, self.next_state)
        return tuple(np.require(column, np.int64, ["C", "W"]) for column in columns)

    def part(self, rows: slice) -> "Steps":
        """Return some of the steps."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        parts: dict[str, Any] = {name: column[rows] for name, column in columns.items() if column is not None}
        return Steps(**parts)

    def rows(self) -> list[Step]:
        """Return the steps one by one. `chosen`, `moved` and `session` are left out."""
        columns = [*(column.tolist() for column in self.places), self.cost.tolist(), self.enter_cost.tolist()]
        steps = [Step(*row) for row in zip(*columns, strict=True)]
        for name in ("control_cost", "switch_cost"):
            if (column := getattr(self, name)) is not None:
                steps = [step._replace(**{name: cost}) for step, cost in zip(steps, column.tolist(), strict=True)]
        return steps


def wrong_links(before: Any, after: Any) -> tuple[Any, Any]:
    """Return whether prev_agent, and whether state, of a step contradict the previous step.

    A step continues the previous step if its prev_agent is that step's agent, and its state that step's next_state, unless the
    system was moved. before, after: two single steps, or the columns of n pairs.
    """
    moved = False if after.moved is None else after.moved
    return after.prev_agent != before.agent, (after.state != before.next_state) > moved  # it differs, and was not moved


@dataclass(frozen=True, eq=False)
class Episode(Remade):
    """The steps of one episode, n of them (at most the horizon). `rollout` returns one; `Learner.observe_episode` and `count` take
    them. Its arrays are read-only.
    """

    states: Ints  # (n + 1,) with the last next_state
    prev_agents: Ints  # (n,) the agent in control before each step; the first is the start agent
    agents: Ints  # (n,) the agent in control
    actions: Ints  # (n,)
    costs: Floats  # (n,) cost of each step: environment, control, hand-over and arriving together
    env_costs: Floats | None = None  # (n,) charged by the environment for each action; needed where costs are learned
    enter_costs: Floats | None = None  # (n,) charged for arriving; the same
    aim: Ints | None = None  # (D,) `task.layout.aim`, where hand-overs take time; None: every agent is a member of the team
    control_costs: Floats | None = None  # (n,) charged for the control of each agent; needed where such costs are learned
    switch_costs: Floats | None = None  # (n,) charged for each hand-over; the same

    def __post_init__(self) -> None:
        arrays: dict[str, Any] = {}
        for name in ("states", "prev_agents", "agents", "actions", *(() if self.aim is None else ("aim",))):
            arrays[name] = check.integers("Episode", name, getattr(self, name), 1)
            if arrays[name].size and arrays[name].min() < 0:
                i = int(np.argmax(arrays[name] < 0))
                check.fail("Episode", f"{name}[{i}]", int(arrays[name][i]), "an integer of at least 0")
        n = len(arrays["actions"])
        arrays["costs"] = costs = check.copied("Episode", "costs", self.costs, "(n,)")
        sides = tuple(len(arrays[name]) for name in ("prev_agents", "agents"))
        if (len(arrays["states"]) - 1, *sides) != (n, n, n) or costs.shape != (n,):
            what = "the number of states - 1, prev_agents, agents, actions and costs"
            check.fail("Episode", what, (len(arrays["states"]) - 1, *sides, n, costs.size), "equal")
        if n == 0:
            check.fail("Episode", "the number of steps", 0, "at least 1")
        most = max(int(arrays[name].max()) for name in ("prev_agents", "agents"))
        if self.aim is not None and len(arrays["aim"]) <= most:
            check.fail("Episode", "the length of aim", len(arrays["aim"]), f"more than {most}, the largest index of an agent")
        check.finite("Episode", "costs", costs)
        for name in ("env_costs", "enter_costs", "control_costs", "switch_costs"):
            if getattr(self, name) is not None:
                arrays[name] = partly_known("Episode", name, getattr(self, name), (n,), "(n,)")
        self._set(**{name: read_only(array) for name, array in arrays.items()})
        steps = self.steps
        wrong, _ = wrong_links(steps.part(slice(0, -1)), steps.part(slice(1, None)))
        if wrong.any():
            i = int(np.argmax(wrong)) + 1
            check.fail("Episode", f"prev_agents[{i}]", int(self.prev_agents[i]), f"{self.agents[i - 1]}, {WHO}")

    @property
    def steps(self) -> Steps:
        """Return its steps as columns."""
        n = len(self.actions)
        places = (np.arange(n), self.states[:-1], self.prev_agents, self.agents, self.actions, self.states[1:])
        cost, enter_cost = (np.full(n, np.nan) if part is None else part for part in (self.env_costs, self.enter_costs))
        return Steps(*places, cost, enter_cost, control_cost=self.control_costs, switch_cost=self.switch_costs)

    def __repr__(self) -> str:
        return short_repr(
            self, lambda: (plural(len(self.actions), "step"), f"cost {self.cost:.6g}", plural(self.switches, "hand-over"))
        )

    @property
    def cost(self) -> float:
        """Return the total cost."""
        return float(self.costs.sum())

    @property
    def switches(self) -> int:
        """Return the number of hand-overs. With `aim`, which `rollout` sets, a slow hand-over counts once."""
        aim, pairs = self.aim, np.stack([self.prev_agents, self.agents])
        if aim is None:
            aim, pairs = np.unique(pairs, return_inverse=True)
        return int(np.count_nonzero(is_hand_over(aim, *pairs.reshape(2, -1))))
