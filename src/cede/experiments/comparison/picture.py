"""The figure of a comparison: mean regret over episodes with bands, one panel for each world, a legend outside of the panels."""

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from cede import __version__
from cede._base.arrays import Floats
from cede._base.extras import label, need
from cede.experiments.comparison.paired import LEAST_REPEATS, mean_interval
from cede.experiments.style import RC

if TYPE_CHECKING:
    from cede.experiments.comparison.result import Comparison

# Eight colours that colour-blind people can tell apart, and lines that differ where colours do not print.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1.2, 1.2)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
POINTS = 200  # of a curve
COLUMNS = 3  # panels beside one another
PANEL = (2.9, 2.3)  # inches


def look(index: int) -> dict[str, Any]:
    """Return colour and line of a learner; no two of 24 are the same."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[(index + index // len(COLOURS)) % len(LINES)]}


def draw(comparison: "Comparison") -> Any:
    """Draw a comparison and return the Matplotlib figure. It belongs to no window."""
    worlds = len(comparison.worlds)
    columns = min(worlds, COLUMNS)
    lines = -(-worlds // columns)
    with need("matplotlib", "plots").rc_context(RC):
        size = (max(PANEL[0] * columns, 1.5 * PANEL[0]), PANEL[1] * lines + 0.6)
        picture = need("matplotlib.figure", "plots").Figure(figsize=size, layout="constrained")
        panels = picture.subplots(lines, columns, squeeze=False)
        for axes in panels.flat[worlds:]:
            axes.set_visible(False)
        for w, axes in enumerate(panels.flat[:worlds]):
            draw_world(axes, comparison, w)
            axes.set_xlabel("episode" if comparison.unit == "episodes" else comparison.unit)
        for axes in panels[:, 0]:
            axes.set_ylabel("regret so far")
        handles, names = panels.flat[0].get_legend_handles_labels()
        widest = max(1, int(size[0] * 14 / (max(map(len, names)) + 8)))  # columns of the legend that fit
        picture.legend(handles, names, loc="outside upper center", ncols=min(len(names), widest), fontsize=8)
        text = fill(caption_of(comparison), int(23 * size[0]))
        picture.supxlabel(text, fontsize=6, color="#555555")
    return picture


def draw_world(axes: Any, comparison: "Comparison", w: int) -> None:
    """Draw the curves of all learners in one world."""
    regret = comparison.regret[w]  # (N, R, K)
    shown = np.unique(np.linspace(1, regret.shape[2], min(regret.shape[2], POINTS)).astype(int)) - 1
    for n, name in enumerate(comparison.learners):
        samples = regret[n][:, shown]
        low, high = band(samples)
        axes.fill_between(shown + 1, low, high, color=look(n)["color"], alpha=0.16, linewidth=0)
        axes.plot(shown + 1, samples.mean(axis=0), linewidth=1.5, label=label(name), **look(n))
    axes.set_axisbelow(True)
    axes.set_title(label(comparison.worlds[w]), fontsize=9, loc="left")
    axes.set_xlim(1 if len(shown) > 1 else 0, max(shown[-1] + 1, 2))
    axes.set_ylim(0, None)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 5), useMathText=True)


def band(samples: Floats) -> tuple[Floats, Floats]:
    """Return the lower and upper edge of a band. samples: (R, points)."""
    return mean_interval(samples) if len(samples) >= LEAST_REPEATS else (samples.min(axis=0), samples.max(axis=0))


def caption_of(comparison: "Comparison") -> str:
    """Return the small print: what lines and bands are, and with which seeds and version."""
    repeats = len(comparison.seeds)
    bands = "95% intervals of the mean" if repeats >= LEAST_REPEATS else "from the least to the greatest repeat"
    seeds = f"seeds {comparison.seeds[0]} to {comparison.seeds[-1]}" if repeats > 1 else f"seed {comparison.seeds[0]}"
    shades = f"Lines: means of {repeats} repeats with paired seeds; bands: {bands}" if repeats > 1 else "One repeat"
    return f"Regret is exact. {shades}; {seeds}; cede {__version__}."
