"""Many teams, one environment: every team has its own agents and policy, and all share what they learn of the environment.

Section 4 of the paper: N instances of UCRL2-MC with one confidence set for the environment.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from cede import __version__
from cede._base import check
from cede._base.archive import path_to_write, save_arrays
from cede._base.interrupts import uninterrupted
from cede._base.reprs import listed, plural, short_repr
from cede._kernels.tables import Sums, Table
from cede.fleet.files import SavedFleet, pack_fleet
from cede.learning.counts import EnvironmentTally, shapes
from cede.learning.endless import new_learner
from cede.learning.feature_prior import prior_of, same_features
from cede.learning.files import SCHEMA
from cede.learning.learner import Learner
from cede.learning.settings import Settings, checked_task, for_newcomer
from cede.learning.state import Sizes
from cede.learning.turns import Turn, not_in_run, one_at_a_time, run_of
from cede.problem.structure import Structure
from cede.problem.task import Task

MOST_LEARNERS = 1000  # whose names are looked at for a repr


class Fleet:
    """Learners of many teams that share one belief about the environment: what one of them sees of it, all know.

    learners: at least one. Those that cannot share (UCRL2, fixed agents, those who know the environment or forget it) run beside
    the others unchanged. Teams may differ in their agents, costs and settings; states, actions, environment costs and horizon must
    be the same. What learners have seen before is added to what the fleet knows.

    Several threads may call a fleet and its learners: calls wait for one another, and during a run (`simulate_fleet`) they are
    refused.
    """

    def __init__(self, learners: Sequence[Learner]) -> None:
        self.turn = Turn()
        self._learners: list[Learner] = []
        self._environment: EnvironmentTally | None = None
        given = check.items("Fleet", "learners", learners, "at least one Learner")
        if not given:
            check.fail("Fleet", "learners", "empty", "at least one Learner")
        known: set[int] = set()
        self._task: Task = checked_learner("Fleet", "learners[0]", given[0]).task  # kept here, since all learners may be removed
        for i, learner in enumerate(given):
            self._check("Fleet", f"learners[{i}]", f"learner {i}", learner)
            if id(learner) in known:
                check.fail("Fleet", f"learners[{i}]", "there twice", "a Learner of its own")
            known.add(id(learner))
        sharing = [i for i, learner in enumerate(given) if learner.told.can_share]
        for i in sharing:
            check_features("Fleet", f"learner {i}", [given[j].told for j in sharing[:i]], given[i].told)
            same_structure("Fleet", f"learner {i}", shared_structure(given[sharing[0]].told), shared_structure(given[i].told))
        for i, learner in enumerate(given):
            with learner.turn:  # nobody uses it meanwhile; what was checked may have changed
                self._check("Fleet", f"learners[{i}]", f"learner {i}", learner)
                self._take_in(learner)

    @classmethod
    def restored(cls, task: Task, learners: Sequence[Learner], environment: EnvironmentTally | None) -> "Fleet":
        """Make a fleet from a file. environment: the shared counts, in which those of the learners are contained already."""
        fleet = cls.__new__(cls)
        fleet._learners, fleet._environment, fleet._task = [], environment, task
        fleet.turn = Turn() if environment is None else environment.turn
        for i, learner in enumerate(learners):
            fleet._check("Fleet", f"learners[{i}]", f"learner {i}", learner)
            if learner.told.can_share:
                if environment is None:
                    check.fail("Fleet", "environment", "missing", f"what learner {i} shares")
                learner._join(environment)
            fleet._learners.append(learner)
        return fleet

    @one_at_a_time
    def save(self, path: str | Path) -> None:
        """Write the fleet to a file, completely or not at all. `cede.load` reads it back."""
        where = path_to_write("save", "path", path)
        saved = SavedFleet(self._task, [learner.saved for learner in self._learners], self._environment)
        header, arrays = pack_fleet(saved)
        save_arrays(where, "fleet", SCHEMA, {"cede": __version__, **header}, arrays)

    @property
    def task(self) -> Task:
        """Return the task of the first learner. States, actions, environment costs and horizon are those of all teams."""
        return self._task

    @property
    def shared_environment(self) -> EnvironmentTally | None:
        """Return the growing environment counts of all teams that share; None if no team does."""
        return self._environment

    @property
    def learners(self) -> tuple[Learner, ...]:
        """Return the learners of all teams, in order."""
        return tuple(self._learners)

    def __len__(self) -> int:
        return len(self._learners)

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            names = list(dict.fromkeys(learner.told.name for learner in self._learners[:MOST_LEARNERS]))
            seen = (
                None if self._environment is None else f"{plural(self._environment.episodes, 'episode')} of the environment shared"
            )
            return plural(len(self._learners), "team"), listed(names), seen, repr(self._task)

        return short_repr(self, parts)

    def __iter__(self) -> Iterator[Learner]:
        return iter(self._learners)

    @property
    @one_at_a_time
    def environment(self) -> sp.csr_array:
        """Return what all teams together have seen of the environment, as a sparse matrix of counts.

        It is (S*A, S) with row s*A + a; or (cases, outcomes) if a structure of the environment is declared.
        """
        if self._environment is None:
            check.fail("Fleet", "environment", "shared by no team", "asked of a fleet with a learner that shares it")
        return self._environment.counts

    @property
    @one_at_a_time
    def cost_sums(self) -> sp.csr_array:
        """Return what all teams together have seen of costs that are learned, (rows, 4); see `Counts.costs`."""
        if self._environment is None:
            check.fail("Fleet", "cost_sums", "shared by no team", "asked of a fleet with a learner that shares the environment")
        return self._environment.cost_sums

    @property
    @one_at_a_time
    def environment_episodes(self) -> int:
        """Return how many episodes, of all teams, were counted into `environment`."""
        return 0 if self._environment is None else self._environment.episodes

    @one_at_a_time
    @uninterrupted
    def add(self, learner: Learner) -> None:
        """Add a team. From now on it plans from what the fleet has seen, and the fleet from what it has seen."""
        with checked_learner("Fleet.add", "learner", learner).turn:  # nobody uses it meanwhile
            self._check("Fleet.add", "learner", "the learner", learner)
            if any(learner is other for other in self._learners):
                check.fail("Fleet.add", "learner", "in the fleet already", "another one")
            self._take_in(learner)

    @one_at_a_time
    @uninterrupted
    def remove(self, learner: Learner | int) -> Learner:
        """Remove a team, given by its learner or its index, and return the learner.

        The learner keeps a copy of what the fleet knows; what it has seen stays in the fleet.
        """
        if isinstance(learner, Learner):
            places = [i for i, other in enumerate(self._learners) if other is learner]
            if not places:
                check.fail("Fleet.remove", "learner", "not in the fleet", "one of its learners")
            place = places[0]
        else:
            place = check.index("Fleet.remove", "learner", learner, len(self))
        no_running_episode("Fleet.remove", "the learner", self._learners[place])
        gone = self._learners.pop(place)
        gone._leave()
        return gone

    @one_at_a_time
    @uninterrupted
    def welcome(self, task: Task, *, known_agents: Mapping[str, ArrayLike] | None = None, seed: int = 0) -> Learner:
        """Make a learner for a new team, add it to the fleet, and return it. It starts with all that the fleet knows of the
        environment.

        task: that of the new team. known_agents: policies of its agents that need not be learned, by name. seed: of ties and
        samples.

        The settings are those of the fleet's first learner that shares: belief, delta, scale, structure of the environment, and way
        to plan. Known agents, limits and a baseline are not taken over: they are a team's own. What is declared of agents, and
        rules to forget, are taken over for agents of the same name. If one rule to forget holds for all agents of that learner, it
        holds for all of the new team.
        """
        owner = "Fleet.welcome"
        first = next((learner for learner in self._learners if learner.told.can_share), None)
        if first is None:
            check.fail(owner, "the fleet", "without a learner that shares what it sees of the environment", "one with such")
        known = checked_task(owner, task).known_agents(owner, {} if known_agents is None else known_agents)
        same_environment(owner, "the newcomer", self._task, task)
        newcomer = new_learner(task, for_newcomer(task, first.told, first.task, known), seed=seed)
        self._check(owner, "task", "the newcomer", newcomer)
        self._take_in(newcomer)
        return newcomer

    def merge(self, other: "Fleet") -> None:
        """Take over all teams of another fleet, which is empty afterwards. What both have seen of the environment is added."""
        if not isinstance(other, Fleet) or other is self:
            check.fail("Fleet.merge", "other", check.show(other), "another Fleet")
        with run_of("Fleet.merge", [self, other, *self._learners, *other._learners]):
            self._merge("Fleet.merge", other)

    @uninterrupted
    def _merge(self, owner: str, other: "Fleet") -> None:
        """Do the work of `merge`, while nobody else uses either fleet."""
        same_environment(owner, "the other fleet", self._task, other._task)
        if self._environment is not None and other._environment is not None:
            same_structure(owner, "the other fleet", self._environment.structure, other._environment.structure)
        mine = {id(learner) for learner in self._learners}
        for i, learner in enumerate(other._learners):
            if id(learner) in mine:
                check.fail(owner, f"learner {i} of the other fleet", "in this one already", "another one")
            no_running_episode(owner, f"learner {i} of the other fleet", learner)
            if learner.told.can_share:
                check_features(owner, f"learner {i} of the other fleet", [one.told for one in self._learners], learner.told)
        theirs, environment = other._learners, other._environment
        other._learners, other._environment = [], None
        if environment is not None:
            self._count(environment.table.sums(), environment.costs.sums(), environment)
            assert self._environment is not None
            self._environment.prior = self._environment.prior or environment.prior
        for learner in theirs:
            if learner.shared_environment is not None:
                assert self._environment is not None
                learner._join(self._environment)
            self._learners.append(learner)

    def _check(self, owner: str, argument: str, who: str, learner: Any) -> None:
        """Check that a learner may join the fleet. argument, who: how it is called in errors."""
        not_in_run(owner, argument, checked_learner(owner, argument, learner).turn)
        same_environment(owner, who, self._task, checked_learner(owner, argument, learner).task)
        if learner.shared_environment is not None:
            check.fail(owner, argument, "in another fleet", "a learner that was removed from it (Fleet.remove)")
        if learner.told.can_share:
            check_features(owner, who, [one.told for one in self._learners], learner.told)
        if learner.told.can_share and self._environment is not None:
            same_structure(owner, who, self._environment.structure, shared_structure(learner.told))
        no_running_episode(owner, who, learner)

    def _take_in(self, learner: Learner) -> None:
        """Append a learner that was checked; add its environment counts to those of the fleet, if it can share."""
        if learner.told.can_share:
            state, (_, counts, sums) = learner._packed(), shapes(learner.task, structure=learner.told.structure)
            tables = (Table.empty(*counts), Table.empty(*sums))
            sizes = EnvironmentTally(*tables, counts[0], state.environment_episodes, shared_structure(learner.told))
            seen, costs = (
                Sums(*np.divmod(one.key, n), one.number) for one, n in ((state.environment, counts[1]), (state.costs, sums[1]))
            )
            self._count(seen, costs, sizes)
            assert self._environment is not None
            if self._environment.prior is None and learner.told.features is not None:
                self._environment.prior = prior_of("environment", Sizes(learner.task, learner.told), state.__dict__)
            learner._join(self._environment)
        self._learners.append(learner)

    def _count(self, seen: Sums, costs: Sums, like: EnvironmentTally) -> None:
        """Add sparse counts, and sums of costs, to what the fleet knows of the environment. Its tables are replaced as a whole, so
        that copies stay as they are.

        like: a tally with the sizes and the structure of the environment's tables, and the number of episodes that are added.
        """
        if self._environment is None:
            table, sums = (Table.empty(one.n_rows, one.n_columns) for one in (like.table, like.costs))
            self._environment = EnvironmentTally(table, sums, like.rows, 0, like.structure, turn=self.turn)
        for name, more in (("table", seen), ("costs", costs)):
            if len(more.row):
                table = getattr(self._environment, name).copy()
                table.add(more)
                setattr(self._environment, name, table)
        self._environment.episodes += like.episodes


def checked_learner(owner: str, argument: str, learner: Any) -> Learner:
    """Check that a learner is a Learner, and return it."""
    return check.instance(owner, argument, learner, Learner)


def no_running_episode(owner: str, who: str, learner: Learner) -> None:
    """Check that no episode of a learner is running: what was observed of it would be lost."""
    if learner.observed:
        check.fail(owner, f"the number of steps of the running episode of {who}", learner.observed, "0: end it first")


def shared_structure(told: Settings) -> Structure | None:
    """Return what is declared of the environment and its costs, which learners that share them must have in common."""
    return None if told.structure is None else told.structure.of_environment


def same_structure(owner: str, who: str, one: Structure | None, other: Structure | None) -> None:
    """Check that two declared structures of the environment are equal: counts by one mean nothing in another. None: nothing is
    declared.
    """
    if (one is None) != (other is None) or (one is not None and other is not None and one.digest != other.digest):
        shown = ["none" if part is None else f"one where {part}" for part in (other, one)]
        check.fail(owner, f"the environment's structure of {who}", shown[0], f"the same as that of the fleet, {shown[1]}")


def check_features(owner: str, who: str, others: Sequence[Settings], told: Settings) -> None:
    """Check that a learner's features are those of all others that share the environment and were told some: they share its
    prior.
    """
    for other in others:
        if other.can_share and None not in (other.features, told.features) and not same_features(other.features, told.features):
            check.fail(owner, f"the features of {who}", "others", "the same as those of the fleet, or left out")


def same_environment(owner: str, who: str, one: Task, other: Task) -> None:
    """Check that two tasks have the same states, actions, environment costs, ends and horizon. All else may differ."""
    for what, a, b in (
        ("number of states", one.n_states, other.n_states),
        ("number of actions", one.n_actions, other.n_actions),
        ("horizon", one.horizon, other.horizon),
        ("discount", one.discount, other.discount),
        ("terminal states", one.terminal, other.terminal),
        ("cost_range", one.cost_range, other.cost_range),
        ("enter_cost_range", one.enter_cost_range, other.enter_cost_range),
        ("periods", *(None if task.periods is None else task.periods.tolist() for task in (one, other))),
    ):
        if a != b:
            check.fail(owner, f"the {what} of {who}", check.show(b), f"{check.show(a)}, as of the first learner")
    for what in ("env_cost", "enter_cost"):
        mine, theirs = getattr(one, what), getattr(other, what)
        if (mine is None) != (theirs is None):
            check.fail(owner, f"the {what} of {who}", "another", "that of the first learner")
        if mine is not theirs and mine is not None and not np.array_equal(mine, theirs, equal_nan=True):
            where = np.argwhere(~((mine == theirs) | (np.isnan(mine) & np.isnan(theirs))))[0]
            place = check.place_of(f"{who}: {what}", where)
            check.fail(owner, place, theirs[tuple(where)], f"{mine[tuple(where)]}, as of the first learner")
