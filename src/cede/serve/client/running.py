"""The episode that a client's team is in: who is chosen, by which copy of the policy, and what is observed. Nothing here waits."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cede._base import check
from cede._base.arrays import Policy
from cede._base.interrupts import uninterrupted
from cede.problem.names import in_kind, name_index, numbers_by_name, place_index
from cede.serve.client.unsent import Unsent

RANDOM_BITS = 21  # of the number of an episode; seconds since 1970 come first
LATEST = 2**31  # second at most that is taken from a clock, which may be wrong; numbers have room for twice as many
MOST_STAMP = 2**53 - 1  # milliseconds that the service takes


@dataclass(frozen=True, eq=False)
class Copy:
    """A policy that was downloaded, and what a client must know of the task."""

    policy: Policy | None  # (L, S, D), or (S, D) without a horizon; None: there is no plan yet
    about: Mapping[str, Any]  # the rest of what the service told
    tag: str | None
    got: float  # when it was last known to be the newest, by time.monotonic

    @property
    def version(self) -> int:
        """Return the version of the policy, 0: there is none."""
        return 0 if self.policy is None else int(self.about["version"])

    def choice(self, where: tuple[int, ...]) -> int:
        """Return who should act. where: t, state and prev_agent; without a horizon no t.

        Without a plan it is the fallback agent, or whoever is on the way to it where hand-overs take time.
        """
        if self.policy is not None:
            return int(self.policy[where])
        towards = self.about.get("towards")
        return int(self.about["fallback"] if towards is None else towards[where[-1]])


def shape_of(about: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of a policy. about: what the service told of the task."""
    sides = (about["n_states"], len(about["agents"]))
    return sides if about["horizon"] is None else (about["horizon"], *sides)


