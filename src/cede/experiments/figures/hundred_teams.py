"""Figure `hundred-teams`: regret with a hundred teams."""

from itertools import product
from pathlib import Path

from cede.experiments import style
from cede.experiments.drawing import draw_curves, finish
from cede.experiments.figure import Figure, Options, Part, Row
from cede.experiments.runs import river
from cede.experiments.tables import all_rows

TEAMS, QUICK_TEAMS = 100, 30
EPISODES, QUICK_EPISODES = 10_000, 150


def parts(options: Options) -> list[Part]:
    episodes, teams = options.choose("episodes", EPISODES, QUICK_EPISODES), QUICK_TEAMS if options.quick else TEAMS
    return [river.fleet_part(name, teams, episodes, seed) for name, seed in product(river.LEARNERS, options.seeds(1, 1))]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, axes = style.figure(1, width=4.6, height=3.3)
    draw_curves(axes, rows)
    axes.set_ylabel("total regret of all teams")
    axes.legend(fontsize=8)
    note = f"RiverSwim, printed radii, {rows[0]['teams']} teams of agents p and 1 - p with p uniform per team."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "hundred-teams",
    "Total regret with 100 teams",
    "With a hundred teams the shared belief about the river is learned in no time; UCRL2 learns it a hundred times.",
    parts,
    all_rows,
    draw,
)
