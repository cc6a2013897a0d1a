"""Figure `roads`: three realisations of the environment."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cede.experiments import style
from cede.experiments.core import Figure, Options, Outcome, Part, Row
from cede.experiments.curves import finish, select
from cede.worlds import road
from cede.worlds.pictures import draw_road, legend_handles

ROWS = 11


def parts(options: Options) -> list[Part]:
    arguments = [{"traffic": traffic, "seed": options.seed + level} for level, traffic in enumerate(road.LEVELS)]
    return [Part("figures.roads:sample", a, 1, f"road, {a['traffic']}") for a in arguments]


def sample(traffic: str, seed: int, progress: Callable[[int], None]) -> Outcome:
    along = road.sample_road(ROWS, traffic, seed)
    progress(1)
    return {"road": road_rows(along, {"traffic": traffic, "seed": seed})}


def road_rows(along: road.Road, about: Row) -> list[Row]:
    return [
        {**about, "row": r, "level": int(along.levels[r]), **{f"cell_{lane}": int(along.cells[r, lane]) for lane in range(3)}}
        for r in range(len(along.levels))
    ]


def road_of(rows: Sequence[Row]) -> road.Road:
    cells = np.array([[row[f"cell_{lane}"] for lane in range(3)] for row in rows])
    return road.Road(np.array([row.get("level", 0) for row in rows]), cells)


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [row for _, outcome in outcomes for row in outcome["road"]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(3, width=4.4, height=4.6)
    for axes, traffic in zip(panels, road.LEVELS, strict=True):
        draw_road(axes, road_of(select(rows, traffic=traffic)), rf"$\gamma_0$ = {traffic}")
    picture.legend(handles=legend_handles()[:4], loc="outside upper center", ncols=4, fontsize=8)
    finish(
        picture, rows, "Three roads, eleven rows each, drawn from the tables of Appendix D; the car starts below, in the middle."
    )
    return style.save(picture, path)


FIGURE = Figure(
    "roads",
    "Three realisations of the environment",
    "What the drivers meet: cells of road, grass (2), stone (4) and cars (10), more cars where traffic is heavy.",
    parts,
    table,
    draw,
)
