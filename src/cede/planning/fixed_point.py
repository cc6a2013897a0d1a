"""No horizon: the fixed point of the Bellman operator T, with a discount or for the average cost of a step.

With f = T x - x, low = min f and high = max f, for every x,

    discount g < 1    T x + g / (1 - g) low <= v* <= T x + g / (1 - g) high       (MacQueen 1966; Porteus 1971)
    average           low <= cost of a step in the long run <= high                (Odoni 1969)

and the cost of the policy that attains T x lies within these bounds, too. They rest on T (x + c) = T x + g c for every number c. So
a terminal state is modelled as absorbing with cost 0: its value moves with c like all others, and is set to 0 at the end.

For averages, low and high are taken over the places (s, prev_agent) that can be reached from the start.

Only differences of x matter, so x is kept near 0 for every discount, which keeps rounding small. Any x that makes high - low small
will do. A plain step goes to T x - (low + high) / 2; only a part of the way for averages, and where the bounds do not improve,
since chains may be periodic. It never widens the bounds. From the last few points we extrapolate (Anderson 1965). Where f hardly
changes, for example if two choices are nearly equal, we continue in the same direction and double the step each time. Steps that
widen the bounds are undone. If chains mix slowly, policy iteration continues (iteration.py). The final bounds are the certificate.
"""

import numpy as np
from numba import types

from cede._kernels.bundle import Bool2, Bundle, Float2, Float3, Int2
from cede._kernels.compiling import kernel, unit
from cede._kernels.problem import BY_PREV_AGENT, ends_in
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede.planning.backup import FOLLOW, POLICY_NOW, backup, find_same_start
from cede.planning.iteration import EXTRA, LEVEL, RELATIVE, RIGHT, eliminate, solve_eliminated, solve_normal, write_chain
from cede.planning.model import ModelArrays
from cede.problem.task import Task

MEMORY = 6  # points that are remembered
PART = 0.8  # for averages: the fraction of a step that is taken
MOST_WAIT = 1024  # steps between two tries to extrapolate, at most
GAINED = 0.99  # bounds that have not come closer by this factor for `patience` steps never will
STALLED = 50  # steps without gain after which, with a discount too, a part of the way is gone: a chain may go in circles
MOST_STRIDE = 16.0  # for averages: where parts of a chain have costs of their own, values grow for ever, and so does rounding
TRUST, TRUST_AVERAGE = 1e-2, 1e-9  # rounding of values over the last bounds, above which a leap is taken back
SLOW = 0.9  # bounds that come closer by less than this in a step: the next one is longer
ROUNDING = 32 * 2.0**-52  # of a value: bounds that are closer than this cannot be improved
HALVED, MOST_ROUNDS = 0.5, 12  # policy iteration ends after so many rounds in which bounds have not come closer by this factor
FAR, FARTHER, FARTHEST = 1e4, 1e2, 1e10  # steps for which a class of a chain with a cost of its own is thought to last
NOISE = 2 * 2.0**-52  # of a value: rounding of one application of T, which bounds allow for

PATIENCE = 1000  # applications of the operator without gain before a search for a fixed point ends; more with more states
SOLVED, SOLVED_ONCE = 300, 1000  # most places of a chain that learners, and single plans, solve where iterating is not exact
CLOSE = 1e-11  # how exactly values are computed, relative to the largest cost of a step

VALUES, PLACES = types.float64[:, :, ::1], types.boolean[:, ::1]


class Endless(Bundle):
    """Scratch arrays and results of a fixed point."""

    points: Float3  # (MEMORY, S, D) where T was applied last
    images: Float3  # (MEMORY, S, D) and where plain iteration would have gone from there
    image: Float2  # (S, D) T x
    normal: Float2  # (MEMORY, MEMORY + 1) equations of the extrapolation
    system: Float2  # (n + EXTRA, n) equations of a chain of at most n places; empty where none is solved
    place: Int2  # (S, D) number of each place in these equations
    reached: Bool2  # (S, D) the places that the bounds are about; with a discount all
    gain: float  # for averages: the cost of a step in the long run
    error: float  # the value, or the gain, and what the policy really costs, are at most so far from the best
    sweeps: int  # how often T was applied
    patience: int  # steps without gain after which it ends: parts of the problem may be apart


