"""Figure `single-team`: regret of UCRL2-MC, UCRL2, the human and the machine in the obstacle task."""

from collections.abc import Sequence
from pathlib import Path

from cede.experiments import style
from cede.experiments.core import Figure, Options, Outcome, Part, Row
from cede.experiments.curves import draw_curves, finish, select
from cede.experiments.runs import lane

EPISODES, QUICK_EPISODES = 20_000, 120
LEARNERS = (*lane.LEARNERS, "human", "machine")
PANEL = {
    "printed": "radii as printed\n(they say next to nothing here)",
    "schedule": "authors' schedule\n(no guarantee)",
    "constant": "constant scales 0.1, 0.01\n(no guarantee)",
}


def parts(options: Options) -> list[Part]:
    return lane.team_parts(options, LEARNERS, lane.RADII, EPISODES, QUICK_EPISODES)


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [row for _, outcome in outcomes for row in outcome["curve"]]


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
    handles, names = panels[0, 0].get_legend_handles_labels()
    picture.legend(handles, names, loc="outside upper center", ncols=len(names), fontsize=8)
    note = (
        "Lane driving, σ = 2, machine known to UCRL2-MC. With the printed radii every distribution is possible until a pair (s, a) "
    )
    note += "was seen some 450 times, so the learner keeps the agent that is cheapest to hold (ties: at random): a straight line."
    finish(picture, rows, note)
    return style.save(picture, path)


FIGURE = Figure(
    "single-team",
    "Regret of UCRL2-MC, UCRL2, the human and the machine, one team",
    "One team learns the obstacle task. With the radii as printed next to nothing is learned in 20,000 episodes; with scaled radii "
    "both UCRL2-MC and UCRL2 learn, and stay below either driver alone. Rows: with and without costs of control and hand-over.",
    parts,
    table,
    draw,
)
