"""Playing episodes under the true model, and measuring what a learner's policies really cost.

Regret is the paper's (Eq. 6): for every episode the expected cost of its policy minus that of the best policy, both computed
exactly by dynamic programming from the start distribution. Nothing of it is sampled.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede import _kernels
from cede._base import check
from cede._base.arrays import Floats, Ints, Policy
from cede._kernels import World
from cede.fleet.books import Rounds
from cede.fleet.run import Run, stream_of
from cede.fleet.shard import steps_of
from cede.learning.counts import Episode
from cede.learning.learner import Learner
from cede.learning.settings import MOST_EPISODES, declared
from cede.planning.belief import true_beliefs
from cede.planning.planner import Plan, checked_policy, problem_of
from cede.planning.tables import read_only
from cede.problem.model import TwoLayerMDP
from cede.problem.structure import check_support

Seed = int | np.random.Generator


@dataclass(frozen=True, eq=False)
class History:
    """One run of a learner, K episodes, D agents."""

    regret: Floats  # (K,) cumulative, exact
    expected_cost: Floats  # (K,) exact expected cost of each episode's policy
    cost: Floats  # (K,) realised
    control: Ints  # (K, D) steps of each agent of the team
    switches: Ints  # (K,)
    optimum: float  # expected cost of the best policy; with limits of control, of the best mixture within them
    agents: tuple[str, ...]  # (D,) names
    settings: Mapping[str, Any]  # learner, radii, scale, delta, seeds, version


def rollout(mdp: TwoLayerMDP, policy: ArrayLike | Plan, seed: Seed = 0) -> Episode:
    """One episode of a switching policy (or plan) under the true model."""
    given = policy.policy if isinstance(policy, Plan) else policy
    return roll(mdp, checked_policy("rollout", mdp.task, given), generator("rollout", seed))


def generator(owner: str, seed: Seed) -> np.random.Generator:
    if isinstance(seed, np.random.Generator):
        return seed
    first = np.random.SeedSequence(check.integer(owner, "seed", seed, 0), spawn_key=(0,))  # the first team of `streams`
    return np.random.default_rng(first)


def roll(mdp: TwoLayerMDP, policy: Policy, rng: np.random.Generator) -> Episode:
    """`rollout` without its checks. Draws 2 L + 1 uniform numbers, whatever happens: the same seed means the same luck."""
    steps = steps_of(mdp.task)
    _kernels.roll(world_of(mdp), policy, rng.random(2 * mdp.horizon + 1), steps)
    return Episode(steps.states, steps.who[:-1], steps.who[1:], steps.actions, steps.costs)


def world_of(mdp: TwoLayerMDP) -> World:
    """The truth, as kernels read it."""
    agents, environment = true_beliefs(mdp)
    start = (read_only(mdp.environment.start), mdp.environment.cumulated_start, mdp.task.start_agent)
    return World(agents.layer, environment.layer, problem_of(mdp.task), *start, mdp.task.acting, mdp.task.aim)


def simulate(
    mdp: TwoLayerMDP,
    learner: Learner,
    episodes: int,
    *,
    seed: Seed = 0,
    evaluate_every: int = 1,
    progress: bool | Callable[[int], None] = True,
) -> History:
    """Let a learner run for some episodes: plan, play, count, again. It goes on from what it knows already.

    Each episode's policy is evaluated exactly. Where that costs more than learning (greedy planning makes no whole policy; to
    evaluate one it must be made), evaluate_every=n does it every n-th episode and carries the cost on between: the regret is then
    an approximation, and `settings` say so.

    A progress bar appears in a terminal if this takes longer than two seconds; progress=False hides it. A function given as
    progress is called with the number of episodes done.
    """
    episodes = check.integer("simulate", "episodes", episodes, 1)
    evaluate_every = check.integer("simulate", "evaluate_every", evaluate_every, 1, MOST_EPISODES)
    fits("simulate", mdp, learner)
    rounds = play(mdp, learner, episodes, generator("simulate", seed), progress, evaluate_every)
    return History(
        regret=np.cumsum(rounds.expected_cost[0] - rounds.optimum[0]),
        expected_cost=rounds.expected_cost[0],
        cost=rounds.cost[0],
        control=rounds.control[0],
        switches=rounds.switches[0],
        optimum=float(rounds.optimum[0]),
        agents=mdp.task.members,
        settings={
            **learner.settings,
            "evaluate_every": evaluate_every,
            "simulation_seed": "generator" if isinstance(seed, np.random.Generator) else int(seed),
        },
    )


def play(
    mdp: TwoLayerMDP,
    learner: Learner,
    episodes: int,
    rng: np.random.Generator,
    progress: bool | Callable[[int], None] = False,
    evaluate_every: int = 1,
) -> Rounds:
    """`simulate` without its checks: the rounds of a fleet of one. Draws 2 L + 1 uniform numbers for each episode."""
    bits = rng.bit_generator
    if not isinstance(bits, np.random.PCG64):  # any other generator chooses a stream
        bits = np.random.PCG64(int(rng.integers(2**63)))
    run = Run([mdp], [learner], episodes, np.array([stream_of(bits)], dtype=np.uint64), evaluate_every=evaluate_every)
    try:
        return run.play(progress, learner.recipe.name)
    finally:
        bits.advance(run.books.done * (2 * mdp.horizon + 1))


def fits(owner: str, mdp: TwoLayerMDP, learner: Learner) -> None:
    """A learner of another task would learn nonsense. It may have been told less: that an agent varies is not checked."""
    task, told = mdp.task, learner.task
    if learner.observed:
        check.fail(owner, "the number of steps of the learner's running episode", learner.observed, "0: end it first (end_episode)")
    for what, mine, theirs in (
        ("states", told.n_states, task.n_states),
        ("actions", told.n_actions, task.n_actions),
        ("agents", told.agents, task.agents),
        ("modes", told.modes, task.modes),
        ("horizon", told.horizon, task.horizon),
        ("start_agent", told.start_agent, task.start_agent),
    ):
        if mine != theirs:
            check.fail(owner, f"the learner's {what}", check.show(mine), f"{check.show(theirs)}, as in mdp")
    caution = learner.recipe.caution
    if caution is not None and caution.start is not None and not np.array_equal(caution.start, mdp.environment.start):
        check.fail(owner, "the start that the learner was told", "another", "that of mdp")
    outcomes = declared(learner.recipe)
    if outcomes is not None:
        check_support(owner, outcomes, mdp.environment)
    for what in ("env_cost", "control_cost", "switch_cost"):
        if not np.array_equal(getattr(told, what), getattr(task, what)):
            check.fail(owner, f"the learner's {what}", "another", "that of mdp")
