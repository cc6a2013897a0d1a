"""Writes down every step of one's own loop as it happens, in a file of JSON lines: a kill loses at most the running step.

The first line of a file is its header: what the task is called and how large it is. A line with "event": "run" follows whenever a
recorder opens the file, with a name that no other run has, the learner's settings, seed and version. Then there is one line for
each step, without "event", and a line for the end of each episode ("end"), for one that was dropped ("drop"), and where the learner
learned from something that is not in the record ("gap"). record.py reads all that.

Every line is handed to the operating system before `observe` returns. So it outlives the process, however that ends; `sync` says
when it must outlive the machine, too. A line of which only a part was written has no end: the next recorder cuts it off, a reader
leaves it out, and both say so.
"""

import errno
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from weakref import WeakSet

from cede import __version__
from cede._base import check
from cede._base.archive import RECORD, mode_of, path_to_write, sync_directory, try_lock
from cede._base.reprs import short_repr
from cede.learning.counts import Step
from cede.learning.recorded import Place, Recorded, Run
from cede.problem.task import Task

SCHEMA = 1  # of the lines
SYNCS = ("never", "episode", "step")
TAIL = 1 << 16  # bytes that are read at once to find the last line
NOT_ASKED = -1  # instead of an agent
_recorders: "WeakSet[Recorder]" = WeakSet()


class Recorder:
    """Appends what happens in a loop to a record, a file of JSON lines. `Learner.record_to` makes one and lets the learner use it.

    path: the file; if it is there already, it must be a record of the same task, and is continued. task: what is recorded. about:
    more to write down at the beginning, as a learner's settings. sync: when to wait until all is on the disk: "never" (the
    operating system decides; a kill of the process loses no step that was written), after each "episode", or after each "step".
    recorded: what of this record whoever records has counted already.

    While it is open, nobody else can write to the file: a second recorder is refused, where the file system knows locks. It is a
    context manager, closed at the end; a learner whose recorder was closed goes on without.
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
        more = check.mapping(owner, "about", about, "a mapping, as learner.settings is")
        if recorded is not None:
            check.instance(owner, "recorded", recorded, Recorded, ", as learner.recorded")
        self._header = header_of(task)
        self._process = os.getpid()
        self._episode: int | None = None  # of the learner, that its next step must have if nothing was left out
        self._stretch, self._t = 0, 0  # without horizon: which stretch of steps this is, and the number of its next step
        self._choice: tuple[tuple[int, int, int], int, str] | None = None  # what was chosen last
        self._begun, self._inside = 0, False  # episodes that begin in this run, and whether the last of them is running
        self._counted = 0  # episodes, or steps without a horizon, that were counted
        self._end, self._unsure = 0, False  # where the last whole line ends, if there may be more behind it
        self._closed = False
        known = mode_of(self.path) is not None
        self._file = self.path.open("a+b", buffering=0)
        _recorders.add(self)
        try:
            end, dropped, record = self._begin(owner)
            told = {str(name): as_json(value) for name, value in more.items()}
            run = secrets.token_hex(8)
            self._run = f"{record or run}/{run}"
            began: dict[str, Any] = {"run": run, "cede": __version__, "dropped_bytes": dropped, "about": told}
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
        """Lock the file, check that it can be continued, and cut off a last line that is not whole.

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
        first = self._file.readline() if size else b""
        if size and not first.endswith(b"\n") and (first.startswith(RECORD) or RECORD.startswith(first)):
            os.ftruncate(descriptor, 0)  # killed while it wrote the header
            return 0, size, None
        second = self._file.readline()
        if size:
            check_continues(owner, self.path, first, self._header)
        end = end_of_whole_lines(self._file, size)
        if end < size:
            os.ftruncate(descriptor, end)
        return end, size - end, name_of_run(second) if end > len(first) else None

    @property
    def is_open(self) -> bool:
        """Return whether it still writes: it was not closed."""
        return not self._closed

    @property
    def recorded(self) -> tuple[str, Run, tuple[Place, ...]]:
        """Return the name of the run that it writes, what of it is done with, and where the running episode is."""
        done = self._counted if self.task.horizon is None else self._begun - self._inside
        running = ((self._run, done),) if self._inside and self.task.horizon is not None else ()
        return self._run, Run(self._counted, ((0, done),) if done else ()), running

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """A context of which nothing stays in the record if it ends with an error or an interrupt.

        So a record and its learner agree: the learner changes at the end of the context.
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
        self,
        steps: Iterable[Step],
        costs: Iterable[tuple[float, float]],
        *,
        episode: int,
        begins: bool,
        planned: int = 0,
        reason: str | None = None,
    ) -> None:
        """Write down steps that a learner has checked: all of them, or none and an error.

        steps: t, state, prev_agent, agent, action and next_state of each. costs: what the environment charged in each, for the
        action and for arriving. episode: the learner's number. begins: whether the first step begins an episode. planned: the
        episode for which the plan in force was made. reason: why these agents act, in a word; None: by what was chosen.
        """
        if not self.is_open:
            return
        with self.all_or_nothing():
            lines = [self._gap(episode)]
            for i, (step, cost) in enumerate(zip(steps, costs, strict=True)):
                asked, why = self._why(step) if reason is None else (NOT_ASKED, reason)
                lines.append(self._step(step, cost, episode, begins and i == 0, asked, planned, why))
            self._write("".join(lines), wait=self.sync == "step")

    def chosen(self, t: int, state: int, prev_agent: int, agent: int, reason: str) -> None:
        """Keep in mind whom the learner chose, and why, until the step is observed."""
        self._choice = ((t, state, prev_agent), agent, reason)

    def _why(self, step: Step) -> tuple[int, str]:
        """Return whom the learner chose for a step, and why the one who acted did, in a word."""
        choice, self._choice = self._choice, None
        if choice is None or choice[0] != step[:3]:
            return NOT_ASKED, "unasked"
        return choice[1], choice[2] if choice[1] == step[3] else "override"

    def _gap(self, episode: int) -> str:
        """Return the line that tells of a gap before the next step, empty if there is none."""
        expected, self._episode = self._episode, episode
        return "" if expected in (None, episode) else event("gap", expected=expected, found=episode)

    def _step(
        self, step: Step, charged: tuple[float, float], episode: int, begins: bool, asked: int, planned: int, reason: str
    ) -> str:
        """Return the line of one step. Without horizon the episode is the number of the stretch of steps, and t counts in it."""
        t, state, prev, agent, action, to = step
        if self.task.horizon is None:
            self._stretch, self._t = (self._stretch + 1, 0) if begins or not self._stretch else (self._stretch, self._t)
            episode, t = self._stretch, self._t
            self._t += 1
            self._episode = (self._episode or 0) + 1  # what a learner calls an episode is a step here
            self._counted += 1
        if not self._inside or t == 0:
            self._begun, self._inside = self._begun + 1, True
        total = float(self.task.step_cost(state, prev, agent, *charged))
        left_out = ',"unpriced":true' if self.task.is_unpriced[prev, agent] else ""  # the cost of the hand-over is not in the total
        return (
            f'{{"time":{time.time():.6f},"episode":{episode},"t":{t},"state":{state},"prev_agent":{prev},"asked":{asked},'
            f'"agent":{agent},"action":{action},"next_state":{to},"cost":{charged[0]!r},"enter_cost":{charged[1]!r},'
            f'"step_cost":{total!r},"planned":{planned},"reason":"{reason}"{left_out}}}\n'
        )

    def end_episode(self, episode: int) -> None:
        """Write down that an episode ended and was counted. episode: the learner's number."""
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
        """Write down that the steps of the running episode were dropped."""
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
        """Cut off what was written of lines that could not be written completely, or must not stay."""
        if self._unsure:
            os.ftruncate(self._file.fileno(), self._end)
            self._unsure = False

    def close(self) -> None:
        """Wait until all is on the disk, and close the file. Whoever recorded goes on without."""
        if self.is_open:
            self._closed = True
            if self._process == os.getpid():
                with suppress(OSError):
                    self._cut()
                    os.fsync(self._file.fileno())
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


