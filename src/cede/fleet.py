"""Many teams, one environment: every team has its own agents and policy, all share what is learned of the environment.

Section 4 of the paper: N instances of UCRL2-MC with one confidence set for the environment. Teams play in synchronous rounds: for
episode k every team plans from what all teams have seen before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cede import _check
from cede._check import Floats
from cede.learners import Learner
from cede.model import TwoLayerMDP
from cede.recipe import MOST_EPISODES
from cede.simulation import fits, generators, play
from cede.table import Ints


class Fleet:
    """Learners that share one environment belief. Those that keep none (UCRL2, fixed agents) run beside them unchanged."""

    def __init__(self, learners: Sequence[Learner]) -> None:
        self.learners = tuple(learners)
        if not self.learners:
            _check.fail("Fleet", "learners", "empty", "at least one Learner")
        for i, learner in enumerate(self.learners):
            if not isinstance(learner, Learner):
                _check.fail("Fleet", f"learners[{i}]", _check.show(learner), "a Learner")
            same_environment(self.learners[0], learner, i)
            if learner in self.learners[:i]:
                _check.fail("Fleet", f"learners[{i}]", "there twice", "a Learner of its own")
            if learner.episode != 1:
                _check.fail("Fleet", f"the number of episodes that learner {i} has seen", learner.episode - 1, "0")
        sharing = [learner for learner in self.learners if learner.environment_tally is not None]
        for learner in sharing[1:]:
            learner.share_environment(sharing[0])

    def __len__(self) -> int:
        return len(self.learners)


def same_environment(first: Learner, learner: Learner, i: int) -> None:
    """States, actions, environment costs and horizon are common; the rest may differ."""
    one, other = first.task, learner.task
    for what, a, b in (
        ("number of states", one.n_states, other.n_states),
        ("number of actions", one.n_actions, other.n_actions),
        ("horizon", one.horizon, other.horizon),
    ):
        if a != b:
            _check.fail("Fleet", f"the {what} of learner {i}", b, f"{a}, as of learner 0")
    if not np.array_equal(one.env_cost, other.env_cost):
        where = np.argwhere(one.env_cost != other.env_cost)[0]
        place = _check.place_of(f"learner {i}: env_cost", where)
        _check.fail("Fleet", place, other.env_cost[tuple(where)], f"{one.env_cost[tuple(where)]}, as of learner 0")


@dataclass(frozen=True, eq=False)
class FleetHistory:
    """One run of a fleet: N teams, K episodes each."""

    regret: Floats  # (K,) cumulative over episodes, summed over teams (Eq. 15), exact
    team_regret: Floats  # (N,) at the end
    expected_cost: Floats  # (N, K)
    cost: Floats  # (N, K) realised
    control: Ints  # (N, K, D of the largest team)
    switches: Ints  # (N, K)
    optimum: Floats  # (N,)
    settings: Mapping[str, Any]  # of the first learner, with the number of teams and the seed


def simulate_fleet(
    mdps: Sequence[TwoLayerMDP],
    fleet: Fleet,
    episodes: int,
    *,
    seed: int = 0,
    evaluate_every: int = 1,
    progress: bool | Callable[[int], None] = True,
) -> FleetHistory:
    """Let all teams of a fleet run for some episodes in synchronous rounds. Team i has the luck of stream i of the seed.

    evaluate_every: as in `simulate`.
    """
    owner = "simulate_fleet"
    evaluate_every = _check.integer(owner, "evaluate_every", evaluate_every, 1, MOST_EPISODES)
    episodes = _check.integer(owner, "episodes", episodes, 1)
    if len(mdps) != len(fleet):
        _check.fail(owner, "the number of mdps", len(mdps), f"{len(fleet)}, one for each learner")
    for i, (mdp, learner) in enumerate(zip(mdps, fleet.learners, strict=True)):
        fits(f"{owner}, team {i}", mdp, learner)
    rngs = generators(_check.integer(owner, "seed", seed, 0), len(mdps))
    names = {learner.recipe.name for learner in fleet.learners}
    label = f"{len(mdps)} teams, {', '.join(sorted(names))}"
    rounds = play(mdps, fleet.learners, episodes, rngs, progress, label, evaluate_every)
    regret = rounds.expected_cost - rounds.optimum[:, None]
    return FleetHistory(
        regret=np.cumsum(regret.sum(axis=0)),
        team_regret=regret.sum(axis=1),
        expected_cost=rounds.expected_cost,
        cost=rounds.costs,
        control=rounds.control,
        switches=rounds.switches,
        optimum=rounds.optimum,
        settings={**fleet.learners[0].settings, "teams": len(mdps), "evaluate_every": evaluate_every, "simulation_seed": seed},
    )
