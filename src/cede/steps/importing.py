"""Imports logs of other systems: columns by other names, interleaved sessions, rows that cannot be used.

The rows that can be used become a log for `learn_from` and `estimate`; each of the others is listed with the reason.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Ints
from cede._base.columns import columns_by_name, object_array, read_columns, save_columns
from cede._base.progress import Progress
from cede._base.reprs import plural, short_repr
from cede.problem.structure import Structure
from cede.problem.task import Task
from cede.steps.check import check_steps
from cede.steps.log import NEEDED, OPTIONAL, numbers
from cede.steps.recorded import PLACE, RUN
from cede.steps.step import WHERE, WHO, Steps

OWNER = "import_log"
INDICES = ("state", "agent", "action", "next_state", "prev_agent", "t")
AMOUNTS = ("cost", "enter_cost")
TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}
NAMES = tuple(name for name in (*NEEDED, *OPTIONAL) if name not in ("episode", "session"))
STATED = "of the task says, or left out"  # in errors of costs
MOST_AT_ONCE, LEAST_AT_ONCE = 500, 8  # rows that are checked together: fewer where many are refused
WHOLE = re.compile(r"[+-]?\d+")


class RefusedRow(NamedTuple):
    """A row of a log that cannot be used."""

    row: int  # from 0, in the order of the source
    session: str
    column: str
    reason: str  # "state is 'x', must be one of 'runs', 'stuck'"

    @property
    def kind(self) -> str:
        """Return the reason without the values of this row."""
        expected = self.reason.partition(", must be ")[2] or self.reason
        for varies, always in (
            (WHO, f"the agent {WHO}"),
            (WHERE, f"the state {WHERE}"),
            (STATED, "what the task says, or left out"),
        ):
            expected = always if varies in expected else expected
        return f"{self.column} must be {expected}"


@dataclass(frozen=True, eq=False, repr=False)
class ImportedLog:
    """A log of another system, checked row by row. `learn_from` and `estimate` take it like any other log.

    str() of it says how many rows were used and refused, and why.
    """

    columns: Mapping[
        str, Any
    ]  # of the n steps that can be used, (n,) each, as `learn_from` reads them; `row` is that in the source
    refused: tuple[RefusedRow, ...]  # the other rows, in the order of the source
    source: Mapping[str, Any]  # the columns of the source

    def __getitem__(self, name: str) -> Any:
        """Return a column by name."""
        return self.columns[name]

    def __len__(self) -> int:
        """Return the number of steps that can be used."""
        return len(self.columns["row"])

    @property
    def sessions(self) -> int:
        """Return the number of sessions with steps that can be used."""
        return len(np.unique(self.columns["episode"]))

    @property
    def reasons(self) -> dict[str, int]:
        """Return how many rows were refused for each kind of reason, the most frequent first."""
        return dict(Counter(refused.kind for refused in self.refused).most_common())

    def save_refused(self, path: str | Path) -> Path:
        """Write the refused rows, with all columns of the source and two more, `row` and `why`, to a file; return its path.

        path: .csv, .jsonl or .parquet (needs the extra `data`).
        """
        rows = [refused.row for refused in self.refused]
        columns: dict[str, Any] = {"row": rows, "why": [refused.reason for refused in self.refused]}
        columns |= {name: as_texts(np.asarray(column)[rows]) for name, column in self.source.items() if name not in columns}
        return save_columns("save_refused", path, columns)

    def __str__(self) -> str:
        lines = [self._used]
        lines += [f"{count:>9,}  {check.printable(kind)}" for kind, count in self.reasons.items()]
        return "\n".join(lines)

    @property
    def _used(self) -> str:
        rows, refused = len(self) + len(self.refused), len(self.refused)
        kept = f"{len(self):,} of {plural(rows, 'row')} can be used, in {plural(self.sessions, 'session')}"
        return f"{kept}; {plural(refused, 'row')} refused" + (":" if refused else "")

    def __repr__(self) -> str:
        return short_repr(self, lambda: (self._used.rstrip(":"),))


def import_log(
    source: Any,
    task: Task,
    columns: Mapping[str, Any] | None = None,
    *,
    session: str | None = None,
    order: str | None = None,
    names: Mapping[str, Mapping[Any, Any]] | None = None,
    end_state: Any = None,
    structure: Structure | None = None,
    progress: bool | Callable[[int], None] = True,
) -> ImportedLog:
    """Read the log of another system, with a row for each step, and say which rows cannot be used, and why.

    source: a file (.csv, .csv.gz, .jsonl, or .parquet, which needs the extra `data`), a data frame, an Arrow table or a mapping of
    columns. task: as of the learner. States, agents and actions may be names or indices.

    columns: what the columns are called in the source, as in {"agent": "model", "state": "kind"}; those called as here can be left
    out. Needed are state, agent and action. state may be an encoder (`cede.encode`), which then reads its columns. Optional:
    next_state (else the state of the session's next row), prev_agent (else the agent of the row before, and at the start the start
    agent), t (else the place in the session), cost and enter_cost (needed where the task does not know them), moved.

    session: the column that says which rows belong together: an episode, or a stretch of a run without horizon. LogRows of several
    sessions may be mixed. Without it all rows are one session. order: a column, such as a time, by which the rows of a session are
    sorted; without it they stay in the order of the source.

    names: other names for values, by column, as in {"agent": {"gpt-4": "large model"}}. end_state: the state after the last row of
    a session, where there is no next_state; without it that row is refused. structure: as declared for the learner.

    A refused row leaves a gap in its session: the rows after it are used as long as it is known who acted before.
    """
    check.instance(OWNER, "task", task, Task)
    progress = check.progress(OWNER, progress)
    table = table_of(source)
    wanted = wanted_columns(table, columns, session, order)
    n = len(next(iter(table.values()), ()))
    renamed = check.mapping(OWNER, "names", names, "other names of values, by column")
    for name, others in renamed.items():
        check.choice(OWNER, "a name in names", name, NAMES)
        check.mapping(OWNER, f"names[{check.show(name)}]", others, "a mapping from values of the log to names")
    end = None if end_state is None else task.state_index(OWNER, "end_state", end_state)
    rows = LogRows(task, n, structure)
    for name, where in wanted.items():
        rows.read(name, where if hasattr(where, "states") else table[where], table, renamed.get(name, {}))
    rows.sort(None if session is None else table[session], None if order is None else table[order])
    rows.link(end, "next_state" in wanted, "prev_agent" in wanted, "t" in wanted)
    with Progress(OWNER, n, progress) as bar:
        rows.check(bar.advance)
    return rows.result(table)


def table_of(source: Any) -> dict[str, Any]:
    """Return the columns of a source by name, after a check of their lengths."""
    if isinstance(source, str | Path):
        table = read_columns(OWNER, "source", source)
    else:
        expected = "a file, a data frame, an Arrow table or a mapping of columns"
        table = columns_by_name(OWNER, "source", source, expected)
    table = {name: as_column(name, column) for name, column in table.items()}
    lengths = {name: len(column) for name, column in table.items()}
    if len(set(lengths.values())) > 1:
        check.fail(OWNER, "the number of rows of the columns", check.show(lengths), "the same for all")
    return table


def as_column(name: str, column: Any) -> Any:
    """Return a column as an array of objects."""
    array = check.unmasked(OWNER, f"column {name!r}", column)
    if array is None or array.ndim != 1:
        check.fail(OWNER, f"the shape of column {name!r}", "ragged" if array is None else array.shape, "(rows,)")
    values = list(array) if array.dtype.kind in "mM" else array.tolist()
    return object_array(values)


def as_texts(column: Any) -> list[Any]:
    """Return values as numbers and texts that a file can hold."""
    return [value if isinstance(value, str | int | float | None) else str(value) for value in column.tolist()]


def wanted_columns(table: Mapping[str, Any], columns: Any, session: Any, order: Any) -> dict[str, Any]:
    """Check the names of columns; return where each column that is used comes from: a name in the source, or an encoder."""
    given, there = check.mapping(OWNER, "columns", columns, "the names of columns in the log, by what they are"), list(table)
    for name, where in given.items():
        check.choice(OWNER, "a name in columns", name, NAMES)
        if name == "state" and callable(getattr(where, "states", None)):
            for read in where.inputs:
                if read not in table:
                    check.fail(OWNER, f"the column {read!r}, which the encoder reads,", "missing", f"there: the log has {there}")
        elif not isinstance(where, str) or where not in table:
            check.fail(OWNER, f"columns[{name!r}]", check.show(where), check.one_of(there, where))
    for argument, where in (("session", session), ("order", order)):
        if where is not None and (not isinstance(where, str) or where not in table):
            check.fail(OWNER, argument, check.show(where), check.one_of(there, where))
    wanted = {name: given.get(name, name) for name in NAMES if name in given or name in table}
    for name in NEEDED[:3]:
        if name not in wanted:
            expected = f"there: the log has {check.show(there)}; say which it is: columns={{{name!r}: ...}}"
            check.fail(OWNER, f"the column {name!r}", "missing", expected)
    return wanted


class LogRows:
    """The rows of a log while they are checked: columns in the order of the source, then by session."""

    def __init__(self, task: Task, n: int, structure: Structure | None) -> None:
        self.task, self.n, self.structure = task, n, structure
        self.columns: dict[str, Any] = {}
        self.reasons: dict[int, tuple[str, str]] = {}  # of the refused rows: column and reason
        self.order: Ints = np.arange(n)
        self.session: Ints = np.zeros(n, dtype=np.int64)
        self.times: Ints = np.arange(n)
        self.keys: list[str] = [""]  # names of the sessions
        self.accepted: list[int] = []  # rows in the new order that can be used

    def refuse(self, row: int, column: str, reason: str) -> None:
        """Refuse a row, unless it was refused before. reason: the text of an error."""
        text = reason.removeprefix(f"{OWNER}: ").replace(f"{column}[0]", column, 1)
        self.reasons.setdefault(int(row), (column, text))

    def read(self, name: str, column: Any, table: Mapping[str, Any], renamed: Mapping[Any, Any]) -> None:
        """Read a column as indices or numbers; rows with wrong values are refused. column: values, or an encoder of the state."""
        if hasattr(column, "states"):
            values: list[Any] = list(zip(*(table[read].tolist() for read in column.inputs), strict=True))
            parse: Callable[[Any], Any] = encoded_by(column)
        else:
            values = column.tolist()
            parse = self.parser(name)
        dtype = np.float64 if name in AMOUNTS else np.bool_ if name == "moved" else np.int64
        result: Any = np.full(self.n, np.nan if name in AMOUNTS else 0, dtype=dtype)
        known: dict[Any, Any] = {}
        for row, raw in enumerate(values):
            try:
                value = renamed.get(raw, raw) if renamed else raw
                key = (type(value), value)
                if key not in known:
                    known[key] = self.parsed(name, value, parse)
                number = known[key]
            except TypeError:  # it cannot be hashed
                number = f"{OWNER}: {name} is {check.show(raw)}, must be a number or a name"
            if isinstance(number, str):
                self.refuse(row, name, number)
            else:
                result[row] = number
        self.columns[name] = result

    def parsed(self, name: str, value: Any, parse: Callable[[Any], Any]) -> Any:
        """Return a value as a number, or the text of the error."""
        if isinstance(value, str) and not value.strip():
            value = None
        try:
            if not isinstance(value, tuple) and check.is_missing(value):
                if name in (*AMOUNTS, "moved"):
                    return np.nan if name in AMOUNTS else False
                check.fail(OWNER, name, "missing", "there")
            return parse(value)
        except ValueError as error:
            return str(error)

    def parser(self, name: str) -> Callable[[Any], Any]:
        """Return the function that reads a value of a column, and fails with the reason."""
        task = self.task
        if name in AMOUNTS:
            return lambda value: check.number(OWNER, name, as_number(value))
        if name == "moved":
            return truth_of
        if "agent" in name:
            known, size = task.agents, task.n_agents
        elif name == "t":
            known, size = None, task.horizon or np.iinfo(np.int64).max
        else:
            known = task.action_names if name == "action" else task.state_names
            size = task.n_actions if name == "action" else task.n_states

        def index(value: Any) -> int:
            if isinstance(value, str) and (known is None or value not in known) and WHOLE.fullmatch(value.strip()):
                value = int(value)
            return int(numbers(OWNER, name, object_array([value]), known, size)[0])

        return index

    def sort(self, session: Any, order: Any) -> None:
        """Sort the rows by session, in the order of their first rows, and within a session by the values of `order`."""
        if session is not None:
            numbers_of: dict[Any, int] = {}
            keys = ["" if check.is_missing(value) else str(value) for value in session.tolist()]
            for row, key in enumerate(keys):
                if not key:
                    self.refuse(row, "session", f"{OWNER}: session is missing, must be there")
                self.session[row] = numbers_of.setdefault(key, len(numbers_of))
            self.keys = list(numbers_of)
        places = np.arange(self.n) if order is None else self.ranks(order)
        self.order = np.lexsort((places, self.session))

    def ranks(self, order: Any) -> Ints:
        """Return the place of each row by the values of a column, numbers or texts. LogRows without one are refused."""
        values = [as_number(value) for value in order.tolist()]
        for row, value in enumerate(values):
            if check.is_missing(value) or value == "":
                self.refuse(row, "order", f"{OWNER}: order is missing, must be there")
        there = [row for row in range(self.n) if row not in self.reasons or self.reasons[row][0] != "order"]
        try:
            ranked = sorted(there, key=values.__getitem__)
        except TypeError as error:
            check.fail(OWNER, "the values of order", "of several types", f"all numbers, all times or all texts ({error})")
        result: Ints = np.full(self.n, self.n)
        result[ranked] = np.arange(len(ranked))
        return result

    def link(self, end_state: int | None, has_next: bool, has_prev: bool, has_t: bool) -> None:
        """Put all columns in the order of the sessions; fill in times, next states and previous agents from neighbouring rows."""
        order, session, task = self.order, self.session[self.order], self.task
        columns = {name: column[order] for name, column in self.columns.items()}
        is_first = session != before(session, -1)
        if not has_t:
            begins = np.flatnonzero(is_first)
            columns["t"] = np.arange(self.n) - np.repeat(begins, np.diff(np.r_[begins, self.n]))
        times = columns["t"]
        wrong = {name: self.is_refused_for(name)[order] for name in ("state", "agent", "t")}
        follows = ~is_first & (times == before(times, -2) + 1) & ~wrong["t"] & ~before(wrong["t"], False)
        if not has_next:
            is_last, led = after(is_first, True), after(follows, False) & ~after(wrong["state"], False)
            end = 0 if end_state is None else end_state
            columns["next_state"] = np.where(led, after(columns["state"], 0), end)
            unknown = {"the last row of its session: give end_state": is_last & (end_state is None)}
            unknown["the next row does not say it"] = ~is_last & ~led
            self.refuse_all("next_state", unknown)
        if not has_prev:
            is_start = times == 0
            columns["prev_agent"] = np.where(is_start, int(task.start_agent), before(columns["agent"], 0))
            unknown = {"the row before does not say who acted": ~is_start & (~follows | before(wrong["agent"], False))}
            self.refuse_all("prev_agent", unknown)
        latest = -1
        for i, t in enumerate(times.tolist() if has_t else ()):
            latest = -1 if is_first[i] else latest
            if t <= latest and not wrong["t"][i]:
                self.refuse(order[i], "t", f"{OWNER}: t is {t}, must be more than that of the row before")
            latest = max(t, latest)
        for late in np.flatnonzero(times >= (task.horizon or np.iinfo(np.int64).max)):
            self.refuse(order[late], "t", f"{OWNER}: t is {times[late]}, must be below {task.horizon}, the horizon")
        for name in AMOUNTS:
            columns.setdefault(name, np.full(self.n, np.nan))
        columns.setdefault("moved", np.zeros(self.n, dtype=np.bool_))
        self.columns, self.session = columns, session

    def is_refused_for(self, column: str) -> NDArray[np.bool_]:
        """Return the rows of the source that were refused because of a column, (n,)."""
        result = np.zeros(self.n, dtype=np.bool_)
        result[[row for row, (why, _) in self.reasons.items() if why == column]] = True
        return result

    def refuse_all(self, column: str, unknown: Mapping[str, NDArray[np.bool_]]) -> None:
        """Refuse sorted rows in which a column could not be filled in. unknown: which, by the reason."""
        for why, rows in unknown.items():
            for i in np.flatnonzero(rows):
                self.refuse(self.order[i], column, f"{OWNER}: {column} is missing, must be there: {why}")

    def check(self, advance: Callable[[int], None]) -> None:
        """Check all rows that are left as steps of their sessions; refuse those that fail. advance: called with rows done."""
        left, begin, size = [i for i in range(self.n) if int(self.order[i]) not in self.reasons], 0, MOST_AT_ONCE
        times, session = self.columns["t"][left], self.session[left]
        since = np.where(session == before(session, -1), times - before(times, 0), 2)
        self.times[left] = np.cumsum(since)  # as the times of a session; those of two sessions are apart
        while begin < len(left):
            last = self.accepted[-1:]  # the step before, which the next one must continue
            rows, begin = last + left[begin : begin + size], begin + size
            size = min(MOST_AT_ONCE, 2 * size)
            while (wrong := self.first_wrong(rows)) is not None:
                i, column, reason = wrong
                self.refuse(self.order[rows.pop(i)], column, reason)
                size = max(LEAST_AT_ONCE, size // 4)
            self.accepted += rows[len(last) :]
            advance(len(rows) - len(last))

    def first_wrong(self, rows: list[int]) -> tuple[int, str, str] | None:
        """Check sorted rows as steps; return the place in `rows` of the first that fails, its column and the reason, or None."""
        met: list[tuple[str, int]] = []

        def place(name: str, i: int) -> str:
            met.append((name, i))
            return name

        part = {name: column[rows] for name, column in self.columns.items()}
        steps = Steps(**{**part, "t": self.times[rows]})
        try:
            check_steps(OWNER, self.task, steps, structure=self.structure, place=place)
        except ValueError as error:
            if not met:
                raise
            return met[-1][1], met[-1][0], str(error)
        return None

    def result(self, table: Mapping[str, Any]) -> ImportedLog:
        """Return the checked log."""
        kept = np.array(self.accepted, dtype=np.int64)
        columns: dict[str, Any] = {name: column[kept] for name, column in self.columns.items()}
        columns["episode"], columns["row"] = self.session[kept], self.order[kept]
        columns["session"] = np.array([self.keys[s] or None for s in self.session[kept]], dtype=object)
        columns |= places_of(columns, self.task)
        session_of = np.empty(self.n, dtype=np.int64)
        session_of[self.order] = self.session
        refused = [RefusedRow(row, self.keys[session_of[row]], *self.reasons[row]) for row in sorted(self.reasons)]
        return ImportedLog(columns, tuple(refused), table)


def places_of(columns: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Return columns by which a learner recognises a log that it has counted: a name made of the steps, and places in it."""
    digest = sha256()
    for name in (*INDICES, *AMOUNTS, "episode"):
        digest.update(np.ascontiguousarray(columns[name]).tobytes())
    n, run = len(columns["t"]), f"{digest.hexdigest()[:32]}/import"
    places = columns["episode"] if task.horizon is not None else np.arange(n)
    return {RUN: np.array([run] * n, dtype=object), PLACE: places}


