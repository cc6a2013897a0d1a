"""Figure `sharing-why`: what sharing an environment can save, and what it cannot: the two terms of the corollary, measured.

By the corollary the regret of a team of N is at most a sqrt(K) + b sqrt(K / N), up to logarithms: what it costs to learn one's own
agents stays, what it costs to learn the environment is divided among the teams. After a given number of episodes we fit

    regret of a team = a + b / sqrt(N)

to the mean regret of a team of each fleet, by relative least squares over N. What a team loses that knows the river, and has to
learn its own agents only, is measured. Below, teams by how alike their agents are.
"""

from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from studies import style
from studies.arrays import Floats
from studies.drawing import draw_band, finish
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.figures import sharing as map_of_ratios
from studies.runs import sharing
from studies.statistics import half_width
from studies.tables import select, values

RADII = (sharing.PRINTED, sharing.SCHEDULE)
EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # of bins of p


def parts(options: Options) -> list[Part]:
    shared = [part for part in map_of_ratios.parts(options) if part.arguments["radii"] in RADII]
    most, last = max(part.arguments["teams"] for part in shared), max(part.arguments["checkpoints"][-1] for part in shared)
    seeds = options.seeds(map_of_ratios.REPEATS, map_of_ratios.QUICK_REPEATS)
    return [*shared, *(sharing.part(sharing.KNOWN, radii, most, [last], seed) for radii, seed in product(RADII, seeds))]


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    """Keep the regret of every team after the last episode. Teams of learners that do not share are in their largest fleet."""
    every = [row for _, outcome in outcomes for row in outcome["team"]]
    last = max(row["episodes"] for row in every)
    return [{**row, **map_of_ratios.told(row)} for row in every if row["episodes"] == last]


def per_team(rows: Sequence[Row], radii: str, seed: int, teams: Sequence[int]) -> Floats:
    """Return the mean regret of a team by the size of the fleet, (sizes,), as if every fleet had the teams of the largest one.

    Small fleets have few teams, and some p's are harder than others. So each fleet is set against the very same teams without
    sharing: what is returned is their mean regret over all teams, times the ratio, which is 1 for a fleet of one.
    """
    alone = {row["team"]: row["regret"] for row in select(rows, learner=sharing.ALONE, radii=radii, seed=seed)}
    level = float(np.mean(list(alone.values())))
    found = []
    for n in teams:
        mine = select(rows, learner=sharing.OURS, radii=radii, seed=seed, teams=n)
        found.append(level * sum(row["regret"] for row in mine) / sum(alone[row["team"]] for row in mine))
    return np.array(found)


def two_terms(teams: Sequence[int], regret: Floats) -> tuple[float, float]:
    """Fit a + b / sqrt(N) to the regret of a team, by relative least squares, neither of them below 0. Returns a and b."""
    from scipy.optimize import nnls

    design = np.stack([np.ones(len(teams)), 1 / np.sqrt(np.array(teams, dtype=float))], axis=1)
    a, b = nnls(design / regret[:, None], np.ones(len(teams)))[0]
    return float(a), float(b)


def misfit(teams: Sequence[int], regret: Floats) -> float:
    """Return by how much the fitted curve misses a point at most, relative to the point."""
    a, b = two_terms(teams, regret)
    return float(np.max(np.abs((a + b / np.sqrt(np.array(teams, dtype=float))) / regret - 1)))


def likeness(row: Row) -> float:
    """Return the probability that the agent of a team who swims right less does so: a team of p is one of 1 - p."""
    return float(min(row["p"], 1 - row["p"]))


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(RADII), rows=2, width=style.WIDTH, height=5.2)
    for column, (radii, title) in enumerate(zip(RADII, ("radii as printed", "authors' schedule"), strict=True)):
        draw_terms(panels[0, column], rows, radii, title)
        draw_by_chance(panels[1, column], rows, radii)
    panels[0, 0].set_ylabel("mean regret of a team")
    panels[1, 0].set_ylabel("mean regret of a team")
    for row, side, columns in ((0, "left", 1), (1, "right", 2)):
        handles, names = panels[row, 0].get_legend_handles_labels()
        title = "upper panels" if row == 0 else "lower panels"
        picture.legend(handles, names, loc=f"outside upper {side}", ncols=columns, title=title)
    note = (
        "RiverSwim, nested fleets as in the figure `sharing`. Above: mean regret of a team by the size of its fleet, relative to "
        "the same teams without sharing. Below: mean regret of teams by their p, in steps of a tenth. River known: only the agents "
        "are learned, so there is nothing to share."
    )
    return finish(picture, rows, note, path, shades="shades and whiskers: 95% intervals of means")


def draw_terms(axes: Any, rows: Sequence[Row], radii: str, title: str) -> None:
    """Draw the mean regret of a team over the size of its fleet, and the two terms fitted to it."""
    teams = sorted(values(select(rows, learner=sharing.OURS), "teams"))
    each = np.array([per_team(rows, radii, seed, teams) for seed in values(rows, "seed")]).T  # (sizes, seeds)
    look = {"marker": "o", "markersize": 4, "linestyle": "none", "label": "measured"}
    axes.errorbar(teams, each.mean(axis=1), half_width(each), color=style.RED, capsize=2, **look)
    a, b = two_terms(teams, each.mean(axis=1))
    fine = np.geomspace(teams[0], teams[-1], 100)
    axes.plot(fine, a + b / np.sqrt(fine), color=style.RED, linewidth=1.2, label="a + b / √N")
    floor = np.mean([row["regret"] for row in select(rows, learner=sharing.KNOWN, radii=radii)])
    axes.axhline(floor, color=style.GREY, linestyle="--", linewidth=1.0, label="with the river known")
    axes.set_xscale("log")
    axes.set_xticks(teams, [str(n) for n in teams])
    axes.minorticks_off()
    axes.set_ylim(0, None)
    axes.set_xlabel("teams N that share")
    axes.set_title(f"{title}: a = {a:.3g}, b = {b:.3g}")


def draw_by_chance(axes: Any, rows: Sequence[Row], radii: str) -> None:
    """Draw the mean regret of teams over the p of their agents, in the largest fleet, with and without sharing."""
    most = max(values(rows, "teams"))
    shown = (
        (sharing.OURS, f"UCRL2-MC, {most} teams share", style.RED, "-"),
        (sharing.KNOWN, sharing.KNOWN, style.GREY, "--"),
        *((name, name, style.COLOURS[name], style.LINES[name]) for name in map_of_ratios.BASELINES),
    )
    for learner, label, colour, line in shown:
        here = select(rows, learner=learner, radii=radii, teams=most)
        p, regret = np.array([likeness(row) for row in here]), np.array([row["regret"] for row in here])
        bins = [regret[(p >= low) & (p < high)] for low, high in pairwise(EDGES)]
        mean = np.array([one.mean() if len(one) else np.nan for one in bins])
        half = np.array([half_width(one[None])[0] if len(one) > 1 else 0.0 for one in bins])
        middle = np.array([(low + high) / 2 for low, high in pairwise(EDGES)])
        draw_band(axes, middle, mean, half, colour, label=label, linestyle=line, marker="o", markersize=3)
    axes.set_yscale("log")
    axes.set_xlabel("p of the agent who swims right less")
    axes.set_xlim(0, 0.5)


FIGURE = Figure(
    "sharing-why",
    "What sharing can save: the two terms of the corollary",
    "A team must learn its own agents by itself, but can share what it learns about the river. How much of a team's regret comes "
    "from each, and for which teams?",
    parts,
    table,
    draw,
)
