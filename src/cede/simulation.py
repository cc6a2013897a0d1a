"""Playing episodes under the true model, and measuring what a learner's policies really cost.

Regret is the paper's (Eq. 6): for every episode the expected cost of its policy minus that of the best policy, both computed
exactly by dynamic programming from the start distribution. Nothing of it is sampled.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede import _check, _kernels
from cede._check import Floats
from cede._kernels import Ledger, World
from cede._progress import Progress
from cede.counts import Episode
from cede.learners import Learner, Seat
from cede.model import TwoLayerMDP
from cede.planning import Plan, Policy, checked_policy, problem_of, solve, start_cost
from cede.recipe import MOST_EPISODES
from cede.table import Ints

Seed = int | np.random.Generator

MOST_SECONDS, MOST_AT_ONCE = 0.1, 10_000  # of one call of compiled code: progress is shown, and an interrupt heard, in between


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

    def ledger(self, team: int, begin: int, end: int) -> Ledger:
        """Where a kernel writes down what a team does in some of its episodes."""
        here = (team, slice(begin, end))
        return Ledger(self.expected_cost[here], self.costs[here], self.control[here], self.switches[here])


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
    steps = Seat(mdp.task).steps
    _kernels.roll(world_of(mdp), policy, rng.random(2 * mdp.horizon + 1), steps)
    return Episode(steps.states, steps.who[:-1], steps.who[1:], steps.actions, steps.costs)


def world_of(mdp: TwoLayerMDP) -> World:
    """The truth, as kernels read it."""
    agents, environment = mdp.truth
    start = (mdp.environment.start, mdp.cumulated_start, mdp.task.start_agent)
    return World(agents.layer, environment.layer, problem_of(mdp.task), *start)


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
    episodes = _check.integer("simulate", "episodes", episodes, 1)
    evaluate_every = _check.integer("simulate", "evaluate_every", evaluate_every, 1, MOST_EPISODES)
    fits("simulate", mdp, learner)
    rng = generator("simulate", seed)
    rounds = play([mdp], [learner], episodes, [rng], progress, learner.recipe.name, evaluate_every)
    return History(
        regret=np.cumsum(rounds.expected_cost[0] - rounds.optimum[0]),
        expected_cost=rounds.expected_cost[0],
        cost=rounds.costs[0],
        control=rounds.control[0],
        switches=rounds.switches[0],
        optimum=float(rounds.optimum[0]),
        agents=tuple(mdp.task.agents),
        settings={
            **learner.settings,
            "evaluate_every": evaluate_every,
            "simulation_seed": "generator" if isinstance(seed, np.random.Generator) else int(seed),
        },
    )


def play(
    mdps: Sequence[TwoLayerMDP],
    learners: Sequence[Learner],
    episodes: int,
    rngs: Sequence[np.random.Generator],
    progress: bool | Callable[[int], None],
    label: str,
    evaluate_every: int = 1,
) -> Rounds:
    """Synchronous rounds of any number of teams: all plan from what all have counted, all play, all count.

    A team alone plays many episodes in one call of compiled code.
    """
    n, most = len(mdps), max(mdp.task.n_agents for mdp in mdps)
    optimum = np.array([start_cost(mdp, solve(mdp).value) for mdp in mdps])
    rounds = Rounds(
        expected_cost=np.empty((n, episodes)),
        costs=np.empty((n, episodes)),
        control=np.zeros((n, episodes, most), dtype=np.int64),
        switches=np.empty((n, episodes), dtype=np.int64),
        optimum=optimum,
    )
    worlds, seats = [world_of(mdp) for mdp in mdps], [Seat(mdp.task) for mdp in mdps]
    alone, done, at_once = n == 1, 0, 1
    with Progress(label, episodes, progress) as bar:
        while done < episodes:
            at_once = min(at_once, episodes - done)
            begun = time.perf_counter()
            try:
                for i, (world, learner, rng, seat) in enumerate(zip(worlds, learners, rngs, seats, strict=True)):
                    luck = rng.random((at_once, 2 * learner.task.horizon + 1))
                    played = 0
                    while played < at_once:
                        ledger = rounds.ledger(i, done + played, done + at_once)
                        played += learner.play(world, luck[played:], seat, ledger, counting=alone, evaluate_every=evaluate_every)
                if not alone:
                    for learner in learners:
                        learner.count_episode()
            except BaseException:
                for learner in learners:
                    learner.drop_episode()  # of a round that did not end
                raise
            done += at_once
            bar.advance(at_once)
            taken = time.perf_counter() - begun
            if alone and taken < MOST_SECONDS / 2:
                at_once = min(2 * at_once, MOST_AT_ONCE)
            elif taken > MOST_SECONDS:  # later episodes may cost more: there is more to plan with
                at_once = max(1, at_once // 2)
    return rounds


def fits(owner: str, mdp: TwoLayerMDP, learner: Learner) -> None:
    """A learner of another task would learn nonsense. It may have been told less: that an agent varies is not checked."""
    task, told = mdp.task, learner.task
    if learner.observed:
        _check.fail(
            owner, "the number of steps of the learner's running episode", learner.observed, "0: end it first (end_episode)"
        )
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
