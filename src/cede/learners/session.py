"""A session: one of the episodes, or without a horizon of the runs, that a learner plays at once."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from cede._base import check
from cede._base.interrupts import interrupts_later
from cede._base.reprs import plural, short_repr
from cede._base.turns import Turn, one_at_a_time
from cede.learners.awaited import Awaited, check_can_wait, is_awaited
from cede.problem.task import NOT_GIVEN
from cede.steps.check import check_choice, observed_step
from cede.steps.step import Step, Steps

if TYPE_CHECKING:
    from cede.learners.control_loop import ControlLoop
    from cede.planning.passes import Plan


class Choice(NamedTuple):
    """The last choice of a session."""

    t: int  # steps that were observed before
    state: int
    prev_agent: int
    agent: int


class Content(NamedTuple):
    """What a session remembers, for copies and files."""

    number: int  # of its episode among all that began, from 1; 0: none yet
    steps: tuple[Step, ...]  # not counted yet; without a horizon the last, which the next must continue
    clock: int  # observed steps of a run without horizon
    plan: "Plan | None"  # if its episode keeps the one with which it began
    planned: int  # the episode for which its plan was made
    reason: str  # of its choices, a word
    choice: Choice | None
    named: bool  # whether agents are given and returned by name
    whole: bool  # whether an episode was observed at once: then it must be ended
    used: float  # time of its last call, in seconds since 1970; 0 for the session None, which does not age


def time_first(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method whose first argument is the time t: without a horizon, callers leave it out, and it is 0."""

    @wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        return method(self, *args, **named) if self.task.horizon is not None else method(self, 0, *args, **named)

    return call


