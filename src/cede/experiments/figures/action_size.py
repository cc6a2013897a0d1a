"""Figure `action-size`: UCRL2-MC's regret relative to UCRL2's as the action space grows."""

from cede.experiments.figure import Part
from cede.experiments.figures.ratio_figure import ratio_figure
from cede.experiments.runs import river

MACRO = (1, 2, 3, 4)  # steps of the river per decision: 2, 4, 8, 16 actions
AGENTS = (0.0, 1.0)


def one_team(learner: str, macro: int, episodes: int, seed: int) -> Part:
    """Return the run of one team that decides once for so many steps of the river."""
    return river.team_part(learner, AGENTS, episodes, seed, macro=macro)


FIGURE = ratio_figure(
    "action-size",
    "Ratio of UCRL2-MC's regret to UCRL2's for 2, 4, 8 and 16 actions",
    "UCRL2-MC learns a table for every action, so its advantage shrinks as actions are added, but it stays in scale.",
    part=one_team,
    column="actions",
    axis_label="number of actions",
    note="RiverSwim in macro steps of m = 1 to 4 steps (20 macro steps an episode), printed radii, agents p = 0 and 1. "
    "A macro step can cost up to 4, which lies outside Theorem 2.",
    sizes=MACRO,
    quick_sizes=MACRO,
    quick_episodes=400,
    ticks=[2**m for m in MACRO],
)
