"""Live events: new plans and counted episodes, for clients that listen.

Plans are read from the database, so that those of other servers and planners are sent, too. Their numbers grow, so that a client
that reconnects gets the plans it missed. Counted episodes are sent by the server that counted them.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, select

from cede.serve.store.schema import plans
from cede.serve.store.store import Store

QUEUE = 256  # events queued for a slow client; further ones are dropped, and the client gets the event `missed`
REPLAY = 1000  # plans that are sent to a client that reconnects
TAIL = 200  # newest plans that are read again: an earlier number may have been committed later


@dataclass(frozen=True)
class Event:
    """An event of a team."""

    kind: str  # "plan", "counted", or "missed": events were dropped
    team: str
    data: dict[str, Any]
    id: int | None = None  # of a plan


@dataclass(eq=False)
class Listener:
    """A client that listens."""

    wanted: Callable[[Event], bool]
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Event] = field(default_factory=lambda: asyncio.Queue(QUEUE))
    missed: bool = False

    def put(self, event: Event) -> None:
        """Queue an event; called in the event loop of the client."""
        if self.queue.full():
            self.missed = True
        else:
            self.queue.put_nowait(event)


class Events:
    """Sends events to clients. While there are any, a thread reads new plans.

    pause: seconds between two reads. failed: called with every error.
    """

    def __init__(self, store: Store, pause: float, failed: Callable[[Exception], None]) -> None:
        self._store, self._pause, self._failed = store, pause, failed
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._listeners: set[Listener] = set()
        self._thread: threading.Thread | None = None
        self._seen: set[int] = set()

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self._listeners)

    def counted(self, numbers: dict[int, int]) -> None:
        """Send numbers of counted episodes, by the number of the team. Called after the commit."""
        if self._listeners:
            for number, n in numbers.items():
                team = self._store.team_of(number)
                self._send(Event("counted", team.name, {"team": team.name, "episodes": n}))

    def _send(self, event: Event) -> None:
        """Send an event to all clients that want it."""
        with self._lock:
            listeners = [one for one in self._listeners if one.wanted(event)]
        for one in listeners:
            try:
                one.loop.call_soon_threadsafe(one.put, event)
            except RuntimeError:  # its loop is closed
                self._forget(one)

    def plans(self, after: int, most: int) -> list[Event]:
        """Return the newest plans after a number, as events, in order."""
        columns = [plans.c[name] for name in ("version", "episodes", "environment_episodes", "made")]
        query = select(plans.c.id, plans.c.team, *columns).where(plans.c.id > after).order_by(plans.c.id.desc()).limit(most)
        result = []
        with self._store.database.read() as connection:
            rows = connection.execute(query).all()
        for number, team, *numbers in reversed(rows):
            name = self._store.team_of(team).name
            data = {"team": name} | {column.name: n for column, n in zip(columns, numbers, strict=True)}
            result.append(Event("plan", name, data, number))
        return result

    def last(self) -> int:
        """Return the number of the newest plan."""
        with self._store.database.read() as connection:
            return int(connection.scalar(select(func.coalesce(func.max(plans.c.id), 0))) or 0)

    def _look(self) -> None:
        """Read new plans until no client listens."""
        last = max(self._seen, default=0)
        while not self._stop.wait(self._pause):
            with self._lock:
                if not self._listeners:
                    self._thread = None
                    return
            try:
                new = [one for one in self.plans(max(0, last - TAIL), REPLAY) if one.id not in self._seen]
                for event in new:
                    self._send(event)
                self._seen |= {event.id for event in new if event.id is not None}
                last = max(self._seen, default=last)
                self._seen = {one for one in self._seen if one >= last - 2 * TAIL}
            except Exception as error:
                self._failed(error)

    def _add(self, listener: Listener) -> int:
        """Add a client; return the number of the newest plan, which it will not get. Called in a thread."""
        last = self.last()
        with self._lock:
            self._listeners.add(listener)
            if self._thread is None:
                self._seen = set(range(max(0, last - 2 * TAIL), last + 1))
                self._thread = threading.Thread(target=self._look, name="cede-events", daemon=True)
                self._thread.start()
        return last

    def _forget(self, listener: Listener) -> None:
        """Remove a client."""
        with self._lock:
            self._listeners.discard(listener)

    def stop(self) -> None:
        """Stop the thread, and end all streams."""
        self._stop.set()

    async def listen(self, wanted: Callable[[Event], bool], after: int | None, wait: float = 15.0) -> AsyncIterator[Event | None]:
        """Return events as they happen; None after some seconds without one. after: the last plan that the client got."""
        listener = Listener(wanted, asyncio.get_running_loop())
        try:
            last = await asyncio.to_thread(self._add, listener)
            sent: set[int | None] = set()
            if after is not None and after < last:
                missed = await asyncio.to_thread(self.plans, after, REPLAY + 1)
                if len(missed) > REPLAY:
                    yield Event("missed", "", {})
                for event in missed[-REPLAY:]:
                    sent.add(event.id)
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
                if event.id is None or event.id not in sent:
                    yield event
        finally:
            self._forget(listener)
