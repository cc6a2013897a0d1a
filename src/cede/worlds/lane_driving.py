"""Lane driving, the paper's obstacle avoidance task: a machine and a human share a car. The tables are in road.py."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Ints
from cede.problem.model import Agent, Team, TwoLayerMDP
from cede.problem.structure import Outcomes, Structure
from cede.worlds import road
from cede.worlds.drivers import HORIZON, human_policy, machine_agent

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
    return TwoLayerMDP(
        road.environment(road.traffic_mix(owner, traffic)),
        Team(
            [
                machine_agent() if machine is None else Agent("machine", machine, varies_with="time"),
                Agent("human", human_policy(sigma), control_cost=check.number(owner, "control_cost", control_cost)),
            ],
            switch_cost,
        ),
        horizon=HORIZON,
        start_agent=MACHINE,
        structure=what_is_alike(),
    )


@cache
def what_is_alike() -> Structure:
    """What may be declared: a human sees the three cells ahead and steers by what they are, wherever that is; what comes next
    depends on the traffic level and the new lane.
    """
    return Structure({"human": views()}, road.outcomes())


def views() -> Outcomes:
    """What a human sees: the cells ahead, the cheapest first. 30 cases instead of 1,152 states."""

    def look(ahead: tuple[int, ...]) -> tuple[tuple[int, ...], dict[int, int]]:
        ways = sorted((cell, action) for action, cell in enumerate(ahead))
        return tuple(cell for cell, _ in ways), {place: action for place, (_, action) in enumerate(ways)}

    return Outcomes.of_agent([tuple(view) for view in road.states().ahead.tolist()], range(3), look)


def lane_driving_teams(n: int, *, seed: int = 0, control_cost: float = 0.0, switch_cost: Any = 0.0) -> list[TwoLayerMDP]:
    """The paper's teams: humans of different noise, sigma uniform in (0, 4), with one machine on one road."""
    n, seed = check.integer("lane_driving_teams", "n", n, 1), check.integer("lane_driving_teams", "seed", seed, 0)
    sigmas = np.random.default_rng([seed, 4]).uniform(0, 4, size=n)
    return [lane_driving(sigma=float(sigma), control_cost=control_cost, switch_cost=switch_cost) for sigma in sigmas]


@dataclass(frozen=True, eq=False)
class Drive:
    """A drive along one road."""

    road: road.Road
    lanes: Ints  # (L + 1,) lane in each row
    agents: Ints  # (L,) who drove from each row to the next
    cost: float  # environment, control and switching cost


def drive(mdp: TwoLayerMDP, policy: ArrayLike, along: road.Road, seed: int | np.random.Generator = 0) -> Drive:
    """Follow a switching policy along a given road (a row more than the horizon)."""
    from cede.planning.planner import checked_policy  # not at the top: worlds are built without loading the planner

    task = mdp.task
    switching = checked_policy("drive", task, policy)
    if len(along.levels) != task.horizon + 1:
        check.fail("drive", "the number of rows of the road", len(along.levels), str(task.horizon + 1))
    rng = np.random.default_rng(seed)
    lanes, agents, cost = [1], [int(task.start_agent)], 0.0
    for t in range(task.horizon):
        state = road.state_on(along, t, lanes[-1])
        prev, agent = agents[-1], int(switching[t, state, agents[-1]])
        policy_now = mdp.policies[task.table[agent]]
        chances = policy_now[t, state] if policy_now.ndim == 3 else policy_now[state]
        action = int(rng.choice(task.n_actions, p=chances))
        cost += task.step_cost(state, prev, agent, action)
        lanes.append(int(road.target_lane(lanes[-1], action)))
        agents.append(agent)
    return Drive(along, np.array(lanes), task.acting[agents[1:]], float(cost))
