"""What happens, as it happens: plans that came into force, and episodes that were counted, for those who listen.

Plans are read from the database, so that those of other servers and planners are told, too; they have numbers that grow, and
whoever was away is told what was missed. Episodes are told by the server that counted them.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from cede.serve.database import run
from cede.serve.reports import Team
from cede.serve.store import Store

QUEUE = 256  # events that wait for a client who reads slowly; then it is told that it missed some
REPLAY = 1000  # plans that are told to one who was away
TAIL = 200  # plans before the last one that are looked at again: they may have been committed later


@dataclass(frozen=True)
class Event:
    """What happened to a team."""

    kind: str  # "plan", "counted", or "missed": there was more than could be told
    team: str
    data: dict[str, Any]
    id: int | None = None  # of a plan


@dataclass(eq=False)
class Listener:
    """One who listens."""

    wanted: Callable[[Event], bool]
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Event] = field(default_factory=lambda: asyncio.Queue(QUEUE))
    missed: bool = False

    def tell(self, event: Event) -> None:
        """Queue an event; called in the loop of the one who listens."""
        if self.queue.full():
            self.missed = True
        else:
            self.queue.put_nowait(event)


class Events:
    """Tells all who listen. A thread looks for plans while anybody listens.

    pause: seconds between two looks. failed: called with every error.
    """

    def __init__(self, store: Store, pause: float, failed: Callable[[Exception], None]) -> None:
        self._store, self._pause, self._failed = store, pause, failed
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._listeners: set[Listener] = set()
        self._thread: threading.Thread | None = None
        self._seen: set[int] = set()

    def __len__(self) -> int:
        """Return how many listen."""
        return len(self._listeners)

    def counted(self, numbers: dict[int, int]) -> None:
        """Tell that episodes were counted, by the number of the team. It is called after they were written."""
        if self._listeners:
            for number, n in numbers.items():
                team = self._store.team_of(number)
                self._tell(Event("counted", team.name, {"team": team.name, "episodes": n}))

    def _tell(self, event: Event) -> None:
        """Tell an event to all who want it."""
        with self._lock:
            found = [one for one in self._listeners if one.wanted(event)]
        for one in found:
            try:
                one.loop.call_soon_threadsafe(one.tell, event)
            except RuntimeError:  # its loop is closed
                self._forget(one)

    def plans(self, after: int, most: int) -> list[Event]:
        """Return plans that came into force after a number, the last ones."""
        sql = """SELECT p.id, p.team, p.version, p.episodes, p.environment_episodes, p.made FROM plans p
            WHERE p.id > ? ORDER BY p.id DESC LIMIT ?"""
        with self._store.database.read() as connection:
            rows = run(connection, sql, (after, most)).all()
        return [as_event(self._store.team_of(row[1]), row) for row in reversed(rows)]

    def last(self) -> int:
        """Return the number of the newest plan."""
        with self._store.database.read() as connection:
            return int(run(connection, "SELECT COALESCE(MAX(id), 0) FROM plans").scalar())

    def _look(self) -> None:
        """Look for plans, again and again, until nobody listens."""
        last = max(self._seen, default=0)
        while not self._stop.wait(self._pause):
            with self._lock:
                if not self._listeners:
                    self._thread = None
                    return
            try:
                found = [one for one in self.plans(max(0, last - TAIL), REPLAY) if one.id not in self._seen]
                for event in found:
                    self._tell(event)
                self._seen |= {event.id for event in found if event.id is not None}
                last = max(self._seen, default=last)
                self._seen = {one for one in self._seen if one >= last - 2 * TAIL}
            except Exception as error:
                self._failed(error)

    def _add(self, listener: Listener) -> int:
        """Add one who listens; return the number of the newest plan that it will not be told. Called in a thread."""
        last = self.last()
        with self._lock:
            self._listeners.add(listener)
            if self._thread is None:
                self._seen = set(range(max(0, last - 2 * TAIL), last + 1))
                self._thread = threading.Thread(target=self._look, name="cede-events", daemon=True)
                self._thread.start()
        return last

    def _forget(self, listener: Listener) -> None:
        """Drop one who listened."""
        with self._lock:
            self._listeners.discard(listener)

    def stop(self) -> None:
        """Stop the thread; whoever listens is let go."""
        self._stop.set()

    async def listen(self, wanted: Callable[[Event], bool], after: int | None, wait: float = 15.0) -> AsyncIterator[Event | None]:
        """Return events as they happen; None when nothing happened for some seconds. after: the plan that was told last."""
        listener = Listener(wanted, asyncio.get_running_loop())
        try:
            last = await asyncio.to_thread(self._add, listener)
            told: set[int | None] = set()
            if after is not None and after < last:
                found = await asyncio.to_thread(self.plans, after, REPLAY + 1)
                if len(found) > REPLAY:
                    yield Event("missed", "", {})
                for event in found[-REPLAY:]:
                    told.add(event.id)
                    if wanted(event):
                        yield event
            while not self._stop.is_set():
                try:
                    event = await asyncio.wait_for(listener.queue.get(), wait)
                except TimeoutError:
                    yield None
                    continue
                if listener.missed:
                    listener.missed = False
                    yield Event("missed", "", {})
                if event.id is None or event.id not in told:
                    yield event
        finally:
            self._forget(listener)


def as_event(team: Team, row: Any) -> Event:
    """Return a plan as an event."""
    about = dict(zip(("version", "episodes", "environment_episodes", "made"), row[2:], strict=True))
    return Event("plan", team.name, {"team": team.name, **about}, row[0])
