"""All checks of what users pass in. Errors are ValueErrors with one grammar: "OWNER: PLACE is VALUE, must be EXPECTED".

In every function `owner` is who checks, for the message, as in "ucrl2_mc" or "Agent 'human'"; `place` or `argument` is the name of
what is checked, as in "delta" or "policy[7]".
"""

from collections.abc import Sequence
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from cede._base.arrays import Floats

# How far the sum of a row of probabilities may be from 1: enough for rounding, too little for a mistake in the data.
TOLERANCE = 1e-8


def fail(owner: str, place: str, got: object, expected: str) -> NoReturn:
    """Raise the ValueError "OWNER: PLACE is GOT, must be EXPECTED"."""
    raise ValueError(f"{owner}: {place} is {got}, must be {expected}")


def show(value: object) -> str:
    """Return the repr of a value on one line, cut to 60 characters, for an error message."""
    if isinstance(value, np.generic):
        value = value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_missing(value: Any) -> bool:
    """Return whether a value stands for "missing": None, NaN, or pandas' NaT and NA.

    They are recognised by not being equal to themselves, or by having no truth value when compared.
    """
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 (missing values differ from themselves)
    except TypeError:
        return True


def ndim(value: Any) -> int:
    """Return the number of axes of a value, 0 for a scalar; -1 if it is a ragged sequence."""
    try:
        return np.ndim(value)
    except ValueError:
        return -1


def integer(owner: str, place: str, value: Any, least: int, most: int | None = None) -> int:
    """Check that a value is an integer from least to most (None: any) and return it as an int. Truth values are refused."""
    expected = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        fail(owner, place, show(value), expected)
    if value < least or (most is not None and value > most):
        fail(owner, place, int(value), expected)
    return int(value)


def index(owner: str, place: str, value: Any, size: int) -> int:
    """Check that a value is an integer from 0 to size - 1, and return it."""
    return integer(owner, place, value, 0, size - 1)


def scalar(owner: str, place: str, value: Any, expected: str) -> float:
    """Check that a value is one real number of any type, and return it as a float. Truth values and text are refused."""
    if isinstance(value, bool | np.bool_ | str) or ndim(value) != 0:
        fail(owner, place, show(value), expected)
    try:
        return float(value)
    except (TypeError, ValueError):
        fail(owner, place, show(value), expected)


def number(owner: str, place: str, value: Any, *, least: float | None = None) -> float:
    """Check that a value is a finite number, of at least `least` if that is given, and return it as a float."""
    expected = "a finite number" if least is None else f"a finite number of at least {least:g}"
    result = scalar(owner, place, value, expected)
    if not np.isfinite(result) or (least is not None and result < least):
        fail(owner, place, result, expected)
    return result


def probability(owner: str, place: str, value: Any) -> float:
    """Check that a value is a number strictly between 0 and 1, and return it as a float."""
    expected = "a number in (0, 1)"
    result = scalar(owner, place, value, expected)
    if not 0.0 < result < 1.0:
        fail(owner, place, result, expected)
    return result


def choice(owner: str, place: str, value: Any, options: Sequence[Any]) -> Any:
    """Check that a value is one of the options, in type too, and return it."""
    if not any(value is option or (type(value) is type(option) and value == option) for option in options):
        fail(owner, place, show(value), "one of " + ", ".join(repr(option) for option in options))
    return value


def name(owner: str, place: str, value: Any) -> str:
    """Check that a value is a non-empty string, and return it."""
    if not isinstance(value, str) or not value:
        fail(owner, place, show(value), "a non-empty string")
    return value


def place_of(argument: str, where: Sequence[Any]) -> str:
    """Return how an element is named in messages, as in "policy[7, 2]". where: its indices, none for the argument itself."""
    return f"{argument}[{', '.join(str(int(i)) for i in where)}]" if len(where) else argument


def finite(owner: str, argument: str, values: Floats) -> None:
    """Check that all elements of an array are finite."""
    good = np.isfinite(values)
    if not good.all():
        bad = np.argwhere(~good)
        fail(owner, place_of(argument, bad[0]), values[tuple(bad[0])], "a finite number")


MANY = 1000  # elements from which on an array is shared instead of copied
_checked: "WeakValueDictionary[int, Floats]" = WeakValueDictionary()  # large arrays that `array` returned, by id


def array(owner: str, argument: str, value: Any, shape: Sequence[int | None], letters: str) -> Floats:
    """Check that a value is a finite numeric array of the given shape, and return it as a read-only float64 array.

    shape: the length of each axis, None where any will do; no axis may be empty. letters: what the shape means, for messages, as in
    "(S, A)".

    The result is a copy, so that nobody can change it later. An array of at least MANY elements that was returned here before is
    not copied again but shared: the teams of a fleet have many arrays in common.
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
    """Return a copy of an array-like value as a float64 array in C order; fail if it does not consist of numbers."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "fiub":
            raise TypeError
        return np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        fail(owner, argument, show(value), f"an array of numbers of shape {letters}")


def distributions(owner: str, argument: str, values: Floats) -> None:
    """Check that the last axis holds probabilities, at least 0 with sums of 1 up to TOLERANCE. Nothing is renormalised."""
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
    """Names that `names` has checked: a tuple of strings that need not be checked again."""

    __slots__ = ()


def names(owner: str, argument: str, value: Any, size: int) -> tuple[str, ...] | None:
    """Check that a value is a sequence of `size` strings, and return it as a tuple; None stays None."""
    if value is None:
        return None
    if not isinstance(value, Names) and (isinstance(value, str) or not all(isinstance(item, str) for item in value)):
        fail(owner, argument, show(value), "a sequence of strings")
    result = value if isinstance(value, Names) else Names(value)
    if len(result) != size:
        fail(owner, f"the length of {argument}", len(result), str(size))
    return result
