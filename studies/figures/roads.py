"""Figure `roads`: one random road for each traffic level of the lane driving task."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from cede.worlds import road
from cede.worlds.pictures import draw_road, legend_handles
from studies import style
from studies.drawing import finish
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.tables import all_rows, select

ROWS = 11
WORDS = {"no-car": "no cars", "light": "light traffic", "heavy": "heavy traffic"}


def parts(options: Options) -> list[Part]:
    arguments = [{"traffic": traffic, "seed": options.seed + level} for level, traffic in enumerate(road.LEVELS)]
    return [Part("figures.roads:sample", a, 1, f"road, {a['traffic']}") for a in arguments]


def sample(traffic: str, seed: int, progress: Callable[[int], None]) -> Outcome:
    """Draw one road at random; return its rows "road". traffic: the level in which it starts."""
    along = road.sample_road(ROWS, traffic, seed)
    progress(1)
    return {"road": road_rows(along, {"traffic": traffic, "seed": seed})}


def road_rows(along: road.Road, about: Row) -> list[Row]:
    """Return one row of the table for each row of a road: its traffic level and its three cells. about: columns that all get."""
    return [
        {**about, "row": r, "level": int(along.levels[r]), **{f"cell_{lane}": int(along.cells[r, lane]) for lane in range(3)}}
        for r in range(len(along.levels))
    ]


def road_of(rows: Sequence[Row]) -> road.Road:
    """Return the road from its rows in a table; the inverse of `road_rows`."""
    cells = np.array([[row[f"cell_{lane}"] for lane in range(3)] for row in rows])
    return road.Road(np.array([row.get("level", 0) for row in rows]), cells)


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(3, width=3.6, height=4.2)
    for axes, traffic in zip(panels, road.LEVELS, strict=True):
        draw_road(axes, road_of(select(rows, traffic=traffic)), f"{WORDS[traffic]}\nat the start")
    picture.legend(handles=legend_handles()[:4], loc="outside upper center", ncols=4, columnspacing=1.0, handlelength=1.5)
    note = f"Three roads of {ROWS} rows, drawn at random with the probabilities of the paper's Appendix D. The car starts below, "
    note += "in the middle. Costs: grass 2, stone 4, car 10."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "roads",
    "Roads of the obstacle task",
    "Roads consist of cells of road, grass, stone and cars. The traffic at the start determines the expected number of cars.",
    parts,
    partial(all_rows, kind="road"),
    draw,
)
