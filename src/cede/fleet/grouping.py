"""Sorts the teams of a run into groups of teams that are alike, and cuts them into shards.

Teams that differ only in costs, seeds, agents and what they have seen form a `TeamGroup`: one workspace serves them, a team at a
time. What changes of these teams during a run is a stack of arrays (`state.stack_states`, and the fields of a run declared here),
with the team as first axis. Stacks can be cut, joined, sent, written to a file, and used by any shard.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints, Policy
from cede._kernels.tables import Table
from cede.beliefs.scale import Scale
from cede.learners.learner import Learner
from cede.learners.settings import Memo, Settings, alike_key, key_of, with_options
from cede.learners.state import Arrays, LearnerState, Names, Sizes, check_stack, part_of, stack_states
from cede.problem.model import Environment, TwoLayerMDP
from cede.problem.task import Task
from cede.rows.places import Shape

Streams = NDArray[np.uint64]  # (n, 4): the random stream of each team, see `draw_uniform`
Age = tuple[int, int]  # before the run: episodes of the learner, and episodes in its own environment counts

# What a run keeps of each team beside the state of its learner: shape and type.
RUN_FIELDS: dict[str, tuple[tuple[int, ...], Any]] = {
    "stream": ((4,), np.uint64),  # random numbers
    "judged": ((), np.int64),  # the episode for which the policy that was evaluated last was made; 0: none was
    "judged_cost": ((), np.float64),  # the expected cost of that policy
    "state": ((), np.int64),  # without horizon: where the team is, -1: its run has not begun
    "agent": ((), np.int64),  # and who is in control there
}


@dataclass(frozen=True, eq=False)
class TeamGroup:
    """What the teams of one group have in common. `group_teams` makes it."""

    task: Task  # that of the first team; control and switching costs are each team's own
    settings: Settings  # without the scale: its values come with every order
    vary: Ints  # (D,) how the policies of the true agents vary: CONSTANT, BY_TIME or BY_PREV_AGENT
    environment: Environment  # the true environment
    shared: bool  # whether these teams share the fleet's belief about the environment
    keeps_plans: bool  # whether plans are stored from one episode to the next
    block: int  # without horizon: steps that are recorded together; else the horizon

    @cached_property
    def sizes(self) -> Sizes:
        """Return task and settings, from which the shapes of a state follow."""
        return Sizes(self.task, self.settings)


@dataclass(frozen=True, eq=False)
class GroupMembers:
    """What each of n teams of one group has of its own, and does not change during a run."""

    team: Ints  # (n,) indices in the fleet
    control_cost: Floats  # (n, S or 1, D)
    switch_cost: Floats  # (n, S or 1, D, D)
    slot: Ints  # (n, D) first slot of each agent in the shard's table of true agents
    start_agent: Ints  # (n,)
    seed: Ints  # (n,)
    age: Ints  # (n,) index into the `Age`s of the group


@dataclass(frozen=True, eq=False)
class ShardPlan:
    """All that a shard is made of: some groups, and some teams of each. `cut_into_shards` makes it, and `Shard` takes it."""

    which: Sequence[int]  # indices of the groups that it has teams of
    groups: Sequence[TeamGroup]
    members: Sequence[GroupMembers]
    agents: Table  # the true tables of all its agents, slot by slot
    states: Sequence[Arrays]
    shared: Mapping[str, Shape] = field(default_factory=dict)  # by layer: rows and columns of the counts that teams share
    number: int = 0  # the last order whose results are in the states


@dataclass(frozen=True, eq=False)
class Grouping:
    """The teams of a run, sorted into groups, and their states before the run. `group_teams` makes it."""

    groups: list[TeamGroup]
    scales: list[Scale]  # by group
    places: list[list[int]]  # by group: indices of the teams in the fleet
    before: list[LearnerState]  # by team, before the run
    ages: list[list[Age]]  # by group: the different ages of its teams
    age: list[Ints]  # by group: (n,) the age of each team, as an index into `ages`
    states: list[Arrays]  # by group, before the run
    sharing: int  # the number of teams that share the environment


def group_teams(mdps: Sequence[TwoLayerMDP], learners: Sequence[Learner], streams: Streams, block: int = 1) -> Grouping:
    """Sort teams into groups, and stack their states.

    mdps, learners: the true problem and the learner of each team. streams: (n, 4) random streams, see `streams_of`. block: without
    horizon, steps that are recorded together.
    """
    found: dict[Any, list[int]] = {}
    memo: Memo = {}
    before = [learner._packed() for learner in learners]
    for i, (mdp, learner, state) in enumerate(zip(mdps, learners, before, strict=True)):
        found.setdefault(group_key(mdp, learner, state, memo), []).append(i)
    groups, states, ages, age = [], [], [], []
    for places in found.values():
        mdp, learner, state = mdps[places[0]], learners[places[0]], before[places[0]]
        shared = learner.shared_environment is not None
        bare = with_options(learner.settings, scale=Scale())  # a scale may be a function; its values come with every order
        steps = learner.task.horizon or block
        vary, keeps = mdp.task.layout.vary, keeps_plan(learner.task, learner.settings, state)
        group = TeamGroup(learner.task, bare, vary, mdp.environment, shared, keeps, steps)
        policies = [policy for i in places if (policy := learners[i].settings.policy) is not None]
        groups.append(group)
        names = [learners[i].task.tables for i in places]
        states.append(first_states(group, [before[i] for i in places], names, policies, streams[places]))
        theirs = [(before[i].episodes, before[i].environment_episodes) for i in places]
        ages.append(list(dict.fromkeys(theirs)))
        number = {one: j for j, one in enumerate(ages[-1])}
        age.append(np.array([number[one] for one in theirs], dtype=np.int64))
    scales = [learners[places[0]].settings.scale for places in found.values()]
    sharing = sum(len(places) for group, places in zip(groups, found.values(), strict=True) if group.shared)
    return Grouping(groups, scales, list(found.values()), before, ages, age, states, sharing)


def group_key(mdp: TwoLayerMDP, learner: Learner, state: LearnerState, memo: Memo) -> tuple[Any, ...]:
    """Return a hashable key that is equal for teams of one group. memo: see `key_of`."""
    task, settings, roles = learner.task, learner.settings, learner.task.roles
    sides = (task.control_cost.ndim, task.switch_cost.ndim, task.horizon, task.discount, task.learns_costs)
    costs = key_of((task.env_cost, task.enter_cost, task.cost_range, task.enter_cost_range), memo) if task.learns_costs else None
    vary = (tuple(task.layout.vary), tuple(mdp.task.layout.vary))
    problem = (roles.table, roles.acting, roles.aim, *vary, id(mdp.environment), sides, costs)
    return problem, alike_key(task, settings, memo), learner.shared_environment is not None, keeps_plan(task, settings, state)


def keeps_plan(task: Task, settings: Settings, state: LearnerState) -> bool:
    """Return whether the plan of an episode may be needed after it, so that it must be stored for each team."""
    lasts = task.horizon is None or settings.replan not in ("every", 1) or state.must_use_plan
    return settings.policy is not None or (settings.planning == "full" and lasts)


def first_states(
    group: TeamGroup, states: Sequence[LearnerState], names: Sequence[Names], policies: Sequence[Policy], streams: Streams
) -> Arrays:
    """Stack the states of n teams of a group as they are before a run.

    states: those of the learners. names: of the agents of each. policies: the fixed policies of the learners, one for each team, or
    none. streams: (n, 4).
    """
    n = len(states)
    result: Arrays = {name: np.zeros((n, *shape), dtype=dtype) for name, (shape, dtype) in RUN_FIELDS.items()}
    result["stream"] = streams
    result["state"] = np.full(n, -1, dtype=np.int64)
    result |= stack_states(group.sizes, states, names, group.keeps_plans and not policies)
    if policies:
        result["policy"] = np.stack(policies)
        result["planned"] = np.ones(n, dtype=np.int64)
    return result


def check_states(owner: str, group: TeamGroup, states: Arrays, like: Arrays, episodes: Ints) -> None:
    """Check the stacked arrays of a group that come from a file, before a kernel reads them.

    like: the stack of the same teams now, which must have the same fields and number of teams. episodes: (n,) that each team has
    played.
    """
    if states.keys() != like.keys():
        check.fail(owner, "the fields", sorted(states), f"{sorted(like)}")
    n = len(like["planned"])
    for name, (shape, dtype) in RUN_FIELDS.items():
        array = states[name]
        if array.dtype != dtype or array.shape != (n, *shape):
            check.fail(owner, f"the shape of {name}", f"{array.shape} of {array.dtype}", f"{(n, *shape)} of {np.dtype(dtype)}")
    if not np.isfinite(states["judged_cost"]).all() or (states["judged"] < -1).any():
        check.fail(owner, "what was evaluated", "impossible", "finite costs of episodes")
    for name, size, least in (("state", group.task.n_states, -1), ("agent", group.task.n_agents, 0)):
        if (states[name] < least).any() or (states[name] >= size).any() or (group.task.horizon and states[name].max() > 0):
            check.fail(owner, f"the {name} of a team", "impossible", f"from {least} to {size - 1}")
    if group.task.terminal and group.task.horizon is None and group.task.is_terminal[states["state"][states["state"] >= 0]].any():
        check.fail(owner, "the state of a team", "one in which its run is over", "one in which it goes on")
    check_stack(owner, group.sizes, states, n)
    kept = "policy" in states  # else a team has no plan between two episodes, and must make one
    if (states["planned"] > episodes + kept).any() or (states["fresh"] > (kept & (states["planned"] > 0))).any():
        check.fail(owner, "planned and fresh", "of a plan that there is not", "of one that was made and is kept")


# ------------------------------------------------------------------------------------------------- shards


def cut_into_shards(
    grouping: Grouping,
    states: Sequence[Arrays],
    shared: Mapping[str, Table],
    mdps: Sequence[TwoLayerMDP],
    learners: Sequence[Learner],
    n: int,
) -> list[ShardPlan]:
    """Cut the teams, ordered by group, into n shards of equal size, and return what each is made of.

    states: the stacks of all groups at the start. shared: by layer, the counts that teams share.
    """
    begins = np.concatenate([[0], np.cumsum([len(places) for places in grouping.places])]).tolist()
    cuts = np.linspace(0, begins[-1], n + 1).round().astype(int).tolist()
    plans = []
    shapes = {name: (table.n_rows, table.n_columns) for name, table in shared.items()}
    for low, high in pairwise(cuts):
        true_agents = TrueAgents()
        which, members, parts = [], [], []
        for group, (begin, end) in enumerate(pairwise(begins)):
            first, last = max(low, begin) - begin, min(high, end) - begin
            if first < last:
                which.append(group)
                places, age = grouping.places[group][first:last], grouping.age[group][first:last]
                members.append(members_of(grouping.groups[group], places, age, mdps, learners, true_agents))
                parts.append(part_of(states[group], first, last))
        plans.append(ShardPlan(which, [grouping.groups[group] for group in which], members, true_agents.table(), parts, shapes))
    return plans


class TrueAgents:
    """Collects the true policies of the agents of a shard into one table. Policies that several teams share are stored once."""

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}
        self.policies: list[Floats] = []
        self.used = 0

    def slot(self, policy: Floats) -> int:
        """Return the first slot of a policy in the table; add the policy if it is new."""
        if id(policy) not in self.slots:
            self.slots[id(policy)] = self.used
            self.policies.append(policy.reshape(-1, policy.shape[-1]))
            self.used += policy.size // (policy.shape[-2] * policy.shape[-1])
        return self.slots[id(policy)]

    def table(self) -> Table:
        """Return the table of all policies, (slots * S, A)."""
        return Table.dense(np.concatenate(self.policies))


def members_of(
    group: TeamGroup,
    places: Sequence[int],
    age: Ints,
    mdps: Sequence[TwoLayerMDP],
    learners: Sequence[Learner],
    true_agents: TrueAgents,
) -> GroupMembers:
    """Return what some teams of a group have of their own. places: their indices in the fleet. age: (n,) see `GroupMembers`."""
    n, n_agents = len(places), group.task.n_agents
    slots = [np.array([true_agents.slot(policy) for policy in mdps[i].policies])[mdps[i].task.table] for i in places]
    return GroupMembers(
        team=np.array(places, dtype=np.int64),
        control_cost=np.array([learners[i].task.control_cost for i in places]).reshape(n, -1, n_agents),
        switch_cost=np.array([learners[i].task.switch_cost for i in places]).reshape(n, -1, n_agents, n_agents),
        slot=np.array(slots, dtype=np.int64).reshape(n, n_agents),
        start_agent=np.array([mdps[i].task.start_agent for i in places], dtype=np.int64),
        seed=np.array([learners[i].seed for i in places], dtype=np.int64),
        age=age,
    )
