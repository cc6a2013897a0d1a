"""Figure `team-size`: UCRL2-MC's regret relative to UCRL2's as the team grows."""

from studies.figure import Part
from studies.figures.ratio_figure import ratio_figure
from studies.runs import river


def one_team(learner: str, n: int, episodes: int, seed: int) -> Part:
    """Return the run of one team of n agents, which swim right with probability 0, 1 / (n - 1), ..., 1."""
    return river.team_part(learner, [i / (n - 1) for i in range(n)], episodes, seed)


FIGURE = ratio_figure(
    "team-size",
    "Ratio of UCRL2-MC's regret to UCRL2's as agents are added",
    "Every new agent costs UCRL2 a table of its own for the environment; UCRL2-MC has to learn only what the agent does.",
    part=one_team,
    column="agents",
    axis_label="number of agents in the team",
    note="RiverSwim, one team, whose agents swim right with probabilities evenly spaced from 0 to 1. Radii as printed.",
)
