"""Runs a fleet round by round: all teams plan from what all have seen, all play, and all that was seen is counted.

One loop serves a single team and a hundred thousand, wherever the shards are (engines.py). The results depend on seeds only: within
a round teams do not see one another, and what they add to the environment's counts are sums.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede._base.interrupts import interrupts_later
from cede._base.progress import Progress
from cede._kernels.tables import Table
from cede.beliefs.constants import radii_ahead
from cede.beliefs.extras import Extras
from cede.fleet.checkpoint import Checkpoint, RunState, fingerprint
from cede.fleet.engines import Engine, Threads
from cede.fleet.evaluations import Evaluations
from cede.fleet.grouping import Grouping, Streams, cut_into_shards, group_teams
from cede.fleet.history import RunRecord
from cede.fleet.shard import Order, Report
from cede.learners.arrays import radius_sizes
from cede.learners.learner import Learner
from cede.learners.stacks import joined, unstack_states
from cede.learners.state import Arrays
from cede.planning.control_shares import best_mixture
from cede.problem.model import TwoLayerMDP
from cede.rows.places import COSTS, ENVIRONMENT
from cede.rows.working import SharedCounts

_mixtures: "WeakKeyDictionary[TwoLayerMDP, dict[Any, float]]" = WeakKeyDictionary()  # cost of the best one, by problem and limits
MOST_SECONDS, MOST_AT_ONCE = 0.1, 10_000  # of a round, if teams share nothing: seconds and episodes


def streams_of(seed: int, n: int) -> Streams:
    """Return one independent random stream for each of n teams, (n, 4). Stream i does not depend on n."""
    children = (np.random.SeedSequence(seed, spawn_key=(i,)) for i in range(n))
    return np.array([stream_of(np.random.PCG64(child)) for child in children], dtype=np.uint64).reshape(n, 4)


def stream_of(bits: np.random.BitGenerator) -> list[int]:
    """Return the state of a PCG64 as kernels read it: state and increment, each as two 64-bit numbers, upper half first."""
    state, low = bits.state["state"], 2**64 - 1
    return [state["state"] >> 64, state["state"] & low, state["inc"] >> 64, state["inc"] & low]


# By id of an engine the run that it is in. A run holds its engine, so the id means this engine as long as the run is there; one
# that an interrupt ended before it could give the engine back is not.
_engines_at_work: "WeakValueDictionary[int, Run]" = WeakValueDictionary()
_engines_lock = threading.Lock()


def claim_engine(run: "Run") -> None:
    """Take note that a run has its engine; fails if the engine is in another one already: its shards would be mixed up."""
    with _engines_lock:
        if id(run.engine) in _engines_at_work:
            check.fail("simulate_fleet", "engine", "in another run", "one of its own for each run")
        _engines_at_work[id(run.engine)] = run


class Run:
    """One run of a fleet: the loop over rounds, where it stands, and the results so far. `simulate` and `simulate_fleet` make it.

    mdps, learners: the true problem and the learner of each team. episodes: of every team. streams: (n, 4) random streams, see
    `streams_of`. engine, sync_every, evaluate_every: see `simulate_fleet`; without an engine, all is done in this thread. at_end:
    called once with the number of episodes done, when the learners have got their states back. block: without horizon, the steps
    of what is recorded as an episode.
    """

    def __init__(
        self,
        mdps: Sequence[TwoLayerMDP],
        learners: Sequence[Learner],
        episodes: int,
        streams: Streams,
        *,
        engine: Engine | None = None,
        sync_every: int = 1,
        evaluate_every: int = 1,
        at_end: Callable[[int], None] | None = None,
        block: int = 1,
    ) -> None:
        self.mdps, self.learners, self.episodes = mdps, learners, episodes
        self.engine = Threads(1) if engine is None else engine
        self.sync_every, self.evaluate_every = sync_every, evaluate_every
        self.evaluations = Evaluations(streams[0], episodes, 1 if mdps[0].horizon is None else evaluate_every)
        self.teams: Grouping = group_teams(mdps, learners, streams, block)
        self.per_entry = block if mdps[0].horizon is None else 1  # what counts as an episode is a step where there is no horizon
        self.sizes = [radius_sizes(group.task, group.settings) for group in self.teams.groups]
        shared = [counts for learner in learners if (counts := learner.shared_environment) is not None]
        self.shared: SharedCounts | None = shared[0] if shared else None
        self.which: list[Sequence[int]] = []  # by shard: indices of the groups that it has teams of
        self.places: list[list[Ints]] = []  # by shard and group: indices of the teams in the fleet
        self.record = RunRecord.empty(mdps, episodes)
        self.now = RunState(0, 0, {}, 0)
        if self.shared is not None:
            tables = {ENVIRONMENT: self.shared.table, COSTS: self.shared.costs}
            self.now = RunState(0, 0, tables, self.shared.episodes, self.shared.extras)
        self.earlier = {0: self.now}  # by round: the states to which the engine may have to go back
        self.at_once = 1
        self.at_end = at_end
        self.is_over = False  # whether the learners have got their states back

    @property
    def plays_alone(self) -> bool:
        """Return whether no team learns from another. Then rounds may have any number of episodes, and the results are the same."""
        return self.teams.sharing <= 1

    def play(self, progress: bool | Callable[[int], None], label: str, checkpoint: Checkpoint | None = None) -> RunRecord:
        """Play all rounds, and return the results.

        Whatever happens, learners are left in their state after some round, and no worker goes on. progress, label: see `Progress`.
        """
        claim_engine(self)
        try:
            self.start(checkpoint)
            with Progress(label, self.episodes, progress, len(self.mdps)) as bar:
                bar.skip(self.now.done)
                while self.now.done < self.episodes:
                    begun, before = time.perf_counter(), self.now.done
                    self.play_round()
                    self.set_pace(time.perf_counter() - begun)
                    bar.advance(self.now.done - before)
                    if checkpoint is not None and checkpoint.is_due():
                        checkpoint.save(self.now, self.record, self.all_states())
            if checkpoint is not None:
                checkpoint.save(self.now, self.record, self.all_states())
            self.end()
            self.evaluations.carry(self.record.ledger)
        except BaseException as error:
            # An OSError may come from the checkpoint itself.
            if not self.is_over and self.end() and checkpoint is not None and not isinstance(error, OSError):
                checkpoint.save(self.now, self.record, self.all_states())
            raise
        finally:
            _engines_at_work.pop(id(self.engine), None)
            self.engine.close()
        return self.record

    def start(self, checkpoint: Checkpoint | None) -> None:
        """Make the shards, from the states of the learners or from a checkpoint, and find the optimum of each team."""
        states: Sequence[Arrays] = self.teams.states
        if checkpoint is not None:
            run = fingerprint(self.teams, self.mdps, self.learners, self.now, self.sync_every, self.evaluate_every)
            self.now, states = checkpoint.begin(run, self.now, self.record, self.teams)
            self.earlier = {0: self.now}
            if not self.plays_alone and self.now.done % self.sync_every and self.now.done < self.episodes:
                done = f"{checkpoint.path}: the number of episodes done is {self.now.done}"
                raise ValueError(f"{done}, must be a multiple of sync_every = {self.sync_every} to go on from")
        shards = check.integer("Engine", "what shards() answered", self.engine.shards(len(self.mdps)), 1, len(self.mdps))
        plans = cut_into_shards(self.teams, states, self.now.shared, self.mdps, self.learners, shards)
        places = [[members.team for members in plan.members] for plan in plans]
        for here, found in zip(places, self.engine.start(plans), strict=True):
            for place, optima in zip(here, found, strict=True):
                self.record.optimum[place] = optima
        self.which, self.places = [plan.which for plan in plans], places  # last: if it was interrupted, no shard has a state
        self.find_mixtures()

    def find_mixtures(self) -> None:
        """Set the optimum of teams whose learners have limits to the cost of the best mixture within these limits."""
        for place, (mdp, learner) in enumerate(zip(self.mdps, self.learners, strict=True)):
            limits = learner.settings.limits
            if limits is not None:
                known, key = _mixtures.setdefault(mdp, {}), tuple(ends.tobytes() for ends in limits)
                if key not in known:
                    known[key] = best_mixture(mdp, *limits).cost
                self.record.optimum[place] = known[key]

    def play_round(self) -> None:
        """Play one round and enter its results. If the shards are in this process, an interrupt waits until that is done."""
        order, reports = self.next_order(), None
        with interrupts_later() if self.engine.here else nullcontext():
            try:
                reports = self.engine.play(order)
            finally:
                if reports is not None:
                    with interrupts_later():
                        self.enter(order, reports)

    def next_order(self) -> Order:
        """Return the order of the next round: its number of episodes, and the constants and scales of the radii for each group and
        age.
        """
        now, n = self.now, min(self.at_once if self.plays_alone else self.sync_every, self.episodes - self.now.done)
        n = min(n, self.until_fit()) if self.plays_alone else n
        first: list[Ints] = []
        owned: list[Ints] = []
        numbers: list[list[dict[str, Floats]]] = []
        for group, scale, sizes, ages in zip(self.teams.groups, self.teams.scales, self.sizes, self.teams.ages, strict=True):
            here = []
            done = now.done * self.per_entry
            for episodes, own in ages:
                seen = now.environment_episodes if group.shared else own + done
                here.append(radii_ahead(scale, sizes, episodes + done + 1, seen, n))
                n = min(n, len(here[-1]["cost"]))
            first.append(np.array([episodes + done + 1 for episodes, _ in ages], dtype=np.int64))
            owned.append(np.array([own + done for _, own in ages], dtype=np.int64))
            numbers.append(here)
        by_group = tuple({name: np.array([one[name][:n] for one in here]) for name in here[0]} for here in numbers)
        evaluated = self.evaluations.is_chosen[now.done : now.done + n]
        return Order(now.number + 1, n, tuple(first), by_group, evaluated, now.shared, tuple(owned), now.extras)

    def until_fit(self) -> int:
        """Return in how many episodes an option fits models next: a round must end there.

        Where teams learn from one another, models are fitted after the round in which they are due.
        """
        done, result, teams = self.now.done, self.episodes, self.teams
        for group, ages, places in zip(teams.groups, teams.ages, teams.places, strict=True):
            option = group.sizes.option
            if option is not None:
                shared = [self.now.environment_episodes] if group.shared else []
                for counted in [*(x + done for age in ages for x in age), *shared]:
                    result = min(result, option.next_fit(counted) - counted)
                for state in [teams.before[place] for place in places if not done]:  # counts may have come from elsewhere
                    layers = {"agents": state.episodes, "environment": state.environment_episodes}
                    if any(option.is_due(layer, state.extras, counted) for layer, counted in layers.items()):
                        result = 1
        return result

    def extras_after(self, shared: Mapping[str, Table], counted: int) -> Extras:
        """Return the extras of the shared environment after so many episodes were counted into its table."""
        option = next((option for group in self.teams.groups if group.shared and (option := group.sizes.option)), None)
        if option is None:
            return self.now.extras
        return option.fit("environment", self.now.extras, shared[ENVIRONMENT].matrix, counted)

    def enter(self, order: Order, reports: Sequence[Report]) -> None:
        """Enter the results of a round. It may be repeated after an interrupt: it counts only when `now` is replaced."""
        now = self.now
        played = slice(now.done, now.done + order.episodes)
        shared = {name: table.copy() for name, table in now.shared.items()}
        for places, report in zip(self.places, reports, strict=True):
            for teams, reported in zip(places, report.ledgers, strict=True):
                ledger = reported
                if self.mdps[0].horizon is not None or self.mdps[0].discount is None:
                    lost = self.per_entry * (ledger.expected_cost - self.record.optimum[teams][:, None])
                    ledger = replace(ledger, regret=lost)
                self.record.ledger.enter(teams, played, ledger)
            for name, table in shared.items():
                table.add(report.deltas[name].key, report.deltas[name].number)
        counted = now.environment_episodes + order.episodes * self.teams.sharing * self.per_entry
        self.now = RunState(order.number, played.stop, shared, counted, self.extras_after(shared, counted))
        self.earlier[order.number] = self.now
        for number in [n for n in self.earlier if n < self.engine.kept_number]:
            del self.earlier[number]

    def set_pace(self, seconds: float) -> None:
        """Choose how many episodes the next round has if teams play alone, from the seconds that the last one took.

        Progress is shown, and an interrupt is noticed, between rounds.
        """
        if self.engine.plans_with_threads:
            self.at_once = 1
        elif seconds < MOST_SECONDS / 2:
            self.at_once = min(2 * self.at_once, MOST_AT_ONCE)
        elif seconds > MOST_SECONDS:  # later episodes may take longer, since tables grow
            self.at_once = max(1, self.at_once // 2)

    def all_states(self) -> list[Arrays]:
        """Return the states of all teams, stacked by group."""
        parts: list[list[Arrays]] = [[] for _ in self.teams.groups]
        for which, states in zip(self.which, self.engine.states(), strict=True):
            for group, state in zip(which, states, strict=True):
                parts[group].append(state)
        return [joined(some) for some in parts]

    def end(self) -> bool:
        """Hand the states back, without being interrupted, and return what `hand_back` returns."""
        with interrupts_later():
            whole = self.hand_back()
            if self.at_end is not None:
                self.at_end(self.now.done)
            self.is_over = True
        return whole

    def hand_back(self) -> bool:
        """Give the learners the states that their teams reached, and return whether these are those of the last round.

        After a failure of workers, they get the states that the engine kept last; if it kept none, they stay as they were before
        the run.
        """
        now, engine = self.now, self.engine
        if not self.places:  # the engine has not started: learners are as they were
            return False
        whole = not engine.failed and engine.number == now.number
        if whole:
            states = engine.states()
        else:
            kept = engine.recover()
            if kept is None or engine.kept_number not in self.earlier:
                return False
            now, states = self.earlier[engine.kept_number], kept
        for which, by_group, stacks in zip(self.which, self.places, states, strict=True):
            for number, places, stack in zip(which, by_group, stacks, strict=True):
                group, before = self.teams.groups[number], [self.teams.before[place] for place in places]
                done = now.done * self.per_entry
                names = [self.learners[place].task.tables for place in places]
                after = unstack_states(group.sizes, stack, before, names, done, 0 if group.shared else done)
                for place, state in zip(places, after, strict=True):
                    self.learners[place]._remember(state)
        if self.shared is not None:
            self.shared.table, self.shared.costs = now.shared[ENVIRONMENT], now.shared[COSTS]
            self.shared.episodes, self.shared.extras = now.environment_episodes, now.extras
        return whole
