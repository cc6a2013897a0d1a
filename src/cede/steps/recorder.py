"""Writes every step of a control loop, as it happens, to a file of JSON lines: a kill loses at most the running step.

The first line of a file is its header: names and sizes of the task. A line with "event": "run" follows whenever a recorder opens
the file, with a unique name, the learner's settings, seed and version. Then there is one line for each step, without "event", and a
line for the end of each episode ("end"), for one that was dropped ("drop"), and where the learner counted data that are not in the
record ("gap"). read_record.py reads the file.

Every line is handed to the operating system before `observe` returns, so it survives the process; `sync` says when it must survive
the machine, too. An incomplete line has no line break: the next recorder cuts it off, a reader leaves it out, and both report it.
"""

import errno
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import TracebackType
from typing import Any
from weakref import WeakSet

from cede import __version__
from cede._base import check
from cede._base.archive import RECORD, mode_of, path_to_write, sync_directory, try_lock, unlock
from cede._base.reprs import short_repr
from cede.problem.task import Task
from cede.steps.read_record import is_record, read_record
from cede.steps.record import NOT_ASKED, header_of, is_json
from cede.steps.recorded import CountedRun, Place, Recorded
from cede.steps.step import Step

SYNCS = ("never", "episode", "step")
_recorders: "WeakSet[Recorder]" = WeakSet()


