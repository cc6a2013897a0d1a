"""The calls of a control loop: choose an agent, observe a step, end the episode; and the record of these calls."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from cede._base import check
from cede._base.interrupts import interrupts_later, uninterrupted
from cede._base.turns import Assignments, Change, Turn, one_at_a_time
from cede.beliefs.scale import ScaleByEpisode
from cede.learners.awaited import amend
from cede.learners.log import count_log
from cede.learners.promises import trials_from
from cede.learners.recording import Recording
from cede.learners.session import OpenSessions, Session, time_first
from cede.learners.settings import Settings
from cede.problem.task import NOT_GIVEN, Task
from cede.steps.check import check_choice, checked_episode
from cede.steps.recorder import Recorder
from cede.steps.step import Episode, Steps

if TYPE_CHECKING:
    from cede.learners.working import WorkingLearner
    from cede.planning.passes import Plan
    from cede.steps.recorded import Recorded


class NextTrial(NamedTuple):
    """The next trial episode of a learner."""

    agent: str  # the member who has control
    episode: int  # k = 1, 2, ..., in the order in which episodes begin


class ControlLoop(ABC):
    """The calls of a control loop. The public class is `Learner`, which adds counts, files and fleets."""

    turn: Turn  # the lock: calls wait for one another
    _task: Task
    _settings: Settings
    _session: Session  # the running episode of these calls
    _open: OpenSessions  # and those that run beside it
    _recording: Recording  # its record
    _scales: ScaleByEpisode
    _live: "WorkingLearner | None"  # the working form, if there is one now

    @property
    def task(self) -> Task:
        """Return its task: sizes, costs, horizon and names of the problem."""
        return self._task

    @property
    def settings(self) -> Settings:
        """Return its settings."""
        return self._settings

    @property
    @abstractmethod
    def episode(self) -> int:
        """Return the number of the episode that is running or comes next: k = 1, 2, ..."""

    @property
    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return what is needed to repeat a run, by name."""

    @property
    @abstractmethod
    def _working(self) -> "WorkingLearner":
        """Return the working form of the learner."""

    @abstractmethod
    def _as_it_is(self) -> Assignments:
        """Return the assignments that restore the learner's present state."""

    # ------------------------------------------------------------------------------------------------- in a control loop

    @overload
    def choose(self, t: int, state: int | str, prev_agent: int) -> int: ...
    @overload
    def choose(self, t: int, state: int | str, prev_agent: str) -> str: ...
    @overload
    def choose(self, state: int | str, prev_agent: int) -> int: ...
    @overload
    def choose(self, state: int | str, prev_agent: str) -> str: ...
    @one_at_a_time
    @time_first
    def choose(self, t: int, state: Any, prev_agent: Any) -> int | str:
        """Return the agent to put in control at time t in a state, if prev_agent was in control before.

        t: left out if the task has no horizon. state, prev_agent: indices from 0, or names. The result is a name if prev_agent is a
        name, else an index. If hand-overs take time it may be a step of a hand-over, as listed in `task.agents`; `task.who_acts`
        returns the member that acts in it. With a random `takeover_delay` it is an order, and `observe` is told who got control.
        """
        t = check.index("choose", "t", t, self._task.plan_steps)
        at, prev = check_choice("choose", self._task, state, prev_agent)
        agent = self._session.choice_at(t, at, prev)
        return self._task.agents[agent] if isinstance(prev_agent, str) else agent

    @overload
    def observe(
        self,
        t: int,
        state: int | str,
        prev_agent: int | str,
        agent: int | str,
        action: int | str,
        next_state: int | str,
        cost: float | None = ...,
        enter_cost: float | None = ...,
        *,
        control_cost: float | None = None,
        switch_cost: float | None = None,
        moved: bool = False,
    ) -> None: ...
    @overload
    def observe(
        self,
        state: int | str,
        prev_agent: int | str,
        agent: int | str,
        action: int | str,
        next_state: int | str,
        cost: float | None = ...,
        enter_cost: float | None = ...,
        *,
        control_cost: float | None = None,
        switch_cost: float | None = None,
        moved: bool = False,
    ) -> None: ...
    @one_at_a_time
    @time_first
    def observe(
        self,
        t: int,
        state: Any,
        prev_agent: Any,
        agent: Any,
        action: Any,
        next_state: Any,
        cost: float | None = NOT_GIVEN,
        enter_cost: float | None = NOT_GIVEN,
        *,
        control_cost: float | None = None,
        switch_cost: float | None = None,
        moved: bool = False,
    ) -> None:
        """Observe one step. It is counted when `end_episode` is called; at once if the task has no horizon.

        Steps are observed in order, t = 0, 1, 2, ..., and each continues the step before. t is left out if the task has no horizon.
        agent: the agent that really acted, even if another was chosen. All but t are indices from 0, or names.

        cost: the environment's cost of the action. It is required if the task does not know it, and must be in its cost_range.
        enter_cost: the same for arriving in the next state. control_cost: of the agent's control in this step. switch_cost: of the
        hand-over from prev_agent to agent. Costs that the task knows may be left out; if given, they must be equal. To learn a
        measured cost, declare it as unknown in the task: NaN in env_cost, with a cost_range. cost=None or enter_cost=None where the
        task does not know it: it arrives later, or never; see `amend`.

        moved: True if the system was moved to another state since the step before, by hand for example. Nothing is learned from the
        move. With a baseline, an episode with a move counts with the greatest possible cost.
        """
        costs = (cost, enter_cost, control_cost, switch_cost)
        self._session.take("observe", t, (state, prev_agent, agent, action, next_state), costs, moved)

    @one_at_a_time
    @uninterrupted
    def observe_episode(self, episode: Episode) -> None:
        """Observe all steps of an episode. They are counted when `end_episode` is called; at once if the task has no horizon."""
        if self.observed:
            check.fail("observe_episode", "the number of steps observed already", self.observed, "0")
        self._session.take_all(checked_episode("observe_episode", self.task, episode, self.settings.structure))

    @one_at_a_time
    def end_episode(self, *, replan: bool | None = None) -> None:
        """End the running episode: count its steps, and make a new plan if one is due.

        An episode may end before the horizon. An empty episode cannot be ended. If the task has no horizon, every step is counted
        already, and this ends a run: the next step may begin in any state, after any agent.

        replan: None to follow the learner's own rule (its argument `replan`), True to make a new plan, False to make none. With
        planning="greedy" no whole plan is made.
        """
        self._session.finish("end_episode", replan)

    @one_at_a_time
    def drop_episode(self) -> None:
        """Drop the running episode without counting it."""
        self._session.abandon()

    # ------------------------------------------------------------------------------------------------- many sessions

    @one_at_a_time
    def session(self, key: str | None) -> Session:
        """Return the open session of this name; if there is none, begin one.

        Any number of sessions may be open, interleaved, and used from several threads: each is an episode of its own (without a
        horizon, a run), with its own clock and previous agent. Steps are counted when their session ends; without a horizon at
        once. All follow the learner's current plan; a trial episode is given to one session. key: None for the session of the
        learner's own calls.

        Not with a baseline: its proof adds up whole episodes, each before the next begins.
        """
        if key is None:
            return self._session
        name = check.name("session", "key", key)
        found = self._open.by_key.get(name)
        if found is not None:
            return found
        if self.settings.baseline is not None:
            expected = "a learner without one: whether an episode may deviate is proven from all episodes before it"
            check.fail("session", "the learner", f"one with a baseline ({self.settings.baseline.name})", expected)
        ended = self._open.end_old()
        if len(self._open.by_key) >= self._open.most:
            ended += self._open.end_old(now=True)
        if ended and self.task.horizon is not None:
            self._keep_plan()
        if len(self._open.by_key) >= self._open.most:
            check.fail(
                "session", "the number of open sessions", len(self._open.by_key), f"below {self._open.most} (limit_sessions)"
            )
        session = self._open.by_key[name] = Session(self, name)
        return session

    @one_at_a_time
    def amend(self, key: str | None, t: int, *, cost: float | None = None, enter_cost: float | None = None) -> None:
        """Tell a cost that was not known yet when its step was observed with `cost=None` or `enter_cost=None`.

        key: the name of the session, which may have ended; None for the learner's own calls. t: the number of the step in it, from
        0. The cost counts once, in the row in which it belongs: the counts are those of a learner that was told at once. The next
        plan that is due uses it. With a half-life it counts from now on.

        A name means the latest session: when one of the same name observes its first step, and for the learner's own calls the next
        episode, nothing is awaited of the one before. If more than 100,000 steps are awaited, the first of the session that has
        waited longest is given up; so are those of an agent who leaves. What is given up, or never told, is not counted: it is
        never taken for 0.
        """
        amend(self, key, t, (cost, enter_cost))

    @property
    @one_at_a_time
    def awaited(self) -> dict[str | None, tuple[int, ...]]:
        """Return the steps whose costs are awaited, by session: see `amend`."""
        return {key: tuple(sorted(steps)) for key, steps in self._open.awaited.by_key.items()}

    @property
    @one_at_a_time
    def sessions(self) -> dict[str, Session]:
        """Return the open sessions by name, without the session None."""
        return dict(self._open.by_key)

    @one_at_a_time
    def limit_sessions(self, most: int | None = None, seconds: float | None = None) -> None:
        """Limit the number of open sessions, 10,000 at first, and the seconds for which they may go unused, at first any number.

        Another session is refused while `most` are open. A session that was not used for `seconds` is ended when another one
        begins, at most a tenth later: steps that were observed are counted, since they are valid evidence however the session went
        on; a session without any is dropped. None: as before.
        """
        number = self._open.most if most is None else check.integer("limit_sessions", "most", most, 1)
        age = self._open.seconds if seconds is None else check.number("limit_sessions", "seconds", seconds, least=0.0)
        self._open.most, self._open.seconds = number, age

    @one_at_a_time
    def replan(self) -> None:
        """Make a new plan from the counts now, whether one is due or not. All open sessions follow it from now on."""
        self._replan()
        for session in (self._session, *self._open.by_key.values()):
            session._plan = None

    def learn_from(self, log: Any, *, again: bool = False, progress: bool | Callable[[int], None] = True) -> int:
        """Count the logged steps of any past controller, plan again, and return the number of episodes.

        log: columns state, agent, action and next_state, and t or episode (see `logs.read_log`), as a mapping of arrays, a data
        frame or a structured array; or Episodes; or a Record. The whole log is checked first, and is counted as a whole or,
        after an error or an interrupt, not at all: see `episode`. progress: as for `simulate`.

        A Record is refused if the learner has counted some of its episodes already, live or from the record: they would count
        twice. `record.after(learner)` is the rest. again: True to count all of it once more.

        A learner that learned from a log equals one that observed the same episodes live, and each logged episode counts as an
        episode of the learner. But limits and baselines are promises about the learner's own decisions: shares and costs of a log
        do not count for them.
        """
        progress, again = check.progress("learn_from", progress), check.truth("learn_from", "again", again)
        change = Change(waits=True)
        with change.lock:
            change.claim("learn_from", [self])  # the user's functions that it calls must not call the learner
            try:
                return count_log(self, change, log, again, progress)
            finally:
                change.finish()

    @property
    def _counts_at_once(self) -> bool:
        """Return whether every step is counted when it is observed: the task has no horizon."""
        return self._task.horizon is None

    def _count_steps(self, steps: Steps) -> None:
        """Count steps of a run without horizon one by one, without planning."""
        with self.turn.whole:
            for i in range(len(steps)):
                self._working.count_step(steps.part(slice(i, i + 1)))

    def _count_episode(self, steps: Steps | None) -> None:
        """Count an episode and end it, without planning. steps: None if they were counted already."""
        self._working.count_episode(steps)
        self._scales.drop_before(self.episode)

    @property
    def observed(self) -> int:
        """Return the number of observed steps of the running episode; 0 without a horizon, where steps are counted at once."""
        return self._session.observed

    # ------------------------------------------------------------------------------------------------- records

    @one_at_a_time
    def record_to(self, path: str | Path, *, sync: str = "never") -> Recorder:
        """Record every step from now on in a file of JSON lines, and return the recorder; see `Recorder`.

        path: a new file, or a record of the same task, which is continued. If the learner was loaded in the middle of episodes,
        their steps are written first; one that has ended in the record must be dropped (drop_episode).

        sync: when to sync the file to the disk: "never", after each "episode" or after each "step". A kill of the process loses at
        most the step that is being observed.

        Calls of `observe`, `observe_episode`, `end_episode` and `drop_episode` are recorded. Steps learned by `learn_from` or
        `simulate` are not; the record notes the gap. Copies of a learner do not record.
        """
        if (before := self.recorder) is not None:
            now = f"recorded to {str(before.path)!r}"
            check.fail("record_to", "the learner", now, "recorded to one file: close that recorder first")
        for session in (self._session, *self._open.by_key.values()):
            if session.observed and session.key in self._open.awaited.by_key:
                expected = "known: amend them, or end or drop the session, before it is recorded"
                check.fail("record_to", "the costs of a running session", "awaited", expected)
        about, recorded, before_recording = {**self.about, "episode": self.episode}, self.recorded, self._recording
        recorder = Recorder(path, self.task, about=about, sync=sync, recorded=recorded)
        try:
            self._recording = Recording(recorder, recorded)
            for session in (self._session, *self._open.by_key.values()):
                if session.observed:
                    session.write(session._steps, begins=True, reason="resumed")
        except BaseException:
            self._recording = before_recording
            recorder.close()
            raise
        return recorder

    @property
    def recorder(self) -> Recorder | None:
        """Return the recorder, or None."""
        return self._recording.recorder if self._recording.is_open else None

    @property
    def recorded(self) -> "Recorded":
        """Return which episodes of which records were counted, so that none counts twice; used by `Record.after`."""
        return self._recording.recorded

    # ------------------------------------------------------------------------------------------------- counts -> belief -> plan

    @property
    @one_at_a_time
    def plan(self) -> "Plan":
        """Return the plan of the current episode: policy[t, s, prev_agent] and its value.

        With planning="greedy" it is made at the first call in an episode: the choice in every state by the current values. With a
        baseline it is the baseline's policy, of unknown value (NaN), unless the learner may deviate. With limits the value includes
        their prices.
        """
        return self._plan()

    def _plan(self) -> "Plan":
        """Do the work of `plan`."""
        own, running, approved = self._plan_if_due(), self._session, self._open.approved
        if running._plan is not None and (running._keeps_plan or (running._begun is not None and running._begun[0] is own)):
            return running._plan
        return self._working.in_force(own) if approved is None else self._working.trial_of(approved, own)

    # ------------------------------------------------------------------------------------------------- trial episodes

    @property
    @one_at_a_time
    def next_trial(self) -> NextTrial | None:
        """Return the next trial episode: who is tried, and the number of the episode; None if there are none.

        The number is that of an episode in the order in which episodes begin: `learner.episode` if one runs after the other. By
        then a member may be left out because its known costs are too high (`recommended`).
        """
        if self._task.horizon is None:
            return None
        number, trials = self._open.next_number(self._session, self.episode), self.settings.trials
        if self._open.approved is not None:
            return NextTrial(self._task.members[self._open.approved], number)
        if trials is None:
            return None
        live = self._working
        scheduled = trials_from(self._task, trials, number)
        return next((NextTrial(name, k) for k, name in scheduled if live.is_worth_trying(name)), None)

    @one_at_a_time
    def approve_trial(self, agent: int | str | None = None) -> None:
        """Make the next episode that begins a trial episode, of one session only.

        agent: a member, by index or name, who has control in it; by default that of `next_trial`. Any learner that makes whole
        plans can have such trials; with trials={"approval": True} it has no others.
        """
        owner, task = "approve_trial", self._task
        if task.horizon is None or self.settings.planning != "full" or self.settings.baseline is not None:
            expected = "one with a horizon that makes whole plans, without a baseline"
            check.fail(owner, "the learner", "without a horizon, with greedy planning or with a baseline", expected)
        if agent is None:
            proposed = self.next_trial
            if proposed is None:
                check.fail(owner, "agent", "missing", "given: no trial episode is scheduled")
            agent = proposed.agent
        member = task.agent_index(owner, "agent", agent)
        if member >= len(task.members) or not task.can_reach(member):
            check.fail(owner, "agent", check.show(agent), f"a member that can get control: {check.one_of(task.members)}")
        self._open.approved = member

    @property
    @one_at_a_time
    def own_plan(self) -> "Plan":
        """Return the plan that the learner would use without its baseline. `estimate(learner, "own plan")` returns its cost."""
        return self._plan_if_due()

    def _plan_if_due(self) -> "Plan":
        """Make a new plan if there is none or one is due; return the learner's own plan."""
        live = self._working
        if live.is_due or live.plan is None:
            return self._make_plan()
        live.stale = False
        return live.plan

    def _keep_plan(self) -> None:
        """Make a new plan after an episode if one is due. Greedy planning makes none."""
        if self.settings.planning == "full":
            self._plan_if_due()

    def _replan(self) -> None:
        """Do the work of `replan`."""
        if self.settings.policy is None:
            self._make_plan()
            self._working.plan_changed(self.observed > 0)

    def _make_plan(self) -> "Plan":
        """Make the plan of the current episode, and use it. After an interrupt the old plan stays."""
        plan = self._working.make_plan()
        with self.turn.whole, interrupts_later():
            self._working.use_plan(plan)
        return plan
