"""No horizon: the fixed point of the Bellman operator T, with a discount or for the average cost of a step.

With f = T x - x, low = min f and high = max f, whatever x is,

    discount g < 1    T x + g / (1 - g) low <= v* <= T x + g / (1 - g) high       (MacQueen 1966; Porteus 1971)
    average           low <= cost of a step in the long run <= high                (Odoni 1969)

and the policy that attains T x is as good as these bounds, too. So x may be chosen in any way that lets high - low become small:
we go to the middle of the bounds, for averages a part of the way only, which makes periodic chains safe. Such a step never widens
the bounds. From the last few points we extrapolate (Anderson 1965); what widens the bounds is taken back, and after each such try
we wait twice as long until the next one. The bounds at the end are the certificate.
"""

import numpy as np
from numba import types

from cede._kernels.backup import backup
from cede._kernels.backward import find_same_start
from cede._kernels.bundle import Bundle, Float2, Float3
from cede._kernels.compiling import kernel, unit
from cede._kernels.model import ModelArrays, ends_in
from cede._kernels.scratch import PassScratch, ThreadScratch

MEMORY = 6  # points that are remembered
PART = 0.8  # for averages: how much of the way is gone at once
MOST_WAIT = 1024  # steps between two tries to extrapolate, at most
GAINED = 0.99  # bounds that have not come closer by this factor for `patience` steps never will
ROUNDING = 32 * 2.0**-52  # of a value: bounds that are closer than this cannot be improved
FLAT = 1e-12  # relative: directions shorter than this are left out of an extrapolation

POLICY_NOW, VALUES = types.int16[:, ::1], types.float64[:, :, ::1]


class Endless(Bundle):
    """Scratch arrays of a fixed point, and what was found."""

    points: Float3  # (MEMORY, S, D) where T was applied last
    images: Float3  # (MEMORY, S, D) and where plain iteration would have gone from there
    image: Float2  # (S, D) T x
    normal: Float2  # (MEMORY, MEMORY + 1) equations of the extrapolation
    gain: float  # for averages: the cost of a step in the long run
    error: float  # the value, or the gain, is at most so far from the truth
    sweeps: int  # how often T was applied
    patience: int  # steps without gain after which it ends: parts of the problem may be apart


@kernel
def begin_sweep(scratch):
    """Prepare one application of the operator."""
    for i in range(scratch.taken.size):
        scratch.taken[i] = 0
        scratch.done[i] = 0
    scratch.busy[0], scratch.changed[0], scratch.changed[1] = 1, 1, 1
    scratch.stamp += 1


@kernel
def differences(x, y):
    """Return the least and the greatest element of y - x, and the greatest size of one of y."""
    low, high, most = np.inf, -np.inf, 0.0
    for s in range(x.shape[0]):
        for d in range(x.shape[1]):
            low, high = min(low, y[s, d] - x[s, d]), max(high, y[s, d] - x[s, d])
            most = max(most, abs(y[s, d]))
    return low, high, most


@kernel
def step_from(problem, x, y, middle, result):
    """Write where plain iteration goes from x, with y = T x: to the middle of the bounds."""
    ends = problem.terminal.size > 0
    for s in range(x.shape[0]):
        for d in range(x.shape[1]):
            if problem.discount == 1.0:
                result[s, d] = x[s, d] + PART * (y[s, d] - middle - x[s, d])
            else:
                result[s, d] = y[s, d] if ends and ends_in(problem, s) else y[s, d] + middle


@unit(types.int64, VALUES, VALUES, types.int64, types.int64, types.float64[:, ::1])
def solve_normal(points, images, newest, n, normal):
    """Find the weights of an extrapolation by least squares, and write them to normal[:, MEMORY]; return how many there are.

    newest: place of the last point; n: how many there are before it.
    """
    memory, used = points.shape[0], 0
    for i in range(n):
        a = (newest - 1 - i) % memory
        for j in range(n + 1):
            b = (newest - 1 - j) % memory
            total = 0.0
            for s in range(points.shape[1]):
                for d in range(points.shape[2]):
                    last = images[newest, s, d] - points[newest, s, d]
                    mine = last - (images[a, s, d] - points[a, s, d])
                    total += mine * (last - (images[b, s, d] - points[b, s, d]) if j < n else last)
            normal[i, j if j < n else memory] = total
    for i in range(n):  # Gauss's elimination of a symmetric matrix; a direction that depends on those before ends it
        if not normal[i, i] > FLAT * max(abs(normal[0, 0]), 1e-300) or normal[i, i] <= 0.0:
            break
        used += 1
        for k in range(i + 1, n):
            factor = normal[k, i] / normal[i, i]
            for j in range(i, n):
                normal[k, j] -= factor * normal[i, j]
            normal[k, memory] -= factor * normal[i, memory]
    for i in range(used - 1, -1, -1):
        for j in range(i + 1, used):
            normal[i, memory] -= normal[i, j] * normal[j, memory]
        normal[i, memory] /= normal[i, i]
    return used


