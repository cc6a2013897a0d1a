"""Checkpoints of a run of a fleet. A resumed run has the same bits."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cede import __version__
from cede._base import archive, check
from cede._base.archive import UnreadableFile, load_arrays, path_to_write, save_arrays
from cede._kernels.tables import Table
from cede.beliefs.extras import Extras
from cede.beliefs.scale import Scale
from cede.fleet.files import pack_shared, unpack_shared
from cede.fleet.grouping import TeamGroup, check_states
from cede.fleet.history import RunRecord
from cede.learners.files import SCHEMA, below
from cede.learners.stacks import environment_extras
from cede.learners.state import Arrays, most_episodes
from cede.problem.model import TwoLayerMDP
from cede.rows.stored import LayerCounts

if TYPE_CHECKING:
    from cede.learners.learner import Learner

KIND = "checkpoint"  # its schema is that of files of learners: both hold states


@dataclass(frozen=True, eq=False)
class RunState:
    """The state of a run between two rounds, without the states of the teams."""

    number: int  # the last round that was played
    done: int  # episodes that every team has played
    shared: Mapping[str, Table]  # by layer: counts that teams share; without layers that no team shares
    environment_episodes: int  # episodes in the shared environment counts
    extras: Extras = field(default_factory=dict)  # of the shared environment
    agents_episodes: int = 0  # episodes of all teams that share agents


class Checkpoint:
    """A file to which `simulate_fleet` writes a run, so that it can be resumed.

    path: the file. seconds: the least time between two writes. resume: True to continue from the file if it exists; False to refuse
    a file that exists.
    """

    def __init__(self, path: str | Path, *, seconds: float = 60.0, resume: bool = False) -> None:
        self.path = path_to_write("Checkpoint", "path", path)
        self.seconds = check.number("Checkpoint", "seconds", seconds, least=0.0)
        self.resume = check.truth("Checkpoint", "resume", resume)
        self.saved_at = time.monotonic()
        self.run = ""  # fingerprint of the run
        self.resumed_at = 0  # episodes that the file held when the run was resumed

    def begin(self, run: str, now: RunState, record: RunRecord, groups: Sequence[TeamGroup]) -> tuple[RunState, Sequence[Arrays]]:
        """Return the state of the run at its start, and the states of all groups: from the file, or as given.

        run: fingerprint of the run, which must be the same in the file. now: the state of the run without a file. record: the
        results, into which those of the file are copied. Without a file, write one at once, so that an error of writing is raised
        now.
        """
        if not self.path.exists():
            self.run, states = run, [group.state for group in groups]
            self.save(now, record, states)
            return now, states
        if not self.resume:
            raise ValueError(f"{self.path}: is there already; resume it, or choose another file")
        now, states = self.load(run, now, record, groups)
        self.run, self.resumed_at = run, now.done
        return now, states

    def is_due(self) -> bool:
        """Return whether it is time to write again."""
        return time.monotonic() - self.saved_at >= self.seconds

    def save(self, now: RunState, record: RunRecord, states: Sequence[Arrays]) -> None:
        """Write the state of a run, its results so far, and the states of all groups."""
        header = {"cede": __version__, "run": self.run, "done": now.done, "groups": len(states)}
        arrays = {f"groups/{i}/{name}": array for i, state in enumerate(states) for name, array in state.items()}
        arrays |= {f"ledger/{name}": column for name, column in record.ledger.first(now.done).items()}
        if now.shared:
            header |= {"environment_episodes": now.environment_episodes, "agents_episodes": now.agents_episodes}
            arrays |= pack_shared(now.shared, now.extras)
        try:
            save_arrays(self.path, KIND, SCHEMA, header, arrays)
        except OSError as error:
            outcome = "the last checkpoint is as it was" if self.path.exists() else "there is no checkpoint"
            raise OSError(f"{self.path}: could not be written ({error.strerror or error}); {outcome}") from error
        self.saved_at = time.monotonic()

    def load(self, run: str, now: RunState, record: RunRecord, groups: Sequence[TeamGroup]) -> tuple[RunState, list[Arrays]]:
        """Read the file of a run with this fingerprint. Return the state of the run and the states of all groups, and copy the
        results so far into the record.

        The file must be of this run and this version of cede, and have no more episodes than the record.
        """
        header, arrays = load_arrays(self.path, KIND, SCHEMA)
        episodes = record.ledger.cost.shape[1]
        if header.get("cede") != __version__:
            wrote = header.get("cede")
            raise ValueError(f"{self.path}: was written by cede {wrote}, must be {__version__}: its numbers may differ")
        if header.get("run") != run:
            raise ValueError(f"{self.path}: is of another run; teams, learners, seed and rounds must be the same to resume it")
        if isinstance(header.get("done"), int) and header["done"] > episodes:
            raise ValueError(f"{self.path}: holds {header['done']} episodes, must be at most {episodes}, those of this run")
        try:
            return unpack_run(header, arrays, now, record, groups)
        except Exception as error:  # a file from outside may be wrong in any way
            raise UnreadableFile(f"{self.path}: cannot be read, must be a checkpoint of cede; it is damaged ({error})") from error


def unpack_run(
    header: Mapping[str, Any], arrays: Arrays, now: RunState, record: RunRecord, groups: Sequence[TeamGroup]
) -> tuple[RunState, list[Arrays]]:
    """Do the work of `Checkpoint.load` after the check of the header. Every array is checked, since kernels do not check them."""
    done = check.integer("file", "done", header["done"], 0, record.ledger.cost.shape[1])
    counted, crew, shared = 0, 0, {}
    extras: Extras = {}
    sharing = [group for group in groups if group.shared]
    if now.shared:
        counted = check.integer("file", "episodes", header["environment_episodes"], 0, most_episodes(groups[0].task))
        crew = check.integer("file", "agents_episodes", header["agents_episodes"], 0, most_episodes(groups[0].task))
        shapes = {name: (table.n_rows, table.n_columns) for name, table in now.shared.items()}
        layers = unpack_shared(arrays, shapes, sharing[0].settings.outcomes)
        shared = {name: layer.table() for name, layer in layers.items()}
        extras = environment_extras("file", [group.sizes for group in sharing], below(arrays, "extras"))
    if header["groups"] != len(groups):
        check.fail("file", "the number of groups", check.show(header["groups"]), str(len(groups)))
    states = [below(arrays, f"groups/{i}") for i in range(len(groups))]
    for i, (state, group) in enumerate(zip(states, groups, strict=True)):
        steps = done if group.task.horizon is not None else done * group.block
        played = np.array([episodes for episodes, *_ in group.ages], dtype=np.int64)[group.age] + steps
        check_states(f"file, group {i}", group, state, played)
    results = record.ledger.first(done)
    for name, column in results.items():
        entries = arrays[f"ledger/{name}"]
        if entries.shape != column.shape or entries.dtype != column.dtype:
            check.fail("file", f"the shape of {name}", entries.shape, str(column.shape))
        if column.dtype.kind == "f":
            check.finite("file", name, entries)
    for name, column in results.items():
        column[...] = arrays[f"ledger/{name}"]
    return RunState(0, done, shared, counted, extras, crew), states


def sampled(scale: Scale, layer: str) -> list[float]:
    """Return the values of a scale for many episodes, up to the first that fails. They identify a function in a fingerprint."""
    values = []
    with suppress(Exception):
        for episode in (*range(1, 500), *(2**power for power in range(9, 24))):
            values.append(scale.at(layer, episode))
    return values


def fingerprint(
    groups: Sequence[TeamGroup],
    scales: Sequence[Scale],
    mdps: Sequence[TwoLayerMDP],
    learners: "Sequence[Learner]",
    now: RunState,
    *numbers: int,
) -> str:
    """Return a digest of everything that determines the results of a run, except the number of episodes.

    groups, scales: all groups of the run, and the scale of each. mdps, learners: of the teams. now: the state of the run at its
    start. numbers: further numbers that matter.
    """
    digest = hashlib.sha256(repr((__version__, numbers)).encode())

    def add(*arrays: Any) -> None:
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())

    for group, scale in zip(groups, scales, strict=True):
        about = (archive.digest(group.settings), archive.digest(group.task), group.shared, group.block)
        digest.update(repr(about).encode())
        digest.update(archive.digest(group.environment).encode())
        add(*(sampled(scale, layer) for layer in ("agents", "environment")), group.team)
        add(*(group.state[name] for name in sorted(group.state)), group.shared_rows, np.array(group.ages))
    for mdp, learner in zip(mdps, learners, strict=True):
        add(mdp.task.control_cost, mdp.task.switch_cost, mdp.task.start_agent, learner.seed, *mdp.policies)
    for table in now.shared.values():
        layer = LayerCounts.of_table(table)
        add(layer.key, layer.number, now.environment_episodes, now.agents_episodes)
    add(*(now.extras[name] for name in sorted(now.extras)))
    return digest.hexdigest()
