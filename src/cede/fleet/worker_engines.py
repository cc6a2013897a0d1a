"""Engines whose shards live in workers: processes on this machine, or actors of a Ray cluster.

They survive the loss of a worker. They keep the states of all shards as of some round, and every order since. A lost shard is
started again from there, and plays again what it had played. Orders are numbered, so nothing counts twice.

This is the only file that imports Ray. What a worker is, and which messages are exchanged, is in workers.py.
"""

import math
import os
import secrets
import socket
import sys
import time
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from cede import __version__
from cede._base import check
from cede._base.arrays import Floats
from cede._base.extras import need
from cede.fleet.engines import Engine, checked_jobs
from cede.fleet.grouping import ShardPlan
from cede.fleet.shard import Order, Report
from cede.fleet.workers import Lost, ProcessWorker, RayWorker, Server, ShardServer, Worker, packed
from cede.learners.state import Arrays

MOST_LOSSES = 3  # of one shard in one round; more are not taken for accidents
MOST_ORDERS, MOST_BYTES, MOST_SECONDS = 1000, 2**28, 60.0  # of the orders that are kept; beyond these, the states are kept instead
PATIENCE = 10.0  # seconds for a cluster to answer
START_TIMEOUT, LONGEST_START = 300.0, 86_400.0  # seconds for a worker of Ray: a few on an idle machine, minutes on a busy one
RAY_LIMITS = ("RAY_worker_register_timeout_seconds", "RAY_gcs_server_port_wait_time_s")  # of a new cluster, in seconds


class WorkerEngine(Engine):
    """What engines with workers have in common: keeping states and orders, and replacing workers that are lost.

    jobs: the number of workers; None: as many as there are processors.
    """

    server: type[Server] = ShardServer  # what runs in the workers

    def __init__(self, jobs: int | None) -> None:
        self.jobs = jobs
        self.failed = False
        self.plans: Sequence[ShardPlan] = ()
        self.workers: list[Worker] = []
        self.kept: list[list[Arrays]] = []  # states after round kept_number, by shard and group
        self._kept_number = 0
        self.orders: list[Order] = []  # all orders since that round
        self.kept_at = time.monotonic()

    @property
    def number(self) -> int:
        return self.orders[-1].number if self.orders else self._kept_number

    @abstractmethod
    def launch(self, index: int) -> Worker:
        """Start a worker that will run shard `index`, and return it."""

    def broadcast(self, message: bytes) -> Any:
        """Return a message in a form that is cheap to send to all workers."""
        return message

    def shards(self, n_teams: int) -> int:
        return min(checked_jobs(self.jobs), n_teams)

    def start(self, plans: Sequence[ShardPlan]) -> list[list[Floats]]:
        self.plans, self.kept = plans, [list(plan.states) for plan in plans]
        self._kept_number, self.orders, self.failed = 0, [], True
        for index in range(len(plans)):
            self.workers.append(self.launch(index))
        for index, worker in enumerate(self.workers):
            self._try_to_send(worker, self._first_message(index))
        for index in range(len(plans)):
            self._receive(index, None)
        return self._all("optima", None)

    def play(self, order: Order) -> list[Report]:
        # Before it is sent: if this is interrupted, shards may have played the round, and `number` must not say otherwise.
        self.orders.append(order)
        reports: list[Report] = self._all("play", order)
        held = sum(table.column.nbytes + table.weight.nbytes for order in self.orders for table in order.shared.values())
        if len(self.orders) >= MOST_ORDERS or held > MOST_BYTES or time.monotonic() - self.kept_at > MOST_SECONDS:
            self.states()
        return reports

    def states(self) -> list[list[Arrays]]:
        if self.orders:
            kept = self._all("states", None)
            self.kept, self._kept_number, self.orders = kept, self.orders[-1].number, []
            self.kept_at = time.monotonic()
        return self.kept

    @property
    def kept_number(self) -> int:
        return self._kept_number

    def recover(self) -> list[list[Arrays]] | None:
        return self.kept or None

    def close(self) -> None:
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.close()

    def _first_message(self, index: int) -> bytes:
        """Return the message that makes a shard as it was in the round that was kept."""
        plan = replace(self.plans[index], states=self.kept[index], number=self._kept_number)
        return packed("start", (__version__, plan))

    def _all(self, method: str, argument: Any) -> list[Any]:
        """Call a method of all shards, and return their answers. `failed` is True until all have answered."""
        self.failed = True  # until all have answered
        message = packed(method, argument)
        for_all = self.broadcast(message)
        for worker in self.workers:
            self._try_to_send(worker, for_all)
        answers = [self._receive(index, message) for index in range(len(self.workers))]
        self.failed = False
        return answers

    @staticmethod
    def _try_to_send(worker: Worker, message: Any) -> None:
        """Send a message. If the worker is lost, this is noticed, and mended, when its answer is received."""
        with suppress(Lost):  # handled in _receive
            worker.send(message)

    def _receive(self, index: int, message: bytes | None) -> Any:
        """Return the answer of a shard to a message; None: to its first one. If the worker is lost, replace it and ask again."""
        losses = 0
        while True:
            try:
                if losses == 0:
                    return self.workers[index].receive()
                self._restart(index)
                if message is None:
                    return None
                self.workers[index].send(message)
                return self.workers[index].receive()
            except Lost as error:
                losses += 1
                if losses > MOST_LOSSES:
                    where = f"round {self.number}" if self.orders else "its start"
                    raise OSError(f"the worker of shard {index} was lost {losses} times in {where}: {error}") from error

    def _restart(self, index: int) -> None:
        """Replace a lost worker, and bring the new one to the round in which the lost one was by playing all orders since the kept
        state.
        """
        self.workers[index].close()
        self.workers[index] = worker = self.launch(index)
        for message in (self._first_message(index), *(packed("play", order) for order in self.orders)):
            worker.send(message)
            worker.receive()


