"""Radii: how far the truth may be from what was seen. See belief.py for where each comes from."""

from math import log, sqrt

from cede._kernels.compiling import inlined, kernel
from cede._kernels.data import APPENDIX, NO_RADIUS

LOG_2 = log(2.0)


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


@inlined
def radius(visits, constant, scale):
    return scale * sqrt(constant / max(1.0, visits))


@kernel
def radii(visits, counted, constant, scale, result):
    """The radius of each counted row; the rows behind them are known."""
    for r in range(counted):
        result[r] = radius(visits[r], constant, scale)
    for r in range(counted, visits.size):
        result[r] = 0.0


@kernel
def constants_ahead(sizes, episode, environment_episodes, result):
    """The constants of the radii of the next episodes, from `episode` on.

    environment_episodes: counted into the environment's table so far. A fleet's is seen by all its teams, and Lemma 3 needs t_k
    to be at least the visits of a row.
    """
    for i in range(result.cost.size):
        result.agents[i], result.environment[i], result.cost[i] = 0.0, 0.0, 0.0
        if sizes.kind == NO_RADIUS:
            continue
        steps = steps_before(episode + i, sizes.horizon)
        common = steps_before(environment_episodes + i + 1, sizes.horizon)
        if sizes.kind == APPENDIX:
            result.environment[i] = appendix_constant(common, sizes.environment_rows, sizes.n_states, sizes.delta)
        else:
            result.environment[i] = printed_constant(common, sizes.environment_rows, sizes.n_states, sizes.delta)
            result.agents[i] = printed_constant(steps, sizes.agent_rows, sizes.n_actions, sizes.delta)
        result.cost[i] = cost_constant(steps, sizes.agent_rows, sizes.delta)
