"""A progress bar for anything that takes longer than two seconds, in a terminal only."""

import sys
import time
from types import TracebackType
from typing import Any

PATIENCE = 2.0  # seconds before a bar appears
INTERVAL = 0.1  # seconds between two updates


class Progress:
    """Counts steps; shows a bar with the time left once it is worth it. Costs next to nothing until then."""

    def __init__(self, label: str, total: int, *, visible: bool = True) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self.next_look = time.monotonic() + PATIENCE if visible and sys.stderr.isatty() else float("inf")
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> "Progress":
        return self

    def advance(self, steps: int = 1) -> None:
        self.done += steps
        if time.monotonic() >= self.next_look:
            self.show()

    def show(self) -> None:
        if self.bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
            times = [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
            self.bar = Bar(*columns, *times, console=Console(stderr=True))
            self.task = self.bar.add_task(self.label, total=self.total)
            self.bar.start()
        self.bar.update(self.task, completed=self.done)
        self.next_look = time.monotonic() + INTERVAL

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done)
            self.bar.stop()
