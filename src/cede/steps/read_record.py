"""Reads records, JSON lines or Parquet, and checks them before anything in them is used."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.archive import RECORD, UnreadableFile, mode_of
from cede._base.columns import read_parquet
from cede.problem.task import Task
from cede.steps.record import IF_THERE, SCHEMA, Record, header_of, is_json

INTEGERS = ("episode", "t", "state", "prev_agent", "asked", "agent", "action", "next_state", "planned")
FLOATS = ("time", "cost", "enter_cost", "step_cost", "control_cost", "switch_cost")
LEFT_OUT = {"unpriced": False, **IF_THERE}  # values that are not written in a line
ADDED = ("run", "number", "learner_episode")  # to the line of a step when it is read
ORDER = ("time", *INTEGERS, *FLOATS[1:4], "reason", *LEFT_OUT)
OF_EPISODES: dict[str, Any] = {"ended": np.bool_, "dropped": np.bool_, "run_of": np.int64, "place": np.int64}  # see `Record`
LONGEST = 60  # of a reason
CHUNK = 20_000  # steps that are held as text at once


def is_record(path: Path) -> bool:
    """Return whether a file begins as a record does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(RECORD)) == RECORD


def read_record(path: str | Path) -> Record:
    """Read a record that `Learner.record_to` wrote, also while it is still being written, or one that `Record.save` converted.

    path: of JSON lines, or of a Parquet file (needs the extra `data`). An incomplete last line, as a kill may leave it, is left out
    (`Record.torn`). Any other defect is raised as `UnreadableFile`.
    """
    where = check.path("read_record", "path", path)
    if where.is_dir():
        raise UnreadableFile(f"{where}: is a directory, must be a record of cede")
    if mode_of(where) is None:
        raise FileNotFoundError(2, "No such file or directory", str(where))
    try:
        return from_parquet(where) if where.suffix == ".parquet" else from_lines(where)
    except (ImportError, UnreadableFile, OSError):
        raise
    except Exception as error:  # a file from outside may be wrong in any way
        raise UnreadableFile(f"{where}: cannot be read, must be a record of cede ({check.show(error)})") from error


