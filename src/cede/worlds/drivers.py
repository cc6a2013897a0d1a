"""The drivers of the lane driving task: a human who sees the cells ahead with noise, and a trained machine."""

from functools import cache
from importlib import resources
from math import exp, pi, sqrt

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede.problem.model import Agent, TwoLayerMDP
from cede.problem.model import solo as solo_problem
from cede.worlds import road

HORIZON = 10  # steps of an episode
MACHINE_FILE = "machine.npy"  # beside this module

# Nodes and weights of the trapezoidal rule on [-9, 9] for human_policy. The weights contain the normal density phi, which vanishes
# outside; for such an integrand the rule is exact to rounding. All is computed so that the bits are the same on every processor.
STEP = 0.125
NODES = np.arange(-72, 73) * STEP
WEIGHTS = np.array([STEP * exp(-0.5 * x * x) / sqrt(2 * pi) for x in NODES.tolist()])


def human_policy(sigma: float = 2.0) -> Floats:
    """Return the policy of a human driver, (S, 3): the probabilities of steering left, straight and right in each state.

    The human adds independent N(0, sigma^2) noise to the cost of each cell ahead and steers to the cell where the sum is least. A
    cell behind a wall cannot be reached. The probability that cell i, of cost c_i, is chosen is computed by quadrature:

        P(i) = integral of phi(x) prod_{j != i} Phi(-x - (c_i - c_j) / sigma) dx

    Without noise (sigma = 0) cells of equal cost are chosen with equal probability.
    """
    sigma = check.number("human_policy", "sigma", sigma, least=0.0)
    cost, which = distinct_views()
    if sigma == 0.0:
        least = cost == cost.min(axis=1, keepdims=True)
        policy = least / least.sum(axis=1, keepdims=True)
    else:
        from scipy.special import ndtr  # not at the top: worlds are quick to load

        with np.errstate(invalid="ignore"):
            gap = (cost[:, :, None] - cost[:, None, :]) / sigma  # [view, i, j]
        gaps, place = np.unique(gap, return_inverse=True)  # few different ones: there are four types of cells
        beaten = ndtr(-(NODES[:, None] + gaps))[:, place.reshape(gap.shape)]  # (nodes, views, i, j)
        beaten[..., range(3), range(3)] = 1.0
        policy = (beaten.prod(axis=3) * WEIGHTS[:, None, None]).sum(axis=0)  # in a fixed order, node by node
        policy[np.isinf(cost)] = 0.0
        policy /= policy.sum(axis=1, keepdims=True)  # the quadrature is off by some 1e-16
    result: Floats = policy[which]
    return result


@cache
def distinct_views() -> tuple[Floats, Ints]:
    """Return the different views of the cells ahead, as costs, (views, 3), infinite for walls; and the view in each state, (S,)."""
    views, which = np.unique(road.states().ahead, axis=0, return_inverse=True)
    return np.append(road.CELL_COST, np.inf)[views], which.ravel()


def solo(environment_traffic: tuple[float, float, float]) -> TwoLayerMDP:
    """Return the road as a problem for one driver: a switching problem in which switching is steering.

    environment_traffic: probabilities of the initial traffic levels no-car, light, heavy.
    """
    return solo_problem(road.environment(environment_traffic), HORIZON)


@cache
def machine_policy() -> Floats:
    """Return the machine's policy, (10, S, 3), read-only: the probability of each action at each time step in each state, 0 or 1.

    It is what UCRL2 learned on roads that start without cars, as in the paper, and comes as data with the package (machine.npy:
    (10, S) uint8, the action at each time step in each state). `studies/train_machine.py` made it, and trains other machines.

    There are hardly any cars in training, so it drives nearly as well as possible without traffic and badly in traffic.
    """
    with (resources.files("cede.worlds") / MACHINE_FILE).open("rb") as file:
        actions = np.load(file, allow_pickle=False)
    policy: Floats = np.eye(len(road.ACTIONS))[actions]
    policy.setflags(write=False)
    return policy


@cache
def machine_agent() -> Agent:
    """Return the machine as an agent, the same object for all teams, so that a fleet keeps its tables once."""
    return Agent("machine", machine_policy(), varies_with="time")
