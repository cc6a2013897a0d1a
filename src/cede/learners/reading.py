"""Learners from files: the inverse of files.py, and the conversion of what older versions wrote.

What is read goes through the same checks as any other input, so a file cannot make a learner that no call
could make.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cede._base import check
from cede._base.archive import Arrays
from cede.learners.algorithms import unpack_settings
from cede.learners.files import below
from cede.learners.learner import MOST_SEED, Learner
from cede.learners.settings import Settings
from cede.learners.state import Sizes, unpack_state
from cede.problem.task import Task
from cede.steps.recorded import Recorded, unpacked


def unpack_learner(header: Mapping[str, Any], arrays: Arrays) -> Learner:
    """Make a learner from what `Learner.packed` returned, after all checks."""
    return unpack_own(*unpack_settings(header, arrays), header, arrays)


def unpack_own(task: Task, settings: Settings, header: Mapping[str, Any], arrays: Arrays) -> Learner:
    """Make a learner from its task and settings and from what `pack_own` returned, and check that all fits together."""
    learner = Learner(task, settings, seed=check.integer("file", "seed", header["seed"], 0, MOST_SEED))
    own = below(arrays, "state")
    own |= {f"extras/{name}": array for name, array in extras_before_7(own).items()}
    state = unpack_state(Sizes(task, settings), header["state"], own)
    # before schema 6 learners knew the numbers of episodes only
    recorded = unpacked(header["recorded"]) if "recorded" in header else Recorded(before=state.episodes + 1)
    learner.resume(state, below(arrays, "running"), recorded)
    return learner


def extras_before_7(arrays: Arrays) -> Arrays:
    """Return the extras that files of schemas 5 and 6 hold under other names; none if there are none."""
    result: Arrays = {}
    for i, layer in enumerate(("agents", "environment")):
        if arrays.get("fitted_at", np.empty(0)).size and arrays["fitted_at"][i] > 0:
            result |= {f"{layer}/episodes": arrays["fitted_at"][[i]], f"{layer}/scores": arrays[f"{layer}_scores"].ravel()}
            for old, new in (("fitted", "counts"), ("bases", "models")):
                result |= {f"{layer}/{new}_{part}": arrays[f"{layer}_{old}_{part}"] for part in ("key", "number")}
    return result