@unit(types.none, ModelArrays, types.int64, POLICY_NOW, VALUES, types.int64, types.float64, Endless, PassScratch, ThreadScratch)
def settle(model, mode, policy, value, seed, accuracy, endless, scratch, thread):
    """Iterate the Bellman operator from value[0] until the bounds are within 2 `accuracy` of one another, or nothing more is
    gained.

    policy: (S, D), written, or with FOLLOW read. value: (2, S, D): value[0] is replaced by the middle of the bounds. For averages
    it is the bias, 0 in state 0 after agent 0. The rest of what was found is in `endless`.
    """
    problem, x, y = model.problem, value[0], endless.image
    points, images, newest, kept = endless.points, endless.images, np.int64(0), np.int64(0)
    factor = problem.discount / (1.0 - problem.discount) if problem.discount < 1.0 else 1.0
    none, first = np.int64(-1), np.int64(0)
    find_same_start(problem.switch_cost, problem.vary, first, problem.switch_cost.shape[0], scratch.same_start)
    endless.sweeps, last_span, extrapolated = 0, np.inf, False
    wait, waited, goal, since = 0, 0, np.inf, 0  # until the next extrapolation; until nothing more is gained
    while True:
        begin_sweep(scratch)
        backup(model, mode, first, x, y, policy, policy, y, seed, scratch, thread, none, first, first)
        endless.sweeps += 1
        low, high, most = differences(x, y)
        middle, half = factor * 0.5 * (low + high), factor * 0.5 * (high - low)
        since += 1
        if high - low < GAINED * goal:
            goal, since = high - low, 0
        if half <= max(accuracy, factor * ROUNDING * most) or since >= endless.patience:
            break
        if extrapolated and high - low > last_span:  # take it back: go on from where plain iteration would have gone
            for s in range(x.shape[0]):
                for d in range(x.shape[1]):
                    x[s, d] = images[newest, s, d]
            kept, extrapolated, waited, wait = 0, False, 0, min(2 * wait + 1, MOST_WAIT)
            continue
        if extrapolated:
            wait = wait // 2
        last_span = high - low
        waited += 1
        newest = (newest + 1) % MEMORY
        for s in range(x.shape[0]):
            for d in range(x.shape[1]):
                points[newest, s, d] = x[s, d]
        step_from(problem, x, y, middle, images[newest])
        used = solve_normal(points, images, newest, kept, endless.normal) if kept > 0 and waited > wait else 0
        for s in range(x.shape[0]):
            for d in range(x.shape[1]):
                found = images[newest, s, d]
                for i in range(used):
                    before = (newest - 1 - i) % MEMORY
                    found -= endless.normal[i, MEMORY] * (images[newest, s, d] - images[before, s, d])
                x[s, d] = found
        extrapolated = used > 0
        kept = min(kept + 1, MEMORY - 1)
    endless.error, endless.gain = half, middle if problem.discount == 1.0 else 0.0
    if problem.discount == 1.0:
        middle = -y[0, 0]
    for s in range(x.shape[0]):
        stays = problem.terminal.size > 0 and problem.terminal[s]
        for d in range(x.shape[1]):
            x[s, d] = y[s, d] if stays else y[s, d] + middle


@unit(types.none, ModelArrays, POLICY_NOW, VALUES, types.float64, Endless, PassScratch, ThreadScratch)
def settle_gains(model, policy, value, accuracy, endless, scratch, thread):
    """Find what a step of a policy costs in the long run from each place, where that depends on the place; write it to value[1].

    Plain iteration: the differences of its values tend to these costs, part by part of a chain.
    """
    problem, x, y, gains = model.problem, value[0], endless.image, value[1]
    none, first, follow = np.int64(-1), np.int64(0), np.int64(1)
    for s in range(x.shape[0]):
        for d in range(x.shape[1]):
            x[s, d] = 0.0
            gains[s, d] = np.inf
    find_same_start(problem.switch_cost, problem.vary, first, problem.switch_cost.shape[0], scratch.same_start)
    endless.sweeps, quiet = 0, 0
    while quiet < 50 and endless.sweeps < 20 * endless.patience:
        begin_sweep(scratch)
        backup(model, follow, first, x, y, policy, policy, y, first, scratch, thread, none, first, first)
        endless.sweeps += 1
        change = 0.0
        for s in range(x.shape[0]):
            for d in range(x.shape[1]):
                found = y[s, d] - x[s, d]
                change = max(change, abs(found - gains[s, d]))
                gains[s, d] = found
                x[s, d] += PART * found
        quiet = quiet + 1 if change <= accuracy / 50.0 else 0
