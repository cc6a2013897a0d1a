"""Figure `single-team`: regret of UCRL2-MC, UCRL2, the human and the machine in the obstacle task."""

from pathlib import Path

from cede.experiments import style
from cede.experiments.drawing import draw_curves, finish, legend_above
from cede.experiments.figure import Figure, Options, Part, Row
from cede.experiments.runs import lane
from cede.experiments.tables import all_rows, select

EPISODES, QUICK_EPISODES = 20_000, 120
LEARNERS = (*lane.LEARNERS, "human", "machine")
PANEL = {
    "printed": "radii as printed\n(they say next to nothing here)",
    "schedule": "authors' schedule\n(no guarantee)",
    "constant": "constant scales 0.1, 0.01\n(no guarantee)",
}


def parts(options: Options) -> list[Part]:
    return lane.team_parts(options, LEARNERS, lane.RADII, EPISODES, QUICK_EPISODES)


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(3, rows=len(lane.COSTS), width=7.6, height=5.0, sharex=True, sharey="row")
    for i, (control, switch) in enumerate(lane.COSTS):
        here = select(rows, control_cost=control, switch_cost=switch)
        alone = select(here, radii="none")
        for j, radii in enumerate(lane.RADII):
            draw_curves(panels[i, j], select(here, radii=radii) + alone, PANEL[radii] if i == 0 else "")
            if i == 0:
                panels[i, j].set_xlabel("")
        panels[i, 0].set_ylabel(f"total regret\n{lane.cost_label(control, switch)}")
    legend_above(picture, panels[0, 0])
    note = (
        "Lane driving, σ = 2, machine known to UCRL2-MC. With the printed radii every distribution is possible until a pair (s, a) "
    )
    note += "was seen some 450 times, so the learner keeps the agent that is cheapest to hold (ties: at random): a straight line."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "single-team",
    "Regret of UCRL2-MC, UCRL2, the human and the machine, one team",
    "One team learns the obstacle task. With the radii as printed next to nothing is learned in 20,000 episodes; with scaled radii "
    "both UCRL2-MC and UCRL2 learn, and stay below either driver alone. Rows: with and without costs of control and hand-over.",
    parts,
    all_rows,
    draw,
)
