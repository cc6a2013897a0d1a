"""Checks of the costs and the terminal states of a task: known and unknown costs of actions, arriving, control and hand-overs."""

from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints, read_only
from cede.problem.names import name_index, numbers_by_name, place_index

MOST_COST, LEAST_COST = 1e100, 1e-100  # so that no sum of costs can overflow, and no square become 0
RANGES = {  # costs of a task that may be unknown, and the argument for their range
    "env_cost": "cost_range",
    "enter_cost": "enter_cost_range",
    "control_cost": "control_cost_range",
    "switch_cost": "switch_cost_range",
}
Range = tuple[float, float]


def checked_sizes(
    owner: str, env_cost: Any, n_states: Any, n_actions: Any, named: tuple[int | None, ...] = (None, None)
) -> tuple[int, int]:
    """Return the numbers of states and actions, from env_cost, from n_states and n_actions, or from the names.

    named: numbers of names of states and of actions, None without names.
    """
    sizes = [
        None if n is None else check.integer(owner, name, n, 1) for name, n in (("n_states", n_states), ("n_actions", n_actions))
    ]
    sides = [n or many or None for n, many in zip(sizes, named, strict=True)]
    if env_cost is None:
        for name, side in zip(("n_states", "n_actions"), sides, strict=True):
            if side is None:
                check.fail(owner, name, "missing", "given where env_cost is None: how many there are")
        return tuple(sides)  # type: ignore[return-value]
    shape = check.copied(owner, "env_cost", env_cost, "(S, A) or (S,)").shape
    if len(shape) == 1 and shape[0]:
        if sides[1] is None:
            expected = "given where env_cost is (S,), the same for all actions: how many there are, or action_names"
            check.fail(owner, "n_actions", "missing", expected)
        shape = (shape[0], sides[1])
    if len(shape) != 2 or 0 in shape:
        check.fail(owner, "the shape of env_cost", shape, "(S, A) or (S,), no side empty")
    turned = [side in (None, size) for side, size in zip(sides, reversed(shape), strict=True)]
    if any(side not in (None, size) for side, size in zip(sides, shape, strict=True)) and all(turned):
        check.fail(owner, "the shape of env_cost", shape, f"(S, A) = {shape[::-1]}: it is transposed, states come first")
    for name, side, size in zip(("n_states", "n_actions"), sizes, shape, strict=True):
        if side is not None and side != size:
            check.fail(owner, name, side, f"{size}, as in env_cost")
    return shape[0], shape[1]


def names_given(names: Any) -> int:
    """Return the number of names, 0 if the argument has no length; the names are checked elsewhere."""
    return len(names) if isinstance(names, Sized) and not isinstance(names, str | bytes) else 0


def amount(owner: str, place: str, value: Any) -> float:
    """Check one cost, a number or NaN, and return it."""
    return np.nan if isinstance(value, float) and np.isnan(value) else check.number(owner, place, value)


def known_at_ends(costs: Floats, terminal: Sequence[int]) -> Floats:
    """Return costs by state, (S, ...), with 0 in place of unknown costs in terminal states, in which nobody has control."""
    result = costs.copy()
    result[list(terminal)] = np.where(np.isnan(result[list(terminal)]), 0.0, result[list(terminal)])
    return read_only(result)


def partly_known(owner: str, argument: str, value: Any, shape: Sequence[int], letters: str) -> Floats:
    """Check an array of costs, NaN for unknown costs; return it read-only."""
    costs = check.copied(owner, argument, value, letters)
    unknown = np.isnan(costs)
    if not unknown.any():
        return check.array(owner, argument, value, shape, letters)
    check.array(owner, argument, np.where(unknown, 0.0, costs), shape, letters)
    return read_only(costs)


def checked_env_cost(owner: str, value: Any, shape: tuple[int, int]) -> Floats:
    """Check the costs of actions, (S, A), or (S,) if all actions cost the same; return (S, A), all NaN for None."""
    if value is None:
        value = np.full(shape, np.nan)
    if check.ndim(value) == 1:
        value = np.repeat(check.copied(owner, "env_cost", value, "(S,)")[:, None], shape[1], axis=1)
    return partly_known(owner, "env_cost", value, shape, "(S, A)")


def with_cost_at_ends(owner: str, env_cost: Floats, terminal: Sequence[int], *, endless: bool) -> Floats:
    """Return env_cost with one known cost in each terminal state, charged for each remaining step: 0 if it was unknown."""
    result = env_cost.copy()
    for s in terminal:
        if np.isnan(result[s]).all():
            result[s] = 0.0
        if np.isnan(result[s]).any() or (result[s] != result[s, 0]).any():
            check.fail(owner, f"env_cost[{s}]", check.show(result[s].tolist()), "the same for all actions: an episode ends there")
        if endless and result[s, 0] != 0.0:
            check.fail(owner, f"env_cost[{s}]", result[s, 0], "0 where an episode ends and there is no horizon; use enter_cost")
    return read_only(result)


