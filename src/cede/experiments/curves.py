"""Regret curves and ratios: rows of tables, and how they are drawn."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from cede._base.arrays import Floats
from cede.experiments import style
from cede.experiments.core import Row
from cede.learning.learner import Learner

POINTS = 200  # of a curve that are kept


def learner_settings(learner: Learner) -> Row:
    """What a table must say of a learner."""
    s = learner.settings
    return {name: s[name] if s[name] is not None else "" for name in ("radius", "scale", "delta")}


def curve_rows(regret: Floats, about: Row) -> list[Row]:
    """Evenly spaced points of a cumulative regret, the last one always among them."""
    n = len(regret)
    at = np.unique(np.linspace(1, n, min(n, POINTS)).astype(int))
    return [{**about, "episodes": n, "episode": int(k), "regret": float(regret[k - 1])} for k in at]


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def values(rows: Iterable[Row], name: str) -> list[Any]:
    """The different values of a column, in order of appearance."""
    return list(dict.fromkeys(row[name] for row in rows))


def over_repeats(rows: Sequence[Row], x: str = "episode", y: str = "regret") -> tuple[Floats, Floats, Floats]:
    """x, mean of y over seeds, and half the width of its 95% confidence interval (0 with one seed)."""
    xs = np.array(values(rows, x), dtype=float)
    table = np.array([[row[y] for row in select(rows, **{x: value})] for value in values(rows, x)], dtype=float)
    return xs, table.mean(axis=1), half_width(table)


def half_width(table: Floats) -> Floats:
    """Of the 95% t-interval of the mean of each row."""
    n = table.shape[1]
    if n < 2:
        return np.zeros(len(table))
    widths: Floats = stats.t.ppf(0.975, n - 1) * table.std(axis=1, ddof=1) / np.sqrt(n)
    return widths


def draw_line(axes: Any, rows: Sequence[Row], colour: str, line: Any, label: str) -> None:
    """Mean regret over episodes, with a band over seeds. {end} in the label: where it ends."""
    x, mean, half = over_repeats(rows)
    axes.plot(x, mean, color=colour, linestyle=line, linewidth=1.6, label=label.format(end=mean[-1]))
    if half.any():
        axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)


def draw_curves(axes: Any, rows: Sequence[Row], title: str = "") -> None:
    """Regret over episodes, one line per learner, band over seeds."""
    for name in values(rows, "learner"):
        draw_line(axes, select(rows, learner=name), style.COLOURS[name], style.LINES[name], style.label(name))
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("episode $k$")
    axes.set_xlim(0, max(row["episode"] for row in rows))
    axes.set_ylim(0, None)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useMathText=True)


def ratios(rows: Sequence[Row], x: str, baseline: str) -> list[Row]:
    """Final regret of UCRL2-MC over that of a UCRL2, seed by seed, with the mean and its interval."""
    last = [row for row in rows if row["episode"] == row["episodes"]]
    result = []
    for value in sorted(values(last, x)):
        pairs = []
        for seed in values(last, "seed"):
            ours, theirs = (select(last, **{x: value}, seed=seed, learner=name) for name in ("UCRL2-MC", baseline))
            pairs.append(ours[0]["regret"] / theirs[0]["regret"])
        table = np.array([pairs])
        result.append({x: value, "ratio": float(table.mean()), "half_width": float(half_width(table)[0]), "each": pairs})
    return result


def draw_ratios(rows: Sequence[Row], x: str, x_label: str, path: Path, note: str, ticks: Sequence[int] | None = None) -> list[Path]:
    """Ratio of UCRL2-MC's regret to UCRL2's, for both radii of UCRL2."""
    picture, axes = style.figure(1, width=4.6, height=3.2)
    for baseline in ("UCRL2 (same-form)", "UCRL2 (appendix)"):
        found = ratios(rows, x, baseline)
        xs = np.array([row[x] for row in found], dtype=float)
        mean, half = np.array([row["ratio"] for row in found]), np.array([row["half_width"] for row in found])
        colour = style.COLOURS[baseline]
        marker = "o" if "same" in baseline else "s"
        axes.plot(xs, mean, marker=marker, color=colour, linestyle=style.LINES[baseline], label=f"to {style.label(baseline)}")
        axes.fill_between(xs, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
    axes.axhline(1.0, color="#888888", linewidth=0.8)
    if ticks is not None:
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.set_xlabel(x_label)
    axes.set_ylabel("regret of UCRL2-MC / UCRL2")
    axes.set_ylim(0, None)
    axes.legend(fontsize=8)
    finish(picture, rows, note)
    return style.save(picture, path)


def finish(picture: Any, rows: Sequence[Row], note: str) -> None:
    """The small print: what was run, with which version, and whether it was a quick run."""
    first = rows[0]
    seeds = len(set(values(rows, "seed"))) if "seed" in first else 1
    episodes = f"{first['episodes']:,} episodes, " if "episodes" in first else ""
    repeats = f"{seeds} repeats, 95% intervals" if seeds > 1 else "1 run"
    delta = next((row["delta"] for row in rows if row.get("delta", "") != ""), "")
    text = (
        f"{note} {episodes}{repeats}, " + (f"δ = {delta}, " if delta else "") + f"seed {first['base_seed']}, cede {first['cede']}."
    )
    style.caption(picture, text)
    if first["quick"]:
        style.stamp_quick(picture)
