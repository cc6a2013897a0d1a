"""Extras: arrays that an option of a learner stores beside the counts. The option declares them; all other code is generic.

An extra is a vector with the name LAYER/NAME. In a fleet that shares the environment, extras of the layer "environment" belong to
the shared counts. A mapping of extras is never changed, only replaced. An extra that is missing or empty has its initial value.
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
    """Check extras from outside against their declaration."""
    by_name = {extra.name: extra for extra in declared}
    for name in extras:
        if name not in by_name:
            check.fail(owner, "an extra", check.show(name), "one that the settings declare")
    for extra in by_name.values():
        array = extras.get(extra.name, np.empty(0, dtype=extra.dtype))
        like, any_length = isinstance(extra.length, str), extra.length is None
        length = len(extras.get(str(extra.length), ())) if like else extra.length
        fits = any_length or len(array) == length or (not like and len(array) == 0)
        if array.dtype != extra.dtype or array.ndim != 1 or not fits:
            expected = f"({'n' if any_length else length},) of {np.dtype(extra.dtype)}"
            check.fail(owner, f"the shape of {extra.name}", f"{array.shape} of {array.dtype}", expected)
        inside = np.isfinite(array) & (array >= extra.least) & (array <= extra.most)
        if not inside.all() or (extra.ascending and not (array[1:] > array[:-1]).all()):
            order = ", ascending" if extra.ascending else ""
            check.fail(owner, extra.name, "impossible", f"numbers from {extra.least:g} to {extra.most:g}{order}")


def stack_extras(declared: Iterable[Extra], teams: Sequence[Extras]) -> dict[str, NDArray[Any]]:
    """Concatenate the extras of n teams: extras/NAME holds all numbers, extras/NAME_size, (n,), how many each team has."""
    result: dict[str, NDArray[Any]] = {}
    for extra in declared:
        arrays = [extras.get(extra.name, np.empty(0, dtype=extra.dtype)) for extras in teams]
        result[f"extras/{extra.name}"] = np.concatenate(arrays)
        result[f"extras/{extra.name}_size"] = np.array([len(array) for array in arrays], dtype=np.int64)
    return result


def unstack_extras(declared: Iterable[Extra], stacked: Mapping[str, NDArray[Any]], n: int) -> list[Extras]:
    """Return the extras of n teams from what `stack_extras` returned."""
    result: list[dict[str, NDArray[Any]]] = [{} for _ in range(n)]
    for extra in declared:
        array, size = stacked[f"extras/{extra.name}"], stacked[f"extras/{extra.name}_size"]
        if size.dtype != np.int64 or size.shape != (n,) or (size < 0).any() or size.sum() != len(array):
            check.fail("extras", f"the sizes of {extra.name}", check.show(size), "one for each team, as many as there are numbers")
        ends = np.cumsum(size)
        for extras, begin, end in zip(result, ends - size, ends, strict=True):
            if end > begin:
                extras[extra.name] = array[begin:end].copy()
    return list(result)