class Recorder:
    """Appends the steps of a control loop to a record, a file of JSON lines. `Learner.record_to` makes one for the learner.

    path: the file; an existing record of the same task is continued. task: the task of the steps. about: further data for the line
    of the run, such as a learner's settings. sync: when to wait until all is on the disk: "never" (a kill of the process loses no
    step, a power failure may), after each "episode", or after each "step". recorded: `learner.recorded`, the recorded episodes that
    the learner has counted.

    While it is open, a second recorder of the same file is refused, if the file system has locks. It is a context manager; after it
    is closed, the learner is no longer recorded.
    """

    def __init__(
        self,
        path: str | Path,
        task: Task,
        *,
        about: Mapping[str, Any] | None = None,
        sync: str = "never",
        recorded: Recorded | None = None,
    ) -> None:
        owner = "Recorder"
        self.path = path_to_write(owner, "path", path)
        self.task = check.instance(owner, "task", task, Task)
        self.sync = str(check.choice(owner, "sync", sync, SYNCS))
        more = check.mapping(owner, "about", about, "a mapping, as learner.about is")
        if recorded is not None:
            check.instance(owner, "recorded", recorded, Recorded, ", as learner.recorded")
            check_still_runs(owner, self.path, recorded.running)
        self._header = header_of(task)
        self._process = os.getpid()
        self._episode: int | None = None  # the learner's number of the next step's episode, if no data are missing
        self._stretch, self._t = 0, 0  # without horizon: number of the sequence of steps, and of its next step
        self._choice: tuple[tuple[int, int, int], int, str] | None = None  # the last choice
        self._begun, self._inside = 0, False  # episodes that begin in this run, and whether the last of them is running
        self._counted = 0  # episodes, or steps without a horizon, that were counted
        self._end, self._unsure = 0, False  # end of the last whole line; whether a part of a line may follow it
        self._closed = False
        known = mode_of(self.path) is not None
        self._file = self.path.open("a+b", buffering=0)
        _recorders.add(self)
        try:
            end, dropped, record = self._begin(owner)
            settings = {str(name): as_json(value) for name, value in more.items()}
            run = secrets.token_hex(8)
            self._run = f"{record or run}/{run}"
            began: dict[str, Any] = {"run": run, "cede": __version__, "dropped_bytes": dropped, "about": settings}
            if recorded is not None:
                began["counted"] = recorded.counted_in(record or run)
            first = "" if end else json.dumps(self._header, separators=(",", ":")) + "\n"
            self._write(first + event("run", **began))
            if not known:
                sync_directory(self.path.parent)
        except BaseException:
            self._closed = True
            self._file.close()
            raise

    def _begin(self, owner: str) -> tuple[int, int, str | None]:
        """Lock the file, check that it can be continued, and cut off an incomplete last line.

        Return where the file ends now, how many bytes were cut off, and the name of the record, None if it has none yet.
        """
        try:
            free = try_lock(self._file)
        except OSError:  # a file system without locks
            free = True
        if not free:
            check.fail(owner, "path", repr(str(self.path)), "a file to which no other recorder writes")
        descriptor, size = self._file.fileno(), os.fstat(self._file.fileno()).st_size
        self._file.seek(0)
        first, second = self._file.readline(), self._file.readline()
        if not size:
            return 0, 0, None
        if not first.endswith(b"\n") and (first.startswith(RECORD) or RECORD.startswith(first)):
            os.ftruncate(descriptor, 0)  # killed while it wrote the header
            return 0, size, None
        check_continues(owner, self.path, first, self._header)
        end = end_of_whole_lines(self._file)
        if end < size:
            os.ftruncate(descriptor, end)
        return end, size - end, name_of_run(second) if end > len(first) else None

    @property
    def is_open(self) -> bool:
        """Return whether it was not closed."""
        return not self._closed

    @property
    def recorded(self) -> tuple[str, CountedRun, tuple[Place, ...]]:
        """Return the name of the current run, its counted or dropped places, and the place of the running episode."""
        done = self._counted if self.task.horizon is None else self._begun - self._inside
        running = ((self._run, done),) if self._inside and self.task.horizon is not None else ()
        return self._run, CountedRun(self._counted, ((0, done),) if done else ()), running

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Return a context whose lines are removed again if it ends with an error or an interrupt.

        The learner changes at the end of the context, so the record and the learner agree.
        """
        if self._closed or self._process != os.getpid():
            yield
            return
        fields = ("_episode", "_stretch", "_t", "_choice", "_begun", "_inside", "_counted")
        before, end = [getattr(self, name) for name in fields], self._end if self._unsure else os.fstat(self._file.fileno()).st_size
        try:
            yield
        except BaseException:
            self._end, self._unsure = end, True
            for name, value in zip(fields, before, strict=True):
                setattr(self, name, value)
            with suppress(OSError):  # it is tried again before the next line
                self._cut()
            raise

    def write_steps(
        self, steps: Iterable[Step], *, episode: int, begins: bool, planned: int = 0, reason: str | None = None
    ) -> None:
        """Write steps that a learner has checked: all of them, or none and an error.

        episode: the learner's number. begins: whether the first step begins an episode. planned: the episode of the current plan.
        reason: why these agents act, in a word; None: from the last choice.
        """
        if not self.is_open:
            return
        with self.all_or_nothing():
            lines = [self._gap(episode)]
            for i, step in enumerate(steps):
                asked, why = self._why(step) if reason is None else (NOT_ASKED, reason)
                lines.append(self._step(step, episode, begins and i == 0, asked, planned, why))
            self._write("".join(lines), wait=self.sync == "step")

    def chosen(self, t: int, state: int, prev_agent: int, agent: int, reason: str) -> None:
        """Keep the agent that the learner chose, and the reason, until the step is observed."""
        self._choice = ((t, state, prev_agent), agent, reason)

    def _why(self, step: Step) -> tuple[int, str]:
        """Return the agent that the learner chose for a step, and why the agent in control acts, in a word."""
        choice, self._choice = self._choice, None
        if choice is None or choice[0] != step[:3]:
            return NOT_ASKED, "unasked"
        if step[3] in self.task.roles.orders.outcomes(step[2], choice[1]):  # an order was obeyed, whoever got control by it
            return step[3], choice[2]
        return choice[1], "override"

    def _gap(self, episode: int) -> str:
        """Return the line for a gap before the next step; empty without a gap."""
        expected, self._episode = self._episode, episode
        return "" if expected in (None, episode) else event("gap", expected=expected, found=episode)

    def _step(self, step: Step, episode: int, begins: bool, asked: int, planned: int, reason: str) -> str:
        """Return the line of one step. Without horizon, episode is the number of the sequence of steps, and t counts in it."""
        t, state, prev, agent, action, to, cost, enter_cost = step[:8]
        if self.task.horizon is None:
            self._stretch, self._t = (self._stretch + 1, 0) if begins or not self._stretch else (self._stretch, self._t)
            episode, t = self._stretch, self._t
            self._t += 1
            self._episode = (self._episode or 0) + 1  # without horizon, each step is an episode of the learner
            self._counted += 1
        if not self._inside or t == 0:
            self._begun, self._inside = self._begun + 1, True
        total = float(self.task.step_cost(state, prev, agent, cost, enter_cost))
        more = (
            ',"unpriced":true' if self.task.leaves_out(state, prev, agent) else ""
        )  # the cost of the hand-over is not in the total
        more += "" if step.session is None else f',"session":{json.dumps(step.session)}'
        return (
            f'{{"time":{time.time():.6f},"episode":{episode},"t":{t},"state":{state},"prev_agent":{prev},"asked":{asked},'
            f'"agent":{agent},"action":{action},"next_state":{to},"cost":{cost!r},"enter_cost":{enter_cost!r},'
            f'"step_cost":{total!r},"planned":{planned},"reason":"{reason}"{more}}}\n'
        )

    def end_episode(self, episode: int) -> None:
        """Write that an episode ended and was counted. episode: the learner's number."""
        if not self.is_open:
            return
        with self.all_or_nothing():
            if self.task.horizon is not None:
                self._write(self._gap(episode) + event("end", episode=episode), wait=self.sync != "never")
                self._episode = episode + 1
                self._begun, self._inside, self._counted = self._begun + (not self._inside), False, self._counted + 1
            elif self._stretch:
                self._write(event("end", episode=self._stretch), wait=self.sync != "never")
                self._t, self._inside = 0, False

    def drop_episode(self, episode: int) -> None:
        """Write that the steps of the running episode were dropped."""
        if self.is_open:
            with self.all_or_nothing():
                self._write(event("drop", episode=episode))
                self._inside = False

    def _write(self, text: str, *, wait: bool = False) -> None:
        """Write lines at the end of the file: all of them, or none and an error. wait: until they are on the disk."""
        if self._process != os.getpid():
            check.fail("Recorder", "the process", "a copy of the one that opened the file", "that one: give it a record of its own")
        data, descriptor, written = text.encode(), self._file.fileno(), 0
        self._cut()
        self._end, self._unsure = os.fstat(descriptor).st_size, True
        try:
            while written < len(data):
                more = os.write(descriptor, data[written:])
                if not more:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written += more
            if wait:
                os.fsync(descriptor)
            self._unsure = False
        except BaseException as error:
            with suppress(OSError):
                self._cut()
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            raise

    def _cut(self) -> None:
        """Cut off incomplete or withdrawn lines."""
        if self._unsure:
            os.ftruncate(self._file.fileno(), self._end)
            self._unsure = False

    def close(self) -> None:
        """Wait until all is on the disk, and close the file. The learner continues without a record."""
        if self.is_open:
            self._closed = True
            if self._process == os.getpid():
                with suppress(OSError):
                    self._cut()
                    os.fsync(self._file.fileno())
                with suppress(OSError):
                    unlock(self._file)
            self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return short_repr(self, lambda: (repr(check.printable(self.path.name)[:60]), "open" if self.is_open else "closed"))

    def __reduce__(self) -> Any:
        check.fail("Recorder", "a copy of it", "wanted", "another recorder with a file of its own")


