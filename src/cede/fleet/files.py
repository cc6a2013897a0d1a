"""Fleets in files: for each part, the function that packs it for writing, followed by the one that unpacks it.

Learners are packed as in learners/files.py. Task and settings that many learners have in common are written once; what each learner
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
from cede.learners.files import Header, below, pack_settings
from cede.learners.learner import Learner
from cede.learners.reading import CLASSES, extras_before_7, unpack_own, unpack_settings
from cede.learners.stacks import environment_extras
from cede.learners.state import Sizes, most_episodes
from cede.problem.structure import checked_structure
from cede.problem.task import Task
from cede.rows.places import COSTS, ENVIRONMENT, layer_shapes
from cede.rows.stored import Counts, LayerCounts, check_layer, check_outcomes_counted, check_sums
from cede.rows.working import SharedCounts


@dataclass(frozen=True, eq=False)
class SavedFleet:
    """Everything of which a fleet consists, in the form that goes into a file."""

    task: Task  # the states, actions, environment costs and horizon that all learners must have
    learners: Sequence[Learner]
    environment: SharedCounts | None  # the environment counts that they share


def pack_fleet(fleet: SavedFleet) -> tuple[Header, Arrays]:
    """Turn a fleet into a header that JSON can hold and arrays by name."""
    known: dict[str, int] = {}
    groups: list[Header] = []
    learners, members = [], []
    arrays: Arrays = {}
    for learner in fleet.learners:
        about, tables = pack_settings(learner.task, learner.settings)
        number = known.setdefault(checksum(about, tables), len(known))
        if number == len(groups):
            groups.append(about)
            arrays |= {f"groups/{number}/{name}": array for name, array in tables.items()}
        own, tables = learner.packed_own()
        learners.append({"group": number, **own})
        members.append(tables)
    arrays |= {f"learners/{name}": array for name, array in concatenated(members).items()}
    header: Header = {"groups": groups, "learners": learners, "environment": None}
    header["task"] = archive.describe(fleet.task, "first", arrays)
    if fleet.environment is not None:
        for name, table in (("environment", fleet.environment.table), ("costs", fleet.environment.costs)):
            layer = LayerCounts.of_table(table)
            arrays |= {f"{name}/key": layer.key, f"{name}/number": layer.number}
        described = archive.describe(fleet.environment.structure, "environment/structure", arrays)
        header["environment"] = {"episodes": fleet.environment.episodes, "structure": described}
        arrays |= {f"extras/{name}": array for name, array in fleet.environment.extras.items()}
    return header, arrays


def unpack_fleet(header: Mapping[str, Any], arrays: Arrays) -> SavedFleet:
    """Make a saved fleet from what `pack_fleet` returned, after all checks."""
    settings = [unpack_settings(about, below(arrays, f"groups/{i}")) for i, about in enumerate(header["groups"])]
    own = apart(below(arrays, "learners"), len(header["learners"]))
    learners = []
    for about, tables in zip(header["learners"], own, strict=True):
        group = settings[check.index("file", "group", about["group"], len(settings))]
        learners.append(unpack_own(*group, about, tables))
    task = archive.rebuild(header["task"], arrays, CLASSES)
    if not isinstance(task, Task):
        check.fail("file", "task", "another", "a Task")
    environment = unpack_environment(task, header["environment"], arrays)
    if environment is not None:
        sizes = [Sizes(one.task, one.settings) for one in learners if one.settings.can_share]
        extras = {**below(arrays, "extras"), **extras_before_7(below(arrays, "prior"))}
        environment.extras = environment_extras("file", sizes, extras)
    return SavedFleet(task, learners, environment)


def unpack_environment(task: Task, header: Mapping[str, Any] | None, arrays: Arrays) -> SharedCounts | None:
    """Make the environment counts that the learners of a fleet share; None if they share none. task: that of the fleet."""
    if header is None:
        return None
    structure = archive.rebuild(header["structure"], arrays, CLASSES)
    checked_structure("file", structure, task.n_states, task.n_actions, task.tables)
    shapes = layer_shapes(task, structure=structure)
    layers = {name: LayerCounts(shapes[name], arrays[f"{name}/key"], arrays[f"{name}/number"]) for name in (ENVIRONMENT, COSTS)}
    for name, layer in layers.items():
        check_layer("file", name, layer)
    check_outcomes_counted("file", None if structure is None else structure.environment, layers[ENVIRONMENT])
    check_sums("file", layers[COSTS])
    episodes = check.integer("file", "episodes", header["episodes"], 0, most_episodes(task))
    return SharedCounts.load(Counts(layers, 0, episodes), structure=structure)


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
