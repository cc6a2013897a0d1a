"""Packs fleets for files. load.py reads them.

Learners are packed as in learners/files.py. Task and settings that many learners share are written once; all other arrays are
concatenated over the learners.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from cede._base import archive, check
from cede._base.archive import Arrays, checksum
from cede._kernels.tables import Table
from cede.beliefs.extras import Extras
from cede.learners.files import Header, pack_settings
from cede.learners.learner import Learner
from cede.problem.structure import Outcomes
from cede.problem.task import Task
from cede.rows.places import AGENTS, COSTS, ENVIRONMENT, Shape
from cede.rows.stored import LayerCounts, check_layer, check_outcomes_counted, check_sums
from cede.rows.working import SharedCounts


def pack_fleet(task: Task, learners: Sequence[Learner], environment: SharedCounts | None) -> tuple[Header, Arrays]:
    """Return a fleet as a JSON header and arrays by name.

    task: the states, actions, environment costs and horizon of all learners. environment: the shared counts.
    """
    numbers: dict[str, int] = {}  # of different tasks and settings, by their checksum
    groups: list[Header] = []
    about_learners, members = [], []
    arrays: Arrays = {}
    for learner in learners:
        about, tables = pack_settings(learner.task, learner.settings)
        number = numbers.setdefault(checksum(about, tables), len(numbers))
        if number == len(groups):
            groups.append(about)
            arrays |= {f"groups/{number}/{name}": array for name, array in tables.items()}
        own, tables = learner.packed_own()
        about_learners.append({"group": number, **own})
        members.append(tables)
    arrays |= {f"learners/{name}": array for name, array in concatenated(members).items()}
    header: Header = {"groups": groups, "learners": about_learners, "environment": None}
    header["task"] = archive.describe(task, "first", arrays)
    if environment is not None:
        shared = {ENVIRONMENT: environment.table, COSTS: environment.costs, AGENTS: environment.agents}
        arrays |= pack_shared(shared, environment.extras)
        described = archive.describe(environment.structure, "environment/structure", arrays)
        spans = [[name, span.first, span.rows, span.varies_with, span.structure] for name, span in environment.spans.items()]
        header["environment"] = {"episodes": environment.episodes, "structure": described}
        header["environment"] |= {"agents": spans, "agents_episodes": environment.agents_episodes}
    return header, arrays


def pack_shared(tables: Mapping[str, Table], extras: Extras) -> Arrays:
    """Return shared counts, by layer, and the extras of the shared environment as arrays by name."""
    arrays: Arrays = {f"extras/{name}": array for name, array in extras.items()}
    for name, table in tables.items():
        layer = LayerCounts.of_table(table)
        arrays |= {f"{name}/key": layer.key, f"{name}/number": layer.number}
    return arrays


def unpack_shared(arrays: Arrays, shapes: Mapping[str, Shape], outcomes: Outcomes | None) -> dict[str, LayerCounts]:
    """Make shared counts from the arrays of a file, after checks.

    shapes: rows and columns of the layers of the environment and its costs. outcomes: declared structure of the environment.
    """
    layers = {name: LayerCounts(shape, arrays[f"{name}/key"], arrays[f"{name}/number"]) for name, shape in shapes.items()}
    for name, layer in layers.items():
        check_layer("file", name, layer)
    check_outcomes_counted("file", outcomes, layers[ENVIRONMENT])
    check_sums("file", layers[COSTS])
    return layers


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
    """Return the arrays of each of n members, after checks; the inverse of `concatenated`."""
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
