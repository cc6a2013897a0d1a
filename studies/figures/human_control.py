"""Figure `human-control`: how much the human drives, by initial traffic, after learning."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cede.worlds import road
from studies import style
from studies.drawing import INTERVAL, finish, legend_above
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.figures.single_team import EPISODES, QUICK_EPISODES
from studies.runs import lane
from studies.statistics import half_width
from studies.tables import select, values

TRAFFIC_COLOURS = {"no-car": "#BDD7E7", "light": "#6BAED6", "heavy": "#08519C"}  # one hue, darker with traffic
WORDS = {"no-car": "no cars", "light": "light", "heavy": "heavy"}


def parts(options: Options) -> list[Part]:
    return lane.team_parts(options, ["UCRL2-MC"], lane.RADII, EPISODES, QUICK_EPISODES)


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [{**row, "episodes": outcome["curve"][0]["episodes"]} for _, outcome in outcomes for row in outcome["control"]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(lane.COSTS), width=style.WIDTH, height=3.0, sharey=True)
    for axes, (control, switch) in zip(panels, lane.COSTS, strict=True):
        for i, traffic in enumerate(road.LEVELS):
            shares, errors = [], []
            for radii in lane.RADII:
                here = select(rows, control_cost=control, switch_cost=switch, radii=radii, traffic=traffic)
                found = np.array([[row["human_share"] for row in here]])  # (1, seeds)
                shares.append(float(found.mean()))
                errors.append(float(half_width(found)[0]) if found.size > 1 else 1.96 * here[0]["standard_error"])
            at = np.arange(len(lane.RADII)) + 0.29 * (i - 1)
            axes.bar(at, shares, 0.27, color=TRAFFIC_COLOURS[traffic], edgecolor="#333333", linewidth=0.4, label=WORDS[traffic])
            axes.errorbar(at, shares, errors, fmt="none", color="black", capsize=2, linewidth=0.8, gid=INTERVAL)
            for x, share, error in zip(at, shares, errors, strict=True):
                axes.text(x, share + error + 0.01, f"{share:.0%}", ha="center", va="bottom", fontsize=style.SMALL)
        axes.set_xticks(range(len(lane.RADII)), [style.RADII[radii] for radii in lane.RADII])
        axes.set_title(style.costs(control, switch))
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.grid(visible=False)
    panels[0].set_ylabel("share of steps driven by the human")
    legend_above(picture, panels[0], title="traffic at the start")
    note = f"Lane driving, σ = {lane.SIGMA:g}. UCRL2-MC, which knows the machine, after learning, on {values(rows, 'roads')[0]} "
    note += "fresh roads for each level of traffic."
    over = "repeats" if len(values(rows, "seed")) > 1 else "roads"
    return finish(picture, rows, note, path, shades=f"whiskers: 95% intervals over {over}")


FIGURE = Figure(
    "human-control",
    "Share of human control by initial traffic",
    "How much the human drives after learning, by the traffic at the start, for each kind of radii.",
    parts,
    table,
    draw,
)
