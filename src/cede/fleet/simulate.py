"""Plays episodes of one team or a fleet under the true model, and computes the exact costs of the policies.

Regret is the paper's (Eqs. 6 and 15): for every episode the expected cost of its policy minus that of the best policy, both
computed exactly by dynamic programming from the start distribution. It contains no sampling noise.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Policy
from cede._base.calls import clear_call
from cede._base.progress import Progress
from cede._base.turns import Change
from cede.fleet.by_calls import is_own, play_by_calls, truth_of
from cede.fleet.changing import Changing
from cede.fleet.checkpoint import Checkpoint
from cede.fleet.engines import Engine, engine_of
from cede.fleet.episodes import EpisodeArrays, numbers_drawn, play_episode
from cede.fleet.fleet import Fleet
from cede.fleet.grouping import stream_of, streams_of
from cede.fleet.history import FleetHistory, History, RunRecord
from cede.fleet.replay import Replay
from cede.fleet.run import Run
from cede.learners.learner import Learner
from cede.learners.options import MOST_EPISODES
from cede.learners.protocol import SwitchingLearner, checked_learner, settings_of
from cede.learners.session import check_no_sessions
from cede.planning.passes import Plan
from cede.planning.planner import check_connected
from cede.problem.costs import RANGES
from cede.problem.model import TwoLayerMDP, check_support
from cede.problem.policies import checked_switching_policy
from cede.problem.task import Task
from cede.steps.step import Episode

Seed = int | np.random.Generator
MOST_BLOCK = 10**7  # steps without horizon that are recorded together


def rollout(mdp: TwoLayerMDP, policy: ArrayLike | Plan, seed: Seed = 0) -> Episode:
    """Play one episode under the true model, and return its steps.

    mdp: the problem, with a horizon. policy: a switching policy, (L, S, D), or a Plan. seed: an integer or a NumPy generator.
    """
    checked_mdp("rollout", "mdp", mdp)
    if mdp.horizon is None:
        check.fail(
            "rollout", "the horizon of mdp", None, "a number of steps: a run without horizon has no end (simulate plays one)"
        )
    return roll(mdp, checked_switching_policy("rollout", mdp.task, policy), generator("rollout", seed))


def checked_mdp(owner: str, place: str, mdp: Any) -> TwoLayerMDP:
    """Check that a problem is a TwoLayerMDP, and return it. For a Task, the error says what is missing."""
    if isinstance(mdp, Task):
        expected = "a TwoLayerMDP: a Task has no probabilities to draw steps by (in a system of your own, use choose and observe)"
        check.fail(owner, place, "a Task", expected)
    return check.instance(owner, place, mdp, TwoLayerMDP)


def generator(owner: str, seed: Seed) -> np.random.Generator:
    """Return the random generator for a seed: a generator itself, or that of the first team in `streams_of(seed, n)`."""
    if isinstance(seed, np.random.Generator):
        return seed
    first = np.random.SeedSequence(check.any_seed(owner, "seed", seed), spawn_key=(0,))  # as `streams_of` for the first team
    return np.random.default_rng(first)


def roll(mdp: TwoLayerMDP, policy: Policy, rng: np.random.Generator) -> Episode:
    """Play one episode without the checks of `rollout`. It draws 2 L + 1 uniform numbers, even if fewer are needed; 3 L + 1 if
    costs are random.
    """
    steps = EpisodeArrays.empty(mdp.task.plan_steps)
    play_episode(truth_of(mdp), policy, rng.random(numbers_drawn(mdp.environment, mdp.task)), steps)
    n, aim = steps.n, None if mdp.task.modes is None else mdp.task.layout.aim
    charged, before, agents = (steps.env_costs[:n], steps.enter_costs[:n]), steps.who[:n], steps.who[1 : n + 1]
    team = mdp.task.control_costs(steps.states[:n], before, agents)
    return Episode(steps.states[: n + 1], before, agents, steps.actions[:n], steps.costs[:n], *charged, aim, *team)


@clear_call
def simulate(
    mdp: TwoLayerMDP | Replay | Changing,
    learner: SwitchingLearner | Learner,
    episodes: int | None = None,
    *,
    steps: int | None = None,
    record_every: int | None = None,
    seed: Seed = 0,
    evaluate_every: int = 1,
    progress: bool | Callable[[int], None] = True,
) -> History:
    """Run a learner for some episodes under the true model, and return the results.

    In each episode the learner plans, its policy is played, and the steps are counted. It continues from its counts so far.

    mdp: the true problem; or a data set (`cede.replay`), whose regret is in hindsight; or a world that changes at given episodes
    (`cede.worlds.Changing`), whose regret is that of the world in force. learner: made for `mdp.task`, or for the same task with
    unknown costs; or any `SwitchingLearner`. If that has no `plan` or `policy`, regret and expected cost are NaN, and only `cost`
    is known; `settings["regret"]` says so.

    episodes: their number. Without a horizon, give steps instead: the run begins in a state drawn from `start`, and record_every
    steps are recorded together (by default about a thousandth of all). seed: of the run, an integer or a NumPy generator. From a
    generator other than PCG64, NumPy's default, one number is drawn, as the seed of the run.

    evaluate_every: compute the exact cost of the policy in one of every n episodes only, drawn at random. Its cost stands for all
    n, so the regret after every n-th episode and at the end is unbiased, but not exact. This pays if evaluating takes longer than
    learning, as with greedy planning, where a whole policy must be made for each evaluation.

    progress: True shows a progress bar in a terminal if this takes longer than two seconds; False hides it; a function is called
    with the number of episodes done.
    """
    if not isinstance(mdp, Replay | Changing):
        checked_mdp("simulate", "mdp", mdp)
    checked_learner("simulate", learner)
    episodes, block = checked_length("simulate", mdp, episodes, steps, record_every)
    evaluate_every = check.integer("simulate", "evaluate_every", evaluate_every, 1, MOST_EPISODES)
    progress = check.progress("simulate", progress)
    if isinstance(mdp, Replay):
        check_replayed("simulate", mdp, learner, episodes)
        return mdp.run(learner, episodes, seed, progress)
    rng = generator("simulate", seed)
    if isinstance(mdp, Changing):
        return in_phases(mdp, learner, episodes, (rng, seed), evaluate_every, progress)
    recorded: dict[str, Any] = {"evaluate_every": evaluate_every} if mdp.horizon is not None else {"record_every": block}
    if isinstance(learner, Learner) and is_own(learner):
        run = Change()
        with run.lock:
            run.claim("simulate", [learner])
            fits("simulate", mdp, learner)
            record = play(mdp, learner, episodes, rng, progress, evaluate_every, block)
    else:
        if isinstance(getattr(learner, "task", None), Task):
            fits_task("simulate", mdp.task, learner.task)  # type: ignore[union-attr]
        if mdp.horizon is None and mdp.discount is None:
            check_connected("simulate", mdp)
        source = np.random.Generator(bits_of(rng))
        record, recorded["regret"] = play_by_calls(mdp, learner, (episodes, block), source, progress, evaluate_every)
    seed_shown = "generator" if isinstance(seed, np.random.Generator) else int(seed)
    settings = {**settings_of(learner), **recorded, "simulation_seed": seed_shown}
    return History.of(record, mdp.task.members, settings)


def check_replayed(owner: str, data: Replay, learner: Any, episodes: int) -> None:
    """Check that a learner fits a data set, and that there are enough episodes."""
    if episodes > data.episodes:
        check.fail(owner, "episodes", episodes, f"at most {data.episodes}, those of the data")
    if isinstance(getattr(learner, "task", None), Task):
        fits_task(owner, data.task, learner.task)


def in_phases(
    world: Changing,
    learner: Any,
    episodes: int,
    seeds: tuple[np.random.Generator, Seed],
    evaluate_every: int,
    progress: bool | Callable[[int], None],
) -> History:
    """Run a learner through the phases of a changing world, one after the other with the same random numbers, as `simulate`."""
    rng, seed = seeds[0], seeds[1] if not isinstance(seeds[1], np.random.Generator) else "generator"
    for other in world.worlds:
        fits_task("simulate", other.task, world.task)
    parts: list[History] = []
    with Progress(type(learner).__name__, episodes, progress) as bar:
        for length, mdp in world.lengths(episodes):
            before = bar.done

            def advance(done: int, before: int = before) -> None:
                bar.advance(before + done - bar.done)

            parts.append(simulate(mdp, learner, length, seed=rng, evaluate_every=evaluate_every, progress=advance))
    names = ("cost", "control", "switches", "expected_cost")
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    so_far = np.cumsum([0.0, *(part.regret[-1] for part in parts[:-1])])  # regret of the phases before
    regret = np.concatenate([before + part.regret for before, part in zip(so_far, parts, strict=True)])
    optimum = np.average([part.optimum for part in parts], weights=[len(part.cost) for part in parts])
    settings = {**parts[0].settings, "simulation_seed": seed, "changes": str([first for first, _ in world.phases[1:]])}
    return History(regret=regret, optimum=float(optimum), agents=parts[0].agents, settings=settings, **columns)


def bits_of(rng: np.random.Generator) -> np.random.PCG64:
    """Return the bits for a run: those of a generator; if they are not PCG64, a PCG64 seeded by one number drawn from them."""
    bits = rng.bit_generator
    return bits if isinstance(bits, np.random.PCG64) else np.random.PCG64(int(rng.integers(2**63)))


def checked_length(
    owner: str, mdp: TwoLayerMDP | Replay | Changing, episodes: Any, steps: Any, record_every: Any
) -> tuple[int, int]:
    """Check the length of a run; return the number of episodes that are recorded, and the steps of each.

    Without horizon an episode is a block of steps that are recorded together.
    """
    if mdp.horizon is not None:
        for name, value in (("steps", steps), ("record_every", record_every)):
            if value is not None:
                check.fail(owner, name, check.show(value), "left out where there is a horizon: give episodes")
        return check.integer(owner, "episodes", episodes, 1, MOST_EPISODES), mdp.horizon
    if episodes is not None:
        check.fail(owner, "episodes", check.show(episodes), "left out where there is no horizon: give steps")
    total = check.integer(owner, "steps", steps, 1, MOST_EPISODES)
    if record_every is None:
        record_every = next(n for n in range(max(1, total // 1000), total + 1) if total % n == 0)
    block = check.integer(owner, "record_every", record_every, 1, MOST_BLOCK)
    if total % block:
        check.fail(owner, "steps", total, f"a multiple of record_every = {block}")
    return total // block, block


def play(
    mdp: TwoLayerMDP,
    learner: Learner,
    episodes: int,
    rng: np.random.Generator,
    progress: bool | Callable[[int], None] = False,
    evaluate_every: int = 1,
    block: int = 1,
) -> RunRecord:
    """Run a learner without the checks of `simulate`, as a fleet of one. For each episode it draws `numbers_drawn` uniform numbers
    from rng. block: without horizon, the number of steps that are recorded together.
    """
    bits = bits_of(rng)
    streams = np.array([stream_of(bits)], dtype=np.uint64)
    drawn = numbers_drawn(mdp.environment, mdp.task)

    def advance(done: int) -> None:
        steps = done if mdp.horizon is not None or not done else done * block + 1  # the first state is drawn like a step
        bits.advance(steps * drawn)

    run = Run([mdp], [learner], episodes, streams, evaluate_every=evaluate_every, at_end=advance, block=block)
    return run.play(progress, learner.settings.name)


def fits(owner: str, mdp: TwoLayerMDP, learner: Learner) -> None:
    """Check that a learner was made for the task of a problem, and that no episode of it is running.

    Whether an agent's policy varies is not compared: a learner's task may declare less than the truth.
    """
    task, truth, settings = learner.task, mdp.task, learner.settings
    if learner.observed:
        check.fail(owner, "the number of steps of the learner's running episode", learner.observed, "0: end it first (end_episode)")
    check_no_sessions(owner, "the learner", learner)
    fits_task(owner, truth, task)
    baseline = settings.baseline
    if baseline is not None and baseline.start is not None and not np.array_equal(baseline.start, mdp.environment.start):
        check.fail(owner, "the start that the learner was told", "another", "that of mdp")
    if settings.outcomes is not None:
        check_support(owner, settings.outcomes, mdp.environment)
    for what, argument in RANGES.items():
        no_cost, ends = np.zeros(truth.n_states), getattr(task, argument)
        given = [no_cost if (cost := getattr(each, what)) is None else cost for each in (task, truth)]
        stated, real = np.broadcast_arrays(*given)  # costs of the team may be the same in all states, or given by state
        unknown = np.isnan(stated)
        if (stated != real)[~unknown].any():
            check.fail(owner, f"the learner's {what}", "another", "that of mdp, or not known (NaN)")
        if given[0].ndim < real.ndim and (real != real[0])[unknown].any():
            check.fail(owner, f"the learner's {what}", "not known, and the same in all states", "given by state, as that of mdp")
        random_cost = mdp.environment.random_cost if what == "env_cost" else None
        charged = (real[..., None] if random_cost is None else random_cost)[unknown]
        if charged.size and (charged.min() < ends[0] or charged.max() > ends[1]):
            place, costs = f"{what} of mdp, where the learner does not know it,", f"from {charged.min():g} to {charged.max():g}"
            check.fail(owner, place, costs, f"from {ends[0]:g} to {ends[1]:g}, its range")
    if mdp.horizon is None and mdp.discount is None:
        check_connected(owner, mdp)


def fits_task(owner: str, truth: Task, task: Task) -> None:
    """Check that the task of a learner has the sizes, names, terminal states and times of the true one."""
    for what in ("n_states", "n_actions", "agents", "modes", "horizon", "discount", "terminal", "periods", "start_agent"):
        mine, theirs = getattr(task, what), getattr(truth, what)
        if what == "periods":
            mine, theirs = np.array(mine).tolist(), np.array(theirs).tolist()
        if mine != theirs:
            check.fail(owner, f"the learner's {what.removeprefix('n_')}", check.show(mine), f"{check.show(theirs)}, as in mdp")


def simulate_fleet(
    mdps: Sequence[TwoLayerMDP],
    fleet: Fleet,
    episodes: int | None = None,
    *,
    steps: int | None = None,
    record_every: int | None = None,
    seed: int = 0,
    engine: str | Engine = "threads",
    jobs: int | None = None,
    sync_every: int = 1,
    evaluate_every: int = 1,
    checkpoint: str | Path | Checkpoint | None = None,
    progress: bool | Callable[[int], None] = True,
) -> FleetHistory:
    """Run all teams of a fleet for some episodes in synchronous rounds, and return the results.

    In each round every team plans from the counts of all teams after the rounds before. The result depends on the seed alone: every
    engine and every number of jobs gives the same bits.

    mdps: the true problem of each team, in the order of the learners; teams that share must have the same transitions. fleet: the
    learners. episodes: of every team. Without a horizon, give steps, of which record_every are recorded together (see `simulate`).
    seed: an integer; team i draws from its stream i.

    engine: "threads", "processes" (on this machine) or "ray"; or an object, as in cede.engines.Ray(address="auto"). jobs: the
    number of workers; by default one for each processor. sync_every: number of episodes (or recorded blocks of steps) after which
    teams exchange counts. In between each team learns from its own episodes, which is faster if workers are far apart.

    evaluate_every, progress: as for `simulate`. checkpoint: a file to which the run is written from time to time, as a path or a
    `Checkpoint`; Checkpoint(path, resume=True) continues from it.
    """
    owner = "simulate_fleet"
    evaluate_every = check.integer(owner, "evaluate_every", evaluate_every, 1, MOST_EPISODES)
    sync_every = check.integer(owner, "sync_every", sync_every, 1, MOST_EPISODES)
    seed = check.integer(owner, "seed", seed, 0)
    check.instance(owner, "fleet", fleet, Fleet)
    progress = check.progress(owner, progress)
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(check.path(owner, "checkpoint", checkpoint, "a path or a Checkpoint"))
    mdps = check.items(owner, "mdps", mdps, "a sequence with the TwoLayerMDP of each team")
    for i, mdp in enumerate(mdps):
        checked_mdp(owner, f"mdps[{i}]", mdp)
    chosen = engine_of(owner, engine, jobs)
    run = Change()
    with run.lock:
        run.claim(owner, [fleet])
        run.claim(owner, fleet)
        if len(mdps) != len(fleet) or not len(fleet):
            check.fail(owner, "the number of mdps", len(mdps), f"{len(fleet)}, one for each learner, and at least 1")
        for i, (mdp, learner) in enumerate(zip(mdps, fleet, strict=True)):
            fits(f"{owner}, team {i}", mdp, learner)
        check_same_environment(owner, mdps, fleet)
        check_same_policies(owner, mdps, fleet.learners)
        entries, block = checked_length(owner, mdps[0], episodes, steps, record_every)
        names = sorted({learner.settings.name for learner in fleet})
        settings = {
            **fleet.learners[0].about,
            "algorithms": names,
            "teams": len(mdps),
            "sync_every": sync_every,
            **({"evaluate_every": evaluate_every} if mdps[0].horizon is not None else {"record_every": block}),
            "simulation_seed": seed,
        }
        rules: dict[str, Any] = {"sync_every": sync_every, "evaluate_every": evaluate_every, "block": block}
        run_all = Run(mdps, fleet.learners, entries, streams_of(seed, len(mdps)), engine=chosen, **rules)
        record = run_all.play(progress, f"{len(mdps)} teams, {', '.join(names)}", checkpoint)
        return FleetHistory.of(record, settings)


def check_same_environment(owner: str, mdps: Sequence[TwoLayerMDP], fleet: Fleet) -> None:
    """Check that all teams that share the environment have the same transitions. Their start distributions may differ."""
    sharing = [i for i, learner in enumerate(fleet) if learner.shared_environment is not None]
    compared: set[int] = set()  # ids of transitions
    for i in sharing:
        first, other = mdps[sharing[0]].environment, mdps[i].environment
        if fleet.learners[i].task.learns_costs and not np.array_equal(first.cost, other.cost):
            expected = f"that of team {sharing[0]}: they share what they see"
            check.fail(owner, f"the cost of team {i}'s environment", "another", expected)
        if id(other.transition) not in compared and (first.transition != other.transition).nnz:
            row, column = (int(part[0]) for part in (first.transition != other.transition).nonzero())
            place = check.place_of(f"team {i}: transition", (*divmod(row, other.n_actions), column))
            expected = f"{first.transition[row, column]}, as of team {sharing[0]}: they share what they see"
            check.fail(owner, place, other.transition[row, column], expected)
        compared.add(id(other.transition))


def check_same_policies(owner: str, mdps: Sequence[TwoLayerMDP], fleet: Sequence[Learner]) -> None:
    """Check that each agent that teams share acts by the same policy in all their problems."""
    first: dict[str, tuple[int, Any]] = {}
    for i, (mdp, learner) in enumerate(zip(mdps, fleet, strict=True)):
        shared = learner.shared_environment
        spans = {} if shared is None else shared.spans
        for name, policy in zip(mdp.task.tables, mdp.policies, strict=True) if spans else ():
            if name in spans:
                team, other = first.setdefault(name, (i, policy))
                if other is not policy and not np.array_equal(other, policy):
                    expected = f"that of team {team}: they share what they see of it"
                    check.fail(owner, f"the policy of {check.printable(name)!r} in team {i}", "another", expected)
