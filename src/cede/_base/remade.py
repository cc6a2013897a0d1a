"""Data that stay checked: copies and pickles of them are made by their own constructors."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any


class Remade:
    """Base of frozen dataclasses that check themselves: a copy or a pickle goes through the constructor, and so through its checks.

    NumPy forgets in a copy that an array was read-only; the constructor makes it so again.
    """

    def _set(self, **values: Any) -> None:
        """Set fields, in `__post_init__`, to what was checked."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return remake, (type(self), {one.name: getattr(self, one.name) for one in fields(self) if one.init})  # type: ignore[arg-type]


def remake(cls: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Make an object of a class from its fields."""
    return cls(**given)
