"""Figure `promises`: all learners in both worlds of the paper and on a third-party problem, with what each promises."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from studies import style
from studies.drawing import INTERVAL, finish
from studies.figure import Figure, Options, Part, Row
from studies.files import write_whole
from studies.runs import promises
from studies.statistics import half_width, over_repeats
from studies.tables import all_rows, final_rows, select, values

EPISODES = {"RiverSwim": 5000, "lane driving": 5000, "FrozenLake": 5000}
REPEATS = {"RiverSwim": 10, "lane driving": 3, "FrozenLake": 5}
QUICK_EPISODES, QUICK_REPEATS = 60, 2
EFFORT = {"RiverSwim": 1, "lane driving": 40, "FrozenLake": 10}  # roughly how long an episode takes, for the progress bar
FILES = {"RiverSwim": "riverswim", "lane driving": "lane-driving", "FrozenLake": "frozen-lake"}

FAMILIES = {  # the beginning of a learner's name, and the colour of all whose names begin so
    "UCRL2-MC, structured": "#882255",
    "UCRL2-MC, authors": style.ORANGE,
    "UCRL2-MC, scaled": style.ORANGE,
    "UCRL2-MC": style.RED,
    "posterior": style.BLUE,
    "greedy": style.SKY,
    "UCRL2 ": style.GREEN,
    "": style.GREY,
}
LINES = ("-", (0, (4, 1.5)), (0, (1, 1)))
RATIOS = (1.0, 0.75)  # widths of curves and ranking
SHADES = "broad lines: 95% intervals of means"


def parts(options: Options) -> list[Part]:
    result = []
    for world in promises.WORLDS:
        episodes = options.choose("episodes", EPISODES[world], QUICK_EPISODES)
        for name in promises.competitors(world):
            for seed in options.seeds(REPEATS[world], QUICK_REPEATS):
                arguments = {"world": world, "learner": name, "episodes": episodes, "seed": seed}
                result.append(Part("runs.promises:one_run", arguments, episodes * EFFORT[world], f"{world}, {name}"))
    return result


def standings(rows: Sequence[Row]) -> list[Row]:
    """Rank the learners of one world by their total regret, the least first.

    rows: of that world. Returns one row for each learner: mean regret with half the width of its 95% interval, cost per episode at
    the end, guarantee, number of runs, and the number of runs in which a check of the guarantee failed ("left": the truth was
    outside of a confidence set, "above": the optimistic value was above the optimum; empty where there was nothing to check).
    """
    last = final_rows(rows)
    result = []
    for name in values(last, "learner"):
        runs = select(last, learner=name)
        regret = np.array([[run["regret"] for run in runs]])
        checked = [run for run in runs if run["looks"] != ""]
        result.append(
            {
                "learner": name,
                "regret": float(regret.mean()),
                "half_width": float(half_width(regret)[0]),
                "cost": float(np.mean([run["last_cost"] for run in runs])),
                "guarantee": runs[0]["guarantee"],
                "runs": len(runs),
                "left": sum(run["left"] > 0 for run in checked) if checked else "",
                "above": sum(run["above"] > 0 for run in checked) if checked else "",
            }
        )
    return sorted(result, key=lambda row: row["regret"])


def as_markdown(world: str, rows: Sequence[Row]) -> str:
    """Return the standings of one world as a Markdown document with one table."""
    first = rows[0]
    lines = [
        f"# What learners promise, in {world}",
        "",
        f"{first['episodes']:,} episodes, δ = {promises.DELTA}, cede {first['cede']}, base seed {first['base_seed']}"
        + (", **quick run**" if first["quick"] else "")
        + f". Best possible cost of an episode: {first['optimum']:.3f}. Intervals: 95% over repeats.",
        "",
        "| learner | total regret | cost per episode at the end | guarantee | truth left the sets | optimum left its bound |",
        "|---|---:|---:|---|---:|---:|",
    ]
    for row in standings(rows):
        checks = [f"{row[name]} of {row['runs']} runs" if row[name] != "" else "" for name in ("left", "above")]
        cells = (f"{row['regret']:,.1f} ± {row['half_width']:,.1f}", f"{row['cost']:.3f}", row["guarantee"], *checks)
        lines.append(f"| {row['learner']} | {' | '.join(cells)} |")
    note = (
        "Guarantee: with probability 1 - δ the truth lies in all confidence sets at all times, and the regret bound of the paper "
    )
    note += "follows (if a step costs less than 1; in lane driving costs reach 10)."
    return "\n".join([*lines, "", note, ""])


def overall(rows: Sequence[Row]) -> str:
    """Return a Markdown table of the total regret of every learner in every world; of agents alone only the best one."""
    worlds = values(rows, "world")
    found = {world: {row["learner"]: row for row in standings(select(rows, world=world))} for world in worlds}
    lines = [
        f"| learner | guarantee | {' | '.join(worlds)} |",
        f"|---|---|{'---:|' * len(worlds)}",
    ]
    for name in promises.LEARNERS:
        cells = [f"{found[world][name]['regret']:,.0f} ± {found[world][name]['half_width']:,.0f}" for world in worlds]
        lines.append(f"| {name} | {found[worlds[0]][name]['guarantee']} | {' | '.join(cells)} |")
    best = [min(row["regret"] for name, row in found[world].items() if name not in promises.LEARNERS) for world in worlds]
    lines.append(f"| the best agent alone | | {' | '.join(f'{regret:,.0f}' for regret in best)} |")
    return "\n".join(lines) + "\n"


def colours_and_lines(names: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """Choose a colour and a line style for each learner: one colour for each family, another line for each of its members."""
    used: dict[str, int] = {}
    result = {}
    for name in names:
        colour = next(colour for start, colour in FAMILIES.items() if name.startswith(start))
        result[name] = (colour, LINES[used.setdefault(colour, 0) % len(LINES)])
        used[colour] += 1
    return result


def draw_world(curves: Any, ranking: Any, rows: Sequence[Row], world: str) -> None:
    """Draw one world into two panels: regret over episodes, and the ranking, whose labels are the legend of both.

    curves, ranking: the panels; rows: of that world. A curve bears the number of its learner in the ranking.
    """
    order = standings(rows)
    looks = colours_and_lines(values(rows, "learner"))
    for row in order:
        x, mean, _ = over_repeats(select(rows, learner=row["learner"]))
        colour, line = looks[row["learner"]]
        curves.plot(x, mean, color=colour, linestyle=line, linewidth=1.4, label=row["learner"])
    curves.set(xscale="log", yscale="log", xlabel="episode", ylabel="total regret")
    curves.set_xlim(1, rows[0]["episodes"])
    curves.set_title(world, loc="left")
    style.label_ends(curves, [(row["regret"], str(i + 1), looks[row["learner"]][0]) for i, row in enumerate(order)])
    least = min(row["regret"] for row in order)
    for place, row in enumerate(order):
        colour, line = looks[row["learner"]]
        edges = [max(row["regret"] - row["half_width"], least / 3), row["regret"] + row["half_width"]]
        if row["half_width"]:
            ranking.plot(edges, [place] * 2, color=colour, linewidth=3, alpha=0.4, solid_capstyle="butt", gid=INTERVAL)
        ranking.plot(row["regret"], place, "o" if row["guarantee"] == promises.YES else "x", color=colour, markersize=4.5)
        ranking.plot([-0.16, -0.02], [place, place], color=colour, linestyle=line, linewidth=1.6, clip_on=False, **left_of(ranking))
    ranking.set_xscale("log")
    names = [f"{style.label(row['learner'])}  {i + 1}" for i, row in enumerate(order)]
    ranking.set_yticks(range(len(order)), names, fontsize=style.SMALL)
    ranking.tick_params(axis="y", length=0, pad=18)
    ranking.set_ylim(len(order) - 0.5, -0.5)
    ranking.set_xlabel("total regret at the end")


def left_of(axes: Any) -> dict[str, Any]:
    """Return the options of `plot` for marks beside an axis: x in parts of the axes (negative: left of them), y in data."""
    return {"transform": axes.get_yaxis_transform()}


def draw(rows: list[Row], path: Path) -> list[Path]:
    worlds = values(rows, "world")
    written = []
    for world in worlds:
        here = select(rows, world=world)
        picture, panels = style.figure(2, width=style.WIDTH, height=3.2, width_ratios=RATIOS)
        draw_world(panels[0], panels[1], here, world)
        written += finish(picture, here, small_print([world]), path.with_name(f"{path.name}-{FILES[world]}"), shades=SHADES)
        write_whole(path.with_name(f"{path.name}-{FILES[world]}.md"), as_markdown(world, here))
    write_whole(path.with_suffix(".md"), overall(rows))
    picture, panels = style.figure(2, rows=len(worlds), width=style.WIDTH, height=2.9 * len(worlds), width_ratios=RATIOS)
    for pair, world in zip(panels, worlds, strict=True):
        draw_world(pair[0], pair[1], select(rows, world=world), world)
    return [*finish(picture, rows, small_print(worlds), path, shades=SHADES), *written]


def small_print(worlds: Sequence[str]) -> str:
    """Return the small print under the picture of some worlds."""
    about = {
        "RiverSwim": "RiverSwim: agents are named by their probability of swimming right.",
        "lane driving": f"Lane driving: the paper's obstacle task; σ = 2; {style.costs(0.2, 0.1)}; machine known (not to UCRL2).",
        "FrozenLake": "FrozenLake: Gymnasium's 4x4 map, slippery, 40 steps; three walkers, called north, south and lost.",
    }
    note = "Numbers at the curves are places in the ranking. Dots: with a guarantee; crosses: none."
    return f"{' '.join(about[world] for world in worlds)} {note}"


FIGURE = Figure(
    "promises",
    "Learners with and without a guarantee, and their regret",
    "Learners with a guarantee (dots) and without (crosses), in three worlds. Left: regret over episodes; right: final regret.",
    parts,
    all_rows,
    draw,
)