def checked_ranges(owner: str, costs: Mapping[str, Floats | None], ranges: Mapping[str, Any]) -> dict[str, Range | None]:
    """Check the ranges of unknown costs; return them by argument, None where all costs are known.

    costs: by the names in `RANGES`. ranges: by argument; by default, that of actions.
    """
    given = {argument: checked_range(owner, argument, ranges[argument]) for argument in RANGES.values()}
    result: dict[str, Range | None] = {}
    for name, argument in RANGES.items():
        ends = given[argument] or given["cost_range"]
        result[argument] = ends if needs_range(owner, argument, ends, name, costs[name]) else None
    if result["enter_cost_range"] is not None:
        result["cost_range"] = given["cost_range"]
    return result


def needs_range(owner: str, argument: str, ends: Range | None, name: str, costs: Floats | None) -> bool:
    """Return whether some costs are unknown; if so, check that their range is given."""
    unknown = np.empty((0, 1)) if costs is None else np.argwhere(np.isnan(costs))
    if len(unknown) and ends is None:
        where = check.place_of(name, unknown[0])
        expected = f"given, as in (0, 1): the least and the most that a cost can be which is not known, as {where} is"
        check.fail(owner, argument, "missing", expected)
    return len(unknown) > 0


def checked_range(owner: str, argument: str, value: Any) -> Range | None:
    """Check the range of unknown costs, (least, most), and return it; None stays None."""
    if value is None:
        return None
    ends = list(value) if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1) else []
    if len(ends) != 2:  # a set of two is refused, too: it has no order
        check.fail(owner, argument, check.show(value), "two numbers, the least and the most that it can be")
    least, most = (check.number(owner, f"{argument}[{i}]", end) for i, end in enumerate(ends))
    if not least < most:
        check.fail(owner, argument, f"({least:g}, {most:g})", "in order: the least first, and less than the most")
    return least, most


def checked_terminal(owner: str, value: Any, n_states: int, names: Sequence[str] | None) -> tuple[int, ...]:
    """Check the terminal states, by index or by name, and return their indices in order."""
    unchecked = value.tolist() if isinstance(value, np.ndarray) else value
    known = numbers_by_name(names)
    states = {
        place_index(owner, f"terminal[{i}]", state, n_states, names, known)
        for i, state in enumerate(check.items(owner, "terminal", unchecked, "states"))
    }
    if len(states) == n_states:
        check.fail(owner, "terminal", "all states", "some of them: an episode must begin somewhere")
    return tuple(sorted(states))


def checked_enter_cost(owner: str, value: Any, n_states: int, names: Sequence[str] | None) -> Floats | None:
    """Check the costs of arriving, (S,), or by state as in {"lost": 2.0}, NaN if not known; return them, or None if all are 0."""
    if isinstance(value, Mapping):
        table, known = np.zeros(n_states), numbers_by_name(names)
        for state, cost in value.items():
            place = f"enter_cost[{state!r}]"
            at = place_index(owner, "a state of enter_cost", state, n_states, names, known)
            table[at] = amount(owner, place, cost)
        value = table
    if value is None:
        return None
    if check.ndim(value) == 0:
        value = np.full(n_states, check.number(owner, "enter_cost", value))
    result = partly_known(owner, "enter_cost", value, (n_states,), "(S,)")
    return None if not np.isnan(result).any() and not result.any() else result


def checked_control_cost(owner: str, value: Any, names: Sequence[str], n_states: int) -> Floats:
    """Check the costs of control: one number, (D,), (S, D), or by agent as in {"operator": 0.2}, NaN where they are not known;
    return (D,) or (S, D).
    """
    if isinstance(value, Mapping):
        for name in value:
            if name not in names:
                check.fail(owner, "an agent of control_cost", check.show(name), check.one_of(names, name))
        columns = [of_one_agent(owner, f"control_cost[{name!r}]", value.get(name, 0.0), n_states) for name in names]
        value = np.stack(np.broadcast_arrays(*columns), axis=-1)
    if check.ndim(value) == 0:
        value = np.full(len(names), amount(owner, "control_cost", value))
    if check.ndim(value) == 2:
        return partly_known(owner, "control_cost", value, (n_states, len(names)), "(S, D)")
    return partly_known(owner, "control_cost", value, (len(names),), "(D,)")


def of_one_agent(owner: str, place: str, cost: Any, n_states: int) -> Floats:
    """Check the cost of control of one agent, a number or (S,), and return it as an array, () or (S,)."""
    sides = (n_states,) if check.ndim(cost) else ()
    return partly_known(owner, place, np.atleast_1d(np.asarray(cost)), sides or (1,), "() or (S,)").reshape(sides)


