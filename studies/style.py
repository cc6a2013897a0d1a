"""Colours, line styles, axes, captions and picture files: the same for all figures, safe for the colour-blind, readable in print.

No picture is wider than WIDTH, and no letter smaller than SMALL: so it can be printed over both columns of a page as it is.
"""

from collections.abc import Sequence
from functools import partial
from math import ceil, floor, log10
from pathlib import Path
from textwrap import fill
from typing import Any

from cede.comparison.look import RC
from cede.worlds.pictures import DRIVER_COLOURS
from studies.files import replace_whole

WIDTH = 7.0  # inches: of a picture with several panels
ONE_PANEL = 4.2  # inches: of a picture with one panel
SMALL = 7.0  # points: captions, labels at curves
CAPTION_LINES = 2  # at most, under a picture
DESCRIPTION = "Description"  # where a picture file holds its settings

BLUE, SKY, GREEN, YELLOW, ORANGE, RED, PINK, GREY = (  # of Okabe and Ito, and a grey
    "#0072B2",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#E69F00",
    "#D55E00",
    "#CC79A7",
    "#888888",
)
COLOURS = {
    "UCRL2-MC": RED,
    "UCRL2 (appendix)": GREEN,
    "UCRL2 (same-form)": PINK,
    "UCRL2-MC, not shared": ORANGE,
    "posterior sampling": BLUE,
    "human": DRIVER_COLOURS["human"],
    "machine": DRIVER_COLOURS["machine"],
}
LINES: dict[str, Any] = {
    "UCRL2-MC": "-",
    "UCRL2 (appendix)": (0, (5, 2)),
    "UCRL2 (same-form)": (0, (5, 1, 1, 1)),
    "UCRL2-MC, not shared": (0, (1, 1)),
    "posterior sampling": (0, (4, 1.5)),
    "human": (0, (2, 1)),
    "machine": (0, (1, 1)),
}

# Words that a stranger cannot know, and the sentence that goes into the settings of every picture in which one is seen. A sentence
# may use words that come later.
GLOSSARY = {
    "regret": "Regret: expected cost above the best policy's.",
    "(same-form)": "UCRL2 (appendix), (same-form): "
    "with the radii of the paper's appendix, or with radii of the form of UCRL2-MC's.",
    "schedule": "Authors' schedule: radii scaled as in the authors' code, no guarantee.",
    "0.1 and 0.01": "Times 0.1 and 0.01: the radii of agents and of the environment are multiplied by these factors; no guarantee.",
    "σ": "σ: standard deviation of the human's error about the cost of a cell ahead.",
    "structured": "Structured: with declared structure.",
    "Bernstein": "Bernstein: intervals that follow the empirical variance.",
    "KL": "KL: confidence sets that are balls of relative entropy.",
    "scaled 0.1, 0.01": "Scaled 0.1, 0.01: "
    "the radii of agents and of the environment are multiplied by these factors; no guarantee.",
    "recommended": "Recommended: with radii calibrated from the data, no guarantee.",
    "lane driving": "Lane driving: the paper's obstacle task.",
    "radii": "Radii: sizes of the confidence sets; as printed: as in the paper's text.",
}

RADII = {  # of confidence sets in lane driving
    "printed": "radii as printed",
    "schedule": "authors' schedule",
    "constant": "radii times\n0.1 and 0.01",
}

BEHIND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5}  # the box of a text that stands on curves


def label(name: str) -> str:
    """Return the name of a learner, or of an agent alone, for a legend."""
    if name.startswith("p="):
        return f"agent {name.removeprefix('p=').removesuffix(' alone')} alone"
    return f"{name} alone" if name in DRIVER_COLOURS else name


def costs(control_cost: float, switch_cost: float) -> str:
    """Return the costs of a step of human control and of a hand-over in words, for titles of panels."""
    if control_cost == switch_cost == 0:
        return "control and hand-overs are free"
    return f"human control costs {control_cost:g}, a hand-over {switch_cost:g}"


def pyplot() -> Any:
    """Return matplotlib.pyplot, set up to draw into files without a display, with the look of all figures."""
    import matplotlib as mpl

    mpl.use("Agg", force=False)
    from matplotlib import pyplot as plt

    settings: Any = plt.rcParams
    settings.update(RC)
    return plt


def figure(columns: int, *, width: float, height: float, rows: int = 1, **options: Any) -> tuple[Any, Any]:
    """Make a picture with rows x columns panels. width, height: in inches; options: of `pyplot.subplots`."""
    picture, axes = pyplot().subplots(rows, columns, figsize=(width, height), layout="constrained", **options)
    return picture, axes


