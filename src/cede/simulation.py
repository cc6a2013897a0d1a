"""Playing episodes under the true model, and measuring what a learner's policies really cost.

Regret is the paper's (Eq. 6): for every episode the expected cost of its policy minus that of the best policy, both computed
exactly by dynamic programming from the start distribution. Nothing of it is sampled.
"""

from collections.abc import Callable, Mapping, Sequence
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


@dataclass(frozen=True, eq=False)
class Rounds:
    """What N teams did in K rounds of L steps."""

    expected_cost: Floats  # (N, K) exact expected cost of each policy
    costs: Floats  # (N, K) realised
    control: Ints  # (N, K, D of the largest team) steps of each agent
    switches: Ints  # (N, K)
    optimum: Floats  # (N,)


def rollout(mdp: TwoLayerMDP, policy: ArrayLike | Plan, seed: Seed = 0) -> Episode:
    """One episode of a switching policy (or plan) under the true model."""
    given = policy.policy if isinstance(policy, Plan) else policy
    return roll(mdp, checked_policy("rollout", mdp.task, given), generator("rollout", seed))


def generator(owner: str, seed: Seed) -> np.random.Generator:
    if isinstance(seed, np.random.Generator):
        return seed
    return generators(_check.integer(owner, "seed", seed, 0), 1)[0]


def generators(seed: int, n: int) -> list[np.random.Generator]:
    """One independent stream of luck per team; the first ones do not depend on how many there are."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(n)]


def roll(mdp: TwoLayerMDP, policy: Policy, rng: np.random.Generator) -> Episode:
    """`rollout` without its checks. Draws 2 L + 1 uniform numbers, whatever happens: the same seed means the same luck."""
    task, (agents, environment) = mdp.task, mdp.truth
    horizon = task.horizon
    states, who, actions, costs = np.empty(horizon + 1, int), np.empty(horizon + 1, int), np.empty(horizon, int), np.empty(horizon)
    who[0] = task.start_agent
    model = (agents.layer, environment.layer, task.slot, task.vary, task.env_cost, task.control_cost, task.switch_cost)
    _kernels.roll(*model, policy, mdp.cumulated_start, rng.random(2 * horizon + 1), states, who, actions, costs)
    return Episode(states, who[:-1], who[1:], actions, costs)


def simulate(
    mdp: TwoLayerMDP, learner: "Learner", episodes: int, *, seed: Seed = 0, progress: bool | Callable[[int], None] = True
) -> History:
    """Let a learner run for some episodes: plan, play, count, again. It goes on from what it knows already.

    A progress bar appears in a terminal if this takes longer than two seconds; progress=False hides it. A function given as
    progress is called with the number of episodes done.
    """
    episodes = _check.integer("simulate", "episodes", episodes, 1)
    fits("simulate", mdp, learner)
    rng = generator("simulate", seed)
    rounds = play([mdp], [learner], episodes, [rng], progress, learner.recipe.name)
    return History(
        regret=np.cumsum(rounds.expected_cost[0] - rounds.optimum[0]),
        expected_cost=rounds.expected_cost[0],
        cost=rounds.costs[0],
        control=rounds.control[0],
        switches=rounds.switches[0],
        optimum=float(rounds.optimum[0]),
        agents=tuple(mdp.task.agents),
        settings={**learner.settings, "simulation_seed": "generator" if isinstance(seed, np.random.Generator) else int(seed)},
    )


def play(
    mdps: Sequence[TwoLayerMDP],
    learners: Sequence["Learner"],
    episodes: int,
    rngs: Sequence[np.random.Generator],
    progress: bool | Callable[[int], None],
    label: str,
) -> Rounds:
    """Synchronous rounds of any number of teams: all play, then all count, then all plan from what all have counted."""
    n, most = len(mdps), max(mdp.task.n_agents for mdp in mdps)
    optimum = np.array([start_cost(mdp, solve(mdp).value) for mdp in mdps])
    expected, costs = np.empty((n, episodes)), np.empty((n, episodes))
    control, switches = np.zeros((n, episodes, most), dtype=int), np.empty((n, episodes), dtype=int)
    evaluated: list[Policy | None] = [None] * n
    with Progress(label, episodes, progress) as bar:
        for k in range(episodes):
            policies = [learner.plan.policy for learner in learners]  # all plan before any plays
            for i, (mdp, learner, rng, policy) in enumerate(zip(mdps, learners, rngs, policies, strict=True)):
                if policy is evaluated[i]:  # learners that never change their plan are evaluated once
                    expected[i, k] = expected[i, k - 1]
                else:
                    expected[i, k] = start_cost(mdp, value_of(mdp, policy))
                    evaluated[i] = policy
                episode = roll(mdp, policy, rng)
                costs[i, k], switches[i, k] = _kernels.sum_up(episode.prev_agents, episode.agents, episode.costs, control[i, k])
                learner.observe_episode(episode)
            for learner in learners:
                learner.end_episode(replan=False)
            for learner in learners:
                learner.replan()
            bar.advance()
    return Rounds(expected, costs, control, switches, optimum)


def fits(owner: str, mdp: TwoLayerMDP, learner: "Learner") -> None:
    """A learner of another task would learn nonsense. It may have been told less: that an agent varies is not checked."""
    task, told = mdp.task, learner.task
    for what, mine, theirs in (
        ("states", told.n_states, task.n_states),
        ("actions", told.n_actions, task.n_actions),
        ("agents", told.agents, task.agents),
        ("horizon", told.horizon, task.horizon),
        ("start_agent", told.start_agent, task.start_agent),
    ):
        if mine != theirs:
            _check.fail(owner, f"the learner's {what}", _check.show(mine), f"{_check.show(theirs)}, as in mdp")
    for what in ("env_cost", "control_cost", "switch_cost"):
        if not np.array_equal(getattr(told, what), getattr(task, what)):
            _check.fail(owner, f"the learner's {what}", "another", "that of mdp")
