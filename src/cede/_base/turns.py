"""Locks: learners and fleets may be called from several threads, and a run has exclusive use of them.

Calls wait for one another. During a run (`simulate`) any other call that reads or changes a learner's counts is refused: it would
read the state before the run, and its changes would be lost when the run ends. Learners that share an environment share a lock.

An operation that takes longer than one call, or touches several learners, is a `Change`: a run, a log that is counted, a team that
joins. It claims one lock at a time, in one order, and never holds two; so no two changes wait for each other.

Signals may raise an exception after any call of a function, so a lock must be its own context manager (`with turn.lock`): an
`__enter__` in Python could be interrupted after the lock is taken and before the block is entered.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import wraps
from itertools import count
from threading import get_ident
from typing import Any, TypeVar
from weakref import WeakSet

from cede._base import check

Method = TypeVar("Method", bound=Callable[..., Any])
Assignments = tuple[tuple[Any, str, Any], ...]  # object, attribute, value

NAMES = {"__getstate__": "a copy of it"}  # what methods are called in errors
PATIENCE, MOMENT = 20, 0.00005  # number of waits, and seconds of each, in which a call lets others go first
_numbers = count()
_turns: "WeakSet[Turn]" = WeakSet()


class Change:
    """An operation on learners and fleets that happens completely or not at all.

    It lasts as long as its lock is held (`with change.lock`); meanwhile no other caller uses the claimed objects. `after` holds the
    assignments that end it: at first those that undo the change, later those that complete it; setting `after` is the commit.
    `finish` executes them. If an interrupt prevents that, the next caller that uses a claimed object finishes the change.

    waits: whether calls of other threads wait until it is over; else they are refused, as during a run.
    """

    __slots__ = ("after", "lock", "settling", "thread", "waits")

    def __init__(self, *, waits: bool = False) -> None:
        self.lock, self.settling = threading.Lock(), threading.Lock()
        self.thread, self.waits = get_ident(), waits
        self.after: Assignments = ()

    def claim(self, owner: str, things: Iterable[Any]) -> None:
        """Claim learners and fleets for this change, after running calls and changes end; fails if one of them is in a run.

        owner: named in the error. things: objects with a `turn`.
        """
        wanted = list(things)
        while True:
            turns = sorted({thing.turn for thing in wanted}, key=lambda turn: turn.order)  # always in one order
            for turn in turns:
                turn.give(owner, self)
            if all(thing.turn.change is self for thing in wanted):
                return
            for turn in turns:  # one of them joined or left a fleet meanwhile
                with turn.lock:
                    turn.change = None

    def finish(self) -> None:
        """Execute the assignments of `after`. May be repeated."""
        with self.settling:
            for thing, name, value in self.after:
                setattr(thing, name, value)
            self.after = ()


class Turn:
    """The lock of a learner or a fleet, and the change that claimed it, if any. A copy is unlocked.

    whole: held while something is changed in place, so that a fork never copies half a change. waiting: the threads that wait for
    the lock; a thread that calls again and again lets them go first. is_fleet: whether it is the lock of a fleet.
    """

    __slots__ = ("__weakref__", "change", "is_fleet", "lock", "order", "waiting", "whole")

    def __init__(self, *, is_fleet: bool = False, change: Change | None = None) -> None:
        self.lock, self.whole = threading.RLock(), threading.RLock()
        self.waiting: dict[int, None] = {}
        self.change = change
        self.is_fleet, self.order = is_fleet, (not is_fleet, next(_numbers))  # fleets come first: they know their learners
        _turns.add(self)

    def is_free(self, owner: str, place: str) -> bool:
        """Return whether no change is running, after finishing an interrupted one. The caller holds the lock.

        Fails during a run, and if the change belongs to this thread. owner, place: class and method, for the error.
        """
        change = self.change
        if change is not None and change.lock.locked():
            if not change.waits or change.thread == get_ident():
                check.fail(
                    owner, place, "used during a run", "used before or after it: a run (simulate) has its learners to itself"
                )
            return False
        if change is not None:
            change.finish()
            self.change = None
        return True

    def settle(self) -> None:
        """Finish an interrupted change before an unlocked read."""
        change = self.change
        if change is not None and change.after and not change.lock.locked():
            change.finish()

    def give(self, owner: str, change: Change) -> None:
        """Assign this lock to a change; wait until it is free. owner: for errors."""
        while True:
            with self.lock:
                before = self.change
                if before is change or self.is_free(owner, "a learner"):
                    self.change = change
                    return
            wait_for(before)

    def let_others_go_first(self) -> None:
        """Wait a moment while other threads wait for the lock. The list may hold interrupted threads: it is emptied at the end."""
        if not self.lock._is_owned():  # type: ignore[attr-defined]  # as threading.Condition asks it
            for _ in range(PATIENCE):
                time.sleep(MOMENT)
                if not self.waiting:
                    return
            self.waiting.clear()

    def __reduce__(self) -> Any:
        return Turn, ()


def wait_for(change: Change | None) -> None:
    """Wait until a change is over."""
    if change is not None:
        with change.lock:
            pass


def one_at_a_time(method: Method) -> Method:
    """Let a method of an object with a `turn` wait for the lock, and refuse it while the object is in a run."""
    place = NAMES.get(method.__name__, method.__name__)

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        me = get_ident()
        while True:
            turn = self.turn
            if turn.waiting:
                turn.let_others_go_first()
            turn.waiting[me] = None
            with turn.lock:
                turn.waiting.pop(me, None)
                change = turn.change
                if (change is None or turn.is_free(type(self).__name__, place)) and turn is self.turn:
                    return method(self, *args, **kwargs)
            wait_for(change)  # or it joined or left a fleet while this thread was waiting

    return call  # type: ignore[return-value]


# ------------------------------------------------------------------------------------------------- a process that is forked

_held: list[Any] = []  # locks that are held during a fork


def before_fork() -> None:
    """Wait until nothing is being changed in place."""
    for turn in list(_turns):
        turn.whole.acquire()
        _held.append(turn.whole)


def after_fork() -> None:
    """Release the locks that `before_fork` took."""
    while _held:
        _held.pop().release()


def after_fork_in_child() -> None:
    """Replace locks of other threads, which do not exist here. Their changes are finished by the next caller."""
    after_fork()
    for turn in list(_turns):
        turn.lock, turn.waiting = threading.RLock(), {}
        change = turn.change
        if change is not None and change.thread != get_ident():
            change.lock, change.settling = threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=after_fork_in_child)
