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

Where a hand-over is forbidden in some states (`can_switch`), it can neither be ordered nor completed there: its last step repeats.

**Random answer times.** Instead of a number of steps a delay may be the probabilities of 0, 1, 2, ... steps. What is chosen is then
an *order* u, and who is in control next is drawn: V_t(s, m) = min_u sum_m' kappa(m' | m, u) (x(s, m, m') + W_t(s, m')), with the
known kernel kappa of `Modes.chance`. With the probabilities 0.3, 0.3, 0.2 of the human above:

    agent                                             order "human" leads to
    0  machine                                        1 with 0.3, 2 with 0.7
    2  human (taking over from machine, 1 of 2)       1 with 0.3 / 0.7, 3 with 0.4 / 0.7
    3  human (taking over from machine, 2 of 2)       1 with 0.2 / 0.4, 0 with 0.2 / 0.4: the human does not answer

A call costs the hand-over at once, whether it is answered or not. It can be withdrawn in every step, by the order of the caller,
and then costs nothing more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints

MOST_DELAY = 1000  # steps; each of them is an agent of the task
SUM_TOLERANCE = 1e-9  # of probabilities
OBEYED, NO_ORDER = -1, -2  # of an order: it leads to its own agent; it is no order, its agent is an outcome of others
Delay = int | tuple[float, ...]  # steps, or the probabilities of 0, 1, 2, ... steps


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
    # kappa: (previous agent, order, next agent, probability) of orders whose outcome is random, ascending; empty: there are none
    chance: tuple[tuple[int, int, int, float], ...] = ()

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
        self._check_chance(n)

    def _check_chance(self, n: int) -> None:
        """Check the kernel of a team of n agents."""
        expected = "entries (previous agent, order, next agent, probability)"
        given = check.items("Modes", "chance", self.chance, expected)
        entries = [tuple(check.items("Modes", f"chance[{i}]", entry, expected)) for i, entry in enumerate(given)]
        total: dict[tuple[int, int], float] = {}
        for i, entry in enumerate(entries):
            if len(entry) != 4:
                check.fail("Modes", f"chance[{i}]", check.show(entry), expected)
            prev, order, _ = (check.index("Modes", f"chance[{i}]", agent, n) for agent in entry[:3])
            total[prev, order] = total.get((prev, order), 0.0) + check.number("Modes", f"chance[{i}]", entry[3], least=0.0)
        places = [entry[:3] for entry in entries]
        if places != sorted(set(places)) or any(abs(each - 1.0) > SUM_TOLERANCE for each in total.values()):
            check.fail("Modes", "chance", check.show(self.chance), "ascending, each agent once, and of sum 1 for each order")
        object.__setattr__(self, "chance", tuple(entries))

    @cached_property
    def orders(self) -> "Orders":
        """Return what each order leads to."""
        return Orders.of(len(self.table), self.chance)

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
class Orders:
    """What orders lead to: the kernel kappa of random answer times. All arrays are empty where every order is obeyed at once."""

    row: Ints  # (D, D) [prev_agent, order]: OBEYED, NO_ORDER, or the row of its outcomes
    first: Ints  # (rows + 1,) the first outcome of each row
    agent: Ints  # (outcomes,) the next agent
    chance: Floats  # (outcomes,) and its probability

    @classmethod
    def of(cls, n: int, chance: Sequence[tuple[int, int, int, float]]) -> "Orders":
        """Return the orders of n agents from the entries of a kernel."""
        row = np.full((n, n) if chance else (0, 0), OBEYED, dtype=np.int64)
        for prev, _, agent, _ in chance:
            row[prev, agent] = NO_ORDER  # it can only come of an order
        first: list[int] = []
        for i, (prev, order, _, _) in enumerate(chance):
            if i == 0 or chance[i - 1][:2] != (prev, order):
                row[prev, order] = len(first)
                first.append(i)
        numbers = np.array([*first, len(chance)] if chance else [], dtype=np.int64)
        return cls(
            row, numbers, np.array([e[2] for e in chance], dtype=np.int64), np.array([e[3] for e in chance], dtype=np.float64)
        )

    def outcomes(self, prev: int, order: int) -> dict[int, float]:
        """Return the next agents after an order, with their probabilities."""
        row = int(self.row[prev, order]) if self.row.size else OBEYED
        if row < 0:
            return {order: 1.0}
        part = slice(int(self.first[row]), int(self.first[row + 1]))
        return dict(zip(self.agent[part].tolist(), self.chance[part].tolist(), strict=True))

    def chance_of(self, agent: int, policy: NDArray[Any]) -> Floats:
        """Return the probability that an agent gets control by a policy, (..., D) [..., prev_agent], of the same shape."""
        if not self.row.size:
            return np.asarray(policy == agent, dtype=np.float64)
        table = np.zeros(self.row.shape)
        table[:, agent] = self.row[:, agent] == OBEYED
        for prev, order in np.argwhere(self.row >= 0).tolist():
            table[prev, order] = self.outcomes(prev, order).get(agent, 0.0)
        result: Floats = table[np.arange(len(table)), policy]
        return result

    def drawn(self, prev: int, order: int, rng: np.random.Generator) -> int:
        """Return the next agent after an order, drawn where it is random."""
        agents = self.outcomes(prev, order)
        return order if agents.keys() == {order} else int(rng.choice(list(agents), p=list(agents.values())))

    def possible(self, transitions: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which orders can be given, (..., D, D), where these transitions [prev_agent, agent] are possible."""
        result = transitions.copy()
        for prev, order in np.argwhere(self.row != OBEYED):
            able = transitions[..., prev, list(self.outcomes(prev, order))].all(axis=-1)
            result[..., prev, order] = able & (self.row[prev, order] != NO_ORDER)
        return result


@dataclass(frozen=True, eq=False)
class Folded:
    """What `fold` returns: the larger team whose hand-overs are immediate."""

    agents: tuple[str, ...]  # (D,) names: the members, then the steps of hand-overs
    modes: Modes  # who acts when each of them is in control
    switch_cost: Floats  # (D, D) [prev_agent, agent], or (S, D, D); infinity where a hand-over is not possible


def checked_delay(owner: str, place: str, delay: Any) -> Delay:
    """Check a delay, in steps or as the probabilities of 0, 1, 2, ... steps; return the steps where these are certain."""
    if check.ndim(delay) == 0:
        return check.integer(owner, place, delay, 0, MOST_DELAY)
    chances = check.array(owner, place, delay, (None,), "(n,)")
    if not 1 <= len(chances) <= MOST_DELAY + 1:
        check.fail(owner, f"the length of {place}", len(chances), f"from 1 to {MOST_DELAY + 1}")
    total = float(chances.sum())
    if (chances < 0.0).any() or not 0.0 < total <= 1.0 + SUM_TOLERANCE:
        expected = "probabilities of 0, 1, 2, ... steps, of a sum above 0 and at most 1; what is missing is no answer"
        check.fail(owner, place, check.show(chances.tolist()), expected)
    sure = abs(total - 1.0) <= SUM_TOLERANCE
    if sure and (chances > 0.0).sum() == 1:
        return int(chances.argmax())
    if sure:
        chances = chances[: int(np.flatnonzero(chances)[-1]) + 1] / total
    return tuple(chances.tolist()) if sure or len(chances) > 1 else (float(chances[0]), 0.0)


def checked_delays(owner: str, agents: Sequence[str], takeover_delay: Any, on_takeover: Any) -> tuple[list[Delay], list[bool]]:
    """Check a task's takeover_delay and on_takeover; return for each member its delay, and whether it has a policy of its own for
    these steps.
    """
    if not isinstance(takeover_delay, Mapping):
        expected = "steps by the agents' names, as in {'human': 2}"
        check.fail(owner, "takeover_delay", check.show(takeover_delay), expected)
    if isinstance(on_takeover, str) or not isinstance(on_takeover, Sequence):
        check.fail(owner, "on_takeover", check.show(on_takeover), "a sequence of agents' names")
    for place, name in [*(("takeover_delay", name) for name in takeover_delay), *(("on_takeover", name) for name in on_takeover)]:
        if not isinstance(name, str) or name not in agents:
            check.fail(owner, f"an agent of {place}", check.show(name), check.one_of(agents))
    delays = [checked_delay(owner, f"takeover_delay[{name!r}]", takeover_delay.get(name, 0)) for name in agents]
    for name, delay in zip(agents, delays, strict=True):
        if name in on_takeover:
            check_own_policy(owner, f"takeover_delay[{name!r}]", delay)
    return delays, [name in on_takeover for name in agents]


def check_own_policy(owner: str, place: str, delay: Delay) -> None:
    """Check the delay of a member with on_takeover."""
    if not delay:
        check.fail(owner, place, 0, "at least 1 where on_takeover is given")
    if isinstance(delay, tuple):
        check.fail(
            owner, place, check.show(delay), "a number of steps where on_takeover is given: who does not answer does not act"
        )


def fold(agents: Sequence[str], switch_cost: Floats, delays: Sequence[Delay], own: Sequence[bool]) -> Folded:
    """Make an agent of every step of a hand-over that takes time; return the larger team.

    agents: names of the members. switch_cost: (members, members), or with states before. delays, own: as `checked_delays` returns
    them.
    """
    members = range(len(agents))
    names, tables = list(agents), list(agents)
    table, acting, aim = list(members), list(members), list(members)
    follows: dict[int, int] = {}  # from a step of a hand-over that is not its last to the next step
    first_step: dict[tuple[int, int], int] = {}  # from (member before, member who takes over) to the first step
    calls: dict[int, tuple[float, int]] = {}  # from a step of a random delay to the chance of an answer, and who waits then
    for d in members:
        if own[d]:
            tables.append(f"{agents[d]} (taking over)")
        before = [None] if own[d] else [p for p in members if p != d]  # None: the same steps for all previous agents
        for p in before if delays[d] else ():
            from_whom = "" if p is None else f" from {agents[p]}"
            delay = delays[d]
            steps = len(delay) - 1 if isinstance(delay, tuple) else delay
            for step in range(1, steps + 1):
                here = len(names)
                names.append(f"{agents[d]} (taking over{from_whom}, {step} of {steps})")
                table.append(len(tables) - 1 if p is None else p)
                acting.append(d if p is None else p)
                aim.append(d)
                if isinstance(delay, tuple):
                    assert p is not None
                    calls[here] = hazard(delay, step), here + 1 if step < steps else p
                elif step < steps:
                    follows[here] = here + 1
                if step == 1:
                    first_step.update({(q, d): here for q in members if q != d and p in (None, q)})
    costs = np.full((*switch_cost.shape[:-2], len(names), len(names)), np.inf)
    chance: list[tuple[int, int, int, float]] = []
    stays = np.where(np.isinf(switch_cost), 0.0, switch_cost)
    for here in range(len(names)):
        who, by, stay = aim[here], acting[here], stays[..., aim[here], aim[here]]
        if here in follows:
            costs[..., here, follows[here]] = stay
            continue
        if here in calls:
            answered, waits = calls[here]
            costs[..., here, who], costs[..., here, waits] = stay if answered else np.inf, stay
            costs[..., here, by] = 0.0  # withdrawn, or not answered
            if 0.0 < answered < 1.0:
                chance += [(here, who, who, answered), (here, who, waits, 1.0 - answered)]
                chance += [(here, by, by, 1.0)] if waits == by else []
        else:  # a member, or the last step of a hand-over: control may be handed over
            for d in members:
                delay, first = delays[d], first_step.get((who, d), d)
                costs[..., here, first] = switch_cost[..., who, d]
                if first != d and isinstance(delay, tuple) and delay[0]:
                    costs[..., here, d] = switch_cost[..., who, d]
                    chance += [(here, d, d, delay[0]), (here, d, first, 1.0 - delay[0])]
        if by != who and switch_cost.ndim == 3 and calls.get(here, (1.0,))[0]:
            wait_while_locked(costs, here, by, who, switch_cost, stay)
            if here in calls:
                costs[..., here, by] = 0.0
    modes = Modes(tuple(tables), tuple(table), tuple(acting), tuple(aim), tuple(sorted(chance)))
    return Folded(tuple(names), modes, costs)


def wait_while_locked(costs: Floats, here: int, by: int, who: int, switch_cost: Floats, stay: Floats) -> None:
    """Let the last step of a hand-over from `by` to `who` repeat in the states where it is forbidden.

    costs: (S, D, D), changed. here: the step. switch_cost: (S, members, members). stay: (S,), the cost of a step more.
    """
    locked = np.isinf(switch_cost[:, by, who])
    if not locked.all():
        costs[locked, here] = np.inf
        costs[locked, here, here] = stay[locked]


def hazard(chances: Sequence[float], step: int) -> float:
    """Return the probability of an answer after so many steps of waiting, given that there was none before."""
    left = 1.0 - sum(chances[:step])
    return 1.0 if step == len(chances) - 1 and abs(left - chances[step]) <= SUM_TOLERANCE else chances[step] / left


def price_of_members(switch_cost: Floats, aim: NDArray[np.int64]) -> Floats:
    """Return the cost of a hand-over between each two members: (M, M), or (S, M, M); infinity where it is not possible, NaN where
    it is not known.

    switch_cost: (D, D) or (S, D, D), aim: (D,), of a folded task. A slow hand-over is paid in its first step.
    """
    members = range(int(aim.max()) + 1)
    prices = [switch_cost[..., : len(members), aim == member].min(axis=-1) for member in members]
    return np.stack(prices, axis=-1)


def next_agent_towards(possible: NDArray[np.bool_], agent: int) -> Ints:
    """Return the next agent on the shortest way from each agent to `agent`, (D,), or (S, D) by state; `agent` keeps control.

    possible: (D, D) [prev_agent, agent], or (S, D, D). Where `agent` cannot be reached, the result is any possible agent. Where a
    lock forbids the next hand-over in a state, the previous agent keeps control if it may.
    """
    far = handovers_until(possible.reshape(-1, *possible.shape[-2:]).max(axis=0), agent)
    nearest = np.argsort(far, kind="stable")
    towards: Ints = nearest[possible[..., nearest].argmax(axis=-1)]  # the first of the nearest that is possible
    if possible.ndim == 3:
        each = np.arange(len(far))
        stays = possible[:, each, each] & (far[towards] >= far)
        towards = np.where(stays, each, towards)
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
