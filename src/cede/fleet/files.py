"""Fleets in files: for each part, the function that packs it for writing, followed by the one that unpacks it.

Learners are packed as in learning/files.py. Task and settings that many learners have in common are written once; what each learner
has of its own is concatenated over the learners.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cede._base import archive, check
from cede._base.archive import Arrays, checksum
from cede._kernels.tables import Sums, Table
from cede.learning.counts import EnvironmentTally, check_counted, check_sums, shapes
from cede.learning.feature_prior import pack_prior, unpack_prior
from cede.learning.files import CLASSES, Header, SavedLearner, below, pack_own, pack_told, unpack_own, unpack_told
from cede.learning.state import Seen, Sizes, check_seen, most_episodes
from cede.problem.structure import checked_structure
from cede.problem.task import Task


@dataclass(frozen=True, eq=False)
class SavedFleet:
    """Everything of which a fleet consists, in the form that goes into a file."""

    task: Task  # the states, actions, environment costs and horizon that all learners must have
    learners: Sequence[SavedLearner]
    environment: EnvironmentTally | None  # the environment counts that they share


def pack_fleet(fleet: SavedFleet) -> tuple[Header, Arrays]:
    """Turn a fleet into a header that JSON can hold and arrays by name."""
    known: dict[str, int] = {}
    groups: list[Header] = []
    learners, members = [], []
    arrays: Arrays = {}
    for learner in fleet.learners:
        about, tables = pack_told(learner)
        number = known.setdefault(checksum(about, tables), len(known))
        if number == len(groups):
            groups.append(about)
            arrays |= {f"groups/{number}/{name}": array for name, array in tables.items()}
        own, tables = pack_own(learner)
        learners.append({"group": number, **own})
        members.append(tables)
    arrays |= {f"learners/{name}": array for name, array in concatenated(members).items()}
    header: Header = {"groups": groups, "learners": learners, "environment": None}
    header["task"] = archive.describe(fleet.task, "first", arrays)
    if fleet.environment is not None:
        for name, table in (("environment", fleet.environment.table), ("costs", fleet.environment.costs)):
            sums = table.sums()
            arrays |= {f"{name}/key": sums.row * table.n_columns + sums.column, f"{name}/number": sums.amount}
        described = archive.describe(fleet.environment.structure, "environment/structure", arrays)
        header["environment"] = {"episodes": fleet.environment.episodes, "structure": described}
        arrays |= {f"prior/{name}": array for name, array in pack_prior(fleet.environment.prior).items()}
    return header, arrays


def unpack_fleet(header: Mapping[str, Any], arrays: Arrays) -> SavedFleet:
    """Make a saved fleet from what `pack_fleet` returned, after all checks."""
    told = [unpack_told(about, below(arrays, f"groups/{i}")) for i, about in enumerate(header["groups"])]
    own = apart(below(arrays, "learners"), len(header["learners"]))
    learners = []
    for about, tables in zip(header["learners"], own, strict=True):
        group = told[check.index("file", "group", about["group"], len(told))]
        learners.append(unpack_own(*group, about, tables))
    task = archive.rebuild(header["task"], arrays, CLASSES)
    if not isinstance(task, Task):
        check.fail("file", "task", "another", "a Task")
    environment = unpack_environment(task, header["environment"], arrays)
    if environment is not None:
        sizes = next((Sizes(one.task, one.told) for one in learners if one.told.can_share and one.told.features is not None), None)
        environment.prior = unpack_prior(sizes, below(arrays, "prior"))
    return SavedFleet(task, learners, environment)


def unpack_environment(task: Task, header: Mapping[str, Any] | None, arrays: Arrays) -> EnvironmentTally | None:
    """Make the environment counts that the learners of a fleet share; None if they share none. task: that of the fleet."""
    if header is None:
        return None
    structure = archive.rebuild(header["structure"], arrays, CLASSES)
    checked_structure("file", structure, task.n_states, task.n_actions, task.tables)
    _, *layers = shapes(task, structure=structure)
    tables = []
    for name, (rows, columns) in zip(("environment", "costs"), layers, strict=True):
        seen = Seen(arrays[f"{name}/key"], arrays[f"{name}/number"])
        check_seen("file", name, seen, (rows, columns))
        sums = Sums(*np.divmod(seen.key, columns), seen.number)
        if name == "environment":
            check_counted("file", None if structure is None else structure.environment, sums.row, sums.column)
        else:
            check_sums("file", seen.matrix((rows, columns)))
        tables.append(Table.empty(rows, columns))
        tables[-1].add(sums)
    episodes = check.integer("file", "episodes", header["episodes"], 0, most_episodes(task))
    return EnvironmentTally(tables[0], tables[1], layers[0][0], episodes, structure)


def concatenated(members: Sequence[Arrays]) -> Arrays:
    """Concatenate arrays of the same name over the members of a list.

    NAME/data holds all elements, NAME/shape, (members, axes), the shape of each member's array, -1 where it has none.
    """
    result: Arrays = {}
    for name in dict.fromkeys(name for arrays in members for name in arrays):
        there = [arrays.get(name) for arrays in members]
        axes = max(array.ndim for array in there if array is not None)
        wide = [None if array is None else array if array.ndim == axes else array.reshape((0,) * axes) for array in there]
        shape = [(-1,) * axes if array is None else array.shape for array in wide]
        result[f"{name}/shape"] = np.array(shape, dtype=np.int64).reshape(len(members), axes)
        result[f"{name}/data"] = np.concatenate([array.ravel() for array in wide if array is not None])
    return result


def apart(arrays: Arrays, n: int) -> list[Arrays]:
    """Return the arrays of each of n members from what `concatenated` returned, after checks."""
    members: list[Arrays] = [{} for _ in range(n)]
    for key in [key for key in arrays if key.endswith("/shape")]:
        name, shape, data = key.removesuffix("/shape"), arrays[key], arrays[key.removesuffix("shape") + "data"]
        if shape.dtype != np.int64 or shape.ndim != 2 or len(shape) != n or data.ndim != 1 or (shape < -1).any():
            check.fail("file", name, "torn", "an array for each learner")
        sizes = [math.prod(sides) if min(sides, default=0) >= 0 else 0 for sides in shape.tolist()]
        if sum(sizes) != data.size:
            check.fail("file", f"the number of elements of {name}", data.size, str(sum(sizes)))
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64).tolist()
        for own, sides, (begin, end) in zip(members, shape.tolist(), pairwise(ends), strict=True):
            if min(sides, default=0) >= 0:
                own[name] = data[begin:end].reshape(sides).copy()
    return members
