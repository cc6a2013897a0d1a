"""A progress bar for operations longer than two seconds, shown in a terminal only; or calls of a function with the progress."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from cede._base import check

PATIENCE = 2.0  # seconds until a bar appears
INTERVAL = 0.1  # seconds between two updates


class Progress:
    """Counts finished steps and shows a progress bar with the time left, once that takes longer than PATIENCE seconds.

    Used as a context manager around a loop that calls `advance`.

    label: what the bar is called. total: the number of steps. progress: False for no bar; True for a bar if the standard error
    stream is a terminal; or a function that is called with the number of steps done. each: how many team-episodes one step is; if
    more than 1, the bar also shows team-episodes per second.
    """

    def __init__(self, label: str, total: int, progress: bool | Callable[[int], None] = True, each: int = 1) -> None:
        self.label = check.printable(label)
        self.total = total
        self.each = each
        self.begun = time.monotonic()
        self.before = 0  # steps that were done before the start
        self.done = 0
        self.report = progress if callable(progress) else None
        self.next_look = float("inf")
        if self.report is not None:
            self.next_look = 0.0
        elif progress and sys.stderr.isatty():
            self.next_look = time.monotonic() + PATIENCE
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> "Progress":
        return self

    def skip(self, steps: int) -> None:
        """Note that so many steps were done before the start, as after a resume: they do not count for the speed."""
        self.before = self.done = steps

    def advance(self, steps: int = 1) -> None:
        """Count finished steps, and update the display if it is due."""
        self.done += steps
        if time.monotonic() >= self.next_look:
            self.show()

    def show(self) -> None:
        """Call the function, or make the bar if there is none yet and bring it up to date."""
        self.next_look = time.monotonic() + INTERVAL
        if self.report is not None:
            self.report(self.done)
            return
        if self.bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = [
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[speed]}"),
            ]
            times = [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
            self.bar = Bar(*columns, *times, console=Console(stderr=True))
            self.task = self.bar.add_task(self.label, total=self.total, speed="")
            self.bar.start()
        self.bar.update(self.task, completed=self.done, speed=self.speed)

    @property
    def speed(self) -> str:
        """Return team-episodes per second as text; empty if a step is one team-episode."""
        if self.each == 1:
            return ""
        return f"{(self.done - self.before) * self.each / (time.monotonic() - self.begun):,.0f} team-episodes/s"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.report is not None:
            self.report(self.done)
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done)
            self.bar.stop()
