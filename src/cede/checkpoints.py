"""Checkpoints of a run of a fleet: all that is needed to go on and to get the same bits."""

import hashlib
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from cede import __version__, _check
from cede.belief import Scale
from cede.books import Books, Rounds
from cede.files import load_arrays, save_arrays
from cede.learners import Learner
from cede.model import TwoLayerMDP
from cede.muster import Muster
from cede.recipe import show_recipe
from cede.states import State
from cede.table import Sums, Table

KIND, SCHEMA = "checkpoint", 1
LEDGER = ("expected_cost", "cost", "control", "switches")  # of Rounds
SUMS = ("row", "column", "amount")


class Checkpoint:
    """A file to which a run is written, at most every so many seconds. resume: go on from the file, if it is there."""

    def __init__(self, path: str | Path, *, seconds: float = 60.0, resume: bool = False) -> None:
        self.path = Path(path)
        self.seconds = _check.number("Checkpoint", "seconds", seconds, least=0.0)
        self.resume = resume
        self.saved_at = time.monotonic()
        self.run = ""  # fingerprint of the run that is written

    def begin(self, run: str, books: Books, rounds: Rounds, states: Sequence[State]) -> tuple[Books, Sequence[State]]:
        """Where to start: as given, or where the file says; then what was done before is entered into `rounds`."""
        self.run = run
        if not self.path.exists():
            self.save(books, rounds, states)  # a place that cannot be written is found out now
            return books, states
        if not self.resume:
            raise ValueError(f"{self.path}: is there already; resume it, or choose another file")
        return self.load(books, rounds)

    def is_due(self) -> bool:
        return time.monotonic() - self.saved_at >= self.seconds

    def save(self, books: Books, rounds: Rounds, states: Sequence[State]) -> None:
        header = {"cede": __version__, "run": self.run, "done": books.done, "kinds": len(states)}
        arrays = {f"{i}/{name}": array for i, state in enumerate(states) for name, array in state.items()}
        arrays |= {f"rounds/{name}": getattr(rounds, name)[:, : books.done] for name in LEDGER}
        if books.table is not None:
            sums = books.table.sums()
            arrays |= {f"environment/{name}": getattr(sums, name) for name in SUMS}
            header["environment_episodes"] = books.environment_episodes
        try:
            save_arrays(self.path, KIND, SCHEMA, header, arrays)
        except OSError as error:
            kept = "the last checkpoint is as it was" if self.path.exists() else "there is no checkpoint"
            raise OSError(f"{self.path}: could not be written ({error.strerror or error}); {kept}") from error
        self.saved_at = time.monotonic()

    def load(self, books: Books, rounds: Rounds) -> tuple[Books, list[State]]:
        header, arrays = load_arrays(self.path, KIND, SCHEMA)
        done, episodes = header["done"], rounds.cost.shape[1]
        if header["cede"] != __version__:
            raise ValueError(f"{self.path}: was written by cede {header['cede']}, must be {__version__}: its numbers may differ")
        if header["run"] != self.run:
            raise ValueError(f"{self.path}: is of another run; teams, learners, seed and rounds must be the same to resume it")
        if done > episodes:
            raise ValueError(f"{self.path}: holds {done} episodes, must be at most {episodes}, those of this run")
        for name in LEDGER:
            getattr(rounds, name)[:, :done] = arrays[f"rounds/{name}"]
        table = None
        if books.table is not None:
            table = Table.empty(books.table.n_rows, books.table.n_columns)
            table.add(Sums(*(arrays[f"environment/{name}"] for name in SUMS)))
        states: list[State] = [{} for _ in range(header["kinds"])]
        for name, array in arrays.items():
            place, _, field = name.partition("/")
            if place.isdecimal():
                states[int(place)][field] = array
        return Books(0, done, table, header.get("environment_episodes", 0)), states


def sampled(scale: Scale, layer: str) -> list[float]:
    """A scale may be any function: it is known by its values, as far as it has some."""
    found = []
    with suppress(Exception):
        for power in range(24):
            found.append(scale.at(layer, 2**power))
    return found


def fingerprint(teams: Muster, mdps: Sequence[TwoLayerMDP], learners: Sequence[Learner], books: Books, *settings: int) -> str:
    """A digest of all that decides what comes out, but for the number of episodes."""
    digest = hashlib.sha256(repr((__version__, settings)).encode())

    def add(*arrays: Any) -> None:
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())

    for kind, scale, places, state in zip(teams.kinds, teams.scales, teams.members, teams.states, strict=True):
        digest.update(f"{show_recipe(kind.recipe)} {kind.shared} {kind.task.horizon} {kind.task.varies_with}".encode())
        add(*(sampled(scale, layer) for layer in ("agents", "environment")))
        truth = kind.environment.transition
        add(truth.indptr, truth.indices, truth.data, kind.environment.start, kind.task.env_cost, places)
        add(*kind.recipe.known_agents.values())
        add(*(state[name] for name in sorted(state)))
    for mdp, learner in zip(mdps, learners, strict=True):
        add(mdp.task.control_cost, mdp.task.switch_cost, mdp.task.start_agent, learner.seed)
        add(*(agent.policy for agent in mdp.team.agents))
    if books.table is not None:
        sums = books.table.sums()
        add(sums.row, sums.column, sums.amount, books.environment_episodes)
    return digest.hexdigest()
