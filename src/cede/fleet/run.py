"""Rounds: all teams plan from what all have seen, all play, all is counted.

One loop for a team alone and for a hundred thousand, wherever the shards are (engines.py). What comes out depends on seeds
only: teams do not see one another within a round, and what they add to the environment's counts are sums.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from cede._base.arrays import Ints
from cede._base.progress import Progress
from cede._kernels import Radii
from cede.fleet.books import Books, Rounds, empty_rounds
from cede.fleet.checkpoint import Checkpoint, fingerprint
from cede.fleet.engines import Engine, Hosted, Threads
from cede.fleet.grouping import Muster, muster, shard_plans
from cede.fleet.shard import Order, Report
from cede.fleet.team_states import Luck, State, joined, memories_of
from cede.learning.counts import EnvironmentTally
from cede.learning.learner import Learner
from cede.learning.settings import radii_ahead, sizes_of
from cede.planning.control_shares import solve_within
from cede.problem.model import TwoLayerMDP

_mixtures: "WeakKeyDictionary[TwoLayerMDP, dict[Any, float]]" = WeakKeyDictionary()  # costs by problem and limits
MOST_SECONDS, MOST_AT_ONCE = 0.1, 10_000  # of a round of teams that share nothing: progress is shown in between


def streams(seed: int, n: int) -> Luck:
    """One independent stream of luck per team; the first ones do not depend on how many there are."""
    children = (np.random.SeedSequence(seed, spawn_key=(i,)) for i in range(n))
    return np.array([stream_of(np.random.PCG64(child)) for child in children], dtype=np.uint64).reshape(n, 4)


def stream_of(bits: np.random.PCG64) -> list[int]:
    """The state of a generator as kernels read it: state and increment, upper half first."""
    state, low = bits.state["state"], 2**64 - 1
    return [state["state"] >> 64, state["state"] & low, state["inc"] >> 64, state["inc"] & low]


# ------------------------------------------------------------------------------------------------- the loop


class Run:
    """A run of a fleet: the loop, and its books."""

    def __init__(
        self,
        mdps: Sequence[TwoLayerMDP],
        learners: Sequence[Learner],
        episodes: int,
        luck: Luck,
        *,
        engine: Engine | None = None,
        sync_every: int = 1,
        evaluate_every: int = 1,
    ) -> None:
        self.mdps, self.learners, self.episodes = mdps, learners, episodes
        self.engine = Threads(1) if engine is None else engine
        self.sync_every, self.evaluate_every = sync_every, evaluate_every
        self.teams: Muster = muster(mdps, learners, luck)
        self.sizes = [sizes_of(kind.task, kind.recipe) for kind in self.teams.kinds]
        shared = [tally for learner in learners if (tally := learner.shared_environment) is not None]
        self.shared: EnvironmentTally | None = shared[0] if shared else None
        self.which: list[Sequence[int]] = []  # by shard: the kinds that it has teams of
        self.rosters: list[list[Ints]] = []  # by shard and crew: places in the fleet
        self.rounds = empty_rounds(mdps, episodes)
        self.books = Books(0, 0, None if self.shared is None else self.shared.table, self.shared.episodes if self.shared else 0)
        self.earlier = {0: self.books}  # for rounds to which the engine may have to go back
        self.at_once = 1

    @property
    def lonely(self) -> bool:
        """Is there nobody to learn from? Then any number of episodes may be played in one go: they come out the same."""
        return self.teams.sharing <= 1

    def play(self, progress: bool | Callable[[int], None], label: str, checkpoint: Checkpoint | None = None) -> Rounds:
        """All rounds. Whatever happens, learners are left as after some round, and nothing runs on."""
        try:
            self.start(checkpoint)
            with Progress(label, self.episodes, progress, len(self.mdps)) as bar:
                bar.skip(self.books.done)
                while self.books.done < self.episodes:
                    begun, before = time.perf_counter(), self.books.done
                    self.play_round()
                    self.set_pace(time.perf_counter() - begun)
                    bar.advance(self.books.done - before)
                    if checkpoint is not None and checkpoint.is_due():
                        checkpoint.save(self.books, self.rounds, self.all_states())
            if checkpoint is not None:
                checkpoint.save(self.books, self.rounds, self.all_states())
            self.hand_back()
        except BaseException as error:
            whole = self.hand_back()
            if whole and checkpoint is not None and not isinstance(error, OSError):  # which may be of the checkpoint itself
                checkpoint.save(self.books, self.rounds, self.all_states())
            raise
        finally:
            self.engine.close()
        return self.rounds

    def start(self, checkpoint: Checkpoint | None) -> None:
        """Make the shards, as the learners are or as a checkpoint says."""
        states: Sequence[State] = self.teams.states
        if checkpoint is not None:
            run = fingerprint(self.teams, self.mdps, self.learners, self.books, self.sync_every, self.evaluate_every)
            self.books, states = checkpoint.begin(run, self.books, self.rounds, self.teams)
            self.earlier = {0: self.books}
            if not self.lonely and self.books.done % self.sync_every and self.books.done < self.episodes:
                done = f"{checkpoint.path}: the number of episodes done is {self.books.done}"
                raise ValueError(f"{done}, must be a multiple of sync_every = {self.sync_every} to go on from")
        plans = shard_plans(self.teams, states, self.mdps, self.learners, self.engine.shards(len(self.mdps)))
        self.which = [plan.which for plan in plans]
        self.rosters = [[roster.team for roster in plan.rosters] for plan in plans]
        for places, found in zip(self.rosters, self.engine.start(plans), strict=True):
            for place, optima in zip(places, found, strict=True):
                self.rounds.optimum[place] = optima
        self.find_mixtures()

    def find_mixtures(self) -> None:
        """Whoever has limits is measured by the best that can be done within them."""
        for place, (mdp, learner) in enumerate(zip(self.mdps, self.learners, strict=True)):
            limits = learner.recipe.limits
            if limits is not None:
                known, key = _mixtures.setdefault(mdp, {}), tuple(ends.tobytes() for ends in limits)
                if key not in known:
                    known[key] = solve_within(mdp, *limits).cost
                self.rounds.optimum[place] = known[key]

    def play_round(self) -> None:
        order, reports = self.next_order(), None
        try:
            reports = self.engine.play(order)
            self.enter(order, reports)
        except BaseException:  # an interrupt, or what a signal's handler raised: what was begun is finished
            if self.books.number < order.number:
                if reports is None and self.engine.here:
                    reports = self.engine.play(order)
                if reports is not None:
                    self.enter(order, reports)
            raise

    def next_order(self) -> Order:
        books, n = self.books, min(self.at_once if self.lonely else self.sync_every, self.episodes - self.books.done)
        first, numbers = [], []
        for kind, scale, sizes, ages in zip(self.teams.kinds, self.teams.scales, self.sizes, self.teams.ages, strict=True):
            here = []
            for episodes, own in ages:
                seen = books.environment_episodes if kind.shared else own + books.done
                here.append(radii_ahead(scale, sizes, episodes + books.done + 1, seen, n))
                n = min(n, len(here[-1].cost))
            first.append(np.array([episodes + books.done + 1 for episodes, _ in ages], dtype=np.int64))
            numbers.append(here)
        by_kind = tuple(Radii(*(np.array([array[:n] for array in arrays]) for arrays in zip(*h, strict=True))) for h in numbers)
        return Order(books.number + 1, n, tuple(first), by_kind, self.evaluate_every, books.table)

    def enter(self, order: Order, reports: Sequence[Report]) -> None:
        """Write down what came of a round. Doing it twice changes nothing; it counts when `books` is replaced."""
        books = self.books
        played = slice(books.done, books.done + order.episodes)
        table = None if books.table is None else books.table.copy()
        for places, report in zip(self.rosters, reports, strict=True):
            for place, ledger in zip(places, report.ledgers, strict=True):
                self.rounds.expected_cost[place, played] = ledger.expected_cost
                self.rounds.cost[place, played] = ledger.cost
                self.rounds.switches[place, played] = ledger.switches
                self.rounds.control[place, played, : ledger.control.shape[2]] = ledger.control
            if table is not None:
                table.add(report.delta)
        counted = books.environment_episodes + order.episodes * self.teams.sharing
        self.books = Books(order.number, played.stop, table, counted)
        if isinstance(self.engine, Hosted):
            self.earlier[order.number] = self.books
            for number in [n for n in self.earlier if n < self.engine.kept_number]:
                del self.earlier[number]

    def set_pace(self, seconds: float) -> None:
        """How many episodes to play at once: progress is shown, and an interrupt heard, in between."""
        if isinstance(self.engine, Threads) and self.engine.worth_threads():
            self.at_once = 1
        elif seconds < MOST_SECONDS / 2:
            self.at_once = min(2 * self.at_once, MOST_AT_ONCE)
        elif seconds > MOST_SECONDS:  # later episodes may cost more: there is more to plan with
            self.at_once = max(1, self.at_once // 2)

    def all_states(self) -> list[State]:
        """By kind, teams in the order of the muster."""
        parts: list[list[State]] = [[] for _ in self.teams.kinds]
        for which, crews in zip(self.which, self.engine.states(), strict=True):
            for kind, state in zip(which, crews, strict=True):
                parts[kind].append(state)
        return [joined(some) for some in parts]

    def hand_back(self) -> bool:
        """Give the learners what they have learned: did they get all? After a failure of workers they get what they had learned
        when it was last kept; if nothing was, they are as they were before the run.
        """
        books, engine = self.books, self.engine
        whole = bool(self.rosters) and not engine.failed and engine.number == books.number
        if whole:
            states = engine.states()
        elif isinstance(engine, Hosted) and engine.kept and engine.kept_number in self.earlier:
            books, states = self.earlier[engine.kept_number], engine.kept
        else:
            return False
        for which, rosters, crews in zip(self.which, self.rosters, states, strict=True):
            for kind, places, state in zip(which, rosters, crews, strict=True):
                before = [self.teams.memories[place] for place in places]
                for place, memory in zip(places, memories_of(self.teams.kinds[kind], before, state, books.done), strict=True):
                    self.learners[place].remember(memory)
        if self.shared is not None and books.table is not None:
            self.shared.table, self.shared.episodes = books.table, books.environment_episodes
        return whole
