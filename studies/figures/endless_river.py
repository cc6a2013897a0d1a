"""Figure `endless-river`: RiverSwim without a horizon, as UCRL2 was made for it: the average cost of a step."""

from pathlib import Path

import numpy as np

from studies import style
from studies.drawing import draw_line, finish, legend_over
from studies.figure import Figure, Options, Part, Row
from studies.runs import river
from studies.statistics import over_repeats
from studies.tables import all_rows, select, values

STEPS, QUICK_STEPS = 1_000_000, 20_000
REPEATS, QUICK_REPEATS = 10, 2
AGENTS = (0.3, 0.7)  # probabilities of swimming right


def parts(options: Options) -> list[Part]:
    steps = QUICK_STEPS if options.quick else STEPS
    result = []
    for seed in options.seeds(REPEATS, QUICK_REPEATS):
        for name in (*river.LEARNERS, f"p={AGENTS[0]}"):
            arguments = {"learner": name, "agents": list(AGENTS), "steps": steps, "seed": seed}
            result.append(Part("runs.river:endless", arguments, steps // 1000, f"no horizon, {name}"))
    return result


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, axes = style.figure(1, width=4.8, height=3.4)
    ends = []
    for name in (name for name in values(rows, "learner") if name.startswith("UCRL2")):
        colour = style.COLOURS[name]
        ends.append((draw_line(axes, select(rows, learner=name), colour, style.LINES[name], name), colour))
    alone = next(name for name in values(rows, "learner") if not name.startswith("UCRL2"))
    ends.append((draw_line(axes, select(rows, learner=alone), "#666666", ":", f"{style.label(alone)}, the worse one"), "#666666"))
    x, ours, _ = over_repeats(select(rows, learner="UCRL2-MC"))
    axes.plot(x, ours[-1] * np.sqrt(x / x[-1]), color="#BBBBBB", linewidth=0.8, label="growth like the square root of the steps")
    axes.set(xscale="log", yscale="log", xlabel="step", ylabel="total regret")
    axes.set_xlim(x[0], x[-1])
    style.label_ends(axes, [(end, f"{end:,.0f}", colour) for end, colour in ends])
    legend_over(axes)
    note = f"RiverSwim without a horizon: two agents, who swim right with probability {AGENTS[0]} and {AGENTS[1]}. Regret: cost "
    note += "above the best average cost of a step, summed. Radii as printed. Numbers at the right: after the last step."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "endless-river",
    "Regret without a horizon: the average cost of a step in RiverSwim",
    "Do separate beliefs about agents and river pay without a horizon too, in the setting that UCRL2 was made for? Both scales "
    "are logarithmic: a curve that is less steep than the thin line grows more slowly than the square root of the steps.",
    parts,
    all_rows,
    draw,
)
