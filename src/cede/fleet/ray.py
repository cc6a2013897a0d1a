"""The engine "ray": shards are actors of a Ray cluster. This is the only file that imports Ray."""

import math
import os
import secrets
import socket
import sys
from typing import Any

from cede._base import check
from cede._base.extras import need
from cede.fleet.engines import checked_jobs
from cede.fleet.workers import OUT_OF_MEMORY, Lost, Server, Worker, WorkerEngine, clear_error

CONNECT_TIMEOUT = 10.0  # seconds for a cluster to answer
START_TIMEOUT, LONGEST_START = 300.0, 86_400.0  # seconds for a worker of Ray: a few on an idle machine, minutes on a busy one
RAY_LIMITS = ("RAY_worker_register_timeout_seconds", "RAY_gcs_server_port_wait_time_s")  # of a new cluster, in seconds


class RayWorker:
    """The handle of a shard in a Ray actor. server: the class that runs in the actor. start_timeout: seconds for it to start."""

    def __init__(self, ray: Any, server: type[Server], start_timeout: float) -> None:
        self.ray = ray
        remote = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(server)
        self.actor = remote.remote()
        self.answer: Any = None
        try:
            ray.get(self.actor.__ray_ready__.remote(), timeout=start_timeout)
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


class Ray(WorkerEngine):
    """Runs shards as actors of a Ray cluster: an existing one, or one that is started on this machine for the run.

    jobs: the number of actors; None: one for each processor of the cluster. address: of the cluster, as for `ray.init`: "auto" or
    host:port. Without an address, it uses the cluster to which the program is connected; if there is none, it starts one, with
    token authentication, and stops it after the run. start_timeout: seconds for each worker to start; give more on a busy machine
    or cluster.
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
        """Connect to the cluster, and return the number of shards for a number of teams: at most one for each processor."""
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
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # read when Ray is loaded; an existing cluster has its own mode
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
    """Check that a cluster listens at an address, host:port. Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT).close()


def secure_new_cluster() -> None:
    """Set environment variables for a new cluster: it requires the token of this run, and sends no usage statistics."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if os.environ.get("RAY_AUTH_MODE", "token") == "token" and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
