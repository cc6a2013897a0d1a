"""The pictures of `cede demo`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cede._base.arrays import Floats
from cede._base.extras import AGENT_COLOURS, need, save_picture
from cede.comparison.look import RC
from cede.fleet.history import History
from cede.worlds.lane_driving import Drive
from cede.worlds.pictures import DRIVER_COLOURS, draw_drive, legend_handles

LEARNER, DARK = "#D55E00", "#222222"


def new_picture(width: float, height: float) -> Any:
    """Return a Matplotlib figure without a window. width, height: in inches."""
    return need("matplotlib.figure", "plots").Figure(figsize=(width, height), layout="constrained")


def draw_levels(axes: Any, costs: Mapping[str, float], colours: Mapping[str, str]) -> None:
    """Draw a dashed line with its name and number for each cost. colours: by name; other lines are dark."""
    for name, cost in costs.items():
        colour, above = colours.get(name, DARK), name != "best possible"
        axes.axhline(cost, color=colour, linestyle="--", linewidth=1.2)
        axes.annotate(
            f"{name} {cost:.3g}",
            (1, cost),
            (-2, 2 if above else -2),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            ha="right",
            va="bottom" if above else "top",
            color=colour,
            fontsize=8,
        )
    axes.set_ylim(0, 1.15 * max(costs.values()))


def draw_drivers(path: Path, drives: Mapping[str, Drive], cost: Floats, costs: Mapping[str, float]) -> Path:
    """Draw drives along one road, and the cost of an episode while the learner learns. Returns the file.

    drives: by name of the driver; cost: (episodes,); costs: of the best possible policy and of each driver alone.
    """
    with need("matplotlib", "plots").rc_context(RC):
        picture = new_picture(8.0, 3.4)
        *roads, axes = picture.subplots(1, len(drives) + 1, width_ratios=[*(1 for _ in drives), 3.4])
        for panel, (name, driven) in zip(roads, drives.items(), strict=True):
            draw_drive(panel, driven, title=f"{name}\ncost {driven.cost:.1f}")
        axes.plot(np.arange(1, len(cost) + 1), cost, color=LEARNER, linewidth=1.6)
        axes.set(xscale="log", xlim=(1, len(cost)))
        axes.xaxis.set_major_formatter("{x:.0f}")
        draw_levels(axes, costs, {f"{name} alone": colour for name, colour in DRIVER_COLOURS.items()})
        axes.set_ylim(0, 1.15 * max(*costs.values(), float(cost.max())))
        axes.set(xlabel="episode", title="together: expected cost of an episode")
        picture.legend(handles=legend_handles(), loc="outside upper center", ncols=6)
        return save_picture(picture, path)


def draw_desk(path: Path, history: History, costs: Mapping[str, float]) -> Path:
    """Draw who answers and what a ticket costs over tickets. Returns the file. costs: as for `draw_drivers`."""
    ends = np.unique(np.geomspace(50, len(history.cost), 30).astype(int))
    pieces = [slice(first, end) for first, end in zip([0, *ends[:-1]], ends, strict=True)]
    control = np.array([history.control[piece].sum(axis=0) for piece in pieces], dtype=float)  # (pieces, agents)
    shares = control / control.sum(axis=1, keepdims=True)
    with need("matplotlib", "plots").rc_context(RC):
        picture = new_picture(8.0, 2.9)
        who, axes = picture.subplots(1, 2)
        colours = dict(zip(history.agents, AGENT_COLOURS, strict=False))
        who.stackplot(ends, *shares.T, colors=list(colours.values()), linewidth=0, labels=history.agents)
        who.set(ylim=(0, 1), title="who answers")
        who.yaxis.set_major_formatter(lambda y, _: f"{y:.0%}")
        axes.plot(ends, [history.expected_cost[piece].mean() for piece in pieces], color=LEARNER, linewidth=1.8)
        draw_levels(axes, costs, {f"{name} alone": colour for name, colour in colours.items()})
        axes.set(title="expected cost of a ticket")
        for panel in (who, axes):
            panel.set(xscale="log", xlim=(ends[0], ends[-1]), xlabel="tickets seen")
            panel.set_xticks(ticks := [n for n in (100, 1000, 10_000) if n <= ends[-1]], [f"{n:,}" for n in ticks])
            panel.minorticks_off()
            panel.grid(False)
        picture.legend(*who.get_legend_handles_labels(), loc="outside upper center", ncols=len(colours))
        return save_picture(picture, path)


def draw_newcomer(path: Path, histories: Mapping[str, History], costs: Mapping[str, float]) -> Path:
    """Draw the cost of each episode of a new driver, one curve for each name. Returns the file. costs: as for `draw_drivers`."""
    curves = {name: history.expected_cost for name, history in histories.items()}
    with need("matplotlib", "plots").rc_context(RC):
        picture = new_picture(8.0, 2.9)
        axes = picture.subplots()
        for (name, cost), colour in zip(curves.items(), ("#777777", LEARNER), strict=True):
            axes.plot(np.arange(1, len(cost) + 1), cost, color=colour, linewidth=1.8, label=f"new driver, {name}")
            axes.set_xlim(1, len(cost))
        draw_levels(axes, costs, {f"{name} alone": colour for name, colour in DRIVER_COLOURS.items()})
        axes.set_ylim(0, 1.1 * max(*costs.values(), *(float(cost.max()) for cost in curves.values())))
        axes.set(xlabel="episode of the new driver", ylabel="expected cost of an episode")
        picture.legend(loc="outside upper center", ncols=2)
        return save_picture(picture, path)
