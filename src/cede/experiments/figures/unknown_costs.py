"""Figure `unknown-costs`: what not knowing the costs costs."""

from pathlib import Path

from cede.experiments import style
from cede.experiments.drawing import draw_line, episode_axis, finish
from cede.experiments.figure import Figure, Options, Part, Row
from cede.experiments.tables import all_rows, select, values

EPISODES, QUICK_EPISODES = 1000, 60
REPEATS, QUICK_REPEATS = 5, 2
TEAMS, QUICK_TEAMS = 5, 3
LEARNERS = ("UCRL2-MC", "posterior sampling")
COLOURS = {"known": "#0072B2", "unknown": "#D55E00", "unknown, shared by a fleet": "#009E73"}
LINES = {"known": "--", "unknown": "-", "unknown, shared by a fleet": ":"}


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    teams, result = QUICK_TEAMS if options.quick else TEAMS, []
    for seed in options.seeds(REPEATS, QUICK_REPEATS):
        for world in ("RiverSwim", "lane driving"):
            for learner in LEARNERS:
                given = {"world": world, "learner": learner, "teams": teams, "episodes": episodes, "seed": seed}
                work = episodes * (1 if world == "RiverSwim" else 40)
                result.append(Part("runs.unknown_costs:with_and_without", given, work, f"{world}, {learner}, costs unknown"))
    return result


def draw(rows: list[Row], path: Path) -> list[Path]:
    panels = [(world, learner) for world in values(rows, "world") for learner in values(rows, "learner")]
    picture, axes = style.figure(len(panels), width=10.4, height=3.0)
    for one, (world, learner) in zip(axes, panels, strict=True):
        here = select(rows, world=world, learner=learner)
        for costs in values(here, "costs"):
            draw_line(one, select(here, costs=costs), COLOURS[costs], LINES[costs], costs + ": {end:,.0f}")
        one.set_title(f"{world}, {learner}", fontsize=9)
        episode_axis(one, here)
        one.set_ylim(0, None)
        one.legend(fontsize=7, frameon=False, title="costs", title_fontsize=7)
    axes[0].set_ylabel("total regret of a team")
    note = (
        "RiverSwim without structure, lane driving with declared structure of agents and environment, machine known, no costs of "
    )
    note += (
        "control and hand-over; UCRL2-MC with printed radii, scaled by 0.1. Costs within their true range, every pair by itself. "
    )
    note += f"Fleet: mean of {rows[0]['teams']} teams with the same agents. {len(values(rows, 'seed'))} seeds, 95% bands."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "unknown-costs",
    "Regret with costs that are told, that must be learned, and that a fleet learns together",
    "Not knowing what actions cost costs something at first and little in the end; a fleet learns costs together.",
    parts,
    all_rows,
    draw,
)
