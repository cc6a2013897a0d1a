"""Limits of control in learners: prices that are added to the control costs and updated after every episode."""

from typing import TYPE_CHECKING

import numpy as np

from cede._base.arrays import Floats, Ints
from cede._kernels import limits as kernels
from cede.learners.promises import ShareLimits
from cede.problem.task import Task

if TYPE_CHECKING:
    from cede.learners.compiled import LearnerArrays


def limits_arrays(task: Task, limits: ShareLimits | None, control_cost: Floats) -> kernels.Limits:
    """Return limits in the form that kernels read; None gives empty arrays. control_cost: (S or 1, D), without prices."""
    least, most = (np.empty(0), np.empty(0)) if limits is None else (limits.least, limits.most)
    return kernels.Limits(
        least=least.copy(),
        most=most.copy(),
        acting=task.acting,
        control_cost=control_cost,
        priced=np.zeros(control_cost.shape if len(most) else (0, 0)),
        price=np.zeros(task.n_agents if len(most) and task.weighs_steps else 0),
        prices=np.zeros(len(most), dtype=kernels.PRICE),
        taken=np.zeros(len(most) if task.horizon is None else 0, dtype=np.int64),
        ends_early=int(bool(task.terminal)),
    )


def update_prices(task: Task, arrays: "LearnerArrays", agents: Ints) -> None:
    """Update the prices after an episode. agents: (n,) the agent in control in each step."""
    limits = arrays.limits
    if limits.most.size:
        control = np.bincount(task.acting[agents], minlength=len(task.members)).astype(np.int64)
        kernels.update_prices(limits, control, *task.ends_of_step_cost)


def prices_of_steps(task: Task, arrays: "LearnerArrays") -> Floats:
    """Return the price that `set_prices` adds to the cost of a step of each agent, (D,)."""
    prices, limits = arrays.limits.prices, arrays.limits
    common = float((prices["above"] * limits.most - prices["below"] * limits.least).sum()) if limits.ends_early else 0.0
    result: Floats = (prices["above"] - prices["below"])[task.acting] - common
    return result


def prices_by_name(task: Task, arrays: "LearnerArrays") -> dict[str, float]:
    """Return the price of limits per step of control, by member; empty without limits."""
    prices = arrays.limits.prices
    return dict(zip(task.members, (prices["above"] - prices["below"]).tolist(), strict=True)) if prices.size else {}