def by_hand_over(owner: str, argument: str, value: Mapping[Any, Any], names: Sequence[str], others: Floats) -> Any:
    """Return costs that are given by hand-over, as in {("robot", "operator"): 0.3}: (D, D), or (S, D, D) if one is (S,).

    others: costs of the hand-overs that are not named, (D, D) or (S, D, D).
    """
    expected = "two agents, from whom and to whom, as in ('robot', 'operator')"
    costs: dict[tuple[int, int], Any] = {}
    for pair, cost in value.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            check.fail(owner, f"a hand-over of {argument}", check.show(pair), expected)
        prev, to = (name_index(owner, f"an agent of {argument}", agent, names) for agent in pair)
        where = (prev, to)
        if where in costs:
            check.fail(owner, f"{argument}[{check.show(pair)}]", "given twice", "given once, by names or by indices")
        place = f"{argument}[{check.show(pair)}]"
        if check.ndim(cost) == 1:
            costs[where] = check.copied(owner, place, cost, "() or (S,)")
        else:
            costs[where] = np.atleast_1d(check.scalar(owner, place, cost, "a number, infinity where it is not possible"))
    rows = {len(cost) for cost in costs.values()} - {1}
    if others.ndim == 3:
        rows |= {len(others)} - {1}
    if len(rows) > 1:
        check.fail(owner, f"the lengths of the costs in {argument}", sorted(rows), "the same: the number of states")
    table = np.empty((rows.pop() if rows else 1, len(names), len(names)))
    table[:] = others
    for where, cost in costs.items():
        table[:, *where] = cost
    return table[0] if len(table) == 1 else table


def checked_switch_cost(owner: str, value: Any, names: Sequence[str], n_states: int | None = None) -> Floats:
    """Check switching costs: one number, (D, D), (S, D, D), or by hand-over as in {("robot", "operator"): 0.3}; return an array.

    Infinity stands for an impossible hand-over, NaN for an unknown cost. names: of the agents. n_states: None if it is not known
    yet.
    """
    n_agents = len(names)
    if isinstance(value, Mapping):
        value = by_hand_over(owner, "switch_cost", value, names, np.zeros((n_agents, n_agents)))
    if check.ndim(value) == 0:
        value = np.where(np.eye(n_agents, dtype=np.bool_), 0.0, amount(owner, "switch_cost", value))
    return by_members(owner, "switch_cost", value, n_agents, n_states, "D")


def checked_can_switch(owner: str, value: Any, states: Sequence[Any] | None, agents: Sequence[str]) -> NDArray[np.bool_]:
    """Check can_switch, booleans (D, D) or (S, D, D), or a function of state, prev_agent and agent; return the booleans.

    states: the names, or else the numbers, of the states; None if they are not known yet, for booleans only.
    """
    n = len(agents)
    if callable(value) and states is not None:
        answers = [value(state, prev, agent) for state in states for prev in agents for agent in agents]
        for i, answer in enumerate(answers):
            if not isinstance(answer, bool | np.bool_):
                place = f"can_switch({states[i // n**2]!r}, {agents[i // n % n]!r}, {agents[i % n]!r})"
                check.fail(owner, place, check.show(answer), "True or False")
        return np.array(answers, dtype=np.bool_).reshape(len(states), n, n)
    allowed = np.asarray(check.unmasked(owner, "can_switch", value))
    if allowed.dtype != np.bool_:
        expected = "booleans (D, D) or (S, D, D), or a function (state, prev_agent, agent)"
        check.fail(owner, "can_switch", check.show(value), expected)
    sides = (n, n) if allowed.ndim != 3 else (len(allowed) if states is None else len(states), n, n)
    if allowed.shape != sides or not allowed.size:
        expected = f"(D, D) = {(n, n)}, or (S, D, D)" + ("" if states is None else f" = {(len(states), n, n)}")
        check.fail(owner, "the shape of can_switch", allowed.shape, expected)
    return read_only(allowed.copy())


def with_locks(switch_cost: Floats, allowed: NDArray[np.bool_]) -> Floats:
    """Return switch_cost, infinite where a hand-over is not allowed."""
    return read_only(np.where(allowed, switch_cost, np.inf))


