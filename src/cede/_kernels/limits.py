"""Shares of control within limits, met by prices that are added to what control costs."""

from math import inf, sqrt
from typing import Annotated

import numpy as np
from numba import types
from numpy.typing import NDArray

from cede._kernels.bundle import Bundle, Float1, Float2, Int1
from cede._kernels.compiling import kernel, unit

PRICE = np.dtype(
    [
        ("above", np.float64),  # of a step more than allowed
        ("below", np.float64),  # of a step less than demanded
        ("episodes", np.float64),  # since there are limits,
        ("steps", np.float64),  # and the steps that were taken in them
    ]
)


class Limits(Bundle):
    """How much control each member of the team may have. All arrays are empty where there are no limits."""

    least: Float1  # (members,) shares of the steps
    most: Float1  # (members,)
    acting: Int1  # (D,) the member who acts when each agent is in control
    control_cost: Float2  # (S or 1, D) what control costs by itself
    priced: Float2  # (S or 1, D) and with prices: control_cost of the problem that is planned for
    price: Float1  # (D,) with a horizon and a discount the prices instead, which are not discounted: a step is a step; else empty
    taken: Int1  # (members,) without horizon: steps of each since the plan was made; else empty
    ends_early: int  # 1: episodes may end before the horizon
    prices: Annotated[NDArray[np.void], PRICE, 1]  # (members,)


@kernel
def step_costs(least_cost, spread, least_enter, most_enter, control_cost, switch_cost, terminal):
    """Return the least and the most that a step can cost, hand-overs that are not possible left out.

    least_cost, spread: (S,) the least environment cost of each state, and how much more the dearest action costs. least_enter,
    most_enter: of arriving. control_cost, switch_cost, terminal: of the problem. After an end, a step that is left counts as one.
    """
    least, most, least_added, most_added = inf, -inf, 0.0, 0.0
    rows, priced = switch_cost.shape[0], control_cost.shape[0]
    for s in range(least_cost.size):
        if s < max(rows, priced):
            least_added, most_added = inf, -inf
            for prev in range(control_cost.shape[1]):
                for d in range(control_cost.shape[1]):
                    switching = switch_cost[min(s, rows - 1), prev, d]
                    if switching < inf:
                        added = control_cost[min(s, priced - 1), d] + switching
                        least_added = min(least_added, added)
                        most_added = max(most_added, added)
        if terminal.size > 0 and terminal[s]:
            least = min(least, least_cost[s])
            most = max(most, least_cost[s] + spread[s])
        else:
            least = min(least, least_cost[s] + least_added + least_enter)
            most = max(most, least_cost[s] + spread[s] + most_added + most_enter)
    return least, most


@unit(types.none, Limits)
def set_prices(limits):
    """Write what control costs with the prices of the shares.

    A share is one of the steps that are taken. If their number varies, each step, whoever acts in it, makes room for what is
    allowed of it, and needs what is demanded of it: that is taken off.
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
        price.steps += steps
        share, weight = control[member] / max(1.0, steps), steps * price.episodes / max(1.0, price.steps)  # longer than others?
        price.above = max(0.0, price.above + pace * weight * (share - limits.most[member]))
        price.below = max(0.0, price.below + pace * weight * (limits.least[member] - share))
