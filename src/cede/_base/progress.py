"""A progress bar for anything that takes longer than two seconds, in a terminal only; or a report to a function."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

PATIENCE = 2.0  # seconds before a bar appears
INTERVAL = 0.1  # seconds between two updates


class Progress:
    """Counts steps; shows a bar with the time left once it is worth it. Costs next to nothing until then.

    each: how many team-episodes a step is; with more than one, their number per second is shown too.
    """

    def __init__(self, label: str, total: int, progress: bool | Callable[[int], None] = True, each: int = 1) -> None:
        self.label = label
        self.total = total
        self.each = each
        self.begun = time.monotonic()
        self.before = 0  # steps that were done when it began
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
        """Steps that were done earlier: they take no time."""
        self.before = self.done = steps

    def advance(self, steps: int = 1) -> None:
        self.done += steps
        if time.monotonic() >= self.next_look:
            self.show()

    def show(self) -> None:
        self.next_look = time.monotonic() + INTERVAL
        if self.report is not None:
            self.report(self.done)
            return
        if self.bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]}")]
            times = [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
            self.bar = Bar(*columns, *times, console=Console(stderr=True))
            self.task = self.bar.add_task(self.label, total=self.total, speed="")
            self.bar.start()
        self.bar.update(self.task, completed=self.done, speed=self.speed)

    @property
    def speed(self) -> str:
        if self.each == 1:
            return ""
        return f"{(self.done - self.before) * self.each / (time.monotonic() - self.begun):,.0f} team-episodes/s"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.report is not None:
            self.report(self.done)
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done)
            self.bar.stop()
