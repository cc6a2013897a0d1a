"""Figure `action-why`: what of UCRL2-MC's regret comes from actions that no agent takes, and do radii by taken actions help?

In the paper's study of the action space, two agents take two of the 2^m sequences of strokes. UCRL2-MC's sets of the agents allow
all others, whose outcomes it never sees. Each learner here lacks one part of that: the agents are known, or the environment is, or
the agents' sets are balls of relative entropy, whose size follows from the actions that an agent has shown. That is what the paper
conjectures a better bound should depend on.
"""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from cede import Learner, TwoLayerMDP, simulate, ucrl2, ucrl2_mc
from cede.worlds import riverswim
from studies import style
from studies.drawing import finish, legend_above
from studies.figure import Figure, Options, Outcome, Part, Row
from studies.figures.action_size import AGENTS, MACRO
from studies.runs.curves import curve_rows, learner_settings
from studies.runs.river import DELTA
from studies.statistics import half_width
from studies.tables import all_rows, final_rows, select, values

EPISODES, QUICK_EPISODES = 20_000, 300
REPEATS, QUICK_REPEATS = 5, 2
PRINTED, KNOWN_AGENTS, KNOWN_RIVER, KL_AGENTS, KL_BOTH, SAME_FORM = (
    "UCRL2-MC",
    "UCRL2-MC, agents known",
    "UCRL2-MC, river known",
    "UCRL2-MC, KL sets of agents",
    "UCRL2-MC, KL sets of both",
    "UCRL2 (same-form)",
)
LOOKS: dict[str, tuple[str, str, str]] = {  # colour, marker, line
    PRINTED: (style.RED, "o", "-"),
    KNOWN_AGENTS: (style.BLUE, "s", "-"),
    KNOWN_RIVER: (style.SKY, "^", "--"),
    KL_AGENTS: (style.ORANGE, "D", "-"),
    KL_BOTH: (style.GREEN, "v", "--"),
    SAME_FORM: (style.PINK, "x", "-."),
}


def parts(options: Options) -> list[Part]:
    episodes = options.choose("episodes", EPISODES, QUICK_EPISODES)
    result = []
    for macro, name, seed in product(MACRO, LOOKS, options.seeds(REPEATS, QUICK_REPEATS)):
        arguments = {"learner": name, "macro": macro, "episodes": episodes, "seed": seed}
        result.append(Part("figures.action_why:run", arguments, episodes * 2**macro, f"{2**macro} actions, {name}"))
    return result


def make_learner(name: str, mdp: TwoLayerMDP, seed: int) -> Learner:
    """Make a learner by its name in LOOKS."""
    told: dict[str, Any] = {"delta": DELTA, "seed": seed}
    if name == SAME_FORM:
        return ucrl2(mdp.task, radius="same-form", **told)
    if name == KNOWN_AGENTS:
        told["known_agents"] = {agent.name: agent.policy for agent in mdp.team.agents}
    elif name == KNOWN_RIVER:
        told["known_environment"] = mdp.environment
    elif name == KL_AGENTS:
        told["belief"] = {"agents": "kl", "environment": "printed"}
    elif name == KL_BOTH:
        told["belief"] = "kl"
    return ucrl2_mc(mdp.task, **told)


def run(learner: str, macro: int, episodes: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """Run one team of the paper's study of the action space; return its regret "curve"."""
    mdp = riverswim(agents=AGENTS, macro=macro)
    player = make_learner(learner, mdp, seed)
    effort = 2**macro
    regret = simulate(mdp, player, episodes, seed=seed, progress=lambda done: progress(effort * done)).regret
    about: Row = {"learner": learner, "actions": mdp.task.n_actions, "seed": seed, **learner_settings(player)}
    return {"curve": curve_rows(regret, about)[-1:]}


def draw(rows: list[Row], path: Path) -> list[Path]:
    picture, axes = style.figure(1, width=5.6, height=3.4)
    last = final_rows(rows)
    actions = sorted(values(last, "actions"))
    for i, (name, (colour, marker, line)) in enumerate(LOOKS.items()):
        each = np.array([[row["regret"] for row in select(last, learner=name, actions=n)] for n in actions])  # (sizes, seeds)
        at = np.log2(actions) + 0.03 * (i - 2.5)
        look = {
            "color": colour,
            "marker": marker,
            "linestyle": line,
            "markersize": 4,
            "linewidth": 1.3,
            "capsize": 2,
            "label": name,
        }
        axes.errorbar(at, each.mean(axis=1), half_width(each), **look)
    axes.set_yscale("log")
    axes.set_xticks(np.log2(actions), [str(n) for n in actions])
    axes.set_xlabel("number of actions, of which the two agents take two")
    axes.set_ylabel("total regret")
    legend_above(picture, axes, columns=2)
    note = "RiverSwim, deciding once for 1, 2, 3 or 4 strokes; one agent always swims right, one always left, as in the figure "
    note += "`action-size`. Radii as printed, or as in the legend."
    return finish(picture, last, note, path, shades="whiskers: 95% intervals of means")


FIGURE = Figure(
    "action-why",
    "The cost of unused actions",
    "With more than two actions, most are never taken, and nothing is learned about them. How much is gained if the agents are "
    "known, or if their sets depend on the actions that they have taken?",
    parts,
    all_rows,
    draw,
)
