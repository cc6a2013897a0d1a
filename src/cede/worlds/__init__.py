"""The paper's two tasks as ready-made problems."""

from cede.worlds.lane_driving import lane_driving as lane_driving
from cede.worlds.riverswim import riverswim as riverswim

__all__ = ["lane_driving", "riverswim"]
