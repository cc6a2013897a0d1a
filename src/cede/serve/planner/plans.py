"""Plans of teams: a planner makes them from counts, and a cache answers decisions from memory.

A planner runs in a thread of the server, or in `cede planner` on other machines. It leases teams that are due, plans from their
counts, and publishes the plans. If it dies, its leases expire and another planner takes its teams. A plan equals that of a
`Learner` that has counted the same episodes, bit for bit. Without a horizon it equals that of a learner that has counted the same
steps and makes its first plan: the result of a fixed-point search depends on its start.

The cache knows all teams by name, and has recently used plans in memory. An uncached plan is loaded when an episode begins, or in
the background after a decision.
"""

import os
import secrets
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, case, func, insert, or_, select, update

from cede._base import check
from cede._base.arrays import Policy
from cede.serve.names import BIG
from cede.serve.served import ServedPlan, ServedTeam, reason_of, unpacked_policy
from cede.serve.store.database import Unknown, now_ms, upsert
from cede.serve.store.schema import plans, policies, teams

if TYPE_CHECKING:
    from cede.serve.planner.workers import PlanWorkers
    from cede.serve.store.store import Store

LEASE = 60_000  # milliseconds
AT_ONCE = 16  # teams that are leased together
LONGEST_REST = 5.0  # seconds between two rounds of plans
Transact = Callable[[Callable[[Connection], Any]], Any]
TAIL = 1000  # newest plans that are read again: an earlier number may have been committed later


