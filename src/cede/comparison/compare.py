"""Compare learners on worlds with paired seeds: `cede.compare` from Python, `run_study` from a study.toml."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cede._base import archive, check
from cede._base.calls import clear_call
from cede._base.extras import need
from cede._base.progress import Progress
from cede._base.reprs import plural
from cede.comparison.named import checked, entries, learner_maker, world_maker
from cede.comparison.paired import repeats_needed
from cede.comparison.result import Comparison
from cede.comparison.runs import OneRun, kept_or_played, run_key
from cede.comparison.study import read_study, write_results
from cede.fleet.by_calls import shown_policy
from cede.fleet.changing import Changing
from cede.fleet.engines import Engine, engine_of
from cede.fleet.history import History
from cede.fleet.replay import Replay
from cede.fleet.simulate import check_replayed, checked_length, fits, fits_task, simulate
from cede.learners.learner import MOST_SEED
from cede.learners.protocol import SwitchingLearner
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task

World = TwoLayerMDP | Replay | Changing | Callable[[int], Any] | str | tuple[str, Mapping[str, Any]]
MakesLearner = Callable[[Task, int], SwitchingLearner] | str | tuple[str, Mapping[str, Any]]
MOST_REPEATS = 100_000


@clear_call
def compare(
    worlds: Mapping[str, World] | Sequence[str],
    learners: Mapping[str, MakesLearner] | Sequence[str],
    episodes: int | None = None,
    repeats: int = 10,
    *,
    steps: int | None = None,
    record_every: int | None = None,
    seed: int = 0,
    reference: str | None = None,
    engine: str | Engine = "threads",
    jobs: int | None = None,
    directory: str | Path | None = None,
    progress: bool | Callable[[int], None] = True,
) -> Comparison:
    """Run every learner in every world, with the same random numbers in each repeat, and return the results.

    Repeat r has the seed s = seed + r. A world that is a function is called with s, a learner is made with s, and the run equals
    `simulate(world, learner, episodes, seed=s)`, bit for bit. So within a repeat all learners have the same problem and the same
    random numbers, and their differences are less noisy than their regrets.

    worlds: by name, each a TwoLayerMDP, a data set (`cede.replay`), a `cede.worlds.Changing`, a function of a seed that returns one
    of these, a name such as "riverswim", or a pair of a name and its arguments, as in ("riverswim", {"agents": [0.3, 0.7]}); or
    just a list of names. learners: by name, each a function of a task and a seed that returns a learner of cede or a
    `SwitchingLearner`, a name such as "recommended", or a pair, as in ("ucrl2-mc", {"scale": 0.1}); or just a list of names.
    docs/compare.md lists them. All are made and checked before the first run; functions are called in this process, with any
    engine. episodes, repeats: their numbers. For worlds without a horizon, give steps and record_every, as for `simulate`.
    reference: the learner that the others are compared with; by default the first one.

    A `SwitchingLearner` that is not cede's own is called in this process, run by run, and its runs are not stored; so is any
    learner in a data set or in a changing world. If it has no `plan` or `policy`, its regret is its realised cost minus the
    optimum, and is called realised. In a data set, regret is against the best fixed choice of each state in hindsight.

    engine, jobs: as for `simulate_fleet`; the results are the same for all. directory: for finished runs, and checkpoints of
    unfinished runs. A later call, after an interrupt or with more learners, worlds or repeats, runs only missing runs. The key of a
    run is its problem, its learner, its length, its seed and the code of cede. progress: as for `simulate`; a function is called
    with the number of episodes done, of all runs.
    """
    owner = "compare"
    some_worlds = entries(owner, "worlds", worlds, "a mapping from names to worlds, or a list of different names")
    some_learners = entries(owner, "learners", learners, "a mapping from names to learners, or a list of different names")
    repeats = check.integer(owner, "repeats", repeats, 1, MOST_REPEATS)
    seed = check.integer(owner, "seed", seed, 0, MOST_SEED - repeats + 1)
    reference = check.choice(owner, "reference", next(iter(some_learners)) if reference is None else reference, list(some_learners))
    progress = check.progress(owner, progress)
    engine_of(owner, engine, jobs)  # fails early if there is no such engine
    place = None if directory is None else check.path(owner, "directory", directory, "the path of a directory")
    seeds = [seed + repeat for repeat in range(repeats)]
    runs: dict[str, list[OneRun]] = {}
    for name, world in some_worlds.items():
        make = world_maker(f"{owner}, world {name!r}", world)
        mdps = [make(repeat_seed) for repeat_seed in seeds]
        length = checked_length(f"{owner}, world {name!r}", mdps[0], episodes, steps, record_every)
        runs[name] = made_runs(f"{owner}, world {name!r}", mdps, some_learners, length, seeds, place is not None)
    check_not_shared(owner, [run.learner for some in runs.values() for run in some if not run.is_compiled])
    if progress is True:
        warn_of_few(repeats, len(some_worlds) * (len(some_learners) - 1))
    if place is not None:
        make_directory(owner, place)
    each = next(iter(runs.values()))[0].episodes
    histories: dict[str, list[History]] = {}
    with Progress(owner, sum(map(len, runs.values())) * each, progress) as bar:
        before = 0  # episodes of the worlds that are done
        for name, some in runs.items():
            histories[name] = played(some, place, engine, jobs, counted_from(before, lambda done: bar.advance(done - bar.done)))
            before += len(some) * each
            bar.advance(before - bar.done)
    return gathered(histories, tuple(some_learners), seeds, reference, runs)


def warn_of_few(repeats: int, comparisons: int) -> None:
    """Print a warning if there are too few repeats for any comparison to be significant."""
    needed = repeats_needed(comparisons) if comparisons else 0
    if repeats < needed:
        times, compared = plural(repeats, "repeat"), plural(comparisons, "comparison")
        sys.stderr.write(f"compare: {times} and {compared} can decide nothing; at least {needed} repeats are needed\n")


def make_directory(owner: str, path: Path) -> None:
    """Make a directory, unless it exists."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        check.fail(owner, "directory", repr(str(path)), f"a directory that can be written ({error.strerror})")


