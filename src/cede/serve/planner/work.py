"""The input of a plan: task and settings of a served team, counts of its steps, and its seed.

A plan worker imports this module alone; it needs neither a database nor the extra `serve`. Counts are stored as cells, whole
numbers (row, column, n). Sums of learned costs are whole numbers too, in the units of `rows/cost_sums.py`, so that counts may be
added and subtracted in any order.
"""

import io
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from cede import __version__
from cede._base import check
from cede._base.archive import load_arrays, write_arrays
from cede._base.arrays import Floats, Ints, Policy
from cede.insight.estimating import trial_at
from cede.learners.endless import new_learner
from cede.learners.files import OLDEST, SCHEMA, SavedLearner, pack_settings
from cede.learners.learner import Learner
from cede.learners.reading import unpack_settings
from cede.learners.settings import Settings
from cede.learners.state import LearnerState
from cede.problem.task import Task
from cede.rows import counting as kernels
from cede.rows.cost_sums import COARSE, COUNT, FINE, N_SUMS, REST, SQUARE_UNIT, SQUARES, SUM
from cede.rows.places import AGENT, ENVIRONMENT, START, CostPlaces, Shape, agent_rows, cost_places, layer_shapes
from cede.rows.places import COSTS as COST_LAYER
from cede.rows.stored import NOTHING, Counts, LayerCounts, apart
from cede.rows.working import Working
from cede.steps.check import charged
from cede.steps.step import Steps

BIG = 2**53  # whole numbers below it are exact in every language
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~:-]{0,127}")
TRANSITIONS, COSTS = 0, 1  # layers of an environment's counts
UNITS = np.array([1.0, COARSE, FINE, SQUARE_UNIT])  # columns of cost sums: this many units are 1
MESSAGE, MESSAGE_SCHEMA = "plan to make", 1  # archive kind and schema of a message to a plan worker
Cells = list[tuple[int, ...]]  # rows of a table of counts
Row = tuple[Any, ...]  # of a database table


