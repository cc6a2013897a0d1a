"""The learner: counts of what was seen, and the current plan. The algorithms (ucrl2_mc.py, ...) make learners by their settings."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from cede import __version__
from cede._base import check
from cede._base.interrupts import interrupts_later, uninterrupted
from cede._base.reprs import short_repr
from cede._base.turns import Assignments, Change, Turn, one_at_a_time
from cede.learners.files import pack_own, pack_settings, save_learner
from cede.learners.log import count_log
from cede.learners.session import Recording, ScaleByEpisode, Session, time_first
from cede.learners.settings import Settings, shown
from cede.learners.state import LearnerState, Sizes, first_state
from cede.learners.working import WorkingLearner
from cede.problem.task import Task
from cede.steps.check import check_choice, checked_episode
from cede.steps.recorder import Recorder
from cede.steps.step import Episode, Step, Steps

if TYPE_CHECKING:
    from cede._base.archive import Arrays
    from cede._base.arrays import Floats
    from cede.beliefs.belief import Belief, CostBelief
    from cede.planning.passes import Plan
    from cede.rows.stored import Counts
    from cede.rows.working import SharedCounts
    from cede.steps.recorded import Recorded

MOST_SEED = 2**31 - 1


class Learner:
    """Learns the switching policy of one team: it counts what was seen, and plans from the counts.

    Made by `recommended`, `ucrl2_mc` and the other algorithms, or read from a file by `cede.load`. Used in a loop of `choose` and
    `observe`, with `end_episode` after each episode; or by `simulate`.

    task: sizes, costs, horizon and names of the problem. settings: of the algorithm. seed: of ties and samples. counts: what was
    counted before, if anything.

    If the task has no horizon, the calls are without t: `choose(state, prev_agent)` and `observe(state, ...)`. Every step is then
    counted when it is observed, and a new plan is made when the rule says so (`replan=`). What is called an episode elsewhere is a
    step there: `episode` is the number of the next step, and counts fade from step to step. `end_episode` is only needed where a
    run ends and another one begins somewhere else; arriving in a terminal state ends a run, too.

    Between one `end_episode` and the next, `plan` does not change; it can be copied and used anywhere. Every call checks its
    arguments first: after an error the learner is as it was before the call. Several threads may call it: calls wait for one
    another, and while it is in a run (`simulate`) they are refused.
    """

    def __init__(self, task: Task, settings: Settings, *, seed: int = 0, counts: "Counts | None" = None) -> None:
        self._task = check.instance(getattr(settings, "name", "Learner"), "task", task, Task)
        if not isinstance(settings, Settings):
            check.fail("Learner", "settings", check.show(settings), "a Settings")
        self._settings = settings
        settings.check_fits(settings.owner, task)
        self.turn = Turn()
        self._seed = check.integer(settings.name, "seed", seed, 0, MOST_SEED)
        self._scales = ScaleByEpisode(settings.scale)
        self._state: LearnerState | None = first_state(settings.name, self._sizes, counts)
        self._live: WorkingLearner | None = None  # the working form; either this or the stored form, _state, is None
        self._shared: SharedCounts | None = None  # the environment counts of the fleet, if it belongs to one and shares
        self._fleet: Turn | None = None  # that of the fleet that it belongs to
        self._session = Session(task, settings.structure)
        self._recording = Recording()

    @property
    def task(self) -> Task:
        """Return its task: sizes, costs, horizon and names of the problem."""
        return self._task

    @property
    def settings(self) -> Settings:
        """Return its settings."""
        return self._settings

    @property
    def seed(self) -> int:
        """Return the seed of ties and samples."""
        return self._seed

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

        t: left out if the task has no horizon. state, prev_agent: indices from 0, or names. The result is an index if prev_agent is
        one, and a name if that is a name. Where hand-overs take time it may be a step of one, as listed in `task.agents`;
        `task.who_acts` returns who acts then.
        """
        task = self._task
        t = check.index("choose", "t", t, task.plan_steps)
        at, prev = check_choice("choose", task, state, prev_agent)
        if self._settings.planning == "greedy":
            agent = int(self._working.visit(t, at)[prev])
        else:
            agent = int(self._plan().policy[(at, prev) if self._counts_at_once else (t, at, prev)])
        if self._recording.recorder is not None:
            self._recording.recorder.chosen(t, at, prev, agent, self._working.reason())
        return task.agents[agent] if isinstance(prev_agent, str) else agent

    @overload
    def observe(
        self,
        t: int,
        state: int | str,
        prev_agent: int | str,
        agent: int | str,
        action: int | str,
        next_state: int | str,
        cost: float | None = None,
        enter_cost: float | None = None,
        *,
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
        cost: float | None = None,
        enter_cost: float | None = None,
        *,
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
        cost: float | None = None,
        enter_cost: float | None = None,
        *,
        moved: bool = False,
    ) -> None:
        """Take note of one step. It is counted when `end_episode` is called; at once if the task has no horizon.

        Steps come in order, t = 0, 1, 2, ..., and each begins where the one before led. t is left out if the task has no horizon.
        agent: who really acted, even if another one was chosen. All but t are indices from 0, or names.

        cost: what the environment charged for the action; it must be given where the task does not say it, within its cost_range.
        enter_cost: the same for arriving in the next state. Where the task says what it costs, both may be left out; what is given
        must then be the same. A cost that is measured is declared as not known: NaN in env_cost, with a cost_range.

        moved: True if the system was moved since the step before, by hand for example, and so is in another state than that step
        led to. The move itself is not learned from. An episode with one keeps no promise of a baseline: it counts as the dearest.
        """
        places = (state, prev_agent, agent, action, next_state)
        step = self._session.checked("observe", t, places, (cost, enter_cost), moved)
        if self._recording.recorder is None and not self._counts_at_once:
            self._session.add(step)
            return
        with interrupts_later(), self._recording.together():  # the record and the learner agree
            self._record([step], begins=not self._session.steps)
            if self._counts_at_once:
                self._count_steps(Steps.of([step]))
            self._session.add(step)

    @one_at_a_time
    @uninterrupted
    def observe_episode(self, episode: Episode) -> None:
        """Take note of all steps of an episode at once. They are counted when `end_episode` is called; at once if the task has no
        horizon.
        """
        if self.observed:
            check.fail("observe_episode", "the number of steps observed already", self.observed, "0")
        steps = checked_episode("observe_episode", self.task, episode, self.settings.structure)
        with self._recording.together():
            self._record(steps.rows(), begins=True)
            if self._counts_at_once:
                self._count_steps(steps)
                self._session.clear()
            else:
                self._session.episode = episode

    @one_at_a_time
    def end_episode(self, *, replan: bool | None = None) -> None:
        """End the running episode: count what was seen, and make a new plan if one is due.

        An episode may end before the horizon; one without steps cannot be ended. If the task has no horizon, every step is counted
        already, and this ends a run: the next step may begin anywhere, after any agent.

        replan: None to follow the rule that the learner was made with (its own `replan=`), True to make a new plan, False to make
        none. With planning="greedy" there is no whole plan to make.
        """
        wanted = None if replan is None else check.truth("end_episode", "replan", replan)
        if not self.observed and not self._counts_at_once:
            expected = "at least 1: observe them first; to plan again, call replan"
            check.fail("end_episode", "the number of steps of the running episode", 0, expected)
        self._scales.at(self.episode + 1)  # a schedule that fails must fail before anything is counted
        with self.turn.whole, interrupts_later(), self._recording.together():  # an episode is counted as a whole
            if self._recording.recorder is not None:
                self._recording.recorder.end_episode(self.episode)
            if not self._counts_at_once:
                self._count_episode()
            self._session.clear()
            self._recording = self._recording.ended(counted=True)
        if wanted:
            self._replan()
        elif wanted is False:
            self._working.stale = False
        elif not self._counts_at_once:
            self._keep_plan()

    @one_at_a_time
    def drop_episode(self) -> None:
        """Drop the running episode without counting it."""
        with interrupts_later(), self._recording.together():
            if self._recording.recorder is not None and self.observed:
                self._recording.recorder.drop_episode(self.episode)
            self._session.clear()
            self._recording = self._recording.ended(counted=False)

    @one_at_a_time
    def replan(self) -> None:
        """Make a new plan now, from all that was counted, whether one is due or not."""
        self._replan()

    def learn_from(self, log: Any, *, again: bool = False, progress: bool | Callable[[int], None] = True) -> int:
        """Count the logged steps of any past controller, plan again, and return the number of episodes.

        log: columns state, agent, action and next_state, and t or episode (see `logs.read_log`), as a mapping of arrays, a data
        frame or a structured array; or Episodes; or a Record. Everything is checked before anything is counted, and all of it is
        counted or, after an error or an interrupt, nothing: `episode` tells which. progress: as for `simulate`.

        A Record with episodes that the learner has counted already, live or from that record, is refused: they would count twice.
        `record.after(learner)` is the rest. again: True to count all of it once more.

        A learner that learned from a log is equal to one that saw the same episodes live, and each logged episode counts as one of
        its own. But limits and a baseline are promises about the time in which the learner itself decides, so shares and costs of
        the log do not count for them.
        """
        progress, again = check.progress("learn_from", progress), check.truth("learn_from", "again", again)
        change = Change(waits=True)
        with change.lock:
            change.claim("learn_from", [self])  # functions of the user that it calls must not call the learner
            try:
                return count_log(self, change, log, again, progress)
            finally:
                change.finish()

    @property
    def _counts_at_once(self) -> bool:
        """Return whether every step is counted when it is observed: the task has no horizon."""
        return self._task.horizon is None

    def _count_steps(self, steps: Steps) -> None:
        """Count steps of a run without horizon, one after the other, without planning."""
        with self.turn.whole:
            for i in range(len(steps)):
                self._working.count_step(steps.part(slice(i, i + 1)))

    def _count_episode(self) -> None:
        """Count the running episode and end it, without planning. Whether a new plan is due is decided when one is needed."""
        self._working.count_episode(self._session.not_counted())
        self._session.clear()
        self._scales.drop_before(self.episode)

    @property
    def observed(self) -> int:
        """Return how many steps of the running episode wait to be counted at its end; 0 without a horizon."""
        return self._session.observed

    # ------------------------------------------------------------------------------------------------- records

    @one_at_a_time
    def record_to(self, path: str | Path, *, sync: str = "never") -> Recorder:
        """Write down every step from now on in a file of JSON lines, and return the recorder; see `Recorder`.

        path: a new file, or a record of the same task, which is continued. If the learner comes from a file and is in the middle of
        an episode, its steps are written first; if that episode has ended in the record, it must be dropped (drop_episode).

        sync: when to wait until all is on the disk, "never", after each "episode" or after each "step". A kill of the process loses
        at most the step that is being observed.

        Recorded is what goes through `observe`, `observe_episode`, `end_episode` and `drop_episode`. What is learned otherwise, by
        `learn_from` or `simulate`, is not; the record says that there is a gap. Copies of a learner do not record.
        """
        if (before := self.recorder) is not None:
            now = f"recorded to {str(before.path)!r}"
            check.fail("record_to", "the learner", now, "recorded to one file: close that recorder first")
        about, recorded = {**self.about, "episode": self.episode}, self.recorded
        recorder = Recorder(path, self.task, about=about, sync=sync, recorded=recorded)
        try:
            running = self._session.not_counted()
            if running is not None:
                recorder.write_steps(running.rows(), episode=self.episode, begins=True, reason="resumed")
        except BaseException:
            recorder.close()
            raise
        self._recording = Recording(recorder, recorded)
        return recorder

    @property
    def recorder(self) -> Recorder | None:
        """Return the recorder that writes down every step; None if there is none."""
        return self._recording.recorder if self._recording.is_open else None

    @property
    def recorded(self) -> "Recorded":
        """Return which episodes of which records it has counted, so that none counts twice; `Record.after` goes by it."""
        return self._recording.recorded

    def _record(self, steps: list[Step], *, begins: bool) -> None:
        """Write down steps that were checked, before they are taken note of. begins: whether they begin an episode."""
        if self._recording.recorder is not None:
            planned = 0 if self._live is None else self._live.planned
            self._recording.recorder.write_steps(steps, episode=self.episode, begins=begins, planned=planned)

    # ------------------------------------------------------------------------------------------------- in a fleet

    @property
    def in_fleet(self) -> bool:
        """Return whether it belongs to a fleet."""
        self.turn.settle()
        return self._fleet is not None

    @property
    def shared_environment(self) -> "SharedCounts | None":
        """Return the environment counts of the fleet it belongs to; None if it belongs to none, or does not share."""
        self.turn.settle()
        return self._shared

    def _joined(self, environment: "SharedCounts") -> Assignments:
        """Return what lets it share the environment counts of a fleet: count into them, and plan from what all teams have seen.

        The learner drops its own counts of the environment; the caller, `Fleet`, adds them to the shared ones. Its plan is dropped
        too.
        """
        new = self._with_state(self._packed().without_environment())
        return (*new, (self, "_shared", environment), (self, "turn", environment.turn))

    def _removed(self, change: Change) -> Assignments:
        """Return what makes it a learner that belongs to no fleet. change: in which this happens."""
        if self._shared is None:
            return ((self, "_fleet", None),)
        new = {"_shared": None, "_fleet": None, "turn": Turn(change=change)}
        return (*self._with_state(self._alone()), *((self, *one) for one in new.items()))

    def _with_state(self, state: LearnerState) -> Assignments:
        """Return what replaces everything that it keeps by a state, and drops the running episode."""
        new: dict[str, Any] = {"_state": state, "_live": None, "_session": Session(self.task, self.settings.structure)}
        return tuple((self, *one) for one in new.items())

    def _as_it_is(self) -> Assignments:
        """Return what makes the learner again what it is now, and what it shares with a fleet."""
        now = {name: value for name, value in self.__dict__.items() if name != "turn"}
        now |= {"_state": self._packed(), "_live": None, "_scales": self._scales.copy(), "_session": self._session.copy()}
        shared = {} if self._shared is None else self._shared.as_it_is()
        return (*((self, *one) for one in now.items()), *((self._shared, *one) for one in shared.items()))

    def _alone(self) -> LearnerState:
        """Return its state if it belonged to no fleet: with a copy of what the fleet has seen of the environment."""
        state, shared = self._packed(), self._shared
        return state if shared is None else state.with_environment(self._sizes, shared.store(), shared.episodes, shared.extras)

    # ------------------------------------------------------------------------------------------------- stored, working

    @property
    @one_at_a_time
    def state(self) -> LearnerState:
        """Return the stored form: everything that it keeps between episodes. The running episode is not in it."""
        return self._packed()

    def _packed(self) -> LearnerState:
        """Do the work of `state`, during a run too: then it is what the run began with."""
        if self._live is not None:
            return self._live.store(environment=self._shared is None)
        assert self._state is not None
        return self._state

    @property
    def _working(self) -> WorkingLearner:
        """Return the working form. It is made from the stored form when first needed."""
        if self._live is None:
            assert self._state is not None
            live = WorkingLearner(self.task, self.settings, self._state, self._shared, self.seed, self._scales.at)
            self._live, self._state = live, None
        return self._live

    @property
    def _sizes(self) -> Sizes:
        """Return the sizes of its stored form."""
        return Sizes(self._task, self._settings)

    def _remember(self, state: LearnerState) -> None:
        """Replace everything that it keeps by a state, and drop the running episode."""
        self._state, self._live = state, None
        self._session.clear()
        self._recording = Recording(self._recording.recorder, self._recording.earlier.ended(counted=False))

    @one_at_a_time
    def save(self, path: str | Path) -> None:
        """Write the learner to a file, completely or not at all.

        `cede.load` reads it back; the loaded learner continues bit for bit as this one would, also in the middle of an episode.
        """
        if self._shared is not None:
            expected = "a learner that belongs to none: save the fleet, or remove the learner first"
            check.fail("save", "learner", "in a fleet, whose knowledge it shares", expected)
        save_learner(path, self.about, *self.packed())

    def packed(self) -> "tuple[dict[str, Any], Arrays]":
        """Return everything of which the learner consists, for a file: a header that JSON can hold, and arrays by name."""
        header, arrays = pack_settings(self.task, self.settings)
        own, more = self.packed_own()
        return {**header, **own}, {**arrays, **more}

    @one_at_a_time
    def packed_own(self) -> "tuple[dict[str, Any], Arrays]":
        """Return `packed` without task and settings, which learners of a fleet may have in common."""
        return pack_own(self.seed, self._packed(), self._session, self.recorded)

    @uninterrupted
    def resume(self, state: LearnerState, running: "Arrays", recorded: "Recorded") -> None:
        """Take over what a file holds: a state, the running episode and what was counted of records."""
        self._remember(state)
        self._session.unpack(running)
        self._recording = Recording(None, recorded)

    @one_at_a_time
    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle holds. One of a learner in a fleet belongs to none, as if it had been removed."""
        return {**self._copied(), "_state": self._alone(), "_shared": None, "_fleet": None}

    def _copied(self) -> dict[str, Any]:
        """Return what a copy in a copy of its fleet holds: the stored form instead of the working form. All that may change is
        copied, since others may use the learner when this is read.
        """
        own = {"_session": self._session.copy(), "_scales": self._scales.copy(), "_recording": Recording(None, self.recorded)}
        return {**self.__dict__, **own, "_live": None, "_state": self._packed(), "turn": Turn()}

    def __copy__(self) -> "Learner":
        """Return a copy that shares nothing: one that counted into the same fleet would be one team too many."""
        return deepcopy(self)

    # ------------------------------------------------------------------------------------------------- counts -> belief -> plan

    @property
    @one_at_a_time
    def plan(self) -> "Plan":
        """Return the plan of the current episode: policy[t, s, prev_agent] and its value.

        With planning="greedy" it is made when first asked for in an episode: what would be chosen in each state as things stand
        then. With a baseline it is the baseline's policy, of unknown value (NaN), unless the learner may deviate. With limits the
        value includes their prices.
        """
        return self._plan()

    def _plan(self) -> "Plan":
        """Do the work of `plan`."""
        return self._working.in_force(self._plan_if_due())

    @property
    @one_at_a_time
    def own_plan(self) -> "Plan":
        """The plan that the learner would use if it had no baseline. `estimate(learner, "own plan")` says what it costs."""
        return self._plan_if_due()

    def _plan_if_due(self) -> "Plan":
        """Plan anew if there is no plan or the rule says so; return the learner's own plan."""
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
        """Make the plan of the current episode, and use it. If this is interrupted, the plan before stays."""
        plan = self._working.make_plan()
        with self.turn.whole, interrupts_later():
            self._working.use_plan(plan)
        return plan

    # ------------------------------------------------------------------------------------------------- what it knows

    @property
    def episode(self) -> int:
        """Return the number of the episode that is running or comes next: k = 1, 2, ..."""
        if self.turn.change is not None:
            self.turn.settle()
        return (self._packed().episodes if self._live is None else self._live.counts.episodes) + 1

    @property
    def steps(self) -> int:
        """Return how many steps were counted. Only for a task without horizon; else `episode` counts episodes."""
        if not self._counts_at_once:
            raise AttributeError("a Learner of a task with a horizon counts episodes: use `episode`")
        return self.episode - 1

    @property
    def environment_episodes(self) -> int:
        """Return how many episodes, of all teams that share it, were counted into what it knows of the environment."""
        self.turn.settle()
        if self._shared is not None:
            return self._shared.episodes
        return self._packed().environment_episodes if self._live is None else self._live.counts.shared.episodes

    @property
    @one_at_a_time
    def counts(self) -> "Counts":
        """Return a copy of what was counted in all finished episodes; of the environment, by all teams that share it."""
        return self._live.counts.store() if self._live is not None else self._alone().counts.completed(self._sizes.shapes)

    @property
    @one_at_a_time
    def beliefs(self) -> "tuple[Belief, Belief]":
        """Return the confidence sets of the agents and of the environment, as they follow from the counts. They are copies."""
        return self._working.beliefs()

    @property
    @one_at_a_time
    def costs(self) -> "CostBelief":
        """Return what is believed of the costs of the environment: what the task says, and intervals for what is learned."""
        return self._working.costs()

    @property
    @one_at_a_time
    def prices(self) -> dict[str, float]:
        """Return, by member, what a step of control counts beyond its control cost to meet limits; empty without limits."""
        return self._working.prices()

    @property
    @one_at_a_time
    def priors(self) -> dict[str, tuple[str, float]]:
        """Return which priors from features are in force: (model, alpha) by agent, and for "environment".

        Agents that are missing have the plain prior: no features were given, or they do not predict well enough.
        """
        option, shared = self._sizes.option, {} if self._shared is None else self._shared.extras
        return {} if option is None else option.in_force({**self._packed().extras, **shared})

    @property
    @one_at_a_time
    def steps_in_control(self) -> "Floats":
        """Return in how many of the steps that it saw each member acted, (members,); what was forgotten does not count."""
        task, result = self.task, np.zeros(len(self.task.members))
        for table, layer in enumerate(self.counts.agent_layers.values()):
            result[task.acting[np.argmax(task.table == table)]] += layer.total
        return result

    @property
    @one_at_a_time
    def warnings(self) -> tuple[str, ...]:
        """Return what its user should know, in sentences: who was never in control, and whether a baseline was never left."""
        if self.episode == 1:
            return ()
        known = {self.task.tables[table] for table in self.settings.knowledge.agents}
        names = (check.printable(name) for name, steps in zip(self.task.members, self.steps_in_control, strict=True) if not steps)
        unit = "steps" if self._counts_at_once else "episodes"
        return self._packed().never_left(self.settings.baseline) + tuple(
            f"{name} was not in control once in {self.episode - 1:,} {unit}"
            + (", and its policy is known" if name in known else ": how it acts is not known")
            for name in names
        )

    @property
    def about(self) -> dict[str, Any]:
        """Return all that is needed to repeat a run, by name: the settings, the seed and the version of cede."""
        return {**shown(self.task, self.settings), "seed": self.seed, "cede": __version__}

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            unit = "steps" if self._counts_at_once else "episodes"
            running = f"{self.observed:,} of the running one" if self.observed else None
            written = f"recorded to {check.printable(self.recorder.path.name)[:60]!r}" if self.recorder is not None else None
            settings = check.printable(self.settings.name)[:60]
            return settings, f"{self.episode - 1:,} {unit} learned", running, repr(self.task), written

        return short_repr(self, parts)
