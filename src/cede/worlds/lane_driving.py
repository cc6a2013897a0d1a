"""Lane driving, the paper's obstacle avoidance task: a machine and a human share a car.

The states, costs and probabilities of the road are in road.py, the two drivers in drivers.py.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Ints, Policy
from cede.problem.model import Agent, Team, TwoLayerMDP
from cede.problem.policies import checked_switching_policy
from cede.problem.structure import Outcomes, Structure
from cede.steps.cost import Account
from cede.steps.loop import play
from cede.steps.step import Step
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
    """Return the problem in which a machine (agent 0, in control at the start) and a human (agent 1) share a car for ten steps.

    sigma: the noise of the human, who sees the costs of the cells ahead with normal errors of this standard deviation.
    control_cost: the cost of each step in which the human is in control. switch_cost: one number, or (2, 2) [prev_agent, agent].
    traffic: the initial traffic level, "no-car", "light", "heavy", or three probabilities; uniform by default. machine: a policy
    (10, S, 3), one table for each time step; by default one that was trained on roads that start without cars
    (`drivers.machine_policy`).
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
        structure=lane_structure(),
    )


@cache
def lane_structure() -> Structure:
    """Return the structure of the human (`human_cases`) and of the road (`road.outcomes`); the same object for all teams."""
    return Structure({"human": human_cases()}, road.outcomes())


def human_cases() -> Outcomes:
    """Return the states in which a human acts alike: those with the same three types of cells ahead, in any order.

    The cells are sorted by type, which is by cost. Outcome i of a case is to steer to the i-th of the sorted cells. There are 30
    cases instead of 1,152 states.
    """

    def look(ahead: tuple[int, ...]) -> tuple[tuple[int, ...], dict[int, int]]:
        """Return the case, and the action that leads to each of the sorted cells."""
        ways = sorted((cell, action) for action, cell in enumerate(ahead))
        return tuple(cell for cell, _ in ways), {place: action for place, (_, action) in enumerate(ways)}

    return Outcomes.of_agent([tuple(view) for view in road.states().ahead.tolist()], range(3), look)


def lane_driving_teams(n: int, *, seed: int = 0, control_cost: float = 0.0, switch_cost: Any = 0.0) -> list[TwoLayerMDP]:
    """Return the paper's n teams: the same machine and road, each team with a human of its own noise, uniform in (0, 4).

    seed: of the humans' noise. control_cost, switch_cost: as in `lane_driving`, the same for all teams.
    """
    n, seed = check.integer("lane_driving_teams", "n", n, 1), check.integer("lane_driving_teams", "seed", seed, 0)
    sigmas = np.random.default_rng([seed, 4]).uniform(0, 4, size=n)
    return [lane_driving(sigma=float(sigma), control_cost=control_cost, switch_cost=switch_cost) for sigma in sigmas]


@dataclass(frozen=True, eq=False)
class Drive:
    """One episode of lane driving along a given road."""

    road: road.Road
    lanes: Ints  # (L + 1,) the car's lane in each row: 0 left, 1 middle, 2 right
    agents: Ints  # (L,) the member of the team who drove from each row to the next
    cost: float  # the sum of environment, control and switching costs


def drive(mdp: TwoLayerMDP, policy: ArrayLike, along: road.Road, seed: int | np.random.Generator = 0) -> Drive:
    """Drive along a given road by a switching policy, (L, S, D), and return the drive.

    along: a road of L + 1 rows, from `road.sample_road`. seed: for the drivers' actions; the road is given.
    """

    task = check.instance("drive", "mdp", mdp, TwoLayerMDP).task
    check.instance("drive", "along", along, road.Road)
    switching = checked_switching_policy("drive", task, policy)
    if len(along.levels) != task.horizon + 1:
        check.fail("drive", "the number of rows of the road", len(along.levels), str(task.horizon + 1))
    way = OnRoad(mdp, switching, along, check.generator("drive", "seed", seed))
    account = Account(task)
    play(way, account, way.state(0), int(task.start_agent), task.horizon)
    return Drive(along, np.array(way.lanes), task.acting[way.agents], account.cost)


class OnRoad:
    """A given road, on which a switching policy puts drivers in control, for `steps.loop.play`."""

    def __init__(self, mdp: TwoLayerMDP, policy: Policy, along: road.Road, rng: np.random.Generator) -> None:
        self.mdp, self.task, self.policy, self.along, self.rng = mdp, mdp.task, policy, along, rng
        self.learner = self  # it learns nothing
        self.lanes, self.agents = [1], list[int]()

    def state(self, t: int) -> int:
        """Return the state of the car in row t; nothing follows the last row, whose state is that of the row before."""
        row = min(t, self.task.plan_steps - 1)
        return road.state_on(self.along, row, self.lanes[row])

    def choose(self, t: int, state: int, prev_agent: int) -> int:
        """Return the agent that the policy puts in control."""
        return int(self.policy[t, state, prev_agent])

    def act(self, t: int, state: int, prev_agent: int, agent: int) -> tuple[Step, bool]:
        """Let the agent steer; return the step, and whether the road is over with it."""
        policy = self.mdp.policies[self.task.table[agent]]
        chances = policy[t, state] if policy.ndim == 3 else policy[state]
        action = int(self.rng.choice(self.task.n_actions, p=chances))
        self.lanes.append(int(road.target_lane(self.lanes[-1], action)))
        self.agents.append(agent)
        cost = float(self.task.env_cost[state, action])
        return Step(t, state, prev_agent, agent, action, self.state(t + 1), cost), t + 1 == self.task.horizon

    def charged(self, step: Step) -> dict[str, float]:
        """Return the costs of the environment."""
        return {"cost": step.cost, "enter_cost": step.enter_cost}

    def observe(self, *step: int, **costs: float) -> None:
        """Learn nothing."""
