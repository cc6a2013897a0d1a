"""Workers: shards in other processes or in actors of Ray.

`ProcessWorker` and `RayWorker` are the handles of workers in this process; `ShardServer` runs in the worker, or another `Server`.
Messages are pickled. They go only between processes that this one started, or inside the user's own cluster.
"""

import pickle
import signal
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Protocol

from cede import __version__
from cede._base.processes import spawn_context
from cede.fleet.shard import Shard

PATIENCE = 60.0  # seconds to wait for the exit code of a process that is gone
OUT_OF_MEMORY = "a machine that is out of memory does that: use fewer teams, or more machines"


class Lost(Exception):
    """Raised by a worker's handle when the worker is gone. The message says why, as far as that is known."""


class Worker(Protocol):
    """The handle of a shard that runs somewhere else. All methods raise `Lost` if the worker is gone."""

    def send(self, message: bytes) -> None:
        """Send a method of the shard and its argument, as `packed` makes them, without waiting for the answer."""

    def receive(self) -> Any:
        """Wait for the answer to the last message, and return it; raise what the method raised."""

    def close(self) -> None:
        """End the worker."""


def clear_error(error: Exception) -> Exception:
    """Return the error of a worker as it is raised here. It is not tried again: another worker would fail as well."""
    if isinstance(error, MemoryError):
        return MemoryError(f"a worker ran out of memory ({error or 'no more to be had'}): use fewer teams, or more machines")
    return error


def packed(method: str, argument: Any) -> bytes:
    """Return the message that calls a method of a shard with one argument; None: without arguments."""
    return pickle.dumps((method, argument), protocol=5)


class Server(Protocol):
    """The part that runs in a worker. It is made there, without arguments."""

    def version(self) -> str:
        """Return the version of cede that the worker has."""

    def do(self, message: bytes) -> Any:
        """Do what a message says, and return the result."""


class ShardServer:
    """The part that runs in a worker: makes the shard when told to, then calls its methods."""

    def __init__(self) -> None:
        self.shard: Shard | None = None

    def version(self) -> str:
        """Return the version of cede that the worker has."""
        return __version__

    def do(self, message: bytes) -> Any:
        """Do what a message says, and return the result. The first message must be "start", with the version and the ShardPlan."""
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
    """The handle of a shard in a process on this machine. The process ends when this one does, since its pipe is closed then.

    server: what runs there, a class.
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
        self.process.join(PATIENCE)
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


class RayWorker:
    """The handle of a shard in a Ray actor. server: what runs there, a class. start_timeout: seconds for it to start."""

    def __init__(self, ray: Any, server: type[Server], start_timeout: float) -> None:
        self.ray = ray
        remote = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(server)
        self.actor = remote.remote()
        self.answer: Any = None
        try:
            ray.get(self.actor.version.remote(), timeout=start_timeout)
        except ray.exceptions.GetTimeoutError as error:
            ray.kill(self.actor)
            text = f"engine 'ray': no worker could be started within start_timeout={start_timeout:g} seconds"
            raise OSError(f"{text}; are the processors of the cluster busy?") from error
        except ray.exceptions.RayActorError:
            pass  # handled when its first answer is received

    def send(self, message: Any) -> None:
        self.answer = self.actor.do.remote(message)

    def receive(self) -> Any:
        errors = self.ray.exceptions
        try:
            return self.ray.get(self.answer)
        except errors.RayTaskError as error:
            raise clear_error(error.cause) from error
        except (errors.RayActorError, errors.OutOfMemoryError, errors.ObjectLostError, errors.WorkerCrashedError) as error:
            raise Lost(f"{str(error).splitlines()[0]} {OUT_OF_MEMORY}") from error

    def close(self) -> None:
        if self.ray.is_initialized():
            self.ray.kill(self.actor)
