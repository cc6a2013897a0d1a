"""The constants of an episode: terms of the widths of both layers and of costs that do not depend on the visits of a row.

`sizes` are fixed for a learner, the constants follow from the steps that were counted before the episode.
"""

import numpy as np
from numba import types

from cede._base.arrays import Floats
from cede._kernels.bundle import Bundle, Float2
from cede._kernels.compiling import inlined, kernel, unit
from cede.beliefs.costs import cost_constant_of
from cede.beliefs.registry import constant_of
from cede.beliefs.scale import Scale


class RadiusSizes(Bundle):
    """The time-independent arguments of the constants."""

    agents_kind: int  # codes, see registry.py
    environment_kind: int
    delta: float  # of the sets around tables
    horizon: int  # steps of an episode; 1 where there is no horizon, and episodes are steps
    outcomes: int  # most that a row of the environment can have: |S|, or fewer by its structure
    n_actions: int
    agent_rows: int  # |S||D|; more where agents vary, cases where states look alike
    environment_rows: int  # |S||A|; |S||D| for UCRL2; or cases
    cost_kind: int  # of the intervals around costs that are learned, see costs.py
    cost_rows: int  # number of learned costs
    cost_delta: float
    agent_values: int  # functions of an action about whose means the agents' rows of "kl-value" are right: |V_t(s, .)|
    state_values: int  # functions of a state, for rows of the environment


class Radii(Bundle):
    """The constants and scales of one episode."""

    agents: float  # constants
    environment: float
    cost: float
    steps: float  # counted before; in the environment, by all teams that share it; and into agents, if teams share some
    common: float
    crew: float
    agents_scale: float
    environment_scale: float


class RadiiAhead(Bundle):
    """The same for several episodes, for teams of several ages."""

    agents: Float2  # (ages, episodes)
    environment: Float2
    cost: Float2
    steps: Float2
    common: Float2
    crew: Float2
    agents_scale: Float2
    environment_scale: Float2


@inlined
def set_radii(radii, ahead, age, i):
    """Copy the numbers of episode i of an age."""
    radii.agents = ahead.agents[age, i]
    radii.environment = ahead.environment[age, i]
    radii.cost = ahead.cost[age, i]
    radii.steps = ahead.steps[age, i]
    radii.common = ahead.common[age, i]
    radii.crew = ahead.crew[age, i]
    radii.agents_scale = ahead.agents_scale[age, i]
    radii.environment_scale = ahead.environment_scale[age, i]


@kernel
def constants_of(sizes, steps, common, crew):
    """Return the constants of agents, environment and costs after so many steps.

    common: steps in the environment's table; crew: in the agents' tables. Teams of a fleet count into one table, and Lemma 3 needs
    t_k to be at least the visits of a row. All count from 1: the paper's (k - 1) L is 0 in the first episode, and has no logarithm.
    """
    steps, common, crew, delta = max(1.0, steps), max(1.0, common), max(1.0, crew), sizes.delta
    agents = constant_of(sizes.agents_kind, crew, sizes.agent_rows, sizes.n_actions, sizes.agent_values, delta)
    environment = constant_of(sizes.environment_kind, common, sizes.environment_rows, sizes.outcomes, sizes.state_values, delta)
    return agents, environment, cost_constant_of(sizes.cost_kind, steps, sizes.cost_rows, sizes.cost_delta)


@unit(types.none, RadiusSizes, types.int64, types.int64, types.int64, RadiiAhead)
def constants_ahead(sizes, episode, environment_episodes, agents_episodes, ahead):
    """Write the constants of the next episodes, from `episode` on, for the first age.

    environment_episodes, agents_episodes: counted into the tables of the environment and of agents so far.
    """
    for i in range(ahead.cost.shape[1]):
        steps, common = float((episode + i - 1) * sizes.horizon), float((environment_episodes + i) * sizes.horizon)
        ahead.steps[0, i], ahead.common[0, i] = steps, common
        ahead.crew[0, i] = crew = float((agents_episodes + i) * sizes.horizon)
        ahead.agents[0, i], ahead.environment[0, i], ahead.cost[0, i] = constants_of(sizes, steps, common, crew)


@kernel
def put_constants(sizes, more, ahead, age, radii):
    """Write the constants after `more` steps of a team of some age since `ahead` was made; for runs without horizon."""
    radii.steps, radii.common, radii.crew = ahead.steps[age, 0] + more, ahead.common[age, 0] + more, ahead.crew[age, 0] + more
    radii.agents, radii.environment, radii.cost = constants_of(sizes, radii.steps, radii.common, radii.crew)
    radii.agents_scale, radii.environment_scale = ahead.agents_scale[age, 0], ahead.environment_scale[age, 0]


def radii_ahead(
    scale: Scale, sizes: RadiusSizes, episode: int, environment_episodes: int, agents_episodes: int, n: int
) -> dict[str, Floats]:
    """Return the constants and scales of n episodes from `episode` on: (n,) arrays by the names of `Radii`.

    environment_episodes, agents_episodes: how many episodes were counted into the environment, and into agents, before. If the
    scale function of a later episode fails, the arrays end before it; they hold at least one episode.
    """
    scales = {f"{layer}_scale": scale.ahead(layer, episode, n) for layer in ("agents", "environment")}
    n = min(len(part) for part in scales.values())
    constants = {name: np.empty((1, n)) for name in ("agents", "environment", "cost", "steps", "common", "crew")}
    rows = {**constants, **{name: part[None, :n].copy() for name, part in scales.items()}}
    constants_ahead(sizes, episode, environment_episodes, agents_episodes, RadiiAhead(**rows))
    return {name: part[0] for name, part in rows.items()}


def put_radii(
    radii: Radii, scale: Scale, sizes: RadiusSizes, episode: int, environment_episodes: int, agents_episodes: int
) -> None:
    """Write the constants and scales of one episode into `radii`. The arguments are those of `radii_ahead`."""
    for name, numbers in radii_ahead(scale, sizes, episode, environment_episodes, agents_episodes, 1).items():
        setattr(radii, name, float(numbers[0]))
