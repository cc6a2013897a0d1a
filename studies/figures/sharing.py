"""Figure `sharing`: when is it worth it to share an environment? UCRL2-MC's regret by teams and episodes, over that of the same
teams that do not share, and over UCRL2's.

A paired, nested design: the teams of a small fleet are the first ones of every larger one (runs/sharing.py).
"""

from collections.abc import Sequence
from itertools import product
from math import log10
from pathlib import Path
from typing import Any

import numpy as np

from studies import style
from studies.drawing import finish
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.runs import sharing
from studies.runs.river import LEARNERS
from studies.tables import select, values

TEAMS, QUICK_TEAMS = (1, 3, 10, 30, 100), (1, 3, 10)
EPISODES, QUICK_EPISODES = (300, 1000, 3000, 10_000, 20_000), (20, 60)
REPEATS, QUICK_REPEATS = 5, 2
BASELINES = (sharing.ALONE, *LEARNERS[:0:-1])  # itself without sharing, same-form, appendix
WORDS = {
    sharing.PRINTED: "radii as printed,\nt of all teams",
    sharing.OF_TEAM: "radii as printed,\nt of one team",
    sharing.SCHEDULE: "authors' schedule",
}
SCALES = {
    sharing.PRINTED: "agents 1, environment 1",
    sharing.OF_TEAM: "agents 1, environment that of t of one team",
    sharing.SCHEDULE: "the authors' schedule",
}
LIGHT = 0.55  # of a colour: letters on darker ones are white


def parts(options: Options) -> list[Part]:
    teams = QUICK_TEAMS if options.quick else TEAMS
    points: tuple[int, ...] = QUICK_EPISODES if options.quick else EPISODES
    points = (*(k for k in points if k < options.episodes), options.episodes) if options.episodes else points
    result = []
    for seed, radii, name in product(options.seeds(REPEATS, QUICK_REPEATS), sharing.RADII, (sharing.OURS, *BASELINES)):
        ours = name == sharing.OURS
        if ours or radii != sharing.OF_TEAM:
            runs = [(k,) for k in points] if radii == sharing.SCHEDULE else [points]  # the schedule depends on the length of a run
            sizes = teams if ours else teams[-1:]
            result += [sharing.part(name, radii, n, ends, seed) for n, ends in product(sizes, runs)]
    return result


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    """Add up the regret of teams. A learner that does not share has one run, of which smaller fleets are the first teams."""
    every = [row for _, outcome in outcomes for row in outcome["team"]]
    sizes = sorted({row["teams"] for row in every})
    found: dict[tuple[Any, ...], float] = {}
    for row in every:
        for n in [row["teams"]] if row["learner"] == sharing.OURS else sizes:
            if row["team"] < n:
                key = (row["learner"], row["radii"], n, row["episodes"], row["seed"])
                found[key] = found.get(key, 0.0) + row["regret"]
    names, delta = ("learner", "radii", "teams", "episodes", "seed"), every[0]["delta"]
    rows = [{**dict(zip(names, key, strict=True)), "regret": regret, "delta": delta} for key, regret in found.items()]
    return [{**row, **told(row)} for row in rows]


def told(row: Row) -> Row:
    """Return the form and the scale of the radii of a row, as all tables have them."""
    return {"radius": "appendix" if "appendix" in row["learner"] else "printed", "scale": SCALES[row["radii"]]}


def cells(rows: Sequence[Row], radii: str, baseline: str) -> dict[tuple[int, int], list[float]]:
    """Return the ratios of the regrets of UCRL2-MC and a baseline, in the order of seeds, by number of teams and of episodes."""
    against = sharing.PRINTED if radii == sharing.OF_TEAM else radii
    known = {(r["learner"], r["radii"], r["teams"], r["episodes"], r["seed"]): r["regret"] for r in rows}
    result: dict[tuple[int, int], list[float]] = {}
    for row in sorted(select(rows, learner=sharing.OURS, radii=radii), key=lambda row: int(row["seed"])):
        place = (row["teams"], row["episodes"])
        result.setdefault(place, []).append(row["regret"] / known[baseline, against, *place, row["seed"]])
    return result


def draw(rows: list[Row], path: Path) -> list[Path]:
    from matplotlib.colors import Normalize

    teams, points = sorted(values(rows, "teams")), sorted(values(rows, "episodes"))
    picture, panels = style.figure(len(sharing.RADII), rows=len(BASELINES), width=style.WIDTH, height=6.6, sharex=True, sharey=True)
    norm = Normalize(-2.0, 2.0)
    image: Any = None
    for (i, baseline), (j, radii) in product(enumerate(BASELINES), enumerate(sharing.RADII)):
        axes, found = panels[i, j], cells(rows, radii, baseline)
        mean = np.array([[np.exp(np.mean(np.log(found[n, k]))) for k in points] for n in teams])
        image = axes.imshow(np.log10(mean), norm=norm, cmap="RdBu_r", origin="lower", aspect="auto")
        for y, x in product(range(len(teams)), range(len(points))):
            colour = "white" if abs(log10(mean[y, x])) > 2 * LIGHT else "black"
            axes.text(x, y, f"{mean[y, x]:.2g}", ha="center", va="center", fontsize=style.SMALL, color=colour)
        axes.set_xticks(range(len(points)), [f"{k // 1000}k" if k >= 1000 else str(k) for k in points])
        axes.set_yticks(range(len(teams)), [str(n) for n in teams])
        axes.grid(visible=False)
        if i == 0:
            axes.set_title(WORDS[radii])
        else:
            axes.set_xlabel("episodes of each team" if i == len(BASELINES) - 1 else "")
        if j == 0:
            axes.set_ylabel(f"against {baseline}\nteams")
    bar = picture.colorbar(image, ax=panels, shrink=0.6, ticks=[-2, -1, 0, 1, 2])
    bar.set_label("regret of teams that share UCRL2-MC / of the same teams otherwise")
    bar.ax.set_yticklabels(["0.01", "0.1", "1", "10", "100"])
    bar.ax.set_in_layout(True)
    note = (
        "RiverSwim; k: thousand. Each team has two agents, who swim right with probability p and 1 - p, p uniform in (0, 1). "
        "Nested design: the teams of a small fleet are the first ones of every larger one, with the same random numbers. Blue: "
        "teams that share lose less."
    )
    repeats = f"{len(values(rows, 'seed'))} repeats, geometric means of ratios"
    return finish(picture, [{**row, "episodes": points[-1]} for row in rows], note, path, repeats=repeats)


FIGURE = Figure(
    "sharing",
    "When sharing an environment is worth it",
    "Each cell: the total regret of teams that share with UCRL2-MC, relative to the same teams without sharing or with UCRL2, by "
    "the numbers of teams and episodes. Does it fall from bottom to top, as teams are added?",
    parts,
    table,
    draw,
)