def header_of(task: Task) -> dict[str, Any]:
    """Return the first line of a record: what a reader must know of the task. Names are data."""
    return {
        "event": "header",
        "kind": "record",
        "schema": SCHEMA,
        "n_states": task.n_states,
        "n_actions": task.n_actions,
        "horizon": task.horizon,
        "agents": list(task.agents),
        "members": list(task.members),
        "acting": task.acting.tolist(),
        "aim": task.aim.tolist(),
        "state_names": None if task.state_names is None else list(task.state_names),
        "action_names": None if task.action_names is None else list(task.action_names),
    }


def check_continues(owner: str, path: Path, line: bytes, header: Mapping[str, Any]) -> None:
    """Check that a file begins with the header of a record of the same task. line: its first one."""
    found = json.loads(line) if line.startswith(RECORD) and is_json(line) else None
    if not isinstance(found, dict):
        check.fail(owner, "path", repr(str(path)), "a new file, or a record of cede")
    for name, value in header.items():
        if found.get(name) != value:
            place = f"{name} of the record {str(path)!r}"
            check.fail(owner, place, check.show(found.get(name)), f"{check.show(value)}, as of the task; take another file")


def end_of_whole_lines(file: Any, size: int) -> int:
    """Return where the last whole line of a file ends: after its last line break, without blank lines, and without a last line that
    is no JSON.
    """
    end, is_last = begin_of_last_line(file, size), True
    while end:
        begin = begin_of_last_line(file, end - 1)
        file.seek(begin)
        line = file.read(end - begin)
        if line.strip():
            if is_json(line) or not is_last:
                return end
            is_last = False  # after a power failure there may be anything
        end = begin
    return 0


def is_json(line: bytes) -> bool:
    """Return whether a line can be read: not if it is damaged, nor if it is nested too deeply."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def name_of_run(line: bytes) -> str | None:
    """Return the name of a run, given its line; None if it is another line."""
    found = json.loads(line) if is_json(line) else None
    name = found.get("run") if isinstance(found, dict) and found.get("event") == "run" else None
    return name if isinstance(name, str) else None


def begin_of_last_line(file: Any, size: int) -> int:
    """Return where the last line of the first `size` bytes of a file begins: after the last line break in them."""
    while size > 0:
        begin = max(0, size - TAIL)
        file.seek(begin)
        found = file.read(size - begin).rfind(b"\n")
        if found >= 0:
            return int(begin + found + 1)
        size = begin
    return 0


def _let_go() -> None:
    """Close the files of all recorders in a new process that was forked: else it would keep the locks of the one that records."""
    for recorder in list(_recorders):
        with suppress(Exception):
            recorder._file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
