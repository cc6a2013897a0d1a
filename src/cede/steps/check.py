"""The validator of steps from outside: indices, terminal states, the link to the previous step, the declared structure, costs.

Learners, logs, Episodes and the service call `check_steps`. All counting trusts its result.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cede._base import check
from cede.problem.costs import RANGES
from cede.problem.names import in_kind
from cede.problem.structure import Structure
from cede.problem.task import CHARGES, NOT_GIVEN, Task
from cede.steps.step import WHERE, WHO, Episode, Step, Steps, wrong_links

SAME_COST = 1e-6  # tolerance between a measured and a known cost, relative or, near 0, absolute: float32 rounding
PLACES = ("state", "prev_agent", "agent", "action", "next_state")
IN_EPISODES = {"cost": "env_costs"}  # other fields: with an s
Place = Callable[[str, int], str]  # how errors name a field of step i


def plain(name: str, i: int) -> str:
    """Name a field of the only step."""
    return name


def in_column(name: str, i: int) -> str:
    """Name an element of a column."""
    return f"{name}[{i}]"


def in_episode(name: str, i: int) -> str:
    """Name an element of an array of an `Episode`."""
    return f"states[{i + 1}]" if name == "next_state" else f"{IN_EPISODES.get(name, name + 's')}[{i}]"


def observed_step(
    owner: str,
    task: Task,
    structure: Structure | None,
    t: int,
    values: Iterable[Any],
    last: Step | None,
    costs: Sequence[Any],
    moved: Any,
) -> Step:
    """Check one step of a loop, and return it in indices, with all costs.

    t: already checked. values: state, prev_agent, agent, action and next_state, by index or name. last: the previous step of the
    same episode or run, None for the first. costs: what was charged, in the order of CHARGES; NOT_GIVEN if left out; None if an
    unknown cost of the environment arrives later, and is NaN, or one of the team is left out. moved: whether the system was moved
    since the last step.
    """
    given = dict(zip(PLACES, values, strict=True))
    state, to = task.state_index(owner, "state", given["state"]), task.state_index(owner, "next_state", given["next_state"])
    prev, agent = task.agent_index(owner, "prev_agent", given["prev_agent"]), task.agent_index(owner, "agent", given["agent"])
    action, moved = task.action_index(owner, "action", given["action"]), check.truth(owner, "moved", moved)
    told = [value is not None and value is not NOT_GIVEN for value in costs]
    amounts = [check.number(owner, CHARGES[i], value) if told[i] else np.nan for i, value in enumerate(costs)]
    step = Step(t, state, prev, agent, action, to, amounts[0], amounts[1], None, moved, None, amounts[2], amounts[3])
    if task.terminal:
        check_goes_on(owner, task, step, plain, given)
    if last is not None:
        check_links(owner, task, last, step, True, plain, given)
    if structure is not None:
        check_outcomes(owner, structure, step, plain)
    late = [name for name, cost in zip(CHARGES[:2], costs, strict=False) if cost is None]
    found = [float(cost) for cost in charged(owner, task, step, plain, measured=any(told), awaited=late).values()]
    return Step(t, state, prev, agent, action, to, found[0], found[1], None, moved, None, *found[2:])


def check_choice(owner: str, task: Task, state: Any, prev_agent: Any) -> tuple[int, int]:
    """Check the arguments of a choice, a state and a previous agent by index or name; return both as indices."""
    at, prev = task.state_index(owner, "state", state), task.agent_index(owner, "prev_agent", prev_agent)
    if task.terminal and task.is_terminal[at]:
        check_goes_on(owner, task, Step(0, at, prev, prev, 0, at, 0.0), plain, {"state": state})
    return at, prev


def check_steps(
    owner: str,
    task: Task,
    steps: Steps,
    *,
    structure: Structure | None = None,
    place: Place = in_column,
    linked: bool = True,
    measured: bool = True,
) -> Steps:
    """Check steps, and return them with all costs.

    structure: as declared, or None. place: how errors name a field of a step. linked: whether they are one episode, in order; a
    step at time t + 1 must then continue the step at time t. measured: whether measured costs must equal the known costs of the
    task. Those of Episodes need not: `rollout` draws random costs, and the task holds their means.
    """
    check_sizes(owner, task, steps, place)
    check_goes_on(owner, task, steps, place)
    if linked:
        before, after = steps.part(slice(0, -1)), steps.part(slice(1, None))
        check_links(owner, task, before, after, after.t == before.t + 1, lambda name, i: place(name, i + 1))
    check_outcomes(owner, structure, steps, place)
    return replace(steps, **charged(owner, task, steps, place, measured=measured))


def checked_episode(owner: str, task: Task, given: Any, structure: Structure | None = None) -> Steps:
    """Check that an Episode fits a task and a declared structure, and return its steps with all costs."""
    episode = check.instance(owner, "episode", given, Episode)
    if task.horizon is not None and len(episode.actions) > task.horizon:
        check.fail(owner, "the number of steps of the episode", len(episode.actions), f"at most {task.horizon}, the horizon")
    steps = check_steps(owner, task, episode.steps, structure=structure, place=in_episode, measured=False)
    return steps if task.horizon is not None else replace(steps, t=np.zeros_like(steps.t))


def check_sizes(owner: str, task: Task, steps: Steps, place: Place) -> None:
    """Check that states, agents and actions are those of the task."""
    sizes = {"state": task.n_states, "next_state": task.n_states, "action": task.n_actions}
    for name in PLACES:
        values, size = getattr(steps, name), sizes.get(name, task.n_agents)
        if (i := first((values >= size) | (values < 0))) is not None:
            check.fail(owner, place(name, i), int(values[i]), f"an integer from 0 to {size - 1}")


def check_goes_on(owner: str, task: Task, steps: Any, place: Place, given: Mapping[str, Any] | None = None) -> None:
    """Check that no step begins in a terminal state. given: as for `check_links`."""
    if task.terminal and (i := first(task.is_terminal[steps.state])) is not None:
        check.fail(owner, place("state", i), shown("state", steps, i, given), "one in which an episode goes on: it ends there")


def check_links(
    owner: str, task: Task, before: Any, after: Any, linked: Any, place: Place, given: Mapping[str, Any] | None = None
) -> None:
    """Check that steps continue the previous steps (`wrong_links`), and that no step follows a terminal state.

    before, after: single steps, or the columns of n pairs. linked: whether they follow one another directly, (n,). given: the
    user's values of the single step, by field, as errors show them.
    """
    wrong_agent, wrong_state = wrong_links(before, after)
    if (i := first(wrong_agent & linked)) is not None:
        who = wanted(before.agent, i, task.agents, "prev_agent", given)
        check.fail(owner, place("prev_agent", i), shown("prev_agent", after, i, given), f"{who}, {WHO}")
    if task.terminal and (i := first(task.is_terminal[before.next_state] & linked)) is not None:
        where = wanted(before.next_state, i, task.state_names or (), "state", given)
        step = "this episode" if given is not None else f"the episode of {place('state', i)}"
        check.fail(owner, step, f"over since state {where}", "ended first (end_episode)")
    if (i := first(wrong_state & linked)) is not None:
        where = wanted(before.next_state, i, task.state_names or (), "state", given)
        check.fail(owner, place("state", i), shown("state", after, i, given), f"{where}, {WHERE}; moved=True if it was moved since")


def first(wrong: Any) -> int | None:
    """Return the index of the first wrong step, None if all are right. wrong: (n,), or a scalar for a single step."""
    if isinstance(wrong, bool | np.bool_):  # quicker
        return 0 if wrong else None
    return int(np.argmax(wrong)) if wrong.any() else None


def shown(name: str, steps: Any, i: int, given: Mapping[str, Any] | None) -> str:
    """Return how an error shows a field of step i: as the user gave it, else its index."""
    return check.show(np.atleast_1d(getattr(steps, name))[i] if given is None else given[name])


def wanted(indices: Any, i: int, names: Any, name: str, given: Mapping[str, Any] | None) -> str:
    """Return how an error shows the index that it expects for step i: by name, if the field was given by name."""
    index = int(np.atleast_1d(indices)[i])
    return check.show(index if given is None else in_kind(index, names, given[name]))


def check_outcomes(owner: str, structure: Structure | None, steps: Any, place: Place) -> None:
    """Check that the declared structure allows every next state. steps: a Step, or columns."""
    if structure is None or structure.environment is None or not np.size(steps.state):
        return
    outcomes = structure.environment
    state, action, to = (np.atleast_1d(column) for column in (steps.state, steps.action, steps.next_state))
    possible = (outcomes.to[outcomes.row[state, action]] == to[:, None]).any(axis=1)
    if (i := first(~possible)) is not None:
        known = outcomes.states_from(int(state[i]), int(action[i]))
        after = f"after state {state[i]} and action {action[i]}"
        allowed = f"one of {check.show(known)}: the declared structure knows no other {after}"
        check.fail(owner, place("next_state", i), int(to[i]), allowed)


def charged(
    owner: str,
    task: Task,
    steps: Any,
    place: Place = in_column,
    *,
    measured: bool = False,
    awaited: Collection[str] = (),
) -> dict[str, Any]:
    """Check what was charged in a Step or columns; return the costs by name: of the environment, and of the team if some of these
    are learned.

    A known cost is taken from the task; an unknown cost is that of the step, which must lie in the range of the task. measured:
    whether a measured cost must equal the known cost of the task. awaited: names of unknown costs that may be missing, NaN.
    """
    arriving = 0.0 * steps.next_state if task.enter_cost is None else task.enter_cost[steps.next_state]
    stated_costs: list[Any] = [task.env_cost[steps.state, steps.action], arriving]
    if task.learns_team_costs or (measured and any(is_given(getattr(steps, name)) for name in CHARGES[2:])):
        stated_costs += task.control_costs(steps.state, steps.prev_agent, steps.agent)
    result = {}
    for name, field, stated_cost in zip(CHARGES, RANGES, stated_costs, strict=False):
        cost, ends = getattr(steps, name), getattr(task, RANGES[field])
        cost = np.nan if cost is None else cost
        if measured and (i := first(abs(cost - stated_cost) > SAME_COST * (1.0 + abs(stated_cost)))) is not None:  # never for NaN
            stated = f"{np.atleast_1d(stated_cost)[i]:g}, as {entry(name, steps, i)} of the task says, or left out"
            article = "an" if name == "enter_cost" else "a"
            expected = f"{stated}; a cost that is measured is declared unknown: NaN there and {article} {RANGES[field]}"
            check.fail(owner, place(name, i), float(np.atleast_1d(cost)[i]), expected)
        unknown = stated_cost != stated_cost  # noqa: PLR0124 (NaN)
        result[name] = stated_cost
        if first(unknown) is None:
            continue
        if name not in awaited and (i := first(unknown & np.isnan(cost))) is not None:
            check.fail(owner, place(name, i), "missing", f"given: the task does not say what {entry(name, steps, i)} is")
        if (i := first(unknown & ((cost < ends[0]) | (cost > ends[1])))) is not None:
            allowed = f"from {ends[0]:g} to {ends[1]:g}, the {RANGES[field]} of the task"
            check.fail(owner, place(name, i), float(np.atleast_1d(cost)[i]), allowed)
        result[name] = np.where(unknown, cost, stated_cost)
    return {name: result[name] for name in task.charges}


def is_given(cost: Any) -> bool:
    """Return whether a cost of a Step, or a column, is given."""
    return cost is not None and not (isinstance(cost, float) and np.isnan(cost))


def entry(name: str, steps: Any, i: int) -> str:
    """Return the name of the entry of the task that holds a cost of step i."""
    columns = (steps.state, steps.prev_agent, steps.agent, steps.action, steps.next_state)
    state, prev, agent, action, to = (int(np.atleast_1d(column)[i]) for column in columns)
    entries = {"cost": f"env_cost[{state}, {action}]", "enter_cost": f"enter_cost[{to}]", "control_cost": f"control_cost[{agent}]"}
    return entries.get(name, f"switch_cost[{prev}, {agent}]")
