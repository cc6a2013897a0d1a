"""A task in the form that compiled code reads. It loads Numba, which `cede.Task` does not need."""

import numpy as np

from cede._base.arrays import Floats
from cede._kernels.problem import ProblemArrays
from cede.problem.task import Task


def problem_of(task: Task, env_cost: Floats | None = None, prices: Floats | None = None) -> ProblemArrays:
    """Return a task in the form that compiled code reads; unknown costs of arriving and of the team are at their least.

    env_cost: (S, A), instead of the task's. prices: as for `best_plan`.
    """
    n_agents, control_cost = task.n_agents, task.extremes("control_cost")[0]
    if prices is not None and not task.weighs_steps:
        control_cost, prices = control_cost + prices, None
    return ProblemArrays(
        slot=task.layout.slot,
        vary=task.layout.vary,
        env_cost=task.env_cost if env_cost is None else env_cost,
        control_cost=control_cost.reshape(-1, n_agents),
        switch_cost=task.extremes("switch_cost")[0].reshape(-1, n_agents, n_agents),
        enter_cost=np.empty(0) if task.enter_cost is None else task.extremes("enter_cost")[0],
        terminal=task.is_terminal if task.terminal else np.empty(0, dtype=np.bool_),
        left=task.layout.left,
        period=np.empty(0, dtype=np.int64) if task.periods is None else task.periods,
        price=np.empty(0) if prices is None else np.require(prices, np.float64, ["C"]),
        worth=np.empty(0) if prices is None else worth_of(task),
        order=task.roles.orders.row,
        first_outcome=task.roles.orders.first,
        outcome=task.roles.orders.agent,
        chance=task.roles.orders.chance,
        discount=task.layout.factor,
    )


def worth_of(task: Task) -> Floats:
    """Return discount^-t, (L,): the factor by which a price, which is not discounted, outweighs the costs of time t."""
    result: Floats = task.layout.factor ** -np.arange(float(task.plan_steps))
    return result
