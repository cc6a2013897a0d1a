"""The drivers of the lane driving task: humans of any noise, and the machine."""

from functools import cache, lru_cache

import numpy as np
from scipy.special import ndtr

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede.fleet.simulate import play
from cede.learning.algorithms import ucrl2
from cede.planning.belief import Scale, StepDown
from cede.problem.model import Agent, Team, TwoLayerMDP
from cede.worlds import road

HORIZON = 10
REPLAN_EVERY = 10  # episodes of the machine's training that share one plan

# Gauss-Legendre nodes on [-9, 9]: the integrand varies on the scale 1, whatever sigma is, and vanishes outside.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(160)
NODES, WEIGHTS = 9.0 * NODES, 9.0 * WEIGHTS * np.exp(-0.5 * (9.0 * NODES) ** 2) / np.sqrt(2 * np.pi)


def human_policy(sigma: float = 2.0) -> Floats:
    """(S, 3): steers to the reachable cell whose cost plus N(0, sigma) noise is least; a cell behind a wall is out of reach.

    P(i is least) = integral of phi(x) prod_{j != i} Phi(-x - (c_i - c_j) / sigma) dx, by quadrature.
    """
    sigma = check.number("human_policy", "sigma", sigma, least=0.0)
    cost, which = views_ahead()
    if sigma == 0.0:
        least = cost == cost.min(axis=1, keepdims=True)
        policy = least / least.sum(axis=1, keepdims=True)
    else:
        with np.errstate(invalid="ignore"):
            gap = (cost[:, :, None] - cost[:, None, :]) / sigma  # [view, i, j]
        gaps, place = np.unique(gap, return_inverse=True)  # few: there are few kinds of cells
        beaten = ndtr(-(NODES + gaps[:, None]))[place.reshape(gap.shape)]  # (views, i, j, nodes)
        beaten[:, range(3), range(3)] = 1.0
        policy = beaten.prod(axis=2) @ WEIGHTS
        policy[np.isinf(cost)] = 0.0
        policy /= policy.sum(axis=1, keepdims=True)  # removes the quadrature's rounding, some 1e-16
    result: Floats = policy[which]
    return result


@cache
def views_ahead() -> tuple[Floats, Ints]:
    """(views, 3) the costs of the cells ahead, for everything that can be seen; and what is seen in each state."""
    views, which = np.unique(road.states().ahead, axis=0, return_inverse=True)
    return np.append(road.CELL_COST, np.inf)[views], which.ravel()


def solo(environment_traffic: tuple[float, float, float]) -> TwoLayerMDP:
    """A single learner's problem: one agent per action, free hand-overs, so that switching is steering."""
    n = len(road.states().level)
    steer = [Agent(name, np.tile(np.eye(3)[a], (n, 1))) for a, name in enumerate(road.ACTIONS)]
    return TwoLayerMDP(road.environment(environment_traffic), Team(steer), HORIZON)


@lru_cache(maxsize=4)
def machine_policy(episodes: int = 5000, seed: int = 2) -> Floats:
    """(10, S, 3): what UCRL2 learns on roads that start without cars, as in the paper; deterministic.

    It meets hardly any car in training, so it drives nearly as well as possible without traffic and badly in it. Radii are
    scaled as in the authors' code, the last plan with 0.01. Takes a second or two; kept for the rest of the process. Seeds
    differ: 1.08 to 1.10 times the best driver without cars, 1.7 to 2.1 times the human with them.
    """
    mdp = solo((1.0, 0.0, 0.0))
    scale = Scale(environment=StepDown(0.1, 0.01, episodes / 10, 0.01))
    learner = ucrl2(mdp.task, radius="same-form", scale=scale, replan=REPLAN_EVERY, seed=seed)
    play(mdp, learner, episodes, np.random.default_rng(seed), evaluate_every=episodes)
    learner.replan()
    steering = learner.plan.policy[:, :, 0]  # who was in control before does not matter here
    policy: Floats = np.eye(3)[steering]
    policy.setflags(write=False)
    return policy


@cache
def machine_agent() -> Agent:
    """The machine as an agent: the same object for all teams, which keep its tables once."""
    return Agent("machine", machine_policy(), varies_with="time")
