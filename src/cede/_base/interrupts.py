"""Interrupts (Ctrl-C) and other signals at moments when an exception would leave things in pieces: they wait until it is over."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
NAMES = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
SIGNALS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]


@contextmanager
def interrupts_later() -> Iterator[list[int]]:
    """A context in which no signal handler of Python runs; those that were due run at its end.

    Yields a list of the signals that come; whoever takes some out of it sees to them.
    """
    came: list[int] = []
    handlers: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():  # handlers run in the main thread only
            for number in SIGNALS:
                if callable(handler := signal.getsignal(number)):
                    handlers[number] = handler
                    signal.signal(number, lambda number, _: came.append(number))
        yield came
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in came:
            handlers[number](number, None)


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
