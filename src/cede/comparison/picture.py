"""The figure of a comparison: mean regret over episodes with bands, one panel for each world, a legend outside of the panels."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np

from cede import __version__
from cede._base.arrays import Floats
from cede._base.extras import label, need
from cede.comparison.look import RC, look
from cede.comparison.paired import LEAST_REPEATS, mean_interval
from cede.comparison.table import REALISED

POINTS = 200  # of a curve
COLUMNS = 3  # panels beside one another
PANEL = (2.9, 2.3)  # inches


def draw(
    regret: Floats, worlds: Sequence[str], learners: Sequence[str], seeds: Sequence[int], unit: str, realised: Sequence[str] = ()
) -> Any:
    """Draw a comparison and return the Matplotlib figure, without a window. The arguments are fields of a `Comparison`."""
    learners = [f"{name} ({REALISED})" if name in realised else name for name in learners]
    columns = min(len(worlds), COLUMNS)
    lines = -(-len(worlds) // columns)
    with need("matplotlib", "plots").rc_context(RC):
        width = max(PANEL[0] * columns, 1.5 * PANEL[0])
        across, down = legend_shape(learners, width)
        size = (width, PANEL[1] * lines + 0.35 + 0.18 * down)
        picture = need("matplotlib.figure", "plots").Figure(figsize=size, layout="constrained")
        panels = picture.subplots(lines, columns, squeeze=False)
        for axes in panels.flat[len(worlds) :]:
            axes.set_visible(False)
        for axes, here, world in zip(panels.flat, regret, worlds, strict=False):
            draw_world(axes, here, learners)
            axes.set_title(label(world), fontsize=9, loc="left")
            axes.set_xlabel("episode" if unit == "episodes" else unit)
        for axes in panels[:, 0]:
            axes.set_ylabel("regret so far")
        handles, names = panels.flat[0].get_legend_handles_labels()
        picture.legend(handles, names, loc="outside upper center", ncols=across, fontsize=8)
        picture.supxlabel(fill(caption_of(seeds, bool(realised)), int(23 * width)), fontsize=6, color="#555555")
    return picture


def legend_shape(names: Sequence[str], width: float) -> tuple[int, int]:
    """Return the number of columns and rows of a legend with these names. width: in inches."""
    across = min(len(names), max(1, int(width / (0.065 * max(map(len, names)) + 0.55))))
    return across, -(-len(names) // across)


def draw_world(axes: Any, regret: Floats, learners: Sequence[str]) -> None:
    """Draw the curves of all learners in one world. regret: (N, R, K)."""
    shown = np.unique(np.linspace(1, regret.shape[2], min(regret.shape[2], POINTS)).astype(int)) - 1
    for n, name in enumerate(learners):
        samples = regret[n][:, shown]
        low, high = band(samples)
        axes.fill_between(shown + 1, low, high, color=look(n)["color"], alpha=0.16, linewidth=0)
        axes.plot(shown + 1, samples.mean(axis=0), linewidth=1.5, label=label(name), **look(n))
    axes.set_axisbelow(True)
    axes.set_xlim(1 if len(shown) > 1 else 0, max(shown[-1] + 1, 2))
    axes.set_ylim(min(0.0, float(np.min(regret[:, :, shown].mean(axis=1)))), None)  # realised regret may be below 0
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 5), useMathText=True)


def band(samples: Floats) -> tuple[Floats, Floats]:
    """Return the lower and upper edge of a band. samples: (R, points)."""
    return mean_interval(samples) if len(samples) >= LEAST_REPEATS else (samples.min(axis=0), samples.max(axis=0))


def caption_of(seeds: Sequence[int], realised: bool = False) -> str:
    """Return the small print: the meaning of lines and bands, seeds and version. realised: whether some regret is realised."""
    repeats = len(seeds)
    bands = "95% intervals of the mean" if repeats >= LEAST_REPEATS else "from the least to the greatest repeat"
    which = f"seeds {seeds[0]} to {seeds[-1]}" if repeats > 1 else f"seed {seeds[0]}"
    shades = f"Lines: means of {repeats} repeats with paired seeds; bands: {bands}" if repeats > 1 else "One repeat"
    exact = "Regret is exact, but for what is called realised: what episodes really cost" if realised else "Regret is exact"
    return f"{exact}. {shades}; {which}; cede {__version__}."