def checked_name(owner: str, place: str, name: Any) -> str:
    """Check the name of an environment or a team, which is part of a URL, and return it."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        check.fail(owner, place, check.show(name), "1 to 128 letters, digits and . _ ~ : -, a letter or a digit first")
    return name


@dataclass(frozen=True, eq=False)
class Served:
    """Task and settings of a team. Without a horizon, a team has runs in place of episodes, and each step is counted by itself."""

    task: Task
    settings: Settings

    @cached_property
    def counter(self) -> "StepCounter":
        """Return the counter of its steps."""
        return StepCounter(self.task, self.settings)

    @property
    def endless(self) -> bool:
        """Return whether the task has no horizon."""
        return self.task.horizon is None

    @property
    def unit(self) -> str:
        """Return the unit of all numbers called `episodes`: "episodes", or "steps" without a horizon."""
        return "steps" if self.endless else "episodes"

    @cached_property
    def ends(self) -> frozenset[int]:
        """Return the terminal states."""
        return frozenset(int(s) for s in self.task.terminal)

    @cached_property
    def packed(self) -> bytes:
        """Return it as bytes; the inverse of `unpack`."""
        empty = SavedLearner(self.task, self.settings, 0, LearnerState(), np.empty((0, 6), dtype=np.int64), np.empty((0, 2)))
        return archive("served", SCHEMA, *pack_settings(empty))


def unpack(data: bytes) -> Served:
    """Return task and settings from bytes; the inverse of `Served.packed`."""
    return Served(*unpack_settings(*load_arrays(data, "served", SCHEMA, OLDEST)))


def archive(kind: str, schema: int, header: Any, arrays: Any) -> bytes:
    """Return a header and arrays as the bytes of an archive."""
    file = io.BytesIO()
    write_arrays(file, kind, schema, header, arrays)
    return file.getvalue()


@dataclass(frozen=True)
class ServedTeam:
    """A team: its number and name, the number of its environment, its task and settings."""

    id: int
    name: str
    environment: int
    served: Served


TeamOf = Callable[[int], ServedTeam]  # finds a team by its number


class StepCounter:
    """Counts the steps of teams with one task and one structure, as a learner does, but into cells."""

    def __init__(self, task: Task, settings: Settings) -> None:
        self.task = task
        self.working = Working(task, NOTHING, structure=settings.structure)
        self.agent_rows = agent_rows(task, settings.structure)  # of each agent, below one another
        layers = layer_shapes(task, structure=settings.structure)
        agents = (sum(self.agent_rows), task.n_actions)
        self.shapes: tuple[Shape, Shape, Shape] = (agents, layers[ENVIRONMENT], layers[COST_LAYER])
        self.costs: CostPlaces = cost_places(task, structure=settings.structure)

    def count(self, teams: Ints, steps: Ints, amounts: Floats) -> tuple[Cells, Cells]:
        """Count steps.

        teams: (n,) the team of each step. steps: (6, n) t, state, prev_agent, agent, action, next_state. amounts: (2, n) costs of
        the action and of arriving, NaN where not given. Return cells (team, row, column, n) of the agents, and cells (layer, row,
        column, n) of the environment.
        """
        keys = np.empty((2, len(teams)), dtype=np.int64)
        kernels.keys_of_steps(*self.working.layers, self.working.problem, 0, *map(np.ascontiguousarray, steps), *keys)
        (rows, columns), (_, outcomes), _ = self.shapes
        owners, owner_of_step = np.unique(teams, return_inverse=True)
        used, n = np.unique(owner_of_step * (rows * columns) + keys[0], return_counts=True)
        owner, cell = np.divmod(used, rows * columns)
        agents = as_tuples(owners[owner], *np.divmod(cell, columns), n)
        used, n = np.unique(keys[1], return_counts=True)
        environment = as_tuples(np.full(len(used), TRANSITIONS), *np.divmod(used, outcomes), n)
        return agents, environment + (self.count_costs(steps, amounts) if len(self.costs.least) else [])

    def count_costs(self, steps: Ints, amounts: Floats) -> Cells:
        """Sum learned costs, as the kernel `add_part` does. Arguments as for `count`; return cells (layer, row, column, n)."""
        _, states, _, _, actions, nexts = steps
        costs, arriving = charged("report", self.task, Steps(*steps, *amounts))
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
        return as_tuples(np.full(len(where[0]), COSTS), *where, sums[where])


def as_tuples(*columns: Any) -> Cells:
    """Return arrays, (n,) each, as n tuples of Python integers."""
    return list(zip(*(column.tolist() for column in columns), strict=True))


@dataclass(frozen=True, eq=False)
class PlanWork:
    """The input of a plan."""

    served: Served
    seed: int
    agents: Ints  # (n, 3) row, column, n
    environment: Ints  # (n, 4) layer, row, column, n
    episodes: int  # of the team
    environment_episodes: int

    def counts(self, starts: Ints | None = None) -> Counts:
        """Convert the cells into the counts of a learner. starts: (S,) how often each state began an episode; None: not needed."""
        counter, names = self.served.counter, self.served.task.tables
        agents, environment, costs = counter.shapes
        transitions, sums = (self.environment[self.environment[:, 0] == layer, 1:] for layer in (TRANSITIONS, COSTS))
        own = apart(stored(self.agents, agents), counter.agent_rows)
        layers = {f"{AGENT}{name}": layer for name, layer in zip(names, own, strict=True)}
        layers |= {ENVIRONMENT: stored(transitions, environment), COST_LAYER: stored(sums, costs, UNITS)}
        if starts is not None:
            layers[START] = LayerCounts.of_row(starts.astype(np.float64))
        return Counts(layers, self.episodes, self.environment_episodes)

    def learner(self, starts: Ints | None = None) -> Learner:
        """Return a learner with these counts. starts: as for `counts`; a plan does not depend on them."""
        return new_learner(self.served.task, self.served.settings, seed=self.seed, counts=self.counts(starts))

    def policy(self) -> Policy:
        """Plan, and return the policy, (L, S, D); (S, D) without a horizon."""
        return self.learner().plan.policy

    @property
    def packed(self) -> bytes:
        """Return it as a message to a plan worker."""
        numbers = {"seed": self.seed, "episodes": self.episodes, "environment_episodes": self.environment_episodes}
        settings = np.frombuffer(self.served.packed, dtype=np.uint8)
        arrays = {"told": settings, "agents": self.agents, "environment": self.environment}
        return archive(MESSAGE, MESSAGE_SCHEMA, {"version": __version__, **numbers}, arrays)


def stored(cells: Ints, shape: Shape, units: Floats | None = None) -> LayerCounts:
    """Return cells, (n, 3) row, column, n, as stored counts. units: (columns,) how many units of each column are 1; None: one."""
    key = cells[:, 0] * shape[1] + cells[:, 1]
    order = np.argsort(key)
    number = cells[order, 2] / (1.0 if units is None else units[cells[order, 1]])
    return LayerCounts(shape, key[order], number.astype(np.float64))


class PlanServer:
    """The code that runs in a plan worker."""

    def version(self) -> str:
        """Return the version of cede in the worker."""
        return __version__

    def do(self, message: bytes) -> Policy:
        """Return the policy for a message, `PlanWork.packed`."""
        header, arrays = load_arrays(message, MESSAGE, MESSAGE_SCHEMA)
        if header["version"] != __version__:
            raise RuntimeError(f"the worker has cede {__version__}, must be {header['version']}, as here")
        numbers = (header["episodes"], header["environment_episodes"])
        served = cached_unpack(arrays["told"].tobytes())
        return PlanWork(served, header["seed"], arrays["agents"], arrays["environment"], *numbers).policy()


cached_unpack = lru_cache(maxsize=64)(unpack)  # keeps step counters of recent environments


@dataclass(frozen=True, eq=False)
class ServedPlan:
    """A plan of a team, and the numbers of episodes from which it was made."""

    team: ServedTeam
    version: int
    policy: Policy  # (L, S, D); (S, D) without a horizon
    episodes: int  # steps without a horizon
    environment_episodes: int
    made: int  # milliseconds
    reason: str  # of its choices: "plan" or "audition"

    @property
    def packed(self) -> bytes:
        """Return the policy as stored in the database."""
        return zlib.compress(np.ascontiguousarray(self.policy, dtype="<i2").tobytes(), 1)


def unpacked_policy(team: ServedTeam, data: bytes) -> Policy:
    """Return a policy from its bytes in the database; the inverse of `ServedPlan.packed`."""
    return np.frombuffer(zlib.decompress(data), dtype="<i2").astype(np.int16).reshape(team.served.task.policy_shape)


def reason_of(team: ServedTeam, episodes: int) -> str:
    """Return the reason of a plan's choices: "audition" in a trial episode, else "plan". episodes: counted for the plan."""
    return "plan" if trial_at(team.served.task, team.served.settings, episodes + 1) is None else "audition"
