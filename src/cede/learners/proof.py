"""Proofs that a learner is not much worse than its baseline, from the costs of episodes that kept to it or deviated."""

from math import inf, log
from typing import Annotated

import numpy as np
from numba import types
from numpy.typing import NDArray

from cede._kernels.bundle import Bundle, Float1, Float3, Int16s3
from cede._kernels.compiling import kernel, unit
from cede._kernels.problem import ProblemArrays
from cede.planning.backup import FOLLOW, backward, begin, start_mean
from cede.planning.model import ModelArrays

UNDECIDED, DEVIATE, KEEP_TO = 0.0, 1.0, 2.0  # decision for the running episode

RECORD = np.dtype(
    [
        ("explored", np.float64),  # episodes in which the learner deviated,
        ("explored_cost", np.float64),  # the sum of their costs,
        ("explored_squares", np.float64),  # and of squared differences of their costs from the mean before
        ("kept", np.float64),  # the same of the episodes in which it kept to the baseline
        ("kept_cost", np.float64),
        ("kept_squares", np.float64),
        ("proven", np.float64),  # the baseline costs at least this
        ("decided", np.float64),  # UNDECIDED, DEVIATE or KEEP_TO
        ("at_most", np.float64),  # the running episode costs at most this, if the learner deviates
        ("at_most_so_far", np.float64),  # sum of `at_most` over earlier episodes
    ]
)


class BaselineArrays(Bundle):
    """The baseline of a learner, and the record of its episodes. All arrays are empty without a baseline."""

    policy: Int16s3  # (L, S, D) the baseline
    alpha: float  # the fraction of its cost that may be lost
    delta: float  # probability that the proof is wrong
    start: Float1  # (S,) probabilities of the first state; empty: not known
    plain: ModelArrays  # the learner's model without the prices of limits; the same bundle if there are none
    opposite: ModelArrays  # that model with all costs negated
    value: Float3  # (L + 1, S, D) scratch
    record: Annotated[NDArray[np.void], RECORD, 1]  # (1,) of the episodes so far


@unit(types.none, BaselineArrays, types.boolean, types.float64, types.float64)
def record_episode(baseline, followed, cost, most):
    """Record the cost of an episode, by the decision that was made before it.

    most: greatest cost of an episode. followed: whether it went as decided. Whether an episode counts must not depend on its
    course. So an episode that should have kept to the baseline, and did not, counts twice: as one that kept to it at cost 0, and
    among those that deviated with cost `most`.
    """
    record = baseline.record[0]
    if record.decided == KEEP_TO:
        counted = cost if followed else 0.0
        expected = record.kept_cost / record.kept if record.kept > 0.0 else 0.0
        record.kept += 1.0
        record.kept_cost += counted
        record.kept_squares += (counted - expected) ** 2
        if not followed:
            record.explored_cost += most
            record.at_most_so_far += most
    else:
        expected = record.explored_cost / record.explored if record.explored > 0.0 else 0.0
        record.explored += 1.0
        record.explored_cost += cost
        record.explored_squares += (cost - expected) ** 2
        record.at_most_so_far += record.at_most if followed and record.decided == DEVIATE else most
    record.decided = UNDECIDED


@kernel
def deviation(squares, size, delta):
    """Return a one-sided bound on the distance between a sum of random numbers from 0 to `size` and the sum of their means.

    It holds with probability 1 - delta at all times at once. squares: sum of squared differences from predictions
    made beforehand. For 0 < x < 1 the process exp(x sum / size - (-log(1 - x) - x) squares / size^2) is a supermartingale (Fan,
    Grama and Liu 2015); a mixture of those for x = 1/2, 1/4, ... with weights 1 / ((j + 1) (j + 2)) exceeds 1 / delta with
    probability delta.
    """
    best, x = inf, 0.5
    for j in range(40):
        penalty = (-log(1.0 - x) - x) * (squares / size**2)
        best = min(best, size * (log((j + 1.0) * (j + 2.0) / delta) + penalty) / x)
        x /= 2.0
    return best


@kernel
def proven_by_costs(record, most, alpha, delta):
    """Return an upper bound on the cost of deviating so far, the allowed multiple of the baseline's cost, and whether any policy
    is allowed in the next episode.

    Uses the costs of episodes so far, not the model. Raises record.proven. Of n episodes, this one included, e earlier ones
    deviated. These e and this one may together cost (e + 1 + alpha n) times as much as an episode of the baseline. most: greatest
    cost of an episode.
    """
    if record.kept > 0.0:
        proven = (record.kept_cost - deviation(record.kept_squares, most, delta / 2)) / record.kept
        record.proven = max(record.proven, proven)
    spent = min(record.at_most_so_far, record.explored_cost + deviation(record.explored_squares, most, delta / 2))
    times = record.explored + 1.0 + alpha * (record.explored + record.kept + 1.0)
    return spent, times, spent + most <= times * record.proven


@kernel
def least_cost_within(model, policy, value, start, start_agent, scratch, thread):
    """Return the least cost of an episode of a policy within the confidence sets.

    value: scratch. start: (S,), or empty: then the least over all states.
    """
    begin(model.problem, np.int64(1), value, scratch)
    none = np.int64(0)
    backward(model, np.int64(FOLLOW), policy, policy, value, value, none, scratch, thread, none)
    if start.size > 0:
        return start_mean(start, value, start_agent)
    least = value[0, 0, start_agent]
    for s in range(value.shape[1]):
        least = min(least, value[0, s, start_agent])
    return least


@unit(types.none, ProblemArrays, ProblemArrays)
def negate_costs(problem, opposite):
    """Write the negated costs of control and hand-over. Impossible hand-overs stay at infinity."""
    control_cost, switch_cost = problem.control_cost, problem.switch_cost
    for s in range(control_cost.shape[0]):
        for d in range(control_cost.shape[1]):
            opposite.control_cost[s, d] = -control_cost[s, d]
    for s in range(switch_cost.shape[0]):
        for d in range(switch_cost.shape[1]):
            for to in range(switch_cost.shape[1]):
                opposite.switch_cost[s, d, to] = inf if switch_cost[s, d, to] == inf else -switch_cost[s, d, to]
