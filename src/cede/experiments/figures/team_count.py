"""Figure `team-count`: UCRL2-MC's regret relative to UCRL2's as the number of teams grows."""

from collections.abc import Sequence

from cede.experiments.figure import Outcome, Part, Row
from cede.experiments.figures.ratio_figure import ratio_figure
from cede.experiments.runs import river


def middle_and_end(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    """Make a table of two points of each curve: the last one, and the one halfway, where `hundred-teams` ends, for comparison."""
    rows = []
    for _, outcome in outcomes:
        curve = outcome["curve"]
        middle = min(curve, key=lambda row: abs(row["episode"] - row["episodes"] / 2))
        rows += [middle, curve[-1]] if len(curve) > 1 else curve
    return rows


FIGURE = ratio_figure(
    "team-count",
    "Ratio of UCRL2-MC's regret to UCRL2's as teams are added",
    "Teams that use UCRL2-MC share what they see of the environment. Does it gain on UCRL2 as teams are added?",
    part=river.fleet_part,
    column="teams",
    axis_label="number of teams",
    note="RiverSwim; each team has two agents, who swim right with probability p and 1 - p, where p is drawn for each team, "
    "uniform in (0, 1). Radii as printed; teams tell one another after every episode what they saw.",
    table=middle_and_end,
)
