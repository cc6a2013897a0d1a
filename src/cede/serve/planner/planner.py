"""The planner: plans for teams with newly counted episodes, in a thread of the server or in `cede planner` on other machines.

A planner leases teams that are due, plans from their counts, and publishes the plans. If it dies, its leases expire and another
planner takes its teams. A plan equals that of a `Learner` that has counted the same episodes, bit for bit. Without a horizon it
equals that of a learner that has counted the same steps and makes its first plan: the result of a fixed-point search depends on its
start.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, case, insert, or_, select, update

from cede._base.arrays import Policy
from cede.serve.planner.work import PlanWork, ServedPlan, reason_of
from cede.serve.store.database import now_ms
from cede.serve.store.schema import plans, policies, teams
from cede.serve.store.store import Layers, Store

if TYPE_CHECKING:
    from cede.serve.planner.workers import PlanWorkers

LEASE = 60_000  # milliseconds
AT_ONCE = 16  # teams that are leased together
LONGEST_REST = 5.0  # seconds between two rounds of plans
Transact = Callable[[Callable[[Connection], Any]], Any]


class Planner:
    """Plans for teams that are due. Several planners, in threads, processes or machines, share the work.

    transact: runs a function in a write transaction; None: `Database.write`. published: called with every published plan. failed:
    called with every error. lease: milliseconds after which other planners take its teams. workers: make the plans in parallel;
    None: this thread makes them, one by one.
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
        """Lease teams that are due and that no other planner has; those that have waited longest first. Return their numbers."""
        now, c = now_ms(), teams.c
        free = select(c.id).where(c.due.is_not(None), or_(c.lease.is_(None), c.lease < now)).order_by(c.due, c.id).limit(most)
        leased = list(connection.scalars(free.with_for_update(skip_locked=True)))
        if leased:
            taken = update(teams).where(c.id == bindparam("team")).values(lease=now + self._lease, planner=self.name)
            connection.execute(taken, [{"team": team} for team in leased])
        return leased

    def make(self, numbers: Sequence[int]) -> list[ServedPlan]:
        """Make plans for teams, from one state of the database. A team whose plan fails waits until its lease expires."""
        shared: dict[int, tuple[int, Layers]] = {}
        with self.store.database.read() as connection:
            jobs = [(team, *self.store.plan_work(connection, team, shared)) for team in map(self.store.team_of, numbers)]
        result = []
        for (team, work, version), policy_of in zip(jobs, self._policies([work for _, work, _ in jobs]), strict=True):
            try:
                policy = policy_of()
            except Exception as error:
                self.failures += 1
                self._failed(error)
                continue
            numbers = (work.counts.episodes, work.counts.environment_episodes)
            result.append(ServedPlan(team, version + 1, policy, *numbers, now_ms(), reason_of(team, work.counts.episodes)))
        return result

    def _policies(self, works: Sequence[PlanWork]) -> list[Callable[[], Policy]]:
        """Return for each work a function that returns its policy or raises its error."""
        if self._workers is None:
            return [work.policy for work in works]
        return [future.result for future in self._workers.policies(works)]

    def publish(self, connection: Connection, made: Sequence[ServedPlan]) -> list[ServedPlan]:
        """Put plans into force and return the leases. Plans of teams that another planner has meanwhile are dropped."""
        result, c = [], teams.c
        for plan in sorted(made, key=lambda one: one.team.id):
            own = update(teams).where(c.id == plan.team.id, c.version == plan.version - 1, c.planner == self.name)
            due = case((c.episodes == plan.episodes, None), else_=c.due)
            if connection.execute(own.values(version=plan.version, due=due, lease=None, planner=None)).rowcount != 1:
                continue
            numbers = {name: getattr(plan, name) for name in ("version", "episodes", "environment_episodes", "made", "reason")}
            connection.execute(insert(plans).values(team=plan.team.id, planner=self.name, **numbers))
            put_policy(connection, plan)
            result.append(plan)
        return result

    def once(self, most: int | None = None) -> int:
        """Plan for some teams that are due, and return how many were leased."""
        leased = self._transact(lambda connection: self.lease(connection, most or self.at_once))
        if leased:
            made = self.make(leased)
            published = self._transact(lambda connection: self.publish(connection, made))
            self.made += len(published)
            if self._published is not None:
                for plan in published:
                    self._published(plan)
        return len(leased)

    # ------------------------------------------------------------------------------------------------- as a thread

    def start(self, pause: float = 1.0, share: float = 1.0) -> None:
        """Run in a thread of its own. Arguments as for `run`."""
        self._thread = threading.Thread(target=self.run, args=(pause, share), name="cede-planner", daemon=True)
        self._thread.start()

    def run(self, pause: float = 1.0, share: float = 1.0) -> None:
        """Plan until stopped. An error of the database does not end it.

        pause: seconds after which it looks for due teams, unless `wake` is called. share: fraction of the time for planning.
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
        """Signal that teams are due."""
        self._wake.set()

    def stop(self) -> None:
        """Stop after the plans that are being made."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()


def put_policy(connection: Connection, plan: ServedPlan) -> None:
    """Write the policy of a plan, in place of the team's last one."""
    values = {"version": plan.version, "policy": plan.packed}
    if connection.execute(update(policies).where(policies.c.team == plan.team.id).values(values)).rowcount == 0:
        connection.execute(insert(policies).values(team=plan.team.id, **values))
