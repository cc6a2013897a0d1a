"""Figure `riverswim`: the task as a picture, drawn from its tables."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cede.worlds.riverswim import COST, RIGHT, transitions
from studies import style
from studies.drawing import finish
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.tables import all_rows

VERSION = "osband"


def parts(options: Options) -> list[Part]:
    return [Part("figures.riverswim_task:tables", {"version": VERSION}, 1, "RiverSwim's tables")]


def tables(version: str, progress: Callable[[int], None]) -> Outcome:
    """Return the probabilities and costs of RiverSwim, one row "transition" for each possible step."""
    p = transitions(version)
    progress(1)
    rows = []
    for s, a, after in zip(*p.nonzero(), strict=True):
        about = {"version": version, "state": int(s), "action": "right" if a == RIGHT else "left", "next": int(after)}
        rows.append({**about, "probability": float(p[s, a, after]), "cost": float(COST[s])})
    return {"transition": rows}


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, axes = style.figure(1, width=style.WIDTH, height=1.9)
    for row in rows:
        arrow(axes, row)
    for s, cost in {row["state"]: row["cost"] for row in rows}.items():
        axes.text(2 * s, 0, f"$s_{s + 1}$", ha="center", va="center", fontsize=12, zorder=4)
        axes.add_patch(circle(2 * s))
        axes.text(2 * s, -1.4, f"cost {cost:g}", ha="center", fontsize=8, color="#444444")
    axes.set_xlim(-1.2, 11.2)
    axes.set_ylim(-1.5, 1.15)
    axes.set_aspect("equal")
    axes.axis("off")
    note = "RiverSwim: six places along a river, a cost for each step there, and the probabilities of what comes next. Blue, "
    note += "solid: trying to swim right; red, dashed: swimming left. Our copy of the paper lacks its numbers; these are of "
    note += "Osband's version, which fits its costs."
    return finish(picture, rows, note, path)


def circle(x: float) -> Any:
    """Return the outline of a state."""
    from matplotlib.patches import Circle

    return Circle((x, 0), 0.42, facecolor="white", edgecolor="black", linewidth=1.2, zorder=3)


def arrow(axes: Any, row: Row) -> None:
    """Draw one possible step as an arc with its probability. Steps that stay are loops, above (right) or below (left) the state."""
    from matplotlib.patches import FancyArrowPatch

    here, there, right = 2 * row["state"], 2 * row["next"], row["action"] == "right"
    colour, line = ("#0072B2", "-") if right else ("#D55E00", (0, (4, 2)))
    options: dict[str, Any] = {
        "arrowstyle": "-|>",
        "mutation_scale": 9,
        "color": colour,
        "linestyle": line,
        "linewidth": 1.1,
        "zorder": 2,
    }
    text = f"{row['probability']:g}"
    if here == there:
        y, bend = (0.36, -1.5) if right else (-0.36, 1.5)
        axes.add_patch(FancyArrowPatch((here - 0.22, y), (here + 0.22, y), connectionstyle=f"arc3,rad={bend}", **options))
        axes.text(here, 0.95 if right else -0.95, text, ha="center", va="center", fontsize=8, color=colour)
        return
    forward = there > here
    low = right and not forward  # the current carries back a swimmer who tries to go right
    bend = -0.35 if forward else (-0.12 if low else -0.5)
    start, end = (here + 0.4, there - 0.4) if forward else (here - 0.4, there + 0.4)
    y = 0.12 if forward else -0.1
    axes.add_patch(FancyArrowPatch((start, y), (end, y), connectionstyle=f"arc3,rad={bend}", **options))
    height = 0.5 if forward else (-0.04 if low else -0.62)
    axes.text((here + there) / 2, height, text, ha="center", va="center", fontsize=8, color=colour)


FIGURE = Figure(
    "riverswim",
    "The RiverSwim task",
    "Six states against a current; only the far bank costs nothing. Agents differ in how often they swim right.",
    parts,
    partial(all_rows, kind="transition"),
    draw,
)
