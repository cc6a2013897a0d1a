"""Agents who join a learner's team, leave it, or change: its task, settings and counts afterwards.

Counts of all others, of the environment, of costs and of first states stay. The plan and what follows from it (values of greedy
planning, visits at the last plan, priors of agents from features) are made anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats
from cede._kernels.limits import PRICE
from cede.beliefs.extras import of_layer
from cede.learners.options import ForgetRules, Knowledge
from cede.learners.promises import ShareLimits
from cede.learners.proof import RECORD, UNDECIDED
from cede.learners.settings import Settings, with_options
from cede.learners.state import LearnerState, Sizes
from cede.problem.policies import checked_policy
from cede.problem.task import Task
from cede.problem.team_changes import slots_after, with_agent, without_agent
from cede.rows.fading import Window, longest_window
from cede.rows.moving import faded, keys_after, moved, moves_of, moves_of_all_agents, ring_after
from cede.rows.places import AGENT, COSTS, ENVIRONMENT

LIKE_WEIGHT = 3.0  # counts per row that a newcomer takes over from a similar agent, at most (docs/agents.md says why)
OF_PLAN = ("planned", "stale", "policy", "value", "found", "bounds", "agents_planned_visits", "environment_planned_visits")
WHAT = ("joined", "left", "changed")


@dataclass(frozen=True)
class TeamChange:
    """A change of a learner's team. `learner.team_changes` lists all."""

    episode: int  # the first episode (without a horizon: step) afterwards
    agent: str
    change: str  # "joined", "left" or "changed"

    def __post_init__(self) -> None:
        check.integer("TeamChange", "episode", self.episode, 1)
        check.name("TeamChange", "agent", self.agent)
        check.choice("TeamChange", "change", self.change, WHAT)


After = tuple[Task, Settings, LearnerState]


def joined(
    owner: str,
    task: Task,
    settings: Settings,
    state: LearnerState,
    name: str,
    *,
    control_cost: Any,
    switch_cost: Any,
    policy: Any,
    like: Any,
    weight: Any,
    varies_with: Any,
    takeover_delay: Any,
) -> After:
    """Return task, settings and state after an agent has joined. The arguments are those of `Learner.add_agent`."""
    weight = check.number(owner, "weight", weight, least=0.0)
    if like is not None:
        check.choice(owner, "like", like, task.members)
        if policy is not None:
            check.fail(owner, "like", repr(like), "left out with policy: what is known needs no counts")
        kind = task.table_varies[task.members.index(like)]
        varies_with = kind if varies_with is None else varies_with
        if varies_with != kind:
            check.fail(owner, "varies_with", repr(varies_with), f"{kind!r}, as of {like!r}, or left out")
    after = with_agent(owner, task, name, control_cost, switch_cost, varies_with, takeover_delay)
    policies = {}
    if policy is not None:
        table = after.members.index(name)
        known = checked_policy(owner, policy, varies_with, after.slot_shape(table))
        policies[table] = known.reshape(-1, after.n_states, after.n_actions)
    told = settings_after(owner, task, after, settings, newcomer=name, like=like, policies=policies, since=state.episodes)
    state = state_after(task, after, settings, told, state)
    if like is not None and weight > 0.0:
        if isinstance(told.forgetting.agents.get(name), Window):
            check.fail(owner, "weight", weight, "0 with a Window: it must see the steps to forget them")
        layers = dict(state.counts.layers)
        if f"{AGENT}{like}" in layers:
            layers[f"{AGENT}{name}"] = faded(layers[f"{AGENT}{like}"], 1.0, weight)
        state = replace(state, counts=replace(state.counts, layers=layers))
    return after, told, state


def left(owner: str, task: Task, settings: Settings, state: LearnerState, name: Any, start_agent: Any) -> After:
    """Return task, settings and state after an agent has left. The arguments are those of `Learner.remove_agent`."""
    after = without_agent(owner, task, name, start_agent)
    told = settings_after(owner, task, after, settings)
    return after, told, state_after(task, after, settings, told, state)


