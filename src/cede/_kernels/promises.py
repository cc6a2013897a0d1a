"""What a learner promises beside low cost: shares of control within limits, and never to be much worse than a baseline."""

from math import inf, log, sqrt

import numpy as np

from cede._kernels.compiling import kernel
from cede._kernels.data import AT_MOST, AT_MOST_SO_FAR, DECIDED, DEVIATE, EXPLORED, FOLLOW, KEEP_TO, KEPT_TO, PROVEN
from cede._kernels.episodes import start_mean
from cede._kernels.passes import backward, begin


@kernel
def step_costs(least_cost, spread, control_cost, switch_cost):
    """The least and the most that a step can cost, hand-overs that are not possible left out."""
    least, most = inf, -inf
    for s in range(least_cost.size):
        least = min(least, least_cost[s])
        most = max(most, least_cost[s] + spread[s])
    least_added, most_added = inf, -inf
    for prev in range(control_cost.size):
        for d in range(control_cost.size):
            if switch_cost[prev, d] < inf:
                least_added = min(least_added, control_cost[d] + switch_cost[prev, d])
                most_added = max(most_added, control_cost[d] + switch_cost[prev, d])
    return least + least_added, most + most_added


@kernel
def set_prices(limits):
    """What control costs with the prices of the shares."""
    for d in range(limits.priced.size):
        member = limits.acting[d]
        limits.priced[d] = limits.own[d] + (limits.prices[0, member] - limits.prices[1, member])


@kernel
def update_prices(limits, control, least, most):
    """After an episode: what was more than allowed becomes dearer, what was less than demanded cheaper.

    Projected gradient ascent on the dual of the limits, with steps of 1 / sqrt(k) times the range of costs: after K episodes shares
    miss their limits by O(1 / sqrt(K)) on average (Efroni, Mannor and Pirotta 2020). control: (members,) steps of each. least,
    most: what a step can cost.
    """
    steps = 0.0
    for member in range(control.size):
        steps += control[member]
    for member in range(control.size):
        limits.prices[2, member] += 1.0
        pace = (most - least if most > least else 1.0) / sqrt(limits.prices[2, member])
        share = control[member] / max(1.0, steps)
        limits.prices[0, member] = max(0.0, limits.prices[0, member] + pace * (share - limits.most[member]))
        limits.prices[1, member] = max(0.0, limits.prices[1, member] + pace * (limits.least[member] - share))


@kernel
def note_cost(record, first, cost):
    """Record the cost of an episode; its difference from what was expected, the mean of those before."""
    n, total = record[first], record[first + 1]
    expected = total / n if n > 0.0 else 0.0
    record[first] = n + 1.0
    record[first + 1] = total + cost
    record[first + 2] += (cost - expected) ** 2


@kernel
def note_episode(record, followed, cost, most):
    """Record an episode, by what was decided for it before. most: what any episode can cost. followed: did it go as decided?

    One that was to keep to the baseline, and did not, counts among those that did as if it had cost nothing, and beside them as if
    it had cost the most: which episodes count must not depend on how they went.
    """
    if record[DECIDED] == KEEP_TO:
        note_cost(record, np.int64(KEPT_TO), cost if followed else 0.0)
        if not followed:
            record[EXPLORED + 1] += most
            record[AT_MOST_SO_FAR] += most
    else:
        note_cost(record, np.int64(EXPLORED), cost)
        record[AT_MOST_SO_FAR] += record[AT_MOST] if followed and record[DECIDED] == DEVIATE else most
    record[DECIDED] = 0.0


@kernel
def deviation(squares, size, delta):
    """How far a sum of random numbers from 0 to `size` is from the sum of their means, at most, to one side, with probability
    1 - delta whenever and however often one looks. squares: sum of squared differences from guesses made beforehand.

    For 0 < x < 1 the process exp(x sum / size - (-log(1 - x) - x) squares / size^2) is a supermartingale (Fan, Grama and Liu 2015);
    a mixture of those for x = 1/2, 1/4, ... with weights 1 / ((j + 1) (j + 2)) never exceeds 1 / delta but with probability delta.
    """
    best, x = inf, 0.5
    for j in range(40):
        penalty = (-log(1.0 - x) - x) * (squares / size**2)
        best = min(best, size * (log((j + 1.0) * (j + 2.0) / delta) + penalty) / x)
        x /= 2.0
    return best


@kernel
def proven_by_costs(record, most, alpha, delta):
    """By the costs of episodes so far: the most that deviating may have cost, how many times the baseline's cost that may be after
    this episode, and whether that is enough for any policy. Raises what the baseline is known to cost.

    Of n episodes, this one included, those that kept to the baseline cost what it costs. So the rest, e of them and this one, may
    cost (e + 1 + alpha n) times as much as an episode of the baseline. most: what an episode can cost.
    """
    explored, kept_to = record[EXPLORED], record[KEPT_TO]
    if kept_to > 0.0:
        proven = (record[KEPT_TO + 1] - deviation(record[KEPT_TO + 2], most, delta / 2)) / kept_to
        record[PROVEN] = max(record[PROVEN], proven)
    spent = min(record[AT_MOST_SO_FAR], record[EXPLORED + 1] + deviation(record[EXPLORED + 2], most, delta / 2))
    times = explored + 1.0 + alpha * (explored + kept_to + 1.0)
    return spent, times, spent + most <= times * record[PROVEN]


@kernel
def least_within(agents, environment, problem, policy, value, start, start_agent, room, hands):
    """The least that an episode of a policy can cost within what is believed. value: room to work. start: (S,), or empty: the
    least over all states.
    """
    begin(problem, np.int64(1), value, room)
    mode, seed, first, only = np.int64(FOLLOW), np.int64(0), np.int64(0), np.int64(-1)
    backward(agents, environment, problem, mode, policy, policy, value, value, seed, room, hands, first, only)
    if start.size > 0:
        return start_mean(start, value, start_agent)
    least = value[0, 0, start_agent]
    for s in range(value.shape[1]):
        least = min(least, value[0, s, start_agent])
    return least
