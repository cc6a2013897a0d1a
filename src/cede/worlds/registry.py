"""The worlds by name, for the command line: those of cede, and those that installed packages register (`cede.worlds`)."""

import inspect
from collections.abc import Callable
from typing import Any

from cede._base import check, plugins
from cede.problem.model import TwoLayerMDP

GROUP = "cede.worlds"
BUILT_IN = ("riverswim", "lane-driving")
OPTIONS = ("control_cost", "switch_cost")  # of the command line, that a registered world may have as arguments


def world_names() -> list[str]:
    """Return the names of all worlds: those of cede first. Nothing is imported for that."""
    return [*BUILT_IN, *(name for name in plugins.registered(GROUP) if name not in BUILT_IN)]


def registered_world(owner: str, name: str) -> Callable[..., Any]:
    """Return the function that makes a world which an installed package registered. owner: who is named in errors."""
    make = plugins.load(owner, GROUP, name)
    if make is None:
        check.fail(owner, "world", check.show(name), check.one_of(world_names(), name))
    check.function(owner, f"the world {check.show(name)}", make, "a function that returns a TwoLayerMDP")
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError) as error:
        check.fail(owner, f"the world {check.show(name)}", check.show(make), f"a function without required arguments ({error})")
    result: Callable[..., Any] = make
    return result


def options_of(make: Callable[..., Any]) -> list[str]:
    """Return the options of the command line that a registered world has as arguments."""
    return [name for name in OPTIONS if name in inspect.signature(make).parameters]


def made_world(owner: str, name: str, options: dict[str, float]) -> TwoLayerMDP:
    """Make a registered world, and return it. options: values of those arguments that it has."""
    make = registered_world(owner, name)
    given = {one: value for one, value in options.items() if one in options_of(make)}
    return check.instance(owner, f"what the world {check.show(name)} returned", make(**given), TwoLayerMDP)
