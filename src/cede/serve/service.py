"""The service in one process: database, writer, planner, tokens, events and caches."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import func, select

from cede import __version__
from cede.learners.learner import Learner
from cede.serve.events import Events
from cede.serve.planner.estimates import CountsKey, Estimates, RecentlyUsed
from cede.serve.planner.plans import CachedTeam, Decision, PlanCache, Planner
from cede.serve.served import ServedTeam
from cede.serve.store.audit import erase
from cede.serve.store.database import Database, now_ms
from cede.serve.store.history import HistorySums
from cede.serve.store.log import begin_episode
from cede.serve.store.schema import environments, plans, teams
from cede.serve.store.store import Store
from cede.serve.store.tokens import TokenCache
from cede.serve.store.writer import Work, Writer

LEARNERS = 8  # cached, for explanations and summaries
MOST_LOADING = 10_000  # plans that are loaded in the background


@dataclass(frozen=True)
class ServiceOptions:
    """Options of a server."""

    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")  # allowed values of the Host header
    root_path: str = ""  # prefix of all addresses, behind a proxy
    most_body: int = 1 << 20  # bytes of a request
    most_batch: int = 16 << 20  # bytes of a batch of steps
    most_steps: int = 100_000  # of a batch
    most_waiting: int = 200_000  # steps that may be queued for writing
    most_plans: int = 1 << 30  # bytes of plans in memory
    plans: bool = True  # whether it plans itself
    planning_share: float = 0.25  # fraction of the time for planning, while teams are due: planning slows down answers
    pause: float = 1.0  # seconds between two refreshes from the database


class Service:
    """Answers requests. Between `start` and `stop` its threads run: the writer, the planner, and the refresher of caches."""

    def __init__(self, database: Database, options: ServiceOptions | None = None) -> None:
        self.options, self.database = options or ServiceOptions(), database
        self._log: Any = structlog.get_logger("cede")
        self.store, self.tokens = Store(database), TokenCache(database)
        self.plans = PlanCache(self.store, self.options.most_plans)
        self._stop = threading.Event()
        self._loading: set[str] = set()  # teams whose plans are being loaded
        self._learners = RecentlyUsed[Learner](LEARNERS)
        self._lock = threading.Lock()

    def start(self) -> None:
        """Fill the caches, and start the threads."""
        self._stop.clear()
        self.tokens.refresh()
        self.plans.refresh()
        self.pool, self.events = ThreadPoolExecutor(4, "cede-reader"), Events(self.plans)
        self.estimates = Estimates(self.counted_learner)
        self.writer = Writer(self.store, self.options.most_waiting, self._counted)
        self.history = HistorySums(self.store, self.write)
        self.planner = Planner(self.store, self.write, self.plans.published, self.failed)
        if self.options.plans:
            self.planner.start(self.options.pause, self.options.planning_share)
        self._refresher = threading.Thread(target=self._refresh, name="cede-refresher", daemon=True)
        self._refresher.start()

    def stop(self) -> None:
        """Write all queued reports, and stop the threads."""
        self._stop.set()
        self.events.stop()
        self.planner.stop()
        self._refresher.join()
        self.writer.close()
        self.pool.shutdown()
        self.estimates.close()

    def write(self, work: Work) -> Any:
        """Call a function with a connection in a write transaction of the writer, and return its answer."""
        return self.writer.call(work).result()

    def _refresh(self) -> None:
        """Refresh the caches until stopped."""
        while not self._stop.wait(self.options.pause):
            try:
                self.tokens.refresh()
                new = self.plans.refresh()
                if self.events.listeners:
                    self.events.planned(new)
            except Exception as error:
                self.failed(error)

    def failed(self, error: Exception) -> None:
        """Log an error of a thread, which continues."""
        self.note("error", "background work failed", error=type(error).__name__, detail=str(error)[:500])

    def note(self, level: str, event: str, **about: Any) -> None:
        """Write a line into the log. A log that cannot be written is ignored."""
        with suppress(OSError, ValueError):
            getattr(self._log, level)(event, **about)

    def _counted(self, numbers: dict[int, int]) -> None:
        """Handle counted episodes, in the thread of the writer: plans are due."""
        named = {self.store.team(number).name: n for number, n in numbers.items()}
        self.plans.counted(named)
        self.planner.wake()
        if self.events.listeners:
            self.events.counted(named)

    @property
    def ready(self) -> dict[str, bool]:
        """Return which parts work."""
        try:
            with self.database.read() as connection:
                connection.execute(select(1))
            reads = True
        except Exception:
            reads = False
        return {"database": reads, "writer": self.writer.alive, "refresher": self._refresher.is_alive()}

    @property
    def failures(self) -> int:
        """Return the number of errors of writer and planner."""
        return self.writer.failures + self.planner.failures

    def health(self) -> dict[str, Any]:
        """Return queues, ages of plans, and numbers of failures. steps: counted in environments without a horizon."""
        with self.database.read() as connection:
            due = select(func.count(), func.count(teams.c.due), func.min(teams.c.due)).select_from(teams)
            n_teams, n_due, oldest = connection.execute(due).one()
            counted = connection.execute(select(environments.c.name, environments.c.episodes)).all()
            newest = connection.scalar(select(plans.c.made).order_by(plans.c.id.desc()).limit(1))
        now, totals = now_ms(), {"episodes": 0, "steps": 0}
        for name, n in counted:
            totals[self.store.environment(name).served.unit] += n
        return {
            "version": __version__,
            "ready": self.ready,
            "waiting_steps": self.writer.waiting,
            "most_waiting_steps": self.options.most_waiting,
            "teams": n_teams,
            "environments": len(counted),
            **totals,
            "due": n_due,
            "oldest_due": None if oldest is None else max(0, now - oldest) / 1000,
            "newest_plan": None if newest is None else max(0, now - newest) / 1000,
            "plans_in_memory": len(self.plans),
            "plans_made": self.planner.made,
            "failures": self.failures,
        }

    # ------------------------------------------------------------------------------------------------- requests

    def begin(self, team: ServedTeam, key: str | None = None) -> Future[tuple[int, bool]]:
        """Begin an episode under an unused number, or the number of the same key; see `log.begin_episode`."""
        return self.writer.call(lambda connection: begin_episode(connection, team, self.store.team, key))

    def decide(self, name: str, known: CachedTeam, t: int | None, state: int, prev_agent: int) -> Decision:
        """Return the agent that should act, from memory. An uncached plan is loaded in the background."""
        if known.plan is None:
            self._load_later(name)
        return self.plans.decide(name, known, t, state, prev_agent)

    def _load_later(self, name: str) -> None:
        """Load the plan of a team in the background, unless it is being loaded."""
        with self._lock:
            if name in self._loading or len(self._loading) > MOST_LOADING:
                return
            self._loading.add(name)

        def work() -> None:
            try:
                self.plans.load(name)
            except Exception as error:
                self.failed(error)
            finally:
                with self._lock:
                    self._loading.discard(name)

        self.pool.submit(work)

    def learner(self, team: ServedTeam) -> Learner:
        """Return a learner with the current counts of a team; the same one until new episodes are counted."""
        return self.counted_learner(team)[1]

    def counted_learner(self, team: ServedTeam) -> tuple[CountsKey, Learner]:
        """Return the key of a team's current counts, and a learner with them."""
        with self.database.read() as connection:
            numbers = self.store.numbers(connection, team)
            key = (team.id, numbers.episodes, numbers.environment_episodes, numbers.erased)
            learner = self._learners.get(key)
            if learner is None:
                learner = self.store.learner(connection, team)
                self._learners.put(key, learner)
        return key, learner

    def erase(self, team: ServedTeam) -> Future[int]:
        """Erase all steps of a team; the future holds their number."""

        def done(future: Future[int]) -> None:
            if future.exception() is None:
                self.plans.forget([team.name])
                self._learners.clear()
                self.estimates.cache.clear()
                self.planner.wake()

        future = self.writer.call(lambda connection: erase(connection, self.store, team))
        future.add_done_callback(done)
        return future
