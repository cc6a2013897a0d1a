"""Figure `drivers`: what the machine, the human and the best driver cost without and with traffic."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from cede import TwoLayerMDP, expected_cost, solve
from cede.worlds import lane_driving
from cede.worlds.drivers import solo
from cede.worlds.lane_driving import HUMAN, MACHINE
from studies import style
from studies.drawing import finish
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.tables import all_rows, select

SIGMA = 2.0
SIGMAS = (0.25, 0.5, 1.0, 3.0, 3.75)  # of other humans: in many teams it is uniform in (0, 4)
TRAFFIC = {"no-car": (1.0, 0.0, 0.0), "light or heavy": (0.0, 0.5, 0.5)}
WORDS = {"no-car": "no cars", "light or heavy": "light or heavy"}
DRIVERS = ("machine", "human", "best driver")
OTHER = "another human"
COLOURS = {"machine": style.COLOURS["machine"], "human": style.COLOURS["human"], "best driver": "#777777"}
# Logged by the authors over 1,000 episodes in which the last step is not counted.
LOGGED = {"no-car": (816, 2680, 756), "light or heavy": (11842, 5528, 3292)}


def parts(options: Options) -> list[Part]:
    return [Part("figures.drivers_cost:costs", {"traffic": name}, 1, f"drivers, {name}") for name in TRAFFIC]


def costs(traffic: str, progress: Callable[[int], None]) -> Outcome:
    """Compute the expected cost of an episode, exactly, for each of the DRIVERS; one row "cost" for each.

    traffic: a name in TRAFFIC. Costs are of ten steps, and of the first nine, which is what the authors logged.
    """
    mix = TRAFFIC[traffic]
    rows = []
    for name, logged in zip(DRIVERS, LOGGED[traffic], strict=True):
        ten, nine = (driver_cost(name, mix, steps) for steps in (10, 9))
        rows.append({"traffic": traffic, "driver": name, "cost": ten, "cost_of_nine_steps": nine, "authors_logged": logged / 1000})
    for sigma in SIGMAS:
        rows.append({"traffic": traffic, "driver": OTHER, "sigma": sigma, "cost": driver_cost("human", mix, 10, sigma)})
    progress(1)
    return {"cost": rows}


def driver_cost(name: str, mix: tuple[float, float, float], steps: int, sigma: float = SIGMA) -> float:
    """Return the expected cost of an episode of so many steps.

    name: one of DRIVERS; mix: probability of each traffic level; sigma: the noise of the human.
    """
    if name == "best driver":
        mdp = solo(mix)
        short = TwoLayerMDP(mdp.environment, mdp.team, steps)
        return expected_cost(short, solve(short).policy)
    mdp = lane_driving(sigma=sigma, traffic=mix)
    agents = [a if a.varies_with is None else type(a)(a.name, a.policy[:steps], a.control_cost, "time") for a in mdp.team.agents]
    short = TwoLayerMDP(mdp.environment, type(mdp.team)(agents), steps)
    driver = MACHINE if name == "machine" else HUMAN
    return expected_cost(short, np.full((steps, mdp.environment.n_states, 2), driver))


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(2, width=5.0, height=2.8, sharey=True)
    for axes, traffic in zip(panels, TRAFFIC, strict=True):
        here = {row["driver"]: row for row in select(rows, traffic=traffic)}
        others = [row["cost"] for row in select(rows, traffic=traffic, driver=OTHER)]
        axes.vlines(1.25, min(others), max(others), color="black", linewidth=1.0)
        for i, name in enumerate(DRIVERS):
            axes.bar(i, here[name]["cost"], 0.65, color=COLOURS[name])
            axes.text(i, here[name]["cost"], f"{here[name]['cost']:.2f}", ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(3), ["machine\nalone", "human\nalone", "best\ndriver"])
        axes.set_title(f"traffic at the start: {WORDS[traffic]}")
        axes.grid(visible=False)
        axes.margins(y=0.12)
    panels[0].set_ylabel("expected cost of an episode")
    note = (
        f"Lane driving, ten steps, human with σ = {SIGMA:g} (black line: from {SIGMAS[0]:g} to {SIGMAS[-1]:g}), machine trained on "
    )
    note += "roads that start without cars. Exact. Of nine steps, as the authors logged (theirs in brackets): "
    note += "; ".join(
        f"{WORDS[traffic]}: "
        + ", ".join(
            f"{r['driver']} {r['cost_of_nine_steps']:.2f} ({r['authors_logged']:.2f})"
            for r in select(rows, traffic=traffic)
            if r["driver"] in DRIVERS
        )
        for traffic in TRAFFIC
    )
    return finish(picture, rows, f"{note}.", path)


FIGURE = Figure(
    "drivers",
    "Cost of the machine, the human and the best driver",
    "The machine was trained on roads that start without cars. How do its costs there and elsewhere compare with the human's "
    "and with the best possible?",
    parts,
    partial(all_rows, kind="cost"),
    draw,
)
