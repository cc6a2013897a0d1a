"""The look of pictures: fonts and axes, colours and lines of learners."""

from typing import Any

from cede._base import run_picture
from cede._base.run_picture import LOOK

# Eight colours that colour-blind people can tell apart, and lines that differ where colours do not print.
COLOURS = (*run_picture.COLOURS, "#E69F00", "#56B4E9", "#000000", "#882255")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1.2, 1.2)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
RC: dict[str, Any] = {  # settings of Matplotlib
    **LOOK,
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.title_fontsize": 8,
    "legend.handlelength": 2.6,
    "savefig.dpi": 200,
    "svg.hashsalt": "cede",
}


def look(index: int) -> dict[str, Any]:
    """Return colour and line of a learner; no two of 48 are the same."""
    colours = len(COLOURS)
    return {"color": COLOURS[index % colours], "linestyle": LINES[(index % colours + index // colours) % len(LINES)]}
