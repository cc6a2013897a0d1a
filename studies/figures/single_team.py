"""Figure `single-team`: regret of UCRL2-MC, UCRL2, the human and the machine in the obstacle task."""

from pathlib import Path

from studies import style
from studies.drawing import draw_curves, finish, from_zero, legend_above, repeats_of
from studies.figure import Figure, Options, Part, Row
from studies.runs import lane
from studies.tables import all_rows, select

EPISODES, QUICK_EPISODES = 20_000, 120
LEARNERS = (*lane.LEARNERS, "human", "machine")


def parts(options: Options) -> list[Part]:
    return lane.team_parts(options, LEARNERS, lane.RADII, EPISODES, QUICK_EPISODES)


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(3, rows=len(lane.COSTS), width=style.WIDTH, height=4.6, sharex=True, sharey=True)
    for i, (control, switch) in enumerate(lane.COSTS):
        here = select(rows, control_cost=control, switch_cost=switch)
        alone = select(here, radii="none")
        for j, radii in enumerate(lane.RADII):
            draw_curves(panels[i, j], select(here, radii=radii) + alone, style.RADII[radii] if i == 0 else "")
            if i == 0:
                panels[i, j].set_xlabel("")
        words = style.costs(control, switch).replace(", ", ",\n")
        panels[i, 0].set_ylabel(f"total regret\n{words}")
    from_zero(panels)
    legend_above(picture, panels[0, 0])
    note = f"Lane driving, σ = {lane.SIGMA:g}, machine known to UCRL2-MC. While its sets allow every distribution, a learner keeps "
    note += (
        "the agent with the lowest control cost (ties: at random), so its regret is a straight line. Overlapping curves are drawn "
    )
    note += "dashed on wide."
    return finish(picture, rows, note, path, repeats=f"{repeats_of(select(rows, learner=lane.LEARNERS[0]))}, drivers alone exact")


FIGURE = Figure(
    "single-team",
    "Regret of UCRL2-MC, UCRL2, the human and the machine, one team",
    "One team learns the obstacle task, with the radii as printed and with two ways to scale them. A learner's curve bends away "
    "from the straight lines of the drivers alone. Rows: with and without costs of control and hand-over.",
    parts,
    all_rows,
    draw,
)
