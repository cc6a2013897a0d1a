"""Short texts of objects for a terminal or a notebook: at most one screen for objects of any size."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cede._base import check

MOST_NAMES = 6  # that are listed
LONGEST_NAME = 40


def listed(names: Sequence[Any] | None, most: int = MOST_NAMES) -> str:
    """Return names with commas between them; of many, the first ones and the total number."""
    all_names = names or ()
    texts = [check.printable(str(name)[: LONGEST_NAME + 1]) for name in all_names[:most]]
    short = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..." for name in texts]
    return ", ".join(short) + (f", ... ({len(all_names):,} in all)" if len(all_names) > most else "")


def plural(n: int, noun: str) -> str:
    """Return a number with its noun, as in "1 state" or "3 states"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def short_repr(thing: object, parts: Callable[[], Iterable[str | None]]) -> str:
    """Return "Class(part, part, ...)". parts: a function that returns them; None among them is left out.

    Debuggers and tracebacks ask for the repr of incomplete objects: if a part fails, return the name of the class alone.
    """
    try:
        return f"{type(thing).__name__}({', '.join(part for part in parts() if part)})"
    except Exception:
        return f"<{type(thing).__name__}>"