def before(column: Any, fill: Any) -> Any:
    """Return the value in the row before, for each row. fill: for the first."""
    return np.r_[fill, column[:-1]][: len(column)].astype(column.dtype)


def after(column: Any, fill: Any) -> Any:
    """Return the value in the row after, for each row. fill: for the last."""
    return np.r_[column[1:], fill][: len(column)].astype(column.dtype)


def as_number(value: Any) -> Any:
    """Return a text that is a number as that number; other values as they are."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def truth_of(value: Any) -> bool:
    """Return a truth value from True, False, 1, 0, or their usual texts."""
    known = TRUTHS.get(value.strip().lower()) if isinstance(value, str) else value
    if known not in (True, False):
        check.fail(OWNER, "moved", check.show(value), "True or False")
    return bool(known)


def encoded_by(encoder: Any) -> Callable[[Any], int]:
    """Return the function that encodes the values of a row. Texts are read as numbers where the encoder reads numbers."""

    def state(values: tuple[Any, ...]) -> int:
        row = zip(encoder.inputs, values, encoder.categories, strict=True)
        return int(encoder({name: number_in(value) if names is None else value for name, value, names in row}))

    return state


def number_in(value: Any) -> Any:
    """Return a text as the number or the truth value that it says; other values as they are."""
    number = as_number(value)
    if not isinstance(number, str):
        return number
    return TRUTHS.get(number.strip().lower(), number) if number.strip() else None
