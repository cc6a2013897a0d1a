"""Figure `unknown-costs`: what not knowing the costs costs."""

from pathlib import Path
from typing import Any

from studies import style
from studies.drawing import draw_line, episode_axis, finish, legend_above
from studies.figure import Figure, Options, Part, Row
from studies.tables import all_rows, select, values

EPISODES, QUICK_EPISODES = 1000, 60
REPEATS, QUICK_REPEATS = 5, 2
RIVER_REPEATS = 20  # its regret is small and varies
TEAMS, QUICK_TEAMS = 5, 3
LEARNERS = ("UCRL2-MC", "posterior sampling")
COLOURS = {
    "known": style.BLUE,
    "unknown": style.RED,
    "unknown, shared by a fleet": style.GREEN,
    "unknown, alike ones declared": style.PINK,
}
LINES: dict[str, Any] = {
    "known": "--",
    "unknown": "-",
    "unknown, shared by a fleet": ":",
    "unknown, alike ones declared": (0, (6, 2, 1, 2)),
}


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    teams, result = QUICK_TEAMS if options.quick else TEAMS, []
    for world, repeats in (("RiverSwim", RIVER_REPEATS), ("lane driving", REPEATS)):
        for seed in options.seeds(repeats, QUICK_REPEATS):
            for learner in LEARNERS:
                given = {"world": world, "learner": learner, "teams": teams, "episodes": episodes, "seed": seed}
                work = episodes * (1 if world == "RiverSwim" else 40)
                result.append(Part("runs.unknown_costs:with_and_without", given, work, f"{world}, {learner}, costs unknown"))
    return result


def draw(rows: list[Row], path: Path) -> list[Path]:
    worlds, learners = values(rows, "world"), values(rows, "learner")
    picture, panels = style.figure(len(learners), rows=len(worlds), width=style.WIDTH, height=5.0, squeeze=False, sharex=True)
    for i, world in enumerate(worlds):
        for axes, learner in zip(panels[i], learners, strict=True):
            here = select(rows, world=world, learner=learner)
            for costs in values(here, "costs"):
                draw_line(axes, select(here, costs=costs), COLOURS[costs], LINES[costs], f"costs {costs}")
            axes.set_title(f"{world}, {learner}")
            episode_axis(axes, here, "episode" if world == worlds[-1] else "")
            axes.set_ylim(0, None)
        panels[i, 0].set_ylabel("total regret of a team")
    legend_above(picture, panels[-1, 0], columns=2)
    note = (
        "RiverSwim without structure; lane driving, structured (human and road), machine known, control and hand-overs are free. "
    )
    note += "UCRL2-MC with radii as printed, times 0.1. Alike: states in which the car is on the same kind of cell. Fleet: mean of "
    return finish(picture, rows, f"{note}{rows[0]['teams']} teams with the same agents.", path)


FIGURE = Figure(
    "unknown-costs",
    "Regret with known costs, with learned costs, and with costs that a fleet learns together",
    "How much regret do unknown costs add, with few and with many pairs of states and actions, and how much of it is saved by "
    "declaring equal costs, or by a fleet that learns them together?",
    parts,
    all_rows,
    draw,
)
