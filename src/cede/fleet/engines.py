"""Where the shards of a fleet live: in this process, in others on this machine, or on a Ray cluster.

An engine starts shards, passes every order to all of them and returns what they report, in their order. What comes out is the same
for all engines. Engines with workers elsewhere are in worker_engines.py, which is loaded when one of them is used.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from importlib import import_module
from typing import Any

from cede._base import check
from cede._base.arrays import Floats
from cede.fleet.grouping import ShardPlan
from cede.fleet.shard import Order, Report, Shard
from cede.learning.state import Arrays


class Engine(ABC):
    """Runs shards somewhere. To write one of your own, implement the abstract methods; `recover` if it can survive a loss."""

    here = False  # do shards live in this process, so that an interrupted round can be finished?
    failed = False  # did something go wrong in the middle of a round, so that what the shards know is of no use?

    @abstractmethod
    def shards(self, n_teams: int) -> int:
        """Return into how many parts so many teams are cut."""

    @property
    @abstractmethod
    def number(self) -> int:
        """The last round that all shards have played."""

    @abstractmethod
    def start(self, plans: Sequence[ShardPlan]) -> list[list[Floats]]:
        """Make the shards, and return the optima of their teams, by shard and group."""

    @abstractmethod
    def play(self, order: Order) -> list[Report]:
        """Play a round, and return what came of it, by shard."""

    @abstractmethod
    def states(self) -> list[list[Arrays]]:
        """Return what the shards know after the last round, by shard and group."""

    @abstractmethod
    def close(self) -> None:
        """Free everything; may be called at any time."""

    @property
    def kept_number(self) -> int:
        """The earliest round to which `recover` may go back."""
        return self.number

    def recover(self) -> list[list[Arrays]] | None:
        """Return what all shards knew after round `kept_number`, by shard and group, when the last round failed; None: that is
        lost.
        """
        return None

    @property
    def plans_with_threads(self) -> bool:
        """Are plans made by several threads? Then rounds of one episode are faster."""
        return False


class Threads(Engine):
    """Shards in this process, a thread for each. Compiled code releases the interpreter, so they run side by side."""

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
        return min((shard.number for shard in self.made), default=0)

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
        return self.pool is None and any(shard.worth_threads() for shard in self.made)

    def _all(self, work: Sequence[Callable[[], Any]]) -> list[Any]:
        self.failed = True
        results = [part() for part in work] if self.pool is None else self._side_by_side(self.pool, work)
        self.failed = False
        return results

    @staticmethod
    def _side_by_side(pool: ThreadPoolExecutor, work: Sequence[Callable[[], Any]]) -> list[Any]:
        running: list[Future[Any]] = []
        try:
            running += [pool.submit(part) for part in work]
            return [future.result() for future in running]
        except BaseException:
            wait(running)  # nobody else must touch a shard that is still at work
            raise


# ------------------------------------------------------------------------------------------------- by name

ENGINES = {"threads": "engines", "processes": "worker_engines", "ray": "worker_engines"}  # and the modules that have them


def __getattr__(name: str) -> Any:
    """Load engines with workers when they are asked for: cede.engines.Processes, cede.engines.Ray."""
    if name in ("Processes", "Ray"):
        return getattr(import_module("cede.fleet.worker_engines"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def engine_of(owner: str, engine: Any, jobs: int | None) -> Engine:
    """Return an engine by name, or the one that is given."""
    if not isinstance(engine, str):
        if jobs is not None:
            check.fail(owner, "jobs", jobs, "left out where an engine is given: it has its own")
        if not isinstance(engine, Engine):
            check.fail(owner, "engine", check.show(engine), "one of " + ", ".join(map(repr, ENGINES)) + ", or an engine")
        return engine
    check.choice(owner, "engine", engine, tuple(ENGINES))
    made: Engine = getattr(import_module(f"cede.fleet.{ENGINES[engine]}"), engine.capitalize())(jobs)
    return made


def checked_jobs(jobs: int | None) -> int:
    """Return how many workers there are: as many as asked for, or one for each processor that this process may use."""
    if jobs is not None:
        return check.integer("engine", "jobs", jobs, 1, 10_000)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
