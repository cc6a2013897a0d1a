"""Worlds by name, for the command line and for studies in files: those of cede, and those that installed packages register."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from cede._base import check
from cede.problem.model import TwoLayerMDP
from cede.worlds.lane_driving import lane_driving, lane_driving_teams
from cede.worlds.relay import relay
from cede.worlds.riverswim import riverswim, riverswim_teams
from cede.worlds.support_desk import support_desk


def riverswim_team(*, seed: int = 0, switch_cost: Any = 0.0) -> TwoLayerMDP:
    """Return one team of `riverswim_teams`, drawn by a seed."""
    return riverswim_teams(1, seed=seed, switch_cost=switch_cost)[0]


def lane_driving_team(*, seed: int = 0, control_cost: float = 0.0, switch_cost: Any = 0.0) -> TwoLayerMDP:
    """Return one team of `lane_driving_teams`, drawn by a seed."""
    return lane_driving_teams(1, seed=seed, control_cost=control_cost, switch_cost=switch_cost)[0]


# Functions that return a TwoLayerMDP, by name. One that has an argument `seed` draws a problem anew for every seed.
WORLDS: Mapping[str, Callable[..., TwoLayerMDP]] = {
    "riverswim": partial(riverswim, agents=(0.3, 0.7)),  # two agents of whom neither is perfect
    "lane-driving": lane_driving,
    "support-desk": support_desk,
    "relay": relay,
    "riverswim-team": riverswim_team,
    "lane-driving-team": lane_driving_team,
}


GROUP = "cede.worlds"  # of entry points, by which installed packages register worlds of their own
OPTIONS = ("control_cost", "switch_cost")  # of the command line, that a world may have as arguments


def world_names() -> list[str]:
    """Return the names of all worlds: those of cede first."""
    return [*WORLDS, *(name for name in registered() if name not in WORLDS)]


def registered() -> dict[str, list[EntryPoint]]:
    """Return the entry points of other packages, by name in order. Several packages may use the same name.

    Nothing is imported, so a broken package fails only when its world is used.
    """
    entries: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        if entry not in entries.setdefault(entry.name, []):  # an editable install may be listed twice
            entries[entry.name].append(entry)
    return dict(sorted(entries.items()))


def load_registered(owner: str, name: str) -> Any:
    """Import the world that another package registered under a name; None if there is none. owner: for errors."""
    entries = registered().get(name, [])
    if not entries:
        return None
    if len(entries) > 1:
        sources = " and ".join(source_of(entry) for entry in entries)
        check.fail(owner, f"the entry point {check.show(name)} of {GROUP}", f"registered by {sources}", "registered once")
    try:
        return entries[0].load()
    except (Exception, SystemExit) as error:  # any error of the package's import
        why = " ".join(check.printable(f"{type(error).__name__}: {error}").split())
        place = f"the entry point {check.show(name)} of {GROUP}, registered by {source_of(entries[0])},"
        raise ValueError(f"{owner}: {place} is broken, must be something that can be imported ({why})") from error


def source_of(entry: EntryPoint) -> str:
    """Return the package and the value of an entry point, for errors."""
    package = "a package" if entry.dist is None else entry.dist.name
    return check.printable(f"{package} as {entry.value}")


def world_function(owner: str, place: str, name: Any) -> Callable[..., TwoLayerMDP]:
    """Return the function that makes the world with this name, of cede or of an installed package.

    owner, place: for the error if there is none.
    """
    if not isinstance(name, str):
        check.fail(owner, place, check.show(name), check.one_of(world_names()))
    if name in WORLDS:
        return WORLDS[name]
    make = load_registered(owner, name)
    if make is None:
        check.fail(owner, place, check.show(name), check.one_of(world_names(), name))
    check.function(owner, f"the world {check.show(name)}", make, "a function that returns a TwoLayerMDP")
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError) as error:
        check.fail(owner, f"the world {check.show(name)}", check.show(make), f"a function without required arguments ({error})")
    result: Callable[..., TwoLayerMDP] = make
    return result


def made_world(owner: str, name: str, options: Mapping[str, Any]) -> TwoLayerMDP:
    """Make a world. options: values by name; those that the world does not take are ignored."""
    make = world_function(owner, "world", name)
    arguments = {option: value for option, value in options.items() if option in inspect.signature(make).parameters}
    return check.instance(owner, f"what the world {check.show(name)} returned", make(**arguments), TwoLayerMDP)
