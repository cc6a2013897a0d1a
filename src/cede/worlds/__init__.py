"""The paper's two tasks as ready-made problems: lane driving (obstacle avoidance) and RiverSwim, with one team or many.

lane_driving, road, drivers, pictures    the car, its road, the human and the machine, and drawings of them
machine.npy, train_machine               the machine's policy as data, and the script that trains it
riverswim                                the river
"""

from cede.worlds.lane_driving import lane_driving as lane_driving
from cede.worlds.lane_driving import lane_driving_teams as lane_driving_teams
from cede.worlds.riverswim import riverswim as riverswim
from cede.worlds.riverswim import riverswim_teams as riverswim_teams

__all__ = ["lane_driving", "lane_driving_teams", "riverswim", "riverswim_teams"]