class Lines:
    """Collects the lines of a record: steps as columns, and where episodes begin and end."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self.header, self.has_horizon = header, header["horizon"] is not None
        self.runs: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []  # steps that are not in `parts` yet
        self.parts: list[dict[str, NDArray[Any]]] = []
        self.next_step = 1  # without horizon: the learner's number of the next step
        self.ended: list[bool] = []  # of each episode
        self.dropped: list[bool] = []
        self.run_of: list[int] = []
        self.place: list[int] = []  # of each episode in its run; without a horizon of each step
        self.next_place = 0
        self.gaps = 0
        self.changes: list[tuple[int, str]] = []
        self.elsewhere = 0  # episodes that the learner had counted outside of the record
        self.inside: dict[str | None, int] = {}  # by session: its running episode
        self.last: list[int] = []  # of each episode: its last line
        self.taken = 0  # lines

    def take(self, line: Any) -> None:
        """Take the next line."""
        if not isinstance(line, dict):
            raise ValueError("a line is no object")
        kind, session = line.get("event"), line.get("session")
        self.taken += 1
        if kind is None:
            self.take_step(line, session)
        elif kind == "end":
            if session not in self.inside:  # an episode without steps
                self.begin(session)
            self.ended[self.inside[session]], self.last[self.inside.pop(session)] = True, self.taken
        elif kind == "drop":
            if session in self.inside:
                self.dropped[self.inside[session]], self.last[self.inside.pop(session)] = True, self.taken
        elif kind == "run":
            self.runs.append(line)
            self.inside, self.next_place = {}, 0
            about = line.get("about")
            first = about.get("episode", 1) if isinstance(about, dict) else 1
            self.next_step = check.integer("record", "episode of a run", first, 1)
            if line.get("counted") is not None:
                elsewhere = self.next_step - 1 - check.integer("record", "the number of episodes counted", line["counted"], 0)
                self.gaps += elsewhere > self.elsewhere
                self.elsewhere = elsewhere
        elif kind == "gap":
            self.gaps += 1
            self.next_step = check.integer("record", "the episode after a gap", line["found"], 1)
            self.elsewhere += self.next_step - check.integer("record", "the episode before a gap", line["expected"], 1)
        elif kind == "changed":
            episode = check.integer("record", "the episode of a change", line["episode"], 1)
            self.changes.append((episode, check.choice("record", "an agent that changed", line["agent"], self.header["members"])))
        else:
            raise ValueError(f"event {check.show(kind)} is not known")

    def take_step(self, line: dict[str, Any], session: str | None) -> None:
        """Take the line of a step. session: whose it is."""
        if not self.runs:
            raise ValueError("a step comes before the first run")
        if session not in self.inside or line["t"] == 0:
            self.begin(session)
        self.last[self.inside[session]] = self.taken
        if not self.has_horizon:
            self.take_place()
        own = line["episode"] if self.has_horizon else self.next_step
        self.steps.append(line | {"run": len(self.runs) - 1, "number": self.inside[session], "learner_episode": own})
        self.next_step += 1
        if len(self.steps) == CHUNK:
            self.pack()

    def begin(self, session: str | None) -> None:
        """Begin an episode of a session."""
        self.inside[session] = len(self.ended)
        self.ended.append(False)
        self.dropped.append(False)
        self.run_of.append(len(self.runs) - 1)
        self.last.append(self.taken)
        if self.has_horizon:
            self.take_place()

    def take_place(self) -> None:
        """Take the next place of the run."""
        self.place.append(self.next_place)
        self.next_place += 1

    def pack(self) -> None:
        """Turn the steps read since the last call into columns."""
        needed = {name: [step[name] for step in self.steps] for name in (*ORDER, *ADDED) if name not in LEFT_OUT}
        optional = {name: [step.get(name, usual) for step in self.steps] for name, usual in LEFT_OUT.items()}
        for name in INTEGERS:
            if not all(type(value) is int for value in needed[name]):
                raise ValueError(f"a {name} is no integer")
        for name in FLOATS[:4]:
            needed[name] = [np.nan if value is None else value for value in needed[name]]
        optional["unpriced"] = [check.truth("record", "unpriced", value) for value in optional["unpriced"]]
        self.parts.append({name: typed(name, values) for name, values in (needed | optional).items()})
        self.steps = []


def typed(name: str, values: Any) -> NDArray[Any]:
    """Return the values of a column as an array. Reasons and sessions are names; a session may be None."""
    if name in ("reason", "session"):
        texts, longest = list(values), LONGEST if name == "reason" else None
        none = {None: None} if name == "session" else {}
        known = none | {text: check.name("record", name, text)[:longest] for text in set(texts) - set(none)}
        return np.array([known[text] for text in texts], dtype=object)
    return np.asarray(values, dtype=np.int64 if name in (*INTEGERS, *ADDED) else np.float64 if name in FLOATS else np.bool_)


def from_lines(path: Path) -> Record:
    """Read a record from JSON lines."""
    with path.open("rb") as file:
        first = file.readline()
        if not first.endswith(b"\n") and (first.startswith(RECORD) or RECORD.startswith(first)):
            return made(path, Lines(header_of_nothing()), len(first))
        if not first.startswith(RECORD):
            raise UnreadableFile(f"{path}: is another file, must be a record of cede")
        lines, damaged, torn = Lines(checked_header(json.loads(first))), 0, 0
        for i, text in enumerate(file, 2):
            if not text.strip():
                continue
            if damaged:
                raise UnreadableFile(f"{path}: line {damaged} cannot be read, must be as it was written; it is damaged")
            if text.endswith(b"\n") and is_json(text):
                lines.take(json.loads(text))
            else:  # left out if it is the last one
                damaged, torn = i, len(text)
    return made(path, lines, torn)


def made(path: Path, lines: Lines, torn: int) -> Record:
    """Return the record of all lines of a file, after checks."""
    lines.pack()
    columns = {name: np.concatenate([part[name] for part in lines.parts]) for name in (*ORDER, *ADDED)}
    number, learner_episode = columns.pop("number"), columns.pop("learner_episode")
    more: dict[str, Any] = {name: np.array(getattr(lines, name), dtype=kind) for name, kind in OF_EPISODES.items()}
    if lines.has_horizon:  # episodes of sessions at once: in the order in which they ended, each with its steps together
        order = np.argsort(np.array(lines.last, dtype=np.int64), kind="stable")
        number = np.argsort(order, kind="stable")[number]
        rows = np.argsort(number, kind="stable")
        columns = {name: column[rows] for name, column in columns.items()}
        number, learner_episode = number[rows], learner_episode[rows]
        more = {name: values[order] for name, values in more.items()}
    more |= {"gaps": lines.gaps, "torn": torn, "changes": tuple(lines.changes)}
    return checked(Record(path, lines.header, tuple(lines.runs), columns, number, learner_episode, **more))


def from_parquet(path: Path) -> Record:
    """Read a record from a Parquet file."""
    header, table = read_parquet(path)
    about = header["record"]
    columns = {name: typed(name, table[name]) for name in (*ORDER, "run") if name in table or name not in IF_THERE}
    number, learner_episode = (np.asarray(table[name], dtype=np.int64) for name in ("number", "learner_episode"))
    more: dict[str, Any] = {name: np.array(about[name], dtype=kind).reshape(-1) for name, kind in OF_EPISODES.items()}
    more |= {name: check.integer("record", name, about[name], 0) for name in ("gaps", "torn")}
    more["changes"] = tuple((check.integer("record", "changes", k, 1), str(name)) for k, name in about.get("changes", ()))
    runs = tuple(check.mapping("record", "a run", run, "a line") for run in about["runs"])
    return checked(Record(path, checked_header(about["header"]), runs, columns, number, learner_episode, **more))


def checked(record: Record) -> Record:
    """Check that all columns fit together and lie within the sizes in the header; return the record, read-only."""
    header, columns, n = record.header, dict(record.columns), len(record.number)
    for name, nothing in IF_THERE.items():
        if name in columns and all(value is None if nothing is None else np.isnan(value) for value in columns[name]):
            del columns[name]
    sizes = {"state": header["n_states"], "next_state": header["n_states"], "action": header["n_actions"]}
    sizes |= dict.fromkeys(("agent", "prev_agent", "asked"), len(header["agents"]))
    for name, column in columns.items():
        if column.shape != (n,):
            check.fail("record", f"the length of {name}", column.shape, str((n,)))
        if name in sizes and n and not (-(name == "asked") <= column.min() and column.max() < sizes[name]):
            check.fail("record", name, f"{column.min()} to {column.max()}", f"from 0 to {sizes[name] - 1}")
        column.setflags(write=False)
    episodes = len(record.ended)
    whole = record.dropped.shape == (episodes,) and (not n or (record.number.min() >= 0 and record.number.max() < episodes))
    whole = whole and record.learner_episode.shape == (n,) and record.run_of.shape == (episodes,)
    whole = whole and record.place.shape == ((n,) if header["horizon"] is None else (episodes,))
    for runs in (record.run_of, columns["run"]):
        whole = whole and (not runs.size or (runs.min() >= 0 and runs.max() < len(record.runs)))
    if not whole or (header["horizon"] is not None and (np.diff(record.number) < 0).any()):
        check.fail("record", "the numbers of the episodes", "others", "ascending, within the episodes that there are")
    return replace(record, columns=columns)


def header_of_nothing() -> dict[str, Any]:
    """Return a header for a file whose own header is incomplete: the task is unknown."""
    return header_of(Task(env_cost=[[0.0]], agents=["nobody"], horizon=1))


def checked_header(header: Any) -> dict[str, Any]:
    """Check the first line of a record, and return it."""
    check.integer("record", "schema", header["schema"], SCHEMA, SCHEMA)
    for name in ("n_states", "n_actions"):
        check.integer("record", name, header[name], 1)
    if header["horizon"] is not None:
        check.integer("record", "horizon", header["horizon"], 1)
    agents, members = (check.names("record", name, header[name], len(header[name])) or () for name in ("agents", "members"))
    for name in ("acting", "aim"):
        values = check.integers("record", name, header[name], 1)
        if len(values) != len(agents) or not agents or values.min() < 0 or values.max() >= len(members):
            check.fail("record", name, check.show(header[name]), "a member for each agent")
    for name, size in (("state_names", "n_states"), ("action_names", "n_actions")):
        check.names("record", name, header[name], header[size])
    return dict(header)
