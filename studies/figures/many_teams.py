"""Figure `many-teams`: total regret of teams that share one belief about the road, against UCRL2."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from studies import style
from studies.drawing import draw_curves, finish, from_zero, legend_above
from studies.figure import Figure, Options, Part, Row
from studies.runs import lane
from studies.tables import all_rows, select

TEAMS, QUICK_TEAMS = 10, 4
EPISODES, QUICK_EPISODES = 5000, 60
RADII = "schedule"  # unless asked for others
SHOWN = {
    "printed": "radii as printed",
    "schedule": "the authors' schedule of radii",
    "constant": "radii times 0.1 (agents) and 0.01 (environment), no guarantee,",
}


def size(options: Options) -> tuple[int, int]:
    """Return the numbers of episodes and of teams."""
    return options.choose("episodes", EPISODES, QUICK_EPISODES), QUICK_TEAMS if options.quick else TEAMS


def part(learner: str, radii: str, costs: Sequence[float], teams: int, episodes: int, seed: int) -> Part:
    """Return the part that runs `lane.fleet_run` with these arguments."""
    arguments = {"learner": learner, "radii": radii, "costs": list(costs), "teams": teams, "episodes": episodes, "seed": seed}
    work = teams * episodes * lane.effort(radii)
    return Part("runs.lane:fleet_run", arguments, work, f"{teams} teams, {learner}, costs {costs}")


def parts(options: Options) -> list[Part]:
    (episodes, teams), radii = size(options), options.radii or RADII
    runs = product(lane.COSTS, lane.LEARNERS, options.seeds(lane.REPEATS, lane.QUICK_REPEATS))
    return [part(name, radii, costs, teams, episodes, seed) for costs, name, seed in runs]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(lane.COSTS), width=style.WIDTH, height=3.0, sharey=True)
    ends = [
        draw_curves(axes, select(rows, control_cost=control, switch_cost=switch), style.costs(control, switch))
        for axes, (control, switch) in zip(panels, lane.COSTS, strict=True)
    ]
    from_zero(panels)
    for axes, found in zip(panels, ends, strict=True):
        style.label_ends(axes, [(end, f"{end:,.0f}", style.COLOURS[name]) for name, end in found.items()])
    panels[0].set_ylabel("total regret of all teams")
    legend_above(picture, panels[0])
    note = f"Lane driving, {rows[0]['teams']} teams with σ uniform in (0, 4); UCRL2-MC knows the machine, and its teams have one "
    note += f"belief about the road; {SHOWN[rows[0]['radii']]} for all learners. Numbers at the right: after the last episode."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "many-teams",
    "Total regret of teams that share one belief about the road, against UCRL2",
    "UCRL2-MC pools the observations of many drivers on one road; UCRL2 cannot.",
    parts,
    all_rows,
    draw,
)
