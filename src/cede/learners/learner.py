"""The learner: counts and the current plan. The algorithms (ucrl2_mc.py, ...) make learners by their settings."""

from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cede import __version__
from cede._base import check
from cede._base.interrupts import uninterrupted
from cede._base.reprs import plural, short_repr
from cede._base.turns import Assignments, Change, Turn, one_at_a_time
from cede.beliefs.scale import ScaleByEpisode
from cede.learners.changing_team import ChangingTeam
from cede.learners.files import pack_own, pack_settings, save_learner
from cede.learners.recording import Recording
from cede.learners.session import OpenSessions, Session
from cede.learners.settings import Settings, shown
from cede.learners.state import LearnerState, Sizes, first_state
from cede.learners.working import WorkingLearner
from cede.problem.task import Task

if TYPE_CHECKING:
    from cede._base.archive import Arrays
    from cede._base.arrays import Floats
    from cede.beliefs.belief import Belief, CostBelief
    from cede.learners.team_changes import TeamChange
    from cede.rows.stored import Counts
    from cede.rows.working import SharedCounts
    from cede.steps.recorded import Recorded

MOST_SEED = 2**31 - 1


class Learner(ChangingTeam):
    """Learns the switching policy of one team: it counts steps, and plans from the counts.

    Made by `recommended`, `ucrl2_mc` and the other algorithms, or read from a file by `cede.load`. Used in a loop of `choose` and
    `observe`, with `end_episode` after each episode; or by `simulate`.

    task: sizes, costs, horizon and names of the problem. settings: of the algorithm. seed: of ties and samples. counts: earlier
    counts, or None.

    If the task has no horizon, the calls are without t: `choose(state, prev_agent)` and `observe(state, ...)`. Every step is then
    counted when it is observed, and a new plan is made when it is due (`replan=`). Each step counts as an episode: `episode` is the
    number of the next step, and counts fade from step to step. `end_episode` is needed only if a run ends and the next one begins
    elsewhere; a terminal state also ends a run.

    Between two calls of `end_episode`, `plan` does not change; it can be copied and used anywhere. Every call checks its arguments
    first, and an error leaves the learner unchanged. It is thread-safe: calls wait for one another, and are refused during a run
    (`simulate`).
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
        self._live = None  # the working form; exactly one of it and the stored form, _state, is None
        self._shared: SharedCounts | None = None  # the environment counts of its fleet, if it shares them
        self._fleet: Turn | None = None  # the lock of its fleet
        self._session, self._open = Session(self, None), OpenSessions()
        self._recording = Recording()

    @property
    def seed(self) -> int:
        """Return the seed of ties and samples."""
        return self._seed

    # ------------------------------------------------------------------------------------------------- stored, working

    @property
    @one_at_a_time
    def state(self) -> LearnerState:
        """Return the stored form: all state between episodes. The running episode is not part of it."""
        return self._packed()

    def _packed(self) -> LearnerState:
        """Return `state` without the lock; during a run, the state before the run."""
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
        """Replace all state, and drop the running episode. No other session is open."""
        self._state, self._live = state, None
        self._session.clear()
        self._recording = Recording(self._recording.recorder, self._recording.earlier.ended(None, counted=False))

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
        """Return the whole learner for a file: a JSON header, and arrays by name."""
        header, arrays = pack_settings(self.task, self.settings)
        own, more = self.packed_own()
        return {**header, **own}, {**arrays, **more}

    @one_at_a_time
    def packed_own(self) -> "tuple[dict[str, Any], Arrays]":
        """Return `packed` without task and settings, which learners of a fleet may share."""
        return pack_own(self.seed, self._packed(), self._session, self._open, self.recorded, self._changes)

    @uninterrupted
    def resume(
        self,
        state: LearnerState,
        sessions: OpenSessions,
        running: Session,
        recorded: "Recorded",
        changes: "tuple[TeamChange, ...]" = (),
    ) -> None:
        """Take over the content of a file: state, open sessions, the recorded episodes that were counted, changes of the team."""
        self._state, self._live, self._session, self._open = state, None, running, sessions
        self._changes = changes
        self._recording = Recording(None, recorded)

    @one_at_a_time
    def __getstate__(self) -> dict[str, Any]:
        """Return the content of a copy or pickle. The copy of a learner in a fleet belongs to no fleet."""
        return {**self._copied(), "_state": self._alone(), "_shared": None, "_fleet": None}

    def _copied(self) -> dict[str, Any]:
        """Return the content of a copy within a copy of its fleet: the stored form instead of the working form. Mutable parts are
        copied, since other threads may use the learner meanwhile.
        """
        own: dict[str, Any] = {"_scales": self._scales.copy(), "_recording": Recording(None, self.recorded)}
        own |= {"_open": self._open.content(self._session), "_session": None}
        return {**self.__dict__, **own, "_live": None, "_state": self._packed(), "turn": Turn()}

    def __setstate__(self, content: dict[str, Any]) -> None:
        self.__dict__.update(content)
        self._open, self._session = OpenSessions.of(self, content["_open"])

    def __copy__(self) -> "Learner":
        """Return a deep copy, which shares nothing: a shallow copy would add a team to the fleet."""
        return deepcopy(self)

    # ------------------------------------------------------------------------------------------------- in a fleet

    @property
    def in_fleet(self) -> bool:
        """Return whether it belongs to a fleet."""
        self.turn.settle()
        return self._fleet is not None

    @property
    def shared_environment(self) -> "SharedCounts | None":
        """Return the environment counts of its fleet; None if it has no fleet or does not share."""
        self.turn.settle()
        return self._shared

    def _joined(self, environment: "SharedCounts") -> Assignments:
        """Return the assignments with which it counts into the environment counts of a fleet and plans from them.

        The learner drops its own environment counts, which the caller, `Fleet`, adds to the shared counts, and its plan.
        """
        new = self._with_state(self._packed().without_environment(environment.layer_names))
        return (*new, (self, "_shared", environment), (self, "turn", environment.turn))

    def _removed(self, change: Change) -> Assignments:
        """Return the assignments that remove it from its fleet. change: the change in which this happens."""
        if self._shared is None:
            return ((self, "_fleet", None),)
        new = {"_shared": None, "_fleet": None, "turn": Turn(change=change)}
        return (*self._with_state(self._alone()), *((self, name, value) for name, value in new.items()))

    def _with_state(self, state: LearnerState) -> Assignments:
        """Return the assignments that replace all state. No session is open."""
        new: dict[str, Any] = {"_state": state, "_live": None, "_session": Session(self, None)}
        return tuple((self, name, value) for name, value in new.items())

    def _as_it_is(self) -> Assignments:
        """Return the assignments that restore the present state of the learner and of the counts that it shares."""
        now = {name: value for name, value in self.__dict__.items() if name != "turn"}
        now |= {"_state": self._packed(), "_live": None, "_scales": self._scales.copy()}
        shared = {} if self._shared is None else self._shared.as_it_is()
        return (
            *((self, name, value) for name, value in now.items()),
            *((self._shared, name, value) for name, value in shared.items()),
        )

    def _alone(self) -> LearnerState:
        """Return its state for use without a fleet: with a copy of the fleet's environment counts."""
        state, shared = self._packed(), self._shared
        if shared is None:
            return state
        agents_episodes = shared.agents_episodes if not shared.spans.keys().isdisjoint(self.task.tables) else 0
        return state.with_environment(self._sizes, shared.store(self.task), shared.episodes, agents_episodes, shared.extras)

    # ------------------------------------------------------------------------------------------------- what it knows

    @property
    def episode(self) -> int:
        """Return the number of the episode that is running or comes next: k = 1, 2, ..."""
        if self.turn.change is not None:
            self.turn.settle()
        return (self._packed().episodes if self._live is None else self._live.counts.episodes) + 1

    @property
    def steps(self) -> int:
        """Return the number of counted steps, for a task without horizon; with a horizon use `episode`."""
        if not self._counts_at_once:
            raise AttributeError("a Learner of a task with a horizon counts episodes: use `episode`")
        return self.episode - 1

    @property
    def environment_episodes(self) -> int:
        """Return the number of episodes in its environment counts, of all teams that share them."""
        self.turn.settle()
        if self._shared is not None:
            return self._shared.episodes
        return self._packed().environment_episodes if self._live is None else self._live.counts.shared.episodes

    @property
    @one_at_a_time
    def counts(self) -> "Counts":
        """Return a copy of the counts of all finished episodes; environment counts are those of all teams that share them."""
        return self._live.counts.store() if self._live is not None else self._alone().counts.completed(self._sizes.shapes)

    @property
    @one_at_a_time
    def beliefs(self) -> "tuple[Belief, Belief]":
        """Return copies of the confidence sets of the agents and of the environment, from the current counts."""
        return self._working.beliefs()

    @property
    @one_at_a_time
    def costs(self) -> "CostBelief":
        """Return the belief about environment costs: known costs, and intervals for learned costs."""
        return self._working.costs()

    @property
    @one_at_a_time
    def prices(self) -> dict[str, float]:
        """Return the price of limits per step of control, by member, in addition to its control cost; empty without limits."""
        return self._working.prices()

    @property
    @one_at_a_time
    def priors(self) -> dict[str, tuple[str, float]]:
        """Return the priors from features in use: (model, alpha) by agent, and for "environment".

        Missing agents have the plain prior: there are no features, or features do not predict well enough.
        """
        option, shared = self._sizes.option, {} if self._shared is None else self._shared.extras
        return {} if option is None else option.in_force({**self._packed().extras, **shared})

    @property
    @one_at_a_time
    def steps_in_control(self) -> "Floats":
        """Return the number of counted steps in which each member acted, (members,), without forgotten steps."""
        task, result = self.task, np.zeros(len(self.task.members))
        for table, layer in enumerate(self.counts.agent_layers.values()):
            result[task.acting[np.argmax(task.table == table)]] += layer.total
        return result

    @property
    @one_at_a_time
    def warnings(self) -> tuple[str, ...]:
        """Return warnings, as sentences: members that were never in control, and a baseline that was never left."""
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
        """Return what is needed to repeat a run, by name: the settings, the seed and the version of cede."""
        return {**shown(self.task, self.settings), "seed": self.seed, "cede": __version__}

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            unit = "steps" if self._counts_at_once else "episodes"
            running = f"{self.observed:,} of the running one" if self.observed else None
            others = f"{plural(len(self._open.by_key), 'session')} open" if self._open.by_key else None
            written = f"recorded to {check.printable(self.recorder.path.name)[:60]!r}" if self.recorder is not None else None
            settings = check.printable(self.settings.name)[:60]
            return settings, f"{self.episode - 1:,} {unit} learned", running, others, repr(self.task), written

        return short_repr(self, parts)
