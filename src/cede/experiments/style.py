"""Colours and line styles of learners, captions, and picture files: the same for all figures, safe for the colour-blind."""

from pathlib import Path
from textwrap import fill
from typing import Any

from cede._base.extras import pyplot, save_picture
from cede.worlds.pictures import DRIVER_COLOURS

COLOURS = {
    "UCRL2-MC": "#D55E00",
    "UCRL2 (appendix)": "#009E73",
    "UCRL2 (same-form)": "#CC79A7",
    "human": DRIVER_COLOURS["human"],
    "machine": DRIVER_COLOURS["machine"],
}
LINES = {"UCRL2-MC": "-", "UCRL2 (appendix)": "--", "UCRL2 (same-form)": (0, (5, 1)), "human": "-.", "machine": ":"}

RC = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E5E5E5",
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.hashsalt": "cede",
}


BEHIND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5}  # the box of a text that stands on curves


def label(name: str) -> str:
    """Return the name of a learner, or of an agent alone, for a legend."""
    return name if name.startswith("UCRL2") else f"{name} alone"


def figure(columns: int, *, width: float, height: float, rows: int = 1, **options: Any) -> tuple[Any, Any]:
    """Make a picture with rows x columns panels. width, height: in inches; options: of `pyplot.subplots`."""
    plt = pyplot()
    plt.rcParams.update(RC)
    picture, axes = plt.subplots(rows, columns, figsize=(width, height), layout="constrained", **options)
    return picture, axes


def lower_edge(picture: Any) -> float:
    """Return how far down the drawing reaches, in parts of the picture's height; negative below its lower edge."""
    picture.canvas.draw()
    return float(picture.get_tightbbox().y0 / picture.get_figheight())


def caption(picture: Any, text: str) -> None:
    """Write small print under all that was drawn so far."""
    width = int(23 * picture.get_figwidth())
    below = lower_edge(picture) - 0.02
    picture.text(0.5, below, fill(text, width), ha="center", va="top", fontsize=6, color="#555555")


def stamp_quick(picture: Any) -> None:
    """Write under the picture that it comes from a quick run, so that nobody takes it for the real one."""
    box = {"facecolor": "#B00020", "edgecolor": "none", "boxstyle": "round"}
    below = lower_edge(picture) - 0.03  # legends outside stand above, and would move onto anything put there
    picture.text(0.5, below, "QUICK RUN: few episodes", ha="center", va="top", fontsize=8, color="white", bbox=box)


def save(picture: Any, path: Path) -> list[Path]:
    """Write a picture as PNG and SVG and close it. path: without ending. Returns the two files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in ("png", "svg"):
        written.append(save_picture(picture, path.with_suffix(f".{kind}"), bbox_inches="tight"))
    pyplot().close(picture)
    return written
