"""A shard: some teams of a fleet that play on one worker.

A `Shard` holds some teams of every group. It gets an `Order` for each round and answers with a `Report`; the same order again gets
the same answer, so nothing counts twice. Between rounds all that a shard knows is in stacks of arrays, which can be taken out,
kept, and put into another shard.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cede._base.arrays import Floats, Ints
from cede._kernels.random_streams import tie_seed
from cede._kernels.tables import KeyTable, Table, growth
from cede.beliefs.belief import Belief
from cede.beliefs.constants import RadiiAhead
from cede.beliefs.extras import Extras, stack_extras, unstack_extras
from cede.beliefs.truth import true_environment
from cede.fleet import teams as kernels
from cede.fleet.episodes import EpisodeArrays, Truth
from cede.fleet.grouping import RUN_FIELDS, GroupMembers, ShardPlan, TeamGroup
from cede.fleet.history import Ledger
from cede.fleet.share import Share, new_share, own_share, take_over
from cede.fleet.teams import LedgerArrays, TeamArrays, Workspace
from cede.learners.arrays import arrivals, load_counts, make_plan, new_arrays, optimistic_start, refresh_layer
from cede.learners.compiled import NEVER, finish_plan, is_due
from cede.learners.state import ARRAYS, STACKED, Arrays, LearnerState
from cede.planning.fixed_point import accuracy_for, new_endless
from cede.planning.model import ModelArrays
from cede.planning.passes import empty_plan, pass_scratch, thread_scratch, threads_for
from cede.problem.arrays import problem_of
from cede.problem.model import Environment
from cede.problem.task import Task
from cede.rows.cost_sums import N_SUMS
from cede.rows.places import COSTS, ENVIRONMENT
from cede.rows.stored import LayerCounts
from cede.rows.working import SharedCounts

STEPS_WRITTEN_DOWN = ("agent_keys", "environment_keys")  # arrays of the workspace
TEAMS_AT_ONCE = 64  # teams in one call of compiled code; an interrupt is noticed between calls


@dataclass(frozen=True, eq=False)
class Order:
    """What shards are told to do in one round: every team plays so many episodes."""

    number: int  # 1, 2, ...
    episodes: int
    first: tuple[Ints, ...]  # by group: (ages,) number k of the first episode, for learners of each age
    radii: tuple[dict[str, Floats], ...]  # by group: arrays (ages, episodes) by the names of `Radii`
    evaluated: NDArray[np.bool_]  # (episodes,) whether policies are evaluated before the episode
    shared: Mapping[str, Table]  # by layer: shared counts before the round, read only; without layers that no team shares
    own: tuple[Ints, ...] = ()  # by group: (ages,) episodes in such a learner's own environment counts before the round
    extras: Extras = field(default_factory=dict)  # of the shared environment


@dataclass(frozen=True, eq=False)
class Report:
    """The results of a round in one shard: its answer to an Order."""

    number: int
    ledgers: tuple[Ledger, ...]  # by group, first axes (teams, episodes)
    deltas: Mapping[str, LayerCounts]  # by layer: what the round adds to shared counts


class Shard:
    """Some teams of every group, with the true tables that they play by. An engine makes it from a `ShardPlan`."""

    def __init__(self, plan: ShardPlan) -> None:
        first = plan.groups[0].task
        places = np.arange(plan.agents.n_rows).reshape(-1, first.n_states)
        truth = Belief(plan.agents, np.zeros(plan.agents.n_rows), places)
        self.shares = {name: new_share(np.arange(shape[0]), 0, Table.empty(*shape)) for name, shape in plan.shared.items()}
        self.environment: SharedCounts | None = None  # the shared one, as the team at work sees it
        if ENVIRONMENT in plan.shared:
            table, costs = (Table.empty(*plan.shared[name]) for name in (ENVIRONMENT, COSTS))
            self.environment = SharedCounts(table, costs, table.n_rows, 0)
        self.which = plan.which
        self.groups: list[WorkingGroup] = []
        for group, members, state in zip(plan.groups, plan.members, plan.states, strict=True):
            self.groups.append(WorkingGroup(group, members, truth, state, self.environment, self.shares))
        self.number = plan.number
        self.order: Order | None = None
        self.report: Report | None = None

    def optima(self) -> list[Floats]:
        """Return the least expected cost of an episode of each team, (teams,) by group."""
        return [group.optima() for group in self.groups]

    def play(self, order: Order) -> Report:
        """Play a round and return its report. After an interrupt, play the rest of it; if it was played already, return the same
        report.
        """
        if self.report is not None and self.report.number == order.number:
            return self.report
        if order.number != self.number + 1:
            raise RuntimeError(f"round {order.number} came after round {self.number}")
        if self.order is not order:
            self._begin(order)
        for number, group in zip(self.which, self.groups, strict=True):
            group.play(order, number)
        ledgers = tuple(group.ledger for group in self.groups)
        deltas = {name: LayerCounts.of_table(share.delta) for name, share in self.shares.items()}
        self.report = Report(order.number, ledgers, deltas)
        self.number = order.number
        return self.report

    def _begin(self, order: Order) -> None:
        """Prepare a new round: take over the shared counts, and make room for results."""
        if self.environment is not None:
            for name, table in ((ENVIRONMENT, self.environment.table), (COSTS, self.environment.costs)):
                take_over(table, self.shares[name], order.shared[name])
        for group in self.groups:
            group.begin(order)
        self.order = order

    def states(self) -> list[Arrays]:
        """Return the states of all teams between two rounds, stacked by group."""
        return [group.state() for group in self.groups]

    def worth_threads(self) -> bool:
        """Return whether several threads for one plan would be faster than one."""
        return any(group.worth_threads() for group in self.groups)


class WorkingGroup:
    """The teams of one group in a shard, and the workspace that serves them, a team at a time.

    truth: the true tables of all agents of the shard. state: the stacked states. environment: the shared environment counts, as the
    team at work sees them; None: no team shares it. shares: of the layers that teams share.
    """

    def __init__(
        self,
        group: TeamGroup,
        members: GroupMembers,
        truth: Belief,
        state: Arrays,
        environment: SharedCounts | None,
        shares: Mapping[str, Share],
    ) -> None:
        task, settings = group.task, group.settings
        self.group, self.members = group, members
        self.counts = load_counts(task, settings, LearnerState(), environment if group.shared else None)
        self.learner = new_arrays(task, settings, self.counts)
        self.layers = {"agents": self.counts.agents, ENVIRONMENT: self.counts.environment, COSTS: self.counts.costs.counts}
        self.shares = {
            name: shares[name] if group.shared and name in shares else own_share(counts) for name, counts in self.layers.items()
        }
        layers = {name: group.sizes.seen[name] for name in STACKED}
        self.seen = {
            name: KeyTable.of(state[f"{name}_size"], state[f"{name}_key"], state[f"{name}_number"], rows * columns)
            for name, (rows, columns) in layers.items()
        }
        self.keeps = {one.name for one in ARRAYS if one.name in state}
        self.option = group.sizes.option
        self.extras = unstack_extras(group.sizes.extras, state, self.n_teams)  # by team
        self.teams = self._teams(state)
        self.workspace = self._workspace(truth)
        self.at = np.zeros(1, dtype=np.int64)
        self.ledger = Ledger.empty(self.n_teams, 0, len(task.members))

    @property
    def n_teams(self) -> int:
        """Return the number of teams."""
        return len(self.members.team)

    def _teams(self, state: Arrays) -> TeamArrays:
        """Return the arrays of all teams in the form that kernels read. Fields that are not kept for each team have length 1, or
        are empty.
        """
        policy, value = empty_plan(self.group.task)
        given: dict[str, Any] = {**TeamArrays.nothing(), "policy": policy[None], "value": value[None]}
        given |= {name: own(state[name]).view(given[name].dtype) for name in self.keeps}
        given |= {name: state[name].copy() for name in (*RUN_FIELDS, "planned", "fresh")}
        given |= {f"{name}_seen": table for name, table in self.seen.items()}
        given |= {one.name: getattr(self.members, one.name).copy() for one in fields(self.members) if one.name != "team"}
        bounds = given["bounds"]
        for i in range(self.n_teams if bounds.size else 0):
            if np.isnan(bounds[i, 0, 0, 0]):
                problem = self.learner.model.problem
                problem.control_cost, problem.switch_cost = given["control_cost"][i], given["switch_cost"][i]
                bounds[i] = optimistic_start(self.learner, self.group.task)
        if bounds.size:
            arrival = given["arrival"] = arrivals(self.group.task, bounds)
            given |= {"least_bound": arrival.min(axis=2), "least_bound_at": arrival.argmin(axis=2).astype(np.int64)}
        if self.group.task.horizon is None:
            given["best_value"] = np.zeros((self.n_teams, self.group.task.n_states, self.group.task.n_agents))
            if "found" not in self.keeps:
                given["found"] = np.zeros((self.n_teams, 2))
        return TeamArrays(**given)

    def _workspace(self, truth: Belief) -> Workspace:
        """Make the workspace in which the kernels let one team after the other play."""
        task, environment = self.group.task, self.group.environment
        policy, value = empty_plan(task)
        problem = problem_of(task, environment.cost)
        problem.vary = self.group.vary
        problem.enter_cost = np.empty(0) if environment.enter_cost is None else environment.enter_cost
        model = ModelArrays(agents=truth.arrays, environment=true_environment(environment).arrays, problem=problem)
        return Workspace(
            learner=self.learner,
            truth=true_problem(task, environment, model),
            **self._scratch(model),
            before=policy,
            true_value=value,
            steps=new_steps(self.group.block),
            **{name: np.empty(0, dtype=np.int64) for name in (*STEPS_WRITTEN_DOWN, "cost_rows")},
            **self.shares,
            cost_parts=np.empty(0),
            chance=np.empty(numbers_drawn(environment, task)),
            at_work=-1,
            endless=new_endless(task),
            accuracy=0.0 if task.horizon is not None else accuracy_for(known_costs(task, environment)),
        )

    def _scratch(self, true_model: ModelArrays) -> dict[str, Any]:
        """Return the scratch arrays of the thread that runs this: of a plan, of an evaluation, and its own."""
        task = self.group.task
        shape = (task.plan_steps, task.n_states, task.n_agents)
        n_actions = max(self.learner.environment.belief.row.shape[1], task.n_actions)
        return {
            "scratch": pass_scratch(self.learner.model, shape),
            "true_scratch": pass_scratch(true_model, shape),
            "thread": thread_scratch(task.n_states, n_actions, task.n_agents),
        }

    def _take_scratch(self) -> None:
        """Put the scratch arrays of the thread that runs this into the workspace: another thread may have run it before."""
        for name, scratch in self._scratch(self.workspace.truth.model).items():
            setattr(self.workspace, name, scratch)

    def optima(self) -> Floats:
        """Return the least expected cost of an episode of each team, (teams,)."""
        result = np.empty(self.n_teams)
        self._take_scratch()
        for first in range(0, self.n_teams, TEAMS_AT_ONCE):
            last = min(first + TEAMS_AT_ONCE, self.n_teams)
            kernels.find_optima(self.workspace, self.teams, *empty_plan(self.group.task), first, last, result)
        return result

    def begin(self, order: Order) -> None:
        """Prepare a new round: make room for steps and results, and start with the first team."""
        steps, workspace = order.episodes * self.group.block, self.workspace
        if workspace.agent_keys.size < steps:
            for name in STEPS_WRITTEN_DOWN:
                setattr(workspace, name, np.empty(steps, dtype=np.int64))
            if self.learner.costs.least.size:
                workspace.cost_rows, workspace.cost_parts = np.empty(2 * steps, dtype=np.int64), np.empty(2 * steps)
        self.ledger = Ledger.empty(self.n_teams, order.episodes, len(self.group.task.members))
        self.at[0] = 0

    def play(self, order: Order, number: int) -> None:
        """Let all teams play that have not played in this round yet. number: index of the group in the order."""
        self._take_scratch()
        first, radii = order.first[number], RadiiAhead(**order.radii[number])
        ledger = LedgerArrays(evaluated=order.evaluated, **self.ledger.columns)
        alone = order.episodes == 1 and self.group.task.horizon is not None and self.worth_threads()
        while self.at[0] < self.n_teams:
            begin = int(self.at[0])
            end = begin + 1 if alone or self.option is not None else min(begin + TEAMS_AT_ONCE, self.n_teams)
            if self.option is not None:
                common = (order.extras, -1) if self.group.shared else (self.extras[begin], begin)
                self.learner.agents.expected = self.option.expected("agents", self.extras[begin], begin)
                self.learner.environment.expected = self.option.expected("environment", *common)
            self._make_room(begin, end, order.episodes)
            if alone:
                self._plan_with_threads(begin, first, order.radii[number])
            kernels.play_teams(self.workspace, self.teams, radii, first, begin, end, ledger, self.at)
        for i in range(self.n_teams if self.option is not None else 0):
            self._refit(i, order, number)

    def _refit(self, i: int, order: Order, number: int) -> None:
        """Fit the models of team i's option, where they are due after this round. To do so again changes nothing.

        number: index of the group.
        """
        assert self.option is not None
        sides, age = self.group.sizes.seen, self.members.age[i]

        def counts(layer: str) -> sp.csr_array:
            kept = self.seen[layer]
            part = slice(kept.start[i], kept.start[i] + kept.size[i])
            return LayerCounts(sides[layer], kept.column[part].copy(), kept.weight[part].copy()).matrix

        counted = {"agents": int(order.first[number][age]) - 1 + order.episodes}
        if not self.group.shared:
            counted["environment"] = int(order.own[number][age]) + order.episodes
        for layer, episodes in counted.items():
            self.extras[i] = self.option.fit(layer, self.extras[i], partial(counts, layer), episodes)

    def worth_threads(self) -> bool:
        """Return whether plans are made, and are large enough that several threads for one of them are faster."""
        plans = self.group.settings.planning == "full" and self.learner.replan != NEVER and self.group.task.horizon is not None
        return plans and threads_for(self.learner.environment.belief, self.group.task.plan_steps) > 1

    def _plan_with_threads(self, i: int, first: Ints, radii: dict[str, Floats]) -> None:
        """Make the plan of team i with several threads, if one is due. first, radii: of the order, for this group."""
        teams, age = self.teams, self.teams.age[i]
        episode = int(first[age])
        kernels.load_team(self.workspace, teams, i)
        for name, numbers in radii.items():
            setattr(self.learner.radii, name, float(numbers[age, 0]))
        if not teams.fresh[i] and is_due(self.learner, episode, teams.planned[i]):
            policy, value = (array[min(i, len(array) - 1)] for array in (teams.policy, teams.value))
            make_plan(self.learner, policy, value, int(tie_seed(teams.seed[i], episode)))
            finish_plan(self.learner)
            teams.planned[i], teams.fresh[i] = episode, 1

    def _make_room(self, first: int, last: int, episodes: int) -> None:
        """Make all pools long enough for what the teams from first to last may see in some episodes: kernels trust in that."""
        steps = episodes * self.group.block
        self._lengthen("agents", steps, first, last)
        self._lengthen(ENVIRONMENT, steps, first, last)
        self._lengthen(COSTS, 2 * N_SUMS * steps, first, last)
        self._lengthen_kept("starts", self.group.task.n_states, episodes, first, last)
        refresh_layer(self.learner.environment, self.group.settings, self.group.task.n_states)

    def _lengthen(self, layer: str, steps: int, first: int, last: int) -> None:
        """Make the pools of one layer long enough: that of the workspace for any of these teams, those of what is kept and shared
        for all of them.

        layer: "agents", "environment" or "costs". steps: how many each team counts.
        """
        counts, share, entries = self.layers[layer], self.shares[layer], 0
        if share.has_own:
            entries = int(self.seen[layer].size[first:last].max())
            self._lengthen_kept(layer, counts.counted * counts.n_columns, steps, first, last)
        if counts.counted:
            entries, sides = share.begin + entries, (counts.counted, counts.n_columns)
            counts.seen.lengthen_to(max(int(counts.seen.end), entries) + growth.py_func(entries, *sides, steps))
        if share.has_shared:
            end, sides = share.delta.end, (share.delta.n_rows, share.delta.n_columns)
            share.delta.lengthen_to(end + growth.py_func(end, *sides, (last - first) * steps))

    def _lengthen_kept(self, layer: str, most: int, steps: int, first: int, last: int) -> None:
        """Make the pool of what is kept of a layer, at most so many places of a team, long enough for some steps of these teams."""
        kept = self.seen[layer]
        size = kept.size[first:last]
        moves = np.minimum(size + steps, most) > kept.capacity[first:last]
        wanted = int(np.minimum(2 * (size + steps), most)[moves].sum()) - (len(kept.column) - kept.end)
        if wanted > 0:
            kept.lengthen(wanted)

    def state(self) -> Arrays:
        """Return the stacked states of the teams. Large arrays are not copied: they are valid until the next round begins."""
        result: Arrays = {name: getattr(self.teams, name).copy() for name in (*RUN_FIELDS, "planned", "fresh")}
        for name, table in self.seen.items():
            _, key, number = table.entries()
            result |= {f"{name}_size": table.size.copy(), f"{name}_key": key, f"{name}_number": number}
        result |= stack_extras(self.group.sizes.extras, self.extras)
        for name in self.keeps:
            array = getattr(self.teams, name)
            result[name] = array.view(np.float64).reshape(self.n_teams, -1) if array.dtype.names else array
        return result


def own(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array itself if it can be written in place, as it was made for this use; else a copy."""
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()


