"""Figure `sharing-why`: what sharing an environment can save, and what it cannot: the two terms of the corollary, measured.

By the corollary the regret of a team of N is at most a sqrt(K) + b sqrt(K / N), up to logarithms: what it costs to learn one's own
agents stays, what it costs to learn the environment is divided among the teams. After a given number of episodes we fit

    regret of a team = a + b / sqrt(N)

to the mean regret of a team of each fleet, by least squares over N.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cede._base.arrays import Floats
from cede.experiments import style
from cede.experiments.drawing import draw_band, finish, legend_over
from cede.experiments.figure import Figure, Options, Outcome, Part, Row
from cede.experiments.figures import sharing as map_of_ratios
from cede.experiments.runs import sharing
from cede.experiments.runs.river import LEARNERS
from cede.experiments.statistics import half_width
from cede.experiments.tables import select, values

RADII = (sharing.PRINTED, sharing.SCHEDULE)
BINS = 10  # of p


def parts(options: Options) -> list[Part]:
    return [part for part in map_of_ratios.parts(options) if part.arguments["radii"] in RADII]


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    """Keep the regret of every team after the last episode. Teams of learners that do not share are in their largest fleet."""
    every = [row for _, outcome in outcomes for row in outcome["team"]]
    last = max(row["episodes"] for row in every)
    return [{**row, **map_of_ratios.told(row)} for row in every if row["episodes"] == last]


def per_team(rows: Sequence[Row], learner: str, radii: str, seed: int, teams: Sequence[int]) -> Floats:
    """Return the mean regret of a team by the size of the fleet, (sizes,), as if every fleet had the teams of the largest one.

    Small fleets have few teams, and some p's are harder than others. So each fleet is set against UCRL2 (same-form) of the very
    same teams: what is returned is UCRL2's mean regret over all teams, times the ratio.
    """
    known = {row["team"]: row["regret"] for row in select(rows, learner=LEARNERS[-1], radii=radii, seed=seed)}
    level = float(np.mean(list(known.values())))
    found = []
    for n in teams:
        mine = select(rows, learner=learner, radii=radii, seed=seed, teams=n)
        found.append(level * sum(row["regret"] for row in mine) / sum(known[row["team"]] for row in mine))
    return np.array(found)


def two_terms(teams: Sequence[int], regret: Floats) -> tuple[float, float]:
    """Fit a + b / sqrt(N) to the regret of a team, by least squares, neither of them below 0. Returns a and b."""
    from scipy.optimize import nnls

    design = np.stack([np.ones(len(teams)), 1 / np.sqrt(np.array(teams, dtype=float))], axis=1)
    a, b = nnls(design, regret)[0]
    return float(a), float(b)


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(3, width=style.WIDTH, height=2.9)
    ours, seeds = select(rows, learner=sharing.OURS), values(rows, "seed")
    teams = sorted(values(ours, "teams"))
    for axes, radii, title in zip(panels, RADII, ("radii as printed", "authors' schedule"), strict=False):
        each = np.array([per_team(rows, sharing.OURS, radii, seed, teams) for seed in seeds]).T  # (sizes, seeds)
        look = {"marker": "o", "markersize": 4, "linestyle": "none", "label": "measured"}
        axes.errorbar(teams, each.mean(axis=1), half_width(each), color=style.RED, capsize=2, **look)
        a, b = two_terms(teams, each.mean(axis=1))
        fine = np.geomspace(teams[0], teams[-1], 100)
        axes.plot(fine, a + b / np.sqrt(fine), color=style.RED, linewidth=1.2, label="a + b / √N")
        axes.axhline(a, color=style.GREY, linestyle="--", linewidth=1.0, label="a: own agents")
        axes.set_xscale("log")
        axes.set_xticks(teams, [str(n) for n in teams])
        axes.minorticks_off()
        axes.set_ylim(0, None)
        axes.set_xlabel("teams N")
        axes.set_title(f"{title}\na = {a:.3g}, b = {b:.3g}")
        axes.legend(loc="best")
    panels[0].set_ylabel("regret of a team")
    draw_by_chance(panels[2], rows, teams)
    note = (
        "RiverSwim, nested fleets as in the figure `sharing`, after the last episode. Left and middle: a fleet's mean regret of a "
    )
    note += (
        "team, relative to UCRL2 (same-form) of the same teams, in units of that one's mean; whiskers: 95% intervals. Right: mean "
    )
    note += "regret of teams by their p, in steps of a tenth, printed radii."
    return finish(picture, rows, note, path, shades="shades and whiskers: 95% intervals of means")


def draw_by_chance(axes: Any, rows: Sequence[Row], teams: Sequence[int]) -> None:
    """Draw the mean regret of teams over the p of their agents, in the largest fleet: with UCRL2-MC, and with both UCRL2."""
    edges = np.linspace(0.0, 0.5, BINS // 2 + 1)
    shown = (
        (sharing.OURS, teams[-1], f"UCRL2-MC, {teams[-1]} teams", style.RED, "-"),
        (LEARNERS[-1], teams[-1], LEARNERS[-1], style.PINK, style.LINES[LEARNERS[-1]]),
        (LEARNERS[1], teams[-1], LEARNERS[1], style.GREEN, style.LINES[LEARNERS[1]]),
    )
    for learner, n, label, colour, line in shown:
        here = select(rows, learner=learner, radii=sharing.PRINTED, teams=n)
        better = np.array([min(row["p"], 1 - row["p"]) for row in here])  # a team of p is one of 1 - p
        regret = np.array([row["regret"] for row in here])
        bins = [regret[(better >= low) & (better < high)] for low, high in pairwise(edges)]
        mean = np.array([one.mean() if len(one) else np.nan for one in bins])
        half = np.array([half_width(one[None])[0] if len(one) > 1 else 0.0 for one in bins])
        draw_band(axes, (edges[:-1] + edges[1:]) / 2, mean, half, colour, label=label, linestyle=line, marker="o", markersize=3)
    axes.set_yscale("log")
    axes.set_xlabel("p of the agent who swims right less")
    axes.set_xlim(0, 0.5)
    legend_over(axes)


FIGURE = Figure(
    "sharing-why",
    "What sharing can save: the two terms of the corollary",
    "Learning one's own agents cannot be shared, learning the river can. How much of a team's regret is which, "
    "and for which teams?",
    parts,
    table,
    draw,
)
