"""Playing episodes under the true model, and measuring what learners' policies really cost: one team, or a fleet.

Regret is the paper's (Eqs. 6 and 15): for every episode the expected cost of its policy minus that of the best policy, both
computed exactly by dynamic programming from the start distribution. Nothing of it is sampled.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Policy
from cede._kernels.episodes import play_episode
from cede.fleet.checkpoint import Checkpoint
from cede.fleet.engines import Engine, engine_of
from cede.fleet.fleet import Fleet
from cede.fleet.history import FleetHistory, History, RunRecord
from cede.fleet.run import Run, stream_of, streams_of
from cede.fleet.shard import new_steps, true_problem
from cede.learning.counts import Episode
from cede.learning.learner import Learner
from cede.learning.settings import MOST_EPISODES
from cede.planning.belief import true_beliefs
from cede.planning.passes import Plan, model_of
from cede.problem.model import TwoLayerMDP, check_support
from cede.problem.task import checked_switching_policy

Seed = int | np.random.Generator


def rollout(mdp: TwoLayerMDP, policy: ArrayLike | Plan, seed: Seed = 0) -> Episode:
    """One episode of a switching policy (or plan) under the true model."""
    given = policy.policy if isinstance(policy, Plan) else policy
    return roll(mdp, checked_switching_policy("rollout", mdp.task, given), generator("rollout", seed))


def generator(owner: str, seed: Seed) -> np.random.Generator:
    if isinstance(seed, np.random.Generator):
        return seed
    first = np.random.SeedSequence(check.integer(owner, "seed", seed, 0), spawn_key=(0,))  # the first team of `streams`
    return np.random.default_rng(first)


def roll(mdp: TwoLayerMDP, policy: Policy, rng: np.random.Generator) -> Episode:
    """Play one episode without the checks of `rollout`. Draws 2 L + 1 uniform numbers, whatever happens."""
    steps = new_steps(mdp.task)
    truth = true_problem(mdp.task, mdp.environment, model_of(mdp.task, *true_beliefs(mdp)))
    play_episode(truth, policy, rng.random(2 * mdp.horizon + 1), steps)
    return Episode(steps.states, steps.who[:-1], steps.who[1:], steps.actions, steps.costs)


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
    record = play(mdp, learner, episodes, generator("simulate", seed), progress, evaluate_every)
    told = "generator" if isinstance(seed, np.random.Generator) else int(seed)
    settings = {**learner.settings, "evaluate_every": evaluate_every, "simulation_seed": told}
    return History.of(record, mdp.task.members, settings)


def play(
    mdp: TwoLayerMDP,
    learner: Learner,
    episodes: int,
    rng: np.random.Generator,
    progress: bool | Callable[[int], None] = False,
    evaluate_every: int = 1,
) -> RunRecord:
    """Run a learner without the checks of `simulate`: a fleet of one. Draws 2 L + 1 uniform numbers for each episode."""
    bits = rng.bit_generator
    if not isinstance(bits, np.random.PCG64):  # any other generator chooses a stream
        bits = np.random.PCG64(int(rng.integers(2**63)))
    run = Run([mdp], [learner], episodes, np.array([stream_of(bits)], dtype=np.uint64), evaluate_every=evaluate_every)
    try:
        return run.play(progress, learner.told.name)
    finally:
        bits.advance(run.now.done * (2 * mdp.horizon + 1))


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
    baseline = learner.told.baseline
    if baseline is not None and baseline.start is not None and not np.array_equal(baseline.start, mdp.environment.start):
        check.fail(owner, "the start that the learner was told", "another", "that of mdp")
    outcomes = learner.told.outcomes
    if outcomes is not None:
        check_support(owner, outcomes, mdp.environment)
    for what in ("env_cost", "control_cost", "switch_cost"):
        if not np.array_equal(getattr(told, what), getattr(task, what)):
            check.fail(owner, f"the learner's {what}", "another", "that of mdp")


def simulate_fleet(
    mdps: Sequence[TwoLayerMDP],
    fleet: Fleet,
    episodes: int,
    *,
    seed: int = 0,
    engine: str | Engine = "threads",
    jobs: int | None = None,
    sync_every: int = 1,
    evaluate_every: int = 1,
    checkpoint: str | Path | Checkpoint | None = None,
    progress: bool | Callable[[int], None] = True,
) -> FleetHistory:
    """Let all teams of a fleet run for some episodes in synchronous rounds. Team i draws from stream i of the seed.

    Every team plans for its next episode from what all teams have seen in the rounds before. The result depends on the seed
    alone: every engine and number of jobs gives the same bits.

    engine: "threads", "processes" (of this machine) or "ray"; or an object, as in cede.engines.Ray(address="auto"). jobs: workers;
    by default one for each processor. sync_every: teams tell one another what they have seen after every so many episodes only,
    which is faster where workers are far apart; until then each knows its own. checkpoint: a file to which the run is written from
    time to time; Checkpoint(path, resume=True) goes on from it. evaluate_every: as in `simulate`.
    """
    owner = "simulate_fleet"
    evaluate_every = check.integer(owner, "evaluate_every", evaluate_every, 1, MOST_EPISODES)
    sync_every = check.integer(owner, "sync_every", sync_every, 1, MOST_EPISODES)
    episodes = check.integer(owner, "episodes", episodes, 1)
    if not isinstance(fleet, Fleet):
        check.fail(owner, "fleet", check.show(fleet), "a Fleet")
    if not isinstance(checkpoint, str | Path | Checkpoint | None):
        check.fail(owner, "checkpoint", check.show(checkpoint), "a path or a Checkpoint")
    if len(mdps) != len(fleet) or not len(fleet):
        check.fail(owner, "the number of mdps", len(mdps), f"{len(fleet)}, one for each learner, and at least 1")
    for i, (mdp, learner) in enumerate(zip(mdps, fleet, strict=True)):
        if not isinstance(mdp, TwoLayerMDP):
            check.fail(owner, f"mdps[{i}]", check.show(mdp), "a TwoLayerMDP")
        fits(f"{owner}, team {i}", mdp, learner)
    check_same_environment(owner, mdps, fleet)
    streams = streams_of(check.integer(owner, "seed", seed, 0), len(mdps))
    chosen = engine_of(owner, engine, jobs)
    settings = {
        **fleet.learners[0].settings,
        "algorithms": sorted({learner.told.name for learner in fleet}),
        "teams": len(mdps),
        "sync_every": sync_every,
        "evaluate_every": evaluate_every,
        "simulation_seed": seed,
    }
    label = f"{len(mdps)} teams, {', '.join(settings['algorithms'])}"
    written = Checkpoint(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    run = Run(mdps, fleet.learners, episodes, streams, engine=chosen, sync_every=sync_every, evaluate_every=evaluate_every)
    return FleetHistory.of(run.play(progress, label, written), settings)


def check_same_environment(owner: str, mdps: Sequence[TwoLayerMDP], fleet: Fleet) -> None:
    """Teams that share what they see must see the same: only where they start may differ."""
    sharing = [i for i, learner in enumerate(fleet) if learner.shared_environment is not None]
    known: dict[int, int] = {}  # environments that were compared already
    for i in sharing:
        one, other = mdps[sharing[0]].environment.transition, mdps[i].environment.transition
        if known.setdefault(id(other), i) == i and (one != other).nnz:
            row, column = (int(part[0]) for part in (one != other).nonzero())
            place = check.place_of(f"team {i}: transition", (*divmod(row, mdps[i].environment.n_actions), column))
            check.fail(owner, place, other[row, column], f"{one[row, column]}, as of team {sharing[0]}: they share what they see")
