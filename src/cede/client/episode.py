"""The running episode of a client's team: choices by a copy of the policy, checked steps. No network is used here."""

import secrets
import time
from collections.abc import Mapping
from functools import cached_property
from math import nan
from typing import Any

from cede._base import check
from cede._base.interrupts import uninterrupted
from cede.client.policy import PolicyCopy
from cede.client.spool import Spool
from cede.problem.names import in_kind, name_index, numbers_by_name, place_index
from cede.steps.step import WHERE, WHO, Step, wrong_links

PLACES = ("state", "prev_agent", "agent", "action", "next_state")
RANDOM_BITS = 21  # low bits of the number of an episode; the high bits are seconds since 1970
LATEST_SECOND = 2**31  # limit for a wrong clock; episode numbers have room for twice as many seconds
LATEST_STAMP = 2**53 - 1  # milliseconds; the service's limit


class TaskNames:
    """Turns agents, states and actions of a task, given by index or by name, into indices.

    about: the service's description of the task. terminal: states in which an episode ends.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        self.horizon: int | None = about["horizon"]
        self.agents: tuple[str, ...] = tuple(about["agents"])
        self.state_names, self._action_names = about.get("state_names"), about.get("action_names")
        self._n_states, self._n_actions = about["n_states"], about["n_actions"]
        self.terminal = frozenset(about["terminal"])
        self._states, self._actions = numbers_by_name(self.state_names), numbers_by_name(self._action_names)

    def state(self, owner: str, place: str, value: Any) -> int:
        """Return the index of a state."""
        return place_index(owner, place, value, self._n_states, self.state_names, self._states)

    def live_state(self, owner: str, value: Any) -> int:
        """Return the index of a state that is not terminal."""
        state = self.state(owner, "state", value)
        if state in self.terminal:
            check.fail(owner, "state", check.show(value), "one in which an episode goes on: it ends there")
        return state

    def action(self, owner: str, place: str, value: Any) -> int:
        """Return the index of an action."""
        return place_index(owner, place, value, self._n_actions, self._action_names, self._actions)

    def agent(self, owner: str, place: str, value: Any) -> int:
        """Return the index of an agent."""
        return name_index(owner, place, value, self.agents)


class RunningEpisode:
    """The running episode of a team; without a horizon, the run. Not thread-safe, except that any thread may set `newest`.

    unsent: where steps are stored. newest: the newest copy of the policy. One copy decides during an episode; without a horizon,
    the newest decides.
    """

    def __init__(self, team: str, unsent: Spool) -> None:
        self._team, self._unsent = team, unsent
        self.newest: PolicyCopy | None = None
        self._last_second, self._random_bits = 0, secrets.randbits(RANDOM_BITS)  # of episode numbers
        self._reset()

    def _reset(self) -> None:
        """Forget the running episode."""
        self.number: int | None = None  # of the episode; None: it has no number yet
        self._copy: PolicyCopy | None = None  # the copy that decides
        self._t = 0  # number of observed steps
        self._last: Step | None = None
        self._choice: tuple[int, dict[str, Any]] | None = None  # t of the last choice, and its fields in the log

    def begin(self, number: int) -> None:
        """Begin an episode under a number that the service gave."""
        self.check_ended("begin")
        self._reset()
        self.number = number

    def check_ended(self, owner: str) -> None:
        """Check that no step of the running episode was observed."""
        if self._t:
            check.fail(owner, "the number of steps of the running episode", self._t, "0: end it first (end_episode)")

    @cached_property
    def names(self) -> TaskNames:
        """Return the names of the task. They never change."""
        assert self.newest is not None
        return TaskNames(self.newest.about)

    @property
    def is_endless(self) -> bool:
        """Return whether the task has no horizon. Then steps are sent without waiting for an end."""
        return self.names.horizon is None

    @property
    def copy(self) -> PolicyCopy:
        """Return the copy of the policy that decides."""
        if self._copy is None or self.is_endless:
            self._copy = self.newest
        assert self._copy is not None
        return self._copy

    def choose(self, *where: Any, **named: Any) -> Any:
        """Return the agent to put in control, from t, state and prev_agent; without a horizon, from state and prev_agent."""
        has_time = "t" in named or len(where) + len(named) > 2
        if has_time and self.is_endless:
            check.fail("choose", "t", check.show(named.get("t", where[0] if where else None)), "left out: the task has no horizon")
        if not has_time and not self.is_endless:
            check.fail("choose", "t", "missing", "a time step of the episode: the task has a horizon")
        return self._choose(None, *where, **named) if self.is_endless else self._choose(*where, **named)

    def _choose(self, t: Any, state: Any, prev_agent: Any) -> Any:
        """Return the agent to put in control, by name if prev_agent is a name. t: None without a horizon."""
        names, copy = self.names, self.copy
        now = self._t if names.horizon is None else check.index("choose", "t", t, names.horizon)
        where = names.live_state("choose", state), names.agent("choose", "prev_agent", prev_agent)
        agent = copy.choice(where if names.horizon is None else (now, *where))
        reason = {"reason": copy.about["reason"]} if "reason" in copy.about else {}
        self._choice = now, {"chosen": agent, "version": copy.version, **reason}
        return in_kind(agent, names.agents, prev_agent)

    def observe(self, *step: Any, **named: Any) -> None:
        """Store a step: t, state, prev_agent, agent, action, next_state, cost, enter_cost; without a horizon no t."""
        if self.is_endless:
            self._observe(None, *step, **named)
        else:
            self._observe(*step, **named)

    def _observe(
        self,
        t: Any,
        state: Any,
        prev_agent: Any,
        agent: Any,
        action: Any,
        next_state: Any,
        cost: Any = None,
        enter_cost: Any = None,
        *,
        moved: Any = False,
    ) -> None:
        if self.names.horizon is not None and check.index("observe", "t", t, self.names.horizon) != self._t:
            hint = "" if t else "; if a new episode begins, end this one first (end_episode), or drop it (drop_episode)"
            check.fail("observe", "t", t, f"{self._t}, the next step of this episode{hint}")
        step: dict[str, Any] = {
            "state": self.names.live_state("observe", state),
            "prev_agent": self.names.agent("observe", "prev_agent", prev_agent),
            "agent": self.names.agent("observe", "agent", agent),
            "action": self.names.action("observe", "action", action),
            "next_state": self.names.state("observe", "next_state", next_state),
        }
        moved = check.truth("observe", "moved", moved)
        begins_run = self._is_elsewhere(step, state, prev_agent, moved)
        for name, value in (("cost", cost), ("enter_cost", enter_cost)):
            if value is not None:
                step[name] = check.number("observe", name, value)
        if begins_run and not self.is_endless:
            check.fail("observe", "moved", True, "False: a service learns from whole episodes; end this one, and begin another")
        if begins_run:
            choice = None if self._choice is None or self._choice[0] != self._t else (0, self._choice[1])
            self._reset()
            self._choice = choice
        self._store(step)
        if self.is_endless and step["next_state"] in self.names.terminal:
            self.end_episode()

    def _is_elsewhere(self, step: dict[str, Any], state: Any, prev_agent: Any, moved: bool) -> bool:
        """Check that a step continues the last one; return whether the system was moved in between. state, prev_agent: as given."""
        if self._last is None:
            return False
        wrong_agent, wrong_state = wrong_links(self._last, Step(self._t, **step, cost=nan, moved=moved))
        if wrong_agent:
            expected = check.show(in_kind(self._last.agent, self.names.agents, prev_agent))
            check.fail("observe", "prev_agent", check.show(prev_agent), f"{expected}, {WHO}")
        expected = check.show(in_kind(self._last.next_state, self.names.state_names or (), state))
        if self._last.next_state in self.names.terminal:
            check.fail("observe", "this episode", f"over since state {expected}", "ended first (end_episode)")
        if wrong_state:
            check.fail("observe", "state", check.show(state), f"{expected}, {WHERE}")
        return bool(step["state"] != self._last.next_state)

    @uninterrupted
    def _store(self, step: dict[str, Any]) -> None:
        """Store a checked step, to be sent; with a horizon, when the episode ends."""
        choice = self._choice[1] if self._choice is not None and self._choice[0] == self._t else {}
        number = self._new_number() if self.number is None else self.number
        now = min(max(0, time.time_ns() // 1_000_000), LATEST_STAMP)
        body = {"episode": number, "t": self._t, "at": now, **step, **choice}
        self._unsent.put(self._team, number, body, held=not self.is_endless)
        self.number, self._t, self._last = number, self._t + 1, Step(self._t, **{name: step[name] for name in PLACES}, cost=nan)

    def _new_number(self) -> int:
        """Return a unique, increasing number for an episode: a second since 1970, used once, then random bits of this object.

        Several episodes in one second take seconds of the future. Two clients of one team have numbers in common only if their
        random bits are equal.
        """
        self._last_second = max(self._last_second + 1, min(max(0, int(time.time())), LATEST_SECOND))
        return self._last_second << RANDOM_BITS | self._random_bits

    @uninterrupted
    def end_episode(self) -> None:
        """End the running episode, so that it is sent; without a horizon, the next step begins a new run."""
        if self._t and self.is_endless:
            self._unsent.sync()
        elif self._t:
            assert self.number is not None
            self._unsent.end(self._team, self.number, self._t)
        self._reset()

    @uninterrupted
    def drop_episode(self) -> None:
        """Drop the running episode: its steps are not sent. Without a horizon they are sent already, and stay."""
        if self._t and not self.is_endless:
            assert self.number is not None
            self._unsent.drop(self._team, self.number)
        self._reset()
