"""The one thread that writes: it takes all reports that wait, and commits them together.

A commit to disk takes milliseconds whatever its size. So reports that come while one commit runs wait for the next one, together.
A report is answered when it is on disk.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from sqlalchemy import Connection

from cede.serve.log import Accepted
from cede.serve.reports import Refused, Report
from cede.serve.store import Store

Work = Callable[[Connection], Any]
GROUP = 20_000  # steps that are committed together at most
WEIGHT = 4  # what a request costs beside its steps, in steps


class Busy(Exception):
    """More waits to be written than may wait."""


class Unavailable(Exception):
    """The database cannot be written."""


class Writer:
    """Writes reports, and whatever else is to be written, in one thread.

    store: where to. most: steps that may wait. counted: called after a commit with how many episodes of each team were counted.
    """

    def __init__(self, store: Store, most: int = 200_000, counted: Callable[[dict[int, int]], None] | None = None) -> None:
        self.store, self.most, self._counted = store, most, counted
        self._more = threading.Condition()
        self._reports: deque[tuple[Report, Future[Accepted]]] = deque()
        self._works: deque[tuple[Work, Future[Any]]] = deque()
        self._waiting, self._closed, self.failures = 0, False, 0
        self._thread = threading.Thread(target=self._run, name="cede-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Return how many steps wait."""
        return self._waiting

    @property
    def alive(self) -> bool:
        """Return whether it writes."""
        return self._thread.is_alive() and not self._closed

    def submit(self, report: Report) -> Future[Accepted]:
        """Queue a report. The future holds what became of it once that is on disk; Refused if it contradicts the log."""
        size, future = WEIGHT + len(report.steps), Future[Accepted]()
        with self._more:
            self._check_open(size)
            self._waiting += size
            self._reports.append((report, future))
            self._more.notify()
        return future

    def call(self, work: Work) -> Future[Any]:
        """Queue a function that is called with a connection in a write transaction of its own. The future holds its answer."""
        future = Future[Any]()
        with self._more:
            self._check_open(WEIGHT)
            self._waiting += WEIGHT
            self._works.append((work, future))
            self._more.notify()
        return future

    def _check_open(self, size: int) -> None:
        """Check that something of a size may wait."""
        if self._closed:
            raise Unavailable("the service is being stopped")
        if self._waiting and self._waiting + size > self.most:
            raise Busy(f"{self._waiting} steps wait to be written")

    def close(self) -> None:
        """Write all that waits, and stop."""
        with self._more:
            self._closed = True
            self._more.notify()
        self._thread.join()

    def _run(self) -> None:
        """Write until closed. No error of the database ends it: those who wait are told."""
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
                    else:  # nobody waits for it any more: it was not acknowledged, and is not taken
                        self._waiting -= WEIGHT + len(report.steps)
                works = [one for one in self._works if one[1].set_running_or_notify_cancel()]
                self._waiting -= WEIGHT * (len(self._works) - len(works))
                self._works.clear()
            if group:
                self._write(group, size)
            for work, future in works:
                self._do(work, future)

    def _settle(self, size: int) -> None:
        """Take note that something of a size waits no longer. It is called before those are answered who waited."""
        with self._more:
            self._waiting -= size

    def _write(self, group: list[tuple[Report, Future[Accepted]]], size: int) -> None:
        """Write a group of reports in one transaction, and answer each."""
        try:
            results, counted = self.store.database.write(lambda c: self.store.take_in(c, [report for report, _ in group]))
        except Exception as error:
            self.failures += 1
            self._settle(size)
            for _, future in group:
                future.set_exception(unavailable(error))
            return
        self._settle(size)
        for (_, future), result in zip(group, results, strict=True):
            if isinstance(result, Refused):
                future.set_exception(result)
            else:
                future.set_result(result)
        if counted and self._counted is not None:
            self._counted(counted)

    def _do(self, work: Work, future: Future[Any]) -> None:
        """Call a function in a write transaction, and answer."""
        try:
            result = self.store.database.write(work)
        except ValueError as error:  # what the caller asked for cannot be
            self._settle(WEIGHT)
            future.set_exception(error)
        except Exception as error:
            self.failures += 1
            self._settle(WEIGHT)
            future.set_exception(unavailable(error))
        else:
            self._settle(WEIGHT)
            future.set_result(result)


def unavailable(error: Exception) -> Unavailable:
    """Return the error for those who wait, when the database failed. What exactly failed is for the log, not for them."""
    result = Unavailable("the database cannot be written now")
    result.__cause__ = error
    return result
