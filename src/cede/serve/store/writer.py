"""The thread that writes to the database: it commits all queued reports together.

A commit takes milliseconds regardless of its size. Reports that arrive during a commit are written together by the next one. A
report is answered when it is on disk.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from sqlalchemy import Connection

from cede.serve.store.database import Busy, Refused, Unavailable
from cede.serve.store.log import Accepted, StepReport, take_in
from cede.serve.store.store import Store

Work = Callable[[Connection], Any]
GROUP = 20_000  # most steps of a commit
WEIGHT = 4  # cost of a request beside its steps, in steps


class Writer:
    """Writes reports and other changes in one thread.

    most: steps that may be queued. counted: called after a commit with the number of counted episodes by team.
    """

    def __init__(self, store: Store, most: int = 200_000, counted: Callable[[dict[int, int]], None] | None = None) -> None:
        self.store, self.most, self._counted = store, most, counted
        self._more = threading.Condition()
        self._reports: deque[tuple[StepReport, Future[Accepted]]] = deque()
        self._works: deque[tuple[Work, Future[Any]]] = deque()
        self._waiting, self._closed, self.failures = 0, False, 0
        self._thread = threading.Thread(target=self._run, name="cede-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Return the number of queued steps."""
        return self._waiting

    @property
    def alive(self) -> bool:
        """Return whether it writes."""
        return self._thread.is_alive() and not self._closed

    def submit(self, report: StepReport) -> Future[Accepted]:
        """Queue a report. The future holds its outcome once it is on disk; Refused if it contradicts the log."""
        return self._queue(self._reports, report, WEIGHT + len(report.steps))

    def call(self, work: Work) -> Future[Any]:
        """Queue a function that is called with a connection in a write transaction of its own. The future holds its answer."""
        return self._queue(self._works, work, WEIGHT)

    def _queue(self, queue: deque[tuple[Any, Future[Any]]], work: Any, size: int) -> Future[Any]:
        """Queue work of a size, if there is room."""
        future = Future[Any]()
        with self._more:
            if self._closed:
                raise Unavailable("the service is being stopped")
            if self._waiting and self._waiting + size > self.most:
                raise Busy(f"{self._waiting} steps wait to be written")
            self._waiting += size
            queue.append((work, future))
            self._more.notify()
        return future

    def close(self) -> None:
        """Write all that is queued, and stop."""
        with self._more:
            self._closed = True
            self._more.notify()
        self._thread.join()

    def _run(self) -> None:
        """Write until closed. An error of the database is passed to the callers, and does not end the thread."""
        while True:
            with self._more:
                while not self._reports and not self._works and not self._closed:
                    self._more.wait()
                if not self._reports and not self._works:
                    return
                group, size = [], 0
                while self._reports and size < GROUP:
                    report, future = self._reports.popleft()
                    if future.set_running_or_notify_cancel():  # from here on it cannot be cancelled
                        group.append((report, future))
                        size += WEIGHT + len(report.steps)
                    else:  # the client is gone: the report was not acknowledged, and is not taken
                        self._waiting -= WEIGHT + len(report.steps)
                works = [one for one in self._works if one[1].set_running_or_notify_cancel()]
                self._waiting -= WEIGHT * (len(self._works) - len(works))
                self._works.clear()
            if group:
                self._write(group, size)
            for work, future in works:
                self._do(work, future)

    def _settle(self, size: int) -> None:
        """Reduce the number of queued steps. Called before the futures are set."""
        with self._more:
            self._waiting -= size

    def _write(self, group: list[tuple[StepReport, Future[Accepted]]], size: int) -> None:
        """Write a group of reports in one transaction, and set their futures."""
        reports = [report for report, _ in group]
        try:
            outcomes, counted = self.store.database.write(lambda c: take_in(c, self.store.team_of, reports))
        except Exception as error:
            self.failures += 1
            self._settle(size)
            for _, future in group:
                future.set_exception(unavailable(error))
            return
        self._settle(size)
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, Refused):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        if counted and self._counted is not None:
            self._counted(counted)

    def _do(self, work: Work, future: Future[Any]) -> None:
        """Call a function in a write transaction, and set its future."""
        try:
            result = self.store.database.write(work)
        except Exception as error:
            self._settle(WEIGHT)
            if isinstance(error, ValueError):  # a wrong request
                future.set_exception(error)
            else:
                self.failures += 1
                future.set_exception(unavailable(error))
        else:
            self._settle(WEIGHT)
            future.set_result(result)


def unavailable(error: Exception) -> Unavailable:
    """Return the error for clients when the database failed. The cause is for the log, not for them."""
    result = Unavailable("the database cannot be written now")
    result.__cause__ = error
    return result
