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
    "Ratio of UCRL2-MC's regret to UCRL2's for 3 to 10 teams",
    "The more teams share one environment, the more UCRL2-MC gains on UCRL2.",
    part=river.fleet_part,
    column="teams",
    axis_label="number of teams $N$",
    note="RiverSwim, printed radii, agents p and 1 - p with p uniform per team, synchronous rounds.",
    table=middle_and_end,
)
