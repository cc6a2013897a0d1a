"""The learner: counts of what was seen, and the current plan. algorithms.py makes learners with different settings."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from cede import __version__
from cede._base import check
from cede._base.archive import path_to_write, save_arrays
from cede._base.arrays import Floats
from cede._base.interrupts import interrupts_later, uninterrupted
from cede._base.progress import Progress
from cede._base.reprs import short_repr
from cede._base.turns import Assignments, Change, Turn, one_at_a_time
from cede.beliefs.belief import Belief, CostBelief
from cede.beliefs.extras import of_layer
from cede.beliefs.scale import Scale
from cede.learners.baseline import never_left, undecided
from cede.learners.files import SCHEMA, SavedLearner, pack_learner
from cede.learners.fits import check_fits
from cede.learners.settings import Settings, shown
from cede.learners.state import LearnerState, Sizes, check_fit
from cede.learners.working import WorkingLearner, no_value
from cede.planning.passes import Plan
from cede.problem.task import Task
from cede.rows.fading import Window
from cede.rows.stored import Counts, own_layers
from cede.rows.working import SharedCounts
from cede.steps.check import check_choice, checked_episode, observed_step
from cede.steps.log import new_entries, read_log
from cede.steps.recorded import Recorded
from cede.steps.recorder import Recorder
from cede.steps.step import Episode, Step, Steps

MOST_SEED = 2**31 - 1


class Learner:
    """Learns the switching policy of one team: it counts what was seen, and plans from that.

    Made by `recommended`, `ucrl2_mc` and the other functions of algorithms.py, or read from a file by `cede.load`. Used in a loop
    of `choose` and `observe`, with `end_episode` after each episode; or by `simulate`.

    task: sizes, costs, horizon and names of the problem. settings: of the algorithm. seed: of ties and samples. counts: what was
    counted before, if anything.

    Between one `end_episode` and the next, `plan` does not change; it can be copied and used anywhere. Every call checks its
    arguments first: after an error the learner is as it was before the call. Several threads may call it: calls wait for one
    another, and while it is in a run (`simulate`) they are refused.
    """

    def __init__(self, task: Task, settings: Settings, *, seed: int = 0, counts: Counts | None = None) -> None:
        self._task = check.instance("Learner", "task", task, Task)
        if not isinstance(settings, Settings):
            check.fail("Learner", "settings", check.show(settings), "a Settings")
        self._settings = settings
        check_fits(settings.owner, task, settings)
        self.turn = Turn()
        self._seed = check.integer(settings.name, "seed", seed, 0, MOST_SEED)
        self._scales: dict[int, Scale] = {}  # by episode: what a schedule answered when it was asked first
        self._state: LearnerState | None = LearnerState()
        if counts is not None:
            windows = [rule for rule in (*settings.forget.values(), settings.forget_environment) if isinstance(rule, Window)]
            if windows:
                check.fail(settings.name, "counts", "given", f"left out with {windows[0]}: it must see the steps to forget them")
            check.instance(settings.name, "counts", counts, Counts)
            check_fit(settings.name, Sizes(task, settings), counts)
            self._state = LearnerState(counts)
        self._live: WorkingLearner | None = None  # the working form; either this or _state is None
        self._shared: SharedCounts | None = None  # the environment counts of the fleet, if it belongs to one and shares
        self._fleet: Turn | None = None  # that of the fleet that it belongs to
        self._steps: list[Step] = []  # steps of the running episode, observed one by one
        self._episode: Episode | None = None  # the running episode, if it was observed all at once
        self._recorder: Recorder | None = None  # who writes down every step, if somebody does
        self._recorded = Recorded()  # what of which records it has counted, without what that recorder writes
        self._why: tuple[Plan, str] | None = None  # the last plan by which somebody was chosen, and what the record calls it

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
    @one_at_a_time
    def choose(self, t: int, state: int | str, prev_agent: int | str) -> int | str:
        """Return the agent to put in control at time t in a state, if prev_agent was in control before.

        state, prev_agent: indices from 0, or names. The answer is an index if prev_agent is one, and a name if that is a name.
        Where hand-overs take time it may be a step of one, as listed in `task.agents`; `task.who_acts` tells who acts then.
        """
        task = self.task
        t = check.index("choose", "t", t, task.plan_steps)
        at, prev = check_choice("choose", task, state, prev_agent)
        plan = None if self.settings.planning == "greedy" else self._plan()
        agent = int(self._working.visit(t, at)[prev] if plan is None else plan.policy[t, at, prev])
        if self._recorder is not None:
            self._recorder.chosen(t, at, prev, agent, self._reason(plan))
        return task.agents[agent] if isinstance(prev_agent, str) else agent

    @one_at_a_time
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
    ) -> None:
        """Take note of one step. It is counted when `end_episode` is called.

        Steps come in order, t = 0, 1, 2, ..., and each begins where the one before led. agent: who really acted, even if another
        one was chosen. All but t are indices from 0, or names.

        cost: what the environment charged for the action; it must be given where the task does not say it, within its cost_range.
        enter_cost: the same for arriving in the next state. Where the task says what it costs, both may be left out; what is given
        must then be the same. A cost that is measured is declared as not known: NaN in env_cost, with a cost_range.

        moved: True if the system was moved since the step before, by hand for example, and so is in another state than that step
        led to. The move itself is not learned from. An episode with one keeps no promise of a baseline: it counts as the dearest.
        """
        t = check.index("observe", "t", t, self.task.plan_steps)
        if self._episode is not None:
            check.fail("observe", "this episode", "observed already", "ended first (end_episode)")
        if t != len(self._steps):
            hint = "" if t else "; if a new episode begins, end this one first (end_episode), or drop it (drop_episode)"
            check.fail("observe", "t", t, f"{len(self._steps)}, the next step of this episode{hint}")
        step = self._checked(t, (state, prev_agent, agent, action, next_state), (cost, enter_cost), moved)
        if self._recorder is None:
            self._steps.append(step)
            return
        with interrupts_later(), self._together():  # the record and the learner agree
            self._record([step], begins=not self._steps)
            self._steps.append(step)

    def _checked(self, t: int, given: Iterable[Any], costs: tuple[Any, Any], moved: Any, owner: str = "observe") -> Step:
        """Check a step against the task and the last one; see `observed_step`."""
        last = self._steps[-1] if self._steps else None
        return observed_step(owner, self.task, self.settings.structure, t, given, last, costs, moved)

    @one_at_a_time
    def end_episode(self, *, replan: bool | None = None) -> None:
        """End the running episode: count what was seen, and make a new plan if one is due.

        An episode may end before the horizon; one without any step is none, and cannot be ended.

        replan: None to follow the rule that the learner was made with (its own `replan=`), True to make a new plan, False to make
        none. With planning="greedy" there is no whole plan to make.
        """
        wanted = None if replan is None else check.truth("end_episode", "replan", replan)
        if not self.observed:
            expected = "at least 1: observe them first; to plan again, call replan"
            check.fail("end_episode", "the number of steps of the running episode", 0, expected)
        self._scale(self.episode + 1)  # a schedule that fails must fail before anything is counted
        with self.turn.whole, interrupts_later(), self._together():  # an episode is counted as a whole
            if self._recorder is not None:
                self._recorder.end_episode(self.episode)
            self._count_episode()
            self._end_recorded(counted=True)
        if wanted:
            self._replan()
        elif wanted is False:
            self._working.stale = False
        else:
            self._keep_plan()

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
            change.claim("learn_from", [self])  # what it asks of the user's functions must not come back to it
            try:
                return self._learn_from("learn_from", change, log, again, progress)
            finally:
                change.finish()

    def _learn_from(self, owner: str, change: Change, log: Any, again: bool, progress: bool | Callable[[int], None]) -> int:
        """Do the work of `learn_from`. If it does not reach its end, the change makes everything as it was."""
        if self.observed:
            check.fail(owner, "the number of steps of the running episode", self.observed, "0: end it first (end_episode)")
        episodes = read_log(owner, self.task, log, self.settings.structure)
        entries = new_entries(owner, log, self, again=again)
        for episode in range(self.episode, self.episode + len(episodes) + 1):
            self._scale(episode)  # a schedule that fails must fail before anything is counted
        last_only = self.settings.planning == "greedy" or self.settings.replan in ("every", 1)
        change.after = self._as_it_is()
        with Progress("log", len(episodes), progress, 1) as bar:
            for number, steps in enumerate(episodes):
                if not last_only:
                    self._keep_plan()  # the plan that this episode would have had
                self._count_logged(steps)
                if entries is not None:
                    self._recorded = self._recorded.add(entries[number], 1 if self.task.horizon is not None else len(steps))
                if not last_only or number == len(episodes) - 1:
                    self._keep_plan()
                bar.advance(1)
        change.after = ()  # now it is done
        return len(episodes)

    def _as_it_is(self) -> Assignments:
        """Return what makes the learner again what it is now, and what it shares with a fleet."""
        now = {name: value for name, value in self.__dict__.items() if name != "turn"}
        now |= {"_state": self._packed(), "_live": None, "_scales": self._scales.copy()}
        shared = {} if self._shared is None else self._shared.as_it_is()
        return (*((self, *one) for one in now.items()), *((self._shared, *one) for one in shared.items()))

    def _count_logged(self, steps: Steps) -> None:
        """Count one logged episode, of a log that is counted as a whole."""
        if self.settings.planning == "greedy":
            for t, state in zip(steps.t, steps.state, strict=True):
                self._working.visit(int(t), int(state))
        self._working.counts.add_steps(steps)
        self._count_episode()

    def _keep_plan(self) -> None:
        """Make a new plan after an episode if one is due. Greedy planning makes none."""
        if self.settings.planning == "full":
            self._plan_if_due()

    def _scale(self, episode: int) -> Scale:
        """Return the scales of an episode, as numbers. A schedule is asked once for each episode."""
        scale = self.settings.scale
        if not callable(scale.agents) and not callable(scale.environment):
            return scale
        if episode not in self._scales:
            self._scales[episode] = Scale(scale.at("agents", episode), scale.at("environment", episode))
        return self._scales[episode]

    def _count_episode(self) -> None:
        """Count the running episode and end it, without planning. Whether a new plan is due is found out when the plan is next
        asked for.
        """
        self._working.count_episode(self._running())
        self._steps, self._episode = [], None
        self._scales = {episode: scale for episode, scale in self._scales.items() if episode >= self.episode}

    def _running(self) -> Steps | None:
        """Return the steps of the running episode; None if there are none."""
        if self._episode is not None:
            return checked_episode("Learner", self.task, self._episode)
        return Steps.of(self._steps) if self._steps else None

    @one_at_a_time
    def drop_episode(self) -> None:
        """Drop the running episode without counting it."""
        with interrupts_later(), self._together():
            if self._recorder is not None and self.observed:
                self._recorder.drop_episode(self.episode)
            self._steps, self._episode = [], None
            self._end_recorded(counted=False)

    @one_at_a_time
    def replan(self) -> None:
        """Make a new plan now, from all that was counted, whether one is due or not."""
        self._replan()

    def _replan(self) -> None:
        """Do the work of `replan`."""
        if self.settings.policy is None:
            self._make_plan(self._working)
            self._working.plan_changed(self.observed > 0)

    @one_at_a_time
    @uninterrupted
    def observe_episode(self, episode: Episode) -> None:
        """Take note of all steps of an episode at once. They are counted when `end_episode` is called."""
        if self.observed:
            check.fail("observe_episode", "the number of steps observed already", self.observed, "0")
        steps = checked_episode("observe_episode", self.task, episode, self.settings.structure)
        with self._together():
            self._record(steps.rows(), begins=True)
            self._episode = episode

    @property
    def observed(self) -> int:
        """Return how many steps of the running episode were observed. They are counted when it ends."""
        return len(self._steps) if self._episode is None else len(self._episode.actions)

    # ------------------------------------------------------------------------------------------------- what it did, written down

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
        if self._recorder is not None and self._recorder.is_open:
            now = f"recorded to {str(self._recorder.path)!r}"
            check.fail("record_to", "the learner", now, "recorded to one file: close that recorder first")
        about, recorded = {**self.about, "episode": self.episode}, self.recorded
        recorder = Recorder(path, self.task, about=about, sync=sync, recorded=recorded)
        try:
            running = self._running() if self.observed else None
            if running is not None:
                recorder.write_steps(running.rows(), episode=self.episode, begins=True, reason="resumed")
        except BaseException:
            recorder.close()
            raise
        with interrupts_later():
            self._recorded, self._recorder = recorded, recorder
        return recorder

    @property
    def recorder(self) -> Recorder | None:
        """Return who writes down every step, None if nobody does."""
        return self._recorder if self._recorder is not None and self._recorder.is_open else None

    @property
    def recorded(self) -> Recorded:
        """Return which episodes of which records it has counted, so that none counts twice; `Record.after` goes by it."""
        return self._recorded if self._recorder is None else self._recorded.of_run(*self._recorder.recorded)

    def _together(self) -> AbstractContextManager[None]:
        """Return a context in which the record and the learner change, or neither does."""
        return nullcontext() if self._recorder is None else self._recorder.all_or_nothing()

    def _end_recorded(self, *, counted: bool) -> None:
        """Take note that the running episode has ended, where a recorder that was closed, or a process before, has recorded it."""
        if self._recorder is not None and not self._recorder.is_open:
            self._recorded, self._recorder = self.recorded, None
        self._recorded = self._recorded.ended(counted=counted)

    def _record(self, steps: Iterable[Step], *, begins: bool) -> None:
        """Write down steps that were checked, before they are taken note of. begins: whether they begin an episode."""
        if self._recorder is not None:
            planned = 0 if self._live is None else self._live.planned
            self._recorder.write_steps(steps, episode=self.episode, begins=begins, planned=planned)

    def _reason(self, plan: Plan | None) -> str:
        """Return in a word why `choose` answers as it does, for the record. plan: by which, None with greedy planning."""
        if plan is None:
            return "greedy"
        if self._why is None or self._why[0] is not plan:
            live = self._working
            own = "fixed" if self.settings.policy is not None else "audition" if live.is_trial else "plan"
            self._why = (plan, own if plan is live.plan else "baseline")
        return self._why[1]

    # ------------------------------------------------------------------------------------------------- in a fleet

    @property
    def in_fleet(self) -> bool:
        """Return whether it belongs to a fleet."""
        self.turn.settle()
        return self._fleet is not None

    @property
    def shared_environment(self) -> SharedCounts | None:
        """Return the environment counts of the fleet it belongs to; None if it belongs to none, or does not share."""
        self.turn.settle()
        return self._shared

    def _joined(self, environment: SharedCounts) -> Assignments:
        """Return what lets it share the environment counts of a fleet: count into them, and plan from what all teams have seen.

        The learner drops its own counts of the environment; the caller, `Fleet`, adds them to the shared ones. Its plan is dropped
        too.
        """
        state = self._packed()
        gone: dict[str, Any] = {
            "extras": of_layer(state.extras, "agents"),
            "counts": Counts(own_layers(state.counts), state.episodes, 0),
            "policy": LearnerState().policy,
            "value": LearnerState().value,
            "planned": 0,
        }
        new = self._with_state(replace(state, record=undecided(state.record), **gone))
        return (*new, (self, "_shared", environment), (self, "turn", environment.turn))

    def _removed(self, change: Change) -> Assignments:
        """Return what makes it a learner that belongs to no fleet. change: in which this happens."""
        if self._shared is None:
            return ((self, "_fleet", None),)
        new = {"_shared": None, "_fleet": None, "turn": Turn(change=change)}
        return (*self._with_state(self._alone()), *((self, *one) for one in new.items()))

    def _with_state(self, state: LearnerState) -> Assignments:
        """Return what replaces everything that it keeps by a state, and drops the running episode."""
        new: dict[str, Any] = {"_state": state, "_live": None, "_steps": [], "_episode": None}
        return tuple((self, *one) for one in new.items())

    def _alone(self) -> LearnerState:
        """Return its state if it belonged to no fleet: with a copy of what the fleet has seen of the environment."""
        state, shared = self._packed(), self._shared
        if shared is None:
            return state
        counts = Counts({**own_layers(state.counts), **shared.store()}, state.episodes, shared.episodes)
        declared = {one.name for one in Sizes(self.task, self.settings).extras}
        extras = {**state.extras, **{name: array for name, array in shared.extras.items() if name in declared}}
        return replace(state, counts=counts, extras=extras)

    @property
    @one_at_a_time
    def state(self) -> LearnerState:
        """Return everything that it keeps between episodes, in packed form. The running episode is not in it."""
        return self._packed()

    def _packed(self) -> LearnerState:
        """Do the work of `state`, during a run too: then it is what the run began with."""
        live = self._live
        if live is None:
            assert self._state is not None
            return self._state
        return live.store(environment=self._shared is None)

    def _remember(self, state: LearnerState) -> None:
        """Replace everything that it keeps by a state, and drop the running episode."""
        self._state, self._live = state, None
        self._steps, self._episode = [], None
        self._recorded = self._recorded.ended(counted=False)

    @one_at_a_time
    def save(self, path: str | Path) -> None:
        """Write the learner to a file, completely or not at all.

        `cede.load` reads it back; the loaded learner continues bit for bit as this one would, also in the middle of an episode.
        """
        if self._shared is not None:
            expected = "a learner that belongs to none: save the fleet, or remove the learner first"
            check.fail("save", "learner", "in a fleet, whose knowledge it shares", expected)
        header, arrays = pack_learner(self.saved)
        about = {"cede": __version__, "settings": {name: str(value) for name, value in self.about.items()}}
        save_arrays(path_to_write("save", "path", path), "learner", SCHEMA, {**about, **header}, arrays)

    @property
    @one_at_a_time
    def saved(self) -> SavedLearner:
        """Return everything of which the learner consists, in the form that goes into a file."""
        steps = np.array([step[:6] for step in self._steps], dtype=np.int64).reshape(-1, 6)
        charged = np.array([step[6:8] for step in self._steps], dtype=np.float64).reshape(-1, 2)
        return SavedLearner(self.task, self.settings, self.seed, self._packed(), steps, charged, self._episode, self.recorded)

    @one_at_a_time
    @uninterrupted
    def resume(self, saved: SavedLearner) -> None:
        """Take over the state and the running episode of a saved learner, with whose task and settings this one was made."""
        if saved.task is not self.task or saved.settings is not self.settings:
            check.fail("Learner.resume", "saved", "of another learner", "of the task and settings that this one was made with")
        self._remember(saved.state)
        for step, costs in zip(saved.steps.tolist(), saved.charged.tolist(), strict=True):
            self._resume_step(step, costs)
        if saved.episode is not None:
            self.observe_episode(saved.episode)
        self._recorded = saved.recorded

    def _resume_step(self, step: Any, costs: Any) -> None:
        """Take note of a step of the running episode of a saved learner."""
        self.observe(*step, *costs, moved=True)  # it was asked for then

    # ------------------------------------------------------------------------------------------------- what the learner knows

    @property
    @one_at_a_time
    def plan(self) -> Plan:
        """Return the plan of the current episode: policy[t, s, prev_agent] and its value.

        With planning="greedy" it is made when first asked for in an episode: what would be chosen in each state as things stand
        then. With a baseline it is the baseline's policy, of unknown value (NaN), unless the learner may deviate. With limits the
        value includes their prices.
        """
        return self._plan()

    def _plan(self) -> Plan:
        """Do the work of `plan`."""
        own = self._plan_if_due()
        if self.settings.baseline is None or self._working.may_deviate(own.policy):
            return own
        return Plan(self.settings.baseline.policy, no_value(self.task))

    @property
    @one_at_a_time
    def prices(self) -> dict[str, float]:
        """Return, by member, what a step of control counts beyond its control cost to meet limits; empty without limits."""
        return self._working.prices()

    @property
    @one_at_a_time
    def own_plan(self) -> Plan:
        """The plan that the learner would use if it had no baseline. `estimate(learner, "own plan")` says what it costs."""
        return self._plan_if_due()

    def _plan_if_due(self) -> Plan:
        """Plan anew if there is no plan or the rule says so; return the plan in force."""
        live = self._working
        if live.is_due or live.plan is None:
            return self._make_plan(live)
        live.stale = False
        return live.plan

    @property
    @one_at_a_time
    def counts(self) -> Counts:
        """Return a copy of what was counted in all finished episodes; of the environment, by all teams that share it."""
        if self._live is not None:
            return self._live.counts.store()
        return self._alone().counts.completed(Sizes(self.task, self.settings).shapes)

    @property
    def episode(self) -> int:
        """Return the number of the episode that is running or comes next: k = 1, 2, ..."""
        if self.turn.change is not None:
            self.turn.settle()
        return (self._packed().episodes if self._live is None else self._live.counts.episodes) + 1

    @property
    def environment_episodes(self) -> int:
        """Return how many episodes, of all teams that share it, were counted into what it knows of the environment."""
        self.turn.settle()
        if self._shared is not None:
            return self._shared.episodes
        return self._packed().environment_episodes if self._live is None else self._live.counts.shared.episodes

    @property
    @one_at_a_time
    def beliefs(self) -> tuple[Belief, Belief]:
        """Return the confidence sets of the agents and of the environment, as they follow from the counts. They are copies."""
        return self._working.beliefs()

    @property
    @one_at_a_time
    def costs(self) -> CostBelief:
        """Return what is believed of the costs of the environment: what the task says, and intervals for what is learned."""
        return self._working.costs()

    @property
    @one_at_a_time
    def steps_in_control(self) -> Floats:
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
        known = {self.task.tables[table] for table in self.settings.known_agents}
        names = (check.printable(name) for name, steps in zip(self.task.members, self.steps_in_control, strict=True) if not steps)
        unit = "steps" if self.task.horizon is None else "episodes"
        kept = never_left(self.settings.baseline, self._packed().record)
        return kept + tuple(
            f"{name} was not in control once in {self.episode - 1:,} {unit}"
            + (", and its policy is known" if name in known else ": how it acts is not known")
            for name in names
        )

    @property
    @one_at_a_time
    def priors(self) -> dict[str, tuple[str, float]]:
        """Return which priors from features are in force: (model, alpha) by agent, and for "environment".

        Agents that are missing have the plain prior: no features were given, or they do not predict well enough.
        """
        option, shared = Sizes(self.task, self.settings).option, {} if self._shared is None else self._shared.extras
        return {} if option is None else option.in_force({**self._packed().extras, **shared})

    @property
    def about(self) -> dict[str, Any]:
        """Return all that is needed to repeat a run, by name: the settings, the seed and the version of cede."""
        return {**shown(self.task, self.settings), "seed": self.seed, "cede": __version__}

    # ------------------------------------------------------------------------------------------------- counts -> belief -> plan

    def _make_plan(self, live: WorkingLearner) -> Plan:
        """Make the plan of the current episode, and use it. If this is interrupted, the plan before stays."""
        plan = live.make_plan()
        with self.turn.whole, interrupts_later():
            live.use_plan(plan)
        return plan

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            unit = "steps" if self.task.horizon is None else "episodes"
            running = f"{self.observed:,} of the running one" if self.observed else None
            written = f"recorded to {check.printable(self.recorder.path.name)[:60]!r}" if self.recorder is not None else None
            settings = check.printable(self.settings.name)[:60]
            return settings, f"{self.episode - 1:,} {unit} learned", running, repr(self.task), written

        return short_repr(self, parts)

    @one_at_a_time
    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle holds. One of a learner in a fleet belongs to none, as if it had been removed."""
        return {**self._copied(), "_state": self._alone(), "_shared": None, "_fleet": None}

    def _copied(self) -> dict[str, Any]:
        """Return what a copy in a copy of its fleet holds: the packed state instead of the working form, of which the arrays share
        memory. All that may change is copied, since others may use the learner when this is read.
        """
        own: dict[str, Any] = {name: getattr(self, name).copy() for name in ("_steps", "_scales")}
        none = {"_live": None, "_recorder": None, "_why": None}
        return {**self.__dict__, **none, **own, "_state": self._packed(), "_recorded": self.recorded, "turn": Turn()}

    def __copy__(self) -> "Learner":
        """Return a copy that shares nothing: one that counted into the same fleet would be one team too many."""
        return deepcopy(self)

    @property
    def _working(self) -> WorkingLearner:
        """Return the working form. It is made from the packed state when first needed."""
        if self._live is None:
            assert self._state is not None
            live = WorkingLearner(self.task, self.settings, self._state, self._shared, self.seed, self._scale)
            self._live, self._state = live, None
        return self._live
