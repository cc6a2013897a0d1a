"""Drawings of lane driving with Matplotlib: a road, and a drive along it, coloured by who drove.

The colours can be told apart by people who are colour-blind.
"""

from typing import Any

from cede.worlds import road
from cede.worlds.lane_driving import Drive

DRIVER_COLOURS = {"machine": "#0072B2", "human": "#E69F00"}
CELL_COLOURS = {"road": "#F2F2F2", "grass": "#A6D3A0", "stone": "#8C8C8C", "car": "#A63D40"}
CELL_MARKS = {"road": "", "grass": "", "stone": "o", "car": "s"}


def draw_road(axes: Any, along: road.Road, title: str = "", size: float = 1.0) -> None:
    """Draw a road on Matplotlib axes, row 0 at the bottom. Stones and cars also get a mark, to be seen in a grey print.

    size: of marks, smaller for small panels.
    """
    for row, cells in enumerate(along.cells):
        for lane, cell in enumerate(cells):
            kind = road.CELLS[cell]
            axes.fill(
                [lane, lane + 1, lane + 1, lane], [row, row, row + 1, row + 1], facecolor=CELL_COLOURS[kind], edgecolor="white"
            )
            if CELL_MARKS[kind]:
                axes.plot(lane + 0.5, row + 0.5, CELL_MARKS[kind], color="white", markersize=5 * size, markeredgewidth=0)
    axes.set_xlim(0, 3)
    axes.set_ylim(0, len(along.cells))
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(title, fontsize=9)


def draw_drive(
    axes: Any, driven: Drive, agents: tuple[str, ...] = ("machine", "human"), title: str = "", size: float = 1.0
) -> None:
    """Draw a road and the car's way along it, each step in the colour of the driver; `agents` are the names of the members.

    size: of lines and marks, smaller for small panels.
    """
    draw_road(axes, driven.road, title, size)
    for t, agent in enumerate(driven.agents):
        x = driven.lanes[t : t + 2] + 0.5
        colour = DRIVER_COLOURS.get(agents[agent], "black")
        axes.plot(x, [t + 0.5, t + 1.5], color="white", linewidth=5 * size, solid_capstyle="round", zorder=3)
        axes.plot(x, [t + 0.5, t + 1.5], color=colour, linewidth=3 * size, solid_capstyle="round", zorder=4)
    axes.plot(driven.lanes[0] + 0.5, 0.5, "^", color="black", markersize=6 * size, zorder=5)


def legend_handles() -> list[Any]:
    """Return handles for a Matplotlib legend: one for each type of cell and one for each driver."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    cells = [Patch(facecolor=colour, edgecolor="#CCCCCC", label=name) for name, colour in CELL_COLOURS.items()]
    drivers = [Line2D([], [], color=colour, linewidth=3, label=f"{name} drives") for name, colour in DRIVER_COLOURS.items()]
    return [*cells, *drivers]