class Session:
    """One of the episodes that a learner plays at once; without a horizon one of the runs. `Learner.session` makes it.

    It has its own clock and previous agent, and follows the learner's current plan at every step: what other sessions taught since
    it began is used at once. With fifty sessions at once that costs far less than to keep the first plan. A trial episode, and with
    posterior sampling every episode, keeps the plan with which it began, to its end. Its methods may be called from any thread;
    calls of one learner wait for one another.

    key: its name; None for the session of the learner's own calls (`Learner.choose`, `observe`, `end_episode`).
    """

    def __init__(self, learner: "ControlLoop", key: str | None, content: Content | None = None) -> None:
        self._learner, self.key = learner, key
        self._prefix = "" if key is None else f"session {check.printable(key)[:60]!r}, "  # of errors
        self.is_open = True
        self._steps: list[Step] = []
        self.clear()
        if content is not None:
            for name, value in content._asdict().items():
                setattr(self, f"_{name}", value)
            self._steps = [*content.steps]

    def clear(self) -> None:
        """Begin a new episode."""
        self._number, self._planned, self._clock = 0, 0, 0
        self._steps = []
        self._plan: Plan | None = None
        self._choice: Choice | None = None
        self._begun: tuple[Plan, int] | None = None  # the learner's plan and the number with which it began
        self._approved: int | None = None  # the member who is tried in this episode, by approval
        self._reason, self._named, self._whole = "", False, False
        self._used = 0.0 if self.key is None else time.time()

    @property
    def content(self) -> Content:
        """Return what it remembers, for a copy or a file."""
        values = {name: getattr(self, f"_{name}") for name in Content._fields}
        return Content(**{**values, "steps": tuple(self._steps), "plan": self._plan if self._keeps_plan else None})

    def __reduce__(self) -> Any:
        return session_in, (self._learner, self.key)

    def __repr__(self) -> str:
        state = plural(self.t, "step") if self.is_open else "over"
        return short_repr(self, lambda: (repr(check.printable(str(self.key))[:60]), state))

    @property
    def turn(self) -> Turn:
        """Return the lock of its learner."""
        return self._learner.turn

    @property
    def t(self) -> int:
        """Return the number of steps observed so far: the time of the next step."""
        return len(self._steps) if self._learner.task.horizon is not None else self._clock

    @property
    def state(self) -> int | None:
        """Return the state in which it is: that of the last choice, or where the last step led; None if there was neither."""
        choice = self._current_choice()
        return choice.state if choice is not None else self._steps[-1].next_state if self._steps else None

    @property
    def prev_agent(self) -> int | str:
        """Return the agent in control before the next step, as the agents were given: by index or by name."""
        choice, last = self._current_choice(), self._steps[-1:]
        task = self._learner.task
        agent = choice.prev_agent if choice is not None else last[0].agent if last else int(task.start_agent)
        return task.agents[agent] if self._named else agent

    @property
    def reason(self) -> str:
        """Return why the agents of this episode are chosen, a word: "plan", "audition" (a trial episode), "baseline", "greedy" or
        "fixed"; empty before the first choice.
        """
        return self._reason

    @property
    def observed(self) -> int:
        """Return the number of observed steps that are not counted yet."""
        return len(self._steps) if self._learner.task.horizon is not None else 0

    def _current_choice(self) -> Choice | None:
        """Return the choice of the step that comes next; None if there was none yet."""
        return self._choice if self._choice is not None and self._choice.t == self.t else None

    def _owner(self, method: str) -> str:
        """Return how errors name a method. Fails if the session is over."""
        owner = self._prefix + method
        if not self.is_open:
            check.fail(owner, "the session", "over", "open: Learner.session opens another one of this name")
        return owner

    # ------------------------------------------------------------------------------------------------- its calls

    @one_at_a_time
    def choose(self, state: int | str, prev_agent: int | str | None = None) -> int | str:
        """Return the agent to put in control in a state at the next step.

        prev_agent: by default the agent of the last step; at first the start agent of the task. The result is a name if prev_agent
        was given by name, now or before, else an index.
        """
        owner, task = self._owner("choose"), self._learner.task
        if task.horizon is not None and len(self._steps) >= task.horizon:
            check.fail(owner, "t", len(self._steps), f"below {task.horizon}, the horizon: the session must be ended (end)")
        if prev_agent is None:
            prev_agent = self._steps[-1].agent if self._steps else int(task.start_agent)
        else:
            self._named = isinstance(prev_agent, str)
        at, prev = check_choice(owner, task, state, prev_agent)
        agent = self.choice_at(0 if task.horizon is None else len(self._steps), at, prev)
        return task.agents[agent] if self._named else agent

    @one_at_a_time
    def observe(
        self,
        action: int | str,
        next_state: int | str,
        cost: float | None = NOT_GIVEN,
        enter_cost: float | None = NOT_GIVEN,
        *,
        control_cost: float | None = None,
        switch_cost: float | None = None,
        agent: int | str | None = None,
        moved: bool = False,
    ) -> None:
        """Observe the step that was chosen last. It is counted when the session ends; without a horizon at once.

        agent: the agent that really acted; by default the chosen one. All other arguments are those of `Learner.observe`.
        """
        owner, choice, last = self._owner("observe"), self._current_choice(), self._steps[-1:]
        if choice is None and not last:
            check.fail(owner, "the state", "not known", "given to choose before the first step")
        if choice is None and agent is None:
            check.fail(owner, "agent", "missing", "given, or chosen before (choose)")
        state, prev = (choice.state, choice.prev_agent) if choice is not None else (last[0].next_state, last[0].agent)
        if agent is None and choice is not None:
            agent = choice.agent
        t = 0 if self._learner.task.horizon is None else len(self._steps)
        costs = (cost, enter_cost, control_cost, switch_cost)
        self.take(owner, t, (state, prev, agent, action, next_state), costs, moved)

    @one_at_a_time
    def end(self, *, replan: bool | None = None) -> None:
        """End the session: count its steps, and make a new plan if one is due. Arguments as for `Learner.end_episode`."""
        self.finish(self._owner("end"), replan)

    @one_at_a_time
    def drop(self) -> None:
        """Drop the session: steps that are not counted yet are not counted. Without a horizon every step is counted already."""
        self._owner("drop")
        self.abandon()

    # ------------------------------------------------------------------------------------------------- their work, for the learner

    def choice_at(self, t: int, state: int, prev: int) -> int:
        """Return the agent for a checked place. t: 0 without a horizon."""
        learner = self._learner
        if learner.settings.planning == "greedy":
            agent, self._reason = int(learner._working.visit(t, state)[prev]), "greedy"
        elif learner.task.horizon is None:
            agent, self._reason = int(learner._plan().policy[state, prev]), "plan" if learner.settings.policy is None else "fixed"
            self._planned = learner._working.planned
        else:
            plan = self._plan if self._keeps_plan and self._plan is not None else self._current_plan()
            agent = int(plan.policy[t, state, prev])
        self._choice = Choice(self.t, state, prev, agent)
        self._used = 0.0 if self.key is None else time.time()
        return agent

    @property
    def _keeps_plan(self) -> bool:
        """Return whether the episode has begun and keeps its plan: it is a trial episode, or samples tables."""
        begun = self._steps or self.key is not None
        return bool(begun) and (self._reason == "audition" or self._learner.settings.prior > 0)

    def _current_plan(self) -> "Plan":
        """Return the plan to follow now; give the episode its number if it has none yet."""
        learner = self._learner
        own, number = learner._plan_if_due(), learner._open.number_of(self, learner.episode)
        if self._plan is None or (own, number) != self._begun:
            begins = not self._steps and (self._plan is None or self.key is None)
            waiting = learner._open.approved if begins else None
            approved = self._approved if waiting is None else waiting
            plan, reason = learner._working.plan_of_episode(number, own, approved)
            with interrupts_later():
                self._approved, learner._open.approved = approved, None if begins else learner._open.approved
                self._plan, self._reason, self._number = plan, reason, number
                self._planned, self._begun = learner._working.planned, (own, number)
        assert self._plan is not None
        return self._plan

    def checked(self, owner: str, t: Any, places: Iterable[Any], costs: Sequence[Any], moved: Any) -> Step:
        """Check a step against the task and the step before, and return it. The arguments are those of `observed_step`."""
        task = self._learner.task
        t = check.index(owner, "t", t, task.plan_steps)
        if self._whole:
            check.fail(owner, "this episode", "observed already", "ended first (end_episode)")
        if task.horizon is not None and t != len(self._steps):
            hint = "" if t else "; if a new episode begins, end this one first (end_episode), or drop it (drop_episode)"
            check.fail(owner, "t", t, f"{len(self._steps)}, the next step of this episode{hint}")
        last = self._steps[-1] if self._steps else None
        step = observed_step(owner, task, self._learner.settings.structure, t, places, last, costs, moved)
        if is_awaited(step):
            check_can_wait(owner, self._learner, step)
        return step

    def take(self, owner: str, t: Any, places: Iterable[Any], costs: Sequence[Any], moved: Any) -> None:
        """Check a step, record it, and add it; without a horizon count it."""
        learner, step = self._learner, self.checked(owner, t, places, costs, moved)
        self._used = 0.0 if self.key is None else time.time()
        t, awaited, waits = self.t, learner._open.awaited, is_awaited(step)
        plain = learner._recording.recorder is None and learner.task.horizon is not None
        if plain and not waits and (t or self.key not in awaited.by_key):
            self._steps.append(step)
            return
        with interrupts_later(), learner._recording.together(self.key):  # the record and the learner agree
            self.write([step], begins=not self._steps)
            if learner.task.horizon is None:
                learner._count_steps(Steps.of([step]))
            self.add(step)
            if t == 0:  # from now on the name means this session
                awaited.give_up(self.key)
            if waits:
                awaited.put(self.key, t, step)

    def add(self, step: Step) -> None:
        """Add a checked step. Without a horizon, arriving in a terminal state ends the run."""
        task = self._learner.task
        if task.horizon is not None:
            self._steps.append(step)
        else:
            self._steps = [] if task.terminal and task.is_terminal[step.next_state] else [step]
            self._clock += 1

    def take_all(self, steps: Steps) -> None:
        """Record and add all steps of a checked episode; without a horizon count them."""
        learner = self._learner
        with learner._recording.together(self.key):
            self.write(steps.rows(), begins=True)
            learner._open.awaited.give_up(self.key)
            if learner.task.horizon is None:
                learner._count_steps(steps)
                self.clear()
            else:
                self._steps, self._whole = steps.rows(), True

    def write(self, steps: list[Step], *, begins: bool, reason: str | None = None) -> None:
        """Record checked steps before they are added. begins: whether they begin an episode. reason: None: of the last choice."""
        learner, recorder = self._learner, self._learner._recording.recorder
        if recorder is not None:
            choice, rows = self._current_choice(), [step._replace(session=self.key) for step in steps]
            if choice is not None and len(rows) == 1 and choice[1:3] == rows[0][1:3]:
                rows[0] = rows[0]._replace(chosen=choice.agent)
            if learner.task.horizon is not None and not self._number:
                self._number = learner._open.number_of(self, learner.episode)
            planned = self._planned if learner._live is not None else 0
            why = reason or ("unasked" if rows[0].chosen is None else self._reason)
            recorder.write_steps(rows, episode=learner.episode, number=self._number, begins=begins, planned=planned, reason=why)

    def not_counted(self) -> Steps | None:
        """Return the steps that are not counted yet; None if there are none."""
        return Steps.of(self._steps) if self.observed else None

    def finish(self, owner: str, replan: Any, *, plan: bool = True) -> None:
        """Count the steps, end the episode, and make a new plan if one is due and `plan` is True. Arguments as for `end`."""
        learner, has_horizon = self._learner, self._learner.task.horizon is not None
        wanted = None if replan is None else check.truth(owner, "replan", replan)
        if not self.observed and has_horizon:
            expected = "at least 1: observe them first; to plan again, call replan"
            check.fail(owner, "the number of steps of the running episode", 0, expected)
        learner._scales.at(learner.episode + 1)  # a schedule that fails must fail before anything is counted
        with learner.turn.whole, interrupts_later(), learner._recording.together(self.key):  # an episode is counted as a whole
            if learner._recording.recorder is not None:
                learner._recording.recorder.end_episode(learner.episode, self.key, self._number)
            if has_horizon:
                learner._count_episode(self.not_counted())
            self._close(counted=True)
        if wanted:
            learner._replan()
        elif wanted is False:
            learner._working.stale = False
        elif has_horizon and plan:
            learner._keep_plan()

    def abandon(self) -> None:
        """End the episode without counting its steps."""
        learner = self._learner
        with interrupts_later(), learner._recording.together(self.key):
            recorder = learner._recording.recorder
            if recorder is not None and learner.task.horizon is None:
                recorder.end_episode(learner.episode, self.key)
            elif recorder is not None and self.observed:
                recorder.drop_episode(learner.episode, self.key)
            if self.observed:
                learner._open.awaited.give_up(self.key)
            self._close(counted=False)

    def _close(self, *, counted: bool) -> None:
        """End the episode: it is over; the session None begins another one."""
        learner = self._learner
        learner._recording = learner._recording.ended(self.key, counted=counted)
        if self.key is None:
            self.clear()
        else:
            learner._open.by_key.pop(self.key, None)
            self.is_open, self._plan = False, None


