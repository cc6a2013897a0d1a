"""Interrupts (Ctrl-C) and other signals at moments when an exception would leave things in pieces: they wait until it is over."""

# Of `signal` we use what it wraps: `signal.getsignal` turns every answer into an enumeration, at ten times the price.
import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
NAMES = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
SIGNALS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]


class interrupts_later:
    """A context in which no signal handler of Python runs; those that were due run at its end.

    Its value is a list of the signals that come; whoever takes some out of it sees to them.
    """

    __slots__ = ("came", "handlers")

    def __enter__(self) -> list[int]:
        self.came: list[int] = []
        self.handlers: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # handlers run in the main thread only
            try:
                for number in SIGNALS:
                    handler = _signal.getsignal(number)
                    if callable(handler):
                        self.handlers[number] = handler
                        _signal.signal(number, self.note)
            except BaseException:  # a handler has run that was not replaced yet
                self.put_back()
                raise
        return self.came

    def note(self, number: int, frame: Any) -> None:
        """Take note of a signal."""
        self.came.append(number)

    def put_back(self) -> None:
        """Put all handlers back, even if one of them runs at once and raises an exception; that is raised at the end."""
        raised, left = None, list(self.handlers.items())
        while left:
            try:
                while left:
                    _signal.signal(*left[-1])
                    left.pop()
            except BaseException as error:
                raised = error
        if raised is not None:
            raise raised

    def __exit__(self, *_: object) -> None:
        if self.handlers:
            try:
                self.put_back()
            finally:
                self.call(self.came)

    def call(self, numbers: list[int]) -> None:
        """Call the handlers of signals, all of them even if one raises an exception."""
        if numbers:
            try:
                self.handlers[numbers[0]](numbers[0], None)
            finally:
                self.call(numbers[1:])


def uninterrupted(function: Function) -> Function:
    """Let a function run to its end before any signal handler of Python runs."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with interrupts_later():
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def raise_soon(number: int) -> None:
    """Raise a signal again in a moment, if somebody still handles it then."""

    def raise_again() -> None:
        if callable(signal.getsignal(number)):
            signal.raise_signal(number)

    later = threading.Timer(0.05, raise_again)
    later.daemon = True
    later.start()