@kernel
def apply_operator(model, mode, policy, x, seed, endless, scratch, thread):
    """Write T x to endless.image, and, unless a policy is followed, the policy that attains it. policy, x: (S, D)."""
    scratch.taken[:], scratch.done[:] = 0, 0
    scratch.busy[0], scratch.changed[0], scratch.changed[1] = 1, 1, 1
    scratch.stamp += 1
    y, all_states, first = endless.image, np.int64(-1), np.int64(0)
    backup(model, mode, first, x, y, policy, policy, y, seed, scratch, thread, all_states, first, first)
    endless.sweeps += 1


@kernel
def outcomes_of(table, r, n_columns):
    """Return the number of possible outcomes of a row: all if it has no counts."""
    return table.size[r] if table.total[r] > 0.0 else np.int64(n_columns)


@kernel
def outcome_of(table, r, j):
    """Return the j-th of these outcomes; -1 if its probability is 0."""
    if not table.total[r] > 0.0:
        return np.int64(j)
    i = table.start[r] + j
    return np.int64(table.column[i] if table.weight[i] > 0.0 else -1)


@unit(types.none, ModelArrays, types.float64[::1], types.int64, PLACES)
def find_reached(model, start, start_agent, reached):
    """Write which places can be reached from the start, (S, D). model: the true tables; a row without counts leads everywhere.
    start: (S,).
    """
    problem, agents, environment = model.problem, model.agents, model.environment
    n_states, n_agents = reached.shape
    for s in range(n_states):
        for d in range(n_agents):
            reached[s, d] = start[s] > 0.0 and d == start_agent
    found, turn = True, 0
    while found:  # forward and backward in turn: corridors are long
        found, turn = False, 1 - turn
        for i in range(n_states):
            s = i if turn else n_states - 1 - i
            for prev in range(n_agents):
                if not reached[s, prev] or ends_in(problem, s):
                    continue
                for d in range(n_agents):
                    if not problem.switch_cost[min(s, problem.switch_cost.shape[0] - 1), prev, d] < np.inf:
                        continue
                    r = agents.row[problem.slot[d] + (prev if problem.vary[d] == BY_PREV_AGENT else 0), s]
                    for j in range(outcomes_of(agents.table, r, environment.row.shape[1])):
                        a = outcome_of(agents.table, r, j)
                        row = environment.row[s, max(0, a)]
                        for k in range(outcomes_of(environment.table, row, n_states) if a >= 0 else 0):
                            to = outcome_of(environment.table, row, k)
                            if to >= 0 and not reached[to, d]:
                                reached[to, d] = True
                                found = True


@kernel
def differences(x, y, reached):
    """Return the least and the greatest element of y - x, and the greatest size of one of y, over the places that are reached."""
    low, high, most = np.inf, -np.inf, 0.0
    for s in range(x.shape[0]):
        for d in range(x.shape[1]):
            if reached[s, d]:
                low, high = min(low, y[s, d] - x[s, d]), max(high, y[s, d] - x[s, d])
                most = max(most, abs(y[s, d]))
    return low, high, most


@kernel
def reference(x, reached):
    """Return the value of the first place that is reached."""
    for s in range(x.shape[0]):
        for d in range(x.shape[1]):
            if reached[s, d]:
                return x[s, d]
    return 0.0


@kernel
def begin_near_zero(problem, x, reached):
    """Subtract the reference value from all values; terminal states have value 0."""
    for s in range(x.shape[0]):
        for d in range(x.shape[1]):
            if not abs(x[s, d]) < np.inf:  # nothing is known
                x[:, :] = 0.0
    for s in range(x.shape[0]):
        if ends_in(problem, s):
            x[s, :] = 0.0
    shift(x, -reference(x, reached))


@kernel
def shift(x, by):
    """Add a number to all values, (S, D)."""
    for s in range(x.shape[0]):
        for d in range(x.shape[1]):
            x[s, d] += by


@kernel
def copy_values(source, target):
    """Copy values, (S, D)."""
    for s in range(source.shape[0]):
        for d in range(source.shape[1]):
            target[s, d] = source[s, d]


