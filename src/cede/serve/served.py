"""Served teams: task and settings, counts of their steps as database rows, and plans.

A plan worker imports this module alone; it needs neither a database nor the extra `serve`. The database and the messages to plan
workers hold the layers, keys and numbers of `rows/stored.py`. In the database all numbers are whole, also sums of learned costs, in
the units of `rows/cost_sums.py`, so that they may be added and subtracted in any order.
"""

import io
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

import numpy as np

from cede import __version__
from cede._base.archive import Arrays, load_arrays, write_arrays
from cede._base.arrays import Floats, Ints, Policy
from cede.learners.files import OLDEST, SCHEMA, pack_settings
from cede.learners.promises import trial_at
from cede.learners.reading import unpack_settings
from cede.learners.settings import Settings
from cede.learners.state import LearnerState
from cede.learners.working import WorkingLearner
from cede.problem.task import Task
from cede.rows import counting as kernels
from cede.rows.cost_sums import COARSE, FINE, N_SUMS, SQUARE_UNIT
from cede.rows.places import AGENT, COSTS, ENVIRONMENT, START, Places, Shape
from cede.rows.stored import NOTHING, Counts, LayerCounts
from cede.rows.working import Working
from cede.serve.names import OF_ENVIRONMENT, OF_TEAM, CountRow, Row
from cede.steps.check import charged
from cede.steps.step import Steps

UNITS = np.array([1.0, COARSE, FINE, SQUARE_UNIT])  # columns of cost sums: this many units are 1
MESSAGE, MESSAGE_SCHEMA = "plan to make", 2  # archive kind and schema of a message to a plan worker


@dataclass(frozen=True, eq=False)
class Served:
    """Task and settings of a team. Without a horizon, a team has runs in place of episodes, and each step is counted by itself."""

    task: Task
    settings: Settings

    @cached_property
    def counter(self) -> "StepCounter":
        """Return the counter of its steps."""
        return StepCounter(self)

    @cached_property
    def places(self) -> Places:
        """Return the rows of the layers of its counts."""
        return Places(self.task, structure=self.settings.structure)

    @property
    def shapes(self) -> dict[str, Shape]:
        """Return (rows, columns) of the layers of its counts, by name."""
        return self.places.shapes

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
        return archive("served", SCHEMA, *pack_settings(self.task, self.settings))


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
    """Counts the steps of teams with one task and one structure, as a learner does, into rows of the table `counts`."""

    def __init__(self, served: Served) -> None:
        self.task, self.places = served.task, served.places
        self.working = Working(self.places, NOTHING)
        self.agents = [name for name in served.shapes if name.startswith(AGENT)]
        sizes = (rows * columns for rows, columns in (served.shapes[name] for name in self.agents))
        self.begins = np.cumsum([0, *sizes])  # (agents + 1,) first key of each agent among the keys of all agents

    def count(self, environment: int, teams: Ints, steps: Ints, amounts: Floats) -> list[CountRow]:
        """Count steps of teams of one environment.

        teams: (n,) the team of each step. steps: (6, n) t, state, prev_agent, agent, action, next_state. amounts: (2, n) costs of
        the action and of arriving, NaN where not given. Return rows whose keys differ.
        """
        keys, columns = np.empty((2, len(teams)), dtype=np.int64), [np.ascontiguousarray(column) for column in steps]
        kernels.keys_of_steps(*self.working.layers, self.working.problem, 0, *columns, *keys)
        team, key, n = tally(teams, keys[0], int(self.begins[-1]))
        agent = np.searchsorted(self.begins, key, side="right") - 1
        result = count_rows(OF_TEAM, team, [self.agents[i] for i in agent], key - self.begins[agent], n)
        if self.task.horizon is not None:
            first = steps[0] == 0
            team, key, n = tally(teams[first], steps[1, first], self.task.n_states)
            result += count_rows(OF_TEAM, team, repeat(START), key, n)
        shared = [(ENVIRONMENT, *np.unique(keys[1], return_counts=True))]
        if self.task.learns_costs:
            costs = charged("report", self.task, Steps(*columns, *amounts))
            working = Working(self.places, NOTHING)
            working.add(*columns, charged=list(costs.values()))
            sums = LayerCounts.of_table(working.shared.costs)
            shared.append((COSTS, sums.key, np.rint(sums.number * UNITS[sums.key % N_SUMS]).astype(np.int64)))
        for layer, key, n in shared:
            result += count_rows(OF_ENVIRONMENT, np.full(len(key), environment), repeat(layer), key, n)
        return result


