"""Some teams of a fleet, at work together: arrays in, arrays out, wherever they are.

A `Shard` holds some teams of every kind. It plays rounds by `Order` and answers with a `Report`; the same order again gets the
same answer, so nothing counts twice. The teams of a kind are a `Crew`: one bench serves them, a team at a time, in compiled code.
Between rounds all that a shard knows are arrays (`State`), which can be taken out, kept, and put into another shard.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede import _kernels
from cede._base.arrays import Floats, Ints
from cede._kernels import Bench, Hands, Keep, Ledger, Log, Radii, Room, Steps, World
from cede.fleet.team_states import RECENT, VISITS, Kind, Roster, State, kept_rows, promises_at_start
from cede.learning.counts import Counts, EnvironmentTally, Tally, shapes
from cede.learning.settings import mind_of, optimistic_start, row_maps, tally_parts
from cede.learning.state import Memory
from cede.planning.belief import Belief, true_environment
from cede.planning.planner import empty_plan, hands_for, problem_of, room_for, run_pass, threads_for
from cede.planning.tables import Sums, Table, read_only
from cede.problem.task import Task

TEAMS_AT_ONCE = 64  # of one call of compiled code: an interrupt is heard in between


@dataclass(frozen=True, eq=False)
class Order:
    """A round: so many episodes of every team."""

    number: int  # 1, 2, ...
    episodes: int
    first: tuple[Ints, ...]  # by kind: (ages,) k of the first episode
    numbers: tuple[Radii, ...]  # by kind: arrays (ages, episodes)
    evaluate_every: int
    snapshot: Table | None  # what all teams together had seen of the shared environment before; nobody changes it


@dataclass(frozen=True, eq=False)
class Report:
    """What came of an order."""

    number: int
    ledgers: tuple[Ledger, ...]  # by crew, first axes (teams, episodes)
    delta: Sums  # what was seen of the shared environment


@dataclass(frozen=True, eq=False)
class ShardPlan:
    """What a shard is made of: some kinds of teams, and some teams of each."""

    which: Sequence[int]  # of all kinds, those that it has teams of
    kinds: Sequence[Kind]
    rosters: Sequence[Roster]
    agents: Table  # the true tables of all its agents, slot by slot
    states: Sequence[State]
    number: int = 0  # the last order that is in the states


# ------------------------------------------------------------------------------------------------- at work


class Shard:
    """Some teams at work, the true tables that they live by, and what is going on."""

    def __init__(self, plan: ShardPlan) -> None:
        first = plan.kinds[0].task
        places = np.arange(plan.agents.n_rows).reshape(-1, first.n_states)
        truth = Belief(plan.agents, np.zeros(plan.agents.n_rows), places)
        structure = next((kind.recipe.structure for kind in plan.kinds if kind.shared), None)
        _, (rows, columns) = shapes(first, structure=structure)
        self.environment = EnvironmentTally(Table.empty(rows, columns), rows, 0)  # the shared one, as the team at work sees it
        self.delta = Table.empty(rows, columns)
        self.which = plan.which
        given = zip(plan.kinds, plan.rosters, plan.states, strict=True)
        self.crews = [Crew(kind, roster, truth, state, self.environment, self.delta) for kind, roster, state in given]
        self.number = plan.number
        self.order: Order | None = None
        self.report: Report | None = None

    def optima(self) -> list[Floats]:
        """The least expected cost of an episode, by crew and team."""
        return [crew.optima() for crew in self.crews]

    def play(self, order: Order) -> Report:
        """Play a round, or the rest of it if it was interrupted; if it was played already, tell again what came of it."""
        if self.report is not None and self.report.number == order.number:
            return self.report
        if order.number != self.number + 1:
            raise RuntimeError(f"round {order.number} came after round {self.number}")
        if self.order is not order:
            self._begin(order)
        for kind, crew in zip(self.which, self.crews, strict=True):
            crew.play(order, kind)
        self.report = Report(order.number, tuple(crew.ledger for crew in self.crews), self.delta.sums())
        self.number = order.number
        return self.report

    def _begin(self, order: Order) -> None:
        if order.snapshot is not None and any(crew.kind.shared for crew in self.crews):
            given, here = order.snapshot, self.environment.table
            missing = int(given.end[0]) - len(here.column)
            if missing > 0:
                here.lengthen(missing)
            _kernels.restore(here.pool, given.pool)
            self.delta.clear()
        for crew in self.crews:
            crew.begin(order)
        self.order = order

    def states(self) -> list[State]:
        """All that is known between two rounds, by crew."""
        return [crew.state() for crew in self.crews]

    def worth_threads(self) -> bool:
        """Would several threads on one plan be faster than one?"""
        return any(crew.worth_threads() for crew in self.crews)


class Crew:
    """The teams of one kind in a shard, and their bench."""

    def __init__(
        self, kind: Kind, roster: Roster, truth: Belief, state: State, environment: EnvironmentTally, delta: Table
    ) -> None:
        task, recipe = kind.task, kind.recipe
        self.kind, self.roster, self.delta = kind, roster, delta
        shared = environment if kind.shared else None
        zeros = Counts.zeros(task, flat=recipe.flat, structure=recipe.structure)
        self.tally = Tally(task, zeros, environment=shared, **tally_parts(task, recipe, Memory()))
        self.rows = row_maps(task, recipe, self.tally)
        self.mind = mind_of(task, recipe, self.tally, self.rows, None)
        tables = (self.tally.agents, self.tally.environment.table)
        self.given = np.array([0 if table is environment.table else table.end[0] for table in tables], dtype=np.int64)
        counted = (self.tally.agent_rows, self.tally.environment.rows)
        fading = [rows if part.factor.size else 0 for rows, part in zip(counted, self.tally.fading, strict=True)]
        self.fading = np.array(fading, dtype=np.int64)
        agents, rows = (shape[0] * shape[1] for shape in shapes(task, flat=recipe.flat, structure=recipe.structure))
        self.seen = kept_rows(state["seen_size"], state["seen_key"], state["seen_number"], agents)
        self.own = kept_rows(state["own_size"], state["own_key"], state["own_number"], rows)
        self.keep = self._keep(state)
        self.bench = self._bench(truth)
        self.at = np.zeros(1, dtype=np.int64)
        self.ledger = self._ledger(0)

    @property
    def n_teams(self) -> int:
        return len(self.roster.team)

    def _keep(self, state: State) -> Keep:
        task, recipe, n = self.kind.task, self.kind.recipe, self.n_teams
        policy, value = empty_plan(task)
        costs = [array.copy() for array in (self.roster.control_cost, self.roster.switch_cost)]
        for array in costs:
            array.flags.writeable = False  # the kernels are compiled for costs that they may not write
        keep = Keep(
            seen=self.seen.pool,
            own=self.own.pool,
            luck=state["luck"].copy(),
            seed=self.roster.seed.copy(),
            control_cost=costs[0],
            switch_cost=costs[1],
            slot=self.roster.slot.copy(),
            start_agent=self.roster.start_agent.copy(),
            age=self.roster.age.copy(),
            planned=state["planned"].copy(),
            fresh=state["fresh"].copy(),
            judged=state["judged"].copy(),
            cost=state["cost"].copy(),
            policy=own(state["policy"]) if "policy" in state else policy[None],
            value=own(state["value"]) if "value" in state else value[None],
            planned_agents=own(state["planned_agents"]) if "planned_agents" in state else np.empty((1, 0)),
            planned_environment=own(state["planned_environment"]) if "planned_environment" in state else np.empty((1, 0)),
            bounds=np.empty((1, 0, 0, 0)),
            least_bound=np.empty((1, 0, 0)),
            least_at=np.empty((1, 0, 0), dtype=np.int64),
            recent_agents=own(state["recent_agents"]) if "recent_agents" in state else no_steps(),
            recent_environment=own(state["recent_environment"]) if "recent_environment" in state else no_steps(),
            prices=own(state["prices"]) if "prices" in state else np.empty((1, 0, 0)),
            record=own(state["record"]) if "record" in state else np.empty((1, 0)),
        )
        if recipe.planning == "full":
            return keep
        bounds = own(state["bounds"])
        for i in range(n):
            if np.isnan(bounds[i, 0, 0, 0]):
                problem = self.mind.problem._replace(control_cost=costs[0][i], switch_cost=costs[1][i])
                bounds[i] = optimistic_start(self.mind._replace(problem=problem), task)
        least = bounds.argmin(axis=2).astype(np.int64)
        return keep._replace(bounds=bounds, least_bound=bounds.min(axis=2), least_at=least)

    def _bench(self, truth: Belief) -> Bench:
        task, environment = self.kind.task, self.kind.environment
        policy, value = empty_plan(task)
        problem = problem_of(task)._replace(vary=self.kind.varies)
        start = (read_only(environment.start), environment.cumulated_start, 0)
        world = World(truth.layer, true_environment(environment).layer, problem, *start, task.acting, task.aim)
        room, true_room, hands = self._tools(world)
        return Bench(
            mind=self.mind,
            world=world,
            room=room,
            true_room=true_room,
            hands=hands,
            before=policy,
            true_value=value,
            steps=steps_of(task),
            log=Log(*(np.empty(0, dtype=np.int64) for _ in range(3))),
            luck=np.empty(2 * task.horizon + 1),
            given=self.given,
            fading=self.fading,
            held=np.zeros(1, dtype=np.int64),
            at_work=np.full(1, -1, dtype=np.int64),
            shared=self.kind.shared,
            snapshot=self.delta.pool,
            delta=self.delta.pool,
        )

    def _tools(self, world: World) -> tuple[Room, Room, Hands]:
        """What the thread that is at work now has for it."""
        task, mind = self.kind.task, self.mind
        shape = (task.horizon, task.n_states, task.n_agents)
        room = room_for(mind.problem, shape, mind.agents, mind.environment)
        true_room = room_for(world.problem, shape, world.agents, world.environment)
        return room, true_room, hands_for(task.n_states, max(mind.environment.row.shape[1], task.n_actions), task.n_agents)

    def _ledger(self, episodes: int) -> Ledger:
        shape = (self.n_teams, episodes)
        control = np.zeros((*shape, len(self.kind.task.members)), dtype=np.int64)
        return Ledger(np.empty(shape), np.empty(shape), control, np.empty(shape, dtype=np.int64))

    def optima(self) -> Floats:
        """The least expected cost of an episode of each team."""
        keep, world, result = self.keep, self.bench.world, np.empty(self.n_teams)
        teams = (keep.slot, keep.control_cost, keep.switch_cost, keep.start_agent)
        _, room, hands = self._tools(world)
        for first in range(0, self.n_teams, TEAMS_AT_ONCE):
            last = min(first + TEAMS_AT_ONCE, self.n_teams)
            _kernels.find_optima(world, *teams, *empty_plan(self.kind.task), room, hands, first, last, result)
        return result

    def begin(self, order: Order) -> None:
        steps = order.episodes * self.kind.task.horizon
        if self.bench.log.row.size < steps:
            self.bench = self.bench._replace(log=Log(*(np.empty(steps, dtype=np.int64) for _ in range(3))))
        if order.snapshot is not None:
            self.bench = self.bench._replace(snapshot=order.snapshot.pool)
        self.ledger = self._ledger(order.episodes)
        self.at[0] = 0

    def play(self, order: Order, kind: int) -> None:
        """All teams that have not played in this round yet. kind: where the order speaks of them."""
        room, true_room, hands = self._tools(self.bench.world)
        first, numbers = order.first[kind], order.numbers[kind]
        alone = order.episodes == 1 and self.worth_threads()
        while self.at[0] < self.n_teams:
            begin = int(self.at[0])
            end = begin + 1 if alone else min(begin + TEAMS_AT_ONCE, self.n_teams)
            self._make_room(begin, end, order.episodes)
            if alone:
                age = self.keep.age[begin]
                self._plan_with_threads(begin, int(first[age]), Radii(*(float(array[age, 0]) for array in numbers)))
            bench = self.bench._replace(room=room, true_room=true_room, hands=hands)
            _kernels.play_teams(bench, self.keep, numbers, first, order.evaluate_every, begin, end, self.ledger, self.at)

    def worth_threads(self) -> bool:
        plans = self.kind.recipe.planning == "full" and self.mind.replan != _kernels.NEVER
        return plans and threads_for(self.mind.environment, self.kind.task.horizon) > 1

    def _plan_with_threads(self, i: int, episode: int, numbers: Radii) -> None:
        """Several threads work on the plan of one team, if it is due, before it plays."""
        keep, mine = self.keep, min(i, len(self.keep.policy) - 1)
        bench, task = self.bench, self.kind.task
        pools, columns = (self.mind.seen_agents, self.mind.seen_environment), self.tally.places.columns
        sizes = (task.n_actions, columns, bench.shared)
        _kernels.come_to_work(keep.seen, keep.own, i, *pools, *sizes, bench.given, bench.held, bench.at_work, bench.fading)
        limits = self.mind.limits._replace(own=keep.control_cost[i], prices=keep.prices[min(i, len(keep.prices) - 1)])
        _kernels.set_prices(limits)
        control_cost = self.mind.problem.control_cost if limits.priced.size else keep.control_cost[i]
        problem = self.mind.problem._replace(control_cost=control_cost, switch_cost=keep.switch_cost[i])
        noted = min(i, len(keep.planned_agents) - 1)
        visits = {"planned_agents": keep.planned_agents[noted], "planned_environment": keep.planned_environment[noted]}
        mind = self.mind._replace(problem=problem, **visits)
        if not keep.fresh[i] and _kernels.is_due(mind, episode, keep.planned[i]):
            plan, ties = (keep.policy[mine], keep.value[mine]), int(_kernels.tie_seed(keep.seed[i], episode))
            _kernels.believe(mind, numbers, ties)
            run_pass(mind.problem, mind.agents, mind.environment, _kernels.CHOOSE, *plan, ties)
            _kernels.note_visits(mind)
            keep.planned[i], keep.fresh[i] = episode, 1

    def _make_room(self, first: int, last: int, episodes: int) -> None:
        """Pools long enough for these teams: the kernels trust in it."""
        steps, tally = episodes * self.kind.task.horizon, self.tally
        rows, columns = tally.environment.rows, tally.places.columns
        self._lengthen_bench(0, tally.agents, self.seen, tally.agent_rows, self.kind.task.n_actions, steps, first, last)
        if self.kind.shared:
            base, table, more = int(self.bench.snapshot.end[0]), tally.environment.table, (last - first) * steps
            lengthen_to(table, base + _kernels.growth(base, rows, columns, steps))
            lengthen_to(self.delta, self.delta.end[0] + _kernels.growth(self.delta.end[0], rows, columns, more))
        else:
            self._lengthen_bench(1, tally.environment.table, self.own, rows, columns, steps, first, last)
        self._renew()

    def _lengthen_bench(
        self, layer: int, table: Table, kept: Table, rows: int, columns: int, steps: int, first: int, last: int
    ) -> None:
        """Room at the bench for any of these teams, and for what is kept of all of them."""
        entries = int(kept.size[first:last].max())
        base = max(int(table.end[0]), int(self.given[layer]) + entries)
        lengthen_to(table, base + _kernels.growth(entries, rows, columns, steps))
        wanted = _kernels.places_wanted(kept.pool, first, last, steps, rows * columns)
        if wanted > 0:
            kept.lengthen(wanted)

    def _renew(self) -> None:
        """Bring the bundles of arrays up to date: tables that became longer have moved."""
        tally, environment = self.tally, self.tally.environment.table
        if self.mind.seen_agents.column is not tally.agents.column or self.mind.seen_environment.column is not environment.column:
            self.mind = mind_of(self.kind.task, self.kind.recipe, tally, self.rows, self.mind)
        if self.keep.seen.column is not self.seen.column or self.keep.own.column is not self.own.column:
            self.keep = self.keep._replace(seen=self.seen.pool, own=self.own.pool)
        if self.bench.mind is not self.mind or self.bench.delta.column is not self.delta.column:
            self.bench = self.bench._replace(mind=self.mind, delta=self.delta.pool)

    def state(self) -> State:
        """What changes. Large arrays are those at work: they stand until the next round begins."""
        keep = self.keep
        state: State = {name: getattr(keep, name).copy() for name in ("luck", "judged", "cost", "planned", "fresh")}
        for name, table in (("seen", self.seen), ("own", self.own)):
            sums = table.sums()
            state.update({f"{name}_size": table.size.copy(), f"{name}_key": sums.column, f"{name}_number": sums.amount})
        if self.kind.keeps_plans:
            state["policy"] = keep.policy
            if self.mind.replan != _kernels.NEVER:
                state["value"] = keep.value
        if self.mind.replan == _kernels.DOUBLING:
            state.update({name: getattr(keep, name) for name in VISITS})
        if self.kind.recipe.planning == "greedy":
            state["bounds"] = keep.bounds
        for name, fading in zip(RECENT, self.tally.fading, strict=True):
            if fading.recent.size:
                state[name] = getattr(keep, name)
        for name in promises_at_start(self.kind.task, self.kind.recipe):
            state[name] = getattr(keep, name)
        return state


def own(array: NDArray[Any]) -> NDArray[Any]:
    """Large arrays of a state are put to work as they are: it was made for this."""
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()


def no_steps() -> Ints:
    return np.empty((1, 0, 0), dtype=np.int64)


def lengthen_to(table: Table, places: int) -> None:
    if len(table.column) < places:
        table.lengthen(int(places) - len(table.column))


def steps_of(task: Task) -> Steps:
    """Room for one episode."""
    states, who, actions = (np.empty(task.horizon + n, dtype=np.int64) for n in (1, 1, 0))
    return Steps(states, who, actions, np.empty(task.horizon))
