"""Worlds by name, for the command line and for studies in files: the one place that turns a name into a function."""

from collections.abc import Callable, Mapping
from typing import Any

from cede._base import check
from cede.problem.model import TwoLayerMDP
from cede.worlds.lane_driving import lane_driving, lane_driving_teams
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
    "riverswim": riverswim,
    "lane-driving": lane_driving,
    "support-desk": support_desk,
    "riverswim-team": riverswim_team,
    "lane-driving-team": lane_driving_team,
}


def world_function(owner: str, place: str, name: Any) -> Callable[..., TwoLayerMDP]:
    """Return the function that makes the world with this name. owner, place: for the error if there is none."""
    return WORLDS[check.choice(owner, place, name, tuple(WORLDS))]