@unit(types.none, ModelArrays, types.int64, POLICY_NOW, VALUES, types.int64, types.float64, Endless, PassScratch, ThreadScratch)
def settle(model, mode, policy, value, seed, accuracy, endless, scratch, thread):  # noqa: PLR0912 (one loop, compiled as one)
    """Iterate the Bellman operator from value[0] until the bounds are within 2 `accuracy`, or stop improving.

    policy: (S, D), written, or with FOLLOW read. value: (2, S, D): value[0] is replaced by the middle of the bounds. For averages
    it is the bias, 0 in the first place that is reached. Other results are in `endless`.
    """
    problem, x, y, reached = model.problem, value[0], endless.image, endless.reached
    points, images, newest, kept = endless.points, endless.images, np.int64(0), np.int64(0)
    discounted = problem.discount < 1.0
    factor, part = (problem.discount / (1.0 - problem.discount), 1.0) if discounted else (1.0, PART)
    most_stride, trust = (np.inf, TRUST) if discounted else (MOST_STRIDE, TRUST_AVERAGE)
    find_same_start(problem.switch_cost, problem.vary, np.int64(0), problem.switch_cost.shape[0], scratch.same_start)
    begin_near_zero(problem, x, reached)
    endless.sweeps, last_span, last_most, extrapolated, stride = 0, np.inf, 0.0, False, 1.0
    wait, waited, goal, since = 0, 0, np.inf, 0  # until the next extrapolation; until nothing more is gained
    while True:
        apply_operator(model, mode, policy, x, seed, endless, scratch, thread)
        low, high, most = differences(x, y, reached)
        middle, span = 0.5 * (low + high), high - low
        since += 1
        if span < GAINED * goal:
            goal, since = span, 0
        elif since == STALLED:
            part = PART
        leapt = extrapolated or stride > 1.0
        too_far = leapt and most > 2.0 * last_most and ROUNDING * most > trust * last_span  # f would be its own rounding
        if not too_far and (0.5 * factor * span <= max(accuracy, factor * ROUNDING * most) or since >= endless.patience):
            break
        if too_far or (leapt and not span <= last_span + ROUNDING * most):
            # take it back: go on from where plain iteration would have gone
            copy_values(images[newest], x)
            if extrapolated:
                kept, waited, wait = 0, 0, min(2 * wait + 1, MOST_WAIT)
            extrapolated, stride = False, 1.0
            continue
        if extrapolated:
            wait = wait // 2
        stride = min(2.0 * stride, most_stride) if span > SLOW * last_span and not extrapolated else 1.0
        last_span, last_most = span, most
        waited += 1
        newest = (newest + 1) % MEMORY
        for s in range(x.shape[0]):
            for d in range(x.shape[1]):
                points[newest, s, d] = x[s, d]
                images[newest, s, d] = x[s, d] + part * (y[s, d] - middle - x[s, d])
        used = solve_normal(points, images, reached, newest, kept, endless.normal) if kept > 0 and waited > wait else 0
        extrapolated = used > 0
        if extrapolated:
            stride = 1.0
        for s in range(x.shape[0]):
            for d in range(x.shape[1]):
                found = images[newest, s, d]
                if reached[s, d]:
                    found = x[s, d] + stride * (found - x[s, d])
                    for i in range(used):
                        before = (newest - 1 - i) % MEMORY
                        found -= endless.normal[i, MEMORY] * (images[newest, s, d] - images[before, s, d])
                x[s, d] = found
        kept = min(kept + 1, MEMORY - 1)
    endless.error = factor * (span + NOISE * most)
    if 0.5 * factor * span > max(accuracy, factor * ROUNDING * most) and endless.system.size > 0:
        iterate_policies(model, mode, policy, value, seed, accuracy, endless, scratch, thread)
        low, high, most = differences(x, y, reached)
        middle, endless.error = 0.5 * (low + high), factor * (high - low + NOISE * most)
    endless.gain = 0.0 if discounted else middle
    level = factor * middle if discounted else -reference(y, reached)
    for s in range(x.shape[0]):
        for d in range(x.shape[1]):
            x[s, d] = 0.0 if ends_in(problem, s) else y[s, d] + level


@kernel
def solve_slope(model, policy, x, endless, scratch, thread):
    """Solve the chain that attains T x, directly after a backup of x, with right sides T x - x; return how many classes it has."""
    y, reached, place, system = endless.image, endless.reached, endless.place, endless.system
    n = write_chain(model, policy, x, reached, place, system, scratch, thread)
    for s in range(x.shape[0]):
        for d in range(x.shape[1]):
            if reached[s, d]:
                system[RIGHT, place[s, d]] = y[s, d] - x[s, d]
    classes = eliminate(system, n, 1.0 - model.problem.discount)
    solve_eliminated(system, n, model.problem.discount)
    return classes


