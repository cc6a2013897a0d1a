"""Checkpoints of a run of a fleet: all that is needed to resume it and get the same bits."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cede import __version__
from cede._base import archive, check
from cede._base.archive import UnreadableFile, load_arrays, path_to_write, save_arrays
from cede._kernels.tables import Table
from cede.beliefs.extras import Extras
from cede.beliefs.scale import Scale
from cede.fleet.grouping import Grouping, check_states
from cede.fleet.history import RunRecord
from cede.learners.files import below
from cede.learners.learner import Learner
from cede.learners.stacks import environment_extras
from cede.learners.state import Arrays, most_episodes
from cede.problem.model import TwoLayerMDP
from cede.rows.places import COSTS, ENVIRONMENT
from cede.rows.stored import LayerCounts, check_layer, check_outcomes_counted, check_sums

KIND, SCHEMA = "checkpoint", 7


@dataclass(frozen=True, eq=False)
class RunState:
    """Where a run stands between two rounds, beside the states of the teams."""

    number: int  # the last round that was played
    done: int  # episodes that every team has played
    shared: Mapping[str, Table]  # by layer: counts that teams share; without layers that no team shares
    environment_episodes: int  # episodes that were counted into it
    extras: Extras = field(default_factory=dict)  # of it


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

    def begin(self, run: str, now: RunState, record: RunRecord, teams: Grouping) -> tuple[RunState, Sequence[Arrays]]:
        """Return where the run starts, and the states of all groups there: as given, or as in the file.

        run: fingerprint of the run, which must be the same in the file. now: where the run stands without a file. record: the
        results, into which those of the file are copied. teams: the teams of the run. Without a file, write one at once, so that a
        place that cannot be written is noticed now.
        """
        if not self.path.exists():
            self.run = run
            self.save(now, record, teams.states)  # fails now if the place cannot be written
            return now, teams.states
        if not self.resume:
            raise ValueError(f"{self.path}: is there already; resume it, or choose another file")
        found, states = self.load(run, now, record, teams)
        self.run = run
        self.resumed_at = found.done
        return found, states

    def is_due(self) -> bool:
        """Return whether it is time to write again."""
        return time.monotonic() - self.saved_at >= self.seconds

    def save(self, now: RunState, record: RunRecord, states: Sequence[Arrays]) -> None:
        """Write where a run stands, its results so far, and the states of all groups."""
        header = {"cede": __version__, "run": self.run, "done": now.done, "groups": len(states)}
        arrays = {f"groups/{i}/{name}": array for i, state in enumerate(states) for name, array in state.items()}
        arrays |= {f"ledger/{name}": column for name, column in record.ledger.first(now.done).items()}
        for name, table in now.shared.items():
            seen = LayerCounts.of_table(table)
            arrays |= {f"{name}/key": seen.key, f"{name}/number": seen.number}
        if now.shared:
            header["environment_episodes"] = now.environment_episodes
            arrays |= {f"extras/{name}": array for name, array in now.extras.items()}
        try:
            save_arrays(self.path, KIND, SCHEMA, header, arrays)
        except OSError as error:
            kept = "the last checkpoint is as it was" if self.path.exists() else "there is no checkpoint"
            raise OSError(f"{self.path}: could not be written ({error.strerror or error}); {kept}") from error
        self.saved_at = time.monotonic()

    def load(self, run: str, now: RunState, record: RunRecord, teams: Grouping) -> tuple[RunState, list[Arrays]]:
        """Read the file of a run with this fingerprint. Return where it stood and the states of all groups, and copy the results
        so far into the record.

        It must be of this run, this version of cede, and not of more episodes than the record holds.
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
            return self.rebuilt(header, arrays, now, record, teams)
        except Exception as error:  # a file from outside may be wrong in any way
            raise UnreadableFile(f"{self.path}: cannot be read, must be a checkpoint of cede; it is damaged ({error})") from error

    def rebuilt(
        self, header: Mapping[str, Any], arrays: Arrays, now: RunState, record: RunRecord, teams: Grouping
    ) -> tuple[RunState, list[Arrays]]:
        """Do the work of `load` after the header was checked. Every array is checked here, since kernels trust them afterwards."""
        done = check.integer("file", "done", header["done"], 0, record.ledger.cost.shape[1])
        shared: dict[str, Table] = {}
        counted = 0
        for name, table in now.shared.items():
            seen = LayerCounts((table.n_rows, table.n_columns), arrays[f"{name}/key"], arrays[f"{name}/number"])
            check_layer("file", name, seen)
            if name == ENVIRONMENT:
                outcomes = next((group.settings.outcomes for group in teams.groups if group.shared), None)
                check_outcomes_counted("file", outcomes, seen)
            elif name == COSTS:
                check_sums("file", seen)
            shared[name] = seen.table()
        if shared:
            most = most_episodes(teams.groups[0].task)
            counted = check.integer("file", "episodes", header["environment_episodes"], 0, most)
        if header["groups"] != len(teams.groups):
            check.fail("file", "the number of groups", check.show(header["groups"]), str(len(teams.groups)))
        states = [below(arrays, f"groups/{i}") for i in range(len(teams.groups))]
        for i, (state, group, like) in enumerate(zip(states, teams.groups, teams.states, strict=True)):
            steps = done if group.task.horizon is not None else done * group.block
            played = np.array([teams.before[place].episodes for place in teams.places[i]], dtype=np.int64) + steps
            check_states(f"file, group {i}", group, state, like, played)
        results = record.ledger.first(done)
        for name, column in results.items():
            given = arrays[f"ledger/{name}"]
            if given.shape != column.shape or given.dtype != column.dtype:
                check.fail("file", f"the shape of {name}", given.shape, str(column.shape))
            if column.dtype.kind == "f":
                check.finite("file", name, given)
        for name, column in results.items():
            column[...] = arrays[f"ledger/{name}"]
        extras = environment_extras("file", [group.sizes for group in teams.groups if group.shared], below(arrays, "extras"))
        return RunState(0, done, shared, counted, extras), states


def sampled(scale: Scale, layer: str) -> list[float]:
    """Return the values of a scale for many episodes, as far as it has them. A function is recognised by these in a fingerprint."""
    found = []
    with suppress(Exception):
        for episode in (*range(1, 500), *(2**power for power in range(9, 24))):
            found.append(scale.at(layer, episode))
    return found


def fingerprint(teams: Grouping, mdps: Sequence[TwoLayerMDP], learners: Sequence[Learner], now: RunState, *numbers: int) -> str:
    """Return a digest of all that decides the results of a run, except for the number of episodes.

    teams, mdps, learners: the teams of the run. now: where it starts. numbers: further numbers that matter.
    """
    digest = hashlib.sha256(repr((__version__, numbers)).encode())

    def add(*arrays: Any) -> None:
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())

    for group, scale, places, state in zip(teams.groups, teams.scales, teams.places, teams.states, strict=True):
        about = (archive.digest(group.settings), archive.digest(group.task), group.shared, group.block)
        digest.update(repr(about).encode())
        digest.update(archive.digest(group.environment).encode())
        add(*(sampled(scale, layer) for layer in ("agents", "environment")))
        add(places)
        add(*(state[name] for name in sorted(state)))
    for mdp, learner in zip(mdps, learners, strict=True):
        add(mdp.task.control_cost, mdp.task.switch_cost, mdp.task.start_agent, learner.seed)
        add(*mdp.policies)
    for table in now.shared.values():
        seen = LayerCounts.of_table(table)
        add(seen.key, seen.number, now.environment_episodes)
    add(*(now.extras[name] for name in sorted(now.extras)))
    return digest.hexdigest()
