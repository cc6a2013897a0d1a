"""Never much worse than a baseline: what was seen of its cost and of deviating from it, and what that proves."""

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

UNDECIDED, DEVIATE, KEEP_TO = 0.0, 1.0, 2.0  # what was decided for the running episode

RECORD = np.dtype(
    [
        ("explored", np.float64),  # episodes in which the learner deviated,
        ("explored_cost", np.float64),  # what they cost,
        ("explored_squares", np.float64),  # and the squared differences of their costs from what was expected
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
    """What a learner needs that must never be much worse than a baseline. All arrays are empty where there is none."""

    policy: Int16s3  # (L, S, D) the baseline
    alpha: float  # the part of its cost that may be lost
    delta: float  # with this probability chance may deceive the learner
    start: Float1  # (S,) probabilities of the first state; empty: not known
    opposite: ModelArrays  # the learner's model with all costs negated
    value: Float3  # (L + 1, S, D) scratch
    record: Annotated[NDArray[np.void], RECORD, 1]  # (1,) what was seen so far


@unit(types.none, BaselineArrays, types.boolean, types.float64, types.float64)
def record_episode(baseline, followed, cost, most):
    """Record the cost of an episode, by what was decided for it before.

    most: what any episode can cost. followed: did it go as decided? One that was to keep to the baseline, and did not, counts
    among those that did as if it had cost nothing, and beside them as if it had cost the most: which episodes count must not
    depend on how they went.
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
    """Return how far a sum of random numbers from 0 to `size` is from the sum of their means, at most, to one side.

    It holds with probability 1 - delta whenever and however often one looks. squares: sum of squared differences from guesses
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
    """Return what deviating may have cost at most, how many times the baseline's cost that may be, and whether that is enough.

    By the costs of episodes so far, whatever the model; enough means for any policy in the next episode. Raises record.proven. Of n
    episodes, this one included, those that kept to the baseline cost what it costs. So the rest, e of them and this one, may cost
    (e + 1 + alpha n) times as much as an episode of the baseline. most: what an episode can cost.
    """
    if record.kept > 0.0:
        proven = (record.kept_cost - deviation(record.kept_squares, most, delta / 2)) / record.kept
        record.proven = max(record.proven, proven)
    spent = min(record.at_most_so_far, record.explored_cost + deviation(record.explored_squares, most, delta / 2))
    times = record.explored + 1.0 + alpha * (record.explored + record.kept + 1.0)
    return spent, times, spent + most <= times * record.proven


@kernel
def least_cost_within(model, policy, value, start, start_agent, scratch, thread):
    """Return the least that an episode of a policy can cost within what is believed.

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
    """Write the negated costs of control and hand-over. A hand-over that is not possible stays so: no policy has it."""
    control_cost, switch_cost = problem.control_cost, problem.switch_cost
    for s in range(control_cost.shape[0]):
        for d in range(control_cost.shape[1]):
            opposite.control_cost[s, d] = -control_cost[s, d]
    for s in range(switch_cost.shape[0]):
        for d in range(switch_cost.shape[1]):
            for to in range(switch_cost.shape[1]):
                opposite.switch_cost[s, d, to] = inf if switch_cost[s, d, to] == inf else -switch_cost[s, d, to]
