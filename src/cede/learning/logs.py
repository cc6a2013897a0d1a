"""Reads logs: steps of any past controller, as columns or as Episodes, checked and split into episodes."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede.learning.counts import Episode, Step, Tally, charged, check_known_costs, checked_episode, steps_of
from cede.learning.record import Record, check_fits
from cede.problem.task import Task

NEEDED = ("state", "agent", "action", "next_state")
OPTIONAL = ("episode", "t", "prev_agent", "cost", "enter_cost", "moved")


class LoggedSteps(NamedTuple):
    """The steps of one logged episode, (n,) each, in the order of the arguments of `Tally.add`."""

    times: Ints
    states: Ints
    prev_agents: Ints
    agents: Ints
    actions: Ints
    next_states: Ints
    costs: Floats  # what the environment charged for the action, and for arriving
    enter_costs: Floats


def read_log(owner: str, task: Task, log: Any) -> list[LoggedSteps]:
    """Check a log, and return its steps episode by episode.

    log: columns state, agent, action and next_state, with one row for each step in the order in which they happened, as a mapping
    of arrays, a data frame or a structured array; or Episodes; or a Record, of which all that its learner counted is taken. Agents,
    and states and actions if the task names them, may be given by name.

    Further columns are optional. episode: which steps belong together; without it a new episode begins wherever t does not
    increase. t: the time step; without it steps are numbered from 0 in each episode. prev_agent: who was in control before; without
    it this is the agent of the step before, and at t = 0 the start agent of the task. cost, enter_cost: what the environment
    charged for the action, and for arriving; needed where the task does not say it. moved: True in a step before which the system
    was moved, so that it does not begin where the step before led.
    """
    if isinstance(log, Record):
        return steps_of_record(owner, task, log)
    if isinstance(log, Episode):
        log = [log]
    if isinstance(log, Iterable) and not isinstance(log, str | Mapping | np.ndarray) and not hasattr(log, "columns"):
        parts = check.items(owner, "log", log, "columns by name, or Episodes")
        return [steps_of_episode(owner, task, i, part) for i, part in enumerate(parts)]
    columns = columns_of(owner, log)
    names = {"state": task.state_names, "next_state": task.state_names, "action": task.action_names}
    longest = task.horizon or np.iinfo(np.int64).max
    sizes = {"state": task.n_states, "next_state": task.n_states, "action": task.n_actions, "t": longest}
    found: dict[str, Ints] = {}
    for name in (*NEEDED, "t", "prev_agent"):
        if name in columns:
            known = task.agents if "agent" in name else names.get(name)
            found[name] = numbers(owner, name, columns[name], known, sizes.get(name, task.n_agents))
    measured: dict[str, Floats] = {}
    for name in ("cost", "enter_cost"):
        if name in columns:
            measured[name] = amounts(owner, name, columns[name])
    if "moved" in columns:
        found["moved"] = truths(owner, "moved", columns["moved"])
    others = [*measured.items(), *((n, columns[n]) for n in ("episode",) if n in columns)]
    lengths = {name: len(column) for name, column in [*found.items(), *others]}
    if len(set(lengths.values())) > 1:
        check.fail(owner, "the number of rows of the columns", lengths, "the same for all")
    ends = [*beginnings(owner, columns.get("episode"), found.get("t"), lengths["state"]), lengths["state"]]
    return [one_episode(owner, task, found, measured, begin, end) for begin, end in pairwise(ends)]


def columns_of(owner: str, log: Any) -> dict[str, Any]:
    """Return the columns of a log that are used, by name, as (steps,) arrays."""
    if isinstance(log, Mapping):
        there = list(log)
    elif isinstance(log, np.ndarray) and log.dtype.names:
        there = list(log.dtype.names)
    elif hasattr(log, "columns"):
        there = list(log.columns)
    else:
        expected = "columns by name (a mapping of arrays, a data frame, a structured array), or Episodes, or a Record"
        expected += ": read the file with cede.read_record" if isinstance(log, str | PathLike) else ""
        check.fail(owner, "log", check.show(log), expected)
    for name in NEEDED:
        if name not in there:
            check.fail(owner, f"the column {name!r} of log", "missing", f"there: it has {check.show(there)}")
    columns = {name: check.unmasked(owner, f"column {name!r}", log[name]) for name in (*NEEDED, *OPTIONAL) if name in there}
    for name, column in columns.items():
        if column is None or column.ndim != 1:
            check.fail(owner, f"the shape of column {name!r}", "ragged" if column is None else column.shape, "(steps,)")
    return columns


def numbers(owner: str, name: str, column: Any, known: Any, size: int) -> Ints:
    """Return a column as int64 indices from 0 to size - 1. Names are looked up.

    name: of the column, for errors. known: the names in order; None if there are none.
    """
    if not column.size:
        return np.empty(0, dtype=np.int64)
    if column.dtype.kind in "OUST":
        column = looked_up(owner, name, column, known, size)
    if column.dtype.kind == "f":  # data frames turn integers into floats if some are missing
        whole = np.isfinite(column) & (column == np.round(column)) & (column >= 0) & (column < size)
        if not whole.all():
            i = int(np.argmin(whole))
            check.fail(owner, f"{name}[{i}]", column[i], f"an integer from 0 to {size - 1}")
        column = column.astype(np.int64)
    if column.dtype.kind not in "iu":
        check.fail(owner, f"the type of column {name!r}", column.dtype, "an integer type")
    bad = (column < 0) | (column >= size)
    if bad.any():
        i = int(np.argmax(bad))
        check.fail(owner, f"{name}[{i}]", int(column[i]), f"an integer from 0 to {size - 1}")
    result: Ints = column.astype(np.int64)
    return result


def looked_up(owner: str, name: str, column: Any, known: Any, size: int) -> Any:
    """Return the number of each name in a column of names and numbers. Missing values are found here, too."""
    index = {text: i for i, text in enumerate(known or ())}
    twice = {text for text in known or () if list(known).count(text) > 1} if len(index) < len(known or ()) else set()
    result = []
    for i, value in enumerate(column.tolist()):
        number = index.get(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int | float | np.integer | np.floating):
            expected = f"an integer from 0 to {size - 1}" if known is None else check.one_of(known, value)
            check.fail(owner, f"{name}[{i}]", check.show(value), expected)
        if isinstance(value, str) and value in twice:
            check.fail(owner, f"{name}[{i}]", check.show(value), "a name that only one has; give the number")
        result.append(number)
    return np.array(result)


def beginnings(owner: str, episode: Any, t: Ints | None, n: int) -> list[int]:
    """Return the first row of each episode.

    episode: the column of that name, or None. t: the times, or None. n: the number of rows.
    """
    if n == 0:
        return []
    if episode is not None:
        for i, value in enumerate(episode.tolist()):
            if check.is_missing(value):
                check.fail(owner, f"episode[{i}]", check.show(value), "there: which episode the step belongs to")
        changes = [0, *(i for i in range(1, n) if episode[i] != episode[i - 1])]
        met: dict[Any, int] = {}
        for i in changes:
            value = episode[i].item() if isinstance(episode[i], np.generic) else episode[i]
            try:
                before = met.setdefault(value, i)
            except TypeError:
                check.fail(owner, f"episode[{i}]", check.show(value), "a number or a name")
            if before != i:
                check.fail(owner, f"episode[{i}]", repr(episode[i]), f"another one: that of row {before} has ended already")
        return changes
    if t is None:
        check.fail(owner, "log", "without 'episode' and 't'", "a log with one of them, to tell where an episode begins")
    return [0, *(i for i in range(1, n) if t[i] <= t[i - 1])]


def amounts(owner: str, name: str, column: Any) -> Floats:
    """Return a column of costs as floats, NaN where nothing is given."""
    if column.dtype.kind == "O":
        column = np.array(
            [np.nan if check.is_missing(one) else check.number(owner, f"{name}[{i}]", one) for i, one in enumerate(column.tolist())]
        )
    if column.dtype.kind not in "fiu":
        check.fail(owner, f"the type of column {name!r}", column.dtype, "a real number type")
    result: Floats = column.astype(np.float64)
    return result


def steps_of_record(owner: str, task: Task, record: Record) -> list[LoggedSteps]:
    """Return the steps of all episodes of a record that its learner counted, as it counted them, also those without steps."""
    check_fits(owner, record, task)
    found = {name: record.columns[name] for name in (*NEEDED, "t", "prev_agent")}
    measured = {name: record.columns[name] for name in ("cost", "enter_cost")}
    if task.horizon is not None and len(record) and found["t"].max() >= task.horizon:
        check.fail(owner, "t of the record", int(found["t"].max()), f"below {task.horizon}, the horizon")
    empty = np.empty(0, dtype=np.int64)
    result = []
    for rows in record.counted_episodes():
        if rows.stop > rows.start:
            result.append(one_episode(owner, task, found, measured, rows.start, rows.stop, jumps=True))
        elif task.horizon is not None:
            result.append(LoggedSteps(*(empty,) * 6, np.empty(0), np.empty(0)))
    return result


def truths(owner: str, name: str, column: Any) -> Ints:
    """Return a column of truth values as 0 and 1."""
    for i, value in enumerate(column.tolist() if column.dtype.kind != "b" else ()):
        if not isinstance(value, bool):
            check.fail(owner, f"{name}[{i}]", check.show(value), "True or False")
    result: Ints = column.astype(np.int64)
    return result


def one_episode(
    owner: str,
    task: Task,
    found: Mapping[str, Ints],
    measured: Mapping[str, Floats],
    begin: int,
    end: int,
    *,
    jumps: bool = False,
) -> LoggedSteps:
    """Check the rows from begin to end, which are one episode, and return its steps.

    found: all columns as numbers, by name. measured: those of costs. jumps: whether a step may begin in another state than that in
    which the one before ended, as `Learner.observe` lets it.
    """
    part = {name: column[begin:end] for name, column in found.items()}
    n = end - begin
    if task.horizon is not None and n > task.horizon:
        check.fail(owner, f"the number of steps of the episode from row {begin} on", n, f"at most {task.horizon}")
    times = part.get("t", np.arange(n))
    for i in range(1, n):
        if times[i] <= times[i - 1]:
            check.fail(owner, f"t[{begin + i}]", int(times[i]), f"more than {times[i - 1]}, that of the step before")
    follows = np.concatenate([[False], times[1:] == times[:-1] + 1])
    if task.terminal and task.is_terminal[part["state"]].any():
        i = int(np.argmax(task.is_terminal[part["state"]]))
        check.fail(owner, f"state[{begin + i}]", int(part["state"][i]), "one in which an episode goes on: it ends there")
    torn = follows & (part["state"] != np.concatenate([[-1], part["next_state"][:-1]])) & (part.get("moved", 0) == 0)
    if torn.any() and not jumps:
        i = int(np.argmax(torn))
        expected = f"{part['next_state'][i - 1]}, where the step before led, or the column 'moved' True there"
        check.fail(owner, f"state[{begin + i}]", int(part["state"][i]), expected)
    before = np.concatenate([[int(task.start_agent)], part["agent"][:-1]])
    known = follows | (times == 0)
    if "prev_agent" not in part:
        if not known.all():
            i = int(np.argmin(known))
            place = f"the column 'prev_agent', for row {begin + i}"
            check.fail(owner, place, "missing", "there where the step before is not logged")
        prevs = before
    else:
        prevs = part["prev_agent"]
        wrong = follows & (prevs != before)
        if wrong.any():
            i = int(np.argmax(wrong))
            check.fail(owner, f"prev_agent[{begin + i}]", int(prevs[i]), f"{before[i]}, who acted in the step before")
    steps = (part["state"], prevs.astype(np.int64), part["agent"], part["action"], part["next_state"])
    cost, enter_cost = (None if name not in measured else measured[name][begin:end] for name in ("cost", "enter_cost"))
    place = f"[{{i}}] from row {begin} on"
    moves = (part["state"], part["action"], part["next_state"])
    check_known_costs(owner, task, *moves, (cost, enter_cost), place)
    costs = charged(owner, task, *moves, (cost, enter_cost), place)
    times = times if task.horizon is not None else np.zeros_like(times)
    return LoggedSteps(times.astype(np.int64), *steps, *costs)


def steps_of_episode(owner: str, task: Task, number: int, episode: Any) -> LoggedSteps:
    """Return the steps of an Episode, after checks. number: its place in the log, for errors."""
    check.instance(owner, f"log[{number}]", episode, Episode, "; or give columns by name")
    return all_steps(owner, task, checked_episode(owner, task, episode))


def all_steps(owner: str, task: Task, episode: Episode) -> LoggedSteps:
    """Return the steps of an Episode that was checked, with what the environment charged in each."""
    times, states, prevs, agents, actions, nexts = steps_of(episode)
    costs = charged(owner, task, states, actions, nexts, (episode.env_costs, episode.enter_costs))
    times = times if task.horizon is not None else np.zeros_like(times)
    return LoggedSteps(times, states, prevs, agents, actions, nexts, *costs)


def as_rows(steps: LoggedSteps) -> tuple[list[Step], list[tuple[float, float]]]:
    """Return steps one by one: t, state, prev_agent, agent, action and next_state of each, and what was charged in each."""
    rows = list(zip(*(part.tolist() for part in steps[:6]), strict=True))
    return rows, list(zip(steps.costs.tolist(), steps.enter_costs.tolist(), strict=True))


def count_steps(tally: Tally, steps: LoggedSteps) -> None:
    """Count steps."""
    where = (steps.times, steps.states, steps.prev_agents, steps.agents, steps.actions, steps.next_states)
    tally.add(*where, costs=steps.costs, enter_costs=steps.enter_costs)
