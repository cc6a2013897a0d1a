"""Figure `overview`: who drives early and late, and what that saves, in one picture."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cede.worlds.pictures import draw_drive, legend_handles
from studies import style
from studies.drawing import draw_curves, finish, from_zero
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.figures.single_team import EPISODES, QUICK_EPISODES
from studies.figures.trajectories import drive_of
from studies.runs import lane
from studies.tables import select, values

COSTS = lane.COSTS[0]
RADII = "constant"
TRAFFIC = "light"


def parts(options: Options) -> list[Part]:
    one = replace(options, repeats=1)
    every = lane.team_parts(one, ["UCRL2-MC", "human", "machine"], [RADII], EPISODES, QUICK_EPISODES)
    return [part for part in every if tuple(part.arguments["costs"]) == COSTS]


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    curves = [{"kind": "curve", **row} for _, outcome in outcomes for row in outcome["curve"]]
    drives = [{"kind": "drive", **row} for _, outcome in outcomes for row in outcome["drive"] if row["traffic"] == TRAFFIC]
    return curves + drives


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(3, width=style.WIDTH, height=3.6, width_ratios=(1, 1, 2.8))
    drives = select(rows, kind="drive")
    moments = values(drives, "episode")
    for axes, k in zip(panels, (moments[0], moments[-1]), strict=False):
        driven = drive_of(select(drives, episode=k))
        draw_drive(axes, driven, title=f"episode {k:,}\ncost {driven.cost:.1f}")
    ends = draw_curves(panels[2], select(rows, kind="curve"), "what learning costs")
    panels[2].set_ylabel("total regret")
    from_zero(panels[2])
    style.label_ends(panels[2], [(end, f"{style.label(name)}\n{end:,.0f}", style.COLOURS[name]) for name, end in ends.items()])
    picture.legend(handles=legend_handles(), loc="outside upper center", ncols=6)
    note = f"Lane driving, σ = {lane.SIGMA:g}, machine known; {style.costs(*COSTS)}. Radii times 0.1 (agents) and 0.01 "
    note += f"(environment): no guarantee. Left: the same road in {TRAFFIC} traffic, early and late; right: exact. Numbers at the "
    note += "right: after the last episode."
    return finish(picture, select(rows, kind="curve"), note, path)


FIGURE = Figure(
    "overview",
    "Learning who should drive, and what it saves",
    "A machine that was trained without traffic and a human who sees badly share a car. The learner finds out who should drive, "
    "cell by cell. Left: a drive early and late; right: the regret so far of the learner and of each driver alone.",
    parts,
    table,
    draw,
)
