"""The paper's two tasks as ready-made problems, and its fleets of teams."""

from cede.worlds.lane_driving import lane_driving as lane_driving
from cede.worlds.lane_driving import lane_driving_teams as lane_driving_teams
from cede.worlds.riverswim import riverswim as riverswim
from cede.worlds.riverswim import riverswim_teams as riverswim_teams

__all__ = ["lane_driving", "lane_driving_teams", "riverswim", "riverswim_teams"]
