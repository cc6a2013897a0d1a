"""What was seen, as sums: N(s, d, a) of the agents and N'(s, a, s') of the environment (Section 3 of the paper).

Counts add. Any split of the same episodes, counted apart and added in any order, gives the same counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cede import _check, _kernels
from cede._check import Floats
from cede._kernels import CHUNK
from cede.model import Task
from cede.table import Ints, Table, canonical


@dataclass(frozen=True, eq=False)
class Episode:
    """What happened in one episode, n steps (at most the horizon)."""

    states: Ints  # (n + 1,) the last one is where it ended
    prev_agents: Ints  # (n,) who was in control before; the first is the start agent
    agents: Ints  # (n,) who was in control
    actions: Ints  # (n,)
    costs: Floats  # (n,) environment, control and switching cost of each step

    @property
    def cost(self) -> float:
        return float(self.costs.sum())

    @property
    def switches(self) -> int:
        return int(np.count_nonzero(self.agents != self.prev_agents))


def shapes(task: Task, *, flat: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """Rows and columns of the counts of a task: agents, environment."""
    slots = int(task.n_slots.sum())
    rows = task.n_states * (slots if flat else task.n_actions)
    return (slots * task.n_states, task.n_actions), (rows, task.n_states)


@dataclass(frozen=True, eq=False)
class Counts:
    """Sparse sums over episodes. Rows of `agents`: slot * S + s, one slot per agent (and time step or previous agent where its
    policy varies with it). Rows of `environment`: s * A + a; for UCRL2, which knows no actions, s * slots + slot.
    """

    agents: sp.csr_array  # (slots * S, A) int64
    environment: sp.csr_array  # (S * A, S) int64; flat: (S * slots, S)
    episodes: int
    environment_episodes: int  # counted into `environment`; more than `episodes` in a fleet, whose teams share it

    @classmethod
    def zeros(cls, task: Task, *, flat: bool = False) -> "Counts":
        agents, environment = shapes(task, flat=flat)
        return cls(
            agents=sp.csr_array(agents, dtype=np.int64),
            environment=sp.csr_array(environment, dtype=np.int64),
            episodes=0,
            environment_episodes=0,
        )

    def __add__(self, other: "Counts") -> "Counts":
        if not isinstance(other, Counts):
            return NotImplemented
        for layer in ("agents", "environment"):
            mine, theirs = getattr(self, layer).shape, getattr(other, layer).shape
            if mine != theirs:
                _check.fail("Counts +", f"the shape of {layer}", theirs, f"{mine}, as on the left")
        return Counts(
            agents=canonical(self.agents + other.agents),
            environment=canonical(self.environment + other.environment),
            episodes=self.episodes + other.episodes,
            environment_episodes=self.environment_episodes + other.environment_episodes,
        )


def checked_episode(owner: str, task: Task, episode: Episode) -> Episode:
    """An episode that fits the task, in the integers that kernels read."""
    n = len(episode.actions)
    sides = (len(episode.states) - 1, len(episode.prev_agents), len(episode.agents))
    if n > task.horizon or sides != (n, n, n):
        what = "the number of states - 1, prev_agents, agents and actions"
        _check.fail(owner, what, (*sides, n), f"equal, at most {task.horizon}")
    found = []
    for name, size in (
        ("states", task.n_states),
        ("prev_agents", task.n_agents),
        ("agents", task.n_agents),
        ("actions", task.n_actions),
    ):
        values = np.asarray(getattr(episode, name))
        if values.dtype.kind not in "iu":
            _check.fail(owner, f"the type of {name}", values.dtype, "an integer type")
        values = values.astype(np.int64)  # a copy: what was checked must not change before it is counted
        at = _kernels.first_outside(values, size)
        if at >= 0:
            _check.index(owner, f"{name}[{at}]", values[at], size)
        found.append(values)
    return Episode(found[0], found[1], found[2], found[3], episode.costs)


def count(task: Task, episodes: Iterable[Episode], *, flat: bool = False) -> Counts:
    """The counts of some episodes."""
    tally = Tally(task, Counts.zeros(task, flat=flat), flat=flat)
    for episode in episodes:
        tally.add_episode(checked_episode("count", task, episode))
        tally.end_episode()
    return tally.counts


@dataclass(eq=False)
class EnvironmentTally:
    """What was seen of an environment. The learners of a fleet share one."""

    table: Table
    rows: int  # counted rows; rows of a known table may follow
    episodes: int  # episodes counted into it, of all teams

    @classmethod
    def of(cls, counts: sp.csr_array, episodes: int, known: sp.csr_array | None = None) -> "EnvironmentTally":
        return cls(Table.of(below(counts, known)), counts.shape[0], episodes)

    @property
    def counts(self) -> sp.csr_array:
        return self.table.matrix(self.rows).astype(np.int64)


class Tally:
    """Counts that grow in place, a step at a cost of what it changes. Rows of known tables may follow the counted ones.

    environment: what was seen of it, if it is shared; else it is that of the counts.
    """

    def __init__(
        self,
        task: Task,
        counts: Counts,
        *,
        flat: bool,
        environment: EnvironmentTally | None = None,
        known_agents: sp.csr_array | None = None,
        known_environment: sp.csr_array | None = None,
    ) -> None:
        self.task = task
        self.flat = flat
        self.times = np.arange(task.horizon)
        self.n_actions = int(task.n_slots.sum()) if flat else task.n_actions
        self.agent_rows = counts.agents.shape[0]
        self.agents = Table.of(below(counts.agents, known_agents))
        if environment is None:
            environment = EnvironmentTally.of(counts.environment, counts.environment_episodes, known_environment)
        self.environment = environment
        self.episodes = counts.episodes

    def add(self, *steps: Ints) -> None:
        """Count steps: times, states, previous agents, agents, actions and next states, arrays of one length."""
        task = self.task
        sizes = (task.slot, task.vary, task.n_states, self.n_actions, self.flat)
        rows, counted = np.empty((2, CHUNK), dtype=np.int64), np.zeros(1, dtype=np.int64)
        while counted[0] < len(steps[0]):
            pools = (self.agents.pool, self.environment.table.pool)
            self.make_room(*_kernels.count_steps(*pools, *sizes, *steps, rows, counted))

    def make_room(self, agents: int, environment: int) -> None:
        """So many places more in each pool."""
        for table, places in ((self.agents, agents), (self.environment.table, environment)):
            if places > 0:
                table.lengthen(places)

    def add_episode(self, episode: Episode) -> None:
        times = self.times[: len(episode.actions)]
        steps = (times, episode.states[:-1], episode.prev_agents, episode.agents, episode.actions, episode.states[1:])
        self.add(*steps)

    def end_episode(self) -> None:
        self.episodes += 1
        self.environment.episodes += 1

    @property
    def counts(self) -> Counts:
        """A snapshot."""
        return Counts(
            agents=self.agents.matrix(self.agent_rows).astype(np.int64),
            environment=self.environment.counts,
            episodes=self.episodes,
            environment_episodes=self.environment.episodes,
        )


def below(counts: sp.csr_array, known: sp.csr_array | None) -> sp.csr_array:
    return counts if known is None else sp.csr_array(sp.vstack([counts.astype(np.float64), known], format="csr"))
