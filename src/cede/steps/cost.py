"""What steps cost, who was in control, and how often control was handed over: the one account of runs in Python."""

from typing import Any, NamedTuple

import numpy as np

from cede._base.arrays import Ints
from cede._kernels.account import cost_after_end, is_hand_over, total_cost
from cede.problem.task import Task


class CostParts(NamedTuple):
    """What a step consists of: numbers, or (n,) arrays for n steps."""

    env_cost: Any
    control_cost: Any
    switch_cost: Any
    enter_cost: Any
    cost_after_end: Any  # of the steps that are left of the horizon, if the episode ends with this step; else 0

    @property
    def total(self) -> Any:
        """Return the cost of the step, with what comes after an end."""
        return total_cost(*self[:4]) + self.cost_after_end


def cost_parts(task: Task, steps: Any) -> CostParts:
    """Return what a Step, or Steps, cost. A hand-over that is not possible by the task costs its grab_cost, or nothing."""
    control, switching = task.control_costs(steps.state, steps.prev_agent, steps.agent)
    rest: Any = 0.0
    if task.terminal and task.horizon is not None:
        to, left = steps.next_state, task.layout.left[steps.t + 1]
        rest = np.where(task.is_terminal[to], cost_after_end(task.layout.factor, task.env_cost[to, 0], left), 0.0)
    return CostParts(steps.cost, control, switching, steps.enter_cost, rest)


class Account:
    """Adds up steps of episodes, or of a part of a run.

    task: whose steps they are. discount: the weight of a step, relative to the step before it in the episode.
    """

    def __init__(self, task: Task, discount: float = 1.0) -> None:
        self.task, self.discount = task, discount
        self.cost, self.weight = 0.0, 1.0
        self.control: Ints = np.zeros(len(task.members), dtype=np.int64)  # (members,) steps in which each acted
        self.switches, self.steps = 0, 0  # hand-overs, steps

    def begin(self) -> None:
        """Begin an episode: its first step has weight 1."""
        self.weight = 1.0

    def add(self, step: Any) -> None:
        """Add a Step."""
        self.cost += self.weight * float(cost_parts(self.task, step).total)
        self.weight *= self.discount
        self.control[self.task.acting[step.agent]] += 1
        self.switches += int(is_hand_over(self.task.layout.aim, step.prev_agent, step.agent))
        self.steps += 1
