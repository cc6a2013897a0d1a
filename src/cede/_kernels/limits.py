"""Limits of the shares of control, met by prices that are added to the control costs."""

from math import sqrt
from typing import Annotated

import numpy as np
from numba import types
from numpy.typing import NDArray

from cede._kernels.bundle import Bundle, Float1, Float2, Int1
from cede._kernels.compiling import unit

PRICE = np.dtype(
    [
        ("above", np.float64),  # of a step more than allowed
        ("below", np.float64),  # of a step less than demanded
        ("episodes", np.float64),  # since there are limits,
        ("steps", np.float64),  # and the steps that were taken in them
    ]
)


class Limits(Bundle):
    """Limits of the share of control of each member. All arrays are empty without limits."""

    least: Float1  # (members,) shares of the steps
    most: Float1  # (members,)
    acting: Int1  # (D,) the member who acts when each agent is in control
    control_cost: Float2  # (S or 1, D) what control costs by itself
    priced: Float2  # (S or 1, D) and with prices: control_cost of the problem that is planned for
    price: Float1  # (D,) with a horizon and a discount the prices instead, which are not discounted: a step is a step; else empty
    taken: Int1  # (members,) without horizon: steps of each since the plan was made; else empty
    ends_early: int  # 1: episodes may end before the horizon
    prices: Annotated[NDArray[np.void], PRICE, 1]  # (members,)


@unit(types.none, Limits)
def set_prices(limits):
    """Write the control costs with the prices of the limits.

    A step of member m costs above_m - below_m more. If the number of steps varies, limits are shares of the steps taken, so the
    price of every step is reduced by sum_m (above_m most_m - below_m least_m).
    """
    common = 0.0
    if limits.ends_early:
        for member in range(limits.most.size):
            price = limits.prices[member]
            common += price.above * limits.most[member] - price.below * limits.least[member]
    for d in range(limits.priced.shape[1]):
        price = limits.prices[limits.acting[d]]
        extra = (price.above - price.below) - common
        if limits.price.size > 0:
            limits.price[d], extra = extra, 0.0
        for s in range(limits.priced.shape[0]):
            limits.priced[s, d] = limits.control_cost[s, d] + extra


@unit(types.none, Limits, types.int64[::1], types.float64, types.float64)
def update_prices(limits, control, least, most):
    """After an episode, raise the price of members above their limit, and lower that of members below theirs.

    Projected gradient ascent on the dual of the limits, with steps of 1 / sqrt(k) times the range of costs: after K episodes shares
    miss their limits by O(1 / sqrt(K)) on average (Efroni, Mannor and Pirotta 2020). control: (members,) steps of each. least,
    most: the range of the cost of a step.
    """
    steps = 0.0
    for member in range(control.size):
        steps += control[member]
    for member in range(control.size):
        price = limits.prices[member]
        price.episodes += 1.0
        pace = (most - least if most > least else abs(most) if most != 0.0 else 1.0) / sqrt(price.episodes)
        price.steps += steps
        share, weight = control[member] / max(1.0, steps), steps * price.episodes / max(1.0, price.steps)  # longer than others?
        price.above = max(0.0, price.above + pace * weight * (share - limits.most[member]))
        price.below = max(0.0, price.below + pace * weight * (limits.least[member] - share))
