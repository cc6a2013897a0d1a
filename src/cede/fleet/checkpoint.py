"""Checkpoints of a run of a fleet: all that is needed to go on and to get the same bits."""

import hashlib
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from cede import __version__
from cede._base import check
from cede._base.archive import Arrays, load_arrays, save_arrays
from cede.fleet.books import Books, Rounds
from cede.fleet.grouping import Muster
from cede.fleet.team_states import RECENT, Kind, State
from cede.learning.counts import shapes
from cede.learning.learner import Learner
from cede.learning.settings import declared, show_recipe
from cede.planning.belief import Scale
from cede.planning.tables import Sums, Table
from cede.problem.model import TwoLayerMDP

KIND, SCHEMA = "checkpoint", 1
LEDGER = ("expected_cost", "cost", "control", "switches")  # of Rounds
SUMS = ("row", "column", "amount")


class Checkpoint:
    """A file to which a run is written, at most every so many seconds. resume: go on from the file, if it is there."""

    def __init__(self, path: str | Path, *, seconds: float = 60.0, resume: bool = False) -> None:
        self.path = Path(path)
        self.seconds = check.number("Checkpoint", "seconds", seconds, least=0.0)
        self.resume = resume
        self.saved_at = time.monotonic()
        self.run = ""  # fingerprint of the run that is written
        self.resumed_at = 0  # episodes that were done when the run began

    def begin(self, run: str, books: Books, rounds: Rounds, teams: Muster) -> tuple[Books, Sequence[State]]:
        """Where to start: as given, or where the file says; then what was done before is entered into `rounds`."""
        self.run = run
        if not self.path.exists():
            self.save(books, rounds, teams.states)  # a place that cannot be written is found out now
            return books, teams.states
        if not self.resume:
            raise ValueError(f"{self.path}: is there already; resume it, or choose another file")
        found, there = self.load(books, rounds, teams)
        self.resumed_at = found.done
        return found, there

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

    def load(self, books: Books, rounds: Rounds, teams: Muster) -> tuple[Books, list[State]]:
        """What the file holds, which must be of these teams."""
        header, arrays = load_arrays(self.path, KIND, SCHEMA)
        try:
            return self.taken(header, arrays, books, rounds, teams)
        except (KeyError, IndexError, TypeError, Damaged) as error:
            raise ValueError(f"{self.path}: cannot be read, must be a checkpoint of cede; it is damaged ({error})") from error

    def taken(
        self, header: dict[str, Any], arrays: Arrays, books: Books, rounds: Rounds, teams: Muster
    ) -> tuple[Books, list[State]]:
        """Kernels trust what comes from here: nothing is taken over unchecked."""
        done, episodes = header["done"], rounds.cost.shape[1]
        if header["cede"] != __version__:
            raise ValueError(f"{self.path}: was written by cede {header['cede']}, must be {__version__}: its numbers may differ")
        if header["run"] != self.run:
            raise ValueError(f"{self.path}: is of another run; teams, learners, seed and rounds must be the same to resume it")
        if done > episodes:
            raise ValueError(f"{self.path}: holds {done} episodes, must be at most {episodes}, those of this run")
        table = None
        if books.table is not None:
            sums = Sums(*(arrays[f"environment/{name}"] for name in SUMS))
            table = Table.empty(books.table.n_rows, books.table.n_columns)
            must(all(a.shape == sums.row.shape and a.ndim == 1 for a in (sums.column, sums.amount)), "environment")
            must(sums.row.dtype == sums.column.dtype == np.int64 and sums.amount.dtype == np.float64, "environment")
            inside = (sums.row >= 0) & (sums.row < table.n_rows) & (sums.column >= 0) & (sums.column < table.n_columns)
            must(bool(inside.all()) and ascending(sums.row * table.n_columns + sums.column), "environment")
            must(bool((sums.amount > 0).all()), "environment")
            structure = next((declared(kind.recipe) for kind in teams.kinds if kind.shared), None)
            must(structure is None or bool((sums.column < structure.n_outcomes[sums.row]).all()), "environment")
            table.add(sums)
        states: list[State] = [{} for _ in range(header["kinds"])]
        must(len(states) == len(teams.kinds), "kinds")
        for name, array in arrays.items():
            place, _, field = name.partition("/")
            if place.isdecimal():
                states[int(place)][field] = array
        for i, (state, kind, like) in enumerate(zip(states, teams.kinds, teams.states, strict=True)):
            check_state(f"teams {i}", state, kind, like)
        for name in LEDGER:
            must(arrays[f"rounds/{name}"].shape == getattr(rounds, name)[:, :done].shape, name)
            getattr(rounds, name)[:, :done] = arrays[f"rounds/{name}"]
        return Books(0, done, table, header.get("environment_episodes", 0)), states


