"""Figure `unknown-costs`: what not knowing the costs costs."""

from pathlib import Path
from typing import Any

from cede.experiments import style
from cede.experiments.drawing import draw_line, episode_axis, finish
from cede.experiments.figure import Figure, Options, Part, Row
from cede.experiments.tables import all_rows, select, values

EPISODES, QUICK_EPISODES = 1000, 60
REPEATS, QUICK_REPEATS = 5, 2
RIVER_REPEATS = 20  # its regret is small and varies
TEAMS, QUICK_TEAMS = 5, 3
LEARNERS = ("UCRL2-MC", "posterior sampling")
COLOURS = {
    "known": "#0072B2",
    "unknown": "#D55E00",
    "unknown, shared by a fleet": "#009E73",
    "unknown, alike ones declared": "#CC79A7",
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
    panels = [(world, learner) for world in values(rows, "world") for learner in values(rows, "learner")]
    picture, axes = style.figure(len(panels), width=10.4, height=3.4)
    for one, (world, learner) in zip(axes, panels, strict=True):
        here = select(rows, world=world, learner=learner)
        for costs in values(here, "costs"):
            draw_line(one, select(here, costs=costs), COLOURS[costs], LINES[costs], f"costs {costs}")
        one.set_title(f"{world}, {learner}", fontsize=9)
        episode_axis(one, here)
        one.set_ylim(0, None)
    axes[0].set_ylabel("total regret of a team")
    picture.legend(*axes[-1].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8, frameon=False)
    seeds = [len(values(select(rows, world=world), "seed")) for world in values(rows, "world")]
    note = (
        "RiverSwim without structure; lane driving with declared structure of human and road, machine known, no costs of control "
    )
    note += (
        "and hand-over. UCRL2-MC with printed radii, scaled by 0.1. Alike: states in which the car is on the same kind of cell. "
    )
    note += f"Fleet: mean of {rows[0]['teams']} teams with the same agents. RiverSwim {seeds[0]} seeds, lane driving {seeds[-1]}."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "unknown-costs",
    "Regret with costs that are told, that must be learned, and that a fleet learns together",
    "Where there are few places, not knowing what actions cost costs little. Where there are thousands, it is dear to learn "
    "each by itself, and cheap to say which are alike; a fleet learns them together.",
    parts,
    all_rows,
    draw,
)
