"""Radii: how far the truth may be from what was seen. See belief.py for where each comes from."""

from math import log, sqrt

from cede._kernels.compiling import inlined, kernel
from cede._kernels.data import APPENDIX, BERNSTEIN, NO_RADIUS, PRINTED

LOG_2 = log(2.0)
ANYTHING = 1e300  # width of an interval that says nothing


@kernel
def steps_before(episode, horizon):
    """t_k = max(1, (k - 1) L): the paper's (k - 1) L is 0 in the first episode, and its logarithm no number."""
    return max(1, (episode - 1) * horizon)


@kernel
def printed_constant(steps, rows, outcomes, delta):
    """beta^k of Section 3, of either layer, and of UCRL2's table ("same-form")."""
    return 2 * (7 * log(steps) + log(rows) + (outcomes + 1) * LOG_2 - log(delta))


@kernel
def appendix_constant(steps, rows, outcomes, delta):
    """UCRL2's beta_k of Algorithm 2 in the appendix."""
    return 14 * outcomes * (LOG_2 + log(steps) + log(rows) - log(delta))


@kernel
def cost_constant(steps, rows, delta):
    """UCRL2's radius of a mean cost with range 1 (Jaksch, Ortner and Auer 2010)."""
    return 3.5 * (LOG_2 + log(steps) + log(rows) - log(delta))


@kernel
def bernstein_constant(rows, outcomes, delta):
    """log of all that the probability of a failure is divided by, but for the visits: see belief.py."""
    return log(6.0) + log(rows) + log(outcomes) - log(delta)


@inlined
def radius(kind, visits, constant, scale):
    """The width of a row: scale sqrt(constant / n); or of its intervals, see `Layer.linear`."""
    n = max(1.0, visits)
    if kind == BERNSTEIN:
        if visits <= 0.0:
            return ANYTHING if scale > 0.0 else 0.0
        return scale * scale * (constant + log(n) + log(n + 1.0)) / n
    return scale * sqrt(constant / n)


@inlined
def linear_part(kind, scale):
    """3 of Bernstein's 3 log(.) / n: the width has the square of the scale in it, this takes one out again."""
    return 3.0 / scale if kind == BERNSTEIN and scale > 0.0 else 0.0


@kernel
def radii(kind, visits, case, counted, constant, extra, scale, result):
    """The width of every row of a belief, from the visits of its case; known ones have none."""
    for r in range(result.size):
        c = case[r]
        result[r] = radius(kind, visits[c], constant + extra[c], scale) if c < counted else 0.0


@kernel
def constants_ahead(sizes, episode, environment_episodes, result):
    """The constants of the radii of the next episodes, from `episode` on.

    environment_episodes: counted into the environment's table so far. A fleet's is seen by all its teams, and Lemma 3 needs t_k
    to be at least the visits of a row.
    """
    for i in range(result.cost.size):
        result.agents[i], result.environment[i], result.cost[i] = 0.0, 0.0, 0.0
        steps = steps_before(episode + i, sizes.horizon)
        common = steps_before(environment_episodes + i + 1, sizes.horizon)
        kind = sizes.environment_kind
        if kind == BERNSTEIN:
            result.environment[i] = bernstein_constant(sizes.environment_rows, sizes.outcomes, sizes.delta)
        elif kind == APPENDIX:
            result.environment[i] = appendix_constant(common, sizes.environment_rows, sizes.outcomes, sizes.delta)
        elif kind == PRINTED:
            result.environment[i] = printed_constant(common, sizes.environment_rows, sizes.outcomes, sizes.delta)
        if sizes.agents_kind == BERNSTEIN:
            result.agents[i] = bernstein_constant(sizes.agent_rows, sizes.n_actions, sizes.delta)
        elif sizes.agents_kind == PRINTED:
            result.agents[i] = printed_constant(steps, sizes.agent_rows, sizes.n_actions, sizes.delta)
        if kind != NO_RADIUS:
            result.cost[i] = cost_constant(steps, sizes.agent_rows, sizes.delta)
