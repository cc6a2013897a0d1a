"""Figure `newcomer`: what a fleet's knowledge of the environment is worth to a new team."""

from pathlib import Path
from typing import Any

from studies import style
from studies.drawing import draw_line, episode_axis, finish, legend_above
from studies.figure import Figure, Options, Part, Row
from studies.runs import lane
from studies.tables import all_rows, select, values

EPISODES, QUICK_EPISODES = 1000, 60  # of the newcomer, and of the fleet before it comes
REPEATS, QUICK_REPEATS = 3, 2
NEWCOMERS = ((0.1, 0.9), (0.3, 0.7))  # RiverSwim: agents that differ much and little
RIVER_TEAMS, LANE_TEAMS = 100, 10
QUICK_RIVER_TEAMS, QUICK_LANE_TEAMS = 20, 4
COSTS = (0.2, 0.1)  # lane driving
COLOURS = {"alone": style.BLUE, "with the fleet's knowledge": style.RED}
LINES = {"alone": "--", "with the fleet's knowledge": "-"}


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    river_teams, lane_teams = (QUICK_RIVER_TEAMS, QUICK_LANE_TEAMS) if options.quick else (RIVER_TEAMS, LANE_TEAMS)
    result = []
    for seed in options.seeds(REPEATS, QUICK_REPEATS):
        shared: Row = {"before": episodes, "episodes": episodes, "seed": seed}
        for agents in NEWCOMERS:
            river = {**shared, "agents": list(agents), "teams": river_teams}
            result.append(Part("runs.river:newcomer", river, river_teams * episodes, f"RiverSwim, a newcomer {agents}"))
        road = {**shared, "radii": "schedule", "costs": list(COSTS), "teams": lane_teams}
        work = lane_teams * episodes * lane.effort("schedule")
        result.append(Part("runs.lane:newcomer", road, work, "lane driving, a newcomer"))
    return result


def draw(rows: list[Row], path: Path) -> list[Path]:
    worlds = values(rows, "world")
    picture, panels = style.figure(len(worlds), width=style.WIDTH, height=2.8)
    for axes, world in zip(panels, worlds, strict=True):
        draw_newcomers(axes, select(rows, world=world))
        axes.set_title(world.replace(", ", "\n"))
    panels[0].set_ylabel("total regret of the newcomer")
    legend_above(picture, panels[0])
    teams = [select(rows, world=world)[0]["teams"] for world in worlds]
    note = f"UCRL2-MC. A fleet of {teams[0]} teams in RiverSwim (radii as printed; agents are named by their probability of "
    note += "swimming right) or "
    note += (
        f"{teams[-1]} in lane driving (authors' schedule, machine known; {style.costs(*COSTS)}) has run for {rows[0]['before']:,} "
    )
    note += "episodes before. The newcomer has its own agents and continues alone."
    return finish(picture, rows, note, path)


def draw_newcomers(axes: Any, rows: list[Row]) -> None:
    """Draw the regret of both newcomers to one world."""
    for name, colour in COLOURS.items():
        draw_line(axes, select(rows, newcomer=name), colour, LINES[name], name)
    episode_axis(axes, rows, "episode of the newcomer")
    axes.set_ylim(0, None)


FIGURE = Figure(
    "newcomer",
    "Regret of a new team, with and without a fleet's counts of the environment",
    "A newcomer need not learn the environment again, only its own agents. How much does that save if its agents differ much, or "
    "little?",
    parts,
    all_rows,
    draw,
)
