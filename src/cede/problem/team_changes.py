"""The task of a team after an agent joins or leaves. The newcomer comes last among the members; names of all others stay."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede.problem.costs import amount, by_hand_over, of_one_agent
from cede.problem.layout import VariesWith
from cede.problem.takeover import price_of_members
from cede.problem.task import Task


def with_agent(
    owner: str, task: Task, name: str, control_cost: Any, switch_cost: Any, varies_with: VariesWith, takeover_delay: Any
) -> Task:
    """Return the task of a team with one more agent.

    control_cost: of the newcomer, one number or (S,). switch_cost: of hand-overs from and to it: one number, or by name as in
    {("robot", "new"): 0.3}, where others cost nothing. varies_with, takeover_delay: of the newcomer, see `Task`.
    """
    check.name(owner, "name", name)
    if name in task.agents:
        check.fail(owner, "name", repr(name), "a new one: an agent of the team has this name")
    whole = unfolded(task)
    names = (*task.members, name)
    own = of_one_agent(owner, "control_cost", control_cost, task.n_states)
    control = np.broadcast_arrays(*np.moveaxis(whole["control_cost"], -1, 0), own)
    switching = one_more(whole["switch_cost"])
    if isinstance(switch_cost, Mapping):
        for pair in switch_cost:
            if isinstance(pair, tuple) and len(pair) == 2 and not {name, len(names) - 1} & set(pair):
                check.fail(owner, "a hand-over of switch_cost", check.show(pair), f"from or to {name!r}: the others keep theirs")
        switching = by_hand_over(owner, "switch_cost", switch_cost, names, switching)
    else:
        switching[..., -1, :-1] = switching[..., :-1, -1] = amount(owner, "switch_cost", switch_cost)
    if whole["grab_cost"] is not None:
        grab = whole["grab_cost"] = one_more(whole["grab_cost"])
        grab[..., -1, :], grab[..., :, -1] = switching[..., -1, :], switching[..., :, -1]
    delays = {**whole["takeover_delay"], name: check.integer(owner, "takeover_delay", takeover_delay, 0)}
    return replace(
        task,
        **{
            **whole,
            "agents": names,
            "varies_with": (*whole["varies_with"], varies_with),
            "control_cost": np.stack(control, axis=-1),
            "switch_cost": switching,
            "takeover_delay": {one: delay for one, delay in delays.items() if delay},
        },
    )


def without_agent(owner: str, task: Task, name: str, start_agent: Any = None) -> Task:
    """Return the task of a team without a member. start_agent: who is in control before the first step from now on, by name; needed
    if it was the one who leaves.
    """
    check.choice(owner, "name", name, task.members)
    if len(task.members) == 1:
        check.fail(owner, "name", repr(name), "one of several: a team has at least one agent")
    whole, gone = unfolded(task), task.members.index(name)
    others = tuple(one for one in task.members if one != name)
    start = whole["start_agent"] if start_agent is None else check.choice(owner, "start_agent", start_agent, others)
    if start not in others:
        check.fail(owner, "start_agent", "missing", f"another than {start!r}, who leaves: {check.one_of(others)}")
    costs = {"control_cost": np.delete(whole["control_cost"], gone, axis=-1)}
    for cost in ("switch_cost", "grab_cost"):
        if whole[cost] is not None:
            costs[cost] = np.delete(np.delete(whole[cost], gone, axis=-1), gone, axis=-2)
    delays = {one: delay for one, delay in whole["takeover_delay"].items() if one != name}
    return replace(
        task,
        **{
            **whole,
            **costs,
            "agents": others,
            "varies_with": tuple(kind for i, kind in enumerate(whole["varies_with"]) if i != gone),
            "start_agent": start,
            "takeover_delay": delays,
            "on_takeover": [one for one in whole["on_takeover"] if one != name],
        },
    )


def unfolded(task: Task) -> dict[str, Any]:
    """Return the fields of a task that depend on its agents as they were before its slow hand-overs were folded (takeover.py).

    The delay of the only member of a team is not in its task, and is lost.
    """
    n, aim = len(task.members), task.layout.aim
    own = [name for name in task.members if f"{name} (taking over)" in task.tables]
    steps = np.bincount(aim[n:], minlength=n).tolist()
    delays = {name: k if name in own else k // (n - 1) for name, k in zip(task.members, steps, strict=True) if k}
    return {
        "agents": task.members,
        "varies_with": (task.varies_with or ())[:n],
        "control_cost": task.control_cost[..., :n],
        "switch_cost": price_of_members(task.switch_cost, aim),
        "grab_cost": task.grab_cost,
        "start_agent": task.agents[task.start_agent],
        "takeover_delay": delays,
        "on_takeover": own,
        "modes": None,
    }


def one_more(costs: Floats) -> Floats:
    """Return costs of hand-overs, (M, M) or (S, M, M), with zeros for one more member."""
    sides = [(0, 0)] * (costs.ndim - 2)
    return np.pad(costs, [*sides, (0, 1), (0, 1)])


def slots_after(before: Task, after: Task) -> Ints:
    """Return the slot in one task of each slot of another, by the names of policies and agents, (slots before,); -1: none."""
    result = np.full(int(before.layout.n_slots.sum()), -1, dtype=np.int64)
    for table, name in enumerate(before.tables):
        if name in after.tables:
            old, new = before.layout.slots(table), after.layout.slots(after.tables.index(name))
            slots = np.arange(new.start, new.stop)
            if before.table_varies[table] == "prev_agent":
                slots = np.array([new.start + after.agents.index(one) if one in after.agents else -1 for one in before.agents])
            result[old] = slots
    return result
