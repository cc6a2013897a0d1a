"""The service in one process: database, writer, planner, tokens and plans in memory, put together."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection

from cede.learning.learner import Learner
from cede.serve.audit import erase
from cede.serve.database import Database
from cede.serve.estimates import CountsKey, Estimates
from cede.serve.log import Accepted
from cede.serve.memory import Decision, Known, Plans
from cede.serve.planning import Planner, learner_of
from cede.serve.reports import Report, Team
from cede.serve.store import Store
from cede.serve.tokens import Tokens
from cede.serve.writer import Writer

LEARNERS = 8  # that are kept to explain and to summarise


@dataclass(frozen=True)
class Options:
    """How a server is run."""

    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")  # names under which it may be asked for
    root_path: str = ""  # the prefix of all addresses, behind a proxy
    most_body: int = 1 << 20  # bytes of a request
    most_batch: int = 16 << 20  # bytes of a batch of steps
    most_steps: int = 100_000  # of a batch
    most_waiting: int = 200_000  # steps that may wait to be written
    most_plans: int = 1 << 30  # bytes of plans in memory
    plans: bool = True  # whether it plans itself
    planning_share: float = 0.25  # of its time that it plans, while teams are due: planning and answering share one process
    pause: float = 1.0  # seconds between two looks at what others wrote


class Service:
    """What answers requests. Between `start` and `stop` its threads run: one writes, one plans, one looks at what others wrote."""

    def __init__(self, database: Database, options: Options | None = None) -> None:
        self.options, self.database = options or Options(), database
        self._log: Any = structlog.get_logger("cede")
        self.store, self.tokens = Store(database), Tokens(database)
        self.plans = Plans(self.store, self.options.most_plans)
        self._stop = threading.Event()
        self._waking: set[str] = set()
        self._learners: OrderedDict[CountsKey, Learner] = OrderedDict()
        self._lock = threading.Lock()
        self.refreshed = 0  # how often it looked at what others wrote
        self.when_counted: list[Callable[[dict[int, int]], None]] = []  # called with episodes that were counted, by team

    def start(self) -> None:
        """Read what must be in memory, and start the threads."""
        self._stop.clear()
        self.tokens.refresh()
        self.plans.refresh()
        self.pool = ThreadPoolExecutor(4, "cede-reader")
        self.estimates = Estimates(self.counted_learner)
        self.writer = Writer(self.store, self.options.most_waiting, self._counted)
        self.planner = Planner(self.store, lambda work: self.writer.call(work).result(), self.plans.published, self.failed)
        if self.options.plans:
            self.planner.start(self.options.pause, self.options.planning_share)
        self._refresher = threading.Thread(target=self._refresh, name="cede-refresher", daemon=True)
        self._refresher.start()

    def stop(self) -> None:
        """Write all that waits, and stop the threads."""
        self._stop.set()
        self.planner.stop()
        self._refresher.join()
        self.writer.close()
        self.pool.shutdown()
        self.estimates.close()

    def _refresh(self) -> None:
        """Look at what others wrote, again and again."""
        while not self._stop.wait(self.options.pause):
            try:
                self.tokens.refresh()
                self.plans.refresh()
                self.refreshed += 1
            except Exception as error:
                self.failed(error)

    def failed(self, error: Exception) -> None:
        """Take note of an error in a thread, which goes on."""
        self.note("error", "background work failed", error=type(error).__name__, detail=str(error)[:500])

    def note(self, level: str, event: str, **about: Any) -> None:
        """Write a line into the log. That nobody can read it is no reason to fail."""
        with suppress(OSError, ValueError):
            getattr(self._log, level)(event, **about)

    def _counted(self, numbers: dict[int, int]) -> None:
        """Take note of episodes that were counted: plans are due."""
        self.plans.counted(numbers)
        self.planner.wake()
        for tell in self.when_counted:
            try:
                tell(numbers)
            except Exception as error:  # the thread that calls this writes, and must go on
                self.failed(error)

    @property
    def ready(self) -> dict[str, bool]:
        """Return which parts are alive."""
        try:
            with self.database.read() as connection:
                connection.exec_driver_sql("SELECT 1")
            reads = True
        except Exception:
            reads = False
        return {"database": reads, "writer": self.writer.alive, "refresher": self._refresher.is_alive()}

    # ------------------------------------------------------------------------------------------------- what requests ask for

    def write(self, work: Callable[[Connection], Any]) -> Future[Any]:
        """Write something in a transaction of its own."""
        return self.writer.call(work)

    def report(self, report: Report) -> Future[Accepted]:
        """Write a report."""
        return self.writer.submit(report)

    def begin(self, team: Team, key: str | None = None) -> Future[tuple[int, bool]]:
        """Begin an episode under a number that was not used, or that was given to the same key; see `Store.begin`."""
        return self.writer.call(lambda connection: self.store.begin(connection, team, key))

    def decide(self, name: str, known: Known, t: int | None, state: int, prev_agent: int) -> Decision:
        """Answer who should act, from memory. A team that sleeps is woken in the background."""
        if known.plan is None:
            self._wake_later(name)
        return self.plans.decide(name, known, t, state, prev_agent)

    def _wake_later(self, name: str) -> None:
        """Read the plan of a team in the background, once at a time."""
        with self._lock:
            if name in self._waking or len(self._waking) > 10_000:
                return
            self._waking.add(name)

        def work() -> None:
            try:
                self.plans.wake(name)
            except Exception as error:
                self.failed(error)
            finally:
                with self._lock:
                    self._waking.discard(name)

        self.pool.submit(work)

    def learner(self, team: Team) -> Learner:
        """Return a learner that has counted what is in the database now; the same one if nothing was counted since."""
        return self.counted_learner(team)[1]

    def counted_learner(self, team: Team) -> tuple[CountsKey, Learner]:
        """Return the same, and what its counts are known by."""
        with self.database.read() as connection:
            numbers = self.store.numbers(connection, team)
            key = (team.id, numbers.episodes, numbers.environment_episodes, numbers.erased)
            with self._lock:
                found = self._learners.get(key)
            if found is None:
                found, _ = learner_of(connection, self.store, team)
        with self._lock:
            self._learners[key] = found
            self._learners.move_to_end(key)
            while len(self._learners) > LEARNERS:
                self._learners.popitem(last=False)
        return key, found

    def erase(self, team: Team) -> Future[int]:
        """Erase all steps of a team; the future holds their number."""

        def work(connection: Connection) -> int:
            return erase(connection, self.store, team)

        def done(future: Future[int]) -> None:
            if future.exception() is None:
                self.plans.forget([team.name])
                with self._lock:
                    self._learners.clear()
                self.estimates.clear()
                self.planner.wake()

        future = self.writer.call(work)
        future.add_done_callback(done)
        return future
