"""A finite horizon: the Bellman operator from the last step to the first."""

import numpy as np
from numba import types

from cede._kernels.compiling import kernel, unit
from cede._kernels.problem import BY_PREV_AGENT, BY_TIME
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede.planning.backup import FOLLOW, PHASES, backup
from cede.planning.model import ModelArrays

POLICY, VALUE = types.int16[:, :, ::1], types.float64[:, :, ::1]


@kernel
def find_same_start(switch_cost, vary, first_state, last_state, same_start):
    """Write to same_start[prev] the first previous agent from whom every hand-over costs the same: from there all is the same.

    switch_cost: (S or 1, D, D), of which the states from first_state to last_state (exclusive) are compared.
    """
    n_agents = same_start.size
    for prev in range(n_agents):
        same_start[prev] = prev
        for first in range(prev):
            equal = True
            for s in range(first_state, last_state):
                for d in range(n_agents):
                    equal = equal and switch_cost[s, prev, d] == switch_cost[s, first, d] and vary[d] != BY_PREV_AGENT
                if not equal:
                    break
            if equal:
                same_start[prev] = first
                break


@kernel
def begin(problem, afresh, value, scratch):
    """Prepare a pass, before its threads start. afresh: 1, or 0 where value, (L + 1, S, D), holds the cost of a known policy."""
    horizon, changed, busy, taken, done = scratch.busy.size, scratch.changed, scratch.busy, scratch.taken, scratch.done
    find_same_start(problem.switch_cost, problem.vary, np.int64(0), problem.switch_cost.shape[0], scratch.same_start)
    for i in range(taken.size):
        taken[i] = 0
        done[i] = 0
    for t in range(horizon):
        busy[t] = afresh
        changed[t] = afresh
    changed[horizon] = afresh
    for s in range(value.shape[1]):
        for d in range(value.shape[2]):
            value[horizon, s, d] = 0.0
    scratch.stamp += horizon


@unit(types.int64, ModelArrays, types.int64, POLICY, POLICY, VALUE, VALUE, types.int64, PassScratch, ThreadScratch, types.int64)
def backward(model, mode, policy, before, value, source, seed, scratch, thread, phase):
    """Apply `backup` from the last step to the first, after `begin`; any number of threads may run it side by side.

    value: (L + 1, S, D), written. policy: (L, S, D), written, or with FOLLOW read. source: where v_{t+1} comes from: value
    itself, or with RAISE the values to be raised. before: see `backup`. Starts at `phase`, counted over all steps, and returns
    the phase after the last, or the one in which it waited too long for another thread.
    """
    horizon = policy.shape[0]
    same_rows = mode != FOLLOW and model.problem.period.size == 0  # are the rows that are needed the same at all times?
    for d in range(model.problem.vary.size):
        same_rows = same_rows and model.problem.vary[d] != BY_TIME
    none = np.int64(-1)
    while phase < PHASES * horizon:
        t = horizon - 1 - phase // PHASES
        here = phase % PHASES
        reached = backup(
            model, mode, t, source[t + 1], value[t], policy[t], before[t], source[t], seed, scratch, thread, none, same_rows, here
        )
        phase += reached - here
        if reached < PHASES:
            break
    return phase


@kernel
def start_mean(start, value, start_agent):
    """Return the expected cost of an episode: the mean of v_0(., start_agent) over the start distribution."""
    total = 0.0
    for s in range(start.size):
        total += start[s] * value[0, s, start_agent]
    return total


@kernel
def run_backward(model, mode, policy, value, seed, scratch, thread, phase):
    """Run the kernel `backward` on one policy and one value; this wrapper can be called from Python."""
    return backward(model, mode, policy, policy, value, value, seed, scratch, thread, phase)
