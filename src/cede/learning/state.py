"""All that a learner keeps, packed: its size follows what the learner has seen.

A learner that is not in use costs no more than this. Counts are lists of (key, number) with key = row * columns + column of the
tables of `Counts`, ascending.
"""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from cede._base.arrays import Floats, Ints
from cede.learning.counts import Counts, shapes
from cede.planning.planner import Plan
from cede.planning.tables import Sums
from cede.problem.structure import Structure
from cede.problem.task import Task


def no_keys() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Seen:
    """Sparse counts of one table."""

    key: Ints = field(default_factory=no_keys)  # (n,) row * columns + column
    number: Floats = field(default_factory=lambda: np.empty(0))  # (n,)

    @classmethod
    def of(cls, counts: sp.csr_array) -> "Seen":
        sums = Sums.of(counts)
        return cls(sums.row * counts.shape[1] + sums.column, sums.amount)

    def matrix(self, shape: tuple[int, int]) -> sp.csr_array:
        rows, columns = np.divmod(self.key, shape[1])
        return Sums(rows, columns, self.number).matrix(*shape)


NOTHING = Seen()


@dataclass(frozen=True, eq=False)
class Memory:
    """What a learner knows and has decided."""

    episodes: int = 0
    environment_episodes: int = 0  # counted into `environment`
    agents: Seen = NOTHING
    environment: Seen = NOTHING  # nothing if it is shared
    plan: Plan | None = None
    planned: int = 0  # the episode for which it was made, 0: none
    stale: bool = False  # has something been counted since it was asked whether a new plan is due?
    planned_agents: Floats = field(default_factory=lambda: np.empty(0))  # visits when the plan was made, for replan="doubling"
    planned_environment: Floats = field(default_factory=lambda: np.empty(0))
    bounds: Floats = field(default_factory=lambda: np.empty((0, 0, 0)))  # values of greedy planning; empty: as at the start
    recent_agents: Ints = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))  # see `Fading`; empty: as at the start
    recent_environment: Ints = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    prices: Floats = field(default_factory=lambda: np.empty((0, 0)))  # of the limits; empty: as at the start
    record: Floats = field(default_factory=lambda: np.empty(0))  # of a cautious learner; empty: as at the start

    @classmethod
    def of(cls, counts: Counts) -> "Memory":
        seen = (Seen.of(counts.agents), Seen.of(counts.environment))
        return cls(counts.episodes, counts.environment_episodes, *seen)

    def counts(self, task: Task, *, flat: bool, structure: Structure | None = None) -> Counts:
        agents, environment = shapes(task, flat=flat, structure=structure)
        tables = (self.agents.matrix(agents), self.environment.matrix(environment))
        return Counts(*tables, self.episodes, self.environment_episodes)
