"""Plans in memory: who should act is answered from here, without waiting for the database or a planner.

All teams are known by name; the plans of those that were asked for lately are in memory. The plan of a team that sleeps is read
when an episode begins, or in the background when somebody asks.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cede._base import check
from cede.serve.database import run
from cede.serve.planning import ServedPlan, reason_of, unpacked_policy
from cede.serve.reports import BIG, Team
from cede.serve.store import Store, Unknown, now_ms

TAIL = 1000  # plans before the last one that are looked at again: they may have been committed later


@dataclass(frozen=True, slots=True)
class Known:
    """A team as decisions see it."""

    fallback: int
    episodes: int  # that were counted, as far as this server knows; steps without a horizon
    plan: ServedPlan | None = None
    towards: tuple[int, ...] | None = None  # (D,) who comes next on the way to the fallback agent; None: its task is not read yet
    endless: bool = False  # whether its task, if it was read, has no horizon


@dataclass(frozen=True)
class Decision:
    """Who should act, and what that rests on."""

    agent: int
    name: str | None  # of the agent; None while the team's task is not in memory
    plan: str  # "fresh", "stale" or "fallback"
    version: int  # of the plan, 0: none
    reason: str  # why: "plan", "audition" or "fallback"
    age: float | None  # seconds since the plan was made

    @property
    def shown(self) -> dict[str, Any]:
        """Return it as an answer."""
        return {
            "agent": self.agent,
            "name": self.name,
            "plan": self.plan,
            "version": self.version,
            "reason": self.reason,
            "age": self.age,
        }


class Plans:
    """The plans of teams, in memory. It is safe in several threads.

    most: bytes of policies that are kept; those that were not used for longest go first.
    """

    def __init__(self, store: Store, most: int = 1 << 30) -> None:
        self.store, self._most = store, most
        self._lock = threading.Lock()
        self._known: dict[str, Known] = {}
        self._used: OrderedDict[str, int] = OrderedDict()  # bytes of policies by team, those used last at the end
        self._bytes, self._last_team, self._last_plan = 0, 0, 0

    def refresh(self) -> None:
        """Take note of teams that are new, and of plans that others made of teams that are awake."""
        with self.store.database.read() as connection:
            sql = "SELECT id, name, fallback, episodes FROM teams WHERE id > ? ORDER BY id"
            teams = run(connection, sql, (max(0, self._last_team - TAIL),)).all()
            sql = """SELECT p.id, t.name, p.version, p.episodes FROM plans p JOIN teams t ON t.id = p.team
                WHERE p.id > ? ORDER BY p.id"""
            first = self._last_plan == 0
            plans = [] if first else run(connection, sql, (max(0, self._last_plan - TAIL),)).all()
            newest = int(run(connection, "SELECT COALESCE(MAX(id), 0) FROM plans").scalar())
        with self._lock:
            for number, name, fallback, episodes in teams:
                self._known.setdefault(name, Known(fallback, episodes))
                self._last_team = max(self._last_team, number)
        self._last_plan = max(newest, 1)
        newer = {}
        for _, name, version, _ in plans:
            known = self._known.get(name)
            if known is not None and known.plan is not None and known.plan.version < version:
                newer[name] = version
        for name in newer:
            self.wake(name)

    def wake(self, name: str) -> Known:
        """Read the newest plan of a team, and keep it."""
        team = self.store.team(name)
        sql = """SELECT t.fallback, t.episodes, p.version, p.episodes, p.environment_episodes, p.made, o.policy, p.reason
            FROM teams t LEFT JOIN policies o ON o.team = t.id
            LEFT JOIN plans p ON p.team = t.id AND p.version = o.version WHERE t.id = ?"""
        with self.store.database.read() as connection:
            row = run(connection, sql, (team.id,)).first()
        if row is None:
            raise Unknown(f"team: name is {check.show(name)}, must be that of a team")
        plan = None
        if row[2] is not None:
            reason = row[7] or reason_of(team, row[3])
            plan = ServedPlan(team, row[2], unpacked_policy(team, bytes(row[6])), row[3], row[4], row[5], reason)
        with self._lock:
            found = Known(row[0], row[1], None, self._towards(team, row[0]), team.served.endless)
            self._known[name] = found = self._newer(self._known.get(name), replace(found, plan=plan))
            self._keep(name, found)
        return found

    def _towards(self, team: Team, fallback: int) -> tuple[int, ...]:
        """Return who comes next on the way to the fallback agent, for each previous agent."""
        task = team.served.task
        return tuple(task.always(fallback).reshape(-1, task.n_agents)[0].tolist())

    def _newer(self, before: Known | None, found: Known) -> Known:
        """Return what was found, unless a newer plan is known already."""
        if before is None or before.plan is None or (found.plan is not None and found.plan.version >= before.plan.version):
            return found
        return replace(found, plan=before.plan, episodes=max(before.episodes, found.episodes))

    def _keep(self, name: str, known: Known) -> None:
        """Take note that a team was used; let others sleep if there is too much in memory."""
        self._bytes -= self._used.pop(name, 0)
        if known.plan is not None:
            self._used[name] = known.plan.policy.nbytes
            self._bytes += known.plan.policy.nbytes
        while self._bytes > self._most and len(self._used) > 1:
            other, size = self._used.popitem(last=False)
            self._bytes -= size
            self._known[other] = replace(self._known[other], plan=None)

    def published(self, plan: ServedPlan) -> None:
        """Put a plan into force that this server made."""
        name = plan.team.name
        with self._lock:
            before = self._known.get(name) or Known(int(plan.team.served.task.start_agent), plan.episodes)
            if before.towards is None:
                before = replace(before, towards=self._towards(plan.team, before.fallback), endless=plan.team.served.endless)
            self._known[name] = found = self._newer(before, replace(before, plan=plan))
            self._keep(name, found)

    def counted(self, numbers: dict[int, int]) -> None:
        """Take note of episodes that were counted, by the number of the team."""
        with self._lock:
            for number, n in numbers.items():
                name = self.store.team_of(number).name
                known = self._known.get(name)
                if known is not None:
                    self._known[name] = replace(known, episodes=known.episodes + n)

    def forget(self, names: Sequence[str]) -> None:
        """Drop the plans of teams, and what was counted, as when steps were erased."""
        with self._lock:
            for name in names:
                if name in self._known:
                    self._known[name] = replace(self._known[name], plan=None, episodes=0)
                    self._bytes -= self._used.pop(name, 0)

    def known(self, name: str) -> Known | None:
        """Return what is in memory of a team; None if there is no such team as far as this server knows."""
        return self._known.get(name)

    def awake(self) -> int:
        """Return how many plans are in memory."""
        return len(self._used)

    def decide(self, name: str, known: Known, t: int | None, state: int, prev_agent: int) -> Decision:
        """Answer who should act, from what is in memory of a team. known: what `known` returned for its name.

        t: the time step, None where there is no horizon; not looked at while the task is not in memory.
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


def check_time(owner: str, t: int | None, endless: bool) -> None:
    """Check that a time step is given where there is a horizon, and only there."""
    if endless and t is not None:
        check.fail(owner, "t", t, "left out: the task has no horizon")
    if not endless and t is None:
        check.fail(owner, "t", "missing", "a time step of the episode: the task has a horizon")


def index(name: str, value: int, size: int) -> int:
    """Check that a whole number is below a size, and return it."""
    if value >= size:
        check.integer("decide", name, value, 0, min(size, BIG) - 1)
    return value
