"""Where the shards of a fleet live: in this process, in others on this machine, or on a Ray cluster.

An engine starts shards, passes every order to all of them and returns what they report, in their order. What comes out is the
same for all engines. `Hosted` engines survive the loss of a worker: they keep the states of all shards as of some round, and
every order since; a lost shard is started anew from there, and plays again what it had played. Orders are numbered, so nothing
counts twice.

This is the only file that imports Ray. What a worker is, and what goes there and back, is in hosts.py.
"""

import os
import secrets
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from cede import __version__
from cede._base import check
from cede._base.arrays import Floats
from cede._base.extras import need
from cede.fleet.shard import Order, Report, Shard, ShardPlan
from cede.fleet.team_states import State
from cede.fleet.workers import Actor, Host, Lost, Process, packed

MOST_LOSSES = 3  # of one shard in one round: then it is no accident
MOST_ORDERS, MOST_BYTES, MOST_SECONDS = 1000, 2**28, 60.0  # of orders kept for a shard that is lost; then its state is
PATIENCE = 10.0  # seconds for a cluster to answer


class Engine(Protocol):
    """Runs shards somewhere."""

    here: bool  # do shards live in this process, so that an interrupted round can be finished?
    failed: bool  # did something go wrong in the middle of a round, so that what the shards know is of no use?

    def shards(self, n_teams: int) -> int:
        """Into how many parts so many teams are cut."""

    @property
    def number(self) -> int:
        """The last round that all shards have played."""

    def start(self, plans: Sequence[ShardPlan]) -> list[list[Floats]]:
        """Make the shards: the optima of their teams, by shard and crew."""

    def play(self, order: Order) -> list[Report]:
        """A round, by shard."""

    def states(self) -> list[list[State]]:
        """What the shards know after the last round, by shard and crew."""

    def close(self) -> None:
        """Free everything; may be called at any time."""


# ------------------------------------------------------------------------------------------------- in this process


class Threads:
    """Shards in this process, a thread for each. Compiled code releases the interpreter, so they run side by side."""

    here = True

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = checked_jobs(jobs)
        self.failed = False
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

    def states(self) -> list[list[State]]:
        return [shard.states() for shard in self.made]

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()
        self.made, self.pool = [], None

    def worth_threads(self) -> bool:
        """Would several threads on one plan be faster than one?"""
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


# ------------------------------------------------------------------------------------------------- in other processes


class Hosted(ABC):
    """What engines with workers have in common: they can lose one, and lose nothing by it."""

    here = False

    def __init__(self, jobs: int | None) -> None:
        self.jobs = jobs
        self.failed = False
        self.plans: Sequence[ShardPlan] = ()
        self.hosts: list[Host] = []
        self.kept: list[list[State]] = []  # what the shards knew after round kept_number
        self.kept_number = 0
        self.orders: list[Order] = []  # since then
        self.kept_at = time.monotonic()

    @property
    def number(self) -> int:
        return self.orders[-1].number if self.orders else self.kept_number

    @abstractmethod
    def launch(self, index: int) -> Host:
        """A process that will be a shard."""

    def broadcast(self, message: bytes) -> Any:
        """Make a message ready to be sent to all."""
        return message

    def shards(self, n_teams: int) -> int:
        return min(checked_jobs(self.jobs), n_teams)

    def start(self, plans: Sequence[ShardPlan]) -> list[list[Floats]]:
        self.plans, self.kept = plans, [list(plan.states) for plan in plans]
        self.kept_number, self.orders, self.failed = 0, [], True
        for index in range(len(plans)):
            self.hosts.append(self.launch(index))
        for index, host in enumerate(self.hosts):
            self._try_to_send(host, self._birth(index))
        for index in range(len(plans)):
            self._receive(index, None)
        return self._all("optima", None)

    def play(self, order: Order) -> list[Report]:
        self.orders.append(
            order
        )  # first: whatever stops this, `number` is not that of a round that all have played and nobody knows
        reports: list[Report] = self._all("play", order)
        tables = [order.snapshot for order in self.orders if order.snapshot is not None]
        held = sum(table.column.nbytes + table.weight.nbytes for table in tables)
        if len(self.orders) >= MOST_ORDERS or held > MOST_BYTES or time.monotonic() - self.kept_at > MOST_SECONDS:
            self.states()
        return reports

    def states(self) -> list[list[State]]:
        if self.orders:
            kept = self._all("states", None)
            self.kept, self.kept_number, self.orders = kept, self.orders[-1].number, []
            self.kept_at = time.monotonic()
        return self.kept

    def close(self) -> None:
        hosts, self.hosts = self.hosts, []
        for host in hosts:
            host.close()

    def _birth(self, index: int) -> bytes:
        """Makes the shard as it was when it was kept."""
        plan = replace(self.plans[index], states=self.kept[index], number=self.kept_number)
        return packed("start", (__version__, plan))

    def _all(self, method: str, argument: Any) -> list[Any]:
        self.failed = True  # until all have answered
        message = packed(method, argument)
        for_all = self.broadcast(message)
        for host in self.hosts:
            self._try_to_send(host, for_all)
        answers = [self._receive(index, message) for index in range(len(self.hosts))]
        self.failed = False
        return answers

    @staticmethod
    def _try_to_send(host: Host, message: Any) -> None:
        with suppress(Lost):  # found out, and mended, when its answer is due
            host.send(message)

    def _receive(self, index: int, message: bytes | None) -> Any:
        """The answer of a shard to a message (None: to its birth). If it is lost, one that takes its place is asked again."""
        losses = 0
        while True:
            try:
                if losses == 0:
                    return self.hosts[index].receive()
                self._restart(index)
                if message is None:
                    return None
                self.hosts[index].send(message)
                return self.hosts[index].receive()
            except Lost as error:
                losses += 1
                if losses > MOST_LOSSES:
                    where = f"round {self.number}" if self.orders else "its start"
                    raise OSError(f"the worker of shard {index} was lost {losses} times in {where}: {error}") from error

    def _restart(self, index: int) -> None:
        """A new worker, brought to where the lost one was; the order of this round may be among those that it plays."""
        self.hosts[index].close()
        self.hosts[index] = host = self.launch(index)
        for message in (self._birth(index), *(packed("play", order) for order in self.orders)):
            host.send(message)
            host.receive()


