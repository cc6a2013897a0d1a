"""The thread that writes to the database: it commits all queued reports together.

A commit takes milliseconds regardless of its size. Reports that arrive during a commit are written together by the next one. A
report is answered when it is on disk.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from cede.serve.store.database import Busy, Unavailable
from cede.serve.store.log import Accepted, StepReport, take_in

if TYPE_CHECKING:
    from cede.serve.store.store import Store

Work = Callable[[Connection], Any]
GROUP = 20_000  # most steps of a commit
WEIGHT = 4  # cost of a request beside its steps, in steps


@dataclass(frozen=True, eq=False)
class Queued:
    """A report, or a function that writes, in the queue."""

    work: Any
    size: int  # in steps
    future: Future[Any] = field(default_factory=Future)


class Writer:
    """Writes reports and other changes in one thread.

    most: steps that may be queued. counted: called after a commit with the number of counted episodes by team.
    """

    def __init__(self, store: "Store", most: int = 200_000, counted: Callable[[dict[int, int]], None] | None = None) -> None:
        self.store, self.most, self._counted = store, most, counted
        self._more = threading.Condition()
        self._reports: deque[Queued] = deque()
        self._works: deque[Queued] = deque()
        self.waiting, self.failures = 0, 0  # queued steps; commits that failed
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="cede-writer", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return whether it writes."""
        return self._thread.is_alive() and not self._closed

    def submit(self, report: StepReport) -> Future[Accepted]:
        """Queue a report. The future holds its outcome once it is on disk; Refused if it contradicts the log."""
        return self._put(self._reports, Queued(report, WEIGHT + len(report.steps)))

    def call(self, work: Work) -> Future[Any]:
        """Queue a function that is called with a connection in a write transaction of its own. The future holds its answer."""
        return self._put(self._works, Queued(work, WEIGHT))

    def close(self) -> None:
        """Write all that is queued, and stop."""
        with self._more:
            self._closed = True
            self._more.notify()
        self._thread.join()

    def _put(self, queue: deque[Queued], new: Queued) -> Future[Any]:
        """Add to a queue, if there is room."""
        with self._more:
            if self._closed:
                raise Unavailable("the service is being stopped")
            if self.waiting and self.waiting + new.size > self.most:
                raise Busy(f"{self.waiting} steps wait to be written")
            self.waiting += new.size
            queue.append(new)
            self._more.notify()
        return new.future

    def _take(self, queue: deque[Queued]) -> list[Queued]:
        """Remove the first entries of a queue, about GROUP steps. They cannot be cancelled any more; cancelled ones are dropped."""
        group, size = [], 0
        while queue and size < GROUP:
            first = queue.popleft()
            if first.future.set_running_or_notify_cancel():
                group.append(first)
                size += first.size
            else:  # the client is gone: the report was not acknowledged, and is not taken
                self.waiting -= first.size
        return group

    def _run(self) -> None:
        """Write until closed. An error of the database is passed to the callers, and does not end the thread."""
        while True:
            with self._more:
                self._more.wait_for(lambda: self._reports or self._works or self._closed)
                if not self._reports and not self._works:
                    return
                reports, works = self._take(self._reports), self._take(self._works)
            if reports:
                self._write_reports(reports)
            for queued in works:
                self._write_one(queued)

    def _write_one(self, queued: Queued) -> None:
        """Call a function in a transaction of its own."""
        self._commit([queued], lambda connection: [queued.work(connection)], ValueError)

    def _write_reports(self, group: list[Queued]) -> None:
        """Write reports in one transaction."""
        counted: dict[int, int] = {}

        def work(connection: Connection) -> list[Any]:
            outcomes, numbers = take_in(connection, self.store.team, [queued.work for queued in group])
            counted.update(numbers)
            return outcomes

        if self._commit(group, work) and counted and self._counted is not None:
            self._counted(counted)

    def _commit(self, group: list[Queued], work: Work, passed: type[Exception] | tuple[()] = ()) -> bool:
        """Call a function in a write transaction, and set the futures of a group to its answers. Return whether it was committed.

        passed: errors of wrong requests, which callers get as they are.
        """
        committed = False
        try:
            outcomes = self.store.database.write(work)
            committed = True
        except passed as error:
            outcomes = [error] * len(group)
        except Exception as error:
            self.failures += 1
            outcomes = [unavailable(error)] * len(group)
        with self._more:
            self.waiting -= sum(queued.size for queued in group)
        for queued, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, Exception):
                queued.future.set_exception(outcome)
            else:
                queued.future.set_result(outcome)
        return committed


def unavailable(error: Exception) -> Unavailable:
    """Return the error for clients when the database failed. The cause is for the log, not for them."""
    result = Unavailable("the database cannot be written now")
    result.__cause__ = error
    return result
