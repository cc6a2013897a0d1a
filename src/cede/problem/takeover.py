"""Hand-overs that take time, rewritten as a larger team whose hand-overs are immediate.

If a member needs n steps to take over, then for n steps the previous agent still acts, or the member acts by a separate policy
(on_takeover). `fold` makes each of these steps an agent of the task. It has the policy and the control cost of the acting member,
and can hand control only to the next step: every other hand-over from it costs infinity. So planning, learning and evaluation need
no code for delays, and stay exact.

Example: the team is "machine" (0) and "human" (1), the human needs 2 steps, and each hand-over costs 0.1. The task has four agents:

    agent                                             acts by      next agent, and the switching cost
    0  machine                                        machine      0: 0      2: 0.1
    1  human                                          human        1: 0      0: 0.1
    2  human (taking over from machine, 1 of 2)       machine      3: 0
    3  human (taking over from machine, 2 of 2)       machine      1: 0      0: 0.1

With on_takeover, agents 2 and 3 are called "human (taking over, 1 of 2)" and "human (taking over, 2 of 2)", act by the human's
policy for taking over, and serve for every agent before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats

MOST_DELAY = 1000  # steps; each of them is an agent of the task


@dataclass(frozen=True)
class Modes:
    """Who acts, and by which policy, when each agent of a task is in control. Members come first, then steps of hand-overs.

    In the example of this module, without on_takeover and with it:

        tables    ("machine", "human")      ("machine", "human", "human (taking over)")
        table     (0, 1, 0, 0)              (0, 1, 2, 2)
        acting    (0, 1, 0, 0)              (0, 1, 1, 1)
        aim       (0, 1, 1, 1)              (0, 1, 1, 1)
    """

    tables: tuple[str, ...]  # (T,) names of the policies: one for each member, then one for each on_takeover
    table: tuple[int, ...]  # (D,) the policy that each agent acts by, an index into `tables`
    acting: tuple[int, ...]  # (D,) the member who acts, and whose control is paid, while each agent is in control
    aim: tuple[int, ...]  # (D,) the member who has control then, or is getting it

    def __post_init__(self) -> None:
        for name in ("tables", "table", "acting", "aim"):
            entries = check.items("Modes", name, getattr(self, name), "a sequence with one entry for each policy, or each agent")
            object.__setattr__(self, name, tuple(entries))
        for i, name in enumerate(self.tables):
            check.name("Modes", f"tables[{i}]", name)
        n, members = len(self.table), len(set(self.acting) | set(self.aim))
        for name, most in (("table", len(self.tables)), ("acting", members), ("aim", members)):
            values = getattr(self, name)
            for i, value in enumerate(values):
                check.index("Modes", f"{name}[{i}]", value, most)
            if len(values) != n or not members or values[:members] != tuple(range(members)):
                check.fail("Modes", name, check.show(values), f"of {n} agents, the members first, each of whom acts itself")
        if set(self.table) != set(range(len(self.tables))):
            check.fail("Modes", "the policies in use", sorted(set(self.table)), f"all {len(self.tables)}")

    @property
    def members(self) -> int:
        """Return the number of members of the team; agents from there on are steps of hand-overs."""
        return max(self.acting) + 1

    @classmethod
    def plain(cls, agents: Sequence[str]) -> "Modes":
        """Return the modes of a team whose hand-overs are immediate: each agent is a member and acts by its own policy."""
        itself = tuple(range(len(agents)))
        return cls(tuple(agents), itself, itself, itself)


def check_modes(owner: str, modes: Any, agents: Sequence[str], varies_with: Sequence[str | None]) -> None:
    """Check modes from outside: of a folded task that is copied with other costs, or read from a file.

    agents, varies_with: (D,). Agents that act by one policy must agree in what it varies with: kernels find its rows by that.
    """
    check.instance(owner, "modes", modes, Modes)
    n, members, tables = len(agents), modes.members, modes.tables
    if len(modes.table) != n:
        check.fail(owner, "the number of agents of modes", len(modes.table), f"{n}, as of agents")
    if tables[:members] != tuple(agents[:members]) or len(set(tables)) < len(tables):
        expected = f"different, {check.show(tuple(agents[:members]))} first"
        check.fail(owner, "the names in modes.tables", check.show(tables), expected)
    for i, (kind, table) in enumerate(zip(varies_with, modes.table, strict=True)):
        expected_kind = varies_with[table] if table < members else None
        if kind != expected_kind or (n > members and kind == "prev_agent"):
            fits = "None or 'time'" if kind == expected_kind else f"{expected_kind!r}, as of the policy that it acts by"
            check.fail(owner, f"varies_with[{i}]", repr(kind), fits)


@dataclass(frozen=True, eq=False)
class Folded:
    """What `fold` returns: the larger team whose hand-overs are immediate."""

    agents: tuple[str, ...]  # (D,) names: the members, then the steps of hand-overs
    modes: Modes  # who acts when each of them is in control
    switch_cost: Floats  # (D, D) [prev_agent, agent], or (S, D, D); infinity where a hand-over is not possible


def checked_delays(owner: str, agents: Sequence[str], takeover_delay: Any, on_takeover: Any) -> tuple[list[int], list[bool]]:
    """Check a task's takeover_delay and on_takeover; return for each member its delay in steps, and whether it has a policy of its
    own for these steps.
    """
    if not isinstance(takeover_delay, Mapping):
        expected = "steps by the agents' names, as in {'human': 2}"
        check.fail(owner, "takeover_delay", check.show(takeover_delay), expected)
    if isinstance(on_takeover, str) or not isinstance(on_takeover, Sequence):
        check.fail(owner, "on_takeover", check.show(on_takeover), "a sequence of agents' names")
    for place, name in [*(("takeover_delay", name) for name in takeover_delay), *(("on_takeover", name) for name in on_takeover)]:
        if not isinstance(name, str) or name not in agents:
            check.fail(owner, f"an agent of {place}", check.show(name), check.one_of(agents))
    delays = [takeover_delay.get(name, 0) for name in agents]
    for name, delay in zip(agents, delays, strict=True):
        check.integer(owner, f"takeover_delay[{name!r}]", delay, 0, MOST_DELAY)
        if name in on_takeover and not delay:
            check.fail(owner, f"takeover_delay[{name!r}]", 0, "at least 1 where on_takeover is given")
    return delays, [name in on_takeover for name in agents]


def fold(agents: Sequence[str], switch_cost: Floats, delays: Sequence[int], own: Sequence[bool]) -> Folded:
    """Make an agent of every step of a hand-over that takes time; return the larger team.

    agents: names of the members. switch_cost: (members, members), or with states before. delays, own: as `checked_delays` returns
    them.
    """
    members = range(len(agents))
    names, tables = list(agents), list(agents)
    table, acting, aim = list(members), list(members), list(members)
    follows: dict[int, int] = {}  # from a step of a hand-over that is not its last to the next step
    first_step: dict[tuple[int, int], int] = {}  # from (member before, member who takes over) to the first step
    for d in members:
        if own[d]:
            tables.append(f"{agents[d]} (taking over)")
        before = [None] if own[d] else [p for p in members if p != d]  # None: the same steps for all previous agents
        for p in before if delays[d] else ():
            from_whom = "" if p is None else f" from {agents[p]}"
            for step in range(1, delays[d] + 1):
                here = len(names)
                names.append(f"{agents[d]} (taking over{from_whom}, {step} of {delays[d]})")
                table.append(len(tables) - 1 if p is None else p)
                acting.append(d if p is None else p)
                aim.append(d)
                if step < delays[d]:
                    follows[here] = here + 1
                if step == 1:
                    first_step.update({(q, d): here for q in members if q != d and p in (None, q)})
    costs = np.full((*switch_cost.shape[:-2], len(names), len(names)), np.inf)
    for here, to in follows.items():
        stay = switch_cost[..., aim[here], aim[here]]
        costs[..., here, to] = np.where(np.isfinite(stay), stay, 0.0)
    for here in range(len(names)):
        if here not in follows:  # a member, or the last step of a hand-over: control may be handed over
            for d in members:
                costs[..., here, first_step.get((aim[here], d), d)] = switch_cost[..., aim[here], d]
    return Folded(tuple(names), Modes(tuple(tables), tuple(table), tuple(acting), tuple(aim)), costs)


def price_of_members(switch_cost: Floats, aim: NDArray[np.int64]) -> Floats:
    """Return the cost of a hand-over between each two members: (M, M), or (S, M, M); infinity where it is not possible.

    switch_cost: (D, D) or (S, D, D), aim: (D,), of a folded task. A slow hand-over is paid in its first step.
    """
    members = range(int(aim.max()) + 1)
    prices = [switch_cost[..., : len(members), aim == member].min(axis=-1) for member in members]
    return np.stack(prices, axis=-1)


def next_agent_towards(possible: NDArray[np.bool_], agent: int) -> list[int]:
    """Return the next agent on the shortest way from each agent to `agent`, (D,); `agent` keeps control.

    possible: (D, D) [prev_agent, agent]. Where `agent` cannot be reached, the result is any possible agent.
    """
    nearest = np.argsort(handovers_until(possible, agent), kind="stable")
    towards: list[int] = nearest[possible[:, nearest].argmax(axis=1)].tolist()  # the first of the nearest that is possible
    return towards


def handovers_until(possible: NDArray[np.bool_], agent: int) -> Floats:
    """Return the number of hand-overs from each agent to `agent`, (D,); infinity if it cannot be reached."""
    steps: Floats = np.full(len(possible), np.inf)
    n, nearest = 0, np.array([agent])
    while nearest.size:  # agents at distance n; each agent occurs once
        steps[nearest] = n
        farther = np.flatnonzero(np.isinf(steps))
        n, nearest = n + 1, farther[possible[np.ix_(farther, nearest)].any(axis=1)]
    return steps
