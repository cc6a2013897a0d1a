"""The problem that a plan is made for: costs, where the rows of agents are, where and when an episode ends."""

import numpy as np

from cede._kernels.bundle import Bool1, Bundle, Float1, Float2, Float3, Int1, Int2
from cede._kernels.compiling import inlined

# How an agent's policy varies: its row among the agent's slots is 0, t or prev_agent.
CONSTANT, BY_TIME, BY_PREV_AGENT = 0, 1, 2
OBEYED, NO_ORDER = -1, -2  # what an order leads to, beside a row of outcomes (problem/takeover.py)


class ProblemArrays(Bundle):
    """The costs, the rows of each agent, the terminal states and the time of a problem."""

    slot: Int1  # (D,) the first slot of each agent
    vary: Int1  # (D,) how it varies: CONSTANT, BY_TIME or BY_PREV_AGENT
    env_cost: Float2  # (S, A)
    control_cost: Float2  # (S, D), or (1, D): the same in all states
    switch_cost: Float3  # (S, D, D) [s, prev_agent, agent], or (1, D, D)
    enter_cost: Float1  # (S,) cost of arriving in each state; empty: none
    terminal: Bool1  # (S,) whether an episode ends where it arrives; empty: nowhere
    left: Float1  # (L + 1,) what a cost of 1 in every step from t on adds up to
    period: Int1  # (L,) which block of S rows of environment.row holds at each time; empty: there is one
    price: Float1  # (D,) price of a step of each agent, not discounted, added to its cost; empty: none
    worth: Float1  # (L,) discount^-t, the weight of a price at time t; empty: no prices
    order: Int2  # (D, D) [prev_agent, order] the row of its outcomes; OBEYED: its own agent; NO_ORDER; empty: all are obeyed
    first_outcome: Int1  # (rows + 1,) of each row; empty where `order` is
    outcome: Int1  # (outcomes,) the next agent
    chance: Float1  # (outcomes,) and its probability
    discount: float  # the weight of a cost one step later; 1: no discount


@inlined
def ends_in(problem, s):
    """Return whether state s is terminal."""
    return problem.terminal.size > 0 and problem.terminal[s]


@inlined
def block_at(problem, t):
    """Return the first row of environment.row that holds at time t: that of state 0."""
    return problem.period[t] * problem.env_cost.shape[0] if problem.period.size > 0 else np.int64(0)
