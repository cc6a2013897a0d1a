"""All checks of user input. Errors are ValueErrors with one grammar: "OWNER: PLACE is VALUE, must be EXPECTED".

In every function `owner` names the caller in the message, as in "ucrl2_mc" or "Agent 'human'"; `place` or `argument` names the
value, as in "delta" or "policy[7]".
"""

import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from cede._base.arrays import Floats, Ints

Thing = TypeVar("Thing")

# Tolerance of the sum of a row of probabilities: above rounding, below mistakes in the data.
TOLERANCE = 1e-8


def fail(owner: str, place: str, got: object, expected: str) -> NoReturn:
    """Raise the ValueError "OWNER: PLACE is GOT, must be EXPECTED"."""
    raise ValueError(f"{owner}: {place} is {got}, must be {expected}")


def show(value: object) -> str:
    """Return the repr of a value on one line, cut to 60 characters, for an error message."""
    try:
        text = " ".join(repr(value.item() if isinstance(value, np.generic) else value).split())
    except Exception:  # a user's class may raise anything
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def printable(text: object) -> str:
    """Return a text with its unprintable characters, such as a terminal's escape codes, written out.

    For names and other data from outside that are shown in a terminal or a picture.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


def instance(owner: str, place: str, value: Any, kind: type[Thing], hint: str = "") -> Thing:
    """Check that a value is of a class, and return it. hint: appended to the error, as in ", as in mdp.task"."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        fail(owner, place, show(value), f"{article} {kind.__name__}{hint}")
    return value


def mapping(owner: str, place: str, value: Any, expected: str) -> Mapping[Any, Any]:
    """Check that a value is a mapping, and return it; None counts as an empty one. expected: what it must be, for the error."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        fail(owner, place, show(value), expected)
    return value


def items(owner: str, place: str, value: Any, expected: str) -> list[Any]:
    """Check that a value can be iterated over and is no text, and return its items. expected: what it must be, for the error."""
    try:
        iterator = None if isinstance(value, str | bytes) else iter(value)
    except Exception:  # a user's class may raise anything
        iterator = None
    return list(iterator) if iterator is not None else fail(owner, place, show(value), expected)


def function(owner: str, place: str, value: Any, expected: str = "a function") -> Any:
    """Check that a value can be called, and return it."""
    if not callable(value):
        fail(owner, place, show(value), expected)
    return value


def progress(owner: str, value: Any) -> bool | Callable[[int], None]:
    """Check the argument `progress`: True, False or a function. Return it."""
    if not isinstance(value, bool) and not callable(value):
        fail(owner, "progress", show(value), "True, False, or a function of the number of steps done")
    result: bool | Callable[[int], None] = value
    return result


def path(owner: str, place: str, value: Any, expected: str = "the path of a file") -> Path:
    """Check that a value is the path of a file, text or a path object, and return it as a Path."""
    try:
        text = os.fspath(value) if isinstance(value, os.PathLike) else value
    except Exception:  # a user's class may raise anything
        text = None
    if not isinstance(text, str) or "\0" in text or not Path(text).name:
        fail(owner, place, show(value), expected)
    if not is_text(text):
        fail(owner, place, show(value), f"{expected}, in UTF-8")
    return Path(text)


def is_text(value: str) -> bool:
    """Return whether a string can be encoded in UTF-8. Lone surrogates cannot: Python decodes invalid bytes to them."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def generator(owner: str, place: str, seed: Any) -> np.random.Generator:
    """Return the NumPy generator for a seed: an integer of at least 0, or a generator itself."""
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(any_seed(owner, place, seed))


def any_seed(owner: str, place: str, seed: Any) -> int:
    """Check that a seed is an integer of at least 0, and return it."""
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer) or seed < 0:
        fail(owner, place, show(seed), "an integer of at least 0, or a NumPy generator")
    return int(seed)


