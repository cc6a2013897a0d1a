"""Who takes over how: hand-overs that take time, folded into the problem as agents of their own.

If agent d needs n steps to take over, then for n steps after control was given to it the agent before still acts, or d itself acts
by a policy for just this (on_takeover). A hand-over that is under way is finished. Each of its steps becomes an agent of the task,
who acts by somebody's policy, costs what that one costs, and can only be followed by the next step: every other hand-over costs
infinity. Nothing else knows of reaction times: planning, learning, evaluation and regret are exact as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats

MOST_DELAY = 1000


@dataclass(frozen=True)
class Modes:
    """The agents of a task of which some are steps of a hand-over. The members of the team come first, in their order."""

    tables: tuple[str, ...]  # (T,) whose policies there are: of the members, and of those who act differently while taking over
    table: tuple[int, ...]  # (D,) the policy that each acts by
    acting: tuple[int, ...]  # (D,) the member who acts, and whose control is paid for
    aim: tuple[int, ...]  # (D,) the member who is in control, or is taking over

    def __post_init__(self) -> None:
        for name in ("tables", "table", "acting", "aim"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        n, members = len(self.table), len(set(self.acting) | set(self.aim))
        for name, most in (("table", len(self.tables)), ("acting", members), ("aim", members)):
            values = getattr(self, name)
            if len(values) != n:
                check.fail("Modes", f"the length of {name}", len(values), str(n))
            for i, value in enumerate(values):
                check.index("Modes", f"{name}[{i}]", value, most)
        itself = tuple(range(members))
        if self.table[:members] != itself or self.acting[:members] != itself or self.aim[:members] != itself:
            check.fail("Modes", "what members act by", self.table[:members], "their own policy, under their own control")
        if set(self.table) != set(range(len(self.tables))):
            check.fail("Modes", "the policies in use", sorted(set(self.table)), f"all {len(self.tables)}")

    @classmethod
    def plain(cls, agents: Sequence[str]) -> "Modes":
        """Every hand-over is immediate: agents are members, each with its own policy."""
        itself = tuple(range(len(agents)))
        return cls(tuple(agents), itself, itself, itself)


@dataclass(frozen=True, eq=False)
class Folded:
    """A team whose hand-overs take time, as a team of more agents whose hand-overs do not."""

    agents: tuple[str, ...]  # (D,)
    modes: Modes
    switch_cost: Floats  # (D, D) infinity: not possible


def checked_delays(owner: str, agents: Sequence[str], takeover_delay: Any, on_takeover: Any) -> tuple[list[int], list[bool]]:
    """(D,) steps that each needs to take over, and whether it acts by a policy of its own meanwhile."""
    if not isinstance(takeover_delay, Mapping):
        expected = "steps by the agents' names, as in {'human': 2}"
        check.fail(owner, "takeover_delay", check.show(takeover_delay), expected)
    if isinstance(on_takeover, str) or not isinstance(on_takeover, Sequence):
        check.fail(owner, "on_takeover", check.show(on_takeover), "a sequence of agents' names")
    for name in (*takeover_delay, *on_takeover):
        if name not in agents:
            place = f"an agent of {'takeover_delay' if name in takeover_delay else 'on_takeover'}"
            check.fail(owner, place, check.show(name), "one of " + ", ".join(map(repr, agents)))
    delays = [takeover_delay.get(name, 0) for name in agents]
    for name, delay in zip(agents, delays, strict=True):
        check.integer(owner, f"takeover_delay[{name!r}]", delay, 0, MOST_DELAY)
        if name in on_takeover and not delay:
            check.fail(owner, f"takeover_delay[{name!r}]", 0, "at least 1 where on_takeover is given")
    return delays, [name in on_takeover for name in agents]


def fold(agents: Sequence[str], switch_cost: Floats, delays: Sequence[int], own: Sequence[bool]) -> Folded:
    """delays: steps that each member needs to take over; own: does it act by a policy of its own meanwhile, or the one before?"""
    members = range(len(agents))
    names, tables = list(agents), list(agents)
    table, acting, aim = list(members), list(members), list(members)
    follows: dict[int, int] = {}  # of a hand-over under way: what comes next
    first: dict[tuple[int, int], int] = {}  # (from, to): its first step
    for d in members:
        if own[d]:
            tables.append(f"{agents[d]} (taking over)")
        before = [None] if own[d] else [p for p in members if p != d]
        for p in before if delays[d] else ():
            whence = "" if p is None else f" from {agents[p]}"
            for step in range(1, delays[d] + 1):
                here = len(names)
                names.append(f"{agents[d]} (taking over{whence}, {step} of {delays[d]})")
                table.append(len(tables) - 1 if p is None else p)
                acting.append(d if p is None else p)
                aim.append(d)
                if step < delays[d]:
                    follows[here] = here + 1
                if step == 1:
                    first.update({(q, d): here for q in members if q != d and p in (None, q)})
    costs = np.full((len(names), len(names)), np.inf)
    for here, to in follows.items():
        stay = switch_cost[aim[here], aim[here]]
        costs[here, to] = stay if np.isfinite(stay) else 0.0
    for here in range(len(names)):
        if here not in follows:  # whoever it is has settled, or has in the next step
            for d in members:
                costs[here, first.get((aim[here], d), d)] = switch_cost[aim[here], d]
    return Folded(tuple(names), Modes(tuple(tables), tuple(table), tuple(acting), tuple(aim)), costs)


def way_to(switch_cost: Floats, agent: int) -> list[int]:
    """(D,) the agent to hand control to next, from each, so that `agent` is in control as soon and as often as possible; from where
    that cannot be, any to whom control can be handed.
    """
    possible, n = np.isfinite(switch_cost), len(switch_cost)
    return [int(to) for to in np.where(possible, np.minimum(steps_to(switch_cost, agent), n + 1), np.inf).argmin(axis=1)]


def steps_to(switch_cost: Floats, agent: int) -> Floats:
    """(D,) hand-overs until `agent` is in control, from each; infinity: it cannot be."""
    possible = np.isfinite(switch_cost)
    steps: Floats = np.where(np.arange(len(switch_cost)) == agent, 0.0, np.inf)
    for _ in range(len(switch_cost)):  # from each, one more than from the nearest to whom it can hand control
        steps = np.minimum(steps, 1 + np.where(possible, steps, np.inf).min(axis=1))
    return steps