class Damaged(Exception):
    """Something in a file cannot be as it was written."""


def must(hold: bool, what: str) -> None:
    if not hold:
        raise Damaged(what)


def ascending(values: Any) -> bool:
    return bool((values[1:] > values[:-1]).all())


def check_state(where: str, state: State, kind: Kind, like: State) -> None:
    """The same arrays as another state of the same teams, and numbers that kernels can trust."""
    must(state.keys() == like.keys(), where)
    for name, array in state.items():
        counted = name.endswith(("_key", "_number"))
        shape = (array.size,) if counted else like[name].shape
        must(array.dtype == like[name].dtype and array.shape == shape, f"{where}, {name}")
    sides = shapes(kind.task, flat=kind.recipe.flat, structure=kind.recipe.structure)
    for name, (rows, columns) in zip(("seen", "own"), sides, strict=True):
        size, key, number = (state[f"{name}_{part}"] for part in ("size", "key", "number"))
        must(bool((size >= 0).all()) and size.sum() == key.size == number.size, f"{where}, {name}")
        team = np.repeat(np.arange(size.size), size)
        must(bool(((key >= 0) & (key < rows * columns) & (number > 0)).all()), f"{where}, {name}")
        must(bool(((key[1:] > key[:-1]) | (team[1:] > team[:-1])).all()), f"{where}, {name}")
        if name == "own" and (outcomes := declared(kind.recipe)) is not None:
            must(bool((key % columns < outcomes.n_outcomes[key // columns]).all()), f"{where}, {name}")
    for name, (rows, columns) in zip(RECENT, sides, strict=True):
        if name in state:
            must(bool(((state[name] >= -1) & (state[name] < rows * columns)).all()), f"{where}, {name}")
    if "policy" in state:
        must(bool(((state["policy"] >= 0) & (state["policy"] < kind.task.n_agents)).all()), f"{where}, policy")


def sampled(scale: Scale, layer: str) -> list[float]:
    """A scale may be any function: it is known by some of its values, as far as it has them."""
    found = []
    with suppress(Exception):
        for episode in (*range(1, 500), *(2**power for power in range(9, 24))):
            found.append(scale.at(layer, episode))
    return found


def fingerprint(teams: Muster, mdps: Sequence[TwoLayerMDP], learners: Sequence[Learner], books: Books, *settings: int) -> str:
    """A digest of all that decides what comes out, but for the number of episodes."""
    digest = hashlib.sha256(repr((__version__, settings)).encode())

    def add(*arrays: Any) -> None:
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())

    for kind, scale, places, state in zip(teams.kinds, teams.scales, teams.members, teams.states, strict=True):
        digest.update(
            f"{show_recipe(kind.recipe)} {kind.shared} {kind.task.horizon} {kind.task.varies_with} {kind.task.modes}".encode()
        )
        add(*(sampled(scale, layer) for layer in ("agents", "environment")))
        for environment in (kind.environment, kind.recipe.known_environment):
            if environment is not None:
                table = environment.transition
                add(table.indptr, table.indices, table.data, environment.start)
        add(kind.task.env_cost, places)
        add(*kind.recipe.known_agents.values())
        add(*(state[name] for name in sorted(state)))
    for mdp, learner in zip(mdps, learners, strict=True):
        add(mdp.task.control_cost, mdp.task.switch_cost, mdp.task.start_agent, learner.seed)
        add(*mdp.policies)
    if books.table is not None:
        sums = books.table.sums()
        add(sums.row, sums.column, sums.amount, books.environment_episodes)
    return digest.hexdigest()
