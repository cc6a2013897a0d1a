"""Reads logs: steps of any past controller, as columns, as Episodes or as a Record, checked and split into episodes."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from os import PathLike
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede.problem.names import numbers_by_name
from cede.problem.structure import Structure
from cede.problem.task import CHARGES, Task
from cede.steps.check import check_steps, checked_episode
from cede.steps.record import Record, header_of
from cede.steps.recorded import LATER, Entry, entries_of_columns
from cede.steps.step import Bools, Episode, Steps

NEEDED = ("state", "agent", "action", "next_state")
OPTIONAL = ("episode", "t", "prev_agent", *CHARGES, "moved", "session")


def read_log(owner: str, task: Task, log: Any, structure: Structure | None = None) -> list[Steps]:
    """Check a log, and return its steps episode by episode.

    log: columns state, agent, action and next_state, with one row for each step in the order in which they happened, as a mapping
    of arrays, a data frame or a structured array; or Episodes; or a Record, of which all counted episodes are taken. Agents, and
    states and actions if the task names them, may be given by name. structure: as declared, or None.

    Further columns are optional. episode: which steps belong together; without it a new episode begins wherever t does not
    increase. t: the time step; without it steps are numbered from 0 in each episode. prev_agent: the agent in control before;
    without it, the agent of the previous step, and at t = 0 the start agent of the task. cost, enter_cost: charged by the
    environment for the action, and for arriving; needed where the task does not know it. control_cost, switch_cost: the same for
    the control of the agent, and for the hand-over to it. moved: True if the system was moved before the step, so that the step
    does not begin in the next_state of the previous one. session: the name of the session of each step, of several at once: its
    rows are in order, `episode` and `t` are those of the session, and episodes are counted in the order in which they end.
    """
    if isinstance(log, Record):
        return steps_of_record(owner, task, log, structure)
    if isinstance(log, Episode):
        log = [log]
    if isinstance(log, Iterable) and not isinstance(log, str | Mapping | np.ndarray) and not hasattr(log, "columns"):
        episodes = check.items(owner, "log", log, "columns by name, or Episodes")
        for i, episode in enumerate(episodes):
            check.instance(owner, f"log[{i}]", episode, Episode, "; or give columns by name")
        return [checked_episode(owner, task, episode, structure) for episode in episodes]
    columns = columns_of(owner, log)
    names = {"state": task.state_names, "next_state": task.state_names, "action": task.action_names}
    longest = task.horizon or np.iinfo(np.int64).max
    sizes = {"state": task.n_states, "next_state": task.n_states, "action": task.n_actions, "t": longest}
    values: dict[str, Any] = {}
    for name in (*NEEDED, "t", "prev_agent"):
        if name in columns:
            known = task.agents if "agent" in name else names.get(name)
            values[name] = numbers(owner, name, columns[name], known, sizes.get(name, task.n_agents))
    for name, read in (*((name, amounts) for name in CHARGES), ("moved", truths), ("session", texts)):
        if name in columns:
            values[name] = read(owner, name, columns[name])
    lengths = {name: len(column) for name, column in {**columns, **values}.items()}
    if len(set(lengths.values())) > 1:
        check.fail(owner, "the number of rows of the columns", lengths, "the same for all")
    n, parts = lengths["state"], []
    for rows in rows_of_sessions(values.pop("session", None), n):
        own = {name: column[rows] for name, column in values.items()}
        given = columns["episode"][rows] if "episode" in columns else None
        ends = [*beginnings(owner, given, own.get("t"), rows), len(rows)]
        for begin, end in pairwise(ends):
            parts += in_order(task, one_episode(owner, task, own, begin, end, structure, rows), rows[begin:end])
    return [steps for _, steps in sorted(parts, key=itemgetter(0))]


def rows_of_sessions(session: Any, n: int) -> list[Ints]:
    """Return the rows of each session of a log, in order. session: (n,) names, None where there is none; or None."""
    if session is None or not n:
        return [np.arange(n)]
    _, number = np.unique(np.array(["" if name is None else name for name in session]), return_inverse=True)
    order = np.argsort(number, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1)


def in_order(task: Task, steps: Steps, rows: Ints) -> list[tuple[int, Steps]]:
    """Return an episode with the row of its last step, by which episodes are counted; without a horizon, where each step is counted
    at once, its parts between steps of other sessions. rows: (n,) of its steps in the log.
    """
    if task.horizon is not None:
        return [(int(rows[-1]), steps)]
    ends = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
    return [(int(rows[a]), steps.part(slice(a, b))) for a, b in pairwise(ends)]


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
    if column.dtype.kind not in "fiu":
        check.fail(owner, f"the type of column {name!r}", column.dtype, "an integer type")
    good = (column >= 0) & (column < size) & (column == np.floor(column))  # data frames with missing values hold floats
    if not good.all():
        i = int(np.argmin(good))
        check.fail(owner, f"{name}[{i}]", check.show(column[i]), f"an integer from 0 to {size - 1}")
    result: Ints = column.astype(np.int64)
    return result


def looked_up(owner: str, name: str, column: Any, known: Any, size: int) -> Any:
    """Return the number of each name in a column of names and numbers. Missing values are an error."""
    index, result = numbers_by_name(known), []
    for i, value in enumerate(column.tolist()):
        number = index.get(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int | float | np.integer | np.floating):
            expected = f"an integer from 0 to {size - 1}" if known is None else check.one_of(known, value)
            check.fail(owner, f"{name}[{i}]", check.show(value), expected)
        if isinstance(value, str) and number < 0:
            check.fail(owner, f"{name}[{i}]", check.show(value), "a name that only one has; give the number")
        result.append(number)
    return np.array(result)


def beginnings(owner: str, episode: Any, t: Ints | None, rows: Ints) -> list[int]:
    """Return the first row of each episode.

    episode: the column of that name, or None. t: the times, or None. rows: the row of each in the whole log, for errors.
    """
    if not len(rows):
        return []
    if episode is not None:
        values = episode.tolist()
        first: dict[Any, int] = {}  # the first row of each episode
        for i, value in enumerate(values):
            if check.is_missing(value):
                check.fail(owner, f"episode[{rows[i]}]", check.show(value), "there: which episode the step belongs to")
            if i and value == values[i - 1]:
                continue
            try:
                before = first.setdefault(value, i)
            except TypeError:
                check.fail(owner, f"episode[{rows[i]}]", check.show(value), "a number or a name")
            if before != i:
                check.fail(
                    owner, f"episode[{rows[i]}]", repr(episode[i]), f"another one: that of row {rows[before]} has ended already"
                )
        return list(first.values())
    if t is None:
        check.fail(owner, "log", "without 'episode' and 't'", "a log with one of them, to tell where an episode begins")
    return [0, *(i for i in range(1, len(rows)) if t[i] <= t[i - 1])]


def amounts(owner: str, name: str, column: Any) -> Floats:
    """Return a column of costs as floats, NaN where nothing is given."""
    if column.dtype.kind == "O":
        values = enumerate(column.tolist())
        column = np.array([np.nan if check.is_missing(cost) else check.number(owner, f"{name}[{i}]", cost) for i, cost in values])
    if column.dtype.kind not in "fiu":
        check.fail(owner, f"the type of column {name!r}", column.dtype, "a real number type")
    result: Floats = column.astype(np.float64)
    return result


def truths(owner: str, name: str, column: Any) -> Bools:
    """Return a column of truth values."""
    for i, value in enumerate(column.tolist() if column.dtype.kind != "b" else ()):
        if not isinstance(value, bool):
            check.fail(owner, f"{name}[{i}]", check.show(value), "True or False")
    result: Bools = column.astype(np.bool_)
    return result


def texts(owner: str, name: str, column: Any) -> Any:
    """Return a column of names, None where nothing is given."""
    values = enumerate(column.tolist())
    names = [None if check.is_missing(value) else check.name(owner, f"{name}[{i}]", value) for i, value in values]
    return np.array(names, dtype=object)


def steps_of_record(owner: str, task: Task, record: Record, structure: Structure | None) -> list[Steps]:
    """Return the steps of all counted episodes of a record, also of those without steps."""
    check_fits(owner, record, task)
    columns = {name: record.columns[name] for name in (*NEEDED, "t", "prev_agent", "cost", "enter_cost")}
    columns |= {name: record.columns[name] for name in CHARGES[2:] if name in record.columns}
    columns |= {"chosen": record.columns["asked"], "moved": np.ones(len(record), dtype=np.bool_)}  # as `Learner.observe` let it be
    if task.horizon is not None and len(record) and columns["t"].max() >= task.horizon:
        check.fail(owner, "t of the record", int(columns["t"].max()), f"below {task.horizon}, the horizon")
    parts = [(rows.start, rows.stop) for _, rows in record.counted_episodes()]
    return [
        one_episode(owner, task, columns, begin, end, structure) for begin, end in parts if end > begin or task.horizon is not None
    ]


def one_episode(
    owner: str,
    task: Task,
    columns: Mapping[str, Any],
    begin: int,
    end: int,
    structure: Structure | None = None,
    rows: Ints | None = None,
) -> Steps:
    """Check the rows from begin to end, which are one episode, and return its steps. columns: all columns as numbers, by name.

    rows: the row of each in the whole log, for errors; None: they are those of the columns.
    """
    part, n = {name: column[begin:end] for name, column in columns.items()}, end - begin
    shown = np.arange(begin, end) if rows is None else rows[begin:end]
    if task.horizon is not None and n > task.horizon:
        check.fail(owner, f"the number of steps of the episode from row {shown[0]} on", n, f"at most {task.horizon}")
    times = part.setdefault("t", np.arange(n))
    if (late := np.diff(times) <= 0).any():
        i = int(np.argmax(late)) + 1
        check.fail(owner, f"t[{shown[i]}]", int(times[i]), f"more than {times[i - 1]}, that of the step before")
    if "prev_agent" not in part:
        known = np.concatenate([[False], times[1:] == times[:-1] + 1])[:n] | (times == 0)
        if not known.all():
            place = f"the column 'prev_agent', for row {shown[int(np.argmin(known))]}"
            check.fail(owner, place, "missing", "there where the step before is not logged")
        part["prev_agent"] = np.concatenate([[int(task.start_agent)], part["agent"]])[:n]
    for name in ("cost", "enter_cost"):
        part.setdefault(name, np.full(n, np.nan))
    steps = check_steps(owner, task, Steps(**part), structure=structure, place=lambda name, i: f"{name}[{shown[i]}]")
    return steps if task.horizon is not None else replace(steps, t=np.zeros_like(times))


def check_fits(owner: str, record: Record, task: Task) -> None:
    """Check that a record is of a task with the same sizes and agents. A record without lines fits all tasks."""
    wanted = header_of(task)
    for name in ("n_states", "n_actions", "horizon", "agents") if record.runs else ():
        if record.header[name] != wanted[name]:
            got = check.show(record.header[name])
            check.fail(owner, f"{name} of the record", got, f"{check.show(wanted[name])}, as of the task")


def new_entries(owner: str, log: Any, learner: Any, *, again: bool) -> list[Entry] | None:
    """Return the place in a record of each episode of a log, in order; None if the log is not from a record.

    Check that the learner has not counted any of it, unless `again`.
    """
    entries, has_horizon = log.entries() if isinstance(log, Record) else entries_of_columns(log), learner.task.horizon is not None
    if entries is None or again:
        return entries
    if isinstance(log, Record):
        done = log.done_by(owner, learner)
        n = int((done & log.ended).sum() if has_horizon else done.sum())
    else:
        n = sum(int(learner.recorded.has(entry.run, places := np.arange(*entry[1:]), places + LATER).sum()) for entry in entries)
    if n:
        place = f"the number of {'episodes' if has_horizon else 'steps'} of the record that the learner may have counted already"
        expected = "0: give record.after(learner), the rest of it; or say again=True if they are to count once more"
        check.fail(owner, place, n, expected)
    return entries
