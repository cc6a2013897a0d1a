"""Lane driving, the paper's obstacle avoidance task: a machine and a human share a car. The tables are in road.py."""

from typing import Any

from numpy.typing import ArrayLike

from cede import _check
from cede.model import Agent, Team, TwoLayerMDP
from cede.worlds import road
from cede.worlds.drivers import HORIZON, human_policy, machine_policy

MACHINE, HUMAN = 0, 1


def lane_driving(
    *,
    sigma: float = 2.0,
    control_cost: float = 0.0,
    switch_cost: Any = 0.0,
    traffic: Any = None,
    machine: ArrayLike | None = None,
) -> TwoLayerMDP:
    """A machine (agent 0, in control at the start) and a human driver (agent 1) share a car for ten steps.

    sigma: how noisily the human sees the cells ahead. control_cost: of the human, per step. traffic: the initial level, "no-car",
    "light", "heavy" or three probabilities; uniform by default. machine: a policy (10, S, 3), time-varying; by default one that
    was trained on roads that start without cars (`drivers.machine_policy`).
    """
    owner = "lane_driving"
    policy = machine_policy() if machine is None else machine
    return TwoLayerMDP(
        road.environment(road.traffic_mix(owner, traffic)),
        Team(
            [
                Agent("machine", policy, varies_with="time"),
                Agent("human", human_policy(sigma), control_cost=_check.number(owner, "control_cost", control_cost)),
            ],
            switch_cost,
        ),
        horizon=HORIZON,
        start_agent=MACHINE,
    )
