"""Draw curves and ratios from finished tables, put the small print under a picture, and save it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cede._base.arrays import Floats
from cede.experiments import style
from cede.experiments.figure import Row
from cede.experiments.statistics import over_repeats, ratios
from cede.experiments.tables import select, values


def draw_band(axes: Any, x: Floats, mean: Floats, half: Floats, colour: str, *, shade: float = 0.2, **line: Any) -> None:
    """Draw a line with a shaded 95% interval around it. x, mean, half: (points,); line: options of Matplotlib's `plot`."""
    axes.plot(x, mean, color=colour, **line)
    if half.any():
        axes.fill_between(x, mean - half, mean + half, color=colour, alpha=shade, linewidth=0)


def draw_line(axes: Any, rows: Sequence[Row], colour: str, line: Any, label: str) -> None:
    """Draw the mean regret over episodes, with a band over seeds. label: for the legend; {end} in it becomes the final mean."""
    x, mean, half = over_repeats(rows)
    draw_band(axes, x, mean, half, colour, linestyle=line, linewidth=1.6, label=label.format(end=mean[-1]))


def draw_curves(axes: Any, rows: Sequence[Row], title: str = "") -> None:
    """Draw regret over episodes, one line for each learner, with a band over seeds."""
    for name in values(rows, "learner"):
        draw_line(axes, select(rows, learner=name), style.COLOURS[name], style.LINES[name], style.label(name))
    axes.set_title(title, fontsize=9)
    episode_axis(axes, rows)
    axes.set_ylim(0, None)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useMathText=True)


def draw_level(axes: Any, y: float, text: str, colour: str, *, above: bool = True) -> None:
    """Draw a dashed line across a panel at height y, with a text at its right end, above or below it."""
    axes.axhline(y, color=colour, linestyle="--", linewidth=1.2)
    look = {"textcoords": "offset points", "ha": "right", "va": "bottom" if above else "top", "fontsize": 8, "bbox": style.BEHIND}
    axes.annotate(text, (1, y), (-2, 2 if above else -2), xycoords=axes.get_yaxis_transform(), color=colour, **look)


def episode_axis(axes: Any, rows: Sequence[Row], label: str = "episode $k$") -> None:
    """Let the horizontal axis show episodes, from 0 to the last one of the rows."""
    axes.set_xlabel(label)
    axes.set_xlim(0, max(row["episode"] for row in rows))


def draw_ratios(rows: Sequence[Row], x: str, x_label: str, path: Path, note: str, ticks: Sequence[int] | None = None) -> list[Path]:
    """Draw the ratio of UCRL2-MC's final regret to UCRL2's over column x, for both radii of UCRL2, and save the picture.

    note: small print; ticks: where given, the horizontal axis is logarithmic (base 2) with these ticks. Returns the files.
    """
    picture, axes = style.figure(1, width=4.6, height=3.2)
    for baseline in ("UCRL2 (same-form)", "UCRL2 (appendix)"):
        found = ratios(rows, x, baseline)
        xs = np.array([row[x] for row in found], dtype=float)
        mean, half = np.array([row["ratio"] for row in found]), np.array([row["half_width"] for row in found])
        look: dict[str, Any] = {"marker": "o" if "same" in baseline else "s", "linestyle": style.LINES[baseline]}
        draw_band(axes, xs, mean, half, style.COLOURS[baseline], label=f"to {style.label(baseline)}", **look)
    axes.axhline(1.0, color="#888888", linewidth=0.8)
    if ticks is not None:
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.set_xlabel(x_label)
    axes.set_ylabel("regret of UCRL2-MC / UCRL2")
    axes.set_ylim(0, None)
    axes.legend(fontsize=8)
    return finish(picture, rows, note, path)


def legend_above(picture: Any, axes: Any, columns: int | None = None, fontsize: int = 8) -> None:
    """Put the legend of one panel above all panels. columns: by default one for each entry."""
    handles, names = axes.get_legend_handles_labels()
    picture.legend(handles, names, loc="outside upper center", ncols=columns or len(names), fontsize=fontsize)


def finish(picture: Any, rows: Sequence[Row], note: str, path: Path, *, shades: str = "95% intervals") -> list[Path]:
    """Write the small print under a picture and save it. Returns the files (PNG and SVG).

    The small print says what was run, how many episodes and repeats, with which seed and version. A quick run is stamped as one.
    rows: of the table; note: the figure's own words; path: of the picture, without ending; shades: what they show.
    """
    first = rows[0]
    seeds = len(set(values(rows, "seed"))) if "seed" in first else 1
    episodes = f"{first['episodes']:,} {first.get('unit', 'episodes')}, " if "episodes" in first else ""
    repeats = f"{seeds} repeats, {shades}" if seeds > 1 else "1 run"
    delta = next((row["delta"] for row in rows if row.get("delta", "") != ""), "")
    text = (
        f"{note} {episodes}{repeats}, " + (f"δ = {delta}, " if delta else "") + f"seed {first['base_seed']}, cede {first['cede']}."
    )
    style.caption(picture, text)
    if first["quick"]:
        style.stamp_quick(picture)
    return style.save(picture, path)