class Places:
    """Agents, states and actions of a task, by index or by name."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self.horizon: int | None = about["horizon"]
        self.agents: tuple[str, ...] = tuple(about["agents"])
        self.state_names, self.action_names = about.get("state_names"), about.get("action_names")
        self._n_states, self._n_actions = about["n_states"], about["n_actions"]
        self.ends = frozenset(about["terminal"])
        self._states, self._actions = numbers_by_name(self.state_names), numbers_by_name(self.action_names)

    def state(self, owner: str, place: str, given: Any) -> int:
        """Return the index of a state."""
        return place_index(owner, place, given, self._n_states, self.state_names, self._states)

    def action(self, owner: str, place: str, given: Any) -> int:
        """Return the index of an action."""
        return place_index(owner, place, given, self._n_actions, self.action_names, self._actions)

    def agent(self, owner: str, place: str, given: Any) -> int:
        """Return the index of an agent."""
        return name_index(owner, place, given, self.agents)

    def going_on(self, owner: str, given: Any) -> int:
        """Return the index of a state in which an episode goes on."""
        state = self.state(owner, "state", given)
        if state in self.ends:
            check.fail(owner, "state", check.show(given), "one in which an episode goes on: it ends there")
        return state


class Running:
    """The running episode of a team; where there is no horizon, the run. One thread at a time may use it.

    unsent: where steps go. newest: the newest copy of the policy; whoever has a newer one puts it there, at any time. During an
    episode one copy decides; without a horizon the newest.
    """

    def __init__(self, team: str, unsent: Unsent) -> None:
        self.team, self.unsent = team, unsent
        self.newest: Copy | None = None
        self._second, self._lane = 0, secrets.randbits(RANDOM_BITS)  # of the number that was used last
        self.forget()

    def forget(self) -> None:
        """Be between two episodes."""
        self.episode: int | None = None  # its number; None: none was begun
        self._now: Copy | None = None  # the copy that decides
        self._t = 0  # steps that were observed
        self._last: tuple[int, int] | None = None  # agent and next state of the last one
        self._chosen: tuple[int, dict[str, Any]] | None = None  # t of the last choice, and what the log is told of it

    def forked(self, unsent: Unsent) -> None:
        """Go on in a new process: the running episode is the parent's, and numbers are of its own."""
        self.unsent, self._second, self._lane = unsent, 0, secrets.randbits(RANDOM_BITS)
        self.forget()

    def begun(self, number: int) -> None:
        """Take note of the number under which the next steps are told."""
        self.check_between("begin")
        self.forget()
        self.episode = number

    def check_between(self, owner: str) -> None:
        """Check that no step of an episode was observed that has not ended."""
        if self._t:
            check.fail(owner, "the number of steps of the running episode", self._t, "0: end it first (end_episode)")

    @cached_property
    def places(self) -> Places:
        """Return agents, states and actions. They never change."""
        assert self.newest is not None
        return Places(self.newest.about)

    @property
    def tells(self) -> bool:
        """Return whether steps are told as they come."""
        return self.places.horizon is None

    @property
    def copy(self) -> Copy:
        """Return the copy that decides."""
        if self._now is None or self.places.horizon is None:
            self._now = self.newest
        assert self._now is not None
        return self._now

    # ------------------------------------------------------------------------------------------------- choose

    def choose(self, *where: Any, **named: Any) -> Any:
        """Return who should act: of t, state and prev_agent, or without a horizon of state and prev_agent."""
        endless = self.places.horizon is None
        if endless and ("t" in named or len(where) + len(named) > 2):
            check.fail("choose", "t", check.show(named.get("t", where[0] if where else None)), "left out: the task has no horizon")
        if not endless and "t" not in named and len(where) + len(named) < 3:
            check.fail("choose", "t", "missing", "a time step of the episode: the task has a horizon")
        return (self._choose_now if self.places.horizon is None else self._choose_at)(*where, **named)

    def _choose_at(self, t: Any, state: Any, prev_agent: Any) -> Any:
        assert self.places.horizon is not None
        t = check.index("choose", "t", t, self.places.horizon)
        return self._choose(t, (t,), state, prev_agent)

    def _choose_now(self, state: Any, prev_agent: Any) -> Any:
        return self._choose(self._t, (), state, prev_agent)

    def _choose(self, t: int, time_index: tuple[int, ...], state: Any, prev_agent: Any) -> Any:
        """Return who should act; by name if prev_agent is given by name."""
        places, copy = self.places, self.copy
        at, prev = places.going_on("choose", state), places.agent("choose", "prev_agent", prev_agent)
        agent = copy.choice((*time_index, at, prev))
        why = {"reason": copy.about["reason"]} if "reason" in copy.about else {}
        self._chosen = (t, {"chosen": agent, "version": copy.version, **why})
        return in_kind(agent, places.agents, prev_agent)

    # ------------------------------------------------------------------------------------------------- observe

    def observe(self, *step: Any, **named: Any) -> None:
        """Take note of a step: t, state, prev_agent, agent, action, next_state, cost, enter_cost; t only with a horizon."""
        (self._observe_now if self.places.horizon is None else self._observe_at)(*step, **named)

    def _observe_at(
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
        assert self.places.horizon is not None
        if check.index("observe", "t", t, self.places.horizon) != self._t:
            hint = "" if t else "; if a new episode begins, end this one first (end_episode), or drop it (drop_episode)"
            check.fail("observe", "t", t, f"{self._t}, the next step of this episode{hint}")
        step, jumped = self._checked((state, prev_agent, agent, action, next_state), cost, enter_cost, moved)
        if jumped:
            check.fail("observe", "moved", True, "False: a service learns from whole episodes; end this one, and begin another")
        self._put(step, held=True)

    def _observe_now(
        self,
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
        step, jumped = self._checked((state, prev_agent, agent, action, next_state), cost, enter_cost, moved)
        if jumped:  # a run goes on where the step before led
            chosen = None if self._chosen is None or self._chosen[0] != self._t else (0, self._chosen[1])
            self.forget()
            self._chosen = chosen
        self._put(step, held=False)
        if step["next_state"] in self.places.ends:
            self.end_episode()

    def _checked(self, given: tuple[Any, ...], cost: Any, enter_cost: Any, moved: Any) -> tuple[dict[str, Any], bool]:
        """Check a step; return it in indices, and whether the system was moved to where it begins."""
        places, (state, prev_agent, agent, action, next_state) = self.places, given
        step: dict[str, Any] = {
            "state": places.going_on("observe", state),
            "prev_agent": places.agent("observe", "prev_agent", prev_agent),
            "agent": places.agent("observe", "agent", agent),
            "action": places.action("observe", "action", action),
            "next_state": places.state("observe", "next_state", next_state),
        }
        moved = check.truth("observe", "moved", moved)
        jumped = False
        if self._last is not None:
            before, led = self._last
            if step["prev_agent"] != before:
                who = check.show(in_kind(before, places.agents, prev_agent))
                check.fail("observe", "prev_agent", check.show(prev_agent), f"{who}, who acted in the step before")
            where = check.show(in_kind(led, places.state_names or (), state))
            if led in places.ends:
                check.fail("observe", "this episode", f"over since state {where}", "ended first (end_episode)")
            jumped = step["state"] != led
            if jumped and not moved:
                check.fail("observe", "state", check.show(state), f"{where}, where the step before led")
        for name, one in (("cost", cost), ("enter_cost", enter_cost)):
            if one is not None:
                step[name] = check.number("observe", name, one)
        return step, jumped

    @uninterrupted
    def _put(self, step: dict[str, Any], *, held: bool) -> None:
        """Keep a step that was checked, to be told; and go on behind it."""
        why = self._chosen[1] if self._chosen is not None and self._chosen[0] == self._t else {}
        episode = self._new_number() if self.episode is None else self.episode
        now = min(max(0, time.time_ns() // 1_000_000), MOST_STAMP)
        told = {"episode": episode, "t": self._t, "at": now, **step, **why}
        self.unsent.put(self.team, episode, told, held=held)
        self.episode, self._t, self._last = episode, self._t + 1, (step["agent"], step["next_state"])

    def _new_number(self) -> int:
        """Return a number for an episode that nobody else has: a second since 1970, each once, and random bits, always the same.

        They grow, ahead of the clock where there are several in a second. Two clients of one team have a number in common only if
        their random bits are the same, however many episodes they have.
        """
        self._second = max(self._second + 1, min(max(0, int(time.time())), LATEST))
        return self._second << RANDOM_BITS | self._lane

    @uninterrupted
    def end_episode(self) -> None:
        """End the running episode, so that it is told; without a horizon the next step begins a new run."""
        if self._t and self.places.horizon is not None:
            assert self.episode is not None
            self.unsent.end(self.team, self.episode, self._t)
        elif self._t:
            self.unsent.sync()
        self.forget()

    @uninterrupted
    def drop_episode(self) -> None:
        """Drop the running episode: nobody is told of it. Without a horizon steps are told as they come, and stay told."""
        if self._t and self.places.horizon is not None:
            assert self.episode is not None
            self.unsent.drop(self.team, self.episode)
        self.forget()
