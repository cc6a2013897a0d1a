"""The cache of plans: decisions are answered from memory, without the database or a planner.

All teams are known by name; recently used plans are in memory. An uncached plan is loaded when an episode begins, or in the
background after a decision.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import func, select

from cede._base import check
from cede.serve.planner.work import BIG, ServedPlan, ServedTeam, reason_of, unpacked_policy
from cede.serve.store.database import Unknown, now_ms
from cede.serve.store.schema import plans, policies, teams
from cede.serve.store.store import Store

TAIL = 1000  # newest plans that are read again: an earlier number may have been committed later


@dataclass(frozen=True, slots=True)
class CachedTeam:
    """A team in the cache."""

    fallback: int
    episodes: int  # counted, as far as this server knows; steps without a horizon
    plan: ServedPlan | None = None
    towards: tuple[int, ...] | None = None  # (D,) next agent on the way to the fallback agent; None: its task is not loaded
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

    def __init__(self, store: Store, most: int = 1 << 30) -> None:
        self.store, self._most = store, most
        self._lock = threading.Lock()
        self._known: dict[str, CachedTeam] = {}
        self._used: OrderedDict[str, int] = OrderedDict()  # bytes of policies by team, most recently used last
        self._bytes, self._last_team, self._last_plan = 0, 0, 0

    def refresh(self) -> None:
        """Read new teams, and new plans of other servers for teams whose plans are cached."""
        c = teams.c
        with self.store.database.read() as connection:
            new = select(c.id, c.name, c.fallback, c.episodes).where(c.id > max(0, self._last_team - TAIL)).order_by(c.id)
            new_teams = connection.execute(new).all()
            made = select(c.name, plans.c.version).join(plans, plans.c.team == c.id)
            made = made.where(plans.c.id > max(0, self._last_plan - TAIL))
            versions = connection.execute(made.order_by(plans.c.id)).all() if self._last_plan else []
            newest = int(connection.scalar(select(func.coalesce(func.max(plans.c.id), 0))) or 0)
        with self._lock:
            for number, name, fallback, episodes in new_teams:
                self._known.setdefault(name, CachedTeam(fallback, episodes))
                self._last_team = max(self._last_team, number)
        self._last_plan = max(newest, 1)
        newer = {}
        for name, version in versions:
            known = self._known.get(name)
            if known is not None and known.plan is not None and known.plan.version < version:
                newer[name] = version
        for name in newer:
            self.load(name)

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

    def counted(self, numbers: dict[int, int]) -> None:
        """Add to the numbers of counted episodes, by the number of the team."""
        with self._lock:
            for number, n in numbers.items():
                name = self.store.team_of(number).name
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
            agent = known.fallback if known.towards is None else known.towards[index("prev_agent", prev_agent, len(known.towards))]
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


def towards(team: ServedTeam, fallback: int) -> tuple[int, ...]:
    """Return for each previous agent the next agent on the way to the fallback agent."""
    task = team.served.task
    return tuple(task.always(fallback).reshape(-1, task.n_agents)[0].tolist())


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