def made_runs(
    owner: str, mdps: Sequence[TwoLayerMDP], learners: Mapping[str, Any], length: tuple[int, int], seeds: Sequence[int], kept: bool
) -> list[OneRun]:
    """Make the learners of one world, and check that they fit; return all runs, learner by learner, repeat by repeat.

    length: episodes, and steps of each, as `checked_length` returns them. kept: whether runs are stored, and so need keys.
    """
    task = mdps[0].task
    runs = []
    for mdp, seed in zip(mdps, seeds, strict=True):
        for what, first, here in (("horizon", task.horizon, mdp.horizon), ("discount", task.discount, mdp.discount)):
            if first != here:
                check.fail(owner, f"the {what} for seed {seed}", here, f"{first}, as for seed {seeds[0]}")
    models = {id(mdp): mdp for mdp in mdps if isinstance(mdp, TwoLayerMDP)} if kept else {}
    digests = {place: archive.digest(mdp) for place, mdp in models.items()}
    for name, maker in learners.items():
        who = f"{owner}, learner {name!r}"
        make = learner_maker(who, maker, length[0])
        for mdp, seed in zip(mdps, seeds, strict=True):
            learner = make(mdp, seed)
            if not (run := OneRun(mdp, learner, *length, seed)).is_compiled:
                check_alone(who, run)
                runs.append(run)
                continue
            if learner.shared_environment is not None:
                check.fail(who, "what its function returned", "a learner of a fleet", "a learner on its own")
            fits(who, mdp, learner)
            key = checked(who, run_key)(digests[id(mdp)], learner, *length, seed) if kept else ""
            runs.append(OneRun(mdp, learner, *length, seed, key))
    return runs


def check_alone(owner: str, run: OneRun) -> None:
    """Check that a learner that is not cede's own, or one in a data set, fits its problem, and that its regret can be computed."""
    mdp, learner = run.mdp, run.learner
    if isinstance(mdp, Replay):
        check_replayed(owner, mdp, learner, run.episodes)
    elif isinstance(getattr(learner, "task", None), Task):
        fits_task(owner, mdp.task, learner.task)
    if mdp.horizon is None and checked(owner, shown_policy)(mdp.task, learner) is None:
        expected = "shown where there is no horizon, as an attribute policy: its regret is not known otherwise"
        check.fail(owner, "the policy of the learner", "not shown", expected)


def check_not_shared(owner: str, learners: Sequence[Any]) -> None:
    """Check that each run has a learner of its own: learners that are not cede's own are not copied."""
    met: set[int] = set()
    for learner in learners:
        if id(learner) in met:
            expected = "a new one for each world and repeat: it would remember the runs before"
            check.fail(owner, f"the {type(learner).__name__} that a function returned", "the same as before", expected)
        met.add(id(learner))


