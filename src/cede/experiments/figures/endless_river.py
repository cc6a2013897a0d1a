"""Figure `endless-river`: RiverSwim without a horizon, as UCRL2 was made for it: the average cost of a step."""

from pathlib import Path

import numpy as np

from cede.experiments import style
from cede.experiments.drawing import draw_band, finish
from cede.experiments.figure import Figure, Options, Part, Row
from cede.experiments.runs import river
from cede.experiments.statistics import over_repeats
from cede.experiments.tables import all_rows, select, values

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
    picture, axes = style.figure(1, width=5.2, height=3.6)
    for name in (name for name in values(rows, "learner") if name.startswith("UCRL2")):
        x, mean, half = over_repeats(select(rows, learner=name))
        text = f"{style.label(name)}: {mean[-1]:,.0f}"
        draw_band(axes, x, mean, half, style.COLOURS[name], linestyle=style.LINES[name], linewidth=1.6, label=text)
    alone = next(name for name in values(rows, "learner") if not name.startswith("UCRL2"))
    x, mean, _ = over_repeats(select(rows, learner=alone))
    axes.plot(x, mean, color="#888888", linestyle=":", label=f"the worse agent alone: {mean[-1]:,.0f}")
    ours = over_repeats(select(rows, learner="UCRL2-MC"))[1]
    axes.plot(x, ours[-1] * np.sqrt(x / x[-1]), color="#BBBBBB", linewidth=0.8, label=r"slope of $\sqrt{T}$")
    axes.set(xscale="log", yscale="log", xlabel="step $T$", ylabel="regret in the long run")
    axes.legend(fontsize=7, frameon=False)
    note = (
        f"RiverSwim, agents that swim right with probability {AGENTS[0]} and {AGENTS[1]}, no horizon, average cost. Printed radii, "
    )
    note += f"unscaled, {len(values(rows, 'seed'))} seeds, 95% bands; numbers: after the last step. Both scales logarithmic."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "endless-river",
    "Regret without a horizon: the average cost of a step in RiverSwim",
    "Without a horizon, the setting that UCRL2 was made for, separate beliefs about agents and river still pay: "
    "UCRL2-MC stops losing long before UCRL2 does.",
    parts,
    all_rows,
    draw,
)
