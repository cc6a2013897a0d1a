"""Figure `hundred-teams`: regret with a hundred teams."""

from itertools import product
from pathlib import Path

from studies import style
from studies.drawing import draw_curves, finish, from_zero, legend_over
from studies.figure import Figure, Options, Part, Row
from studies.runs import river
from studies.tables import all_rows

TEAMS, QUICK_TEAMS = 100, 30
EPISODES, QUICK_EPISODES = 10_000, 150
REPEATS, QUICK_REPEATS = 3, 1


def parts(options: Options) -> list[Part]:
    episodes, teams = options.choose("episodes", EPISODES, QUICK_EPISODES), QUICK_TEAMS if options.quick else TEAMS
    runs = product(river.LEARNERS, options.seeds(REPEATS, QUICK_REPEATS))
    return [river.fleet_part(name, teams, episodes, seed) for name, seed in runs]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, axes = style.figure(1, width=4.8, height=3.0)
    ends = draw_curves(axes, rows)
    from_zero(axes)
    axes.set_ylabel("total regret of all teams")
    style.label_ends(axes, [(end, f"{end:,.0f}", style.COLOURS[name]) for name, end in ends.items()])
    legend_over(axes)
    note = f"RiverSwim, {rows[0]['teams']} teams of two agents, who swim right with probability p and 1 - p, where p is drawn for "
    note += "each team, "
    return finish(picture, rows, f"{note}uniform in (0, 1). Radii as printed. Numbers at the right: after the last episode.", path)


FIGURE = Figure(
    "hundred-teams",
    "Total regret of a large fleet",
    "Teams that use UCRL2-MC learn one river together; with UCRL2 each team learns it anew, with each of its agents.",
    parts,
    all_rows,
    draw,
)
