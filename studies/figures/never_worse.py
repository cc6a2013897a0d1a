"""Figure `never-worse`: learners that must not be worse than a baseline, in both worlds, and what that costs them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies import style
from studies.drawing import draw_line, episode_axis, finish
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.tables import final_rows, select, values

EPISODES, QUICK_EPISODES = 5000, 100
WORLDS = {  # for each: the agent who is the baseline, the values of alpha, repeats
    "RiverSwim": ("p=0.7", (0.002, 0.01), 30),
    "lane driving": ("human", (0.02, 0.1), 10),
}
COLOURS = ("#777777", style.BLUE, style.RED)  # no baseline, a small alpha, a larger one
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), "-")


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
    picture, panels = style.figure(len(WORLDS), rows=2, width=style.WIDTH, height=5.0, sharex=True)
    broken = []
    for column, (world, (baseline, _, _)) in enumerate(WORLDS.items()):
        here, ends = select(rows, world=world), []
        upper, lower = panels[0][column], panels[1][column]
        for alpha, colour, line in zip(values(here, "alpha"), COLOURS, LINES, strict=False):
            mine = select(here, alpha=alpha)
            label = "no promise" if alpha == "" else f"at most {alpha:.1%} above the baseline".replace(".0%", "%")
            for seed in values(mine, "seed"):
                one = select(mine, seed=seed)
                upper.plot(*columns(one, "episode", "relative"), color=colour, linewidth=0.5, alpha=0.6, linestyle=line)
            if alpha != "":
                upper.axhline(1 + alpha, color=colour, linewidth=1.0, linestyle=":")
                kept = [row["worst"] <= 1 + alpha for row in final_rows(mine)]
                broken.append(f"{kept.count(False)} of {len(kept)}")
            end = draw_line(lower, mine, colour, line, label)
            ends.append((end, f"{end:,.0f}", colour))
        upper.axhline(1, color="black", linewidth=0.8)
        upper.yaxis.set_major_formatter(
            lambda value, _: f"{value - 1:+.3%}".rstrip("0%").rstrip(".") + "%" if value != 1 else "as baseline"
        )
        episode_axis(lower, rows)
        lower.set_ylim(0, None)
        style.label_ends(lower, ends)
        handles, labels = lower.get_legend_handles_labels()
        title = f"{world}, baseline: {style.label(baseline)}"
        upper.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1), title=title, alignment="left", borderaxespad=0.3)
    panels[0][0].set_ylabel("total cost so far,\nagainst the baseline's")
    panels[1][0].set_ylabel("total regret")
    note = "UCRL2-MC, structured, no agent known, radii as printed, control and hand-overs are free. Above, one line for each "
    note += f"run, exact expected costs; dotted: the guaranteed limit. It was exceeded in {', '.join(broken)} runs (from left to "
    note += "right). Below, means."
    return finish(picture, rows, note, path)


def columns(rows: Sequence[Row], *names: str) -> list[list[float]]:
    """Return columns of a table."""
    return [[row[name] for row in rows] for name in names]


FIGURE = Figure(
    "never-worse",
    "Never worse than today: learners with a baseline",
    "With a baseline, the learner deviates only when it can prove that the total cost stays within the guaranteed limit. Above: "
    "is the limit kept, and what does the same learner cost without a baseline? Below: the cost of the guarantee in regret.",
    parts,
    table,
    draw,
)
