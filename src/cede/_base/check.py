"""All checks of what users pass in, with one grammar of messages: "OWNER: PLACE is VALUE, must be EXPECTED"."""

from collections.abc import Sequence
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from cede._base.arrays import Floats

# How far the probabilities of a row may sum from 1: rounding, never a mistake in the data.
TOLERANCE = 1e-8


def fail(owner: str, place: str, got: object, expected: str) -> NoReturn:
    raise ValueError(f"{owner}: {place} is {got}, must be {expected}")


def show(value: object) -> str:
    """A value short enough for a message."""
    if isinstance(value, np.generic):
        value = value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_missing(value: Any) -> bool:
    """None, not a number, not a time, not available: what is not equal to itself, or will not say."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 (that is how missing values are known)
    except TypeError:
        return True


def ndim(value: Any) -> int:
    """Number of axes; -1 if it is no regular array."""
    try:
        return np.ndim(value)
    except ValueError:
        return -1


def integer(owner: str, place: str, value: Any, least: int, most: int | None = None) -> int:
    expected = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        fail(owner, place, show(value), expected)
    if value < least or (most is not None and value > most):
        fail(owner, place, int(value), expected)
    return int(value)


def index(owner: str, place: str, value: Any, size: int) -> int:
    return integer(owner, place, value, 0, size - 1)


def scalar(owner: str, place: str, value: Any, expected: str) -> float:
    """A real number, whatever its type; not a truth value, not text."""
    if isinstance(value, bool | np.bool_ | str) or ndim(value) != 0:
        fail(owner, place, show(value), expected)
    try:
        return float(value)
    except (TypeError, ValueError):
        fail(owner, place, show(value), expected)


def number(owner: str, place: str, value: Any, *, least: float | None = None) -> float:
    expected = "a finite number" if least is None else f"a finite number of at least {least:g}"
    result = scalar(owner, place, value, expected)
    if not np.isfinite(result) or (least is not None and result < least):
        fail(owner, place, result, expected)
    return result


def probability(owner: str, place: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    expected = "a number in (0, 1)"
    result = scalar(owner, place, value, expected)
    if not 0.0 < result < 1.0:
        fail(owner, place, result, expected)
    return result


def choice(owner: str, place: str, value: Any, options: Sequence[Any]) -> Any:
    if not any(value is option or (type(value) is type(option) and value == option) for option in options):
        fail(owner, place, show(value), "one of " + ", ".join(repr(option) for option in options))
    return value


def name(owner: str, place: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        fail(owner, place, show(value), "a non-empty string")
    return value


def place_of(argument: str, where: Sequence[Any]) -> str:
    return f"{argument}[{', '.join(str(int(i)) for i in where)}]" if len(where) else argument


def finite(owner: str, argument: str, values: Floats) -> None:
    good = np.isfinite(values)
    if not good.all():
        bad = np.argwhere(~good)
        fail(owner, place_of(argument, bad[0]), values[tuple(bad[0])], "a finite number")


MANY = 1000  # numbers in an array that is worth sharing
_checked: "WeakValueDictionary[int, Floats]" = WeakValueDictionary()  # large arrays that `array` made, by id


def array(owner: str, argument: str, value: Any, shape: Sequence[int | None], letters: str) -> Floats:
    """A read-only float array of the given shape (None: any length); `letters` say what the shape is, "(S, A)".

    A copy, so that nobody can change it later; but a large one that was checked here before is shared: teams of a fleet have
    many of those in common.
    """
    known = _checked.get(id(value))
    shared = known is not None and known is value and not known.flags.writeable
    result = known if known is not None and shared else copied(owner, argument, value, letters)
    wanted = tuple(result.shape[i] if n is None and i < result.ndim else n for i, n in enumerate(shape))
    if result.shape != wanted or 0 in result.shape:
        sizes = ", ".join("any" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "")
        fail(owner, f"the shape of {argument}", result.shape, f"{letters} = ({sizes}), no side empty")
    finite(owner, argument, result)
    result.setflags(write=False)
    if result.size >= MANY:
        _checked[id(result)] = result
    return result


def copied(owner: str, argument: str, value: Any, letters: str) -> Floats:
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "fiub":
            raise TypeError
        return np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        fail(owner, argument, show(value), f"an array of numbers of shape {letters}")


def distributions(owner: str, argument: str, values: Floats) -> None:
    """The last axis holds probabilities that sum to 1. Nothing is ever renormalised."""
    if values.min() < 0:
        bad = np.argwhere(values < 0)
        fail(owner, place_of(argument, bad[0]), values[tuple(bad[0])], "a probability, at least 0")
    sums = np.asarray(values.sum(axis=-1))
    wrong = np.abs(sums - 1.0) > TOLERANCE
    if wrong.any():
        bad = np.argwhere(wrong)
        total = sums[tuple(bad[0])]
        raise ValueError(f"{owner}: {place_of(argument, bad[0])} sums to {total:.10g}, must be 1")


class Names(tuple[str, ...]):
    """Names that were checked."""

    __slots__ = ()


def names(owner: str, argument: str, value: Any, size: int) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, Names) and (isinstance(value, str) or not all(isinstance(item, str) for item in value)):
        fail(owner, argument, show(value), "a sequence of strings")
    result = value if isinstance(value, Names) else Names(value)
    if len(result) != size:
        fail(owner, f"the length of {argument}", len(result), str(size))
    return result
