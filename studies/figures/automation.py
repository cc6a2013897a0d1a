"""Figure `automation`: what it costs to have a human in control for some share of the time, in the obstacle task."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from cede import expected_cost, solve
from cede.planning.control_shares import shares_of
from cede.worlds import lane_driving
from studies import style
from studies.drawing import finish, legend_over
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.runs import lane
from studies.tables import all_rows, select

POINTS, QUICK_POINTS = 101, 11
MARKS = {
    "machine alone": ("s", style.COLOURS["machine"]),
    "human alone": ("D", style.COLOURS["human"]),
    "free optimum": ("o", style.RED),
}
WORDS = {"free optimum": "the best policy, whatever its share"}
LINES = {0.2: "-", 0.0: "--"}


def parts(options: Options) -> list[Part]:
    points = QUICK_POINTS if options.quick else POINTS
    return [
        Part("figures.automation:curve", {"costs": list(costs), "points": points}, points, f"automation, costs {costs}")
        for costs in lane.COSTS
    ]


def curve(costs: Sequence[float], points: int, progress: Callable[[int], None]) -> Outcome:
    """Compute the least cost of an episode for each share of human control, exactly, and three policies to compare with.

    costs: of human control and of a hand-over; points: how many shares from 0 to 1. Returns rows "points": of kind "curve" for the
    shares, and one each for the machine alone, the human alone and the best policy without a limit.
    """
    mdp = lane_driving(sigma=lane.SIGMA, control_cost=costs[0], switch_cost=costs[1])
    about: Row = {"control_cost": costs[0], "switch_cost": costs[1]}
    rows: list[Row] = []
    for i, share in enumerate(np.linspace(0.0, 1.0, points)):
        limit = {"human": float(share)}
        mixture = solve(mdp, at_most=limit, at_least=limit)
        found = {"share": float(mixture.shares[1]), "cost": mixture.cost, "policies": len(mixture.policies)}
        rows.append({**about, "kind": "curve", "asked": float(share), **found, "price": float(mixture.prices[1])})
        progress(i + 1)
    shape = (mdp.horizon, mdp.task.n_states, 2)
    marks = {"machine alone": np.zeros(shape, dtype=np.int16), "human alone": np.ones(shape, dtype=np.int16)}
    for name, policy in {**marks, "free optimum": solve(mdp).policy}.items():
        share, cost = float(shares_of(mdp, policy)[1]), expected_cost(mdp, policy)
        rows.append({**about, "kind": name, "asked": "", "share": share, "cost": cost, "policies": 1, "price": ""})
    return {"points": rows}


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, axes = style.figure(1, width=style.ONE_PANEL, height=3.2)
    for control, switch in lane.COSTS:
        here = select(rows, control_cost=control, switch_cost=switch)
        line = select(here, kind="curve")
        x, y = [row["share"] for row in line], [row["cost"] for row in line]
        axes.plot(x, y, color="#444444", linestyle=LINES[control], label=style.costs(control, switch))
    for name, (marker, colour) in MARKS.items():
        marks = select(rows, kind=name)
        axes.plot([m["share"] for m in marks], [m["cost"] for m in marks], marker, color=colour, label=WORDS.get(name, name))
    axes.set_xlabel("share of steps in which the human is in control")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_ylabel("expected cost of an episode")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(0, None)
    legend_over(axes)
    note = f"Lane driving, σ = {lane.SIGMA:g}, everything known: the least cost of all policies, and mixtures of policies, with "
    note += "exactly "
    return finish(picture, rows, f"{note}this share of human control. Exact.", path)


FIGURE = Figure(
    "automation",
    "The price of automation: cost against the share of human control",
    "The least possible cost of an episode for a given share of human control. At the minimum of the curve a limit on the share "
    "is not needed.",
    parts,
    partial(all_rows, kind="points"),
    draw,
)
