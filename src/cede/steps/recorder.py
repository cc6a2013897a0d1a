"""Writes every step of a control loop, as it happens, to a file of JSON lines: a kill loses at most the running step.

The first line of a file is its header: names and sizes of the task. A line with "event": "run" follows whenever a recorder opens
the file, with a unique name, the learner's settings, seed and version. Then there is one line for each step, without "event", and a
line for the end of each episode ("end"), for one that was dropped ("drop"), where the learner counted data that are not in the
record ("gap"), and where a member of the team has changed ("changed"). Sessions at once are interleaved; "session" names that of a
line. read_record.py reads the file.

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
from cede._kernels.account import total_cost
from cede.problem.task import Task
from cede.steps.cost import team_costs
from cede.steps.read_record import is_record, read_record
from cede.steps.record import NOT_ASKED, header_of, is_json
from cede.steps.recorded import CountedRun, Place, Recorded, joined
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
        self._running: dict[str | None, tuple[int, int]] = {}  # by session: its episode in this run, and without horizon the next t
        self._begun = 0  # episodes, or without a horizon sequences of steps, that began in this run
        self._done: tuple[tuple[int, int], ...] = ()  # places that were counted or dropped, as intervals
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
        """Return the name of the current run, its counted or dropped places, and the places of running episodes."""
        if self.task.horizon is None:
            return self._run, CountedRun(self._counted, ((0, self._counted),) if self._counted else ()), ()
        running = tuple(Place(self._run, place, session) for session, (place, _) in self._running.items())
        return self._run, CountedRun(self._counted, self._done), running

    @contextmanager
    def all_or_nothing(self, session: str | None = None) -> Iterator[None]:
        """Return a context whose lines, of one session, are removed again if it ends with an error or an interrupt.

        The learner changes at the end of the context, so the record and the learner agree.
        """
        if self._closed or self._process != os.getpid():
            yield
            return
        fields, running = ("_episode", "_begun", "_done", "_counted"), self._running.get(session)
        before, end = [getattr(self, name) for name in fields], self._end if self._unsure else os.fstat(self._file.fileno()).st_size
        try:
            yield
        except BaseException:
            self._end, self._unsure = end, True
            for name, value in zip(fields, before, strict=True):
                setattr(self, name, value)
            self._running.pop(session, None)
            self._running |= {} if running is None else {session: running}
            with suppress(OSError):  # it is tried again before the next line
                self._cut()
            raise

    def write_steps(
        self,
        steps: Iterable[Step],
        *,
        episode: int,
        begins: bool,
        planned: int = 0,
        reason: str = "unasked",
        number: int | None = None,
    ) -> None:
        """Write steps of one session that a learner has checked: all of them, or none and an error.

        episode: the learner's number. begins: whether the first step begins an episode. planned: the episode of the current plan.
        reason: why these agents act, in a word; where another agent acts than the chosen one, it is "override". number: of the
        episode; None: the learner's.
        """
        if not self.is_open:
            return
        rows = list(steps)
        with self.all_or_nothing(rows[0].session):
            lines = [self._gap(episode)]
            for i, step in enumerate(rows):
                obeyed = step.chosen is None or step.agent in self.task.roles.orders.outcomes(step.prev_agent, step.chosen)
                asked = (
                    NOT_ASKED if step.chosen is None else step.agent if obeyed else step.chosen
                )  # whoever got control by an order
                why = reason if obeyed else "override"
                lines.append(self._step(step, episode if number is None else number, begins and i == 0, asked, planned, why))
            self._write("".join(lines), wait=self.sync == "step")

    def _gap(self, episode: int) -> str:
        """Return the line for a gap before the next step; empty without a gap."""
        expected, self._episode = self._episode, episode
        return "" if expected in (None, episode) else event("gap", expected=expected, found=episode)

    def _step(self, step: Step, episode: int, begins: bool, asked: int, planned: int, reason: str) -> str:
        """Return the line of one step. Without horizon, episode is the number of the sequence of steps, and t counts in it."""
        t, state, prev, agent, action, to, cost, enter_cost = step[:8]
        has_horizon, running = self.task.horizon is not None, self._running.get(step.session)
        if running is None or begins or (has_horizon and t == 0):
            running, self._begun = (self._begun, 0), self._begun + 1
        if not has_horizon:
            episode, t = running[0] + 1, running[1]
            self._episode = (self._episode or 0) + 1  # without horizon, each step is an episode of the learner
            self._counted += 1
        self._running[step.session] = running[0], running[1] + 1
        total = float(total_cost(cost, *team_costs(self.task, step), enter_cost))
        more = (
            ',"unpriced":true' if self.task.leaves_out(state, prev, agent) else ""
        )  # the cost of the hand-over is not in the total
        if self.task.learns_team_costs:
            more += f',"control_cost":{step.control_cost!r},"switch_cost":{step.switch_cost!r}'
        more += "" if step.session is None else f',"session":{json.dumps(step.session)}'
        return (
            f'{{"time":{time.time():.6f},"episode":{episode},"t":{t},"state":{state},"prev_agent":{prev},"asked":{asked},'
            f'"agent":{agent},"action":{action},"next_state":{to},"cost":{cost!r},"enter_cost":{enter_cost!r},'
            f'"step_cost":{total!r},"planned":{planned},"reason":"{reason}"{more}}}\n'
        )

    def end_episode(self, episode: int, session: str | None = None, number: int | None = None) -> None:
        """Write that the episode of a session ended and was counted. episode, number: as for `write_steps`."""
        if not self.is_open:
            return
        own = {} if session is None else {"session": session}
        with self.all_or_nothing(session):
            running = self._running.pop(session, None)
            if self.task.horizon is not None:
                text = self._gap(episode) + event("end", episode=number or episode, **own)
                self._episode, self._counted = episode + 1, self._counted + 1
                if running is None:
                    running, self._begun = (self._begun, 0), self._begun + 1
                self._close(running[0])
                self._write(text, wait=self.sync != "never")
            elif running is not None:
                self._write(event("end", episode=running[0] + 1, **own), wait=self.sync != "never")

    def drop_episode(self, episode: int, session: str | None = None) -> None:
        """Write that the steps of the running episode of a session were dropped."""
        if self.is_open:
            with self.all_or_nothing(session):
                if (running := self._running.pop(session, None)) is not None:
                    self._close(running[0])
                self._write(event("drop", episode=episode, **({} if session is None else {"session": session})))

    def _close(self, place: int) -> None:
        """Note that the episode of a place was counted or dropped."""
        if self.task.horizon is not None:
            self._done = joined((*self._done, (place, place + 1)))

    def agent_changed(self, episode: int, agent: str) -> None:
        """Write that a member of the team has changed. episode: the first one afterwards, by the learner's number."""
        if self.is_open:
            with self.all_or_nothing():
                self._write(event("changed", episode=episode, agent=agent))

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
        for run, place, session in running:
            if (run, place) in ended:
                which = "the running episode" if session is None else f"session {check.printable(session)[:60]!r}"
                calls = "(drop_episode)" if session is None else "(drop)"
                expected = f"dropped first {calls}: learn_from(record.after(learner)) counts it as it ended"
                check.fail(owner, which, "one that ended in this record", expected)


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
