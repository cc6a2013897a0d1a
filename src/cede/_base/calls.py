"""Calls with wrong arguments, answered in the grammar of errors: a keyword of a sibling, a misspelt one, a missing one."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from cede._base import check

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Thing = TypeVar("Thing")


def clear_call(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return a function that names a wrong or missing argument by a ValueError, with the arguments that there are."""

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except TypeError:
            check_arguments(function.__name__, inspect.signature(function), args, kwargs)
            raise  # an error inside of the function

    return call


def clear_constructor(cls: type[Thing]) -> type[Thing]:
    """Return a class whose constructor names a wrong or missing argument by a ValueError."""
    init = cls.__init__

    @wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except TypeError:
            check_arguments(cls.__name__, inspect.signature(init), (self, *args), kwargs)
            raise

    type.__setattr__(cls, "__init__", construct)
    return cls


def check_arguments(owner: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Check that a call fits a signature."""
    names = [name for name in signature.parameters if name != "self"]
    for name in kwargs:
        if name not in names:
            check.fail(owner, "an argument", check.show(name), check.one_of(names, name))
    try:
        bound = signature.bind_partial(*args, **kwargs).arguments
    except TypeError as error:
        check.fail(owner, "the call", f"wrong ({error})", f"with the arguments {', '.join(names)}")
    for name, parameter in signature.parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in bound:
            check.fail(owner, name, "missing", "given")