def event(name: str, **parts: Any) -> str:
    """Return a line that is no step: its name, the time, and more."""
    return json.dumps({"event": name, "time": round(time.time(), 6), **parts}, separators=(",", ":")) + "\n"


def as_json(value: Any) -> Any:
    """Return a setting in a form that JSON can hold: itself, or its text."""
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def check_continues(owner: str, path: Path, line: bytes, header: Mapping[str, Any]) -> None:
    """Check that a file begins with the header of a record of the same task. line: its first line."""
    first = json.loads(line) if line.startswith(RECORD) and is_json(line) else None
    if not isinstance(first, dict):
        check.fail(owner, "path", repr(str(path)), "a new file, or a record of cede")
    for name, value in header.items():
        if first.get(name) != value:
            place = f"{name} of the record {str(path)!r}"
            check.fail(owner, place, check.show(first.get(name)), f"{check.show(value)}, as of the task; take another file")


def end_of_whole_lines(file: Any) -> int:
    """Return the end of the last whole line of a file. Trailing blank lines, and a last line that is not JSON (after a power
    failure), are not counted.
    """
    with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        end, is_last = data.rfind(b"\n") + 1, True
        while end:
            begin = data.rfind(b"\n", 0, end - 1) + 1
            line = data[begin:end]
            if line.strip():
                if is_json(line) or not is_last:
                    return end
                is_last = False
            end = begin
    return 0


def check_still_runs(owner: str, path: Path, running: tuple[Place, ...]) -> None:
    """Check that the running episode of a learner has not ended in the record to be continued: it would be recorded twice.

    running: its recorded places. This fails only for a learner loaded from a file that was saved within an episode.
    """
    if running and is_record(path):
        ended = {(entry.run, entry.begin) for entry in read_record(path).entries()}
        if not ended.isdisjoint(running):
            expected = "dropped first (drop_episode): learn_from(record.after(learner)) counts it as it ended"
            check.fail(owner, "the running episode", "one that ended in this record", expected)


def name_of_run(line: bytes) -> str | None:
    """Return the name of a run from its line; None for any other line."""
    run = json.loads(line) if is_json(line) else None
    name = run.get("run") if isinstance(run, dict) and run.get("event") == "run" else None
    return name if isinstance(name, str) else None


def _let_go() -> None:
    """Close the files of all recorders in a forked process: else it would keep the locks of its parent."""
    for recorder in list(_recorders):
        with suppress(Exception):
            recorder._file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
