"""Figure `growth`: how the regret of UCRL2-MC grows with the sizes of random problems, beside the bounds of the paper.

One size at a time is changed. Of each seed, the slope of log regret over log size is an exponent, and so is that of the bound (with
its logarithms, and with both of its terms) over the same sizes.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from studies import style
from studies.arrays import Floats
from studies.drawing import INTERVAL, finish
from studies.figure import Figure, Options, Part, Row
from studies.runs import growth
from studies.statistics import half_width
from studies.tables import all_rows, select, values

SIZES = {"S": (4, 8, 16, 32), "A": (2, 4, 8, 16), "D": (2, 4, 8, 16), "L": (5, 10, 20, 40), "N": (1, 3, 10, 30)}
QUICK_SIZES = {"S": (3, 6), "A": (2, 4), "D": (2, 4), "L": (5, 10), "N": (1, 3)}
STEPS, QUICK_STEPS = 100_000, 2000  # of each team
REPEATS, QUICK_REPEATS = 20, 2
WORDS = {"S": "states", "A": "actions", "D": "agents", "L": "horizon, same number of steps", "T": "steps", "N": "teams"}
PARTS = 8  # of the steps: regret is looked at after 1/8, 1/4, 1/2 and all of them


def parts(options: Options) -> list[Part]:
    sizes, steps = (QUICK_SIZES, QUICK_STEPS) if options.quick else (SIZES, STEPS)
    steps = options.episodes * growth.USUAL["L"] if options.episodes else steps
    points, result = sorted({max(40, steps // 2**i) for i in (3, 2, 1, 0)}), []
    for seed in options.seeds(REPEATS, QUICK_REPEATS):
        result.append(growth.part("T", growth.USUAL, steps, points, seed))
        for axis, several in sizes.items():
            result += [growth.part(axis, {**growth.USUAL, axis: n}, steps, points[-1:], seed) for n in several]
    return result


def exponents(rows: Sequence[Row], axis: str, column: str) -> Floats:
    """Return the slope of a column, "regret" or "bound", over one size, on logarithmic scales, of each seed, (seeds,)."""
    here, found = select(rows, axis=axis), []
    for seed in values(here, "seed"):
        mine = sorted(select(here, seed=seed), key=lambda row: row[axis])
        x, y = (np.log(np.maximum([float(row[name]) for row in mine], 1e-12)) for name in (axis, column))
        found.append(float(np.polyfit(x, y, 1)[0]))
    return np.array(found)


def draw(rows: list[Row], path: Path) -> list[Path]:
    axes_of = list(dict.fromkeys(["T", *SIZES]))
    picture, panels = style.figure(3, rows=2, width=style.WIDTH, height=4.4)
    for panel, axis in zip(panels.flat, axes_of, strict=True):
        here = select(rows, axis=axis)
        sizes = sorted(values(here, axis))
        each = np.array([[row["regret"] for row in select(here, **{axis: n})] for n in sizes])  # (sizes, seeds)
        bound = np.array([np.mean([row["bound"] for row in select(here, **{axis: n})]) for n in sizes])
        for seed in range(each.shape[1]):
            panel.plot(sizes, each[:, seed], color=style.RED, linewidth=0.5, alpha=0.35)
        middle = np.exp(np.log(each).mean(axis=1))
        panel.plot(sizes, middle, "o-", color=style.RED, markersize=4, linewidth=1.6, label="regret")
        spread = half_width(np.log(each))
        ends = [middle * (1 - np.exp(-spread)), middle * (np.exp(spread) - 1)]
        panel.errorbar(sizes, middle, ends, fmt="none", color=style.RED, capsize=2, linewidth=0.9, gid=INTERVAL)
        shown = bound * middle[0] / bound[0]
        panel.plot(sizes, shown, color=style.GREY, linestyle="--", linewidth=1.2, label="bound, moved to the first point")
        slopes, printed = exponents(rows, axis, "regret"), float(exponents(rows, axis, "bound").mean())
        half = float(half_width(slopes[None])[0])
        panel.set_title(f"{axis}: {slopes.mean():.2f} ± {half:.2f}\nbound: {printed:.2f}")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xticks(sizes, [f"{n:,}" for n in sizes])
        panel.minorticks_off()
        panel.set_xlabel(WORDS[axis])
    for panel in panels[:, 0]:
        panel.set_ylabel("total regret")
    handles, names = panels[0, 0].get_legend_handles_labels()
    picture.legend(handles, names, loc="outside upper center", ncols=2)
    usual = ", ".join(f"{name} = {n}" for name, n in growth.USUAL.items())
    note = f"Random problems; {usual}, but for the one that is changed. Above each panel: the exponent of regret, with its 95% "
    note += "interval, and the exponent of the bound of Theorem 2 (of the corollary for teams). Thin lines: single "
    note += "problems. Radii as printed."
    return finish(picture, rows, note, path, shades="whiskers: 95% intervals of geometric means")


FIGURE = Figure(
    "growth",
    "How regret grows with the sizes of a problem",
    "Theorem 2 bounds regret by powers of the sizes of a problem. How fast does regret grow on random problems? Regret "
    "below the dashed line grows more slowly than the bound.",
    parts,
    lambda outcomes: all_rows(outcomes, "point"),
    draw,
)