def played(
    runs: Sequence[OneRun], directory: Path | None, engine: Any, jobs: int | None, progress: Callable[[int], None]
) -> list[History]:
    """Return the histories of the runs of a world. Learners that are not cede's own are called here, one run after the other.

    progress: called with the number of episodes done, of all runs.
    """
    own = [i for i, run in enumerate(runs) if run.is_compiled]
    histories = dict(zip(own, kept_or_played([runs[i] for i in own], directory, engine, jobs, progress), strict=True))
    for i, run in enumerate(runs):
        if i not in histories:
            histories[i] = play_alone(run, counted_from(len(histories) * run.episodes, progress))
    return [histories[i] for i in range(len(runs))]


def counted_from(before: int, progress: Callable[[int], None]) -> Callable[[int], None]:
    """Return a function that adds a number of episodes to its argument, and reports the sum."""
    return lambda done: progress(before + done)


def play_alone(run: OneRun, progress: Callable[[int], None]) -> History:
    """Play the run of a learner that is not cede's own, by `simulate`. progress: called with the number of episodes done."""
    length: dict[str, Any] = {"episodes": run.episodes}
    if run.mdp.horizon is None:
        length = {"steps": run.episodes * run.block, "record_every": run.block}
    history = simulate(run.mdp, run.learner, **length, seed=run.seed, progress=progress)
    return replace(history, settings={name: str(value) for name, value in history.settings.items()})


def gathered(
    histories: Mapping[str, Sequence[History]],
    learners: tuple[str, ...],
    seeds: Sequence[int],
    reference: str,
    runs: Mapping[str, Sequence[OneRun]],
) -> Comparison:
    """Make a Comparison from the histories of all runs, by world."""
    first = next(iter(runs.values()))[0]
    shape = (len(histories), len(learners), len(seeds), first.episodes)
    most = max(len(history.agents) for some in histories.values() for history in some)

    def stacked(get: Callable[[History], Any], *sides: int) -> Any:
        return np.array([[get(history) for history in some] for some in histories.values()]).reshape(*shape[:3], *sides)

    regret = stacked(lambda history: history.regret, shape[3])
    shows_none = np.isnan(regret).any(axis=(0, 2, 3))  # (N,) learners without a policy in some episode
    if shows_none.any():
        realised = stacked(lambda history: history.realised_regret, shape[3])
        regret = np.where(shows_none[:, None, None], realised, regret)
    return Comparison(
        worlds=tuple(histories),
        learners=learners,
        seeds=tuple(seeds),
        reference=reference,
        agents=tuple(agent_names(some) for some in histories.values()),
        unit="episodes" if first.mdp.horizon is not None else f"blocks of {first.block} steps",
        regret=regret,
        cost=stacked(lambda history: history.cost, shape[3]),
        switches=stacked(lambda history: history.switches, shape[3]),
        control=stacked(lambda history: np.pad(history.control, ((0, 0), (0, most - len(history.agents)))), shape[3], most),
        optimum=stacked(lambda history: history.optimum),
        settings={
            world: {name: dict(some[i * len(seeds)].settings) for i, name in enumerate(learners)}
            for world, some in histories.items()
        },
        realised=tuple(name for name, none in zip(learners, shows_none, strict=True) if none),
    )


def agent_names(histories: Sequence[History]) -> tuple[str, ...]:
    """Return the names of the agents of a world; if they differ from repeat to repeat, "agent 0", "agent 1" and so on."""
    names = {history.agents for history in histories}
    return names.pop() if len(names) == 1 else tuple(f"agent {i}" for i in range(max(map(len, names))))


def run_study(path: Path, out: Path, *, jobs: int | None = None, overwrite: bool = False) -> tuple[Comparison, list[Path]]:
    """Run or continue a study, and write its results into a directory. Return the results and the files.

    path: of the study.toml. jobs: number of workers, instead of the study's. overwrite: replace the results of another study.
    """
    study, there = read_study(path), out / "study.toml"
    need("matplotlib", "plots")  # fails early, not after all runs
    if there.exists() and not overwrite and read_study(there) != study:
        raise ValueError(f"compare: out is {str(out)!r}, which holds another study: choose another --out, or --overwrite")
    text = path.read_bytes()
    comparison = compare(**{**vars(study), **({} if jobs is None else {"jobs": jobs})}, directory=out / "runs")
    return comparison, write_results(comparison, text, out)
