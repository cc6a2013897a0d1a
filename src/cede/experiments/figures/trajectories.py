"""Figure `trajectories`: drives of one team early and late, coloured by who drives."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cede.experiments import style
from cede.experiments.drawing import finish
from cede.experiments.figure import Figure, Options, Outcome, Part, Row
from cede.experiments.figures.roads import road_of
from cede.experiments.figures.single_team import EPISODES, QUICK_EPISODES
from cede.experiments.runs import lane
from cede.experiments.tables import select, values
from cede.worlds import road
from cede.worlds.lane_driving import Drive
from cede.worlds.pictures import draw_drive, legend_handles

# As in the paper each of the three moments is shown on a road of another initial traffic level.
SHOWN = {"printed": "as printed", "schedule": "authors' schedule", "constant": "0.1 and 0.01"}


def parts(options: Options) -> list[Part]:
    one = replace(options, repeats=1)
    return lane.team_parts(one, ["UCRL2-MC"], lane.RADII, EPISODES, QUICK_EPISODES)


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    settings = ("radius", "scale", "delta", "episodes")
    return [
        {**row, **{name: outcome["curve"][0][name] for name in settings}} for _, outcome in outcomes for row in outcome["drive"]
    ]


def drive_of(rows: Sequence[Row]) -> Drive:
    """Return a drive from the rows of the table, one for each row of the road."""
    lanes, agents = np.array([row["lane"] for row in rows]), np.array([row["agent"] for row in rows[:-1]])
    return Drive(road_of(rows), lanes, agents, rows[0]["cost"])


def draw(rows: list[Row], path: Path) -> list[Path]:
    moments = values(rows, "episode")
    columns = len(lane.COSTS) * len(moments)
    picture, panels = style.figure(columns, rows=len(lane.RADII), width=1.25 * columns + 0.4, height=9.6, squeeze=False)
    for i, radii in enumerate(lane.RADII):
        for j, (control, switch) in enumerate(lane.COSTS):
            for m, k in enumerate(moments):
                axes = panels[i, j * len(moments) + m]
                traffic = road.LEVELS[m % 3]
                here = select(rows, radii=radii, control_cost=control, switch_cost=switch, episode=k, traffic=traffic)
                draw_drive(axes, drive_of(here), title=f"$k$ = {k:,}\n{traffic}")
                if m == 0:
                    axes.set_ylabel(f"{SHOWN[radii]}\n{lane.cost_label(control, switch)}", fontsize=8)
    picture.legend(handles=legend_handles(), loc="outside upper center", ncols=6, fontsize=8)
    note = "UCRL2-MC in lane driving. Rows: radii as printed, the authors' schedule, constant scales 0.1 and 0.01."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "trajectories",
    "Who drives early and late",
    "Blue: the machine drives, orange: the human. With scaled radii the human is called where traffic gets heavy, and less often "
    "when control and hand-overs cost something; with the printed radii the choice stays arbitrary.",
    parts,
    table,
    draw,
)
