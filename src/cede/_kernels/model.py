"""What a plan is made for: what is believed of the agents and of the environment, and what things cost."""

from cede._kernels.bundle import Bundle, Float1, Float2, Int1, Int2
from cede._kernels.tables import Table

# How an agent's policy varies: its row among the agent's slots is 0, t or prev_agent.
CONSTANT, BY_TIME, BY_PREV_AGENT = 0, 1, 2


class BeliefArrays(Bundle):
    """One layer as sets of distributions, one around each row of a table.

    The set of a row is the L1 ball of radius `width` around weight / total. If linear > 0 it is another one: around each outcome's
    probability p an interval of sqrt(2 p (1 - p) width) + linear width to both sides.
    """

    table: Table
    width: Float1  # (rows,)
    row: Int2  # agents: (slots, S); environment: (S, A): which row serves which place
    linear: float
    closed: int  # 1: the outcomes of a row, those of weight 0 too, are all that can be


class ProblemArrays(Bundle):
    """What things cost, and where each agent's rows are."""

    slot: Int1  # (D,) the first slot of each agent
    vary: Int1  # (D,) how it varies: CONSTANT, BY_TIME or BY_PREV_AGENT
    env_cost: Float2  # (S, A)
    control_cost: Float1  # (D,)
    switch_cost: Float2  # (D, D) [prev_agent, agent]


class ModelArrays(Bundle):
    """All that a plan follows from."""

    agents: BeliefArrays
    environment: BeliefArrays
    problem: ProblemArrays