@unit(types.none, ModelArrays, types.int64, POLICY_NOW, VALUES, types.int64, types.float64, Endless, PassScratch, ThreadScratch)
def iterate_policies(model, mode, policy, value, seed, accuracy, endless, scratch, thread):
    """Continue from value[0] by policy iteration: write the x of the closest bounds, T x and the policy that attains it."""
    problem, x, y, reached, kept = model.problem, value[0], endless.image, endless.reached, endless.points[0]
    discounted = problem.discount < 1.0
    factor = problem.discount / (1.0 - problem.discount) if discounted else 1.0
    system, place, least, since, far, classes, last = endless.system, endless.place, np.inf, 0, 0.0, 0, False
    while True:
        apply_operator(model, mode, policy, x, seed, endless, scratch, thread)
        if last:
            break
        low, high, most = differences(x, y, reached)
        since += 1
        span = high - low + NOISE * most
        if span < least:
            since = since if span > HALVED * least else 0
            least = span
            copy_values(x, kept)
        near = classes <= 1 and 0.5 * factor * (high - low) <= max(accuracy, factor * ROUNDING * most)
        if near or since >= MOST_ROUNDS:
            copy_values(kept, x)
            last = True
            continue
        classes = solve_slope(model, policy, x, endless, scratch, thread)
        bottom = system[LEVEL, 0]
        for s in range(x.shape[0]):
            for d in range(x.shape[1]):
                bottom = min(bottom, system[LEVEL, max(0, place[s, d])])
        for s in range(x.shape[0]):
            for d in range(x.shape[1]):
                k = place[s, d]
                if k < 0:
                    continue
                x[s, d] += system[RELATIVE, k]
                if classes > 1:
                    x[s, d] += far * (system[LEVEL, k] - bottom)
        far = min(max(FAR, FARTHER * far), FARTHEST) if classes > 1 else 0.0
        shift(x, -reference(x, reached))


@unit(types.none, ModelArrays, POLICY_NOW, VALUES, types.float64, Endless, PassScratch, ThreadScratch)
def settle_gains(model, policy, value, accuracy, endless, scratch, thread):
    """Find the long-run cost of a step of a policy from each place, if it depends on the place; write it to value[1].

    Plain iteration: the differences of its values tend to these costs, part by part of a chain. Where that takes too long, the
    chain is solved, if it is small enough.
    """
    problem, x, y, gains = model.problem, value[0], endless.image, value[1]
    first = np.int64(0)
    x[:, :], gains[:, :] = 0.0, np.inf
    find_same_start(problem.switch_cost, problem.vary, first, problem.switch_cost.shape[0], scratch.same_start)
    endless.sweeps, quiet = 0, 0
    while quiet < 50 and endless.sweeps < 20 * endless.patience:
        apply_operator(model, FOLLOW, policy, x, first, endless, scratch, thread)
        change = 0.0
        for s in range(x.shape[0]):
            for d in range(x.shape[1]):
                found = y[s, d] - x[s, d]
                change = max(change, abs(found - gains[s, d]))
                gains[s, d] = found
                x[s, d] += PART * found
        quiet = quiet + 1 if change <= accuracy / 50.0 else 0
    if quiet < 50 and endless.system.size > 0:
        x[:, :] = 0.0
        apply_operator(model, FOLLOW, policy, x, first, endless, scratch, thread)
        solve_slope(model, policy, x, endless, scratch, thread)
        for s in range(x.shape[0]):
            for d in range(x.shape[1]):
                if endless.reached[s, d]:
                    gains[s, d] = endless.system[LEVEL, endless.place[s, d]]


# ------------------------------------------------------------------------------------------------- for Python


def new_endless(task: Task, solved: int = SOLVED) -> Endless:
    """Make the scratch arrays of a fixed point, empty with a horizon. solved: the most places of a chain that is solved."""
    sides = (task.n_states, task.n_agents) if task.horizon is None else (0, 0)
    places = sides[0] * sides[1] if sides[0] * sides[1] <= solved and not task.has_orders else 0
    reached = np.ones(sides, dtype=np.bool_)
    if task.horizon is None and task.discount is None:
        reached[:] = [task.can_reach(d) for d in range(task.n_agents)]
    return Endless(
        points=np.empty((MEMORY, *sides)),
        images=np.empty((MEMORY, *sides)),
        image=np.empty(sides),
        normal=np.empty((MEMORY, MEMORY + 1)),
        system=np.empty((places + EXTRA if places else 0, places)),
        place=np.empty(sides, dtype=np.int64),
        reached=reached,
        patience=PATIENCE + task.n_states,
    )


def accuracy_for(task: Task) -> float:
    """Return the accuracy of values without horizon, apart from rounding."""
    return CLOSE * max(abs(end) for end in task.ends_of_step_cost)


def is_exact(task: Task, error: float) -> bool:
    """Return whether an error is rounding: small relative to the largest possible value."""
    return error <= 2.0 * accuracy_for(task) / (1.0 if task.discount is None else 1.0 - task.discount)
