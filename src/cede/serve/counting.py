"""Turns steps into counts, as a learner does, but as rows of the database: (row, column, n) with whole numbers n.

Sums of learned costs are kept as whole numbers, too, of the units that make a learner's sums exact (`_kernels/costs.py`). So all
that is counted may be added in any order, and taken away again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base.arrays import Floats, Ints
from cede._kernels import layer as kernels
from cede._kernels.costs import COARSE, COUNT, FINE, N_SUMS, REST, SQUARE_UNIT, SQUARES, SUM
from cede.learning.counts import CostPlaces, Counts, Shape, Tally, charged, cost_places, shapes
from cede.learning.settings import Settings
from cede.problem.task import Task

TRANSITIONS, COSTS = 0, 1  # layers of an environment's counts
UNITS = np.array([1.0, COARSE, FINE, SQUARE_UNIT])  # of the columns of sums of costs: so many are 1
Cells = list[tuple[int, ...]]  # rows of a table of counts


@dataclass(frozen=True, eq=False)
class Counter:
    """How the steps of teams with one task and one structure are counted. `of` makes it."""

    task: Task
    tally: Tally  # an empty one: where steps are counted
    shapes: tuple[Shape, Shape, Shape]  # of the counts of agents, of the environment, and of sums of costs
    costs: CostPlaces

    @classmethod
    def of(cls, task: Task, told: Settings) -> "Counter":
        """Make it for a task and settings."""
        zeros = Counts.zeros(task, structure=told.structure)
        tally = Tally(task, zeros, flat=False, structure=told.structure)
        return cls(task, tally, shapes(task, structure=told.structure), cost_places(task, structure=told.structure))

    def count(self, teams: Ints, steps: Ints, charged_for: Floats) -> tuple[Cells, Cells]:
        """Count steps of complete episodes.

        teams: (n,) whose each step is. steps: (6, n) t, state, prev_agent, agent, action, next_state. charged_for: (2, n) costs for
        the action and for arriving, NaN where none was given. Return cells (team, row, column, n) of the agents, and cells (layer,
        row, column, n) of the environment.
        """
        keys = np.empty((2, len(teams)), dtype=np.int64)
        given = [np.ascontiguousarray(one) for one in steps]
        kernels.keys_of_steps(*self.tally.layers, self.tally.problem, 0, *given, *keys)
        (rows, columns), (_, outcomes), _ = self.shapes
        owners, place = np.unique(teams, return_inverse=True)
        used, n = np.unique(place * (rows * columns) + keys[0], return_counts=True)
        owner, cell = np.divmod(used, rows * columns)
        agents = listed(owners[owner], *np.divmod(cell, columns), n)
        used, n = np.unique(keys[1], return_counts=True)
        environment = listed(np.full(len(used), TRANSITIONS), *np.divmod(used, outcomes), n)
        return agents, environment + (self.count_costs(steps, charged_for) if len(self.costs.least) else [])

    def count_costs(self, steps: Ints, charged_for: Floats) -> Cells:
        """Count the costs of steps that must be learned, as the kernel `add_part` does. Arguments: as for `count`."""
        _, states, _, _, actions, nexts = steps
        costs, arriving = charged("report", self.task, states, actions, nexts, (charged_for[0], charged_for[1]))
        rows, values = [], []
        if self.costs.place.size:
            rows.append(self.costs.place[states, actions])
            values.append(costs)
        if self.costs.enter_place.size:
            rows.append(self.costs.enter_place[nexts])
            values.append(arriving)
        row, value = np.concatenate(rows), np.concatenate(values)
        row, value = row[row >= 0], value[row >= 0]
        least, spread = self.costs.least[row], self.costs.spread[row]
        part = np.clip(np.divide(value - least, spread, out=np.zeros_like(value), where=spread > 0.0), 0.0, 1.0)
        part = np.floor(part * FINE + 0.5) / FINE
        coarse = np.floor(part * COARSE) / COARSE
        sums = np.zeros((len(self.costs.least), N_SUMS), dtype=np.int64)
        for column, amount in (
            (COUNT, np.ones_like(part)),
            (SUM, coarse * COARSE),
            (REST, (part - coarse) * FINE),
            (SQUARES, np.floor(part * part * SQUARE_UNIT + 0.5)),
        ):
            np.add.at(sums[:, column], row, amount.astype(np.int64))
        where = np.nonzero(sums)
        return listed(np.full(len(where[0]), COSTS), *where, sums[where])

    def counts(
        self, agents: Cells, environment: Cells, episodes: int, environment_episodes: int, starts: Ints | None = None
    ) -> Counts:
        """Return counts as a learner takes them. agents: (row, column, n). environment: (layer, row, column, n). starts: (S,) how
        often each state was the first of an episode; None: that is not asked for.
        """
        layers = [[cell[1:] for cell in environment if cell[0] == layer] for layer in (TRANSITIONS, COSTS)]
        sums = matrix(layers[1], self.shapes[2]).astype(np.float64)
        sums = sp.csr_array(sums @ sp.diags_array(1.0 / UNITS))
        return Counts(
            agents=matrix(agents, self.shapes[0]),
            environment=matrix(layers[0], self.shapes[1]),
            episodes=episodes,
            environment_episodes=environment_episodes,
            costs=sums,
            starts=starts,
        )


def listed(*columns: Any) -> Cells:
    """Return arrays, (n,) each, as n tuples of Python's integers."""
    return list(zip(*(column.tolist() for column in columns), strict=True))


def matrix(cells: Any, shape: Shape) -> sp.csr_array:
    """Return cells (row, column, n) as a matrix."""
    row, column, n = np.array(cells, dtype=np.int64).reshape(-1, 3).T
    return sp.csr_array((n, (row, column)), shape=shape)
