"""Account of runs in Python: cost of steps, steps in control of each member, hand-overs."""

from typing import Any, NamedTuple

import numpy as np

from cede._base.arrays import Ints
from cede._kernels.account import cost_after_end, is_hand_over, total_cost
from cede.problem.task import Task


class CostParts(NamedTuple):
    """The parts of the cost of a step: numbers, or (n,) arrays for n steps."""

    env_cost: Any
    control_cost: Any
    switch_cost: Any
    enter_cost: Any
    cost_after_end: Any  # of the remaining steps of the horizon, if the episode ends with this step; else 0

    @property
    def total(self) -> Any:
        """Return the total cost of the step."""
        return total_cost(*self[:4]) + self.cost_after_end


def team_costs(task: Task, steps: Any) -> tuple[Any, Any]:
    """Return the costs of control and of the hand-over of a Step, or of Steps: those of the task, or what was charged where they
    are learned. An impossible hand-over costs its grab_cost, or 0 if that is unknown.
    """
    stated = task.control_costs(steps.state, steps.prev_agent, steps.agent)
    if not task.learns_team_costs:
        return stated
    control, switching = (
        np.where(np.isnan(cost), charge, cost) for cost, charge in zip(stated, (steps.control_cost, steps.switch_cost), strict=True)
    )
    return control, switching


def cost_parts(task: Task, steps: Any) -> CostParts:
    """Return the costs of a Step, or of Steps; those of the team as `team_costs` says."""
    control, switching = team_costs(task, steps)
    rest: Any = 0.0
    if task.terminal and task.horizon is not None:
        to, left = steps.next_state, task.layout.left[steps.t + 1]
        rest = np.where(task.is_terminal[to], cost_after_end(task.layout.factor, task.env_cost[to, 0], left), 0.0)
    return CostParts(steps.cost, control, switching, steps.enter_cost, rest)


def cost_of(task: Task, steps: Any) -> float:
    """Return the total cost of the Steps of an episode, discounted, added one by one as kernels do: the same bits."""
    total = cost_parts(task, steps).total
    weight = 1.0 if task.discount is None else np.cumprod(np.concatenate([[1.0], np.full(len(total) - 1, task.discount)]))
    return float(np.cumsum(weight * total)[-1])


class Account:
    """Adds up steps of episodes, or of a part of a run.

    task: the task of the steps. discount: the weight of a step relative to the previous step of the episode.
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
