"""Plans for teams that have counted new episodes: in a thread of the server, or in `cede planner` on other machines.

A planner leases teams that are due, plans from their counts, and publishes. If it dies, its leases run out and another planner
takes its teams. A plan is that of a `Learner` that has counted the same episodes, bit for bit. Without a horizon it is that of one
that has counted the same steps and has made no plan before: a search for a fixed point ends where its beginning leads it.
"""

import os
import secrets
import socket
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import Connection

from cede._base.arrays import Policy
from cede.insight.estimate import audition_at
from cede.learning.learner import Learner
from cede.serve.counting import Cells
from cede.serve.database import run
from cede.serve.plan_work import PlanWork
from cede.serve.reports import Team
from cede.serve.store import Store, Unknown, now_ms

if TYPE_CHECKING:
    from cede.serve.plan_workers import PlanWorkers

LEASE = 60_000  # milliseconds
AT_ONCE = 16  # teams that are leased together
LONGEST_REST = 5.0  # seconds between two rounds of plans
Transact = Callable[[Callable[[Connection], Any]], Any]


@dataclass(frozen=True, eq=False)
class ServedPlan:
    """A plan of a team, and what went into it."""

    team: Team
    version: int
    policy: Policy  # (L, S, D); (S, D) without a horizon
    episodes: int  # steps without a horizon
    environment_episodes: int
    made: int  # milliseconds
    reason: str  # why it chooses as it does: "plan" or "audition"

    @property
    def packed(self) -> bytes:
        """Return the policy as it is kept in the database."""
        return zlib.compress(np.ascontiguousarray(self.policy, dtype="<i2").tobytes(), 1)


def unpacked_policy(team: Team, data: bytes) -> Policy:
    """Return a policy that is kept in the database."""
    policy = np.frombuffer(zlib.decompress(data), dtype="<i2").astype(np.int16)
    return policy.reshape(team.served.task.policy_shape)


def reason_of(team: Team, episodes: int) -> str:
    """Return in a word why a plan chooses as it does, as records do. episodes: of the team, that went into it."""
    return "plan" if audition_at(team.served.task, team.served.told, episodes + 1) is None else "audition"


def work_of(
    connection: Connection, store: Store, team: Team, outside: dict[int, tuple[int, Cells]] | None = None
) -> tuple[PlanWork, int]:
    """Return what the next plan of a team follows from, and the version of its newest one.

    outside: what was read of environments in this transaction, by their number; it is added to.
    """
    sql = "SELECT t.episodes, t.version, t.seed, e.episodes FROM teams t JOIN environments e ON e.id = t.environment WHERE t.id = ?"
    row = run(connection, sql, (team.id,)).first()
    if row is None:
        raise Unknown(f"team: name is {team.name!r}, must be that of a team")
    known = {} if outside is None else outside
    if team.environment not in known:
        known[team.environment] = (row[3], store.environment_cells(connection, team.environment))
    episodes, cells = known[team.environment]
    return PlanWork(team.served, row[2], store.agent_cells(connection, team), cells, row[0], episodes), row[1]


def learner_of(connection: Connection, store: Store, team: Team) -> tuple[Learner, int]:
    """Return a learner that has counted what a team and its environment have, and the version of the team's newest plan."""
    work, version = work_of(connection, store, team)
    return work.learner(None if team.served.endless else store.starts(connection, team)), version


