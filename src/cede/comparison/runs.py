"""Plays the runs of a world on an engine, with the same results as `simulate`, and stores finished runs in a directory.

A run is a problem, a learner without counts, a number of episodes and a seed. The name of its file is a digest of these data and of
the code that plays it, and does not depend on the functions that made them, or their names. All missing runs of one world are
played together, as teams that share nothing, with a checkpoint in the directory.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from cede import __version__
from cede._base import archive, check
from cede._base.archive import UnreadableFile, load_arrays, save_arrays
from cede._base.arrays import Floats, Ints
from cede.comparison.code_digest import code_digest
from cede.fleet.by_calls import is_own
from cede.fleet.checkpoint import Checkpoint
from cede.fleet.engines import engine_of
from cede.fleet.grouping import streams_of
from cede.fleet.history import History, Ledger
from cede.fleet.run import Run
from cede.learners.learner import Learner
from cede.problem.model import TwoLayerMDP

KIND, SCHEMA = "run", 1
SECONDS = 30.0  # between two checkpoints
COLUMNS = tuple(field.name for field in fields(Ledger))  # of a History


@dataclass(frozen=True, eq=False)
class OneRun:
    """A run to play."""

    mdp: Any  # a TwoLayerMDP, or another world that `simulate` runs
    learner: Any  # a Learner, which is copied before it runs; or another one that `simulate` runs, used as it is
    episodes: int
    block: int  # without horizon, the steps that are recorded together; else the horizon
    seed: int  # as for `simulate`
    key: str = ""  # the name of its file, see `run_key`

    @property
    def is_compiled(self) -> bool:
        """Return whether it runs on an engine, and can be stored: a learner of cede in a world that is a model."""
        return is_own(self.learner) and isinstance(self.mdp, TwoLayerMDP)


def run_key(world: str, learner: Learner, episodes: int, block: int, seed: int) -> str:
    """Return the name of a run: a digest of the code, the problem, the learner, the length and the seed.

    world: the digest of the problem, as `archive.digest` makes it; many runs have the same one. Fails if the scale of the
    learner is a function, which has no digest.
    """
    header, arrays = learner.packed()
    about = archive.checksum({name: value for name, value in header.items() if name != "sessions"}, arrays)  # they hold a time
    return hashlib.sha256(json.dumps([code_digest(__name__), world, about, episodes, block, seed]).encode()).hexdigest()[:20]


def play(
    runs: Sequence[OneRun], engine: Any, jobs: int | None, progress: Callable[[int], None], checkpoint: Checkpoint | None
) -> list[History]:
    """Play runs of the same length together, and return their histories. progress: called with the episodes done of each run."""
    learners = [deepcopy(run.learner) for run in runs]
    streams = np.concatenate([streams_of(run.seed, 1) for run in runs])
    chosen = engine_of("compare", engine, jobs)
    all_runs = Run([run.mdp for run in runs], learners, runs[0].episodes, streams, engine=chosen, block=runs[0].block)
    record = all_runs.play(progress, "compare", checkpoint)
    histories = []
    for i, (run, learner) in enumerate(zip(runs, learners, strict=True)):
        settings = {name: str(value) for name, value in {**learner.about, "simulation_seed": run.seed}.items()}
        histories.append(History.of(record, run.mdp.task.members, settings, i))
    return histories


def kept_or_played(
    runs: Sequence[OneRun], directory: Path | None, engine: Any, jobs: int | None, progress: Callable[[int], None]
) -> list[History]:
    """Return the histories of runs of cede's learners: read from the directory, or played and stored there.

    progress: called with the number of episodes done, of all runs.
    """
    if not runs:
        return []
    if directory is None:
        return play(runs, engine, jobs, lambda done: progress(len(runs) * done), None)
    paths = [directory / f"{run.key}.npz" for run in runs]
    by_path = {path: load_run(path, run) for path, run in zip(paths, runs, strict=True)}
    todo = {path: run for path, run in zip(paths, runs, strict=True) if by_path[path] is None}  # equal runs are played once
    if todo:
        name = hashlib.sha256(" ".join(path.stem for path in todo).encode()).hexdigest()[:20]
        checkpoint = Checkpoint(directory / f"{name}.checkpoint", seconds=SECONDS, resume=True)
        before = (len(runs) - len(todo)) * runs[0].episodes
        played = play(list(todo.values()), engine, jobs, lambda done: progress(before + len(todo) * done), checkpoint)
        for (path, run), new in zip(todo.items(), played, strict=True):
            save_run(path, run, new)
            by_path[path] = new
        checkpoint.path.unlink(missing_ok=True)
    return [history for path in paths if (history := by_path[path]) is not None]


def save_run(path: Path, run: OneRun, history: History) -> None:
    """Write a finished run to a file, completely or not at all."""
    header = {"cede": __version__, "seed": run.seed, "optimum": history.optimum, "settings": dict(history.settings)}
    save_arrays(path, KIND, SCHEMA, header, {name: getattr(history, name) for name in COLUMNS})


def load_run(path: Path, run: OneRun) -> History | None:
    """Read a run that `save_run` wrote; None if the file is missing or damaged: the run is then played again."""
    try:
        header, arrays = load_arrays(path, KIND, SCHEMA)
        return rebuilt(header, arrays, run)
    except (FileNotFoundError, UnreadableFile, KeyError, ValueError):
        return None


def rebuilt(header: Mapping[str, Any], arrays: Mapping[str, Floats | Ints], run: OneRun) -> History:
    """Make the history of a run from the contents of its file, after checks of all shapes."""
    shapes = {"control": (run.episodes, run.mdp.team.n_agents)}
    for name in COLUMNS:
        if arrays[name].shape != shapes.get(name, (run.episodes,)):
            check.fail("file", f"the shape of {name}", arrays[name].shape, f"that of {run.episodes} episodes")
    columns: dict[str, Any] = {name: arrays[name] for name in COLUMNS}
    optimum = check.number("file", "optimum", header["optimum"])
    return History(optimum=optimum, agents=run.mdp.task.members, settings=dict(header["settings"]), **columns)
