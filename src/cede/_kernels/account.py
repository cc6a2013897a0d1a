"""The cost of a step and the definition of a hand-over: functions that run in NumPy and compile in kernels. Loads no Numba.

All arguments are numbers, or arrays for several steps.
"""

from typing import Any


def total_cost(env_cost: Any, control_cost: Any, switch_cost: Any, enter_cost: Any) -> Any:
    """Return the cost of a step (Eq. 1, and the cost of arriving), added in this order on every path: the same bits."""
    return env_cost + control_cost + switch_cost + enter_cost


def cost_after_end(discount: Any, env_cost: Any, left: Any) -> Any:
    """Return the cost of the remaining steps of the horizon after an early end, discounted to the step before them.

    env_cost: of each of them, in the terminal state. left: `Task.layout.left` at the time of arrival.
    """
    return discount * (env_cost * left)


def is_hand_over(aim: Any, prev_agent: Any, agent: Any) -> Any:
    """Return whether control is handed over: the member who has control, or is getting it, changes.

    aim: (D,) that member for each agent (`Task.layout.aim`). A slow hand-over has several agents in turn, but is one hand-over.
    """
    return aim[prev_agent] != aim[agent]
