"""Reads JSON from outside: no numbers that are none, no name twice, nothing endless."""

import json
import math
from typing import Any, NoReturn


class Malformed(ValueError):
    """A body that is no JSON, or JSON that different readers would read differently."""


def fail(got: str, expected: str = "JSON in UTF-8") -> NoReturn:
    """Raise Malformed."""
    raise Malformed(f"request: body is {got}, must be {expected}")


def parse(body: bytes) -> Any:
    """Return what a body of JSON says."""
    try:
        return json.loads(body.decode(), object_pairs_hook=unique, parse_constant=no_number, parse_float=finite)
    except RecursionError:
        fail("nested too deeply", "JSON of less depth")
    except Malformed:
        raise
    except ValueError as error:  # also what is no UTF-8, and numbers of thousands of digits
        fail(f"malformed ({str(error)[:100]})")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose names all differ."""
    result = dict(pairs)
    if len(result) < len(pairs):
        fail("an object with a name twice", "objects whose names differ")
    return result


def no_number(text: str) -> NoReturn:
    """Refuse NaN and Infinity, which are no JSON."""
    fail(f"with {text}", "JSON, which has only finite numbers")


def finite(text: str) -> float:
    """Return a number that is not too large."""
    result = float(text)
    if not math.isfinite(result):
        fail("with a number that is too large", "JSON with numbers below 1.8e308")
    return result