def truth(owner: str, place: str, value: Any) -> bool:
    """Check that a value is True or False, and return it."""
    if not isinstance(value, bool | np.bool_):
        fail(owner, place, show(value), "True or False")
    return bool(value)


def is_missing(value: Any) -> bool:
    """Return whether a value stands for "missing": None, NaN, or pandas' NaT and NA.

    They are recognised by not being equal to themselves, or by having no truth value when compared.
    """
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 (missing values differ from themselves)
    except TypeError:
        return True


def ndim(value: Any) -> int:
    """Return the number of axes of a value, 0 for a scalar; -1 if NumPy cannot convert it, for example if it is ragged."""
    try:
        return int(value.ndim if hasattr(value, "ndim") else np.asarray(value).ndim)
    except Exception:  # a user's class may raise anything
        return -1


def integer(owner: str, place: str, value: Any, least: int, most: int | None = None) -> int:
    """Check that a value is an integer from least to most (None: any) and return it as an int. Truth values are refused."""
    if type(value) is int and least <= value and (most is None or value <= most):  # quicker
        return value
    expected = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if not is_integer or value < least or (most is not None and value > most):
        fail(owner, place, show(value), expected)
    return int(value)


def index(owner: str, place: str, value: Any, size: int) -> int:
    """Check that a value is an integer from 0 to size - 1, and return it."""
    return integer(owner, place, value, 0, size - 1)


def scalar(owner: str, place: str, value: Any, expected: str) -> float:
    """Check that a value is one real number of any type, and return it as a float. Truth values and text are refused."""
    refused = isinstance(value, bool | np.bool_ | str | bytes | complex | np.complexfloating) or value is np.ma.masked
    if refused or ndim(value) != 0 or np.asarray(value).dtype.kind not in "fiuO":
        fail(owner, place, show(value), expected)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
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
        fail(owner, place, show(value), one_of(options))
    return value


MOST_OPTIONS = 12  # that an error lists
MOST_COMPARED = 10_000  # names among which the nearest ones are looked for


def one_of(options: Sequence[Any], given: Any = None) -> str:
    """Return the text "one of 'machine', 'human'" for an error; of many options, only the first ones.

    given: the wrong name; of many options, those with the most similar spelling are listed first.
    """
    first = list(options[:MOST_OPTIONS])
    if isinstance(given, str) and len(options) > MOST_OPTIONS:
        near = get_close_matches(given, [name for name in options[:MOST_COMPARED] if isinstance(name, str)], n=3)
        first = [*near, *(name for name in first if name not in near)][:MOST_OPTIONS]
    listed = ", ".join(show(option) for option in first)
    return f"one of {listed}" + (f", ... ({len(options)} in all)" if len(options) > MOST_OPTIONS else "")


def name(owner: str, place: str, value: Any) -> str:
    """Check that a value is a non-empty string, and return it."""
    if not isinstance(value, str) or not value:
        fail(owner, place, show(value), "a non-empty string")
    if not is_text(value):
        fail(owner, place, show(value), "a string in UTF-8")
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

    The result is a copy, so that later changes of `value` do not affect it. An array of at least MANY elements that this function
    returned before is shared instead: the teams of a fleet have many arrays in common.
    """
    known = _checked.get(id(value)) if isinstance(value, np.ndarray) and value.size >= MANY else None
    shared = known is not None and known is value and not known.flags.writeable
    result: Floats = value if shared else copied(owner, argument, value, letters)
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
    unchecked = unmasked(owner, argument, value)
    if unchecked is None or unchecked.dtype.kind not in "fiub":
        fail(owner, argument, show(value), f"an array of numbers of shape {letters}")
    return np.array(unchecked, dtype=np.float64, order="C")


def unmasked(owner: str, argument: str, value: Any) -> Any:
    """Return an array-like value as a NumPy array; None if NumPy cannot convert it, for example if it is ragged.

    Masked elements are an error: NumPy would drop the mask and use the masked numbers.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        fail(owner, argument, "masked in some places", "an array without missing values")
    try:
        return np.asarray(value)
    except Exception:  # ragged, too large, or an error of a user's class
        return None


