"""Shares of control within limits, met by prices that are added to what control costs."""

from math import inf, sqrt
from typing import Annotated

import numpy as np
from numba import types
from numpy.typing import NDArray

from cede._kernels.bundle import Bundle, Float1, Int1
from cede._kernels.compiling import kernel, unit

PRICE = np.dtype(
    [
        ("above", np.float64),  # of a step more than allowed
        ("below", np.float64),  # of a step less than demanded
        ("episodes", np.float64),  # since there are limits
    ]
)


class Limits(Bundle):
    """How much control each member of the team may have. All arrays are empty where there are no limits."""

    least: Float1  # (members,) shares of the steps
    most: Float1  # (members,)
    acting: Int1  # (D,) the member who acts when each agent is in control
    control_cost: Float1  # (D,) what control costs by itself
    priced: Float1  # (D,) and with prices: control_cost of the problem that is planned for
    prices: Annotated[NDArray[np.void], PRICE, 1]  # (members,)


@kernel
def step_costs(least_cost, spread, control_cost, switch_cost):
    """Return the least and the most that a step can cost, hand-overs that are not possible left out.

    least_cost, spread: (S,) the least environment cost of each state, and how much more the dearest action costs.
    """
    least, most = inf, -inf
    for s in range(least_cost.size):
        least = min(least, least_cost[s])
        most = max(most, least_cost[s] + spread[s])
    least_added, most_added = inf, -inf
    for prev in range(control_cost.size):
        for d in range(control_cost.size):
            if switch_cost[prev, d] < inf:
                least_added = min(least_added, control_cost[d] + switch_cost[prev, d])
                most_added = max(most_added, control_cost[d] + switch_cost[prev, d])
    return least + least_added, most + most_added


@unit(types.none, Limits)
def set_prices(limits):
    """Write what control costs with the prices of the shares."""
    for d in range(limits.priced.size):
        price = limits.prices[limits.acting[d]]
        limits.priced[d] = limits.control_cost[d] + (price.above - price.below)


@unit(types.none, Limits, types.int64[::1], types.float64, types.float64)
def update_prices(limits, control, least, most):
    """After an episode make dearer what was more than allowed, and cheaper what was less than demanded.

    Projected gradient ascent on the dual of the limits, with steps of 1 / sqrt(k) times the range of costs: after K episodes
    shares miss their limits by O(1 / sqrt(K)) on average (Efroni, Mannor and Pirotta 2020). control: (members,) steps of each.
    least, most: what a step can cost.
    """
    steps = 0.0
    for member in range(control.size):
        steps += control[member]
    for member in range(control.size):
        price = limits.prices[member]
        price.episodes += 1.0
        pace = (most - least if most > least else abs(most) if most != 0.0 else 1.0) / sqrt(price.episodes)
        share = control[member] / max(1.0, steps)
        price.above = max(0.0, price.above + pace * (share - limits.most[member]))
        price.below = max(0.0, price.below + pace * (limits.least[member] - share))
