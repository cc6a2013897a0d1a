"""Reads records of one's own loop, JSON lines or Parquet, and checks them before anything in them is used."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.archive import RECORD, UnreadableFile, mode_of
from cede._base.arrays import Ints
from cede._base.columns import read_parquet
from cede.learning.record import Record
from cede.learning.recorded import Place
from cede.learning.recorder import SCHEMA, header_of, is_json
from cede.problem.task import Task

INTEGERS = ("episode", "t", "state", "prev_agent", "asked", "agent", "action", "next_state", "planned")
FLOATS = ("time", "cost", "enter_cost", "step_cost")
TRUTHS = ("unpriced",)  # left out of a line where it is false
ORDER = ("time", *INTEGERS, *FLOATS[1:], "reason", *TRUTHS)
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

    path: of JSON lines, or of a Parquet file (needs the extra `data`). A last line that is not whole, as a kill may leave it, is
    left out (`Record.torn`). Anything else that is wrong with the file is raised as `UnreadableFile`.
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


def check_still_runs(owner: str, path: Any, running: tuple[Place, ...]) -> None:
    """Check that the running episode of a learner has not ended in a record that is to be continued: it would be there twice.

    running: where it is recorded. Only a learner from a file that was written in the middle of an episode can be so far behind.
    """
    if running and is_record(check.path(owner, "path", path)):
        ended = {(entry.run, entry.begin) for entry in read_record(path).entries()}
        if not ended.isdisjoint(running):
            expected = "dropped first (drop_episode): learn_from(record.after(learner)) counts it as it ended"
            check.fail(owner, "the running episode", "one that ended in this record", expected)


class Lines:
    """Collects the lines of a record: steps as columns, and where episodes begin and end."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self.header = header
        self.runs: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []  # those that are not columns yet
        self.parts: list[dict[str, NDArray[Any]]] = []
        self.run: list[int] = []  # of each step
        self.number: list[int] = []
        self.learner_episode: list[int] = []
        self.next_step = 1  # without horizon: what the learner calls the next one
        self.ended: list[bool] = []
        self.dropped: list[bool] = []
        self.run_of: list[int] = []  # of each episode
        self.place: list[int] = []  # of each step in its run without a horizon, else of each episode
        self.next_place = 0
        self.gaps = 0
        self.elsewhere = 0  # how many episodes the learner had counted that are not in the record
        self.inside = False  # whether an episode is running

    def take(self, line: Any) -> None:
        """Take the next line."""
        if not isinstance(line, dict):
            raise ValueError("a line is no object")
        kind = line.get("event")
        if kind is None:
            if not self.runs:
                raise ValueError("a step comes before the first run")
            if not self.inside or line["t"] == 0:
                self.begin()
            if self.header["horizon"] is None:
                self.take_place()
            self.steps.append(line)
            self.run.append(len(self.runs) - 1)
            self.number.append(len(self.ended) - 1)
            self.learner_episode.append(self.next_step if self.header["horizon"] is None else line["episode"])
            self.next_step += 1
            if len(self.steps) == CHUNK:
                self.pack()
        elif kind == "end":
            if not self.inside:  # an episode without steps
                self.begin()
            self.ended[-1], self.inside = True, False
        elif kind == "drop":
            if self.inside:
                self.dropped[-1], self.inside = True, False
        elif kind == "run":
            self.runs.append(line)
            self.inside, self.next_place = False, 0
            self.next_step = first_episode(line)
            if line.get("counted") is not None:
                elsewhere = self.next_step - 1 - check.integer("record", "the number of episodes counted", line["counted"], 0)
                self.gaps += elsewhere > self.elsewhere
                self.elsewhere = elsewhere
        elif kind == "gap":
            self.gaps += 1
            self.next_step = check.integer("record", "the episode after a gap", line["found"], 1)
            self.elsewhere += self.next_step - check.integer("record", "the episode before a gap", line["expected"], 1)
        else:
            raise ValueError(f"event {check.show(kind)} is not known")

    def begin(self) -> None:
        """Begin an episode."""
        self.ended.append(False)
        self.dropped.append(False)
        self.run_of.append(len(self.runs) - 1)
        self.inside = True
        if self.header["horizon"] is not None:
            self.take_place()

    def take_place(self) -> None:
        """Take the next place of the run."""
        self.place.append(self.next_place)
        self.next_place += 1

    def pack(self) -> None:
        """Turn the steps that were taken since the last time into columns."""
        columns: dict[str, NDArray[Any]] = {}
        for name in INTEGERS:
            values = [step[name] for step in self.steps]
            if not all(type(value) is int for value in values):
                raise ValueError(f"a {name} is no integer")
            columns[name] = np.array(values, dtype=np.int64)
        for name in FLOATS:
            columns[name] = np.array([np.nan if step[name] is None else step[name] for step in self.steps], dtype=np.float64)
        columns["reason"] = reasons(step["reason"] for step in self.steps)
        for name in TRUTHS:
            columns[name] = np.array([check.truth("record", name, step.get(name, False)) for step in self.steps], dtype=np.bool_)
        self.parts.append(columns)
        self.steps = []


def first_episode(run: Mapping[str, Any]) -> int:
    """Return what the learner called its next episode when a run began."""
    told = run.get("about")
    return check.integer("record", "episode of a run", told["episode"], 1) if isinstance(told, dict) and "episode" in told else 1


