"""Learners in files: what is written. reading.py reads it.

A learner is its task, its settings, its seed, its state and the steps of the running episode. Task and settings are described field
by field (`archive.describe`), the state by its declared table (`state.pack_state`).
"""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from cede._base import archive, check
from cede._base.archive import Arrays
from cede._base.arrays import Floats, Ints
from cede.beliefs.scale import StepDown
from cede.learners.settings import Settings
from cede.learners.state import LearnerState, pack_state
from cede.problem.task import Task
from cede.steps.recorded import Recorded
from cede.steps.step import Episode

SCHEMA = 7  # raise it whenever what is written changes; a test compares it with the declared fields
OLDEST = 3  # files from this schema on are read: what they lack has a default
Header = dict[str, Any]


@dataclass(frozen=True, eq=False)
class SavedLearner:
    """Everything of which a learner consists. `Learner.saved` returns it, and `Learner.resume` takes it."""

    task: Task
    settings: Settings
    seed: int
    state: LearnerState
    steps: Ints  # (n, 6) of the running episode: t, state, prev_agent, agent, action, next_state
    charged: Floats  # (n, 2) what the environment charged in each of them, for the action and for arriving
    episode: Episode | None = None  # the running episode, if it was observed all at once
    recorded: Recorded = field(default_factory=Recorded)  # which episodes of which records it has counted


def pack_learner(learner: SavedLearner) -> tuple[Header, Arrays]:
    """Turn a learner into a header that JSON can hold and arrays by name."""
    header, arrays = pack_settings(learner)
    more, own = pack_own(learner)
    return {**header, **more}, {**arrays, **own}


def pack_settings(learner: SavedLearner) -> tuple[Header, Arrays]:
    """Turn task and settings, which learners of a fleet may have in common, into a header and arrays."""
    for part in (learner.settings.scale.agents, learner.settings.scale.environment):
        if callable(part) and not isinstance(part, StepDown):
            expected = "a number or a StepDown: another function cannot be written to a file"
            check.fail("save", "a scale of the learner", check.show(part), expected)
    arrays: Arrays = {}
    return {
        name: archive.describe(value, name, arrays) for name, value in (("task", learner.task), ("told", learner.settings))
    }, arrays


def pack_own(learner: SavedLearner) -> tuple[Header, Arrays]:
    """Turn what each learner has of its own, seed, state and running episode, into a header and arrays."""
    numbers, arrays = pack_state(learner.state)
    result: Arrays = {f"state/{name}": array for name, array in arrays.items()}
    result["running/steps"], result["running/charged"] = learner.steps, learner.charged
    if learner.episode is not None:
        for one in fields(learner.episode):
            if getattr(learner.episode, one.name) is not None:
                result[f"running/{one.name}"] = np.asarray(getattr(learner.episode, one.name))
    return {"seed": learner.seed, "state": numbers, "recorded": learner.recorded.packed()}, result


def below(arrays: Arrays, name: str) -> Arrays:
    """Return the arrays whose names begin with "name/", under their names without that beginning."""
    return {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}
