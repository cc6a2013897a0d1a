"""Engines whose shards are in workers: their common part, and workers that are processes on this machine. ray.py has Ray's actors.

A `Worker` is the handle of a worker in this process; a `ShardServer`, or another `Server`, runs in the worker. Messages are
pickled. They are sent only to processes that this one started, or inside the user's own cluster.

These engines survive the loss of a worker. They store the states of all shards after some round, and every later order. A lost
shard is restarted from these states, and plays these orders again. Orders are numbered, so nothing counts twice.
"""

import pickle
import signal
import time
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Protocol

from cede import __version__
from cede._base.arrays import Floats
from cede._base.processes import spawn_context
from cede.fleet.engines import Engine, checked_jobs
from cede.fleet.grouping import ShardPlan
from cede.fleet.shard import Order, Report, Shard
from cede.learners.state import Arrays

EXIT_TIMEOUT = 60.0  # seconds to wait for the exit code of a process that is gone
MOST_LOSSES = 3  # of one shard in one round; more are an error
MOST_ORDERS, MOST_BYTES, MOST_SECONDS = 1000, 2**28, 60.0  # of the orders that are stored; beyond these, states are stored instead
OUT_OF_MEMORY = "a machine that is out of memory does that: use fewer teams, or more machines"


class Lost(Exception):
    """Raised by a worker's handle when the worker is gone. The message has the reason, if it is known."""


class Worker(Protocol):
    """The handle of a shard in a worker. All methods raise `Lost` if the worker is gone."""

    def send(self, message: bytes) -> None:
        """Send a method of the shard and its argument, as `packed` makes them, without waiting for the answer."""

    def receive(self) -> Any:
        """Wait for the answer to the last message, and return it; raise the method's error."""

    def close(self) -> None:
        """End the worker."""


def clear_error(error: Exception) -> Exception:
    """Return the error of a worker as it is raised here. There is no retry: another worker would fail too."""
    if isinstance(error, MemoryError):
        return MemoryError(f"a worker ran out of memory ({error or 'no more to be had'}): use fewer teams, or more machines")
    return error


def packed(method: str, argument: Any) -> bytes:
    """Return the message that calls a method of a shard with one argument; None: without arguments."""
    return pickle.dumps((method, argument), protocol=5)


class Server(Protocol):
    """The object that runs in a worker. It is made there, without arguments."""

    def do(self, message: bytes) -> Any:
        """Handle a message, and return the result."""


class ShardServer:
    """The server of a shard: makes the shard, then calls its methods."""

    def __init__(self) -> None:
        self.shard: Shard | None = None

    def do(self, message: bytes) -> Any:
        """Handle a message, and return the result. The first message must be "start", with the version and the ShardPlan."""
        method, argument = pickle.loads(message)
        if method == "start":
            version, plan = argument
            if version != __version__:
                raise RuntimeError(f"the worker has cede {__version__}, must be {version}, as here")
            self.shard = Shard(plan)
            return None
        assert self.shard is not None
        return getattr(self.shard, method)(*(() if argument is None else (argument,)))


class ProcessWorker:
    """The handle of a shard in a process on this machine. The process ends with this one, which closes its pipe.

    server: the class that runs in the process.
    """

    def __init__(self, index: int, server: type[Server] = ShardServer) -> None:
        context = spawn_context("engine 'processes'")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, server), name=f"cede-shard-{index}", daemon=True)
        self.process.start()
        theirs.close()

    def send(self, message: bytes) -> None:
        try:
            self.pipe.send_bytes(message)
        except OSError as error:
            raise Lost(self._end()) from error

    def receive(self) -> Any:
        try:
            well, result = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise Lost(self._end()) from error
        if not well:
            raise clear_error(result)
        return result

    def close(self) -> None:
        self.pipe.close()
        self.process.join(1.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def _end(self) -> str:
        """Return why the process ended, for an error message."""
        self.process.join(EXIT_TIMEOUT)
        code = self.process.exitcode
        if code == -signal.SIGKILL:
            return f"it was killed by signal 9; {OUT_OF_MEMORY}"
        if code == 1:
            return 'it ended with code 1; a script must start processes under `if __name__ == "__main__":`'
        return f"it ended with code {code}"


def serve(pipe: Connection, kind: type[Server]) -> None:
    """Run a worker process: answer messages until the pipe is closed. kind: of the server that answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one handles it, and closes the pipe
    server = kind()
    while True:
        try:
            message = pipe.recv_bytes()
        except (EOFError, OSError):  # the other end is closed
            return
        try:
            answer = (True, server.do(message))
        except Exception as error:
            answer = (False, error)
        with suppress(OSError):
            pipe.send_bytes(pickle.dumps(answer, protocol=5))


# ------------------------------------------------------------------------------------------------- engines


class WorkerEngine(Engine):
    """The common part of engines with workers: stores states and orders, and replaces lost workers.

    jobs: the number of workers; None: as many as there are processors.
    """

    server: type[Server] = ShardServer  # the class that runs in the workers

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
        self.plans, self.kept = plans, [[group.state for group in plan.groups] for plan in plans]
        self._kept_number, self.orders, self.failed = 0, [], True
        for index in range(len(plans)):
            self.workers.append(self.launch(index))
        for index, worker in enumerate(self.workers):
            self._try_to_send(worker, self._first_message(index))
        for index in range(len(plans)):
            self._receive(index, None)
        return self._all("optima", None)

    def play(self, order: Order) -> list[Report]:
        # Before it is sent: after an interrupt, shards may have played the round, and `number` must include it.
        self.orders.append(order)
        reports: list[Report] = self._all("play", order)
        held = sum(table.column.nbytes + table.weight.nbytes for order in self.orders for table in order.shared.values())
        if len(self.orders) >= MOST_ORDERS or held > MOST_BYTES or time.monotonic() - self.kept_at > MOST_SECONDS:
            self.states()
        return reports

    def states(self) -> list[list[Arrays]]:
        if self.orders:
            states = self._all("states", None)
            self.kept, self._kept_number, self.orders = states, self.orders[-1].number, []
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
        """Return the message that makes a shard from its stored states."""
        plan = self.plans[index]
        groups = [replace(group, state=state) for group, state in zip(plan.groups, self.kept[index], strict=True)]
        return packed("start", (__version__, replace(plan, groups=groups, number=self._kept_number)))

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
        """Send a message. The loss of the worker is handled when its answer is received."""
        with suppress(Lost):  # handled in _receive
            worker.send(message)

    def _receive(self, index: int, message: bytes | None) -> Any:
        """Return the answer of a shard to a message; None: to its first one. Replace a lost worker and send again."""
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
        """Replace a lost worker by a new one with the stored states, which plays all orders since."""
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