class Planner:
    """Plans for teams that are due. Several planners, in threads, processes or machines, share the work.

    transact: runs a function in a write transaction; None: `Database.write`. published: called with every published plan. failed:
    called with every error. lease: milliseconds after which other planners take its teams. workers: make the plans in parallel;
    None: this thread makes them, one by one.
    """

    def __init__(
        self,
        store: "Store",
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
            connection.execute(update(teams).where(c.id.in_(leased)).values(lease=now + self._lease, planner=self.name))
        return leased

    def make(self, numbers: Sequence[int]) -> list[ServedPlan]:
        """Make plans for teams, from one state of the database. A team whose plan fails waits until its lease expires."""
        members = [self.store.team(number) for number in numbers]
        with self.store.database.read() as connection:
            works, versions = zip(*self.store.plan_works(connection, members), strict=True)
        makers: list[Callable[[], Policy]] = [work.policy for work in works]
        if self._workers is not None:
            makers = [future.result for future in self._workers.policies(works)]
        result = []
        for team, work, version, policy_of in zip(members, works, versions, makers, strict=True):
            try:
                policy = policy_of()
            except Exception as error:
                self.failures += 1
                self._failed(error)
            else:
                episodes = work.counts.episodes
                counted = (episodes, work.counts.environment_episodes)
                result.append(ServedPlan(team, version + 1, policy, *counted, now_ms(), reason_of(team, episodes)))
        return result

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
            result.append(plan)
        rows = [(plan.team.id, plan.version, plan.packed) for plan in result]
        upsert(connection, policies, ("team", "version", "policy"), rows, replace=("version", "policy"))
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


def plans_after(connection: Connection, number: int, most: int | None = None) -> Sequence[Any]:
    """Return the newest plans after a number, in order: rows of id, team (its name), version, episodes, ..., made."""
    columns = [plans.c[name] for name in ("version", "episodes", "environment_episodes", "made")]
    query = select(plans.c.id, teams.c.name.label("team"), *columns).join(teams, teams.c.id == plans.c.team)
    return connection.execute(query.where(plans.c.id > number).order_by(plans.c.id.desc()).limit(most)).all()[::-1]


# ------------------------------------------------------------------------------------------------- the cache

Ways = tuple[tuple[int, ...], ...]  # (S or 1, D) [state, prev_agent]: the next agent on the way to one


@dataclass(frozen=True, slots=True)
class CachedTeam:
    """A team in the cache."""

    fallback: int
    episodes: int  # counted, as far as this server knows; steps without a horizon
    plan: ServedPlan | None = None
    towards: Ways | None = None  # next agents on the way to the fallback agent; None: its task is not loaded
    endless: bool = False  # whether its task, if loaded, has no horizon


@dataclass(frozen=True)
class Decision:
    """The agent that should act, and the plan behind it."""

    agent: int
    name: str | None  # of the agent; None while the team's task is not loaded
    plan: str  # "fresh", "stale" or "fallback"
    version: int  # of the plan; 0: none
    reason: str  # "plan", "audition" or "fallback"
    age: float | None  # seconds since the plan was made


class PlanCache:
    """The plans of teams, in memory. Thread-safe. most: bytes of policies; least recently used ones are dropped first."""

    def __init__(self, store: "Store", most: int = 1 << 30) -> None:
        self.store, self._most = store, most
        self._lock = threading.Lock()
        self._known: dict[str, CachedTeam] = {}
        self._used: OrderedDict[str, int] = OrderedDict()  # bytes of policies by team, most recently used last
        self._bytes, self._last_team = 0, 0
        self._last_plan: int | None = None  # None: plans were not read yet
        self._seen: set[int] = set()  # numbers of the last TAIL plans

    def refresh(self) -> list[Any]:
        """Read new teams, and new plans of all servers; load those of cached teams. Return the new plans, rows of `plans_after`."""
        c, first = teams.c, self._last_plan is None
        with self.store.database.read() as connection:
            new = select(c.id, c.name, c.fallback, c.episodes).where(c.id > max(0, self._last_team - TAIL)).order_by(c.id)
            new_teams = connection.execute(new).all()
            last = self._last_plan if self._last_plan is not None else int(connection.scalar(select(func.max(plans.c.id))) or 0)
            tail = plans_after(connection, last - TAIL)
        with self._lock:
            for number, name, fallback, episodes in new_teams:
                self._known.setdefault(name, CachedTeam(fallback, episodes))
                self._last_team = max(self._last_team, number)
        for row in tail:
            known = self._known.get(row.team)
            if known is not None and known.plan is not None and known.plan.version < row.version:
                self.load(row.team)
        new_plans = [row for row in tail if not first and row.id not in self._seen]
        self._seen = {row.id for row in tail}
        self._last_plan = max(self._seen, default=last)
        return new_plans

    def made_after(self, number: int, most: int) -> Sequence[Any]:
        """Return the newest plans of all teams after a number, rows of `plans_after`."""
        with self.store.database.read() as connection:
            return plans_after(connection, number, most)

    def load(self, name: str) -> CachedTeam:
        """Read the newest plan of a team, and cache it."""
        team = self.store.team(name)
        numbers = (plans.c.version, plans.c.episodes, plans.c.environment_episodes, plans.c.made, plans.c.reason)
        joined = teams.outerjoin(policies, policies.c.team == teams.c.id).outerjoin(
            plans, (plans.c.team == teams.c.id) & (plans.c.version == policies.c.version)
        )
        query = select(teams.c.fallback, teams.c.episodes, policies.c.policy, *numbers).select_from(joined)
        with self.store.database.read() as connection:
            row = connection.execute(query.where(teams.c.id == team.id)).first()
        if row is None:
            raise Unknown(f"team: name is {check.show(name)}, must be that of a team")
        fallback, counted, policy, version, episodes, environment_episodes, made, reason = row
        plan = None
        if version is not None:
            reason = reason or reason_of(team, episodes)
            policy = unpacked_policy(team, bytes(policy))
            plan = ServedPlan(team, version, policy, episodes, environment_episodes, made, reason)
        with self._lock:
            loaded = CachedTeam(fallback, counted, plan, towards(team, fallback), team.served.endless)
            return self._keep(name, self._known.get(name), loaded)

    def _keep(self, name: str, before: CachedTeam | None, loaded: CachedTeam) -> CachedTeam:
        """Cache a team, with the newer of two plans; drop other plans if there are too many bytes. Return it."""
        if before is not None and before.plan is not None and (loaded.plan is None or loaded.plan.version < before.plan.version):
            loaded = replace(loaded, plan=before.plan, episodes=max(before.episodes, loaded.episodes))
        self._known[name] = loaded
        self._bytes -= self._used.pop(name, 0)
        if loaded.plan is not None:
            self._used[name] = loaded.plan.policy.nbytes
            self._bytes += loaded.plan.policy.nbytes
        while self._bytes > self._most and len(self._used) > 1:
            other, size = self._used.popitem(last=False)
            self._bytes -= size
            self._known[other] = replace(self._known[other], plan=None)
        return loaded

    def published(self, plan: ServedPlan) -> None:
        """Cache a plan that this server made."""
        name = plan.team.name
        with self._lock:
            before = self._known.get(name) or CachedTeam(int(plan.team.served.task.start_agent), plan.episodes)
            if before.towards is None:
                before = replace(before, towards=towards(plan.team, before.fallback), endless=plan.team.served.endless)
            self._keep(name, before, replace(before, plan=plan))

    def counted(self, numbers: Mapping[str, int]) -> None:
        """Add to the numbers of counted episodes, by team."""
        with self._lock:
            for name, n in numbers.items():
                known = self._known.get(name)
                if known is not None:
                    self._known[name] = replace(known, episodes=known.episodes + n)

    def forget(self, names: Sequence[str]) -> None:
        """Drop the plans and numbers of teams whose steps were erased."""
        with self._lock:
            for name in names:
                if name in self._known:
                    self._known[name] = replace(self._known[name], plan=None, episodes=0)
                    self._bytes -= self._used.pop(name, 0)

    def known(self, name: str) -> CachedTeam | None:
        """Return a cached team; None if this server does not know it."""
        return self._known.get(name)

    def __len__(self) -> int:
        """Return the number of plans in memory."""
        return len(self._used)

    def decide(self, name: str, known: CachedTeam, t: int | None, state: int, prev_agent: int) -> Decision:
        """Return the agent that should act, from memory. known: the cached team of this name.

        t: the time step; None without a horizon; not checked while the task is not loaded.
        """
        plan = known.plan
        if known.towards is not None:
            check_time("decide", t, known.endless)
        if plan is None:
            agent = known.fallback
            if known.towards is not None:
                ways = known.towards[min(state, len(known.towards) - 1)]
                agent = ways[index("prev_agent", prev_agent, len(ways))]
            return Decision(agent, None, "fallback", 0, "fallback", None)
        task = plan.team.served.task
        where: tuple[int, ...] = (index("state", state, task.n_states), index("prev_agent", prev_agent, task.n_agents))
        if t is not None:
            where = (index("t", t, task.plan_steps), *where)
        if state in plan.team.served.ends:
            check.fail("decide", "state", state, "one in which an episode goes on: it ends there")
        with self._lock:
            if name in self._used:
                self._used.move_to_end(name)
        agent = int(plan.policy[where])
        age = max(0, now_ms() - plan.made) / 1000
        freshness = "fresh" if plan.episodes >= known.episodes else "stale"
        return Decision(agent, task.agents[agent], freshness, plan.version, plan.reason, age)


def towards(team: ServedTeam, fallback: int) -> Ways:
    """Return the next agent on the way to the fallback agent."""
    return tuple(map(tuple, team.served.task.ways_to(fallback).tolist()))


def check_time(owner: str, t: int | None, endless: bool) -> None:
    """Check that a time step is given if and only if there is a horizon."""
    if endless and t is not None:
        check.fail(owner, "t", t, "left out: the task has no horizon")
    if not endless and t is None:
        check.fail(owner, "t", "missing", "a time step of the episode: the task has a horizon")


def index(name: str, value: int, size: int) -> int:
    """Check that a whole number is below a size, and return it."""
    if value >= size:
        check.integer("decide", name, value, 0, min(size, BIG) - 1)
    return value