class Processes(WorkerEngine):
    """Runs shards in processes on this machine, one for each. jobs: the number of processes; None: one for each processor."""

    def __init__(self, jobs: int | None = None) -> None:
        super().__init__(checked_jobs(jobs))

    def launch(self, index: int) -> Worker:
        return ProcessWorker(index, self.server)


# ------------------------------------------------------------------------------------------------- on Ray


class Ray(WorkerEngine):
    """Runs shards as actors of a Ray cluster: an existing one, or one that is started on this machine for the run.

    jobs: the number of actors; None: one for each processor of the cluster. address: of the cluster, as for `ray.init`: "auto" or
    host:port. Without an address, the cluster is used to which the program is already connected; if there is none, one is started,
    with token authentication, and stopped after the run. start_timeout: seconds for each worker to start; on a machine or a cluster
    that is very busy, give more.
    """

    def __init__(self, jobs: int | None = None, address: str | None = None, *, start_timeout: float = START_TIMEOUT) -> None:
        super().__init__(None if jobs is None else checked_jobs(jobs))
        self.address = address
        self.start_timeout = check.number("engine 'ray'", "start_timeout", start_timeout)
        if not 1.0 <= self.start_timeout <= LONGEST_START:
            check.fail("engine 'ray'", "start_timeout", self.start_timeout, f"from 1 to {LONGEST_START:g} seconds")
        self.ray: Any = None
        self.ours = False  # whether this engine opened the connection, and must close it

    def shards(self, n_teams: int) -> int:
        """Connect to the cluster, and return into how many shards to cut so many teams: at most one for each of its processors."""
        self.ray, self.ours = connect(self.address, self.jobs, self.start_timeout)
        cpus = int(self.ray.cluster_resources().get("CPU", 0))
        jobs = self.jobs or cpus
        if jobs > cpus:
            check.fail("engine 'ray'", "jobs", jobs, f"at most {cpus}, the processors of the cluster")
        return min(jobs, n_teams)

    def launch(self, index: int) -> Worker:
        return RayWorker(self.ray, self.server, self.start_timeout)

    def broadcast(self, message: bytes) -> Any:
        return self.ray.put(message)  # stored once, read by all actors

    def close(self) -> None:
        super().close()
        ray, self.ray = self.ray, None
        if ray is not None and self.ours and ray.is_initialized():
            ray.shutdown()


def connect(address: str | None, jobs: int | None, start_timeout: float = START_TIMEOUT) -> tuple[Any, bool]:
    """Connect to a cluster, and return the module `ray` and whether the connection is new. start_timeout: see `Ray`."""
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
        for limit in RAY_LIMITS:
            os.environ.setdefault(limit, str(math.ceil(start_timeout)))
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
    """Check that a cluster listens at an address, host:port. Ray itself would wait for minutes if there is none."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), PATIENCE).close()


def secure_new_cluster() -> None:
    """Set the environment for a new cluster: only who knows the token of this run may use it, and no usage statistics are sent."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if os.environ.get("RAY_AUTH_MODE", "token") == "token" and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
