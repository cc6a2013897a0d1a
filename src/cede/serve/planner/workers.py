"""Plan workers: processes of this machine, or actors of a Ray cluster, that make plans in parallel.

A worker gets a `PlanWork` as bytes and returns the policy. Workers and clusters are those of fleets (`fleet/workers.py`). A
worker that dies is replaced; only its current plan is lost.
"""

import queue
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from cede._base import check
from cede._base.arrays import Policy
from cede.fleet.ray import Ray
from cede.fleet.workers import Lost, Processes, WorkerEngine
from cede.serve.served import PlanServer, PlanWork

MOST_WORKERS = 10_000
ENGINES = ("processes", "ray")


class PlanWorkers:
    """Workers of one planner. Close them at the end.

    engine: "processes" of this machine, or "ray". jobs: their number; None: one for each processor, of this machine or of the
    cluster. address: of the cluster, as for `cede.engines.Ray`.
    """

    def __init__(self, engine: str = "processes", jobs: int | None = None, address: str | None = None) -> None:
        check.choice("planner", "engine", engine, ENGINES)
        if address is not None and engine != "ray":
            check.fail("planner", "address", check.show(address), "left out with engine 'processes': it is that of a Ray cluster")
        self.engine: WorkerEngine = Ray(jobs, address) if engine == "ray" else Processes(jobs)
        self.engine.server = PlanServer
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        try:
            self.number = self.engine.shards(MOST_WORKERS)
            for index in range(self.number):
                self.engine.workers.append(self.engine.launch(index))
                self._free.put(index)
        except BaseException:
            self.engine.close()
            raise
        self._pool = ThreadPoolExecutor(self.number, "cede-plans")

    def policies(self, works: Sequence[PlanWork]) -> list[Future[Policy]]:
        """Make plans in parallel; return the futures of their policies, in the order of the works."""
        return [self._pool.submit(self._plan, work.packed) for work in works]

    def close(self) -> None:
        """End all workers."""
        self._pool.shutdown(cancel_futures=True)
        self.engine.close()

    def _plan(self, message: bytes) -> Any:
        """Send a message to a free worker, and return its answer. A worker that is lost is replaced."""
        index = self._free.get()
        try:
            worker = self.engine.workers[index]
            try:
                worker.send(message)
                return worker.receive()
            except Lost as error:
                worker.close()
                self.engine.workers[index] = self.engine.launch(index)
                raise OSError(f"planner: a worker was lost, its plan is made again when the lease is over: {error}") from error
        finally:
            self._free.put(index)
