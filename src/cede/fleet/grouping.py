"""Which teams are alike: the teams of a run, sorted into groups and cut into shards.

Teams that are alike in all but costs, seeds, agents and what they have seen are one `TeamGroup`: one workspace serves them, a
team at a time. What changes of the teams of a group is a stack of arrays (`state.stack_states`, and the fields of a run declared
here): it can be cut, joined, sent, written to a file, and put to work anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints, Policy
from cede._kernels.tables import Table
from cede.learning.learner import Learner
from cede.learning.settings import Memo, Settings, alike_key
from cede.learning.state import Arrays, LearnerState, Sizes, check_stack, part_of, stack_states, unharmed
from cede.planning.scale import Scale
from cede.problem.model import Environment, TwoLayerMDP
from cede.problem.task import Task

Streams = NDArray[np.uint64]  # (n, 4): random numbers for each team, see `draw_uniform`
Age = tuple[int, int]  # episodes that a learner has seen before the run, and those in what it alone knows of the environment

# What a run itself keeps of each team, beside the state of its learner: shape and type.
RUN_FIELDS: dict[str, tuple[tuple[int, ...], Any]] = {
    "stream": ((4,), np.uint64),  # of random numbers
    "judged": ((), np.int64),  # for which episode the policy was made that was evaluated last, 0: none was
    "judged_cost": ((), np.float64),  # what it costs
}


@dataclass(frozen=True, eq=False)
class TeamGroup:
    """What the teams of a group have in common."""

    task: Task  # as the first of them was told; costs of control and hand-over are the team's own
    told: Settings  # without its scale, whose values come with every order
    vary: Ints  # (D,) how the true agents vary
    environment: Environment  # the true one
    shared: bool  # is the environment's belief that of the fleet?
    keeps_plans: bool  # from one episode to the next

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.task, self.told)


@dataclass(frozen=True, eq=False)
class GroupMembers:
    """What stays the same of n teams of one group during a run."""

    team: Ints  # (n,) their places in the fleet
    control_cost: Floats  # (n, D)
    switch_cost: Floats  # (n, D, D)
    slot: Ints  # (n, D) first slot of each agent in the shard's table of true agents
    start_agent: Ints  # (n,)
    seed: Ints  # (n,)
    age: Ints  # (n,) which of the ages of the group each has


@dataclass(frozen=True, eq=False)
class ShardPlan:
    """What a shard is made of: some groups of teams, and some teams of each."""

    which: Sequence[int]  # of all groups, those that it has teams of
    groups: Sequence[TeamGroup]
    members: Sequence[GroupMembers]
    agents: Table  # the true tables of all its agents, slot by slot
    states: Sequence[Arrays]
    number: int = 0  # the last order that is in the states


@dataclass(frozen=True, eq=False)
class Grouping:
    """The teams of a run, sorted into groups."""

    groups: list[TeamGroup]
    scales: list[Scale]  # by group
    places: list[list[int]]  # by group: places in the fleet
    before: list[LearnerState]  # by place, before the run
    ages: list[list[Age]]  # by group: those that there are
    age: list[Ints]  # by group: (n,) which of them each team has
    states: list[Arrays]  # by group, before the run
    sharing: int  # teams that share the environment


def group_teams(mdps: Sequence[TwoLayerMDP], learners: Sequence[Learner], streams: Streams) -> Grouping:
    """Sort teams into groups, and stack what they know."""
    found: dict[Any, list[int]] = {}
    memo: Memo = {}
    before = [learner.state for learner in learners]
    for i, (mdp, learner, state) in enumerate(zip(mdps, learners, before, strict=True)):
        found.setdefault(group_key(mdp, learner, state, memo), []).append(i)
    groups, states, ages, age = [], [], [], []
    for places in found.values():
        mdp, learner, state = mdps[places[0]], learners[places[0]], before[places[0]]
        shared = learner.shared_environment is not None
        bare = replace(learner.told, scale=Scale())  # which may be a function; its values come with every order
        group = TeamGroup(learner.task, bare, mdp.task.vary, mdp.environment, shared, keeps_plan(learner.told, state))
        policies = [policy for i in places if (policy := learners[i].told.policy) is not None]
        groups.append(group)
        states.append(first_states(group, [before[i] for i in places], policies, streams[places]))
        theirs = [(before[i].episodes, before[i].environment_episodes) for i in places]
        ages.append(list(dict.fromkeys(theirs)))
        number = {one: j for j, one in enumerate(ages[-1])}
        age.append(np.array([number[one] for one in theirs], dtype=np.int64))
    scales = [learners[places[0]].told.scale for places in found.values()]
    sharing = sum(len(places) for group, places in zip(groups, found.values(), strict=True) if group.shared)
    return Grouping(groups, scales, list(found.values()), before, ages, age, states, sharing)


def group_key(mdp: TwoLayerMDP, learner: Learner, state: LearnerState, memo: Memo) -> tuple[Any, ...]:
    """Return a key that is equal for teams of one group."""
    task, told, roles = learner.task, learner.told, learner.task.roles
    problem = (roles.table, roles.acting, roles.aim, tuple(task.vary), tuple(mdp.task.vary), id(mdp.environment))
    return problem, alike_key(task, told, memo), learner.shared_environment is not None, keeps_plan(told, state)


def keeps_plan(told: Settings, state: LearnerState) -> bool:
    """Return whether the plan of an episode is needed after it."""
    lasts = told.replan not in ("every", 1) or state.must_use_plan
    return told.policy is not None or (told.planning == "full" and lasts)


def first_states(group: TeamGroup, states: Sequence[LearnerState], policies: Sequence[Policy], streams: Streams) -> Arrays:
    """Stack what changes of some teams of a group. policies: those that are given, if they were told one. streams: (n, 4)."""
    n = len(states)
    result: Arrays = {name: np.zeros((n, *shape), dtype=dtype) for name, (shape, dtype) in RUN_FIELDS.items()}
    result["stream"] = streams
    result |= stack_states(group.sizes, states, group.keeps_plans and not policies)
    if policies:
        result["policy"] = np.stack([unharmed(group.task, policy) for policy in policies])
        result["planned"] = np.ones(n, dtype=np.int64)
    return result


def check_states(owner: str, group: TeamGroup, states: Arrays, like: Arrays) -> None:
    """Check the stacked arrays of a group that come from a file, before a kernel sees them. like: those of the same teams now."""
    if states.keys() != like.keys():
        check.fail(owner, "the fields", sorted(states), f"{sorted(like)}")
    n = len(like["planned"])
    for name, (shape, dtype) in RUN_FIELDS.items():
        array = states[name]
        if array.dtype != dtype or array.shape != (n, *shape):
            check.fail(owner, f"the shape of {name}", f"{array.shape} of {array.dtype}", f"{(n, *shape)} of {np.dtype(dtype)}")
    if not np.isfinite(states["judged_cost"]).all() or (states["judged"] < -1).any():
        check.fail(owner, "what was evaluated", "impossible", "finite costs of episodes")
    check_stack(owner, group.sizes, states, n)


# ------------------------------------------------------------------------------------------------- shards


def cut_into_shards(
    grouping: Grouping, states: Sequence[Arrays], mdps: Sequence[TwoLayerMDP], learners: Sequence[Learner], n: int
) -> list[ShardPlan]:
    """Cut the teams, in the order of their groups, into n parts of equal size."""
    begins = np.concatenate([[0], np.cumsum([len(places) for places in grouping.places])]).tolist()
    cuts = np.linspace(0, begins[-1], n + 1).round().astype(int).tolist()
    plans = []
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
        plans.append(ShardPlan(which, [grouping.groups[group] for group in which], members, true_agents.table(), parts))
    return plans


class TrueAgents:
    """The true policies of the agents of a shard, each of them once."""

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}
        self.policies: list[Floats] = []
        self.used = 0

    def slot(self, policy: Floats) -> int:
        """Return the first slot of a policy, which is added if it is new."""
        if id(policy) not in self.slots:
            self.slots[id(policy)] = self.used
            self.policies.append(policy.reshape(-1, policy.shape[-1]))
            self.used += policy.size // (policy.shape[-2] * policy.shape[-1])
        return self.slots[id(policy)]

    def table(self) -> Table:
        return Table.dense(np.concatenate(self.policies))


def members_of(
    group: TeamGroup,
    places: Sequence[int],
    age: Ints,
    mdps: Sequence[TwoLayerMDP],
    learners: Sequence[Learner],
    true_agents: TrueAgents,
) -> GroupMembers:
    """Gather what stays the same of some teams of a group."""
    n, n_agents = len(places), group.task.n_agents
    slots = [np.array([true_agents.slot(policy) for policy in mdps[i].policies])[mdps[i].task.table] for i in places]
    return GroupMembers(
        team=np.array(places, dtype=np.int64),
        control_cost=np.array([mdps[i].task.control_cost for i in places]).reshape(n, n_agents),
        switch_cost=np.array([mdps[i].task.switch_cost for i in places]).reshape(n, n_agents, n_agents),
        slot=np.array(slots, dtype=np.int64).reshape(n, n_agents),
        start_agent=np.array([mdps[i].task.start_agent for i in places], dtype=np.int64),
        seed=np.array([learners[i].seed for i in places], dtype=np.int64),
        age=age,
    )
