"""Figure `structure`: what declared structure is worth in the obstacle task, with the radii as printed and the guarantee intact."""

from pathlib import Path

from cede.experiments import style
from cede.experiments.drawing import draw_line, episode_axis, finish
from cede.experiments.figure import Figure, Options, Part, Row
from cede.experiments.runs import lane
from cede.experiments.tables import all_rows, final_rows, select, values

EPISODES, QUICK_EPISODES = 20_000, 100
REPEATS, QUICK_REPEATS = 3, 1
NAMES = {
    "UCRL2-MC, structured": ("#D55E00", "-"),
    "UCRL2-MC, structured, Bernstein for agents": ("#CC79A7", (0, (5, 1))),
    "UCRL2-MC, printed": ("#999999", "-"),
    "human alone": (style.COLOURS["human"], "-."),
    "machine alone": (style.COLOURS["machine"], ":"),
}


def parts(options: Options) -> list[Part]:
    episodes, result = options.choose("episodes", EPISODES, QUICK_EPISODES), []
    for costs in lane.COSTS:
        for name in NAMES:
            for seed in options.seeds(REPEATS if "structured" in name else 1, QUICK_REPEATS):
                arguments = {"world": "lane driving", "learner": name, "episodes": episodes, "seed": seed, "costs": list(costs)}
                result.append(Part("runs.promises:one_run", arguments, episodes, f"{name}, costs {costs}"))
    return result


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(lane.COSTS), width=7.6, height=3.6)
    for axes, (control, switch) in zip(panels, lane.COSTS, strict=True):
        here = select(rows, control_cost=control, switch_cost=switch)
        for name, (colour, line) in NAMES.items():
            draw_line(axes, select(here, learner=name), colour, line, name + " ({end:,.0f})")
        axes.set_title(lane.cost_label(control, switch), fontsize=9)
        axes.set_yscale("log")
        axes.set_ylim(1, None)
        episode_axis(axes, rows)
        axes.locator_params(axis="x", nbins=4)
        axes.legend(fontsize=6, loc="lower right")
    panels[0].set_ylabel("total regret")
    checked = [row for row in final_rows(rows) if row["looks"] != ""]
    looks, left = sum(row["looks"] for row in checked), sum(row["left"] + row["above"] for row in checked)
    note = "Lane driving, σ = 2, machine known, radii as printed and unscaled. Declared: a human sees the three cells ahead and "
    note += "steers by what they are; what comes next depends on the traffic level and on being in the middle or outside. In "
    note += (
        f"{looks} looks at {len(values(checked, 'learner'))} learners the truth left a set, or the optimum its bound, {left} times."
    )
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "structure",
    "What declared structure is worth in the obstacle task",
    "With the radii as printed the plain learner learns next to nothing in 20,000 episodes. Told which situations are alike, it "
    "learns, and its guarantee holds.",
    parts,
    all_rows,
    draw,
)
