"""Unsent steps in memory. `spool.Spool` has the same methods, over a file."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cede._base import check
from cede.client.policy import PolicyCopy

MOST_UNSENT = 200_000  # steps in memory


@dataclass(frozen=True)
class UnsentRow:
    """A step, or the end of an episode."""

    id: int
    team: str
    episode: int
    steps: int | None  # number of steps of the episode, if this is its end; None: this is a step
    body: Mapping[str, Any]  # the step as JSON; empty for an end


def check_room(n: int, most: int) -> None:
    """Check that one more step fits where n are stored."""
    if n >= most:
        check.fail("Client", "the number of unsent steps", n + 1, f"at most {most}: the service does not accept them")


class Memory:
    """Unsent steps and ends of episodes, in memory: they are lost with the process. Thread-safe.

    Steps of a running episode are held: they are not sent before it ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, int], list[UnsentRow]] = {}
        self._ready: dict[int, UnsentRow] = {}  # by id, in the order in which they are sent
        self._last_id = 0
        self._steps = 0  # number of steps, held or ready

    def _row(self, team: str, episode: int, steps: int | None, body: Mapping[str, Any]) -> UnsentRow:
        self._last_id += 1
        return UnsentRow(self._last_id, team, episode, steps, body)

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
        """End an episode of so many steps: its steps and its end may be sent."""
        with self._lock:
            for row in (*self._held.pop((team, episode), ()), self._row(team, episode, steps, {})):
                self._ready[row.id] = row

    def drop(self, team: str, episode: int) -> None:
        """Delete the held steps of an episode."""
        with self._lock:
            self._steps -= len(self._held.pop((team, episode), ()))

    def batch(self, most: int) -> list[UnsentRow]:
        """Return the rows to send next, at most so many."""
        with self._lock:
            return list(islice(self._ready.values(), most))

    def delete(self, rows: Sequence[UnsentRow]) -> None:
        """Delete rows: the service has them."""
        with self._lock:
            for row in rows:
                if self._ready.pop(row.id, None) is not None and row.steps is None:
                    self._steps -= 1

    def refuse(self, rows: Sequence[UnsentRow], reason: str) -> None:
        """Delete rows that the service refuses. `flush` raises the reason."""
        self.delete(rows)

    def postpone(self, rows: Sequence[UnsentRow]) -> None:
        """Send rows after all others: the service does not accept them now."""
        with self._lock:
            for row in rows:
                if self._ready.pop(row.id, None) is not None:
                    self._ready[row.id] = row

    @property
    def pending(self) -> bool:
        """Return whether there are rows to send."""
        return bool(self._ready)

    @property
    def waiting(self) -> int:
        """Return the number of steps to send."""
        with self._lock:
            return sum(row.steps is None for row in self._ready.values())

    def policy(self, team: str) -> PolicyCopy | None:
        """Return None: only a spool stores policies."""
        return None

    def store_policy(self, team: str, copy: PolicyCopy, *, time_only: bool) -> None:
        """Do nothing: only a spool stores policies."""

    def sync(self) -> None:
        """Do nothing: there is no disk."""

    def adopt(self) -> None:
        """Do nothing: no other process shares this memory."""

    def close(self) -> None:
        """Do nothing: there is no file."""