def from_lines(path: Path) -> Record:
    """Read a record from JSON lines."""
    with path.open("rb") as file:
        first = file.readline()
        if not first.endswith(b"\n") and (first.startswith(RECORD) or RECORD.startswith(first)):
            return made(path, Lines(header_of_nothing()), len(first))
        if not first.startswith(RECORD):
            raise UnreadableFile(f"{path}: is another file, must be a record of cede")
        lines = Lines(checked_header(json.loads(first)))
        torn = 0
        for i, text, last in numbered(file):
            if text.endswith(b"\n") and is_json(text):
                lines.take(json.loads(text))
            elif last:
                torn = len(text)
            else:
                raise UnreadableFile(f"{path}: line {i} cannot be read, must be as it was written; it is damaged")
    return made(path, lines, torn)


def numbered(file: IO[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Return the lines of a file after the first one, each with its number and whether it is the last. Blank lines hold nothing."""
    lines = ((i, line) for i, line in enumerate(file, 2) if line.strip())
    before = next(lines, None)
    while before is not None:
        following = next(lines, None)
        yield *before, following is None
        before = following


def made(path: Path, lines: Lines, torn: int) -> Record:
    """Make a record of all lines of a file, after checks."""
    lines.pack()
    columns = {name: np.concatenate([part[name] for part in lines.parts]) for name in ORDER}
    columns["run"], number = np.array(lines.run, dtype=np.int64), np.array(lines.number, dtype=np.int64)
    learner_episode = np.array(lines.learner_episode, dtype=np.int64)
    ended, dropped = (np.array(ends, dtype=np.bool_) for ends in (lines.ended, lines.dropped))
    runs = tuple(lines.runs)
    places = {name: np.array(getattr(lines, name), dtype=np.int64) for name in ("run_of", "place")}
    return checked(Record(path, lines.header, runs, columns, number, learner_episode, ended, dropped, lines.gaps, torn, **places))


def reasons(texts: Iterable[Any]) -> NDArray[Any]:
    """Return the reasons of steps as an array of texts."""
    given = list(texts)
    known = {text: check.name("record", "reason", text)[:LONGEST] for text in set(given)}
    return np.array([known[text] for text in given], dtype=object)


def from_parquet(path: Path) -> Record:
    """Read a record from a Parquet file."""
    told, found = read_parquet(path)
    about = told["record"]
    columns: dict[str, NDArray[Any]] = {name: np.asarray(found[name], dtype=np.int64) for name in ("run", *INTEGERS)}
    columns |= {name: np.asarray(found[name], dtype=np.float64) for name in FLOATS}
    columns["reason"] = reasons(found["reason"].tolist())
    for name in TRUTHS:  # older files do not have them
        columns[name] = np.asarray(found.get(name, np.zeros(len(columns["run"]))), dtype=np.bool_)
    columns = {name: columns[name] for name in (*ORDER, "run")}
    ended, dropped = (np.array(about[name], dtype=np.bool_).reshape(-1) for name in ("ended", "dropped"))
    header, number = checked_header(about["header"]), np.asarray(found["number"], dtype=np.int64)
    known = "learner_episode" if "learner_episode" in found else "episode"  # older files have only the latter
    learner_episode = np.asarray(found[known], dtype=np.int64)
    gaps, torn = (check.integer("record", name, about[name], 0) for name in ("gaps", "torn"))
    runs = tuple(check.mapping("record", "a run", run, "a line") for run in about["runs"])
    if "place" in about:
        places = {name: np.array(about[name], dtype=np.int64).reshape(-1) for name in ("run_of", "place")}
    else:  # an older file, of a whole record
        places = places_of(header, columns["run"], number, len(ended))
    return checked(Record(path, header, runs, columns, number, learner_episode, ended, dropped, gaps, torn, **places))


def places_of(header: Mapping[str, Any], run: Ints, number: Ints, episodes: int) -> dict[str, Ints]:
    """Return `run_of` and `place` of a whole record whose episodes all have steps. run, number: of each step."""
    steps, run_of = np.bincount(number, minlength=episodes), np.zeros(episodes, dtype=np.int64)
    run_of[number] = run
    run_of = np.where(steps > 0, run_of, np.maximum.accumulate(run_of))
    of_each = run if header["horizon"] is None else run_of
    first = np.searchsorted(of_each, of_each)
    return {"run_of": run_of, "place": np.arange(len(of_each)) - first}


def checked(record: Record) -> Record:
    """Check that all columns fit together and lie within the sizes that the header tells; return the record, read-only."""
    header, n = record.header, len(record.number)
    sizes = {"state": header["n_states"], "next_state": header["n_states"], "action": header["n_actions"]}
    sizes |= dict.fromkeys(("agent", "prev_agent", "asked"), len(header["agents"]))
    for name, column in record.columns.items():
        if column.shape != (n,):
            check.fail("record", f"the length of {name}", column.shape, str((n,)))
        if name in sizes and n and not (-(name == "asked") <= column.min() and column.max() < sizes[name]):
            check.fail("record", name, f"{column.min()} to {column.max()}", f"from 0 to {sizes[name] - 1}")
        column.setflags(write=False)
    episodes = len(record.ended)
    whole = record.dropped.shape == (episodes,) and (not n or (record.number[0] >= 0 and record.number[-1] < episodes))
    whole = whole and record.learner_episode.shape == (n,) and record.run_of.shape == (episodes,)
    whole = whole and record.place.shape == ((n,) if header["horizon"] is None else (episodes,))
    for runs in (record.run_of, record.columns["run"]):
        whole = whole and (not runs.size or (runs.min() >= 0 and runs.max() < len(record.runs)))
    if not whole or (np.diff(record.number) < 0).any():
        check.fail("record", "the numbers of the episodes", "others", "ascending, within the episodes that there are")
    return record


def header_of_nothing() -> dict[str, Any]:
    """Return a header for a file in which not even that was written completely: nothing is known of the task."""
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