def tally(teams: Ints, keys: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    """Count pairs of a team and a key below `size`. Return the distinct pairs, as teams and keys, and how often each occurs."""
    numbers, member = np.unique(teams, return_inverse=True)
    pairs, n = np.unique(member * size + keys, return_counts=True)
    member, key = np.divmod(pairs, size)
    return numbers[member], key, n


def count_rows(kind: int, owners: Ints, layers: Iterable[str], keys: Ints, n: Ints) -> list[CountRow]:
    """Return rows of the table `counts`. owners, keys, n: (m,)."""
    return list(zip(repeat(kind), owners.tolist(), layers, keys.tolist(), n.tolist(), strict=False))


def stored_layers(rows: Iterable[Row], shapes: Mapping[str, Shape]) -> dict[str, LayerCounts]:
    """Return rows (layer, key, n) of one owner, ordered by layer and key, as stored counts. shapes: of its layers."""
    result = {}
    for layer, group in groupby(rows, itemgetter(0)):
        key, number = np.array([row[1:] for row in group], dtype=np.int64).T
        whole = number / UNITS[key % N_SUMS] if layer == COSTS else number.astype(np.float64)
        result[layer] = LayerCounts(shapes[layer], np.ascontiguousarray(key), whole)
    return result


@dataclass(frozen=True, eq=False)
class PlanWork:
    """The input of a plan."""

    served: Served
    seed: int
    counts: Counts

    def policy(self) -> Policy:
        """Plan, and return the policy, (L, S, D); (S, D) without a horizon."""
        return WorkingLearner(self.served.task, self.served.settings, LearnerState(self.counts), None, self.seed).make_plan().policy

    @property
    def packed(self) -> bytes:
        """Return it as a message to a plan worker."""
        numbers = {"episodes": self.counts.episodes, "environment_episodes": self.counts.environment_episodes}
        header = {"version": __version__, "seed": self.seed, **numbers, "layers": list(self.counts.layers)}
        arrays: Arrays = {"settings": np.frombuffer(self.served.packed, dtype=np.uint8)}
        for i, layer in enumerate(self.counts.layers.values()):
            arrays |= {f"key/{i}": layer.key, f"number/{i}": layer.number}
        return archive(MESSAGE, MESSAGE_SCHEMA, header, arrays)


def unpack_work(message: bytes) -> PlanWork:
    """Return the input of a plan from a message; the inverse of `PlanWork.packed`."""
    header, arrays = load_arrays(message, MESSAGE, MESSAGE_SCHEMA)
    if header["version"] != __version__:
        raise RuntimeError(f"the worker has cede {__version__}, must be {header['version']}, as here")
    served = cached_unpack(arrays["settings"].tobytes())
    layers = {
        name: LayerCounts(served.shapes[name], arrays[f"key/{i}"], arrays[f"number/{i}"]) for i, name in enumerate(header["layers"])
    }
    return PlanWork(served, header["seed"], Counts(layers, header["episodes"], header["environment_episodes"]))


class PlanServer:
    """The code that runs in a plan worker."""

    def do(self, message: bytes) -> Policy:
        """Return the policy for a packed PlanWork."""
        return unpack_work(message).policy()


cached_unpack = lru_cache(maxsize=64)(unpack)  # recent tasks and settings


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
    return "plan" if trial_at(team.served.task, team.served.settings.trials, episodes + 1) is None else "audition"