def session_in(learner: "ControlLoop", key: str | None) -> Session:
    """Return the session of a name in a learner; one that is over if none is open. For copies of sessions."""
    if key is None:
        return learner._session
    result = learner._open.by_key.get(key)
    if result is None:
        result = Session(learner, key)
        result.is_open = False
    return result


OPEN = ("most", "seconds", "begun", "approved")  # numbers of `OpenSessions` that copies and files hold


class OpenSessions:
    """The open sessions of a learner, except for the session None.

    most: how many may be open. seconds: after which a session that was not used is ended; None: never. begun: the number of the
    episode that began last, among all; episodes have trial episodes by it. approved: the member whose trial is next; None: the
    schedule decides. awaited: steps whose costs arrive later, of sessions that are open or have ended, and of the session None.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, Session] = {}
        self.most, self.seconds = 10_000, float("inf")
        self.begun = 0
        self.approved: int | None = None
        self.awaited = Awaited()
        self.swept = time.time()

    def content(self, running: Session) -> dict[str, Any]:
        """Return all of it for a copy, with the session None. `of` is the inverse."""
        sessions = {session.key: session.content for session in (running, *self.by_key.values())}
        numbers = {name: getattr(self, name) for name in OPEN}
        return {"sessions": sessions, **numbers, "awaited": self.awaited.content}

    @classmethod
    def of(cls, learner: "ControlLoop", content: dict[str, Any]) -> tuple["OpenSessions", Session]:
        """Return the open sessions of a learner, and its session None, from what `content` returned."""
        result = cls()
        sessions = {key: Session(learner, key, each) for key, each in content["sessions"].items()}
        running = sessions.pop(None)
        result.by_key, result.awaited = sessions, Awaited(content["awaited"])
        for name in OPEN:
            setattr(result, name, content[name])
        return result, running

    def number_of(self, session: Session, episode: int) -> int:
        """Return the number of a session's episode among all that began. episode: the learner's next episode to be counted.

        Where only the session None is used, it is the number of the episode that is counted next.
        """
        if session.key is None and not self.by_key and not (session._steps and session._number):
            return episode
        if not session._number:
            session._number = self.begun = max(self.begun, episode - 1) + 1
        return session._number

    def next_number(self, running: Session, episode: int) -> int:
        """Return the number of the episode that begins next. running: the session None."""
        return max(self.begun, episode - 1) + 1 if self.by_key or running.observed else episode

    def end_old(self, *, now: bool = False) -> int:
        """End the sessions that were not used for `seconds`; return how many. now: False to look only from time to time.

        Steps that were observed are counted; a session without any is dropped.
        """
        time_now = time.time()
        if self.seconds == float("inf") or not (now or time_now - self.swept > self.seconds / 10 or time_now < self.swept):
            return 0
        old = [session for session in self.by_key.values() if time_now - session._used > self.seconds]
        for session in old:
            if session.observed or session._learner.task.horizon is None:
                session.finish("sessions", None, plan=False)
            else:
                session.abandon()
        self.swept = time_now
        return len(old)


def check_no_sessions(owner: str, who: str, learner: Any) -> None:
    """Check that no session of a learner is open. who: its name in errors."""
    if learner._open.by_key:
        check.fail(owner, f"the number of open sessions of {who}", len(learner._open.by_key), "0: end or drop them first")