def changed(owner: str, task: Task, settings: Settings, state: LearnerState, name: Any, keep: Any, most: Any) -> LearnerState:
    """Return the state after an agent has changed. The arguments are those of `Learner.agent_changed`."""
    check.choice(owner, "name", name, task.members)
    keep, most = checked_fading(owner, keep, most)
    if settings.policy is not None:
        check.fail(owner, "learner", settings.name, "one that learns")
    whose = tables_of(task, name)
    forgets = [rule for one in whose if isinstance(rule := settings.forgetting.agents.get(one), Window)]
    if forgets and keep > 0.0:
        place, value = ("keep", keep) if most is None else ("most", most)
        check.fail(owner, place, value, f"left out with {forgets[0]}: its steps are forgotten whole")
    layers = {
        layer: faded(counts, keep, most) if layer.removeprefix(AGENT) in whose and layer.startswith(AGENT) else counts
        for layer, counts in state.counts.layers.items()
    }
    recent = state.agents_recent
    if forgets and recent.size:
        rows = zip(task.tables, Sizes(task, settings).places.agent_rows, strict=True)
        gone = np.concatenate([np.full(n, one in whose) for one, n in rows])
        recent = np.where((recent >= 0) & ~gone[np.maximum(recent, 0) // task.n_actions], recent, -1)
    return replace(begun_again(state), counts=replace(state.counts, layers=layers), agents_recent=recent)


def begun_again(state: LearnerState) -> LearnerState:
    """Return a state without its plan, and without what was proven about a baseline: that was proven with the old counts."""
    return replace(planned_anew(state), record=LearnerState().record)


def checked_fading(owner: str, keep: Any, most: Any) -> tuple[float, float | None]:
    """Check the arguments `keep` and `most` of `Learner.agent_changed`, and return them; with `most` alone, all may stay."""
    keep = check.number(owner, "keep", keep, least=0.0)
    if keep > 1.0:
        check.fail(owner, "keep", keep, "a fraction, at most 1")
    if most is None:
        return keep, None
    return keep or 1.0, check.number(owner, "most", most, least=0.0)


def tables_of(task: Task, member: str) -> set[str]:
    """Return the policies by which a member acts: its own, and that for taking over if it has one."""
    number = task.members.index(member)
    steps = zip(task.roles.table[len(task.members) :], task.roles.acting[len(task.members) :], strict=True)
    return {member} | {task.tables[table] for table, acting in steps if acting == number}


def planned_anew(state: LearnerState) -> LearnerState:
    """Return a state without its plan and what follows from it: planned visits, values of greedy planning, priors of agents."""
    start, record = LearnerState(), state.record.copy()
    if record.size:
        record.view(RECORD)["decided"] = UNDECIDED
    dropped: dict[str, Any] = {name: getattr(start, name) for name in OF_PLAN}
    return replace(state, **dropped, record=record, extras=of_layer(state.extras, ENVIRONMENT))


def state_after(task: Task, after: Task, settings: Settings, told: Settings, state: LearnerState) -> LearnerState:
    """Return the state of a learner whose task and settings were `task` and `settings`, and now are `after` and `told`."""
    before, sizes = Sizes(task, settings), Sizes(after, told)
    if state.costs_recent_row.size and len(task.charges) != len(after.charges):
        expected = "left out: no other cost of the team was learned, or no other stays learned"
        check.fail("Learner", "a Window for costs, where the team begins or ceases to have unknown costs", "given", expected)
    moves = moves_of(before.places, sizes.places)
    layers = {
        name: moved(layer, moves[name], sizes.shapes[name]) for name, layer in state.counts.layers.items() if name in sizes.shapes
    }
    agents = moves_of_all_agents(moves, before.places, sizes.places)
    window = longest_window(told.forgetting.agents.values())
    arrays: dict[str, Any] = {
        "agents_recent": keys_after(ring_after(state.agents_recent, window, state.episodes), agents, task.n_actions),
        "environment_recent": keys_after(state.environment_recent, moves[ENVIRONMENT], sizes.seen["environment"][1]),
        "costs_recent_row": keys_after(state.costs_recent_row, moves[COSTS], 1),
    }
    old = [task.members.index(name) if name in task.members else -1 for name in after.members]
    for name, width in (("prices", PRICE.itemsize // 8), ("taken", 1)):
        array = getattr(state, name).reshape(-1, width)
        if array.size:
            arrays[name] = np.concatenate([array, np.zeros((1, width), dtype=array.dtype)])[old].ravel()
    return replace(planned_anew(state), counts=replace(state.counts, layers=layers), **arrays)


def settings_after(
    owner: str,
    task: Task,
    after: Task,
    settings: Settings,
    *,
    newcomer: str | None = None,
    like: str | None = None,
    policies: Mapping[int, Floats] | None = None,
    since: int = 0,
) -> Settings:
    """Return the settings of a learner after its team has changed; what is said of an agent follows it by name.

    newcomer: who has joined. Structure and the rule to forget are those of `like`; without it, the rule is that of all others if
    they have one. policies: known policies of the newcomer, as in `Knowledge`. since: episodes that were over when it joined.
    """
    if settings.policy is not None:
        check.fail(owner, "learner", settings.name, "one that learns: a fixed policy does not know the team")
    slots = slots_after(task, after)
    known = dict(policies or {})
    for table, policy in settings.knowledge.agents.items():
        name = task.tables[table]
        if name in after.tables:
            if task.table_varies[table] == "prev_agent" and newcomer is not None:
                expected = "one that does not vary with the previous agent: how it acts after the newcomer is not known"
                check.fail(owner, f"the known policy of {name!r}", "given", expected)
            known[after.tables.index(name)] = policy[slots[task.layout.slots(table)] >= 0]
    declared = settings.structure
    if declared is not None:
        agents = {name: cases for name, cases in declared.agents.items() if name in after.tables}
        if newcomer is not None and like is not None and like in declared.agents:
            agents[newcomer] = declared.agents[like]
        declared = replace(declared, agents=agents)
        declared = declared if declared.agents or declared.of_environment is not None else None
    rules = {name: rule for name, rule in settings.forgetting.agents.items() if name in after.tables}
    old = settings.forgetting.agents
    if newcomer is not None and like is not None and like in old:
        rules[newcomer] = old[like]
    elif newcomer is not None and like is None and len(old) == len(task.tables) and len(set(old.values())) == 1:
        rules = dict.fromkeys(after.tables, next(iter(old.values())))
    result = with_options(
        settings,
        knowledge=Knowledge(known, settings.knowledge.environment, declared),
        forgetting=ForgetRules(rules, settings.forgetting.environment),
        **promises_after(owner, task, after, settings, since),
    )
    result.check_fits(owner, after)
    return result


def promises_after(owner: str, task: Task, after: Task, settings: Settings, since: int) -> dict[str, Any]:
    """Return limits, baseline and trial episodes of a learner after its team has changed. since: episodes that were over when the
    newcomer joined.
    """
    limits, baseline, trials = settings.limits, settings.baseline, settings.trials
    old = [task.members.index(name) if name in task.members else -1 for name in after.members]
    if limits is not None:
        limits = ShareLimits(np.append(limits.least, 0.0)[old], np.append(limits.most, 1.0)[old])
    if trials is not None:
        joined_at = (*(trials.since or (0,) * len(task.members)), since)
        members = tuple(new for new, i in enumerate(old) if i in trials.members)
        some = bool(members) or not trials.members  # without members, all are tried
        trials = replace(trials, members=members, since=tuple(joined_at[i] for i in old)) if some else None
    if baseline is not None:
        who = baseline.name
        if who not in task.members or not np.array_equal(baseline.policy.reshape(task.policy_shape), task.always(who)):
            expected = "one agent alone: what another policy does in another team is not known"
            check.fail(owner, "the baseline of the learner", repr(check.printable(who)), expected)
        if who not in after.members:
            check.fail(owner, "name", repr(who), "another than the learner's baseline")
        policy = after.always(who).reshape(-1, after.n_states, after.n_agents)
        baseline = replace(baseline, policy=np.ascontiguousarray(policy))
    return {"limits": limits, "baseline": baseline, "trials": trials}
