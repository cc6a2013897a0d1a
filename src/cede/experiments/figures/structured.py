"""Figure `structure`: what declared structure is worth in the obstacle task, with the radii as printed and the guarantee intact."""

from collections.abc import Sequence
from pathlib import Path

from cede.experiments import style
from cede.experiments.core import Figure, Options, Outcome, Part, Row
from cede.experiments.curves import draw_line, finish, select, values
from cede.experiments.runs import lane

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
                result.append(Part("runs.contest:one_run", arguments, episodes, f"{name}, costs {costs}"))
    return result


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [row for _, outcome in outcomes for row in outcome["curve"]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(lane.COSTS), width=7.6, height=3.6)
    for axes, (control, switch) in zip(panels, lane.COSTS, strict=True):
        here = select(rows, control_cost=control, switch_cost=switch)
        for name, (colour, line) in NAMES.items():
            draw_line(axes, select(here, learner=name), colour, line, name + " ({end:,.0f})")
        axes.set_title(lane.cost_label(control, switch), fontsize=9)
        axes.set_yscale("log")
        axes.set_ylim(1, None)
        axes.set_xlim(0, rows[0]["episodes"])
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlabel("episode $k$")
        axes.legend(fontsize=6, loc="lower right")
    panels[0].set_ylabel("total regret")
    watched = [row for row in rows if row["episode"] == row["episodes"] and row["looks"] != ""]
    looks, left = sum(row["looks"] for row in watched), sum(row["left"] + row["above"] for row in watched)
    note = "Lane driving, σ = 2, machine known, radii as printed and unscaled. Declared: a human sees the three cells ahead and "
    note += "steers by what they are; what comes next depends on the traffic level and on being in the middle or outside. In "
    note += (
        f"{looks} looks at {len(values(watched, 'learner'))} learners the truth left a set, or the optimum its bound, {left} times."
    )
    finish(picture, rows, note)
    return style.save(picture, path)


FIGURE = Figure(
    "structure",
    "What declared structure is worth in the obstacle task",
    "With the radii as printed the plain learner learns next to nothing in 20,000 episodes. Told which situations are alike, it "
    "learns, and its guarantee holds.",
    parts,
    table,
    draw,
)
