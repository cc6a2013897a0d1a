"""Writes learners to files. reading.py reads them.

A learner is its task, its settings, its seed, its state and the steps of the running episode. Task and settings are described field
by field (`archive.describe`), the state by its declared table (`state.pack_state`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cede import __version__
from cede._base import archive, check
from cede._base.archive import Arrays, path_to_write, save_arrays
from cede.beliefs.scale import StepDown
from cede.learners.awaited import Awaited
from cede.learners.session import OpenSessions, Session
from cede.learners.settings import Settings
from cede.learners.state import LearnerState, pack_state
from cede.learners.team_changes import TeamChange
from cede.problem.task import CHARGES, Task
from cede.steps.check import is_given
from cede.steps.recorded import Recorded

SCHEMA = 8  # raise it whenever the content of files changes; a test compares it with the declared fields
OLDEST = 3  # the oldest schema that is read: fields that it lacks have defaults
Header = dict[str, Any]


def save_learner(path: str | Path, about: Mapping[str, Any], header: Header, arrays: Arrays) -> None:
    """Write a learner to a file. about: its settings as users read them. header, arrays: as `Learner.packed` returns them."""
    shown = {"cede": __version__, "settings": {name: str(value) for name, value in about.items()}}
    save_arrays(path_to_write("save", "path", path), "learner", SCHEMA, {**shown, **header}, arrays)


def pack_settings(task: Task, settings: Settings) -> tuple[Header, Arrays]:
    """Return task and settings, which learners of a fleet may share, as a JSON header and arrays by name."""
    for part in (settings.scale.agents, settings.scale.environment):
        if callable(part) and not isinstance(part, StepDown):
            expected = "a number or a StepDown: another function cannot be written to a file"
            check.fail("save", "a scale of the learner", check.show(part), expected)
    arrays: Arrays = {}
    header = {name: archive.describe(value, name, arrays) for name, value in (("task", task), ("told", settings))}
    return header, arrays


def pack_own(
    seed: int,
    state: LearnerState,
    running: Session,
    others: OpenSessions,
    recorded: Recorded,
    changes: Iterable[TeamChange] = (),
) -> tuple[Header, Arrays]:
    """Return seed, state, open sessions and changes of the team of a learner as a JSON header and arrays by name. running: the
    session None.
    """
    numbers, arrays = pack_state(state)
    result = {f"state/{name}": array for name, array in arrays.items()}
    sessions, more = pack_sessions(others.content(running))
    result |= {f"running/{name}": array for name, array in more.items()}
    noted = [[one.episode, one.agent, one.change] for one in changes]
    return {"seed": seed, "state": numbers, "sessions": sessions, "recorded": recorded.packed(), "changes": noted}, result


def pack_sessions(content: Mapping[str, Any]) -> tuple[Header, Arrays]:
    """Return the open sessions of a learner, as `OpenSessions.content` returns them, for a file.

    The steps of all of them are in one table, session after session. Plans that several share are held once.
    """
    plans: dict[int, Any] = {}  # by identity, in order of first use
    rows: list[Header] = []
    for key, session in content["sessions"].items():
        if session.plan is not None:
            plans.setdefault(id(session.plan), (len(plans), session.plan))
        own = {name: value for name, value in session._asdict().items() if name not in ("steps", "plan")}
        rows.append({**own, "key": key, "steps": len(session.steps), "plan": plans.get(id(session.plan), (-1,))[0]})
    steps = [step for session in content["sessions"].values() for step in session.steps]
    charges = CHARGES[: 4 if any(is_given(step.control_cost) for step in steps) else 2]
    arrays: Arrays = {
        "steps": np.array([step[:6] for step in steps], dtype=np.int64).reshape(-1, 6),
        "charged": np.array([[getattr(step, name) for name in charges] for step in steps]).reshape(-1, len(charges)),
    }
    for i, plan in plans.values():
        arrays[f"policy/{i}"] = plan.policy
        if not np.isnan(plan.value.flat[0]):
            arrays[f"value/{i}"] = plan.value
    awaited, late = Awaited(content["awaited"]).packed()
    limits = {"most": content["most"], "seconds": None if content["seconds"] == float("inf") else content["seconds"]}
    numbers = {"begun": content["begun"], "approved": content["approved"]}
    return {"open": rows, "awaited": awaited, **numbers, **limits}, {**arrays, **late}


def below(arrays: Arrays, name: str) -> Arrays:
    """Return the arrays whose names begin with "name/", without that prefix."""
    return {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}
