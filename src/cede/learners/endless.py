"""A learner for a task without horizon: it counts every step at once, and plans again when that pays."""

from typing import Any, overload

from cede._base import check
from cede._base.interrupts import interrupts_later, uninterrupted
from cede._base.turns import one_at_a_time
from cede.learners.learner import Learner
from cede.learners.settings import Settings
from cede.problem.task import Task
from cede.rows.stored import Counts
from cede.steps.check import check_choice, checked_episode
from cede.steps.step import Episode, Steps


def new_learner(task: Task, settings: Settings, *, seed: int = 0, counts: Counts | None = None) -> Learner:
    """Make a learner for a task, with a horizon or without. The arguments are those of `Learner`."""
    kind = EndlessLearner if check.instance(settings.name, "task", task, Task).horizon is None else Learner
    return kind(task, settings, seed=seed, counts=counts)


class EndlessLearner(Learner):
    """Learns the switching policy of a team whose task has no horizon.

    It is used as any `Learner`, but without time: `choose(state, prev_agent)`, and `observe` without t. Every step is counted when
    it is observed, and a new plan is made when the rule says so (`replan=`): when some count has doubled since the last one, after
    so many steps, or when told (`learner.replan()`). What is called an episode elsewhere is a step here: `episode` is the number of
    the next step, and counts fade from step to step.

    `end_episode` is only needed where a run ends and another one begins somewhere else. Arriving in a terminal state ends a run,
    too.
    """

    @overload  # type: ignore[override]
    def choose(self, state: int | str, prev_agent: int) -> int: ...
    @overload
    def choose(self, state: int | str, prev_agent: str) -> str: ...
    @one_at_a_time
    def choose(self, state: int | str, prev_agent: int | str) -> int | str:
        """Return the agent to put in control in a state, if prev_agent was in control before: an index if prev_agent is one, and a
        name if that is a name.
        """
        task = self.task
        at, prev = check_choice("choose", task, state, prev_agent)
        plan = self._plan()
        agent = int(plan.policy[at, prev])
        if self._recorder is not None:
            self._recorder.chosen(0, at, prev, agent, self._reason(plan))
        return task.agents[agent] if isinstance(prev_agent, str) else agent

    @one_at_a_time
    def observe(  # type: ignore[override]
        self,
        state: int | str,
        prev_agent: int | str,
        agent: int | str,
        action: int | str,
        next_state: int | str,
        cost: float | None = None,
        enter_cost: float | None = None,
        *,
        moved: bool = False,
    ) -> None:
        """Count one step. agent: who really acted, even if another one was chosen. All are indices from 0, or names.

        It begins where the step before led, unless moved says that the system was moved since, or a new run begins (`end_episode`).
        cost, enter_cost: what the environment charged, where the task does not say it; see `Learner.observe`.
        """
        step = self._checked(0, (state, prev_agent, agent, action, next_state), (cost, enter_cost), moved)
        with interrupts_later(), self._together():  # a step is counted as a whole
            self._record([step], begins=not self._steps)
            self._count_steps(Steps.of([step]))
            self._steps = [] if self.task.terminal and self.task.is_terminal[step.next_state] else [step]

    def _count_steps(self, steps: Steps) -> None:
        """Count steps, one after the other, without planning."""
        live = self._working
        with self.turn.whole:
            for i in range(len(steps)):
                live.count_step(steps.part(slice(i, i + 1)))

    @one_at_a_time
    def end_episode(self, *, replan: bool | None = None) -> None:
        """End a run: the next step may begin anywhere, after any agent. Where no run is going on, as after a terminal state, this
        changes nothing: every step is counted already.

        replan: True to make a new plan, whether one is due or not; False to keep the plan until the next step.
        """
        wanted = None if replan is None else check.truth("end_episode", "replan", replan)
        with interrupts_later(), self._together():
            if self._recorder is not None:
                self._recorder.end_episode(self.episode)
            self._steps = []
        if wanted:
            self._replan()
        elif wanted is False:
            self._working.stale = False

    @one_at_a_time
    @uninterrupted
    def observe_episode(self, episode: Episode) -> None:
        """Count all steps of a run at once."""
        steps = checked_episode("observe_episode", self.task, episode, self.settings.structure)
        with self._together():
            self._record(steps.rows(), begins=True)
            self._count_steps(steps)
            self._steps = []

    def _count_logged(self, steps: Steps) -> None:
        """Count one logged run, of a log that is counted as a whole, with a plan wherever one would have been made."""
        for i in range(len(steps)):
            self._plan_if_due()
            self._count_steps(steps.part(slice(i, i + 1)))

    @property
    def observed(self) -> int:
        """Return 0: every step is counted when it is observed, so none waits for its episode to end."""
        return 0

    def _resume_step(self, step: Any, costs: Any) -> None:
        """Take note of the last step of a saved learner, which was counted already."""
        self._steps = [self._checked(0, step[1:], tuple(costs), True, "file")]

    @property
    def steps(self) -> int:
        """Return how many steps were counted."""
        return self.episode - 1
