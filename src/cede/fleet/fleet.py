"""Many teams, one environment: every team has its own agents and policy, and all teams share environment counts.

Section 4 of the paper: N instances of UCRL2-MC with one confidence set for the environment.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from cede import __version__
from cede._base import check
from cede._base.archive import path_to_write, save_arrays
from cede._base.reprs import listed, plural, short_repr
from cede._base.turns import Assignments, Change, Turn, one_at_a_time
from cede._kernels.tables import Table
from cede.beliefs.extras import of_layer
from cede.fleet.files import pack_fleet
from cede.learners.files import SCHEMA
from cede.learners.learner import Learner
from cede.learners.options import checked_task
from cede.learners.session import check_no_sessions
from cede.learners.settings import Settings, for_newcomer
from cede.learners.shared_agents import check_agents, spans_of
from cede.learners.state import Sizes
from cede.learners.team_changes import checked_fading
from cede.problem.features import Features, same_features
from cede.problem.policies import known_policies
from cede.problem.structure import Structure
from cede.problem.task import Task
from cede.rows.moving import faded
from cede.rows.places import AGENT, COSTS, ENVIRONMENT
from cede.rows.stored import LayerCounts, below_one_another
from cede.rows.working import AgentSpan, SharedCounts

MOST_LEARNERS = 1000  # whose names are looked at for a repr
SHARED_TABLES = ("table", "costs", "agents")  # of `SharedCounts`
SHARED_FIELDS = (*SHARED_TABLES, "episodes", "agents_episodes", "extras")


class Fleet:
    """Learners of many teams that share environment counts and the belief that follows from them.

    learners: at least one. Learners that cannot share (UCRL2, fixed agents, learners that know the environment or forget it) run
    beside the others unchanged. Teams may differ in their agents, costs and settings; states, actions, environment costs and
    horizon must be the same. Earlier environment counts of the learners are added to those of the fleet.

    shared_agents: names of agents whose behaviour is learned once for all teams that share and have a member of this name, as one
    autonomy in fifty robots: their places point to the same rows. In all these teams its policy must vary with the same, and the
    same structure must be declared of it; its counts cannot fade.

    A fleet and its learners are thread-safe: calls wait for one another, and are refused during a run (`simulate_fleet`).
    """

    def __init__(self, learners: Sequence[Learner], *, shared_agents: Sequence[str] = ()) -> None:
        self.turn = Turn(is_fleet=True)
        self._learners: tuple[Learner, ...] = ()
        self._environment: SharedCounts | None = None
        self._spans: dict[str, AgentSpan] = {}  # rows of shared agents
        members = check.items("Fleet", "learners", learners, "at least one Learner")
        if not members:
            check.fail("Fleet", "learners", "empty", "at least one Learner")
        self._task: Task = check.instance("Fleet", "learners[0]", members[0], Learner).task  # learners may all be removed
        met: set[int] = set()
        for i, learner in enumerate(members):
            self._check("Fleet", f"learners[{i}]", f"learner {i}", learner)
            if id(learner) in met:
                check.fail("Fleet", f"learners[{i}]", "there twice", "a Learner of its own")
            met.add(id(learner))
        sharing = {i: learner.settings for i, learner in enumerate(members) if learner.settings.can_share}
        features, first = features_of(members), next(iter(sharing.values()), None)
        for i, settings in sharing.items():
            check_features("Fleet", f"learner {i}", features, settings)
            same_structure("Fleet", f"learner {i}", shared_structure(first), shared_structure(settings))
        self._spans = spans_of("Fleet", shared_agents, members)
        for i in sharing:
            check_agents("Fleet", f"learner {i}", self._spans, members[i].task, members[i].settings)
        change = Change(waits=True)
        with change.lock:
            change.claim("Fleet", [self, *members])  # locks them; they may have changed since they were checked
            for i, learner in enumerate(members):
                self._check("Fleet", f"learners[{i}]", f"learner {i}", learner)
            change.after = self._with(members)
            change.finish()

    @classmethod
    def restored(cls, task: Task, learners: Sequence[Learner], environment: SharedCounts | None) -> "Fleet":
        """Make a fleet from a file. environment: the shared counts, which include those of the learners."""
        fleet = cls.__new__(cls)
        fleet._learners, fleet._environment, fleet._task = (), environment, task
        fleet._spans = {} if environment is None else dict(environment.spans)
        fleet.turn = Turn(is_fleet=True)
        if environment is not None:
            environment.turn = fleet.turn
        for i, learner in enumerate(learners):
            fleet._check("Fleet", f"learners[{i}]", f"learner {i}", learner)
            if learner.settings.can_share and environment is None:
                check.fail("Fleet", "environment", "missing", f"what learner {i} shares")
            learner._fleet = fleet.turn
            if learner.settings.can_share and environment is not None:
                learner._shared, learner.turn = environment, fleet.turn
        fleet._learners = tuple(learners)
        return fleet

    @one_at_a_time
    def save(self, path: str | Path) -> None:
        """Write the fleet to a file, completely or not at all. `cede.load` reads it back."""
        where = path_to_write("save", "path", path)
        header, arrays = pack_fleet(self._task, self._learners, self._environment)
        save_arrays(where, "fleet", SCHEMA, {"cede": __version__, **header}, arrays)

    @property
    def task(self) -> Task:
        """Return the task of the first learner. States, actions, environment costs and horizon are those of all teams."""
        return self._task

    @property
    def shared_environment(self) -> SharedCounts | None:
        """Return the growing environment counts of all teams that share; None if no team does."""
        return self._environment

    @property
    def shared_agents(self) -> tuple[str, ...]:
        """Return the names of the agents whose behaviour is learned once for all teams."""
        return tuple(self._spans)

    @property
    @one_at_a_time
    def agents_episodes(self) -> int:
        """Return how many episodes were counted of the teams that have shared agents."""
        return 0 if self._environment is None else self._environment.agents_episodes

    @property
    def learners(self) -> tuple[Learner, ...]:
        """Return the learners of all teams, in order."""
        self.turn.settle()
        return self._learners

    def __len__(self) -> int:
        return len(self.learners)

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            names = list(dict.fromkeys(learner.settings.name for learner in self._learners[:MOST_LEARNERS]))
            shared = self._environment
            counted = None if shared is None else f"{plural(shared.episodes, 'episode')} of the environment shared"
            return plural(len(self._learners), "team"), listed(names), counted, repr(self._task)

        return short_repr(self, parts)

    def __getitem__(self, team: int) -> Learner:
        """Return the learner of a team."""
        return self.learners[check.index("Fleet", "the number of a team", team, len(self))]

    def __iter__(self) -> Iterator[Learner]:
        return iter(self.learners)

    @property
    @one_at_a_time
    def environment(self) -> sp.csr_array:
        """Return the environment counts of all teams together, as a sparse matrix.

        It is (S*A, S) with row s*A + a; or (cases, outcomes) if a structure of the environment is declared.
        """
        return self._shared_layer("environment", ENVIRONMENT, "it").matrix

    @property
    @one_at_a_time
    def cost_sums(self) -> sp.csr_array:
        """Return the sums of learned costs of all teams together, (rows, 4); see `Counts.costs`."""
        return self._shared_layer("cost_sums", COSTS, "the environment").matrix.astype(np.float64)

    def _shared_layer(self, place: str, layer: str, what: str) -> LayerCounts:
        """Return the shared counts of a layer. place, what: for the error if no team shares."""
        if self._environment is None:
            check.fail("Fleet", place, "shared by no team", f"asked of a fleet with a learner that shares {what}")
        return LayerCounts.of_table(self._environment.table if layer == ENVIRONMENT else self._environment.costs)

    @property
    @one_at_a_time
    def environment_episodes(self) -> int:
        """Return how many episodes, of all teams, were counted into `environment`."""
        return 0 if self._environment is None else self._environment.episodes

    def add(self, learner: Learner) -> None:
        """Add a team. Its environment counts and the fleet's are merged."""
        check.instance("Fleet.add", "learner", learner, Learner)
        change = Change(waits=True)
        with change.lock:
            change.claim("Fleet.add", [self, learner])
            self._check("Fleet.add", "learner", "the learner", learner)
            change.after = self._with([learner])
            change.finish()

    def remove(self, learner: Learner | int) -> Learner:
        """Remove a team, given by its learner or its index, and return the learner.

        The learner keeps a copy of the shared counts; its own counts stay in the fleet.
        """
        change = Change(waits=True)
        with change.lock:
            change.claim("Fleet.remove", [self])
            if isinstance(learner, Learner):
                places = [i for i, other in enumerate(self._learners) if other is learner]
                if not places:
                    check.fail("Fleet.remove", "learner", "not in the fleet", "one of its learners")
                place = places[0]
            else:
                place = check.index("Fleet.remove", "learner", learner, len(self))
            gone = self._learners[place]
            change.claim("Fleet.remove", [gone])
            no_running_episode("Fleet.remove", "the learner", gone)
            others = tuple(other for other in self._learners if other is not gone)
            change.after = ((self, "_learners", others), *gone._removed(change))
            change.finish()
        return gone

    def welcome(self, task: Task, *, known_agents: Mapping[str, ArrayLike] | None = None, seed: int = 0) -> Learner:
        """Make a learner for a new team, add it to the fleet, and return it. It starts with the fleet's environment counts.

        task: of the new team. known_agents: known policies of its agents, by name. seed: of ties and samples.

        Belief, delta, scale, structure of the environment, and planning are copied from the fleet's first learner that shares.
        Known agents, limits and a baseline are not copied. Declared structure of agents, and rules to forget, are copied for agents
        of the same name. If all agents of that learner have the same rule to forget, all agents of the new team have it.
        """
        owner = "Fleet.welcome"
        change = Change(waits=True)
        with change.lock:
            change.claim(owner, [self])
            first = next((learner for learner in self._learners if learner.settings.can_share), None)
            if first is None:
                check.fail(owner, "the fleet", "without a learner that shares what it sees of the environment", "one with such")
            known = known_policies(owner, checked_task(owner, task), {} if known_agents is None else known_agents)
            same_environment(owner, "the newcomer", self._task, task)
            newcomer = Learner(task, for_newcomer(task, first.settings, first.task, known), seed=seed)
            self._check(owner, "task", "the newcomer", newcomer)
            change.after = self._with([newcomer])
            change.finish()
        return newcomer

    def agent_changed(self, name: str, *, keep: float = 0.0, most: float | None = None) -> None:
        """Note that a shared agent behaves differently from now on, in all teams. The arguments are those of
        `Learner.agent_changed`, which is for agents that a team has to itself.
        """
        owner = "Fleet.agent_changed"
        check.choice(owner, "name", name, self.shared_agents)
        keep, most = checked_fading(owner, keep, most)
        change = Change(waits=True)
        with change.lock:
            change.claim(owner, [self])
            change.claim(owner, self._learners)
            for i, learner in enumerate(self._learners):
                no_running_episode(owner, f"learner {i}", learner)
            shared = self._environment
            assert shared is not None
            whose = {name, f"{name} (taking over)"}
            parts = {one: faded(layer, keep, most) if one in whose else layer for one, layer in shared.agent_layers().items()}
            having = [one for one in self._learners if one.shared_environment is shared and name in one.task.members]
            change.after = (
                (shared, "agents", below_one_another(parts, {one: layer.shape for one, layer in parts.items()}).table()),
                *(done for learner in having for done in learner._changed(name)),
            )
            change.finish()

    def merge(self, other: "Fleet") -> None:
        """Take over all teams of another fleet, which is empty afterwards. Environment counts are added."""
        if not isinstance(other, Fleet) or other is self:
            check.fail("Fleet.merge", "other", check.show(other), "another Fleet")
        change = Change(waits=True)
        with change.lock:
            change.claim("Fleet.merge", [self, other])
            change.claim("Fleet.merge", [*self._learners, *other._learners])
            change.after = self._merged("Fleet.merge", other)
            change.finish()

    def _merged(self, owner: str, other: "Fleet") -> Assignments:
        """Check that another fleet can be taken over; return the assignments that do it."""
        same_environment(owner, "the other fleet", self._task, other._task)
        if self._environment is not None and other._environment is not None:
            same_structure(owner, "the other fleet", self._environment.structure, other._environment.structure)
        if self._spans != other._spans:
            shown = [", ".join(map(check.printable, fleet._spans)) or "none" for fleet in (other, self)]
            check.fail(owner, "the shared agents of the other fleet", shown[0], f"those of this one, {shown[1]}")
        for i, learner in enumerate(other._learners):
            no_running_episode(owner, f"learner {i} of the other fleet", learner)
            if learner.settings.can_share:
                check_features(owner, f"learner {i} of the other fleet", features_of(self._learners), learner.settings)
        counted = None if other._environment is None else self._counted(other._environment)
        return (
            (other, "_learners", ()),
            (other, "_environment", None),
            *self._into(counted),
            *self._members(other._learners, self._environment or counted),
        )

    def _check(self, owner: str, argument: str, who: str, learner: Any) -> None:
        """Check that a learner may join the fleet. argument, who: its names in errors."""
        same_environment(owner, who, self._task, check.instance(owner, argument, learner, Learner).task)
        if learner._fleet is not None:
            check.fail(owner, argument, "in another fleet", "a learner that was removed from it (Fleet.remove)")
        check_team_costs(owner, who, learner)
        if learner.settings.can_share:
            check_features(owner, who, features_of(self._learners), learner.settings)
            if self._environment is not None:
                same_structure(owner, who, self._environment.structure, shared_structure(learner.settings))
            check_agents(owner, who, self._spans, learner.task, learner.settings)
        no_running_episode(owner, who, learner)

    def _with(self, learners: Sequence[Learner]) -> Assignments:
        """Return the assignments that append checked learners and add their environment counts to the fleet's, if they share."""
        counted = None
        for learner in learners:
            if learner.settings.can_share:
                counted = self._counted(counts_of(learner, self._spans), counted)
        return (*self._into(counted), *self._members(learners, self._environment or counted))

    def _counted(self, more: SharedCounts, so_far: SharedCounts | None = None) -> SharedCounts:
        """Return a copy of the fleet's environment counts plus further counts.

        so_far: the result of an earlier call, to which the counts are added instead.
        """
        if so_far is None:
            like, known = self._environment or more, self._environment is not None
            tables = {name: getattr(like, name) for name in SHARED_TABLES}
            copies: dict[str, Any] = {name: t.copy() if known else Table.empty(t.n_rows, t.n_columns) for name, t in tables.items()}
            so_far = replace(like, **copies, turn=self.turn)
            if not known:
                so_far.episodes, so_far.agents_episodes, so_far.extras = 0, 0, {}
        for name in SHARED_TABLES:
            layer = LayerCounts.of_table(getattr(more, name), more.rows if name == "table" else None)
            if len(layer.key):
                getattr(so_far, name).add(layer.key, layer.number)
        so_far.episodes += more.episodes
        so_far.agents_episodes += more.agents_episodes
        so_far.extras = so_far.extras or more.extras
        return so_far

    def _into(self, counted: SharedCounts | None) -> Assignments:
        """Return the assignments that replace the shared counts; none for None. Tables are replaced as a whole, not changed."""
        if counted is None:
            return ()
        if self._environment is None:
            return ((self, "_environment", counted),)
        return tuple((self._environment, name, getattr(counted, name)) for name in SHARED_FIELDS)

    def _members(self, learners: Sequence[Learner], environment: SharedCounts | None) -> Assignments:
        """Return the assignments that make learners members of the fleet. environment: the shared counts from then on."""
        result: list[tuple[Any, str, Any]] = [(self, "_learners", (*self._learners, *learners))]
        for learner in learners:
            result.append((learner, "_fleet", self.turn))
            if learner.settings.can_share and environment is not None:
                result += learner._joined(environment)
        return tuple(result)

    @one_at_a_time
    def __getstate__(self) -> dict[str, Any]:
        """Return the content of a copy or pickle: all learners, and the shared counts."""
        shared = self._environment
        environment = None if shared is None else replace(shared, turn=Turn(), **shared.as_it_is())
        parts = [
            learner._copied() if learner.shared_environment is not None else learner.__getstate__() for learner in self._learners
        ]
        learners = [(type(learner), {**part, "_shared": None}) for learner, part in zip(self._learners, parts, strict=True)]
        return {**self.__dict__, "_learners": learners, "_environment": environment, "turn": Turn()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.turn, learners = Turn(is_fleet=True), []
        if self._environment is not None:
            self._environment.turn = self.turn
        for kind, part in state["_learners"]:
            learner = kind.__new__(kind)
            learner.__setstate__(part)
            learner._fleet = self.turn
            if learner.settings.can_share:
                learner._shared, learner.turn = self._environment, self.turn
            learners.append(learner)
        self._learners = tuple(learners)


def counts_of(learner: Learner, spans: Mapping[str, AgentSpan]) -> SharedCounts:
    """Return the counts that a learner, which belongs to no fleet, will share. spans: of shared agents."""
    state = learner._packed()
    shapes = Sizes(learner.task, learner.settings).shapes
    environment = SharedCounts.load(state.counts, shapes, structure=shared_structure(learner.settings))
    environment.extras = of_layer(state.extras, ENVIRONMENT)
    if spans:
        counts, columns = state.counts, learner.task.n_actions
        shared = below_one_another(counts.layers, {f"{AGENT}{name}": (span.rows, columns) for name, span in spans.items()})
        environment.agents, environment.spans = shared.table(), spans
        if not spans.keys().isdisjoint(learner.task.tables):
            environment.agents_episodes = counts.episodes + counts.others_episodes
    return environment


def no_running_episode(owner: str, who: str, learner: Learner) -> None:
    """Check that no episode of a learner is running and no session open: their steps would be lost."""
    if learner.observed:
        check.fail(owner, f"the number of steps of the running episode of {who}", learner.observed, "0: end it first")
    check_no_sessions(owner, who, learner)


def shared_structure(settings: Settings | None) -> Structure | None:
    """Return the declared structure of the environment and its costs, which must be the same for all learners that share."""
    return None if settings is None or settings.structure is None else settings.structure.of_environment


def same_structure(owner: str, who: str, structure: Structure | None, other: Structure | None) -> None:
    """Check that two declared structures of the environment are equal, as shared counts require. None: nothing is declared."""
    if (structure is None) != (other is None) or (structure is not None and other is not None and structure.digest != other.digest):
        shown = ["none" if part is None else f"one where {part}" for part in (other, structure)]
        check.fail(owner, f"the environment's structure of {who}", shown[0], f"the same as that of the fleet, {shown[1]}")


def features_of(learners: Sequence[Learner]) -> Features | None:
    """Return the features of the learners that share the environment; None if none of them has features."""
    settings = (learner.settings for learner in learners)
    return next((each.features for each in settings if each.can_share and each.features is not None), None)


def check_features(owner: str, who: str, features: Features | None, settings: Settings) -> None:
    """Check that a learner's features, if any, are those of the fleet, since the environment's prior is shared."""
    if features is not None and settings.features is not None and not same_features(features, settings.features):
        check.fail(owner, f"the features of {who}", "others", "the same as those of the fleet, or left out")


def check_team_costs(owner: str, who: str, learner: Learner) -> None:
    """Check that a learner that shares its environment, and so learned costs, knows the costs of its team: others have others."""
    if learner.settings.can_share and learner.task.learns_team_costs:
        expected = "known in a fleet that shares its environment, or learned by a learner outside of fleets"
        check.fail(owner, f"control_cost or switch_cost of {who}", "learned", expected)


def same_environment(owner: str, who: str, task: Task, other: Task) -> None:
    """Check that two tasks have the same states, actions, environment costs, terminal states and horizon."""
    for what, a, b in (
        ("number of states", task.n_states, other.n_states),
        ("number of actions", task.n_actions, other.n_actions),
        ("horizon", task.horizon, other.horizon),
        ("discount", task.discount, other.discount),
        ("terminal states", task.terminal, other.terminal),
        ("cost_range", task.cost_range, other.cost_range),
        ("enter_cost_range", task.enter_cost_range, other.enter_cost_range),
        ("periods", *(None if each.periods is None else each.periods.tolist() for each in (task, other))),
    ):
        if a != b:
            check.fail(owner, f"the {what} of {who}", check.show(b), f"{check.show(a)}, as of the first learner")
    for what in ("env_cost", "enter_cost"):
        mine, theirs = getattr(task, what), getattr(other, what)
        if (mine is None) != (theirs is None):
            check.fail(owner, f"the {what} of {who}", "another", "that of the first learner")
        if mine is not theirs and mine is not None and not np.array_equal(mine, theirs, equal_nan=True):
            where = np.argwhere(~((mine == theirs) | (np.isnan(mine) & np.isnan(theirs))))[0]
            place = check.place_of(f"{who}: {what}", where)
            check.fail(owner, place, theirs[tuple(where)], f"{mine[tuple(where)]}, as of the first learner")
