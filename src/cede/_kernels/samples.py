"""Tables sampled from what was seen: Dirichlet posteriors, row by row.

The prior of a row has `prior` pseudo-counts, spread evenly over its outcomes. Of agents, and of an environment whose outcomes are
known, all outcomes are sampled. Else most outcomes were never seen, and sampling them all would cost |S| per row. But a Dirichlet
with mass `prior` spread over |S| outcomes is a Dirichlet process, and so is what is left of it beside the outcomes seen: its mass
is broken into sticks (Sethuraman 1994), each for one outcome drawn at random, until less than `LEAST_STICK` is left. That takes
about 7 sticks for each pseudo-count; where there are no more states than that, all of them are sampled after all.
"""

from math import exp

import numpy as np

from cede._kernels.compiling import inlined, kernel
from cede._kernels.luck import next_log_gamma, next_uniform, stream_at

LEAST_STICK = 1e-3  # of the whole row


@inlined
def normalise(weight, first, last):
    """From logarithms to weights of which the largest is 1; their sum."""
    most = weight[first]
    for j in range(first + 1, last):
        most = max(most, weight[j])
    total = 0.0
    for j in range(first, last):
        weight[j] = exp(weight[j] - most)
        total += weight[j]
    return total


@inlined
def sample_closed(seen, c, layer, r, prior, stream):
    """Row r of a belief, all outcomes of which are known, from row c of what was seen."""
    start, n = layer.start[r], layer.size[r]
    for j in range(start, start + n):
        layer.weight[j] = prior / n
    for j in range(seen.start[c], seen.start[c] + seen.size[c]):
        layer.weight[start + seen.column[j]] += seen.weight[j]
    for j in range(start, start + n):
        stream, layer.weight[j] = next_log_gamma(stream, layer.weight[j])
    layer.total[r] = normalise(layer.weight, start, start + n)


@inlined
def sample_all(seen, r, layer, start, n_columns, prior, stream):
    """Row r of a belief with all its columns, from place `start` on."""
    layer.start[r] = start
    layer.size[r] = n_columns
    for j in range(n_columns):
        layer.column[start + j] = j
    sample_closed(seen, r, layer, r, prior, stream)


@inlined
def sample_open(seen, r, layer, start, n_columns, prior, sticks, stream):
    """Row r of a belief, any column of which may be an outcome; from place `start` on. Where it ends."""
    to = start
    for j in range(seen.start[r], seen.start[r] + seen.size[r]):
        layer.column[to] = seen.column[j]
        stream, layer.weight[to] = next_log_gamma(stream, seen.weight[j])
        to += 1
    stream, layer.weight[to] = next_log_gamma(stream, prior)
    total = normalise(layer.weight, start, to + 1)
    left = layer.weight[to]
    for i in range(sticks):
        stream, chance = next_uniform(stream)
        stream, place = next_uniform(stream)
        kept = left * chance ** (1.0 / prior)  # 1 - Beta(1, prior)
        last = kept < LEAST_STICK * total or i == sticks - 1
        layer.column[to] = np.int64(place * n_columns)
        layer.weight[to] = left if last else left - kept
        left = kept
        to += 1
        if last:
            break
    layer.start[r] = start
    layer.size[r] = to - start
    layer.total[r] = total
    return to


@kernel
def sample_tables(mind, seed):
    """Every row that is not known, each from numbers of its own: the order does not matter."""
    n_agents, columns = mind.counted_agents, mind.places.columns
    for r in range(mind.agents.start.size):
        case = mind.agents_case[r]
        if case < n_agents:
            sample_closed(mind.seen_agents, case, mind.agents, r, mind.prior, stream_at(seed, case))
    to = 0
    for r in range(mind.environment.start.size):
        case = mind.environment_case[r]
        stream = stream_at(seed, n_agents + case)  # by case: rows that share one are the same sample
        if case < mind.counted_environment:
            if mind.environment.closed:
                sample_closed(mind.seen_environment, case, mind.environment, r, mind.prior, stream)
            elif columns <= mind.sticks:
                sample_all(mind.seen_environment, r, mind.environment, to, columns, mind.prior, stream)
                to += columns
            else:
                to = sample_open(mind.seen_environment, r, mind.environment, to, columns, mind.prior, mind.sticks, stream)
