"""Engines: they run the shards of a fleet in this process, in other processes, or on a Ray cluster.

An engine makes shards, passes every order to all of them, and returns their reports in the order of the shards. The results are the
same for all engines. Engines with workers elsewhere are in workers.py and ray.py, which are loaded when they are used.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from importlib import import_module
from typing import Any
from weakref import ReferenceType

from cede._base import check
from cede._base.arrays import Floats
from cede.fleet.grouping import ShardPlan
from cede.fleet.shard import Order, Report, Shard
from cede.learners.state import Arrays


class Engine(ABC):
    """Runs the shards of a fleet somewhere. `simulate_fleet` uses one, and closes it at the end.

    To write your own, implement the abstract methods, and `recover` if it can survive the loss of a worker. The methods are called
    from one thread, in the order `shards`, `start`, then `play` and `states` any number of times, `close`.
    """

    here = False  # whether shards live in this process, so that an interrupted round can be finished
    failed = False  # whether a round failed in the middle, so that the states of the shards cannot be used
    run: "ReferenceType[Any] | None" = None  # the run that uses it

    @abstractmethod
    def shards(self, n_teams: int) -> int:
        """Return into how many shards to cut so many teams."""

    @property
    @abstractmethod
    def number(self) -> int:
        """Return the number of the last round that all shards have played."""

    @abstractmethod
    def start(self, plans: Sequence[ShardPlan]) -> list[list[Floats]]:
        """Make the shards, and return the least expected cost of an episode of each team, (teams,), by shard and group."""

    @abstractmethod
    def play(self, order: Order) -> list[Report]:
        """Let all shards play a round, and return their reports, by shard."""

    @abstractmethod
    def states(self) -> list[list[Arrays]]:
        """Return the states of all teams after the last round, by shard and group."""

    @abstractmethod
    def close(self) -> None:
        """Free everything. May be called at any time, also twice."""

    @property
    def kept_number(self) -> int:
        """Return the earliest round to which `recover` may go back."""
        return self.number

    def recover(self) -> list[list[Arrays]] | None:
        """Return the states of all teams after round `kept_number`, by shard and group, if the last round failed; None if they are
        lost.
        """
        return None

    @property
    def plans_with_threads(self) -> bool:
        """Return whether one plan is made by several threads. Rounds of one episode are faster then."""
        return False


class Threads(Engine):
    """Runs shards in this process, each in a thread of its own. Compiled code releases the GIL, so they run at the same time.

    jobs: the number of threads; None: one for each processor.
    """

    here = True

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = checked_jobs(jobs)
        self.made: list[Shard] = []
        self.pool: ThreadPoolExecutor | None = None

    def shards(self, n_teams: int) -> int:
        return min(self.jobs, n_teams)

    def start(self, plans: Sequence[ShardPlan]) -> list[list[Floats]]:
        self.pool = ThreadPoolExecutor(len(plans), "cede-shard") if len(plans) > 1 else None
        self.made = self._all([partial(Shard, plan) for plan in plans])
        return self._all([shard.optima for shard in self.made])

    @property
    def number(self) -> int:
        return min([shard.number for shard in self.made], default=0)

    def play(self, order: Order) -> list[Report]:
        return self._all([partial(shard.play, order) for shard in self.made])

    def states(self) -> list[list[Arrays]]:
        return [shard.states() for shard in self.made]

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()
        self.made, self.pool = [], None

    @property
    def plans_with_threads(self) -> bool:
        return self.pool is None and any(shard.worth_threads for shard in self.made)

    def _all(self, work: Sequence[Callable[[], Any]]) -> list[Any]:
        """Call some functions, at the same time if there are several shards, and return their results. `failed` is True if one
        raised.
        """
        self.failed = True
        if self.pool is None:
            results = [part() for part in work]
        else:
            running: list[Future[Any]] = []
            try:
                running += [self.pool.submit(part) for part in work]
                results = [future.result() for future in running]
            except BaseException:
                wait(running)  # a shard that is still running must not be used
                raise
        self.failed = False
        return results


# ------------------------------------------------------------------------------------------------- by name

MODULES = {"Processes": "cede.fleet.workers", "Ray": "cede.fleet.ray"}  # of engines that are loaded when they are used
ENGINES = ("threads", *(name.lower() for name in MODULES))  # names of all engines


def __getattr__(name: str) -> Any:
    """Import the engines with workers when they are first used: cede.engines.Processes, cede.engines.Ray."""
    if name in MODULES:
        return getattr(import_module(MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def engine_of(owner: str, engine: Any, jobs: int | None) -> Engine:
    """Return the engine that a user asked for: by name, with so many jobs, or an Engine itself."""
    if not isinstance(engine, str):
        if jobs is not None:
            check.fail(owner, "jobs", jobs, "left out where an engine is given: it has its own")
        if not isinstance(engine, Engine):
            check.fail(owner, "engine", check.show(engine), "one of " + ", ".join(map(repr, ENGINES)) + ", or an engine")
        return engine
    name = check.choice(owner, "engine", engine, ENGINES).capitalize()
    made: Engine = (Threads if name == "Threads" else __getattr__(name))(jobs)
    return made


def checked_jobs(jobs: int | None) -> int:
    """Return the number of workers: as given, or one for each processor that this process may use."""
    if jobs is not None:
        return check.integer("engine", "jobs", jobs, 1, 10_000)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
