"""Figure `freshness`: what it costs if teams tell one another what they have seen only now and then."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies import style
from studies.drawing import draw_line, episode_axis, finish, legend_above
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.runs import lane
from studies.tables import select, values

EPISODES, QUICK_EPISODES = 1000, 60
REPEATS, QUICK_REPEATS = 5, 1
LANE_REPEATS = 2  # at most: these runs are long
SYNC_EVERY, QUICK_SYNC_EVERY = (1, 10, 100, 500), (1, 10)
TEAMS = {"RiverSwim": 100, "lane driving": 10}
QUICK_TEAMS = {"RiverSwim": 20, "lane driving": 4}
COSTS = (0.2, 0.1)  # lane driving
COLOURS = (style.RED, style.ORANGE, style.GREEN, style.BLUE)
RIVER_RUN, LANE_RUN = "runs.river:fleet_run", "runs.lane:fleet_run"
WORLD_OF = {RIVER_RUN: "RiverSwim", LANE_RUN: "lane driving"}
LINES: tuple[Any, ...] = ("-", (0, (5, 2)), "-.", (0, (1, 1)))


def parts(options: Options) -> list[Part]:
    episodes, teams = options.choose("episodes", EPISODES, QUICK_EPISODES), QUICK_TEAMS if options.quick else TEAMS
    result = []
    for every in QUICK_SYNC_EVERY if options.quick else SYNC_EVERY:
        for repeat, seed in enumerate(options.seeds(REPEATS, QUICK_REPEATS)):
            shared: Row = {"learner": "UCRL2-MC", "episodes": episodes, "seed": seed, "sync_every": every}
            river = {**shared, "teams": teams["RiverSwim"]}
            result.append(Part(RIVER_RUN, river, river["teams"] * episodes, f"RiverSwim, every {every}"))
            if repeat >= LANE_REPEATS:
                continue
            road = {**shared, "radii": "schedule", "costs": list(COSTS), "teams": teams["lane driving"]}
            work = road["teams"] * episodes * lane.effort("schedule")
            result.append(Part(LANE_RUN, road, work, f"lane driving, every {every}"))
    return result


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [{"world": WORLD_OF[part.function], **row} for part, outcome in outcomes for row in outcome["curve"]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(TEAMS), width=style.WIDTH, height=3.0)
    for axes, world in zip(panels, TEAMS, strict=True):
        here, ends = select(rows, world=world), []
        for every, colour, line in zip(values(here, "sync_every"), COLOURS, LINES, strict=False):
            name = "after every episode" if every == 1 else f"every {every:,} episodes"
            end = draw_line(axes, select(here, sync_every=every), colour, line, name)
            ends.append((end, f"{end:,.0f}", colour))
        axes.set_title(f"{world}, {here[0]['teams']} teams")
        episode_axis(axes, here)
        axes.set_ylim(0, None)
        style.label_ends(axes, ends)
    panels[0].set_ylabel("total regret of all teams")
    legend_above(picture, panels[0], title="what a team has seen is told to the others")
    note = "UCRL2-MC. Between exchanges a team knows only its own observations. RiverSwim with radii as printed; lane driving with "
    note += f"the authors' schedule, machine known; {style.costs(*COSTS)}. Numbers at the right: after the last episode."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "freshness",
    "Total regret of teams that share their counts every n episodes",
    "Where workers are far apart, teams may exchange their counts less often. This shows the cost in regret.",
    parts,
    table,
    draw,
)