class Processes(Hosted):
    """Shards in processes of this machine."""

    def __init__(self, jobs: int | None = None) -> None:
        super().__init__(checked_jobs(jobs))

    def launch(self, index: int) -> Host:
        return Process(index)


# ------------------------------------------------------------------------------------------------- on Ray


class Ray(Hosted):
    """Shards as actors of a Ray cluster: an existing one, by its address, or one that is started here for the run.

    address: as of `ray.init`, "auto" or host:port. Without one, and where the program has not connected to a cluster itself, one
    is started on this machine, with token authentication, and stopped after the run.
    """

    def __init__(self, jobs: int | None = None, address: str | None = None) -> None:
        super().__init__(None if jobs is None else checked_jobs(jobs))
        self.address = address
        self.ray: Any = None
        self.ours = False  # is the connection ours to close?

    def shards(self, n_teams: int) -> int:
        """Connects: how many there can be depends on the cluster."""
        self.ray, self.ours = connect(self.address, self.jobs)
        cpus = int(self.ray.cluster_resources().get("CPU", 0))
        jobs = self.jobs or cpus
        if jobs > cpus:
            check.fail("engine 'ray'", "jobs", jobs, f"at most {cpus}, the processors of the cluster")
        return min(jobs, n_teams)

    def launch(self, index: int) -> Host:
        return Actor(self.ray)

    def broadcast(self, message: bytes) -> Any:
        return self.ray.put(message)  # once for all

    def close(self) -> None:
        super().close()
        ray, self.ray = self.ray, None
        if ray is not None and self.ours and ray.is_initialized():
            ray.shutdown()


def connect(address: str | None, jobs: int | None) -> tuple[Any, bool]:
    """Ray, connected to a cluster; and is the connection new?"""
    if "ray" not in sys.modules and address is None:
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # read when Ray is loaded; a cluster that is there has its own mode
    ray = need("ray", "ray")
    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", there):
            check.fail("engine 'ray'", "address", repr(address), f"{there!r} or left out: the program is connected to that one")
        return ray, False
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        secure_new_cluster()
        ray.init(address="local", num_cpus=checked_jobs(jobs), include_dashboard=False, **quiet)
        return ray, True
    try:
        reach(address)
        ray.init(address=address, **quiet)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        hint = "if it asks for a token, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN if it is not in ~/.ray/auth_token"
        raise OSError(f"engine 'ray': no cluster answers at address {address!r} ({str(error).splitlines()[0]}); {hint}") from error
    return ray, True


def reach(address: str) -> None:
    """Knock first: Ray itself waits for minutes at a door that nobody opens."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), PATIENCE).close()


def secure_new_cluster() -> None:
    """Only who knows the token of this run may talk to its cluster, and nobody is told of it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if os.environ.get("RAY_AUTH_MODE", "token") == "token" and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


# ------------------------------------------------------------------------------------------------- by name

ENGINES: dict[str, Callable[..., Engine]] = {"threads": Threads, "processes": Processes, "ray": Ray}


def engine_of(owner: str, engine: Any, jobs: int | None) -> Engine:
    """An engine by name, or the one that is given."""
    if not isinstance(engine, str):
        if jobs is not None:
            check.fail(owner, "jobs", jobs, "left out where an engine is given: it has its own")
        if not all(hasattr(engine, name) for name in ("here", "failed", "number", "shards", "start", "play", "states", "close")):
            check.fail(owner, "engine", check.show(engine), "one of " + ", ".join(map(repr, ENGINES)) + ", or an engine")
        given: Engine = engine
        return given
    check.choice(owner, "engine", engine, tuple(ENGINES))
    return ENGINES[engine](jobs)


def checked_jobs(jobs: int | None) -> int:
    """How many workers: as many as asked for, or one for each processor that this process may use."""
    if jobs is not None:
        return check.integer("engine", "jobs", jobs, 1, 10_000)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