class Planner:
    """Plans for teams that are due. Several planners, in threads, processes or machines, share the work.

    store: where counts are. transact: runs a function in a write transaction; by default of its own connection. published: called
    with every plan that was published. failed: called with every error. lease: milliseconds after which others take its teams.
    workers: who makes the plans, all at once; None: this thread, one after the other.
    """

    def __init__(
        self,
        store: Store,
        transact: Transact | None = None,
        published: Callable[[ServedPlan], None] | None = None,
        failed: Callable[[Exception], None] = lambda error: None,
        lease: int = LEASE,
        workers: "PlanWorkers | None" = None,
    ) -> None:
        self.store, self._transact, self._published, self._lease = store, transact or store.database.write, published, lease
        self._failed, self._workers = failed, workers
        self.at_once = AT_ONCE * (1 if workers is None else workers.number)
        self.name = f"{socket.gethostname()[:40]}/{os.getpid()}/{secrets.token_hex(4)}"
        self.failures, self.made = 0, 0
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def lease(self, connection: Connection, most: int = AT_ONCE) -> list[int]:
        """Take teams that are due and that no living planner has, those that have waited longest first."""
        now = now_ms()
        skip = "FOR UPDATE SKIP LOCKED" if connection.dialect.name == "postgresql" else ""
        sql = f"SELECT id FROM teams WHERE due IS NOT NULL AND (lease IS NULL OR lease < ?) ORDER BY due, id LIMIT ? {skip}"
        found = [int(row[0]) for row in run(connection, sql, (now, most)).all()]
        for team in found:
            run(connection, "UPDATE teams SET lease = ?, planner = ? WHERE id = ?", (now + self._lease, self.name, team))
        return found

    def make(self, numbers: Sequence[int]) -> list[ServedPlan]:
        """Make plans for teams, from one view of the database. A team whose plan fails waits until its lease is over."""
        outside: dict[int, tuple[int, Cells]] = {}
        with self.store.database.read() as connection:
            found = [(team, *work_of(connection, self.store, team, outside)) for team in map(self.store.team_of, numbers)]
        result = []
        for (team, work, version), policy_of in zip(found, self._policies([work for _, work, _ in found]), strict=True):
            try:
                policy = policy_of()
            except Exception as error:
                self.failures += 1
                self._failed(error)
                continue
            reason = reason_of(team, work.episodes)
            result.append(ServedPlan(team, version + 1, policy, work.episodes, work.environment_episodes, now_ms(), reason))
        return result

    def _policies(self, works: Sequence[PlanWork]) -> list[Callable[[], Policy]]:
        """Return for each work a function that returns the policy, or raises what went wrong."""
        if self._workers is None:
            return [work.policy for work in works]
        return [future.result for future in self._workers.policies(works)]

    def publish(self, connection: Connection, plans: Sequence[ServedPlan]) -> list[ServedPlan]:
        """Put plans into force and give the leases back. Of teams that another planner has meanwhile, nothing is published."""
        result = []
        for plan in sorted(plans, key=lambda one: one.team.id):
            values = (plan.version, plan.episodes, plan.team.id, plan.version - 1, self.name)
            sql = """UPDATE teams SET version = ?, due = CASE WHEN episodes = ? THEN NULL ELSE due END, lease = NULL, planner = NULL
                WHERE id = ? AND version = ? AND planner = ?"""
            if run(connection, sql, values).rowcount != 1:
                continue
            numbers = (plan.team.id, plan.version, plan.episodes, plan.environment_episodes, plan.made, self.name, plan.reason)
            columns = "team, version, episodes, environment_episodes, made, planner, reason"
            run(connection, f"INSERT INTO plans ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", numbers)
            sql = """INSERT INTO policies (team, version, policy) VALUES (?, ?, ?)
                ON CONFLICT (team) DO UPDATE SET version = excluded.version, policy = excluded.policy"""
            run(connection, sql, (plan.team.id, plan.version, plan.packed))
            result.append(plan)
        return result

    def once(self, most: int | None = None) -> int:
        """Plan for some teams that are due, and return how many were leased."""
        leased = self._transact(lambda connection: self.lease(connection, most or self.at_once))
        if leased:
            plans = self.make(leased)
            published = self._transact(lambda connection: self.publish(connection, plans))
            self.made += len(published)
            if self._published is not None:
                for plan in published:
                    self._published(plan)
        return len(leased)

    # ------------------------------------------------------------------------------------------------- as a thread

    def start(self, pause: float = 1.0, share: float = 1.0) -> None:
        """Plan in a thread of its own whenever teams are due. The arguments are those of `run`."""
        self._thread = threading.Thread(target=self.run, args=(pause, share), name="cede-planner", daemon=True)
        self._thread.start()

    def run(self, pause: float = 1.0, share: float = 1.0) -> None:
        """Plan until stopped. No error of the database ends it.

        pause: seconds after which it looks, if nobody wakes it. share: of the time that it may take; it rests for the other part.
        """
        while not self._stop.is_set():
            self._wake.clear()
            begin = time.monotonic()
            try:
                busy = self.once() > 0
            except Exception as error:
                self.failures += 1
                self._failed(error)
                busy = False
                self._stop.wait(pause)
            if busy:
                self._stop.wait(min(LONGEST_REST, (time.monotonic() - begin) * (1.0 / share - 1.0)))
            else:
                self._wake.wait(pause)

    def wake(self) -> None:
        """Say that teams are due."""
        self._wake.set()

    def stop(self) -> None:
        """Stop after the plans that are being made."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
