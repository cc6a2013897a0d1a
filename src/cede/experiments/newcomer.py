"""Figure `newcomer`: what a fleet's knowledge of the environment is worth to a new team."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cede.experiments import lane, river, style
from cede.experiments.core import Figure, Options, Outcome, Part, Row
from cede.experiments.curves import finish, over_repeats, select

EPISODES, QUICK_EPISODES = 2000, 60  # of the newcomer, and of the fleet before it comes
REPEATS, QUICK_REPEATS = 5, 2
TEAMS = {"RiverSwim": 100, "lane driving": 10}
QUICK_TEAMS = {"RiverSwim": 20, "lane driving": 4}
COSTS = (0.2, 0.1)  # lane driving
RADII = {"RiverSwim": "radii as printed", "lane driving": "authors' schedule"}
COLOURS = {"alone": "#0072B2", "with the fleet's knowledge": "#D55E00"}
LINES = {"alone": "--", "with the fleet's knowledge": "-"}


def parts(options: Options) -> list[Part]:
    episodes, teams = options.choose("episodes", EPISODES, QUICK_EPISODES), QUICK_TEAMS if options.quick else TEAMS
    result = []
    for seed in options.seeds(REPEATS, QUICK_REPEATS):
        shared: Row = {"before": episodes, "episodes": episodes, "seed": seed}
        swim = {**shared, "teams": teams["RiverSwim"]}
        result.append(Part("river:newcomer", swim, swim["teams"] * episodes, "RiverSwim, a newcomer"))
        road = {**shared, "radii": "schedule", "costs": list(COSTS), "teams": teams["lane driving"]}
        work = road["teams"] * episodes * lane.effort("schedule")
        result.append(Part("lane:newcomer", road, work, "lane driving, a newcomer"))
    return result


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [row for _, outcome in outcomes for row in outcome["curve"]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(TEAMS), width=6.8, height=3.3)
    for axes, world in zip(panels, TEAMS, strict=True):
        draw_newcomers(axes, select(rows, world=world))
        axes.set_title(f"{world}, {RADII[world]}", fontsize=9)
    panels[0].set_ylabel("total regret of the newcomer")
    panels[0].legend(fontsize=8)
    counts = " and ".join(f"{select(rows, world=world)[0]['teams']} teams ({world})" for world in TEAMS)
    note = f"UCRL2-MC. A fleet of {counts} has run for {rows[0]['before']:,} episodes before. The newcomer has agents of its own "
    note += f"({river.NEWCOMER[0]} and {river.NEWCOMER[1]}; σ = {lane.SIGMA:g}) and goes on alone; lane driving with "
    note += f"c_c(H) = {COSTS[0]}, c_x = {COSTS[1]}, machine known."
    finish(picture, rows, note)
    return style.save(picture, path)


def draw_newcomers(axes: Any, rows: list[Row]) -> None:
    for name, colour in COLOURS.items():
        x, mean, half = over_repeats(select(rows, newcomer=name))
        axes.plot(x, mean, color=colour, linestyle=LINES[name], linewidth=1.6, label=name)
        axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("episode $k$ of the newcomer")
    axes.set_xlim(0, max(row["episode"] for row in rows))
    axes.set_ylim(0, None)


FIGURE = Figure(
    "newcomer",
    "Regret of a new team, with and without what a fleet knows of the environment",
    "A newcomer need not learn the environment again: it only has to learn its own people.",
    parts,
    table,
    draw,
)
