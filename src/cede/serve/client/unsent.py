"""What a client has to tell and the service has not taken yet: steps, and ends of episodes. Here in memory; `spool.py` on disk."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from cede._base import check

MOST_UNSENT = 200_000  # steps that wait in memory


@dataclass(frozen=True)
class Row:
    """A step, or the end of an episode."""

    id: int
    team: str
    episode: int
    steps: int | None  # how many the episode has, if this is its end; None: this is a step
    body: Mapping[str, Any]  # the step, as it is told; of an end, nothing


class Unsent(Protocol):
    """What waits to be told. Steps of a running episode are `held`: they are not sent before it ends. It is safe in threads."""

    def put(self, team: str, episode: int, step: Mapping[str, Any], *, held: bool) -> None:
        """Add a step. Where there is a disk, it is with the operating system when this returns."""

    def end(self, team: str, episode: int, steps: int) -> None:
        """End an episode: its steps, and its end, may be sent. Where there is a disk, all is on it when this returns."""

    def sync(self) -> None:
        """Bring all that was put to the disk, where there is one."""

    def drop(self, team: str, episode: int) -> None:
        """Drop the held steps of an episode."""

    def batch(self, most: int) -> list[Row]:
        """Return what may be sent, the oldest first; at most so many."""

    def settle(self, rows: Sequence[Row]) -> None:
        """Take rows out: the service has them."""

    def refuse(self, rows: Sequence[Row], reason: str) -> None:
        """Take rows out that the service does not want."""

    def put_aside(self, rows: Sequence[Row]) -> None:
        """Let all others go first: the service does not take these now, and not from this client."""

    @property
    def pending(self) -> bool:
        """Return whether something may be sent."""

    @property
    def waiting(self) -> int:
        """Return how many steps may be sent."""

    def close(self) -> None:
        """Stop using it."""


def check_room(n: int, most: int) -> None:
    """Check that one more step may wait where n do."""
    if n >= most:
        check.fail("Client", "the number of steps that wait", n + 1, f"at most {most}: the service does not take them")


class Memory:
    """What waits, in memory: it is lost with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, int], list[Row]] = {}
        self._ready: dict[int, Row] = {}  # in order
        self._last = 0  # the number of the last row
        self._steps = 0  # held or not

    def _row(self, team: str, episode: int, steps: int | None, body: Mapping[str, Any]) -> Row:
        self._last += 1
        return Row(self._last, team, episode, steps, body)

    def put(self, team: str, episode: int, step: Mapping[str, Any], *, held: bool) -> None:
        """Add a step."""
        with self._lock:
            check_room(self._steps, MOST_UNSENT)
            row = self._row(team, episode, None, step)
            self._steps += 1
            if held:
                self._held.setdefault((team, episode), []).append(row)
            else:
                self._ready[row.id] = row

    def end(self, team: str, episode: int, steps: int) -> None:
        """End an episode: its steps, and its end, may be sent."""
        with self._lock:
            for row in (*self._held.pop((team, episode), ()), self._row(team, episode, steps, {})):
                self._ready[row.id] = row

    def sync(self) -> None:
        """Do nothing: there is no disk."""

    def drop(self, team: str, episode: int) -> None:
        """Drop the held steps of an episode."""
        with self._lock:
            self._steps -= len(self._held.pop((team, episode), ()))

    def batch(self, most: int) -> list[Row]:
        """Return what may be sent, the oldest first; at most so many."""
        with self._lock:
            return list(islice(self._ready.values(), most))

    def settle(self, rows: Sequence[Row]) -> None:
        """Take rows out."""
        with self._lock:
            for row in rows:
                if self._ready.pop(row.id, None) is not None and row.steps is None:
                    self._steps -= 1

    def refuse(self, rows: Sequence[Row], reason: str) -> None:
        """Take rows out. The reason is told by `flush`; memory has no place to keep them."""
        self.settle(rows)

    def put_aside(self, rows: Sequence[Row]) -> None:
        """Put rows behind all others."""
        with self._lock:
            for row in rows:
                if self._ready.pop(row.id, None) is not None:
                    self._ready[row.id] = row

    @property
    def pending(self) -> bool:
        """Return whether something may be sent."""
        return bool(self._ready)

    @property
    def waiting(self) -> int:
        """Return how many steps may be sent."""
        with self._lock:
            return sum(row.steps is None for row in self._ready.values())

    def close(self) -> None:
        """Stop using it."""
