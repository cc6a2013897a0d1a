"""Figure `never-worse`: learners that must not be worse than a baseline, in both worlds, and what that costs them."""

from collections.abc import Sequence
from pathlib import Path

from cede.experiments import style
from cede.experiments.drawing import draw_band, episode_axis, finish
from cede.experiments.figure import Figure, Options, Outcome, Part, Row
from cede.experiments.statistics import over_repeats
from cede.experiments.tables import final_rows, select, values

EPISODES, QUICK_EPISODES = 5000, 100
WORLDS = {  # for each: the agent who is the baseline, the values of alpha, repeats
    "RiverSwim": ("p=0.7", (0.002, 0.01), 30),
    "lane driving": ("human", (0.02, 0.1), 10),
}
COLOURS = ("#999999", "#0072B2", "#D55E00")  # no baseline, a small alpha, a larger one


def parts(options: Options) -> list[Part]:
    episodes, result = options.choose("episodes", EPISODES, QUICK_EPISODES), []
    for world, (baseline, alphas, repeats) in WORLDS.items():
        for alpha in (None, *alphas):
            for seed in options.seeds(repeats, 1):
                arguments = {"world": world, "baseline": baseline, "alpha": alpha, "episodes": episodes, "seed": seed}
                result.append(Part("runs.limits_and_baseline:baseline_run", arguments, episodes, f"{world}, alpha {alpha}"))
    return result


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    """Make a table of every fourth point of each curve, the last one always among them: there are many runs."""
    return [row for _, outcome in outcomes for row in outcome["curve"][::-4][::-1]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(WORLDS), rows=2, width=7.6, height=5.0, sharex=True)
    for column, (world, (baseline, _, _)) in enumerate(WORLDS.items()):
        here = select(rows, world=world)
        upper, lower = panels[0][column], panels[1][column]
        for alpha, colour in zip(values(here, "alpha"), COLOURS, strict=False):
            mine = select(here, alpha=alpha)
            ends = final_rows(mine)
            broken = "" if alpha == "" else f", broken in {sum(row['worst'] > 1 + alpha for row in ends)} of {len(ends)} runs"
            label = "no baseline" if alpha == "" else rf"$\alpha = {alpha:g}$"
            for seed in values(mine, "seed"):
                one = select(mine, seed=seed)
                upper.plot([r["episode"] for r in one], [r["relative"] for r in one], color=colour, linewidth=0.5, alpha=0.5)
            upper.plot([], [], color=colour, label=label + broken)
            if alpha != "":
                upper.axhline(1 + alpha, color=colour, linewidth=0.8, linestyle=":")
            x, mean, half = over_repeats(mine)
            draw_band(lower, x, mean, half, colour, linewidth=1.5, label=f"{label} ({mean[-1]:,.0f})")
        upper.axhline(1, color="black", linewidth=0.6)
        upper.set_title(f"{world}, baseline: {baseline} alone", fontsize=9)
        upper.legend(fontsize=6)
        lower.legend(fontsize=7)
        episode_axis(lower, rows)
    panels[0][0].set_ylabel("total cost / the baseline's")
    panels[1][0].set_ylabel("total regret")
    note = "UCRL2-MC, printed radii, unscaled, structure declared, no agent known, no costs of control and hand-over. "
    note += "Above, one line for each run, exact expected costs; dotted: what was promised. Below, means over runs."
    return finish(picture, rows, note, path)


FIGURE = Figure(
    "never-worse",
    "Never worse than today: learners with a baseline",
    "With a baseline, the learner deviates only when it can prove that the total cost stays within 1 + alpha of the baseline's. "
    "The promise is kept in every run; in lane driving the same learner without it costs far more at first.",
    parts,
    table,
    draw,
)
