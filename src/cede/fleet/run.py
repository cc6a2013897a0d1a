"""Runs a fleet round by round: in each round all teams plan from shared counts, play, and are counted.

The same loop runs one team or a hundred thousand, on any engine (engines.py). The results depend on seeds only: within a round
teams do not see one another, and their additions to the environment's counts are sums.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from cede._base import check
from cede._base.interrupts import interrupts_later
from cede._base.progress import Progress
from cede._kernels.tables import Table
from cede.beliefs.constants import radii_ahead
from cede.beliefs.extras import Extras
from cede.fleet.checkpoint import Checkpoint, RunState, fingerprint
from cede.fleet.engines import Engine, Threads
from cede.fleet.evaluations import Evaluations
from cede.fleet.grouping import ShardPlan, Streams, TeamGroup, cut_into_shards, group_teams
from cede.fleet.history import RunRecord
from cede.fleet.shard import Order, Report
from cede.learners.arrays import radius_sizes
from cede.learners.stacks import joined, unstack_states
from cede.learners.state import Arrays
from cede.planning.control_shares import best_mixture
from cede.problem.model import TwoLayerMDP
from cede.rows.places import AGENTS, COSTS, ENVIRONMENT
from cede.rows.working import SharedCounts

if TYPE_CHECKING:
    from cede.learners.learner import Learner

_mixtures: "WeakKeyDictionary[TwoLayerMDP, dict[Any, float]]" = WeakKeyDictionary()  # cost of the best one, by problem and limits
_engines_lock = threading.Lock()
ROUND_SECONDS, MOST_AT_ONCE, MOST_GROWTH = 0.1, 10_000, 16  # of a round, if teams share nothing: seconds, episodes, growth
FIRST_WORK = 300_000  # operations of the first round, roughly: some milliseconds


class Run:
    """One run of a fleet: the loop over rounds, its state, and the results so far. `simulate` and `simulate_fleet` make it.

    mdps, learners: the true problem and the learner of each team. episodes: of every team. streams: (n, 4) random streams, see
    `streams_of`. engine, sync_every, evaluate_every: see `simulate_fleet`; without an engine, the run is in this thread. at_end:
    called once with the number of episodes done, after the learners got their states back. block: without horizon, the number of
    steps that are recorded together.
    """

    def __init__(
        self,
        mdps: Sequence[TwoLayerMDP],
        learners: "Sequence[Learner]",
        episodes: int,
        streams: Streams,
        *,
        engine: Engine | None = None,
        sync_every: int = 1,
        evaluate_every: int = 1,
        at_end: Callable[[int], None] | None = None,
        block: int = 1,
    ) -> None:
        self.mdps, self.learners, self.episodes, self.at_end = mdps, learners, episodes, at_end
        self.engine = Threads(1) if engine is None else engine
        self.sync_every, self.evaluate_every = sync_every, evaluate_every
        self.evaluations = Evaluations(streams[0], episodes, 1 if mdps[0].horizon is None else evaluate_every)
        self.before = [learner._packed() for learner in learners]
        self.groups = group_teams(mdps, learners, self.before, streams, block)
        self.scales = [learners[group.team[0]].settings.scale for group in self.groups]
        self.sizes = [radius_sizes(group.sizes) for group in self.groups]
        self.sharing = sum(len(group.team) for group in self.groups if group.shared)  # teams that share the environment
        self.sharing_agents = sum(len(group.team) for group in self.groups if group.shared_rows.size)  # and some agents
        self.plays_alone = self.sharing <= 1  # no team learns from another: rounds of any length have the same results
        self.per_entry = block if mdps[0].horizon is None else 1  # without a horizon, each step counts as an episode
        self.shards: Sequence[ShardPlan] = ()
        self.record = RunRecord.empty(mdps, episodes)
        self.shared = next((counts for learner in learners if (counts := learner.shared_environment) is not None), None)
        self.now = RunState(0, 0, {}, 0) if self.shared is None else state_of(self.shared)
        self.earlier = {0: self.now}  # by round: the states to which the engine may return
        self.at_once = first_round(mdps)  # episodes of a round, if teams play alone
        self.is_over = False  # whether the learners got their states back

    def play(self, progress: bool | Callable[[int], None], label: str, checkpoint: Checkpoint | None = None) -> RunRecord:
        """Play all rounds, and return the results.

        After any error, learners are in their states after some round, and all workers have stopped. progress, label: see
        `Progress`.
        """
        self.claim_engine()
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
            self.engine.run = None
            self.engine.close()
        return self.record

    def claim_engine(self) -> None:
        """Take the engine for this run; fails if another run, which is not freed yet, uses it."""
        with _engines_lock:
            if self.engine.run is not None and self.engine.run() is not None:
                check.fail("simulate_fleet", "engine", "in another run", "one of its own for each run")
            self.engine.run = ref(self)

    def start(self, checkpoint: Checkpoint | None) -> None:
        """Make the shards, from the states of the learners or from a checkpoint, and find the optimum of each team."""
        if checkpoint is not None:
            rules = (self.sync_every, self.evaluate_every)
            run = fingerprint(self.groups, self.scales, self.mdps, self.learners, self.now, *rules)
            self.now, states = checkpoint.begin(run, self.now, self.record, self.groups)
            self.groups = [replace(group, state=state) for group, state in zip(self.groups, states, strict=True)]
            self.earlier = {0: self.now}
            if not self.plays_alone and self.now.done % self.sync_every and self.now.done < self.episodes:
                done = f"{checkpoint.path}: the number of episodes done is {self.now.done}"
                raise ValueError(f"{done}, must be a multiple of sync_every = {self.sync_every} to go on from")
        n = check.integer("Engine", "what shards() answered", self.engine.shards(len(self.mdps)), 1, len(self.mdps))
        shapes = {name: (table.n_rows, table.n_columns) for name, table in self.now.shared.items()}
        shards = cut_into_shards(self.groups, shapes, n)
        for shard, optima in zip(shards, self.engine.start(shards), strict=True):
            for group, costs in zip(shard.groups, optima, strict=True):
                self.record.optimum[group.team] = costs
        self.shards = shards  # last: after an interrupt, no shard has a state
        self.find_mixtures()

    def find_mixtures(self) -> None:
        """Set the optimum of teams whose learners have limits to the cost of the best mixture within these limits."""
        for place, (mdp, learner) in enumerate(zip(self.mdps, self.learners, strict=True)):
            limits = learner.settings.limits
            if limits is not None:
                known, key = _mixtures.setdefault(mdp, {}), (limits.least.tobytes(), limits.most.tobytes())
                if key not in known:
                    known[key] = best_mixture(mdp, limits.least, limits.most).cost
                self.record.optimum[place] = known[key]

    def play_round(self) -> None:
        """Play one round and enter its results. If the shards are in this process, an interrupt is delayed until then."""
        order, reports = self.next_order(), None
        with interrupts_later() if self.engine.here else nullcontext():
            try:
                reports = self.engine.play(order)
            finally:
                if reports is not None:
                    with interrupts_later():
                        self.enter(order, reports)

    def next_order(self) -> Order:
        """Return the order of the next round: number of episodes, and constants and scales of the radii by group and age."""
        now, done = self.now, self.now.done * self.per_entry
        n = self.episodes - now.done
        n = min(n, self.at_once, self.until_fit()) if self.plays_alone else min(n, self.sync_every)
        by_group: list[list[dict[str, Any]]] = []
        for group, scale, sizes in zip(self.groups, self.scales, self.sizes, strict=True):
            by_age = []
            for episodes, own, others in group.ages:
                counted = now.environment_episodes if group.shared else own + done
                crew = max(episodes + others + done, now.agents_episodes if group.shared_rows.size else 0)
                by_age.append(radii_ahead(scale, sizes, episodes + done + 1, counted, crew, n))
                n = min(n, len(by_age[-1]["cost"]))
            by_group.append(by_age)
        radii = tuple([{name: np.array([age[name][:n] for age in by_age]) for name in by_age[0]} for by_age in by_group])
        evaluated = self.evaluations.is_chosen[now.done : now.done + n]
        return Order(now.number + 1, n, done, radii, evaluated, now.shared, now.extras)

    def until_fit(self) -> int:
        """Return the number of episodes until an option fits models next: a round must end then.

        If teams share counts, models are fitted after the round in which they are due.
        """
        done, result = self.now.done, self.episodes
        for group in [group for group in self.groups if group.sizes.option is not None]:
            option: Any = group.sizes.option
            shared = [self.now.environment_episodes] if group.shared else []
            for counted in [*(x + done for age in group.ages for x in age[:2]), *shared]:
                result = min(result, option.next_fit(counted) - counted)
            for state in [self.before[place] for place in group.team if not done]:  # counts may be from before the run
                layers = {"agents": state.episodes, "environment": state.environment_episodes}
                if any(option.is_due(layer, state.extras, counted) for layer, counted in layers.items()):
                    result = 1
        return result

    def extras_after(self, shared: Mapping[str, Table], counted: int) -> Extras:
        """Return the extras of the shared environment after a number of episodes were counted into its table."""
        option = next((option for group in self.groups if group.shared and (option := group.sizes.option)), None)
        if option is None:
            return self.now.extras
        return option.fit("environment", self.now.extras, shared[ENVIRONMENT].matrix, counted)

    def enter(self, order: Order, reports: Sequence[Report]) -> None:
        """Enter the results of a round. It may be repeated after an interrupt: it takes effect when `now` is replaced."""
        now, first = self.now, self.mdps[0]
        played = slice(now.done, now.done + order.episodes)
        shared = {name: table.copy() for name, table in now.shared.items()}
        for shard, report in zip(self.shards, reports, strict=True):
            for group, ledger in zip(shard.groups, report.ledgers, strict=True):
                self.record.ledger.enter(group.team, played, ledger)
                if first.horizon is not None or first.discount is None:
                    lost = self.per_entry * (ledger.expected_cost - self.record.optimum[group.team][:, None])
                    self.record.ledger.regret[group.team, played] = lost
            for name, table in shared.items():
                table.add(report.deltas[name].key, report.deltas[name].number)
        counted = now.environment_episodes + order.episodes * self.sharing * self.per_entry
        crew = now.agents_episodes + order.episodes * self.sharing_agents * self.per_entry
        self.now = RunState(order.number, played.stop, shared, counted, self.extras_after(shared, counted), crew)
        self.earlier[order.number] = self.now
        for number in [number for number in self.earlier if number < self.engine.kept_number]:
            del self.earlier[number]

    def set_pace(self, seconds: float) -> None:
        """Set the number of episodes of the next round if teams play alone, from the seconds that the last round took.

        Progress and interrupts are handled between rounds. Later episodes may take longer, since tables grow.
        """
        growth = min(ROUND_SECONDS / 2 / max(seconds, 1e-9), MOST_GROWTH) if seconds < ROUND_SECONDS else 0.5
        self.at_once = 1 if self.engine.plans_with_threads else int(min(max(1.0, self.at_once * growth), MOST_AT_ONCE))

    def by_group(self, states: Sequence[Sequence[Arrays]]) -> Iterator[tuple[TeamGroup, Arrays]]:
        """Yield each group and the stacks of its states, by shard. states: as an engine returns them."""
        for shard, stacks in zip(self.shards, states, strict=True):
            yield from zip(shard.groups, stacks, strict=True)

    def all_states(self) -> list[Arrays]:
        """Return the states of all teams, stacked by group."""
        parts: list[list[Arrays]] = [[] for _ in self.groups]
        for group, stack in self.by_group(self.engine.states()):
            parts[group.number].append(stack)
        return [joined(stacks) for stacks in parts]

    def end(self) -> bool:
        """Call `hand_back` with interrupts delayed, and return its result."""
        with interrupts_later():
            whole = self.hand_back()
            if self.at_end is not None:
                self.at_end(self.now.done)
            self.is_over = True
        return whole

    def hand_back(self) -> bool:
        """Give the learners the states of their teams; return whether these are the states after the last round.

        After a failure of workers, learners get the last states that the engine stored; if there are none, their states before the
        run.
        """
        now, engine = self.now, self.engine
        if not self.shards:  # the engine has not started: learners are unchanged
            return False
        whole = not engine.failed and engine.number == now.number
        states = engine.states() if whole else engine.recover()
        if states is None or (not whole and engine.kept_number not in self.earlier):
            return False
        now = now if whole else self.earlier[engine.kept_number]
        done = now.done * self.per_entry
        for group, stack in self.by_group(states):
            before = [self.before[place] for place in group.team]
            names = [self.learners[place].task.tables for place in group.team]
            spans = self.shared.spans if self.shared is not None and group.shared else ()
            after = unstack_states(group.sizes, stack, before, names, done, 0 if group.shared else done, spans)
            for place, state in zip(group.team, after, strict=True):
                self.learners[place]._remember(state)
        if self.shared is not None:
            self.shared.table, self.shared.costs = now.shared[ENVIRONMENT], now.shared[COSTS]
            if self.shared.spans:
                self.shared.agents, self.shared.agents_episodes = now.shared[AGENTS], now.agents_episodes
            self.shared.episodes, self.shared.extras = now.environment_episodes, now.extras
        return whole


def first_round(mdps: Sequence[TwoLayerMDP]) -> int:
    """Return the number of episodes of the first round if teams play alone: few enough to take little time."""
    task = mdps[0].task
    plan = task.plan_steps * task.n_states * task.n_agents * (task.n_actions * task.n_states)
    return 1 if task.horizon is None else max(1, FIRST_WORK // (plan * len(mdps)))


def state_of(shared: SharedCounts) -> RunState:
    """Return the state of a run at its beginning. shared: the shared counts of the fleet."""
    tables = {ENVIRONMENT: shared.table, COSTS: shared.costs, **({AGENTS: shared.agents} if shared.spans else {})}
    return RunState(0, 0, tables, shared.episodes, shared.extras, shared.agents_episodes)
