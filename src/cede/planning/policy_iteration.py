"""Policy iteration (Howard 1960), for plans and values without horizon: exact where iterating values is too slow.

Value iteration takes as many steps as choices are close to one another, if parts of a problem are apart or the discount is near 1.
Policy iteration solves the chain of a policy, improves the policy where the Bellman operator finds something better, and is at the
end after a few rounds. It is Newton's method for v = T v (Puterman and Brumelle 1979). Where tables are not known but lie in sets,
the tables that attain the minimum are the policy; their chain is the slope of T, which differences tell.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cede._base.arrays import Floats, Policy
from cede.planning.belief import Belief
from cede.planning.chains import chain_of, chain_value
from cede.problem.task import Task

MOST_ROUNDS = 200
MOST_PLACES = 50_000  # beyond, a chain takes too much memory to be solved
ROUNDING = 64 * 2.0**-52
MOST_NEWTON, MOST_SLOPES = 10, 400  # rounds of Newton's method, and places for which a slope is found
LEAST_NOISE = 1e-7  # by which values are moved to tell equal ones apart, relative to their range

Operator = Callable[[Task, Floats], tuple[Floats, NDArray[np.int16]]]  # (task, v) -> T v and the best agents, all (S, D)


@dataclass(frozen=True, eq=False)
class Improved:
    """A policy that cannot be improved any more, and its value."""

    policy: Policy  # (1, S, D)
    value: Floats  # (S, D)
    gain: float
    error: float


def improved(
    task: Task, agents: Belief, environment: Belief, policy: Policy, reached: NDArray[np.bool_], operator: Operator
) -> Improved | None:
    """Improve a policy, (1, S, D), until nothing is better but by rounding.

    agents, environment: tables that are known. reached: (S, D) the places that count. operator: the Bellman operator under these
    tables. Return None if there is no end, as for averages of a problem whose parts are apart.
    """
    discount, shape = task.factor, policy.shape[1:]
    if policy.size > MOST_PLACES:
        return None
    policy = policy.copy()
    for _ in range(MOST_ROUNDS):
        chain = chain_of(task, agents, environment, policy)
        found = chain_value(chain.matrix, chain.cost, discount)
        level, relative = found.level.reshape(shape), found.relative.reshape(shape)
        base, most = level[reached].min(), np.abs(chain.cost).max()
        if task.discount is not None:
            x = relative + (level - base) / (1.0 - discount)
            image, best = operator(task, x)
            gained = x - (image - base)
        elif level[reached].max() - base > ROUNDING * most:  # the long run depends on where it begins: first improve that
            x = level
            image, best = operator(task.only_costs(), x)
            gained = x - image
            if not (gained[reached] > ROUNDING * most).any():
                return None
        else:
            x = relative
            image, best = operator(task, x)
            gained = x - (image - base)
        noise = ROUNDING * max(most, np.abs(x[reached]).max())
        better = reached & (gained > noise) & (best != policy[0])
        if not better.any():
            least = max(0.0, float(gained[reached].max()))
            if task.discount is None:
                return Improved(policy, x - x[reached][0], float(base), least)
            return Improved(policy, x + base / (1.0 - discount), 0.0, least / (1.0 - discount))
        policy[0][better] = best[better]
    return None


def by_newton(operator: Callable[[Floats], Floats], value: Floats, discount: float, accuracy: float) -> tuple[Floats, float]:
    """Find the fixed point of a Bellman operator over sets of tables, with a discount, from a value near it, (S, D).

    operator: v -> T v. It is concave, and T (v + c) = T v + discount c. Return the value, and how far it may be from the fixed
    point (MacQueen's bounds). accuracy: an error that is small enough.
    """
    n, shape = value.size, value.shape
    best, least, factor, rng = value, np.inf, discount / (1.0 - discount), np.random.default_rng(0)
    for i in range(MOST_NEWTON):
        base = value.flat[0]
        x = value - base
        image = operator(x)
        gained = image - x - (1.0 - discount) * base  # T v - v
        error = 0.5 * factor * float(np.ptp(gained))
        if error < least:
            best, least = value + gained + factor * 0.5 * (gained.min() + gained.max()), error
        if error <= max(accuracy, factor * ROUNDING / 16.0 * float(np.abs(image).max())):
            break
        noise = max(10.0 ** -(4 + i), LEAST_NOISE) * max(float(np.ptp(x)), float(np.abs(image).max()), 1e-300)
        size = noise * 1e-2
        near = x + noise * rng.random(shape)  # where places cost the same, one of them is the better one
        image = operator(near)
        slope = np.empty((n, n))  # [place, next place]: the chain of the tables that attain the minimum
        for j in range(n):
            moved = near.copy()
            moved.flat[j] += size
            slope[:, j] = (operator(moved) - image).ravel()
        slope = np.maximum(slope, 0.0)
        slope /= slope.sum(axis=1, keepdims=True)
        value = value + np.linalg.solve(np.eye(n) - discount * slope, gained.ravel()).reshape(shape)
    return best, least
