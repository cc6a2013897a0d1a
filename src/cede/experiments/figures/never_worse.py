"""Figure `never-worse`: learners that must not be worse than a baseline, in both worlds, and what that costs them."""

from collections.abc import Sequence
from pathlib import Path

from cede.experiments import style
from cede.experiments.core import Figure, Options, Outcome, Part, Row
from cede.experiments.curves import finish, over_repeats, select, values

EPISODES, QUICK_EPISODES = 5000, 100
WORLDS = {  # its baseline, what may be lost, repeats
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
                result.append(Part("runs.promised:cautious_run", arguments, episodes, f"{world}, alpha {alpha}"))
    return result


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    """Of so many runs a quarter of the points is enough, the last among them."""
    return [row for _, outcome in outcomes for row in outcome["curve"][::-4][::-1]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(len(WORLDS), rows=2, width=7.6, height=5.0, sharex=True)
    for column, (world, (baseline, _, _)) in enumerate(WORLDS.items()):
        here = select(rows, world=world)
        upper, lower = panels[0][column], panels[1][column]
        for alpha, colour in zip(values(here, "alpha"), COLOURS, strict=False):
            mine = select(here, alpha=alpha)
            broken = (
                ""
                if alpha == ""
                else f", broken in {sum(row['worst'] > 1 + alpha for row in last(mine))} of {len(last(mine))} runs"
            )
            label = "no baseline" if alpha == "" else rf"$\alpha = {alpha:g}$"
            for seed in values(mine, "seed"):
                one = select(mine, seed=seed)
                upper.plot([r["episode"] for r in one], [r["relative"] for r in one], color=colour, linewidth=0.5, alpha=0.5)
            upper.plot([], [], color=colour, label=label + broken)
            if alpha != "":
                upper.axhline(1 + alpha, color=colour, linewidth=0.8, linestyle=":")
            x, mean, half = over_repeats(mine)
            lower.plot(x, mean, color=colour, linewidth=1.5, label=f"{label} ({mean[-1]:,.0f})")
            lower.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
        upper.axhline(1, color="black", linewidth=0.6)
        upper.set_title(f"{world}, baseline: {baseline} alone", fontsize=9)
        upper.legend(fontsize=6)
        lower.legend(fontsize=7)
        lower.set_xlim(0, rows[0]["episodes"])
        lower.set_xlabel("episode $k$")
    panels[0][0].set_ylabel("total cost / the baseline's")
    panels[1][0].set_ylabel("total regret")
    note = "UCRL2-MC, printed radii, unscaled, structure declared, no agent known, no costs of control and hand-over. "
    note += "Above, one line for each run, exact expected costs; dotted: what was promised. Below, means over runs."
    finish(picture, rows, note)
    return style.save(picture, path)


def last(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["episode"] == row["episodes"]]


FIGURE = Figure(
    "never-worse",
    "Never worse than today: learners with a baseline",
    "With a baseline, the learner deviates only when it can prove that the total cost stays within 1 + alpha of the baseline's. "
    "The promise is kept in every run; in lane driving the same learner without it costs far more at first.",
    parts,
    table,
    draw,
)