def integers(owner: str, argument: str, value: Any, axes: int | tuple[int, ...]) -> Ints:
    """Check that a value is an array of integers, and return a copy as int64. axes: the permitted number or numbers of axes."""
    wanted = (axes,) if isinstance(axes, int) else axes
    unchecked = unmasked(owner, argument, value)
    expected = f"an array of integers with {' or '.join(map(str, wanted))} axes" if wanted != (1,) else "a list of integers"
    empty = unchecked is not None and unchecked.size == 0 and not isinstance(value, np.ndarray)  # an empty list has no type
    if unchecked is None or unchecked.ndim not in wanted or (unchecked.dtype.kind not in "iu" and not empty):
        fail(owner, argument, show(value), expected)
    if unchecked.dtype == np.uint64 and unchecked.size and unchecked.max() > np.iinfo(np.int64).max:
        fail(owner, argument, show(value), f"{expected} below 2**63")
    return np.array(unchecked, dtype=np.int64, order="C")


def frozen(array: Any) -> Any:
    """Return a read-only array: the argument itself if it is read-only already, else a copy."""
    if array.flags.writeable:
        array = array.copy()
        array.setflags(write=False)
    return array


def probabilities(owner: str, argument: str, value: Any, shape: Sequence[int | None], letters: str) -> Floats:
    """Check that a value is an array whose last axis holds probabilities, at least 0 with sums of 1; return it as `array` does.

    Sums may be off by TOLERANCE, and nothing is changed. Numbers of lower precision, such as a float32 model's output, may be off
    by their own rounding, and are divided by their sums.
    """
    result = array(owner, argument, value, shape, letters)
    if result.min() < 0:
        bad = np.argwhere(result < 0)
        fail(owner, place_of(argument, bad[0]), result[tuple(bad[0])], "a probability, at least 0")
    precision = precision_of(np.asarray(value).dtype)
    sums = np.asarray(result.sum(axis=-1))
    terms = np.count_nonzero(result, axis=-1) if precision > 0.0 else 1
    wrong = np.abs(sums - 1.0) > rounding_of_sums(precision, terms)
    if wrong.any():
        where = tuple(np.argwhere(wrong)[0])
        raise ValueError(f"{owner}: {place_of(argument, where)} sums to {sums[where]:.10g}, must be 1")
    if precision > 0.0:
        result.setflags(write=True)  # it is a copy: only float64 arrays are shared
        result /= sums[..., None]
        result.setflags(write=False)
    return result


def precision_of(dtype: Any) -> float:
    """Return the machine epsilon of a type of lower precision than float64; else 0."""
    return float(np.finfo(dtype).eps) if dtype.kind == "f" and dtype.itemsize < np.dtype(np.float64).itemsize else 0.0


def rounding_of_sums(precision: float, terms: Any) -> Any:
    """Return the tolerance of sums of probabilities: a few roundings, which grow like the square root of the number of terms."""
    return np.maximum(TOLERANCE, 4.0 * precision * np.sqrt(terms))


class Names(tuple[str, ...]):
    """Names that `names` has checked: a tuple of strings that need not be checked again."""

    __slots__ = ()


def names(owner: str, argument: str, value: Any, size: int) -> tuple[str, ...] | None:
    """Check that a value is a sequence of `size` strings, and return it as a tuple; None stays None."""
    if value is None:
        return None
    if not isinstance(value, Names):
        expected = "a sequence of strings"
        strings = items(owner, argument, value, expected)
        if isinstance(value, Mapping | set) or not all(isinstance(item, str) for item in strings):
            fail(owner, argument, show(value), expected)
        if not is_text("".join(strings)):
            fail(owner, argument, show(value), f"{expected} in UTF-8")
        value = Names(strings)
    result: Names = value
    if len(result) != size:
        fail(owner, f"the length of {argument}", len(result), str(size))
    return result
