"""Plans that are made elsewhere: in processes of this machine, or in actors of a Ray cluster.

Sent is the pure work (plan_work.py), and the policy comes back. What a worker is, how it is started, and how a cluster is reached,
is that of fleets (`fleet/worker_engines.py`). A worker that dies is replaced; the plan that it made is lost, and nothing else.
"""

import queue
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Ints, Policy
from cede.fleet.worker_engines import Processes, Ray, WorkerEngine
from cede.fleet.workers import Lost
from cede.serve.plan_work import PlanServer, PlanWork, packed

MOST_WORKERS = 10_000
ENGINES = ("processes", "ray")


class PlanWorkers:
    """Workers that plan, for one planner. Close them at the end.

    engine: "processes" of this machine, or "ray". jobs: how many; None: one for each processor, of this machine or of the cluster.
    address: of the cluster, as for `cede.engines.Ray`.
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
        """Make plans, as many at once as there are workers; return their policies, in the order of the works."""
        shared: dict[int, Ints] = {}
        running = []
        for work in works:
            cells = work.environment
            if id(cells) not in shared:
                shared[id(cells)] = np.array(cells, dtype=np.int64).reshape(-1, 4)
            running.append(self._pool.submit(self._plan, packed(work, shared[id(cells)])))
        return running

    def close(self) -> None:
        """End all workers."""
        self._pool.shutdown(cancel_futures=True)
        self.engine.close()

    def _plan(self, message: bytes) -> Any:
        """Let a worker that is free do what a message says. If it is lost, another one takes its place."""
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
