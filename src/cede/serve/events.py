"""Live events: new plans and counted episodes, for clients that listen.

Plans are read from the database, so that those of other servers and planners are sent, too. Their numbers grow, so that a client
that reconnects gets the plans it missed. Counted episodes are sent by the server that counted them.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cede.serve.planner.plans import PlanCache

QUEUE = 256  # events queued for a slow client; further ones are dropped, and the client gets the event `missed`
REPLAY = 1000  # plans that are sent to a client that reconnects


@dataclass(frozen=True)
class Event:
    """An event of a team."""

    kind: str  # "plan", "counted", or "missed": events were dropped
    team: str
    data: dict[str, Any]
    id: int | None = None  # of a plan

    @classmethod
    def of_plan(cls, row: Any) -> "Event":
        """Return the event of a new plan, a row of `PlanCache.made_after`."""
        data = dict(row._mapping)
        return cls("plan", row.team, data, data.pop("id"))


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
    """Sends events to clients. Thread-safe. plans: reads the plans that a client missed."""

    def __init__(self, plans: "PlanCache") -> None:
        self._plans, self._stop = plans, threading.Event()
        self.listeners: set[Listener] = set()

    def counted(self, numbers: Mapping[str, int]) -> None:
        """Send numbers of counted episodes, by team."""
        for team, n in numbers.items():
            self._send(Event("counted", team, {"team": team, "episodes": n}))

    def planned(self, rows: Iterable[Any]) -> None:
        """Send new plans, rows of `PlanCache.made_after`."""
        for row in rows:
            self._send(Event.of_plan(row))

    def _send(self, event: Event) -> None:
        """Send an event to all clients that want it."""
        for listener in list(self.listeners):
            if listener.wanted(event):
                try:
                    listener.loop.call_soon_threadsafe(listener.put, event)
                except RuntimeError:  # its loop is closed
                    self.listeners.discard(listener)

    def stop(self) -> None:
        """End all streams."""
        self._stop.set()

    async def listen(self, wanted: Callable[[Event], bool], after: int | None, wait: float = 15.0) -> AsyncIterator[Event | None]:
        """Return events as they happen; None after some seconds without one. after: the last plan that the client got."""
        listener = Listener(wanted, asyncio.get_running_loop())
        self.listeners.add(listener)
        try:
            rows = [] if after is None else await asyncio.to_thread(self._plans.made_after, after, REPLAY + 1)
            missed = [Event.of_plan(row) for row in rows]
            if len(missed) > REPLAY:
                yield Event("missed", "", {})
            for event in missed[-REPLAY:]:
                if wanted(event):
                    yield event
            sent = {event.id for event in missed}
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
            self.listeners.discard(listener)