def known_costs(task: Task, environment: Environment) -> Task:
    """Return a task with all costs of the environment known."""
    return replace(task, env_cost=environment.cost, enter_cost=environment.enter_cost)


def new_steps(steps: int) -> EpisodeArrays:
    """Make arrays for so many steps: those of an episode, or without horizon those of a block."""
    states, who, actions = (np.empty(steps + n, dtype=np.int64) for n in (1, 1, 0))
    costs = {name: np.empty(steps) for name in ("costs", "env_costs", "enter_costs")}
    return EpisodeArrays(states=states, who=who, actions=actions, **costs)


def numbers_drawn(environment: Environment, task: Task) -> int:
    """Return how many random numbers are drawn for an episode (see `enter`), or without horizon for a step (see `play_block`)."""
    for_each = 2 + (environment.random_cost is not None)
    return for_each + 1 if task.horizon is None else for_each * task.plan_steps + 1


def true_problem(task: Task, environment: Environment, model: ModelArrays) -> Truth:
    """Return the true problem in the form in which kernels play it."""
    start = {"start": environment.start, "cumulated_start": environment.cumulated_start, "start_agent": int(task.start_agent)}
    random_cost = np.empty((0, 0, 0)) if environment.random_cost is None else environment.random_cost
    return Truth(model=model, **start, acting=task.acting, aim=task.aim, random_cost=random_cost)
