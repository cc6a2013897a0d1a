"""Places: the row in which each step of a team is counted, by layer.

A place is a policy of `task.tables` with its slot and state (agents), a state with an action, or with a slot for UCRL2
(environment), or what has a cost that is learned (costs): a state with an action, a state of arrival, an agent, a hand-over. Places
that point to one row are counted together, as a declared structure demands; agents that are steps of slow hand-overs point to the
costs of their members.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cede._base.arrays import Floats, Ints
from cede._base.remade import Remade
from cede.problem.structure import Outcomes, Structure, n_cases
from cede.problem.task import Task
from cede.rows.cost_sums import N_SUMS
from cede.rows.counting import OutcomeIndex

Shape = tuple[int, int]
AGENT, ENVIRONMENT, COSTS, START = "agent/", "environment", "costs", "start"  # names of layers; AGENT and the agent's name
AGENTS = "agents"  # the layers of all agents below one another
NO_INTS: Ints = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CostPlaces:
    """The rows of unknown costs, and their ranges. `Places.costs` makes it.

    Each array of places holds the row of each cost, -1 where it is known, and is empty if all of its costs are known.
    """

    place: Ints  # (S, A), or (S, slots) for UCRL2
    enter_place: Ints  # (S,) of arriving
    control_place: Ints  # (S or 1, D)
    switch_place: Ints  # (S or 1, D, D)
    least: Floats  # (rows,)
    spread: Floats  # (rows,) the most minus the least

    @property
    def n_team_rows(self) -> int:
        """Return the number of rows of costs of control and of hand-overs: the last ones."""
        rows = np.unique(np.concatenate([self.control_place.ravel(), self.switch_place.ravel(), [-1]]))
        return len(rows) - 1


def range_of(ends: tuple[float, float] | None) -> tuple[Any, Any]:
    """Return the range of unknown costs; an empty one where all are known."""
    return ends or (0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Rows:
    """The declared structure of all agents of a task, laid out as `Outcomes` is for one agent. `Places.agents` makes it."""

    row: Ints  # (slots, S)
    case: Ints  # (rows,) row of the counts
    to: Ints  # (rows, A) the action of each outcome


@dataclass(frozen=True, eq=False)
class Places(Remade):
    """The rows in which the steps of a team are counted, by layer, as they follow from its task.

    flat: for UCRL2, whose environment has a row for each state and slot. structure: if declared, rows are cases.
    """

    task: Task
    flat: bool = False
    structure: Structure | None = None

    @cached_property
    def cases(self) -> list[int]:
        """Return how many situations each policy of `task.tables` distinguishes: all states, or its declared cases."""
        declared = {} if self.structure is None else self.structure.agents
        return [n_cases(declared[name]) if name in declared else self.task.n_states for name in self.task.tables]

    @cached_property
    def agent_rows(self) -> list[int]:
        """Return how many rows each policy of `task.tables` has."""
        return [int(slots) * cases for slots, cases in zip(self.task.layout.n_slots, self.cases, strict=True)]

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """Return (rows, columns) of each layer, by name: agents as in `task.tables`, environment, costs and first states."""
        task, outcomes = self.task, None if self.structure is None else self.structure.environment
        result = self.of_agents(task.tables)
        if outcomes is not None:
            result[ENVIRONMENT] = (outcomes.n_cases, outcomes.to.shape[1])
        else:
            columns = int(task.layout.n_slots.sum()) if self.flat else task.n_actions
            result[ENVIRONMENT] = (task.n_periods * task.n_states * columns, task.n_states)
        result[COSTS] = (len(self.costs.least), N_SUMS)
        result[START] = (1, task.n_states)
        return result

    def of_agents(self, names: Iterable[str]) -> dict[str, Shape]:
        """Return (rows, columns) of the layers of all agents. names: of their policies, as `task.tables`."""
        return {f"{AGENT}{name}": (rows, self.task.n_actions) for name, rows in zip(names, self.agent_rows, strict=True)}

    @cached_property
    def costs(self) -> CostPlaces:
        """Return the rows of unknown costs, in the order of `CostPlaces`.

        UCRL2, which ignores actions, must learn the mean cost of every agent in every state where actions differ in cost.
        """
        task, flat, structure = self.task, self.flat, self.structure
        if not (flat or task.learns_costs):
            agents, pairs = (np.empty((0,) * axes, dtype=np.int64) for axes in (2, 3))
            return CostPlaces(agents, NO_INTS, agents, pairs, np.empty(0), np.empty(0))
        n, d, members, aim = task.n_states, task.n_agents, len(task.members), task.layout.aim
        unknown, ends = np.isnan(task.env_cost), range_of(task.cost_range)
        if flat:
            low, high = (end[:, None] for end in task.extremes_of_env_cost)
            slots = int(task.layout.n_slots.sum())
            unknown, ends = np.repeat((high > low) & ~task.is_terminal[:, None], slots, axis=1), (low, high)
        labels: Ints = np.arange(unknown.size).reshape(unknown.shape)
        if structure is not None and structure.costs is not None and not flat:
            labels = structure.costs
        states = np.arange(n)
        arriving = np.zeros(n) if task.enter_cost is None else task.enter_cost
        control, switching = task.control_cost.reshape(-1, d), task.hand_over_cost.reshape(-1, d, d)
        agents = states[: len(control), None] * members + task.acting
        pairs = (states[: len(switching), None, None] * members + aim[:, None]) * members + aim
        least: list[Floats] = []
        spread: list[Floats] = []
        places: list[Ints] = []
        for missing, row_labels, (low, high) in (
            (unknown, labels, ends),
            (np.isnan(arriving), states, range_of(task.enter_cost_range)),
            (np.isnan(control), agents, range_of(task.control_cost_range)),
            (np.isnan(switching), pairs, range_of(task.switch_cost_range)),
        ):
            used, first, row = np.unique(row_labels[missing], return_index=True, return_inverse=True)
            place = np.full(missing.shape, -1, dtype=np.int64)
            place[missing] = sum(len(part) for part in least) + row
            places.append(place if len(used) else np.empty((0,) * missing.ndim, dtype=np.int64))
            least.append(np.broadcast_to(low, missing.shape)[missing][first])
            spread.append(np.broadcast_to(high, missing.shape)[missing][first] - least[-1])
        return CostPlaces(places[0], places[1], places[2], places[3], np.concatenate(least), np.concatenate(spread))

    @cached_property
    def agents(self) -> "Rows":
        """Return the cases of all agents, agent by agent and slot by slot; without a declaration each state is a case."""
        task, declared = self.task, {} if self.structure is None else self.structure.agents
        same, slots = np.arange(task.n_actions)[None, :], int(task.layout.n_slots.sum())
        if not declared:
            each = np.arange(slots * task.n_states)
            return Rows(each.reshape(slots, -1), each, same.repeat(len(each), axis=0))
        row, case, to = np.empty((slots, task.n_states), dtype=np.int64), [], []
        rows, cases = 0, 0
        for d, name in enumerate(task.tables):
            seen = declared.get(name, np.arange(task.n_states))
            for slot in range(int(task.layout.n_slots[d])):
                if isinstance(seen, Outcomes):
                    own, here, means = seen.case, seen.row, seen.to.astype(np.int64)
                else:
                    own, here = np.arange(n_cases(seen)), seen
                    means = np.repeat(same, len(own), axis=0)
                row[int(task.layout.first_slot[d]) + slot] = rows + here
                case.append(cases + own)
                to.append(means)
                rows, cases = rows + len(own), cases + n_cases(seen)
        return Rows(row, np.concatenate(case), np.concatenate(to))

    @cached_property
    def place(self) -> tuple[Ints, Ints]:
        """Return the row in which each place is counted: (slots, S) for the agents' table, (P * S, A) for the environment's.

        Rows of the agents are ordered by agent, then slot, then case; rows of the environment by state and action, or as the
        structure numbers its cases.
        """
        agents = self.agents.case[self.agents.row]
        if self.structure is not None and self.structure.environment is not None:
            return agents, self.structure.environment.case[self.structure.environment.row]
        return agents, np.arange(self.shapes[ENVIRONMENT][0]).reshape(self.task.n_periods * self.task.n_states, -1)

    def new_layers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fields of `CountsArrays` that follow from the task, for the agents and for the environment."""
        structure, (agents, environment), (rows, columns) = self.structure, self.place, self.shapes[ENVIRONMENT]
        declared = {} if structure is None else structure.agents
        acted = self.agents if any(isinstance(seen, Outcomes) for seen in declared.values()) else None
        came = None if structure is None else structure.environment
        counted = {"counted": sum(self.agent_rows), "n_columns": self.task.n_actions}
        return (
            {"place": agents, "outcomes": outcome_index(acted), **counted},
            {"place": environment, "outcomes": outcome_index(came), "counted": rows, "n_columns": columns},
        )


def outcome_index(outcomes: Outcomes | Rows | None) -> OutcomeIndex:
    """Return the index by which kernels find the outcome of a step. None: an outcome is the next state or action itself."""
    if outcomes is None:
        return OutcomeIndex(entry=np.empty((0, 0), dtype=np.int64), **dict.fromkeys(("begin", "to", "outcome"), NO_INTS))
    begin, means, which = [0], [], []
    for to in outcomes.to.astype(np.int64):
        possible = np.flatnonzero(to >= 0)
        order = possible[np.argsort(to[possible])]
        begin.append(begin[-1] + len(order))
        means.append(to[order])
        which.append(order)
    lists = {"begin": np.array(begin, dtype=np.int64), "to": np.concatenate(means)}
    return OutcomeIndex(entry=outcomes.row.reshape(-1, outcomes.row.shape[-1]).copy(), **lists, outcome=np.concatenate(which))
