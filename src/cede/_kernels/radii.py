"""Radii: how far the truth may be from what was seen. planning/belief.py tells where each formula comes from."""

from math import lgamma, log, pi, sqrt

import numpy as np
from numba import types

from cede._kernels.bundle import Bundle, Float1, Float2
from cede._kernels.compiling import inlined, kernel, unit

PRINTED, APPENDIX, BERNSTEIN, KL, KL_VALUE, CALIBRATED, NO_RADIUS = 0, 1, 2, 3, 4, 5, -1  # kinds of radii
LOG_2, LOG_ROOT_PI = log(2.0), 0.5 * log(pi)  # the latter is log Gamma(1/2)
ANYTHING = 1e300  # width of an interval that says nothing


class RadiusSizes(Bundle):
    """All that the constants of radii depend on, except for time."""

    agents_kind: int  # PRINTED, APPENDIX, BERNSTEIN, KL, KL_VALUE, CALIBRATED or NO_RADIUS
    environment_kind: int
    delta: float  # of the sets around tables
    horizon: int  # steps of an episode; 1 where there is no horizon, and episodes are steps
    outcomes: int  # most that a row of the environment can have: |S|, or fewer by its structure
    n_actions: int
    agent_rows: int  # |S||D|; more where agents vary, cases where states look alike
    environment_rows: int  # |S||A|; |S||D| for UCRL2; or cases
    cost_kind: int  # of the intervals around costs that are learned
    cost_rows: int  # how many these are
    cost_delta: float
    agent_values: int  # functions of an action whose means agents' rows of kind KL_VALUE are right about: |V_t(s, .)|
    state_values: int  # functions of a state, for rows of the environment


class Radii(Bundle):
    """The numbers of one episode from which radii follow: scale sqrt(constant / max(1, visits))."""

    agents: float  # constants
    environment: float
    cost: float
    steps: float  # seen before; and in the environment, by all teams that share it
    common: float
    agents_scale: float
    environment_scale: float


class RadiiAhead(Bundle):
    """The same numbers of several episodes, for teams of several ages."""

    agents: Float2  # (ages, episodes)
    environment: Float2
    cost: Float2
    steps: Float2
    common: Float2
    agents_scale: Float2
    environment_scale: Float2


class Constants(Bundle):
    """Room for the constants of several episodes."""

    agents: Float1  # (episodes,)
    environment: Float1
    cost: Float1
    steps: Float1
    common: Float1


@inlined
def set_radii(radii, ahead, age, i):
    """Copy the numbers of episode i of an age."""
    radii.agents = ahead.agents[age, i]
    radii.environment = ahead.environment[age, i]
    radii.cost = ahead.cost[age, i]
    radii.steps = ahead.steps[age, i]
    radii.common = ahead.common[age, i]
    radii.agents_scale = ahead.agents_scale[age, i]
    radii.environment_scale = ahead.environment_scale[age, i]


@kernel
def printed_constant(steps, rows, outcomes, delta):
    """Return beta^k of Section 3, of either layer, and of UCRL2's table ("same-form")."""
    return 2 * (7 * log(steps) + log(rows) + (outcomes + 1) * LOG_2 - log(delta))


@kernel
def appendix_constant(steps, rows, outcomes, delta):
    """Return UCRL2's beta_k of Algorithm 2 in the appendix."""
    return 14 * outcomes * (LOG_2 + log(steps) + log(rows) - log(delta))


@kernel
def cost_constant(steps, rows, delta):
    """Return the constant of UCRL2's radius of a mean cost with range 1 (Jaksch, Ortner and Auer 2010)."""
    return 3.5 * (LOG_2 + log(steps) + log(rows) - log(delta))


@kernel
def bernstein_constant(rows, outcomes, delta):
    """Return the logarithm of what the probability of a failure is divided by, except for the visits."""
    return log(6.0) + log(rows) + log(outcomes) - log(delta)


@kernel
def bernstein_cost_constant(rows, delta):
    """Return the same for the means of costs, which fail with probability at most delta in all."""
    return log(3.0) + log(max(1, rows)) - log(delta)


@kernel
def kl_constant(rows, values, delta):
    """Return the logarithm of what the probability of a failure is divided by, of balls of relative entropy.

    values: functions whose means must be right, 1 if the truth itself is in the ball.
    """
    return LOG_2 + log(rows) + log(values) - log(delta)


