"""A shard: some teams of a fleet that play on one worker.

A `Shard` holds some teams of some groups. It gets an `Order` for each round and answers with a `Report`. A repeated order gets the
same answer, so nothing counts twice. Between rounds the state of a shard is in stacks of arrays, which can be moved to another
shard.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cede._base.arrays import Floats, Ints
from cede._kernels.random_streams import tie_seed
from cede._kernels.tables import BeliefArrays, KeyTable, Table, growth
from cede.beliefs.constants import RadiiAhead
from cede.beliefs.extras import Extras, stack_extras, unstack_extras
from cede.beliefs.truth import true_environment
from cede.fleet import teams as kernels
from cede.fleet.episodes import EpisodeArrays, Truth, numbers_drawn
from cede.fleet.grouping import OWN_FIELDS, RUN_FIELDS, ShardPlan, TeamGroup
from cede.fleet.history import Ledger
from cede.fleet.share import Share, clear, new_share, own_share, take_over
from cede.fleet.teams import LedgerArrays
from cede.fleet.workspace import TeamArrays, Workspace, load_team
from cede.learners.arrays import load_counts, new_arrays, refresh_layer
from cede.learners.compiled import NEVER, finish_plan, is_due
from cede.learners.stacks import STACKED
from cede.learners.state import ARRAYS, Arrays, LearnerState
from cede.learners.working import arrivals, make_plan, optimistic_start
from cede.planning.fixed_point import accuracy_for, new_endless
from cede.planning.model import ModelArrays
from cede.planning.passes import empty_plan, pass_scratch, thread_scratch, threads_for
from cede.problem.arrays import problem_of
from cede.problem.model import Environment
from cede.problem.task import Task
from cede.rows.cost_sums import N_SUMS
from cede.rows.places import AGENTS, COSTS, ENVIRONMENT
from cede.rows.stored import LayerCounts
from cede.rows.working import SharedCounts

TEAMS_AT_ONCE = 64  # teams in one call of compiled code; interrupts are handled between calls
NUMBERS = (*RUN_FIELDS, "planned", "fresh")  # fields of a stack that kernels change, small enough to be copied


@dataclass(frozen=True, eq=False)
class Order:
    """The order for one round: every team plays a number of episodes."""

    number: int  # 1, 2, ...
    episodes: int
    done: int  # episodes of every team before the round; steps without horizon
    radii: tuple[dict[str, Floats], ...]  # by group: arrays (ages, episodes) by the names of `Radii`
    evaluated: NDArray[np.bool_]  # (episodes,) whether policies are evaluated before the episode
    shared: Mapping[str, Table]  # by layer: shared counts before the round, read only; without layers that no team shares
    extras: Extras = field(default_factory=dict)  # of the shared environment


@dataclass(frozen=True, eq=False)
class Report:
    """The results of a round in one shard: its answer to an Order."""

    number: int
    ledgers: tuple[Ledger, ...]  # by group, first axes (teams, episodes)
    deltas: Mapping[str, LayerCounts]  # by layer: additions of the round to shared counts


class Shard:
    """Some teams of some groups, with their true tables. An engine makes it from a `ShardPlan`."""

    def __init__(self, plan: ShardPlan) -> None:
        truth, slots = true_agents(plan.groups)
        self.shares = {name: new_share(np.arange(shape[0]), 0, Table.empty(*shape)) for name, shape in plan.shared.items()}
        self.environment: SharedCounts | None = None  # shared environment counts, for the loaded team
        if ENVIRONMENT in plan.shared:
            table, costs = (Table.empty(*plan.shared[name]) for name in (ENVIRONMENT, COSTS))
            self.environment = SharedCounts(table, costs, table.n_rows, 0)
        self.groups = [
            WorkingGroup(group, truth, slot, self.environment, self.shares) for group, slot in zip(plan.groups, slots, strict=True)
        ]
        self.number = plan.number
        self.order: Order | None = None
        self.report: Report | None = None

    def optima(self) -> list[Floats]:
        """Return the least expected cost of an episode of each team, (teams,) by group."""
        return [group.optima() for group in self.groups]

    def play(self, order: Order) -> Report:
        """Play a round and return its report. After an interrupt, play the rest of the round. A repeated order returns the same
        report.
        """
        if self.report is not None and self.report.number == order.number:
            return self.report
        if order.number != self.number + 1:
            raise RuntimeError(f"round {order.number} came after round {self.number}")
        if self.order is not order:
            self._begin(order)
        for group in self.groups:
            group.play(order)
        deltas = {name: LayerCounts.of_table(share.delta) for name, share in self.shares.items()}
        self.report = Report(order.number, tuple([group.ledger for group in self.groups]), deltas)
        self.number = order.number
        return self.report

    def _begin(self, order: Order) -> None:
        """Prepare a new round: take over the shared counts, and make room for results."""
        if self.environment is not None:  # of the agents, each group has rows
            for name, table in ((ENVIRONMENT, self.environment.table), (COSTS, self.environment.costs)):
                take_over(table, self.shares[name], order.shared[name])
        for group in self.groups:
            group.begin(order)
        self.order = order

    def states(self) -> list[Arrays]:
        """Return the states of all teams between two rounds, stacked by group."""
        return [group.state() for group in self.groups]

    @property
    def worth_threads(self) -> bool:
        """Return whether a plan is made faster by several threads."""
        return any(group.worth_threads for group in self.groups)


def true_agents(groups: Sequence[TeamGroup]) -> tuple[BeliefArrays, list[Ints]]:
    """Return the true policies of all agents of some groups as sets of width 0, and the first slot of each agent, (n, D) by group.
    Policies that several teams share are stored once.
    """
    first: dict[int, int] = {}  # slots, by id of the policy
    policies: list[Floats] = []
    used = 0
    for policy in (policy for group in groups for own in group.policies for policy in own):
        if id(policy) not in first:
            first[id(policy)] = used
            policies.append(policy.reshape(-1, *policy.shape[-2:]))  # (slots, S, A)
            used += len(policies[-1])
    slots = [np.array([[first[id(policy)] for policy in own] for own in group.policies], dtype=np.int64) for group in groups]
    table = np.concatenate(policies)
    rows = np.arange(used * table.shape[1])
    certain = Table.dense(table.reshape(len(rows), -1))
    return BeliefArrays(table=certain, width=np.zeros(len(rows)), row=rows.reshape(used, -1)), slots


def true_accuracy(task: Task, environment: Environment) -> float:
    """Return the accuracy of evaluations without a horizon, which follows from the true costs; 0 with a horizon."""
    if task.horizon is not None:
        return 0.0
    return accuracy_for(replace(task, env_cost=environment.cost, enter_cost=environment.enter_cost))


class WorkingGroup:
    """The teams of one group in a shard, and their workspace, into which one team at a time is loaded.

    truth: the true tables of all agents of the shard. slot: (n, D) first slot of each agent in them. environment: the shared
    environment counts, for the loaded team; None: no team shares them. shares: of the shared layers.
    """

    def __init__(
        self, group: TeamGroup, truth: BeliefArrays, slot: Ints, environment: SharedCounts | None, shares: Mapping[str, Share]
    ) -> None:
        task = group.task
        self.group, self.n_teams = group, len(group.team)
        counts = load_counts(group.sizes, LearnerState(), environment if group.shared else None)
        self.learner = new_arrays(group.sizes, counts)
        self.layers = {AGENTS: counts.agents, ENVIRONMENT: counts.environment, COSTS: counts.costs.counts}
        environment_shares = {name: share for name, share in shares.items() if group.shared and name != AGENTS}
        self.shares = {name: environment_shares.get(name) or own_share(layer) for name, layer in self.layers.items()}
        if group.shared_rows.size:
            agents = self.layers[AGENTS]
            self.shares[AGENTS] = new_share(group.shared_rows, int(agents.seen.end), shares[AGENTS].delta)
        self.seen: dict[str, KeyTable] = {}  # by layer: the counts of all teams
        for name in STACKED:
            rows, columns = group.sizes.seen[name]
            stacked = group.state[f"{name}_size"], group.state[f"{name}_key"], group.state[f"{name}_number"]
            self.seen[name] = KeyTable.of(*stacked, rows * columns)
        self.option = group.sizes.option
        self.extras = unstack_extras(group.sizes.extras, group.state, self.n_teams)  # by team
        self.keeps = {declared.name for declared in ARRAYS if declared.name in group.state}  # large fields of a stack
        self.teams = self._team_arrays(slot)
        self.workspace = self._new_workspace(truth)
        self.at = np.zeros(1, dtype=np.int64)  # the team that plays next
        self.ledger = Ledger.empty(self.n_teams, 0, len(task.members))

    def _team_arrays(self, slot: Ints) -> TeamArrays:
        """Return the arrays of all teams in the form that kernels read. Fields that are not stored for each team have length 1, or
        are empty.
        """
        group, task, state = self.group, self.group.task, self.group.state
        policy, value = empty_plan(task)
        arrays: dict[str, Any] = {**TeamArrays.nothing(), "policy": policy[None], "value": value[None], "slot": slot}
        arrays |= {name: own(state[name]).view(arrays[name].dtype) for name in self.keeps}
        arrays |= {name: state[name].copy() for name in NUMBERS}
        arrays |= {f"{name}_seen": table for name, table in self.seen.items()}
        arrays |= {name: getattr(group, name).copy() for name in OWN_FIELDS if name in arrays}
        bounds, problem = arrays["bounds"], self.learner.model.problem
        if bounds.size:
            for i in np.flatnonzero(np.isnan(bounds[:, 0, 0, 0])):
                problem.control_cost = self.learner.limits.control_cost = arrays["control_cost"][i]
                problem.switch_cost = arrays["switch_cost"][i]
                bounds[i] = optimistic_start(self.learner, task)
            arrival = arrays["arrival"] = arrivals(task, bounds)
            arrays |= {"least_bound": arrival.min(axis=2), "least_bound_at": arrival.argmin(axis=2).astype(np.int64)}
        if task.horizon is None:
            arrays["best_value"] = np.zeros((self.n_teams, task.n_states, task.n_agents))
            if "found" not in self.keeps:
                arrays["found"] = np.zeros((self.n_teams, 2))
        return TeamArrays(**arrays)

    def _new_workspace(self, truth: BeliefArrays) -> Workspace:
        """Make the workspace in which the kernels play one team after the other."""
        task, environment = self.group.task, self.group.environment
        policy, value = empty_plan(task)
        problem = problem_of(task, environment.cost)
        problem.vary = self.group.vary
        problem.enter_cost = np.empty(0) if environment.enter_cost is None else environment.enter_cost
        model = ModelArrays(agents=truth, environment=true_environment(environment).arrays, problem=problem)
        no_keys = np.empty(0, dtype=np.int64)
        return Workspace(
            learner=self.learner,
            truth=Truth.of(task, environment, model),
            **self._scratch(model),
            before=policy,
            true_value=value,
            steps=EpisodeArrays.empty(self.group.block),
            agent_keys=no_keys,
            environment_keys=no_keys,
            cost_rows=no_keys,
            cost_parts=np.empty(0),
            **self.shares,
            chance=np.empty(numbers_drawn(environment, task)),
            at_work=-1,
            endless=new_endless(task),
            accuracy=true_accuracy(task, environment),
        )

    def _scratch(self, true_model: ModelArrays) -> dict[str, Any]:
        """Return this thread's scratch arrays: of a plan, of an evaluation, and of the thread."""
        task = self.group.task
        shape = (task.plan_steps, task.n_states, task.n_agents)
        n_actions = max(self.learner.environment.belief.row.shape[1], task.n_actions)
        return {
            "scratch": pass_scratch(self.learner.model, shape),
            "true_scratch": pass_scratch(true_model, shape),
            "thread": thread_scratch(task.n_states, n_actions, task.n_agents),
        }

    def _take_scratch(self) -> None:
        """Put this thread's scratch arrays into the workspace, which another thread may have used before."""
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
        if self.group.shared_rows.size:
            self._unload()
            take_over(self.layers[AGENTS].seen, self.shares[AGENTS], order.shared[AGENTS])
        if workspace.agent_keys.size < steps:
            workspace.agent_keys, workspace.environment_keys = np.empty((2, steps), dtype=np.int64)
            if self.learner.costs.least.size:
                costs = self.learner.costs.charges * steps
                workspace.cost_rows, workspace.cost_parts = np.empty(costs, dtype=np.int64), np.empty(costs)
        self.ledger = Ledger.empty(self.n_teams, order.episodes, len(self.group.task.members))
        self.at[0] = 0

    def _unload(self) -> None:
        """Empty the workspace's own rows, which hold the counts of the team that played last."""
        team = int(self.workspace.at_work)
        for name, layer in self.layers.items():
            if team >= 0 and self.shares[name].has_own:
                clear(self.seen[name], team, layer, self.shares[name])
        self.workspace.at_work = -1

    def play(self, order: Order) -> None:
        """Play all teams that have not played in this round yet."""
        self._take_scratch()
        radii, first = order.radii[self.group.number], np.array([episodes + order.done + 1 for episodes, *_ in self.group.ages])
        ahead, ledger = RadiiAhead(**radii), LedgerArrays(evaluated=order.evaluated, **self.ledger.columns)
        with_threads = order.episodes == 1 and self.worth_threads
        at_once = 1 if with_threads or self.option is not None else TEAMS_AT_ONCE
        while self.at[0] < self.n_teams:
            begin = int(self.at[0])
            end = min(begin + at_once, self.n_teams)
            if self.option is not None:
                shared = (order.extras, -1) if self.group.shared else (self.extras[begin], begin)
                self.learner.agents.expected = self.option.expected("agents", self.extras[begin], begin)
                self.learner.environment.expected = self.option.expected("environment", *shared)
            self._make_room(begin, end, order.episodes)
            if with_threads:
                self._plan_with_threads(begin, int(first[self.teams.age[begin]]), radii)
            kernels.play_teams(self.workspace, self.teams, ahead, first, begin, end, ledger, self.at)
        if self.option is not None:
            for i in range(self.n_teams):
                self._refit(i, order.done + order.episodes)

    def _refit(self, i: int, done: int) -> None:
        """Fit the models of team i's option that are due after `done` episodes of the run. Repeating it changes nothing."""
        assert self.option is not None
        episodes, own_episodes, _ = self.group.ages[self.group.age[i]]
        counted = {"agents": episodes + done}
        if not self.group.shared:
            counted["environment"] = own_episodes + done
        for layer, n in counted.items():
            self.extras[i] = self.option.fit(layer, self.extras[i], partial(self._matrix, layer, i), n)

    def _matrix(self, layer: str, i: int) -> sp.csr_array:
        """Return the counts of team i in a layer as a sparse matrix."""
        stored = self.seen[layer]
        part = slice(stored.start[i], stored.start[i] + stored.size[i])
        return LayerCounts(self.group.sizes.seen[layer], stored.column[part].copy(), stored.weight[part].copy()).matrix

    @property
    def worth_threads(self) -> bool:
        """Return whether plans are made, and are large enough that several threads for one of them are faster."""
        task, learner = self.group.task, self.learner
        plans = task.horizon is not None and self.group.settings.planning == "full" and learner.replan != NEVER
        return plans and threads_for(learner.environment.belief, task.plan_steps) > 1

    def _plan_with_threads(self, i: int, episode: int, radii: dict[str, Floats]) -> None:
        """Make the plan of team i for an episode with several threads, if one is due. radii: of the order, for this group."""
        teams = self.teams
        load_team(self.workspace, teams, i)
        for name, numbers in radii.items():
            setattr(self.learner.radii, name, float(numbers[teams.age[i], 0]))
        if not teams.fresh[i] and is_due(self.learner, episode, teams.planned[i]):
            policy, value = (array[min(i, len(array) - 1)] for array in (teams.policy, teams.value))
            make_plan(self.learner, policy, value, int(tie_seed(teams.seed[i], episode)))
            finish_plan(self.learner)
            teams.planned[i], teams.fresh[i] = episode, 1

    def _make_room(self, first: int, last: int, episodes: int) -> None:
        """Extend all pools for the steps of some episodes of the teams from first to last; kernels do not check their length."""
        steps = episodes * self.group.block
        for name, layer in self.layers.items():
            counted = self.learner.costs.charges * N_SUMS * steps if name == COSTS else steps
            share, entries, sides = self.shares[name], 0, (layer.counted, layer.n_columns)
            if share.has_own:
                entries = int(self.seen[name].size[first:last].max())
                lengthen(self.seen[name], layer.counted * layer.n_columns, counted, first, last)
            if layer.counted:
                entries += share.begin
                layer.seen.lengthen_to(max(int(layer.seen.end), entries) + growth.py_func(entries, *sides, counted))
            if share.has_shared:
                end, sides = share.delta.end, (share.delta.n_rows, share.delta.n_columns)
                share.delta.lengthen_to(end + growth.py_func(end, *sides, (last - first) * counted))
        lengthen(self.seen["starts"], self.group.task.n_states, episodes, first, last)
        refresh_layer(self.learner.environment, self.group.settings, self.group.task.n_states)

    def state(self) -> Arrays:
        """Return the stacked states of the teams. Large arrays are not copied, and are valid until the next round begins."""
        result: Arrays = {name: getattr(self.teams, name).copy() for name in NUMBERS}
        for name, table in self.seen.items():
            _, key, number = table.entries()
            result |= {f"{name}_size": table.size.copy(), f"{name}_key": key, f"{name}_number": number}
        result |= stack_extras(self.group.sizes.extras, self.extras)
        for name in self.keeps:
            array = getattr(self.teams, name)
            result[name] = array.view(np.float64).reshape(self.n_teams, -1) if array.dtype.names else array
        return result


def lengthen(stored: KeyTable, most: int, steps: int, first: int, last: int) -> None:
    """Extend the pool of all teams' counts for some steps of the teams from first to last. most: greatest size of a team's row."""
    size = stored.size[first:last]
    moves = np.minimum(size + steps, most) > stored.capacity[first:last]
    wanted = int(np.minimum(2 * (size + steps), most)[moves].sum()) - (len(stored.column) - stored.end)
    if wanted > 0:
        stored.lengthen(wanted)


def own(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array itself if it is writable and in C order, else a copy."""
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()
