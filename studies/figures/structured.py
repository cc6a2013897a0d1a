"""Figure `structure`: what declared structure is worth in the obstacle task, with the radii as printed and the guarantee intact."""

from pathlib import Path

from studies import style
from studies.drawing import draw_line, finish, legend_above
from studies.figure import Figure, Options, Part, Row
from studies.runs import lane
from studies.tables import all_rows, final_rows, select, values

EPISODES, QUICK_EPISODES = 20_000, 100
REPEATS, QUICK_REPEATS = 3, 1
NAMES = {
    "UCRL2-MC, structured": (style.RED, "-"),
    "UCRL2-MC, structured, Bernstein for agents": ("#882255", (0, (4, 1.5))),
    "UCRL2-MC, printed": ("#777777", "-"),
    "human alone": (style.COLOURS["human"], style.LINES["human"]),
    "machine alone": (style.COLOURS["machine"], style.LINES["machine"]),
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
    picture, panels = style.figure(len(lane.COSTS), width=style.WIDTH, height=3.2, sharey=True)
    for axes, (control, switch) in zip(panels, lane.COSTS, strict=True):
        here, ends = select(rows, control_cost=control, switch_cost=switch), []
        for name, (colour, line) in NAMES.items():
            end = draw_line(axes, select(here, learner=name), colour, line, name)
            ends.append((end, f"{end:,.0f}", colour))
        axes.set_title(style.costs(control, switch))
        axes.set(xscale="log", yscale="log", xlabel="episode")
        axes.set_xlim(1, rows[0]["episodes"])
        style.label_ends(axes, ends)
    panels[0].set_ylabel("total regret")
    legend_above(picture, panels[0], columns=3)
    checked = [row for row in final_rows(rows) if row["looks"] != ""]
    looks, left = sum(row["looks"] for row in checked), sum(row["left"] + row["above"] for row in checked)
    note = "Lane driving, σ = 2, machine known, radii as printed. Declared: a human sees the three cells ahead and steers by "
    note += "their kind; the next row depends on the traffic level and on the lane (middle or outer). Both scales "
    note += f"logarithmic; numbers at the right: after the last episode. In {looks} checks of {len(values(checked, 'learner'))} "
    note += "learners the truth left a set, or the "
    return finish(picture, rows, f"{note}optimistic value exceeded the optimum, {left} times.", path)


FIGURE = Figure(
    "structure",
    "What declared structure is worth in the obstacle task",
    "The same learner with the printed radii, with and without declared structure, compared with either driver alone. "
    "The settings state how often its guarantee was broken.",
    parts,
    all_rows,
    draw,
)
