"""Steps that come from outside, one by one: checked against the task, the steps before, and what was declared."""

from typing import Any, NamedTuple

import numpy as np

from cede._base import check
from cede.learning.counts import Step, charged, check_known_costs, check_outcomes
from cede.learning.settings import Settings
from cede.problem.names import in_kind
from cede.problem.task import Task

Given = tuple[Any, Any, Any, Any, Any]  # state, prev_agent, agent, action and next_state as a user gave them, by index or name


class Observed(NamedTuple):
    """A step that was checked, and what the environment charged in it."""

    step: Step
    charged: tuple[float, float]  # for the action and for arriving


def checked_step(
    owner: str, task: Task, told: Settings, t: int, given: Given, last: Step | None, cost: Any, enter_cost: Any, moved: Any
) -> Observed:
    """Check a step at time t (checked before), and return it in indices.

    last: the step before it in the same episode or run, None if it is the first. cost, enter_cost: what the environment charged.
    moved: whether the system was moved since then, so that this step need not begin where the last one led.
    """
    state, to = task.state_index(owner, "state", given[0]), task.state_index(owner, "next_state", given[4])
    prev, agent = task.agent_index(owner, "prev_agent", given[1]), task.agent_index(owner, "agent", given[2])
    action = task.action_index(owner, "action", given[3])
    check_goes_on(owner, task, state, given[0])
    moved = check.truth(owner, "moved", moved)
    if last is not None:
        if prev != last[3]:
            who = check.show(in_kind(last[3], task.agents, given[1]))
            check.fail(owner, "prev_agent", check.show(given[1]), f"{who}, who acted in the step before")
        if task.terminal and task.is_terminal[last[5]]:
            where = check.show(in_kind(last[5], task.state_names or (), given[0]))
            check.fail(owner, "this episode", f"over since state {where}", "ended first (end_episode)")
        if state != last[5] and not moved:
            where = check.show(in_kind(last[5], task.state_names or (), given[0]))
            expected = f"{where}, where the step before led; moved=True if it was moved since"
            check.fail(owner, "state", check.show(given[0]), expected)
    if told.outcomes is not None:
        check_outcomes(owner, told.structure, np.array([state]), np.array([action]), np.array([to]))
    return Observed((t, state, prev, agent, action, to), charges(owner, task, state, action, to, cost, enter_cost))


def check_goes_on(owner: str, task: Task, state: int, given: Any) -> None:
    """Check that an episode goes on in a state: where it ends, nobody is in control. given: the index or name that was given."""
    if task.terminal and task.is_terminal[state]:
        check.fail(owner, "state", check.show(given), "one in which an episode goes on: it ends there")


def charges(owner: str, task: Task, state: int, action: int, to: int, cost: Any, enter_cost: Any) -> tuple[float, float]:
    """Check what the environment charged in a step; return it, for the action and for arriving."""
    given = tuple(
        None if one is None else np.array([check.number(owner, name, one)])
        for name, one in (("cost", cost), ("enter_cost", enter_cost))
    )
    move = (np.array([state]), np.array([action]), np.array([to]))
    if cost is not None or enter_cost is not None:
        check_known_costs(owner, task, *move, (given[0], given[1]))
    if not task.learns_costs:
        return float(task.env_cost[state, action]), 0.0 if task.enter_cost is None else float(task.enter_cost[to])
    found = charged(owner, task, *move, (given[0], given[1]))
    return float(found[0][0]), float(found[1][0])
