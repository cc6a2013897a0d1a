"""The relay: a corridor in sections, each of which only one agent can cross. No agent reaches the end alone.

A learner must find a way that no single agent takes. A learner for which unseen transitions are uniform may never find it.
"""

from typing import Any

import numpy as np

from cede._base import check
from cede.problem.model import Agent, Environment, Team, TwoLayerMDP

FORWARD, BACK = 0, 1
SKILL, CLUMSINESS = 0.9, 0.1  # probability of a step forward in the agent's own section, and in all others


def relay(agents: int = 4, *, section: int = 3, horizon: int = 200, switch_cost: Any = 0.0) -> TwoLayerMDP:
    """Return the problem with D = agents, a corridor of D * section cells, and an end.

    Every step in the corridor costs 1, the end costs nothing and is never left. Agent d steps forward with probability 0.9 in
    section d and 0.1 elsewhere; otherwise it steps back, from the first cell nowhere. agents: from 1 to 100. section: cells of a
    section, from 1 to 100. switch_cost: one number or (D, D).
    """
    owner = "relay"
    n_agents = check.integer(owner, "agents", agents, 1, 100)
    length = check.integer(owner, "section", section, 1, 100)
    end = n_agents * length
    cells = np.arange(end)
    transition = np.zeros((end + 1, 2, end + 1))
    transition[cells, FORWARD, cells + 1] = 1.0
    transition[cells, BACK, np.maximum(cells - 1, 0)] = 1.0
    transition[end, :, end] = 1.0
    cost = np.ones((end + 1, 2))
    cost[end] = 0.0
    names = [f"section {cell // length}, cell {cell % length}" for cell in cells]
    start = np.eye(end + 1)[0]
    environment = Environment(transition, cost, start, state_names=[*names, "end"], action_names=["forward", "back"])
    team = []
    for d in range(n_agents):
        forward = np.append(np.where(cells // length == d, SKILL, CLUMSINESS), 1.0)
        team.append(Agent(f"runner {d}", np.stack([forward, 1.0 - forward], axis=1)))
    return TwoLayerMDP(environment, Team(team, switch_cost), horizon)
