"""Figure `human-control`: how much the human drives, by initial traffic, after learning."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cede.experiments import style
from cede.experiments.drawing import finish
from cede.experiments.figure import Figure, Options, Outcome, Part, Row
from cede.experiments.figures.single_team import EPISODES, QUICK_EPISODES
from cede.experiments.runs import lane
from cede.experiments.tables import select, values
from cede.worlds import road

TRAFFIC_COLOURS = {"no-car": "#BDD7E7", "light": "#6BAED6", "heavy": "#08519C"}  # one hue, darker with traffic


def parts(options: Options) -> list[Part]:
    return lane.team_parts(options, ["UCRL2-MC"], lane.RADII, EPISODES, QUICK_EPISODES)


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [{**row, "episodes": outcome["curve"][0]["episodes"]} for _, outcome in outcomes for row in outcome["control"]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(lane.COSTS), width=6.6, height=3.3, sharey=True)
    for axes, (control, switch) in zip(panels, lane.COSTS, strict=True):
        for i, traffic in enumerate(road.LEVELS):
            shares, errors = [], []
            for radii in lane.RADII:
                here = select(rows, control_cost=control, switch_cost=switch, radii=radii, traffic=traffic)
                shares.append(np.mean([row["human_share"] for row in here]))
                errors.append(1.96 * np.sqrt(np.mean([row["standard_error"] ** 2 for row in here]) / len(here)))
            at = np.arange(len(lane.RADII)) + 0.27 * (i - 1)
            axes.bar(
                at,
                shares,
                0.25,
                yerr=errors,
                color=TRAFFIC_COLOURS[traffic],
                edgecolor="#333333",
                linewidth=0.4,
                label=traffic,
                capsize=2,
            )
        axes.set_xticks(range(3), ["as printed", "schedule", "0.1, 0.01"])
        axes.set_xlabel("radii")
        axes.set_title(lane.cost_label(control, switch), fontsize=9)
        axes.set_ylim(0, 1)
        axes.grid(axis="x", visible=False)
    panels[0].set_ylabel("share of steps driven by the human")
    panels[1].legend(title="initial traffic", fontsize=8, title_fontsize=8)
    roads = values(rows, "roads")[0]
    return finish(picture, rows, f"UCRL2-MC after learning, {roads} fresh roads per level, 95% intervals over roads.", path)


FIGURE = Figure(
    "human-control",
    "Share of human control by initial traffic",
    "The heavier the traffic at the start, the more the human drives, once the learner has learned.",
    parts,
    table,
    draw,
)
