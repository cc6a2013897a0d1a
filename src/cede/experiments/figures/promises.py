"""Figure `promises`: all learners in both worlds of the paper and on a third-party problem, with what each promises."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cede._base.archive import write_whole
from cede._base.extras import need
from cede.experiments import style
from cede.experiments.drawing import draw_line, finish
from cede.experiments.figure import Figure, Options, Part, Row
from cede.experiments.runs import promises
from cede.experiments.statistics import half_width
from cede.experiments.tables import all_rows, final_rows, select, values

EPISODES = {"RiverSwim": 5000, "lane driving": 5000, "FrozenLake": 5000}
REPEATS = {"RiverSwim": 10, "lane driving": 3, "FrozenLake": 5}
QUICK_EPISODES, QUICK_REPEATS = 60, 2
EFFORT = {"RiverSwim": 1, "lane driving": 40, "FrozenLake": 10}  # roughly how long an episode takes, for the progress bar
FILES = {"RiverSwim": "riverswim", "lane driving": "lane-driving", "FrozenLake": "frozen-lake"}

FAMILIES = {"UCRL2-MC": "#D55E00", "posterior": "#0072B2", "greedy": "#56B4E9", "UCRL2 ": "#009E73", "": "#999999"}
LINES = ("-", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)), (0, (2, 2)), (0, (6, 1, 1, 1)))


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
        family = next(start for start in FAMILIES if name.startswith(start))
        result[name] = (FAMILIES[family], LINES[used.setdefault(family, 0) % len(LINES)])
        used[family] += 1
    return result


def draw_world(curves: Any, ranking: Any, rows: Sequence[Row], world: str) -> None:
    """Draw one world into two panels: regret over episodes, and the ranking, whose labels are the legend of both.

    curves, ranking: the panels; rows: of that world.
    """
    order = standings(rows)
    looks = colours_and_lines(values(rows, "learner"))
    for row in order:
        draw_line(curves, select(rows, learner=row["learner"]), *looks[row["learner"]], row["learner"])
    curves.set_yscale("log")
    curves.set_xlim(0, rows[0]["episodes"])
    least = min(row["regret"] for row in order)
    curves.set_ylim(max(least / 10, 1e-3), None)
    curves.set_xlabel("episode $k$")
    curves.set_ylabel("total regret")
    curves.set_title(f"{world}", fontsize=9, loc="left")
    for place, row in enumerate(order):
        colour, line = looks[row["learner"]]
        edges = [max(row["regret"] - row["half_width"], least / 3), row["regret"] + row["half_width"]]
        ranking.plot(edges, [place, place], color=colour, linewidth=3, alpha=0.35, solid_capstyle="butt")
        ranking.plot(row["regret"], place, "o" if row["guarantee"] == promises.YES else "x", color=colour, markersize=5)
        ranking.plot([-0.09, -0.02], [place, place], color=colour, linestyle=line, linewidth=1.6, clip_on=False, **left_of(ranking))
    ranking.set_xscale("log")
    plain_ticks(ranking)
    ranking.set_yticks(range(len(order)), [row["learner"] for row in order], fontsize=7)
    ranking.tick_params(axis="y", length=0, pad=16)
    ranking.set_ylim(len(order) - 0.5, -0.5)
    ranking.set_xlabel(f"total regret after {rows[0]['episodes']:,} episodes")


def plain_ticks(axes: Any) -> None:
    """Label a logarithmic horizontal axis: with 1, 2, 5, 10 ... as plain numbers if it is short, else with powers of ten."""
    ticker = need("matplotlib.ticker", "plots")
    low, high = axes.get_xlim()
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    if high < 30 * low:
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))


def left_of(axes: Any) -> dict[str, Any]:
    """Return the options of `plot` for marks beside an axis: x in parts of the axes (negative: left of them), y in data."""
    return {"transform": axes.get_yaxis_transform()}


def draw(rows: list[Row], path: Path) -> list[Path]:
    worlds = values(rows, "world")
    written = []
    for world in worlds:
        here = select(rows, world=world)
        picture, panels = style.figure(2, width=8.2, height=3.6, width_ratios=(1.0, 0.8))
        draw_world(panels[0], panels[1], here, world)
        written += finish(picture, here, small_print(world), path.with_name(f"{path.name}-{FILES[world]}"))
        write_whole(path.with_name(f"{path.name}-{FILES[world]}.md"), as_markdown(world, here))
    write_whole(path.with_suffix(".md"), overall(rows))
    picture, panels = style.figure(2, rows=len(worlds), width=8.2, height=3.3 * len(worlds), width_ratios=(1.0, 0.8))
    for pair, world in zip(panels, worlds, strict=True):
        draw_world(pair[0], pair[1], select(rows, world=world), world)
    return [*finish(picture, rows, small_print(""), path), *written]


def small_print(world: str) -> str:
    """Return the small print under the picture of one world, or of all worlds if the name is empty."""
    about = {
        "RiverSwim": "Agents 0.3 and 0.7.",
        "lane driving": "σ = 2, c_c(H) = 0.2, c_x = 0.1, machine known (not to UCRL2).",
        "FrozenLake": "Gymnasium's 4x4 map, slippery, 40 steps, three walkers.",
        "": "RiverSwim: agents 0.3 and 0.7. Lane driving: c_c(H) = 0.2, c_x = 0.1, machine known. FrozenLake: three walkers.",
    }[world]
    return f"{about} Dots: guaranteed with probability 1 - δ; crosses: nothing is promised."


FIGURE = Figure(
    "promises",
    "What learners promise, and what that costs, in three worlds",
    "Which learner should one use? Those with a guarantee (dots) against those without (crosses). Declared structure is what makes "
    "a guarantee useful; posterior sampling is the fastest where none is needed.",
    parts,
    all_rows,
    draw,
)
