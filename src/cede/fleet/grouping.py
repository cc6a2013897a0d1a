"""Who plays with whom: the teams of a run, sorted by kind and cut into shards."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from cede._base.arrays import Floats, Ints
from cede.fleet.shard import ShardPlan
from cede.fleet.team_states import Kind, Luck, Roster, State, must_use, part_of, state_of
from cede.learning.learner import Learner
from cede.learning.settings import Recipe
from cede.learning.state import Memory
from cede.planning.belief import Scale, StepDown
from cede.planning.tables import Table
from cede.problem.model import TwoLayerMDP
from cede.problem.structure import digest_of as digest_of_seen

Digests = dict[tuple[int, tuple[int, ...]], bytes]  # of arrays, by where they lie in memory
Age = tuple[int, int]  # episodes that a learner has seen before the run, and those in what it alone knows of the environment


@dataclass(frozen=True, eq=False)
class Muster:
    """The teams of a run, sorted by kind."""

    kinds: list[Kind]
    scales: list[Scale]  # by kind
    members: list[list[int]]  # by kind: places in the fleet
    memories: list[Memory]  # by place, before the run
    ages: list[list[Age]]  # by kind: those that there are
    age: list[Ints]  # by kind: (n,) which of them each team has
    states: list[State]  # by kind, before the run
    sharing: int  # teams that share the environment


def muster(mdps: Sequence[TwoLayerMDP], learners: Sequence[Learner], luck: Luck) -> Muster:
    """Sort teams by kind, and pack what they know."""
    members: dict[Any, list[int]] = {}
    digests: Digests = {}
    memories = [learner.memory for learner in learners]
    for i, (mdp, learner, memory) in enumerate(zip(mdps, learners, memories, strict=True)):
        members.setdefault(kind_key(mdp, learner, memory, digests), []).append(i)
    kinds, states, ages, age = [], [], [], []
    for places in members.values():
        mdp, learner, memory = mdps[places[0]], learners[places[0]], memories[places[0]]
        shared = learner.shared_environment is not None
        bare = replace(learner.recipe, scale=Scale())  # which may be a function; its values come with every order
        kind = Kind(learner.task, bare, mdp.task.vary, mdp.environment, shared, keeps_plan(learner.recipe, memory))
        policies = [policy for i in places if (policy := learners[i].recipe.policy) is not None]
        kinds.append(kind)
        states.append(state_of(kind, [memories[i] for i in places], policies, luck[places]))
        theirs = [(memories[i].episodes, memories[i].environment_episodes) for i in places]
        ages.append(list(dict.fromkeys(theirs)))
        number = {one: j for j, one in enumerate(ages[-1])}
        age.append(np.array([number[one] for one in theirs], dtype=np.int64))
    return Muster(
        kinds,
        [learners[places[0]].recipe.scale for places in members.values()],
        list(members.values()),
        memories,
        ages,
        age,
        states,
        sum(len(places) for kind, places in zip(kinds, members.values(), strict=True) if kind.shared),
    )


def kind_key(mdp: TwoLayerMDP, learner: Learner, memory: Memory, digests: Digests) -> tuple[Any, ...]:
    """Teams with the same key are of one kind."""
    task, r = learner.task, learner.recipe
    shared = learner.shared_environment is not None
    scale = tuple(part if isinstance(part, float | StepDown) else id(part) for part in (r.scale.agents, r.scale.environment))
    known = tuple((agent, digest_of(policy, digests)) for agent, policy in r.known_agents.items())
    return (
        (task.roles.table, task.roles.acting, task.roles.aim, tuple(task.vary), tuple(mdp.task.vary), id(mdp.environment)),
        (r.radius, r.delta, scale, r.flat, r.policy is None, r.planning, r.replan, known, id(r.known_environment)),
        (r.limits and tuple(ends.tobytes() for ends in r.limits), r.caution and r.caution.digest),
        (r.agents_radius, r.prior, by_place(task.tables, r), r.forget_environment),
        (shared, keeps_plan(r, memory)),
    )


def by_place(names: Sequence[str], recipe: Recipe) -> tuple[Any, ...]:
    """What is declared and forgotten: of agents by their place, for teams that call them differently."""
    structure = recipe.structure
    seen = {} if structure is None else {name: digest_of_seen(cases) for name, cases in structure.agents.items()}
    agents = tuple((seen.get(name), recipe.forget.get(name)) for name in names)
    return agents, structure.environment.digest if structure is not None and structure.environment is not None else None


def keeps_plan(recipe: Recipe, memory: Memory) -> bool:
    """Is the plan of an episode needed after it?"""
    lasts = recipe.replan not in ("every", 1) or must_use(memory)
    return recipe.policy is not None or (recipe.planning == "full" and lasts)


def digest_of(array: Floats, digests: Digests) -> bytes:
    """Of its contents; `digests` remembers those of arrays that were met already."""
    place = (array.ctypes.data, array.shape)  # views of one array are the same
    if place not in digests:
        digests[place] = hashlib.sha256(np.ascontiguousarray(array).data).digest()
    return digests[place]


def shard_plans(
    teams: Muster, states: Sequence[State], mdps: Sequence[TwoLayerMDP], learners: Sequence[Learner], n: int
) -> list[ShardPlan]:
    """Cut the teams, in the order of their kinds, into n parts of equal size."""
    begins = np.concatenate([[0], np.cumsum([len(places) for places in teams.members])]).tolist()
    cuts = np.linspace(0, begins[-1], n + 1).round().astype(int).tolist()
    plans = []
    for low, high in pairwise(cuts):
        true_agents = TrueAgents()
        which, rosters, parts = [], [], []
        for kind, (begin, end) in enumerate(pairwise(begins)):
            first, last = max(low, begin) - begin, min(high, end) - begin
            if first < last:
                which.append(kind)
                places, age = teams.members[kind][first:last], teams.age[kind][first:last]
                rosters.append(roster_of(teams.kinds[kind], places, age, mdps, learners, true_agents))
                parts.append(part_of(states[kind], first, last))
        plans.append(ShardPlan(which, [teams.kinds[kind] for kind in which], rosters, true_agents.table(), parts))
    return plans


class TrueAgents:
    """The true policies of the agents of a shard, each of them once."""

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}
        self.policies: list[Floats] = []
        self.used = 0

    def slot(self, policy: Floats) -> int:
        if id(policy) not in self.slots:
            self.slots[id(policy)] = self.used
            self.policies.append(policy.reshape(-1, policy.shape[-1]))
            self.used += policy.size // (policy.shape[-2] * policy.shape[-1])
        return self.slots[id(policy)]

    def table(self) -> Table:
        return Table.dense(np.concatenate(self.policies))


def roster_of(
    kind: Kind,
    places: Sequence[int],
    age: Ints,
    mdps: Sequence[TwoLayerMDP],
    learners: Sequence[Learner],
    true_agents: TrueAgents,
) -> Roster:
    n, n_agents = len(places), kind.task.n_agents
    slots = [np.array([true_agents.slot(policy) for policy in mdps[i].policies])[mdps[i].task.table] for i in places]
    return Roster(
        team=np.array(places, dtype=np.int64),
        control_cost=np.array([mdps[i].task.control_cost for i in places]).reshape(n, n_agents),
        switch_cost=np.array([mdps[i].task.switch_cost for i in places]).reshape(n, n_agents, n_agents),
        slot=np.array(slots, dtype=np.int64).reshape(n, n_agents),
        start_agent=np.array([mdps[i].task.start_agent for i in places], dtype=np.int64),
        seed=np.array([learners[i].seed for i in places], dtype=np.int64),
        age=age,
    )
