"""Figure `many-teams`: total regret of ten teams that share one belief about the road, against UCRL2."""

from itertools import product
from pathlib import Path

from cede.experiments import style
from cede.experiments.drawing import draw_curves, finish
from cede.experiments.figure import Figure, Options, Part, Row
from cede.experiments.runs import lane
from cede.experiments.tables import all_rows, select

TEAMS, QUICK_TEAMS = 10, 4
EPISODES, QUICK_EPISODES = 5000, 60
RADII = "schedule"  # unless asked for others
SHOWN = {
    "printed": "radii as printed",
    "schedule": "the authors' schedule of radii (no guarantee)",
    "constant": "radii times 0.1 (agents) and 0.01 (environment) (no guarantee)",
}


def parts(options: Options) -> list[Part]:
    episodes, teams = options.choose("episodes", EPISODES, QUICK_EPISODES), QUICK_TEAMS if options.quick else TEAMS
    radii = options.radii or RADII
    result = []
    for costs, name, seed in product(lane.COSTS, lane.LEARNERS, options.seeds(1, 1)):
        arguments = {"learner": name, "radii": radii, "costs": list(costs), "teams": teams, "episodes": episodes, "seed": seed}
        work = teams * episodes * lane.effort(radii)
        result.append(Part("runs.lane:fleet_run", arguments, work, f"{teams} teams, {name}, costs {costs}"))
    return result


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(lane.COSTS), width=6.6, height=3.4, sharey=True)
    for axes, (control, switch) in zip(panels, lane.COSTS, strict=True):
        draw_curves(axes, select(rows, control_cost=control, switch_cost=switch), lane.cost_label(control, switch))
    panels[0].set_ylabel("total regret of all teams")
    panels[0].legend(fontsize=8)
    note = f"Lane driving, {rows[0]['teams']} teams in synchronous rounds, σ uniform in (0, 4), machine known to UCRL2-MC, "
    return finish(picture, rows, f"{note}one belief about the road; {SHOWN[rows[0]['radii']]} for all learners.", path)


FIGURE = Figure(
    "many-teams",
    "Total regret of ten teams with a shared environment belief, against UCRL2",
    "Ten drivers, one road. UCRL2-MC pools what all of them see of the road; UCRL2 cannot.",
    parts,
    all_rows,
    draw,
)
