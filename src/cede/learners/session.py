"""The running episode of a learner: its observed steps, and their record."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from typing import Any

import numpy as np

from cede._base import check
from cede._base.archive import Arrays
from cede.beliefs.scale import Scale
from cede.problem.structure import Structure
from cede.problem.task import Task
from cede.steps.check import checked_episode, observed_step
from cede.steps.recorded import Entry, Recorded
from cede.steps.recorder import Recorder
from cede.steps.step import Episode, Step, Steps


def time_first(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method whose first argument is the time t: without a horizon, callers leave it out, and it is 0."""

    @wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        return method(self, *args, **named) if self.task.horizon is not None else method(self, 0, *args, **named)

    return call


class Session:
    """One running episode.

    task, structure: of the learner. steps: steps that were observed one by one. episode: steps that were observed all at once,
    instead. Without a horizon every step is counted when it is observed; `steps` then holds only the last, which the next must
    continue.
    """

    def __init__(self, task: Task, structure: Structure | None) -> None:
        self.task, self.structure = task, structure
        self.steps: list[Step] = []
        self.episode: Episode | None = None

    @property
    def observed(self) -> int:
        """Return the number of observed steps that are not counted yet."""
        if self.task.horizon is None:
            return 0
        return len(self.steps) if self.episode is None else len(self.episode.actions)

    def checked(self, owner: str, t: Any, places: Iterable[Any], costs: tuple[Any, Any], moved: Any) -> Step:
        """Check a step against the task and the step before, and return it. The arguments are those of `observed_step`."""
        t = check.index(owner, "t", t, self.task.plan_steps)
        if self.episode is not None:
            check.fail(owner, "this episode", "observed already", "ended first (end_episode)")
        if self.task.horizon is not None and t != len(self.steps):
            hint = "" if t else "; if a new episode begins, end this one first (end_episode), or drop it (drop_episode)"
            check.fail(owner, "t", t, f"{len(self.steps)}, the next step of this episode{hint}")
        last = self.steps[-1] if self.steps else None
        return observed_step(owner, self.task, self.structure, t, places, last, costs, moved)

    def add(self, step: Step) -> None:
        """Add a checked step. Without a horizon, arriving in a terminal state ends the run."""
        if self.task.horizon is not None:
            self.steps.append(step)
        else:
            self.steps = [] if self.task.terminal and self.task.is_terminal[step.next_state] else [step]

    def not_counted(self) -> Steps | None:
        """Return the steps that are not counted yet; None if there are none."""
        if self.episode is not None:
            return checked_episode("Learner", self.task, self.episode)
        return Steps.of(self.steps) if self.observed else None

    def clear(self) -> None:
        """Begin a new episode."""
        self.steps, self.episode = [], None

    def copy(self) -> "Session":
        """Return a copy."""
        result = Session(self.task, self.structure)
        result.steps, result.episode = self.steps.copy(), self.episode
        return result

    def packed(self) -> Arrays:
        """Return it as arrays by name, for a file. `unpack` is the inverse."""
        result: Arrays = {
            "steps": np.array([step[:6] for step in self.steps], dtype=np.int64).reshape(-1, 6),
            "charged": np.array([step[6:8] for step in self.steps], dtype=np.float64).reshape(-1, 2),
        }
        for column in fields(self.episode) if self.episode is not None else ():
            if getattr(self.episode, column.name) is not None:
                result[column.name] = np.asarray(getattr(self.episode, column.name))
        return result

    def unpack(self, arrays: Arrays) -> None:
        """Continue an episode from a file, after checks."""
        more = dict(arrays)
        steps, charged = more.pop("steps"), more.pop("charged")
        if steps.dtype != np.int64 or steps.ndim != 2 or steps.shape[1] != 6:
            check.fail("file", "the steps of the running episode", f"{steps.shape} of {steps.dtype}", "(n, 6) of int64")
        if charged.dtype != np.float64 or charged.shape != (len(steps), 2):
            check.fail("file", "the costs of the running episode", f"{charged.shape} of {charged.dtype}", "(n, 2) of float64")
        for step, costs in zip(steps.tolist(), charged.tolist(), strict=True):
            self.add(self.checked("file", step[0], step[1:], tuple(costs), True))  # checked when it was new
        if more:
            episode = Episode(**more)
            checked_episode("file", self.task, episode, self.structure)
            if self.steps or self.task.horizon is None:
                check.fail("file", "the running episode", "observed step by step, too", "observed once")
            self.episode = episode


@dataclass(frozen=True)
class Recording:
    """The record of a learner: its recorder or None, and which recorded episodes it has counted."""

    recorder: Recorder | None = None
    earlier: Recorded = field(default_factory=Recorded)  # episodes counted from other records than this recorder's

    @property
    def recorded(self) -> Recorded:
        """Return which episodes of which records were counted, so that none counts twice."""
        return self.earlier if self.recorder is None else self.earlier.of_run(*self.recorder.recorded)

    @property
    def is_open(self) -> bool:
        """Return whether steps are recorded."""
        return self.recorder is not None and self.recorder.is_open

    def together(self) -> AbstractContextManager[None]:
        """Return a context in which record and learner change together, or neither does."""
        return nullcontext() if self.recorder is None else self.recorder.all_or_nothing()

    def added(self, entry: Entry, counted: int) -> "Recording":
        """Return it with the places of an entry. counted: how many episodes, or steps, of it were counted."""
        return replace(self, earlier=self.earlier.add(entry, counted))

    def ended(self, *, counted: bool) -> "Recording":
        """Return it after the running episode was counted or dropped, without a recorder that was closed."""
        closed = self.recorder is not None and not self.is_open
        earlier = (self.recorded if closed else self.earlier).ended(counted=counted)
        return Recording(None if closed else self.recorder, earlier)


class ScaleByEpisode:
    """The scales of the sets, as numbers. A schedule, which is a user's function, is called once for each episode."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.called: dict[int, Scale] = {}  # results of the schedule by episode

    def at(self, episode: int) -> Scale:
        """Return the scales of an episode."""
        if not callable(self.scale.agents) and not callable(self.scale.environment):
            return self.scale
        if episode not in self.called:
            self.called[episode] = Scale(self.scale.at("agents", episode), self.scale.at("environment", episode))
        return self.called[episode]

    def drop_before(self, episode: int) -> None:
        """Forget the results for earlier episodes."""
        self.called = {number: scale for number, scale in self.called.items() if number >= episode}

    def copy(self) -> "ScaleByEpisode":
        """Return a copy."""
        result = ScaleByEpisode(self.scale)
        result.called = self.called.copy()
        return result
