"""One at a time: learners and fleets may be called from several threads, and a run has them to itself.

Calls wait for one another. While a learner is in a run (`simulate`), any other call that would read or change what it has learned
is refused: it would see what the run began with, and what it changed would be lost when the run ends. Learners of a fleet that
share what they see of the environment take turns together.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, TypeVar

from cede._base import check
from cede._base.interrupts import interrupts_later

Method = TypeVar("Method", bound=Callable[..., Any])


class Turn:
    """Whose turn it is: a lock for short calls, and whether a run is going on. A copy is free, whoever has the original.

    Used as a context manager. Who waits stands in the door, so that a thread which calls again and again cannot always be first.
    """

    __slots__ = ("door", "in_run", "lock")

    def __init__(self) -> None:
        self.door = threading.Lock()
        self.lock = threading.RLock()
        self.in_run = False

    def __enter__(self) -> None:
        if self.lock._is_owned():  # type: ignore[attr-defined]  # as threading.Condition asks it
            self.lock.acquire()
        else:
            with self.door:
                self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def __reduce__(self) -> Any:
        return Turn, ()


def one_at_a_time(method: Method) -> Method:
    """Let a method of an object with a `turn` wait until no other thread is in one, and refuse it while the object is in a run."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        turn = self.turn
        with turn:
            if turn is self.turn:
                if turn.in_run:
                    not_in_run(type(self).__name__, method.__name__, turn)
                return method(self, *args, **kwargs)
        return call(self, *args, **kwargs)  # it joined or left a fleet while this thread was waiting

    return call  # type: ignore[return-value]


def not_in_run(owner: str, place: str, turn: Turn) -> None:
    """Check that no run is going on. place: what was called, for the error."""
    if turn.in_run:
        check.fail(owner, place, "used during a run", "used before or after it: a run (simulate) has its learners to itself")


@contextmanager
def run_of(owner: str, things: Iterable[Any]) -> Iterator[None]:
    """A context in which learners and fleets are in a run; fails if one of them is in another run already.

    owner: named in the error. things: objects with a `turn`.
    """
    found = {id(thing.turn): thing.turn for thing in things}
    turns = [turn for _, turn in sorted(found.items())]  # always in one order: no two runs wait for each other
    ours: list[Turn] = []
    try:
        with interrupts_later(), ExitStack() as locks:
            for turn in turns:
                locks.enter_context(turn)
            for turn in turns:
                not_in_run(owner, "a learner", turn)
            for turn in turns:
                turn.in_run = True
            ours += turns
        yield
    finally:
        raised = None
        while ours:  # an interrupt may come in any call, also in that of a context which would put it off
            try:
                while ours:
                    ours[-1].in_run = False
                    ours.pop()
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised
