"""Figure `relay`: what the best runner alone and the best policy cost in the relay, by the number of runners."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from cede import expected_cost, solve
from cede.worlds import relay
from studies import style
from studies.drawing import finish
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.tables import all_rows

RUNNERS = (1, 2, 3, 4)
COLOURS = {"alone": style.RED, "best": style.BLUE}
LABELS = {"alone": "best runner alone", "best": "best policy"}


def parts(options: Options) -> list[Part]:
    return [Part("figures.relay_alone:costs", {"runners": n}, 1, f"relay, {n} runners") for n in RUNNERS]


def costs(runners: int, progress: Callable[[int], None]) -> Outcome:
    """Compute the expected cost of an episode, exactly, of the best runner alone and of the best policy; one row "cost"."""
    mdp = relay(runners)
    alone = min(expected_cost(mdp, np.full(mdp.task.policy_shape, runner)) for runner in range(runners))
    progress(1)
    return {"cost": [{"runners": runners, "alone": alone, "best": expected_cost(mdp, solve(mdp))}]}


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, axes = style.figure(1, width=4.0, height=2.8)
    for name, colour in COLOURS.items():
        axes.plot([row["runners"] for row in rows], [row[name] for row in rows], "o-", color=colour, label=LABELS[name])
    axes.set_xticks(RUNNERS)
    axes.set_xlabel("runners")
    axes.set_ylabel("expected cost of an episode")
    axes.legend()
    return finish(picture, rows, "Relay, sections of three cells, 200 steps. Exact.", path)


FIGURE = Figure(
    "relay",
    "Cost of the best runner alone and of the best policy in the relay",
    "Only one runner can cross each section. How much does handing control over save?",
    parts,
    partial(all_rows, kind="cost"),
    draw,
)
