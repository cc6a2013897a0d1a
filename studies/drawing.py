"""Draw curves and ratios from finished tables, put the small print under a picture, and save it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from studies import style
from studies.arrays import Floats
from studies.figure import Row
from studies.statistics import over_repeats, ratios
from studies.tables import select, values

INTERVAL = "95% interval"  # the mark (gid) of all that shows one, by which `finish` knows what to say of it
MARKS = (  # how a sentence of a note begins that says what the marks in the picture are
    *("Numbers at", "Dots", "Dotted", "Thin lines", "Blue", "Left", "Right", "Above", "Below", "Each mark", "Linear up"),
    *("Both scales", "While its sets", "What the policy to deploy", "Costs: grass"),
)


def draw_band(axes: Any, x: Floats, mean: Floats, half: Floats, colour: str, *, shade: float = 0.15, **line: Any) -> None:
    """Draw a line with a shaded 95% interval around it. x, mean, half: (points,); line: options of Matplotlib's `plot`."""
    axes.plot(x, mean, color=colour, **line)
    if half.any():
        axes.fill_between(x, mean - half, mean + half, color=colour, alpha=shade, linewidth=0, gid=INTERVAL)


def draw_line(axes: Any, rows: Sequence[Row], colour: str, line: Any, label: str, **more: Any) -> float:
    """Draw the mean regret over episodes, with a band over seeds. label: for the legend. Returns the final mean."""
    x, mean, half = over_repeats(rows)
    draw_band(axes, x, mean, half, colour, **{"linestyle": line, "linewidth": 1.6, "label": label, **more})
    return float(mean[-1])


def draw_curves(axes: Any, rows: Sequence[Row], title: str = "") -> dict[str, float]:
    """Draw regret over episodes, one line for each learner, with a band over seeds. The first is wide, to be seen under others.

    Returns the final means by name.
    """
    ends = {}
    for i, name in enumerate(values(rows, "learner")):
        look = {"linewidth": 1.5 if i else 2.6}
        ends[name] = draw_line(axes, select(rows, learner=name), style.COLOURS[name], style.LINES[name], style.label(name), **look)
    axes.set_title(title)
    episode_axis(axes, rows)
    return ends


def draw_level(axes: Any, y: float, text: str, colour: str, *, above: bool = True) -> None:
    """Draw a dashed line across a panel at height y, with a text at its right end, above or below it."""
    axes.axhline(y, color=colour, linestyle="--", linewidth=1.2)
    look = {"textcoords": "offset points", "ha": "right", "va": "bottom" if above else "top", "fontsize": 8, "bbox": style.BEHIND}
    axes.annotate(text, (1, y), (-2, 2 if above else -2), xycoords=axes.get_yaxis_transform(), color=colour, **look)


def from_zero(panels: Any) -> None:
    """Let the vertical axes of panels begin at zero. Call it when all is drawn: panels may share an axis."""
    for axes in np.atleast_1d(panels).flat:
        axes.set_ylim(0, None)


def episode_axis(axes: Any, rows: Sequence[Row], label: str = "episode") -> None:
    """Let the horizontal axis show episodes, from 0 to the last one of the rows."""
    axes.set_xlabel(label)
    axes.set_xlim(0, max(row["episode"] for row in rows))


def draw_ratios(
    rows: Sequence[Row],
    x: str,
    x_label: str,
    path: Path,
    note: str,
    ticks: Sequence[int] | None = None,
    baselines: Sequence[str] = ("UCRL2 (same-form)", "UCRL2 (appendix)"),
) -> list[Path]:
    """Draw the ratio of UCRL2-MC's final regret to that of other learners over column x, and save the picture.

    note: small print; ticks: where given, the horizontal axis is logarithmic (base 2) with these ticks. Returns the files.
    """
    picture, axes = style.figure(1, width=style.ONE_PANEL, height=3.0)
    for baseline, marker in zip(baselines, "osD", strict=False):
        found = ratios(rows, x, baseline)
        xs = np.array([row[x] for row in found], dtype=float)
        mean, half = np.array([row["ratio"] for row in found]), np.array([row["half_width"] for row in found])
        look: dict[str, Any] = {"marker": marker, "markersize": 4, "linestyle": style.LINES[baseline]}
        draw_band(axes, xs, mean, half, style.COLOURS[baseline], label=baseline, **look)
    axes.axhline(1.0, color="#666666", linewidth=0.8)
    axes.annotate("equal", (1.0, 1.0), (1.02, 1.0), xycoords=("axes fraction", "data"), color="#666666", va="center")
    if ticks is not None:
        axes.set_xscale("log", base=2)
    axes.set_xticks(ticks or sorted(values(rows, x)), [str(t) for t in ticks or sorted(values(rows, x))])
    axes.set_xlabel(x_label)
    axes.set_ylabel("ratio of regrets, UCRL2-MC / other" if len(baselines) > 2 else "ratio of regrets, UCRL2-MC / UCRL2")
    axes.set_ylim(0, None)
    legend_over(axes, "UCRL2-MC against")
    return finish(picture, rows, note, path)


