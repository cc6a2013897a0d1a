"""Policy iteration (Howard 1960) under known tables, for plans without horizon: exact where iterating values is too slow.

Value iteration takes as many steps as choices are close to one another, if parts of a problem are apart or the discount is near 1.
Policy iteration solves the chain of a policy, improves the policy where the Bellman operator finds something better, and is at the
end after a few rounds. iteration.py does the same over sets of tables, for problems that are small enough.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cede._base.arrays import Floats, Policy
from cede.beliefs.belief import Belief
from cede.planning.chains import chain_of, chain_value
from cede.problem.task import Task

MOST_ROUNDS = 200
MOST_PLACES = 50_000  # beyond, a chain takes too much memory to be solved
ROUNDING = 64 * 2.0**-52

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
    discount, shape = task.layout.factor, policy.shape[1:]
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