def mosaic(layout: Sequence[Sequence[str]], *, width: float, height: float, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Make a picture whose panels may span several rows or columns. layout: the name of the panel in each place; options: of
    `pyplot.subplot_mosaic`. Returns the picture and the panels by name.
    """
    rows, size = [list(row) for row in layout], (width, height)
    picture, panels = pyplot().subplot_mosaic(rows, figsize=size, layout="constrained", **options)
    return picture, panels


def plain_numbers(picture: Any) -> None:
    """Label all axes with plain numbers, thousands with commas, and no more of them than there is space for.

    Axes that have labels of their own are left as they are.
    """
    from matplotlib import ticker

    show = ticker.FuncFormatter(lambda value, _: f"{value:,.10g}")
    for axes in picture.axes:
        if axes.get_subplotspec() is None:  # a colour bar
            continue
        columns = axes.get_subplotspec().get_gridspec().ncols
        for axis, most in ((axes.xaxis, int(picture.get_figwidth() / columns / 0.75)), (axes.yaxis, 7)):
            formatter = axis.get_major_formatter()
            if isinstance(formatter, ticker.LogFormatter):
                few_powers(axis, show)
            elif isinstance(axis.get_major_locator(), ticker.AutoLocator):
                axis.set_major_locator(ticker.MaxNLocator(max(2, most), steps=[1, 2, 2.5, 5, 10]))
                if isinstance(formatter, ticker.ScalarFormatter):
                    axis.set_major_formatter(show)


def few_powers(axis: Any, show: Any) -> None:
    """Label a logarithmic axis: powers of ten, with 2 and 5 between them if it is short or has one of them. show: the formatter."""
    from matplotlib import ticker

    low, high = axis.get_view_interval()
    if axis.get_transform().base == 10:
        short = high < 30 * low or floor(log10(high)) - ceil(log10(low)) < 1
        axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,), numticks=8))
    axis.set_major_formatter(show)
    axis.set_minor_formatter(ticker.NullFormatter())


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Move numbers between 0 and 1 apart, so that neighbours differ by at least a gap. Keeps their order, and their index."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    up = [places[i] for i in order]
    down = up.copy()
    for i in range(1, len(up)):
        up[i] = max(up[i], up[i - 1] + gap)
    for i in range(len(down) - 2, -1, -1):
        down[i] = min(down[i], down[i + 1] - gap)
    middle = [(a + b) / 2 for a, b in zip(up, down, strict=True)]
    inside = [max(gap * i, min(place, 1 - gap * (len(middle) - 1 - i))) for i, place in enumerate(middle)]
    moved = dict(zip(order, inside, strict=True))
    return [moved[i] for i in range(len(places))]


def label_ends(axes: Any, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write texts beside the right edge of a panel, at the ends of its curves, and move apart those that would overlap.

    ends: value, text and colour of each. Call it when limits and scales of the panel are set.
    """
    to_part = axes.transAxes.inverted()
    edge = axes.get_xlim()[1]
    at = [float(to_part.transform(axes.transData.transform((edge, value)))[1]) for value, _, _ in ends]
    gap = 1.4 * SMALL / 72 / (axes.get_position().height * axes.figure.get_figheight())  # the layout may make panels less high
    for (_, text, colour), y, place in zip(ends, at, spread(at, gap), strict=True):
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
        axes.annotate(
            text,
            (1.0, y),
            (1.07, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=darker(colour),
            fontsize=SMALL,
            va="center",
            annotation_clip=False,
            arrowprops=line,
        )


def darker(colour: str) -> Any:
    """Return a colour mixed with black, for letters, which are thinner than curves."""
    from matplotlib.colors import to_rgb

    return tuple(0.7 * part for part in to_rgb(colour))


def lower_edge(picture: Any) -> float:
    """Return how far down the drawing reaches, in parts of the picture's height; negative below its lower edge."""
    picture.draw_without_rendering()
    return float(picture.get_tightbbox().y0 / picture.get_figheight())


def seen_words(picture: Any) -> str:
    """Return all that is written in a picture, as one text."""
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in picture.findobj(Text) if text.get_visible())


def explained(words: str, note: str) -> str:
    """Return a note with a sentence for each word of the GLOSSARY that is seen and that the note does not explain itself.

    words: all that is written in the picture.
    """
    text = note
    for word, sentence in GLOSSARY.items():
        read = words + text
        if (word in read or word in read.lower()) and f"{sentence.split(':')[0]}:".lower() not in text.lower():
            text += f" {sentence}"
    return text


def caption(picture: Any, marks: Sequence[str], intervals: str) -> None:
    """Write at most CAPTION_LINES lines of small print under all that was drawn so far: intervals, and as many marks as fit.

    marks: sentences that say what the marks are, the most important one first; intervals: a sentence, or empty.
    """
    width, text = int(19 * picture.get_figwidth()), intervals
    for sentence in marks:
        longer = f"{sentence} {text}".strip() if text == intervals else f"{text} {sentence}"
        text = longer if fill(longer, width, break_on_hyphens=False).count("\n") < CAPTION_LINES else text
    below = lower_edge(picture) - 0.08 / picture.get_figheight()
    lines = fill(text, width, break_on_hyphens=False)
    picture.text(0.5, below, lines, ha="center", va="top", fontsize=SMALL, color="#444444", gid="caption")


def stamp_quick(picture: Any) -> None:
    """Write under the picture that it comes from a quick run, so that nobody takes it for the real one."""
    box = {"facecolor": "#B00020", "edgecolor": "none", "boxstyle": "round"}
    below = lower_edge(picture) - 0.03  # legends outside stand above, and would move onto anything put there
    picture.text(0.5, below, "QUICK RUN: few episodes", ha="center", va="top", fontsize=8, color="white", bbox=box)


def settings_of(path: Path) -> str:
    """Return the settings that a PNG file of a picture holds; empty if there are none."""
    from PIL import Image

    with Image.open(path) as image:
        return str(image.info.get(DESCRIPTION, ""))


def save(picture: Any, path: Path) -> list[Path]:
    """Write a picture as PNG and SVG, with its label as description, and close it. path: without ending. Returns the two files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = []
    look: dict[str, Any] = {"dpi": 200, "bbox_inches": "tight", "metadata": {DESCRIPTION: picture.get_label()}}
    for kind in ("png", "svg"):
        written.append(path.with_suffix(f".{kind}"))
        replace_whole(written[-1], partial(picture.savefig, **look, format=kind))
    pyplot().close(picture)
    return written
