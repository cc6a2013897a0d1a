"""Playing episodes under the true model, and measuring what a learner's policies really cost.

Regret is the paper's (Eq. 6): for every episode the expected cost of its policy minus that of the best policy, both computed
exactly by dynamic programming from the start distribution. Nothing of it is sampled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cede import _check, _kernels
from cede._check import Floats
from cede._progress import Progress
from cede.counts import Episode
from cede.model import TwoLayerMDP
from cede.planning import Plan, Policy, checked_policy, solve, start_cost, value_of
from cede.table import Ints

if TYPE_CHECKING:
    from cede.learners import Learner

Seed = int | np.random.Generator


@dataclass(frozen=True, eq=False)
class History:
    """One run of a learner, K episodes, D agents."""

    regret: Floats  # (K,) cumulative, exact
    expected_cost: Floats  # (K,) exact expected cost of each episode's policy
    cost: Floats  # (K,) realised
    control: Ints  # (K, D) steps of each agent
    switches: Ints  # (K,)
    optimum: float  # expected cost of the best policy
    agents: tuple[str, ...]  # (D,) names
    settings: Mapping[str, Any]  # learner, radii, scale, delta, seeds, version


def rollout(mdp: TwoLayerMDP, policy: ArrayLike | Plan, seed: Seed = 0) -> Episode:
    """One episode of a switching policy (or plan) under the true model."""
    given = policy.policy if isinstance(policy, Plan) else policy
    return roll(mdp, checked_policy("rollout", mdp.task, given), generator("rollout", seed))


def generator(owner: str, seed: Seed) -> np.random.Generator:
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(_check.integer(owner, "seed", seed, 0))


def roll(mdp: TwoLayerMDP, policy: Policy, rng: np.random.Generator) -> Episode:
    """`rollout` without its checks. Draws 2 L + 1 uniform numbers, whatever happens: the same seed means the same luck."""
    task, (agents, environment) = mdp.task, mdp.truth
    horizon = task.horizon
    states, who, actions, costs = np.empty(horizon + 1, int), np.empty(horizon + 1, int), np.empty(horizon, int), np.empty(horizon)
    who[0] = task.start_agent
    model = (agents.layer, environment.layer, task.slot, task.vary, task.env_cost, task.control_cost, task.switch_cost)
    _kernels.roll(*model, policy, mdp.cumulated_start, rng.random(2 * horizon + 1), states, who, actions, costs)
    return Episode(states, who[:-1], who[1:], actions, costs)


def simulate(mdp: TwoLayerMDP, learner: "Learner", episodes: int, *, seed: Seed = 0, progress: bool = True) -> History:
    """Let a learner run for some episodes: plan, play, count, again. It goes on from what it knows already.

    A progress bar appears in a terminal if this takes longer than two seconds.
    """
    episodes = _check.integer("simulate", "episodes", episodes, 1)
    fits("simulate", mdp, learner)
    rng = generator("simulate", seed)
    optimum = start_cost(mdp, solve(mdp).value)
    shape = (episodes, mdp.task.horizon)
    expected, costs = np.empty(episodes), np.empty(shape)
    agents, prev_agents = np.empty(shape, dtype=np.int16), np.empty(shape, dtype=np.int16)
    evaluated: Policy | None = None
    with Progress(learner.recipe.name, episodes, visible=progress) as bar:
        for k in range(episodes):
            policy = learner.plan.policy
            if policy is not evaluated:  # learners that never change their plan are evaluated once
                expected[k] = start_cost(mdp, value_of(mdp, policy))
                evaluated = policy
            else:
                expected[k] = expected[k - 1]
            episode = roll(mdp, policy, rng)
            learner.observe_episode(episode)
            learner.end_episode()
            costs[k], agents[k], prev_agents[k] = episode.costs, episode.agents, episode.prev_agents
            bar.advance()
    return History(
        regret=np.cumsum(expected - optimum),
        expected_cost=expected,
        cost=costs.sum(axis=1),
        control=np.stack([(agents == d).sum(axis=1) for d in range(mdp.task.n_agents)], axis=1),
        switches=(agents != prev_agents).sum(axis=1),
        optimum=optimum,
        agents=tuple(mdp.task.agents),
        settings={**learner.settings, "simulation_seed": seed if isinstance(seed, int) else "generator"},
    )


def fits(owner: str, mdp: TwoLayerMDP, learner: "Learner") -> None:
    """A learner of another task would learn nonsense."""
    task, told = mdp.task, learner.task
    for what, mine, theirs in (
        ("states", told.n_states, task.n_states),
        ("actions", told.n_actions, task.n_actions),
        ("agents", told.agents, task.agents),
        ("horizon", told.horizon, task.horizon),
        ("varies_with", told.varies_with, task.varies_with),
    ):
        if mine != theirs:
            _check.fail(owner, f"the learner's {what}", _check.show(mine), f"{_check.show(theirs)}, as in mdp")
