"""Extras: arrays that an option of a learner owns, beside the counts. The option declares them; all other code treats them alike.

An extra is a vector with the name LAYER/NAME. In a fleet that shares the environment, extras of the layer "environment" belong to
the shared counts. A mapping of extras is never changed, only replaced. An extra that is missing or empty is as at the start.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check

Extras = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Extra:
    """The declaration of one extra."""

    name: str  # LAYER/NAME
    dtype: type  # int or float
    length: int | str | None  # or the name of an extra that is as long; None: any
    least: float = -np.inf
    most: float = np.inf
    ascending: bool = False


def of_layer(extras: Extras, layer: str) -> Extras:
    """Return the extras of one layer."""
    return {name: array for name, array in extras.items() if name.startswith(f"{layer}/")}


def check_extras(owner: str, declared: Iterable[Extra], extras: Extras) -> None:
    """Check extras that come from outside against their declaration."""
    by_name = {one.name: one for one in declared}
    for name in extras:
        if name not in by_name:
            check.fail(owner, "an extra", check.show(name), "one that the settings declare")
    for one in by_name.values():
        array = extras.get(one.name, np.empty(0, dtype=one.dtype))
        like, any_length = isinstance(one.length, str), one.length is None
        length = len(extras.get(str(one.length), ())) if like else one.length
        fits = any_length or len(array) == length or (not like and len(array) == 0)
        if array.dtype != one.dtype or array.ndim != 1 or not fits:
            expected = f"({'n' if any_length else length},) of {np.dtype(one.dtype)}"
            check.fail(owner, f"the shape of {one.name}", f"{array.shape} of {array.dtype}", expected)
        inside = np.isfinite(array) & (array >= one.least) & (array <= one.most)
        if not inside.all() or (one.ascending and not (array[1:] > array[:-1]).all()):
            order = ", ascending" if one.ascending else ""
            check.fail(owner, one.name, "impossible", f"numbers from {one.least:g} to {one.most:g}{order}")


def stack_extras(declared: Iterable[Extra], teams: Sequence[Extras]) -> dict[str, NDArray[Any]]:
    """Concatenate the extras of n teams: extras/NAME holds all numbers, extras/NAME_size, (n,), how many each team has."""
    result: dict[str, NDArray[Any]] = {}
    for one in declared:
        arrays = [extras.get(one.name, np.empty(0, dtype=one.dtype)) for extras in teams]
        result[f"extras/{one.name}"] = np.concatenate(arrays)
        result[f"extras/{one.name}_size"] = np.array([len(array) for array in arrays], dtype=np.int64)
    return result


def unstack_extras(declared: Iterable[Extra], stacked: Mapping[str, NDArray[Any]], n: int) -> list[Extras]:
    """Return the extras of n teams from what `stack_extras` returned."""
    result: list[dict[str, NDArray[Any]]] = [{} for _ in range(n)]
    for one in declared:
        array, size = stacked[f"extras/{one.name}"], stacked[f"extras/{one.name}_size"]
        if size.dtype != np.int64 or size.shape != (n,) or (size < 0).any() or size.sum() != len(array):
            check.fail("extras", f"the sizes of {one.name}", check.show(size), "one for each team, as many as there are numbers")
        ends = np.cumsum(size)
        for extras, begin, end in zip(result, ends - size, ends, strict=True):
            if end > begin:
                extras[one.name] = array[begin:end].copy()
    return list(result)
