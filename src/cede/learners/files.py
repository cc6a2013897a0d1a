"""Learners in files: for each part, the function that packs it for writing, followed by the one that unpacks it.

A learner is its task, its settings, its seed, its state and the steps of the running episode. Task and settings are described field
by field (`archive.describe`), the state by its declared table (`state.pack_state`). What is read goes through the same checks as
any other input, so a file cannot make a learner that could not have been made by calls.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from cede._base import archive, check
from cede._base.archive import Arrays
from cede._base.arrays import Floats, Ints
from cede.beliefs.scale import Scale, StepDown
from cede.learners.baseline import Baseline
from cede.learners.settings import Settings, check_fits
from cede.learners.state import LearnerState, Sizes, pack_state, unpack_state
from cede.problem.features import Features
from cede.problem.model import Environment
from cede.problem.structure import Outcomes, Structure
from cede.problem.takeover import Modes
from cede.problem.task import Task
from cede.rows.fading import HalfLife, Window
from cede.steps.check import checked_episode
from cede.steps.recorded import Recorded, unpacked
from cede.steps.step import Episode

SCHEMA = 7  # raise it whenever what is written changes; a test compares it with the declared fields
OLDEST = 3  # files from this schema on are read: what they lack has a default
CLASSES: dict[str, Callable[..., Any]] = {
    cls.__name__: cls
    for cls in (Task, Modes, Settings, Scale, StepDown, HalfLife, Window, Structure, Outcomes, Environment, Baseline, Features)
}
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


def unpack_learner(header: Mapping[str, Any], arrays: Arrays) -> SavedLearner:
    """Make a saved learner from what `pack_learner` returned, after all checks."""
    return unpack_own(*unpack_settings(header, arrays), header, arrays)


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


def unpack_settings(header: Mapping[str, Any], arrays: Arrays) -> tuple[Task, Settings]:
    """Make task and settings from what `pack_settings` returned, and check that they fit together."""
    task, settings = (archive.rebuild(header[name], arrays, CLASSES) for name in ("task", "told"))
    if not isinstance(task, Task) or not isinstance(settings, Settings):
        check.fail("file", "task and settings", "others", "a Task and Settings")
    check_fits("file", task, settings)
    return task, settings


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


def unpack_own(task: Task, settings: Settings, header: Mapping[str, Any], arrays: Arrays) -> SavedLearner:
    """Make a saved learner from its task and settings and from what `pack_own` returned, and check that all fits together."""
    seed = check.integer("file", "seed", header["seed"], 0, 2**31 - 1)
    own = below(arrays, "state")
    own |= {f"extras/{name}": array for name, array in extras_before_7(own).items()}
    state = unpack_state(Sizes(task, settings), header["state"], own)
    running = below(arrays, "running")
    steps, charged = running.pop("steps"), running.pop("charged")
    if steps.dtype != np.int64 or steps.ndim != 2 or steps.shape[1] != 6:
        check.fail("file", "the steps of the running episode", f"{steps.shape} of {steps.dtype}", "(n, 6) of int64")
    if charged.dtype != np.float64 or charged.shape != (len(steps), 2):
        check.fail("file", "the costs of the running episode", f"{charged.shape} of {charged.dtype}", "(n, 2) of float64")
    episode = Episode(**running) if running else None
    if episode is not None:
        checked_episode("file", task, episode)
    # before schema 6 learners knew the numbers of episodes only
    recorded = unpacked(header["recorded"]) if "recorded" in header else Recorded(before=state.episodes + 1)
    return SavedLearner(task, settings, seed, state, steps, charged, episode, recorded)


def extras_before_7(arrays: Arrays) -> Arrays:
    """Return the extras that files of schemas 5 and 6 hold under other names; none if there are none."""
    result: Arrays = {}
    for i, layer in enumerate(("agents", "environment")):
        if arrays.get("fitted_at", np.empty(0)).size and arrays["fitted_at"][i] > 0:
            result |= {f"{layer}/episodes": arrays["fitted_at"][[i]], f"{layer}/scores": arrays[f"{layer}_scores"].ravel()}
            for old, new in (("fitted", "counts"), ("bases", "models")):
                result |= {f"{layer}/{new}_{part}": arrays[f"{layer}_{old}_{part}"] for part in ("key", "number")}
    return result


def below(arrays: Arrays, name: str) -> Arrays:
    """Return the arrays whose names begin with "name/", under their names without that beginning."""
    return {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}
