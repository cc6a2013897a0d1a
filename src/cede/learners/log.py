"""Learning from a log: the steps of a past controller are counted like steps that were observed live."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cede._base import check
from cede._base.progress import Progress
from cede._base.turns import Change
from cede.steps.log import new_entries, read_log
from cede.steps.step import Steps

if TYPE_CHECKING:
    from cede.learners.control_loop import ControlLoop


def count_log(learner: "ControlLoop", change: Change, log: Any, again: bool, progress: bool | Callable[[int], None]) -> int:
    """Do the work of `Learner.learn_from`. change: restores the learner if this is not completed."""
    owner, settings = "learn_from", learner.settings
    if learner.observed:
        check.fail(owner, "the number of steps of the running episode", learner.observed, "0: end it first (end_episode)")
    episodes = read_log(owner, learner.task, log, settings.structure)
    entries = new_entries(owner, log, learner, again=again)
    for episode in range(learner.episode, learner.episode + len(episodes) + 1):
        learner._scales.at(episode)  # a schedule that fails must fail before anything is counted
    last_only = settings.planning == "greedy" or settings.replan in ("every", 1)
    change.after = learner._as_it_is()
    with Progress("log", len(episodes), progress, 1) as bar:
        for number, steps in enumerate(episodes):
            if not last_only:
                learner._keep_plan()  # the plan that a live learner would have in this episode
            count_logged(learner, steps)
            if entries is not None:
                counted = 1 if learner.task.horizon is not None else len(steps)
                learner._recording = learner._recording.added(entries[number], counted)
            if not last_only or number == len(episodes) - 1:
                learner._keep_plan()
            bar.advance(1)
    change.after = ()  # completed: nothing to restore
    return len(episodes)


def count_logged(learner: "ControlLoop", steps: Steps) -> None:
    """Count one logged episode. Without a horizon, make a plan before each step for which one is due."""
    if learner.task.horizon is None:
        for i in range(len(steps)):
            learner._plan_if_due()
            learner._count_steps(steps.part(slice(i, i + 1)))
        return
    if learner.settings.planning == "greedy":
        for t, state in zip(steps.t, steps.state, strict=True):
            learner._working.visit(int(t), int(state))
    learner._working.counts.add_steps(steps)
    learner._count_episode(None)
