"""Sorts the teams of a run into groups, and cuts these into shards.

Teams that differ only in costs, seeds, agents and counts form a `TeamGroup`: they use one workspace, a team at a time. Their
changing state is a stack of arrays (`stacks.stack_states`, and the fields of a run declared here), with the team as first axis.
Stacks can be cut, joined, sent, written to a file, and used by any shard.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede.learners.settings import Memo, Settings, alike_key, key_of, with_options
from cede.learners.stacks import check_stack, part_of, stack_states
from cede.learners.state import Arrays, LearnerState, Sizes
from cede.problem.model import Environment, TwoLayerMDP
from cede.problem.task import Task
from cede.rows.places import NO_INTS, Places, Shape

if TYPE_CHECKING:
    from cede.learners.learner import Learner

Streams = NDArray[np.uint64]  # (n, 4): the random stream of each team, see `draw_uniform`
# Before the run: episodes of the learner, episodes in its own environment counts, and of others in its own counts of agents.
Age = tuple[int, int, int]

# State of each team during a run, beside the state of its learner: shape and type.
RUN_FIELDS: dict[str, tuple[tuple[int, ...], Any]] = {
    "stream": ((4,), np.uint64),  # random numbers
    "judged": ((), np.int64),  # the episode of the plan that was evaluated last; 0: none
    "judged_cost": ((), np.float64),  # the expected cost of that policy
    "state": ((), np.int64),  # without horizon: the current state; -1: its run has not begun
    "agent": ((), np.int64),  # and the agent in control
}
COST_FIELDS = ("control_cost", "switch_cost", "true_control_cost", "true_switch_cost", "step_ends")
OWN_FIELDS = ("team", *COST_FIELDS, "policies", "start_agent", "seed", "age")  # of each team of a group


def streams_of(seed: int, n: int) -> Streams:
    """Return one independent random stream for each of n teams, (n, 4). Stream i does not depend on n."""
    children = [np.random.SeedSequence(seed, spawn_key=(i,)) for i in range(n)]
    return np.array([stream_of(np.random.PCG64(child)) for child in children], dtype=np.uint64).reshape(n, 4)


def stream_of(bits: np.random.BitGenerator) -> list[int]:
    """Return the state of a PCG64 as kernels read it: state and increment, each as two 64-bit numbers, upper half first."""
    state, low = bits.state["state"], 2**64 - 1
    return [state["state"] >> 64, state["state"] & low, state["inc"] >> 64, state["inc"] & low]


@dataclass(frozen=True, eq=False)
class TeamGroup:
    """n teams with one workspace: all such teams of a run (`group_teams`), or those in one shard."""

    number: int  # of the group in the run
    task: Task  # that of the first team; control and switching costs are each team's own
    settings: Settings  # without the scale, whose values are in the orders
    vary: Ints  # (D,) how the policies of the true agents vary: CONSTANT, BY_TIME or BY_PREV_AGENT
    environment: Environment  # the true environment
    shared: bool  # whether these teams share the fleet's belief about the environment
    shared_rows: Ints  # (agents' rows,) the row of shared agents' counts; -1: the team's own
    block: int  # without horizon: steps that are recorded together; else the horizon
    ages: Sequence[Age]  # the different ages of its teams
    team: Ints  # (n,) indices in the fleet
    control_cost: Floats  # (n, S or 1, D) of the learner; at their least where they are learned
    switch_cost: Floats  # (n, S or 1, D, D)
    true_control_cost: Floats  # (n, S or 1, D)
    true_switch_cost: Floats  # (n, S or 1, D, D)
    step_ends: Floats  # (n, 2) the least and the greatest cost of a step; zeros where nothing depends on them
    policies: Sequence[Sequence[Floats]]  # by team and agent: the true policies
    start_agent: Ints  # (n,)
    seed: Ints  # (n,)
    age: Ints  # (n,) index into `ages`
    state: Arrays  # stacked states of the teams, at the start

    @cached_property
    def sizes(self) -> Sizes:
        """Return task and settings, from which the shapes of a state follow."""
        return Sizes(self.task, self.settings)

    def part(self, first: int, last: int) -> "TeamGroup":
        """Return the teams from first to last (exclusive) of the group."""
        if (first, last) == (0, len(self.team)):
            return self
        own = {name: getattr(self, name)[first:last] for name in OWN_FIELDS}
        return replace(self, state=part_of(self.state, first, last), **own)


@dataclass(frozen=True, eq=False)
class ShardPlan:
    """The content of a `Shard`: some teams of some groups."""

    groups: Sequence[TeamGroup]
    shared: Mapping[str, Shape] = field(default_factory=dict)  # by layer: rows and columns of the counts that teams share
    number: int = 0  # the last order whose results are in the states


def group_teams(
    mdps: Sequence[TwoLayerMDP], learners: "Sequence[Learner]", states: Sequence[LearnerState], streams: Streams, block: int = 1
) -> list[TeamGroup]:
    """Sort teams into groups, and stack their states.

    mdps, learners, states: the true problem, the learner and its state, of each team. streams: (n, 4) random streams, see
    `streams_of`. block: without horizon, steps that are recorded together.
    """
    by_key: dict[Any, list[int]] = {}
    memo: Memo = {}
    for i, (mdp, learner, state) in enumerate(zip(mdps, learners, states, strict=True)):
        key = group_key(mdp, learner, state, memo) if len(mdps) > 1 else None  # one team is one group
        by_key.setdefault(key, []).append(i)
    groups: list[TeamGroup] = []
    for places in by_key.values():
        mdp, learner = mdps[places[0]], learners[places[0]]
        tasks, n = [learners[i].task for i in places], len(places)
        bounded = learner.settings.limits is not None or learner.settings.baseline is not None
        ages = [(states[i].episodes, states[i].environment_episodes, states[i].counts.others_episodes) for i in places]
        age_numbers = {age: number for number, age in enumerate(dict.fromkeys(ages))}
        group = TeamGroup(
            number=len(groups),
            task=learner.task,
            settings=unscaled(learner.settings),
            vary=mdp.task.layout.vary,
            environment=mdp.environment,
            shared=learner.shared_environment is not None,
            shared_rows=shared_rows(learner),
            block=learner.task.horizon or block,
            ages=list(age_numbers),
            team=np.array(places, dtype=np.int64),
            **team_costs(tasks, [mdps[i].task if learner.task.learns_team_costs else learners[i].task for i in places]),
            step_ends=np.array([task.ends_of_step_cost for task in tasks]) if bounded else np.zeros((n, 2)),
            policies=[[mdps[i].policies[table] for table in mdps[i].task.table] for i in places],
            start_agent=np.array([mdps[i].task.start_agent for i in places], dtype=np.int64),
            seed=np.array([learners[i].seed for i in places], dtype=np.int64),
            age=np.array([age_numbers[age] for age in ages], dtype=np.int64),
            state={},
        )
        group.state.update(first_state(group, [learners[i] for i in places], [states[i] for i in places], streams[places]))
        groups.append(group)
    return groups


def team_costs(tasks: Sequence[Task], true: Sequence[Task]) -> dict[str, Floats]:
    """Return the costs of control and of hand-overs of n teams, as fields of a `TeamGroup`. tasks, true: of learner and truth."""
    n, d = len(tasks), tasks[0].n_agents
    return {
        f"{prefix}{name}": np.array([task.extremes(name)[0] for task in given]).reshape(n, -1, *sides)
        for prefix, given in (("", tasks), ("true_", true))
        for name, sides in (("control_cost", (d,)), ("switch_cost", (d, d)))
    }


def unscaled(settings: Settings) -> Settings:
    """Return settings without a scale, which may be a function; its values are in the orders."""
    agents, environment = settings.scale.agents, settings.scale.environment
    is_plain = type(agents) is type(environment) is float and agents == environment == 1.0
    return settings if is_plain else with_options(settings, scale=Settings.scale)


def group_key(mdp: TwoLayerMDP, learner: "Learner", state: LearnerState, memo: Memo) -> tuple[Any, ...]:
    """Return a hashable key that is equal for teams of one group. memo: see `key_of`."""
    task, settings, roles = learner.task, learner.settings, learner.task.roles
    sides: tuple[Any, ...] = (task.control_cost.ndim, task.switch_cost.ndim, task.horizon, task.discount, task.learns_costs)
    names: tuple[str, ...] = ("env_cost", "enter_cost", "cost_range", "enter_cost_range") if task.learns_costs else ()
    if task.learns_team_costs:
        sides += (mdp.task.control_cost.ndim, mdp.task.switch_cost.ndim)
        names += ("control_cost", "switch_cost", "grab_cost", "control_cost_range", "switch_cost_range")
    costs = key_of(tuple(getattr(task, name) for name in names), memo) if names else None
    vary = (tuple(task.layout.vary), tuple(mdp.task.layout.vary))
    ways = b"" if task.can_choose.all() else task.can_choose.tobytes()
    problem = (roles.table, roles.acting, roles.aim, roles.chance, ways, *vary, id(mdp.environment), sides, costs)
    shared = learner.shared_environment is not None, shared_rows(learner).tobytes()
    return problem, alike_key(task, settings, memo), shared, keeps_plan(task, settings, state)


def shared_rows(learner: "Learner") -> Ints:
    """Return the row of shared agents' counts of each row of a learner's agents; -1: its own. Empty if it shares no agent."""
    shared = learner.shared_environment
    if shared is None or not shared.spans:
        return NO_INTS
    rows = shared.rows_of_agents(Places(learner.task, structure=learner.settings.structure))
    return rows if (rows >= 0).any() else NO_INTS


def keeps_plan(task: Task, settings: Settings, state: LearnerState) -> bool:
    """Return whether plans must be stored for each team, since they may be needed after their episode."""
    lasts = task.horizon is None or settings.replan not in ("every", 1) or state.must_use_plan
    return settings.policy is not None or (settings.planning == "full" and lasts)


def first_state(group: TeamGroup, learners: "Sequence[Learner]", states: Sequence[LearnerState], streams: Streams) -> Arrays:
    """Stack the states of the n teams of a group before a run. streams: (n, 4)."""
    n = len(states)
    result: Arrays = {name: np.zeros((n, *shape), dtype=dtype) for name, (shape, dtype) in RUN_FIELDS.items()}
    result |= {"stream": streams, "state": np.full(n, -1, dtype=np.int64)}
    fixed = group.settings.policy is not None
    keeps_plans = not fixed and keeps_plan(group.task, group.settings, states[0])
    names = [learner.task.tables for learner in learners]
    result |= stack_states(group.sizes, states, names, keeps_plans)
    if fixed:
        result["policy"] = np.stack([np.asarray(learner.settings.policy) for learner in learners])
        result["planned"] = np.ones(n, dtype=np.int64)
    return result


def check_states(owner: str, group: TeamGroup, states: Arrays, episodes: Ints) -> None:
    """Check the stacked arrays of a group that come from a file, before a kernel reads them.

    They must have the same fields and number of teams as the group's current arrays. episodes: (n,) that each team has played.
    """
    task, n = group.task, len(group.team)
    if states.keys() != group.state.keys():
        check.fail(owner, "the fields", sorted(states), f"{sorted(group.state)}")
    for name, (shape, dtype) in RUN_FIELDS.items():
        array = states[name]
        if array.dtype != dtype or array.shape != (n, *shape):
            check.fail(owner, f"the shape of {name}", f"{array.shape} of {array.dtype}", f"{(n, *shape)} of {np.dtype(dtype)}")
    if not np.isfinite(states["judged_cost"]).all() or (states["judged"] < -1).any():
        check.fail(owner, "what was evaluated", "impossible", "finite costs of episodes")
    for name, size, least in (("state", task.n_states, -1), ("agent", task.n_agents, 0)):
        if (states[name] < least).any() or (states[name] >= size).any() or (task.horizon and states[name].max() > 0):
            check.fail(owner, f"the {name} of a team", "impossible", f"from {least} to {size - 1}")
    if task.terminal and task.horizon is None and task.is_terminal[states["state"][states["state"] >= 0]].any():
        check.fail(owner, "the state of a team", "one in which its run is over", "one in which it goes on")
    check_stack(owner, group.sizes, states, n)
    has_plans = "policy" in states  # else a team has no plan between two episodes, and must make one
    if (states["planned"] > episodes + has_plans).any() or (states["fresh"] > (has_plans & (states["planned"] > 0))).any():
        check.fail(owner, "planned and fresh", "of a plan that there is not", "of one that was made and is kept")


def cut_into_shards(groups: Sequence[TeamGroup], shared: Mapping[str, Shape], n: int) -> list[ShardPlan]:
    """Cut the teams, ordered by group, into n shards of equal size. shared: by layer, rows and columns of shared counts."""
    begins = np.concatenate([[0], np.cumsum([len(group.team) for group in groups])]).tolist()
    cuts = np.linspace(0, begins[-1], n + 1).round().astype(int).tolist()
    plans = []
    for low, high in pairwise(cuts):
        ends = [(max(low, begin) - begin, min(high, end) - begin) for begin, end in pairwise(begins)]
        parts = [group.part(first, last) for group, (first, last) in zip(groups, ends, strict=True) if first < last]
        plans.append(ShardPlan(parts, shared))
    return plans