def legend_above(picture: Any, axes: Any, columns: int | None = None, title: str | None = None) -> None:
    """Put the legend of one panel above all panels. columns: by default one for each entry; title: stands over the entries."""
    handles, names = axes.get_legend_handles_labels()
    picture.legend(handles, names, loc="outside upper center", ncols=columns or len(names), title=title)


def legend_over(axes: Any, title: str | None = None, columns: int = 1) -> None:
    """Put the legend of a panel over it, where no curve is. title: stands above the entries, instead of the panel's own title."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), title=title, alignment="left", ncols=columns, borderaxespad=0.3)


def repeats_of(rows: Sequence[Row]) -> str:
    """Say how many repeats there were: one number, or one for each world or learner where they differ. rows: with seeds."""
    for column in ("world", "learner"):
        if column not in rows[0]:
            continue
        counts = {name: len(values(select(rows, **{column: name}), "seed")) for name in values(rows, column)}
        if len(set(counts.values())) > 1:
            if column == "world":
                return "repeats: " + ", ".join(f"{name} {n}" for name, n in counts.items())
            return f"{min(counts.values())} to {max(counts.values())} repeats"
    n = len(values(rows, "seed"))
    return f"{n} repeats" if n > 1 else "1 run"


def kept_together(item: str) -> str:
    """Return a short item of a list with spaces at which no line is broken."""
    return item.replace(" ", "\u00a0") if len(item) < 45 else item


def shows_intervals(picture: Any) -> bool:
    """Is there a 95% interval in a picture?"""
    return bool(picture.findobj(lambda artist: artist.get_gid() == INTERVAL))


def marks_of(note: str) -> list[str]:
    """Return the sentences of a note that say what the marks in a picture are; the others are settings."""
    return [sentence for sentence in re.split(r"(?<=\.) (?=[A-Z])", note) if sentence.startswith(MARKS)]


def finish(
    picture: Any, rows: Sequence[Row], note: str, path: Path, *, shades: str = "shades: 95% intervals of means", repeats: str = ""
) -> list[Path]:
    """Label the axes of a picture with plain numbers, write at most two lines under it and save it. Returns the files.

    Under the picture stand the sentences of the note that say what its marks are, and what shows the intervals, where some are
    drawn. The settings go into the file as its description, from which pages read them: the whole note, words and symbols
    explained, numbers of episodes and repeats, seed and version. A quick run is stamped as one. rows: of the table; note: the
    figure's own words; path: of the picture, without ending; shades: what shows the intervals; repeats: says how many there were,
    by default as `repeats_of` does.
    """
    first = rows[0]
    style.plain_numbers(picture)
    run = []
    if "episodes" in first:
        run = [f"{first['episodes']:,} {first.get('unit', 'episodes')}", repeats or repeats_of(rows)]
    if shows_intervals(picture):
        run.append(shades)
    delta = next((float(row["delta"]) for row in rows if row.get("delta", "") != ""), None)
    if delta is not None:
        run.append(f"confidence of unscaled sets 1 - δ = {1 - delta:g}")
    run += [f"seed {first['base_seed']}"] if "seed" in first else []
    ending = "; ".join(kept_together(item) for item in [*run, f"made with cede {first['cede']}"])
    words = re.sub(r" ([=-]) ", "\u00a0\\1\u00a0", style.explained(style.seen_words(picture), note))
    picture.set_label(f"{words} {ending[0].upper()}{ending[1:]}.".replace("\u00a0", " "))
    style.caption(picture, marks_of(note), f"{shades[0].upper()}{shades[1:]}." if shows_intervals(picture) else "")
    if first["quick"]:
        style.stamp_quick(picture)
    return style.save(picture, path)
