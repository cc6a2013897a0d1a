"""Figure `joins`: a driver who joins a fleet does not have to learn the road again."""

from collections.abc import Sequence
from pathlib import Path

from cede.worlds.pictures import DRIVER_COLOURS
from studies import style
from studies.drawing import draw_band, draw_level, finish
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.runs import lane
from studies.statistics import over_repeats
from studies.tables import all_rows, select, values

EPISODES, QUICK_EPISODES = 50, 10  # of the new driver
BEFORE, QUICK_BEFORE = 40, 10  # of the fleet
TEAMS, QUICK_TEAMS = 10, 4
REPEATS, QUICK_REPEATS = 4, 1
COSTS = lane.COSTS[0]
NEWCOMERS = {"alone": "#777777", "welcomed by the fleet": "#D55E00"}


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    before, teams = (QUICK_BEFORE, QUICK_TEAMS) if options.quick else (BEFORE, TEAMS)
    arguments = {"costs": list(COSTS), "teams": teams, "before": before, "episodes": episodes}
    return [
        Part(
            "runs.first_look:joins",
            {**arguments, "seed": seed},
            before * teams * lane.effort("constant"),
            "a fleet and a new driver",
        )
        for seed in options.seeds(REPEATS, QUICK_REPEATS)
    ]


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return all_rows(outcomes, "cost")


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, axes = style.figure(1, width=5.2, height=2.9)
    for name, colour in NEWCOMERS.items():
        episode, mean, half = over_repeats(select(rows, newcomer=name), y="cost")
        draw_band(axes, episode, mean, half, colour, linewidth=1.8)
        place = len(episode) // 2
        axes.annotate(name, (episode[place], mean[place]), (0, 8), textcoords="offset points", fontsize=8, color=colour)
    for name in values(rows, "newcomer")[2:]:
        cost = select(rows, newcomer=name)[0]["cost"]
        colour = DRIVER_COLOURS.get(name.removesuffix(" alone"), "#222222")
        who = name.replace(" alone", " drives all")
        draw_level(axes, cost, f"{who} {cost:.1f}", colour)
    axes.set_xlim(1, episode[-1])
    axes.set_ylim(0, 1.12 * max(row["cost"] for row in rows))
    axes.set_xlabel("episode of the new driver")
    axes.set_ylabel("expected cost of an episode")
    first = rows[0]
    note = f"Lane driving; the road is unknown. {first['teams']} teams with their own humans have driven {first['before']} "
    note += "episodes each before. In the first two episodes, and again in two later ones, each driver drives alone, as a trial."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "joins",
    "A new driver joins",
    "The fleet shares its counts of the road, so only the new human must be learned. No team knew the road at the start.",
    parts,
    table,
    draw,
)
