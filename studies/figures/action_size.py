"""Figure `action-size`: UCRL2-MC's regret relative to UCRL2's as the action space grows."""

from studies.figure import Part
from studies.figures.ratio_figure import ratio_figure
from studies.runs import river

MACRO = (1, 2, 3, 4)  # steps of the river per decision: 2, 4, 8, 16 actions
AGENTS = (0.0, 1.0)


def one_team(learner: str, macro: int, episodes: int, seed: int) -> Part:
    """Return the run of one team that decides once for so many steps of the river."""
    return river.team_part(learner, AGENTS, episodes, seed, macro=macro)


FIGURE = ratio_figure(
    "action-size",
    "Ratio of UCRL2-MC's regret to UCRL2's as actions are added",
    "UCRL2-MC learns a table for every action, UCRL2 one for every agent. Does the advantage of UCRL2-MC shrink as actions "
    "are added? Where the ratio is below 1, UCRL2-MC has the lower regret.",
    part=one_team,
    column="actions",
    axis_label="number of actions",
    note="RiverSwim, deciding once for 1, 2, 3 or 4 strokes (2, 4, 8 or 16 sequences), 20 decisions an episode; one agent always "
    "swims right, one always left. Radii as printed. A decision can cost up to 4; Theorem 2 is for costs up to 1.",
    sizes=MACRO,
    quick_sizes=MACRO,
    quick_episodes=400,
    ticks=[2**m for m in MACRO],
)
