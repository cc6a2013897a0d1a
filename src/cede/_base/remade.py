"""Data that stay checked: copies and pickles of them are made by their own constructors."""

from dataclasses import fields
from functools import partial
from typing import Any


class Remade:
    """Base of frozen dataclasses that check themselves: a copy or a pickle goes through the constructor, and so through its checks.

    NumPy's copies of read-only arrays are writable; the constructor makes them read-only again.
    """

    def _set(self, **values: Any) -> None:
        """Set fields to checked values, in `__post_init__`."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.init}  # type: ignore[arg-type]
        return partial(type(self), **values), ()
