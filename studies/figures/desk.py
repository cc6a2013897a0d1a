"""Figure `desk`: a support desk that begins with a person for everything; models take over what they can do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cede.worlds.support_desk import SKILLS
from studies import style
from studies.drawing import draw_band, draw_level, finish
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.statistics import over_repeats
from studies.tables import select, values

EPISODES, QUICK_EPISODES = 10_000, 1500
REPEATS, QUICK_REPEATS = 10, 2
KINDS = ("cost", "alone", "place")
AGENTS = dict(zip(SKILLS, ("#9BC4E2", "#0072B2", "#E69F00"), strict=True))

INK = {**AGENTS, "small model": "#5A9BC8", "person": "#B87D00"}  # of texts: darker


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    return [
        Part("runs.first_look:desk", {"episodes": episodes, "seed": seed}, episodes, "a support desk")
        for seed in options.seeds(REPEATS, QUICK_REPEATS)
    ]


def table(outcomes: Sequence[tuple[Part, Outcome]]) -> list[Row]:
    return [{"kind": kind, **row} for kind in KINDS for _, outcome in outcomes for row in outcome[kind]]


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, panels = style.figure(3, width=style.WIDTH, height=2.7, width_ratios=(1.15, 1.3, 1.15))
    own = select(rows, kind="cost")
    draw_shares(panels[0], own)
    draw_costs(panels[1], own, select(rows, kind="alone"))
    draw_answers(panels[2], select(rows, kind="place"))
    note = (
        'The recommended learner with baseline="person", with sizes and known costs only. Costs are exact expectations, in the '
        "mean over the tickets between two points: waiting, the price of each agent's step (person 0.15, large model 0.05), "
        "escalations, lost customers (4). Right: the last policy, with the share of steps in each situation."
    )
    return finish(picture, own, note, path)


def ticket_axis(axes: Any, episode: Any) -> None:
    """Let the horizontal axis show tickets on a logarithmic scale."""
    axes.set_xscale("log")
    axes.set_xlim(episode[0], episode[-1])
    ticks = [tick for tick in (100, 1000, 10_000, 100_000) if tick <= episode[-1]]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("tickets seen")


def draw_shares(axes: Any, rows: Sequence[Row]) -> None:
    """Draw who answers, as stacked shares of all steps."""
    episode = np.array(values(rows, "episode"), dtype=float)
    shares = [over_repeats(rows, y=f"share_{i}")[1] for i in range(len(AGENTS))][::-1]
    axes.stackplot(episode, *shares, colors=list(AGENTS.values())[::-1], linewidth=0)
    below = 0.0
    for name, share in zip(list(AGENTS)[::-1], shares, strict=True):
        if share[-1] > 0.08:
            colour = "white" if name == "large model" else "black"
            axes.text(episode[-1] * 0.93, below + share[-1] / 2, name, ha="right", va="center", fontsize=style.SMALL, color=colour)
        below += share[-1]
    ticket_axis(axes, episode)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:.0%}")
    axes.grid(False)
    axes.set_title("who answers")


def draw_costs(axes: Any, rows: Sequence[Row], alone: Sequence[Row]) -> None:
    """Draw what a ticket costs while the learner learns, beside each agent alone and the best possible."""
    episode, mean, half = over_repeats(rows, y="cost")
    draw_band(axes, episode, mean, half, "#D55E00", linewidth=1.8)
    for name in values(alone, "learner"):
        cost = select(alone, learner=name)[0]["cost"]
        text = f"{name} {cost:.2f}" if name == "best possible" else f"{name} for all: {cost:.2f}"
        draw_level(axes, cost, text, INK.get(name, "#222222"), above=name != "best possible")
    ticket_axis(axes, episode)
    axes.set_ylim(0, 1.1 * max(row["cost"] for row in alone))
    axes.grid(False)
    axes.set_title("expected cost of a ticket")


def draw_answers(axes: Any, rows: Sequence[Row]) -> None:
    """Draw who answers which ticket in the end, as a bar of shares for each kind and number of wrong answers."""
    kinds, wrongs = values(rows, "ticket"), values(rows, "wrong")
    for y, kind in enumerate(reversed(kinds)):
        for x, wrong in enumerate(wrongs):
            here = select(rows, ticket=kind, wrong=wrong)
            weight = np.array([row["steps"] for row in here])
            if not weight.sum():
                continue
            left = x + 0.06
            for i, colour in enumerate(AGENTS.values()):
                width = 0.88 * float(weight @ np.array([row[f"share_{i}"] for row in here]) / weight.sum())
                axes.barh(y + 0.55, width, 0.5, left, color=colour)
                left += width
            often = float(weight.mean())
            axes.text(
                x + 0.5,
                y + 0.17,
                f"{often:.0%}" if often >= 0.01 else "<1%",
                ha="center",
                va="center",
                fontsize=style.SMALL,
                color="#666666",
            )
    axes.set_xlim(0, len(wrongs))
    axes.set_ylim(0, len(kinds))
    axes.set_xticks(np.arange(len(wrongs)) + 0.5, [f"{wrong}" for wrong in wrongs])
    axes.set_yticks(np.arange(len(kinds)) + 0.55, list(reversed(kinds)))
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("wrong answers so far")
    axes.set_title("who answers what in the end")


FIGURE = Figure(
    "desk",
    "A support desk that learns whom to ask",
    "A person answers every ticket at first. The learner tries the models as far as the data show that this is safe, and leaves "
    "difficult tickets to the person: the person's share falls, and so does the cost of a ticket.",
    parts,
    table,
    draw,
)
