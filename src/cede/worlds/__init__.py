"""Ready-made problems: the paper's two tasks, lane driving (obstacle avoidance) and RiverSwim, a support desk and a relay.

lane_driving, road, drivers, pictures    the car, its road, the human and the machine, and drawings of them
machine.npy                              the machine's policy as data; studies/train_machine.py trains it
riverswim                                the river
relay                                    a corridor that no agent can cross alone
support_desk                             two models and a person who answer tickets
Changing (fleet/changing.py)             a world that changes at given episodes
by_name                                  all of them by name, for files and the command line
"""

from typing import TYPE_CHECKING, Any

from cede.worlds.lane_driving import lane_driving, lane_driving_teams
from cede.worlds.relay import relay
from cede.worlds.riverswim import riverswim, riverswim_teams
from cede.worlds.support_desk import support_desk

if TYPE_CHECKING:
    from cede.fleet.changing import Changing

__all__ = ["Changing", "lane_driving", "lane_driving_teams", "relay", "riverswim", "riverswim_teams", "support_desk"]


def __getattr__(name: str) -> Any:
    """Import `Changing` when it is first used: it loads Numba, which the worlds do not need."""
    if name == "Changing":
        from cede.fleet.changing import Changing

        return Changing
    raise AttributeError(f"module 'cede.worlds' has no attribute {name!r}")