@kernel
def is_kl(kind):
    """Return 1 if sets of this kind are balls of relative entropy, else 0."""
    return np.int64(kind in (KL, KL_VALUE, CALIBRATED))


@inlined
def radius(kind, visits, constant, scale):
    """Return the width of a row: scale sqrt(constant / n); of intervals, see `BeliefArrays`."""
    n = max(1.0, visits)
    if kind == BERNSTEIN:
        if visits <= 0.0:
            return ANYTHING if scale > 0.0 else 0.0
        return scale * scale * (constant + log(n) + log(n + 1.0)) / n
    if is_kl(kind):
        if visits <= 0.0:
            return ANYTHING if scale > 0.0 else 0.0
        if kind == KL_VALUE:
            constant += LOG_ROOT_PI + lgamma(n + 1.0) - lgamma(n + 0.5)
        return scale * scale * constant / n
    return scale * sqrt(constant / n)


@kernel
def linear_part(kind, scale):
    """Return the 3 of Bernstein's 3 log(.) / n over the scale: the width has the square of the scale, this takes one out again."""
    return 3.0 / scale if kind == BERNSTEIN and scale > 0.0 else 0.0


@kernel
def radii(kind, visits, case, counted, constant, extra, scale, result):
    """Write the width of every row of a belief, from the visits of its case; rows from `counted` on are known and have none.

    case: (rows,) the counted row behind each row. extra: (counted,) added to the constant.
    """
    for r in range(result.size):
        c = case[r]
        result[r] = radius(kind, visits[c], constant + extra[c], scale) if c < counted else 0.0


@kernel
def constant_of(kind, steps, rows, outcomes, values, delta):
    """Return the constant of the radii of one layer, of some kind, after so many steps. values: see `kl_constant`."""
    if kind == PRINTED:
        return printed_constant(steps, rows, outcomes, delta)
    if kind == APPENDIX:
        return appendix_constant(steps, rows, outcomes, delta)
    if kind == BERNSTEIN:
        return bernstein_constant(rows, outcomes, delta)
    if kind == KL:
        return kl_constant(rows, np.int64(1), delta)
    if kind == KL_VALUE:
        return kl_constant(rows, values, delta)
    if kind == CALIBRATED:
        return kl_constant(rows, np.int64(1), delta) + log(steps)
    return 0.0


@kernel
def constants_of(sizes, steps, common):
    """Return the constants of the radii of agents, environment and costs after so many steps.

    common: steps in the environment's table. A fleet's table is seen by all its teams, and Lemma 3 needs t_k to be at least the
    visits of a row. Both count from 1: the paper's (k - 1) L is 0 in the first episode, and has no logarithm.
    """
    steps, common, delta, cost = max(1.0, steps), max(1.0, common), sizes.delta, 0.0
    agents = constant_of(sizes.agents_kind, steps, sizes.agent_rows, sizes.n_actions, sizes.agent_values, delta)
    environment = constant_of(sizes.environment_kind, common, sizes.environment_rows, sizes.outcomes, sizes.state_values, delta)
    if sizes.cost_kind == BERNSTEIN:
        cost = bernstein_cost_constant(sizes.cost_rows, sizes.cost_delta)
    elif sizes.cost_kind == PRINTED:
        cost = cost_constant(steps, sizes.cost_rows, sizes.cost_delta)
    return agents, environment, cost


@unit(types.none, RadiusSizes, types.int64, types.int64, Constants)
def constants_ahead(sizes, episode, environment_episodes, result):
    """Write the constants of the radii of the next episodes, from `episode` on.

    environment_episodes: counted into the environment's table so far.
    """
    for i in range(result.cost.size):
        steps, common = float((episode + i - 1) * sizes.horizon), float((environment_episodes + i) * sizes.horizon)
        result.steps[i], result.common[i] = steps, common
        result.agents[i], result.environment[i], result.cost[i] = constants_of(sizes, steps, common)


@kernel
def put_constants(sizes, more, ahead, age, radii):
    """Write the constants after `more` steps of a team of some age since `ahead` was made; for runs without horizon."""
    radii.steps, radii.common = ahead.steps[age, 0] + more, ahead.common[age, 0] + more
    radii.agents, radii.environment, radii.cost = constants_of(sizes, radii.steps, radii.common)
    radii.agents_scale, radii.environment_scale = ahead.agents_scale[age, 0], ahead.environment_scale[age, 0]