def without_dead_ends(
    owner: str, switch_cost: Floats, agents: Sequence[str], states: Sequence[str] | None, terminal: Sequence[int]
) -> Floats:
    """Check that after each agent somebody may act in each state; return switch_cost. Where an episode ends nobody acts: there
    everybody may stay.
    """
    stuck: NDArray[np.bool_] = np.isinf(switch_cost).min(axis=-1)
    if not stuck.any():
        return switch_cost
    if stuck.ndim == 1:
        place = f"switch_cost[{int(stuck.argmax())}]"
        check.fail(owner, place, "infinite for all agents", "finite for at least one: an agent is in control")
    ends = np.isin(np.arange(len(stuck)), terminal)
    if stuck[~ends].any():
        s, prev = np.argwhere(stuck & ~ends[:, None])[0].tolist()
        place = f"switch_cost in state {named_or_numbers(states, len(stuck))[s]!r} after {agents[prev]!r}"
        check.fail(owner, place, "infinite for all agents", "finite for at least one: an agent is in control (can_switch)")
    result = switch_cost.copy()
    where, prev = np.nonzero(stuck)
    result[where, prev, prev] = 0.0
    return read_only(result)


def named_or_numbers(names: Sequence[str] | None, n: int) -> Sequence[Any]:
    """Return names, or the numbers 0 to n - 1 if there are none."""
    return tuple(range(n)) if names is None else names


def checked_grab_cost(
    owner: str, value: Any, names: Sequence[str], prices: Floats, n_states: int | None, barred: bool
) -> Floats | None:
    """Check grab_cost, the costs of impossible hand-overs that happen: None, one number, (M, M), (S, M, M), or by hand-over; return
    an array or None. NaN, only where switch_cost is NaN in some state: learned as that.

    names: of the members. prices: costs of the pairs that are not named, from switch_cost. n_states: None if it is not known yet.
    barred: whether some hand-overs are impossible, so that grab_cost is of use.
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        if value and not barred:
            expected = "left out where every hand-over is possible at once: it costs what switch_cost says"
            check.fail(owner, f"grab_cost[{check.show(next(iter(value)))}]", "given", expected)
        value = by_hand_over(owner, "grab_cost", value, names, prices)
    if check.ndim(value) == 0:
        each, own = check.number(owner, "grab_cost", value), np.eye(len(names), dtype=np.bool_)
        value = np.where(own, prices, each)  # a member that has control, or is getting it, takes it from no other
    result = by_members(owner, "grab_cost", value, len(names), n_states, "M")
    check_sizes_of_costs(owner, {"grab_cost": result})
    wrong = np.isnan(result) & ~np.isnan(prices).reshape(-1, len(names), len(names)).any(axis=0)
    if wrong.any():
        where = np.argwhere(wrong)[0]
        expected = "a number, or infinity: only what switch_cost does not say is learned"
        check.fail(owner, check.place_of("grab_cost", where), np.nan, expected)
    return result


def by_members(owner: str, argument: str, value: Any, n: int, n_states: int | None, letter: str) -> Floats:
    """Check an array of costs of hand-overs, (n, n) or (S, n, n), finite, infinite or NaN, and return it read-only.

    letter: stands for n in errors.
    """
    pair = f"{letter}, {letter}"
    costs = check.copied(owner, argument, value, f"({pair}) or (S, {pair})")
    barred = costs == np.inf
    shape, letters = ((n, n), f"({pair})") if costs.ndim != 3 else ((n_states, n, n), f"(S, {pair})")
    finite = check.array(owner, argument, np.where(barred | np.isnan(costs), 0.0, costs), shape, letters)
    return read_only(costs) if barred.any() or np.isnan(costs).any() else finite


def checked_periods(owner: str, value: Any, horizon: int | None) -> Ints | None:
    """Check the index of the environment table of each time step, (L,); return the indices, or None if there is only one table."""
    if value is None:
        return None
    if horizon is None:
        check.fail(owner, "periods", check.show(value), "left out without a horizon: there is no time of an episode")
    periods = check.integers(owner, "periods", value, 1)
    if periods.shape != (horizon,) or not periods.size:
        check.fail(owner, "the shape of periods", periods.shape, f"(L,) = ({horizon},), one for each time step")
    if periods.min() < 0 or not np.array_equal(np.unique(periods), np.arange(periods.max() + 1)):
        check.fail(owner, "periods", check.show(periods.tolist()), "numbers 0, 1, ... of which none is left out")
    return None if periods.max() == 0 else read_only(periods)


def check_sizes_of_costs(owner: str, costs: Mapping[str, Any]) -> None:
    """Check that no cost is too large, and that the largest is not too small to be squared."""
    largest = 0.0
    for name, value in costs.items():
        array = np.asarray(0.0 if value is None else value, dtype=np.float64)
        largest = max(largest, float(np.abs(array[np.isfinite(array)]).max(initial=0.0)))
        if largest > MOST_COST:
            check.fail(owner, f"the largest {name}", largest, f"at most {MOST_COST:g} in size")
    if 0.0 < largest < LEAST_COST:
        check.fail(owner, "the largest cost", largest, f"0, or at least {LEAST_COST:g} in size: use a smaller unit")
