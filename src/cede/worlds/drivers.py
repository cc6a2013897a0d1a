"""The drivers of the lane driving task: humans of any noise, and the machine."""

from functools import cache
from importlib import resources

import numpy as np
from scipy.special import ndtr

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede.problem.model import Agent, Team, TwoLayerMDP
from cede.worlds import road

HORIZON = 10
MACHINE_FILE = "machine.npy"  # beside this module

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


@cache
def machine_policy() -> Floats:
    """Return the machine's policy, (10, S, 3), read-only: a probability for each time step, state and action; deterministic.

    It is what UCRL2 learned on roads that start without cars, as in the paper, and comes as data with the package (machine.npy:
    (10, S) uint8, the action at each time step in each state). `train_machine.py` made the data and can train other machines.

    In training it meets hardly any car, so it drives nearly as well as possible without traffic and badly in it.
    """
    with (resources.files("cede.worlds") / MACHINE_FILE).open("rb") as file:
        actions = np.load(file, allow_pickle=False)
    policy: Floats = np.eye(len(road.ACTIONS))[actions]
    policy.setflags(write=False)
    return policy


@cache
def machine_agent() -> Agent:
    """The machine as an agent: the same object for all teams, which keep its tables once."""
    return Agent("machine", machine_policy(), varies_with="time")
