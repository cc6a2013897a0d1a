"""Defers interrupts (Ctrl-C) and other signals while an exception would leave a change half made.

This is for changes in place: the counts of one step or one episode, a round of a run. Larger changes are built beside the current
state, and replace it at once (_base/turns.py).
"""

# `signal` wraps `_signal`: `signal.getsignal` converts each result to an enumeration, which takes ten times as long.
import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
NAMES = ("INT", "TERM", "ALRM", "HUP", "USR1", "USR2", "QUIT", "VTALRM", "PROF", "CHLD", "WINCH")
SIGNALS = [getattr(signal, f"SIG{name}") for name in NAMES if hasattr(signal, f"SIG{name}")]


class interrupts_later:
    """A context in which no Python signal handler runs; deferred signals are raised at its end, each once.

    Its value is the list of deferred signals; a caller that removes a signal from the list must handle it.
    """

    __slots__ = ("came", "handlers", "is_over")

    def __enter__(self) -> list[int]:
        self.came: list[int] = []
        self.handlers: dict[int, Any] = {}
        self.is_over = False
        if threading.current_thread() is threading.main_thread():  # handlers run in the main thread only
            try:
                for number in SIGNALS:
                    handler = _signal.getsignal(number)
                    if callable(handler):
                        self.handlers[number] = handler
                        _signal.signal(number, self.note)
            except BaseException:  # raised by a handler that was not replaced yet
                self.is_over = True
                self.put_back()
                raise
        return self.came

    def note(self, number: int, frame: Any) -> None:
        """Note a signal. If an exception interrupted `put_back`, restore this signal's handler and call it."""
        if self.is_over:
            _signal.signal(number, self.handlers[number])
            self.handlers[number](number, frame)
        else:
            self.came.append(number)

    def put_back(self) -> None:
        """Restore all handlers. One of them may run at once and raise an exception."""
        for number, handler in self.handlers.items():
            _signal.signal(number, handler)

    def __exit__(self, *_: object) -> None:
        self.is_over = True
        try:
            self.put_back()
        finally:
            raise_all(list(dict.fromkeys(self.came)))


def raise_all(numbers: list[int]) -> None:
    """Raise each signal, even if the handler of an earlier one raises an exception."""
    if numbers:
        try:
            _signal.raise_signal(numbers[0])
        finally:
            raise_all(numbers[1:])


def uninterrupted(function: Function) -> Function:
    """Let a function run to its end before any signal handler of Python runs."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with interrupts_later():
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def raise_soon(number: int) -> None:
    """Raise a signal again in a moment, if it still has a handler then; in the main thread, which it wakes."""

    def raise_again() -> None:
        main = threading.main_thread().ident
        if callable(signal.getsignal(number)) and main is not None:
            signal.pthread_kill(main, number) if hasattr(signal, "pthread_kill") else signal.raise_signal(number)

    later = threading.Timer(0.05, raise_again)
    later.daemon = True
    later.start()
