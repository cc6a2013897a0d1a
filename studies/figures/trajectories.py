"""Figure `trajectories`: drives of one team early and late, coloured by who drives."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from cede.worlds import road
from cede.worlds.lane_driving import Drive
from cede.worlds.pictures import draw_drive, legend_handles
from studies import style
from studies.drawing import finish
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.figures.roads import road_of
from studies.figures.single_team import EPISODES, QUICK_EPISODES
from studies.runs import lane
from studies.tables import select, values

WORDS = {"no-car": "no cars", "light": "light traffic", "heavy": "heavy traffic"}  # at the start
COLUMN = 1.12  # from one panel to the next, in widths of a panel


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
    moments = list(dict.fromkeys((min(values(rows, "episode")), max(values(rows, "episode")))))
    columns = list(product(lane.COSTS, road.LEVELS, moments))
    picture, panels = style.figure(len(columns), rows=len(lane.RADII), width=style.WIDTH, height=6.6, squeeze=False)
    for i, radii in enumerate(lane.RADII):
        for axes, ((control, switch), traffic, k) in zip(panels[i], columns, strict=True):
            here = select(rows, radii=radii, control_cost=control, switch_cost=switch, episode=k, traffic=traffic)
            driven = drive_of(here)
            draw_drive(axes, driven, size=0.6)
            axes.set_title(f"\n\n\nepisode\n{k:,}" if i == 0 else "", fontsize=style.SMALL)
            axes.set_xlabel(f"cost {driven.cost:.0f}" if driven.cost >= 10 else f"cost {driven.cost:.1f}", fontsize=style.SMALL)
        panels[i, 0].set_ylabel(style.RADII[radii].replace("\n", " "))
    for j, (pair, traffic, _) in enumerate(columns):
        if j % len(moments) == 0:
            heading(panels[0, j : j + len(moments)], WORDS[traffic], 26)
        if j % (len(moments) * len(road.LEVELS)) == 0:
            heading(panels[0, j : j + len(moments) * len(road.LEVELS)], style.costs(*pair), 39)
    picture.legend(handles=legend_handles(), loc="outside upper center", ncols=6)
    note = "UCRL2-MC in lane driving, machine known: the policies of an early and of a late episode, always on the same road for "
    note += "the same traffic at the start. Below each drive: its cost."
    return finish(picture, rows, note, path)


def heading(panels: Sequence[Any], text: str, above: float) -> None:
    """Write a heading over neighbouring panels. above: so many points over them, where their titles have left space."""
    shift = len(panels) * COLUMN / 2 - COLUMN / 2 + 0.5
    title = panels[0].annotate(text, (shift, 1.0), (0, above), xycoords="axes fraction", textcoords="offset points", ha="center")
    title.set_in_layout(False)


FIGURE = Figure(
    "trajectories",
    "Who drives early and late",
    "Blue: the machine drives, orange: the human. Each pair is one road, driven with the policy of an early and of a late "
    "episode: who drives where, with each kind of radii, and with and without costs of control and hand-over?",
    parts,
    table,
    draw,
)
