"""Agents, states and actions by index or by name."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cede._base import check


def checked_names(owner: str, names: tuple[str, ...]) -> None:
    """Check that the names of the agents differ, and that there are not too many agents for the int16 of a switching policy."""
    most = np.iinfo(np.int16).max
    if len(names) > most:
        check.fail(owner, "the number of agents", len(names), f"at most {most}")
    for i, name in enumerate(names):
        if name in names[:i]:
            check.fail(owner, f"the name of agents[{i}]", repr(name), f"different from that of agents[{names.index(name)}]")


def name_index(owner: str, place: str, given: Any, names: Sequence[str]) -> int:
    """Return the index of an agent, given its index or its name; `names` are all names in order."""
    return place_index(owner, place, given, len(names), names, numbers_by_name(names))


def numbers_by_name(names: Sequence[str] | None) -> dict[str, int]:
    """Return the index of each name; -1 for a name that several states or actions have."""
    result: dict[str, int] = {}
    for i, name in enumerate(names or ()):
        result[name] = -1 if name in result else i
    return result


def place_index(owner: str, place: str, given: Any, size: int, names: Sequence[str] | None, known: Mapping[str, int]) -> int:
    """Return the index of a state, an action or an agent, given its index or, where there are names, its name.

    size: how many there are. names: all names in order, or None. known: `numbers_by_name(names)`.
    """
    if not isinstance(given, str):
        return check.index(owner, place, given, size)
    if given not in known:
        expected = f"an integer from 0 to {size - 1}: there are no names" if names is None else check.one_of(names, given)
        check.fail(owner, place, check.show(given), expected)
    if known[given] < 0:
        check.fail(owner, place, check.show(given), "a name that only one has; give the index")
    return known[given]


def in_kind(index: int, names: Sequence[str], given: Any) -> Any:
    """Return the index's name if `given` is a name, else the index."""
    return names[index] if isinstance(given, str) else index
