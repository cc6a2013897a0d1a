"""`cede demo`: one team learns the obstacle task. A table in the terminal, two pictures in the output directory."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cede import _check
from cede.belief import Scale
from cede.experiments import style
from cede.learners import Learner, fixed, ucrl2_mc
from cede.model import TwoLayerMDP
from cede.planning import Policy
from cede.simulation import History, generator, simulate
from cede.worlds import lane_driving, road
from cede.worlds.lane_driving import drive
from cede.worlds.pictures import draw_drive, legend_handles

EPISODES = 3000
CONTROL_COST, SWITCH_COST = 0.2, 0.1
SCALE = Scale(agents=0.1, environment=0.01)
EARLY = 5  # the episode of the "early" drives; "late" is the last one


@dataclass(frozen=True, eq=False)
class Demo:
    mdp: TwoLayerMDP
    histories: Mapping[str, History]  # by name of the curve
    early: Policy
    late: Policy


def run(episodes: int = EPISODES, seed: int = 0, *, progress: bool = True) -> Demo:
    """UCRL2-MC with constant scales and a known machine, beside each driver alone; same seed, same luck."""
    _check.integer("demo", "episodes", episodes, EARLY + 1)
    mdp = lane_driving(control_cost=CONTROL_COST, switch_cost=SWITCH_COST)
    machine = mdp.team.agents[0].policy
    learner = ucrl2_mc(mdp.task, scale=SCALE, known_agents={"machine": machine}, seed=seed)
    early, late, learned = learn_in_two_parts(mdp, learner, episodes, seed, progress)
    alone = {name: simulate(mdp, fixed(mdp.task, name), episodes, seed=seed, progress=progress) for name in mdp.task.agents}
    return Demo(mdp, {"UCRL2-MC": learned, **alone}, early, late)


def learn_in_two_parts(
    mdp: TwoLayerMDP, learner: Learner, episodes: int, seed: int, progress: bool
) -> tuple[Policy, Policy, History]:
    """One run, with a look at the policy on the way."""
    rng = generator("demo", seed)
    first = simulate(mdp, learner, EARLY - 1, seed=rng, progress=False)
    early = learner.plan.policy
    rest = simulate(mdp, learner, episodes - EARLY + 1, seed=rng, progress=progress)

    def joined(name: str) -> Any:
        return np.concatenate([getattr(first, name), getattr(rest, name)])

    expected = joined("expected_cost")
    whole = History(
        regret=np.cumsum(expected - rest.optimum),
        expected_cost=expected,
        cost=joined("cost"),
        control=joined("control"),
        switches=joined("switches"),
        optimum=rest.optimum,
        agents=rest.agents,
        settings={**rest.settings, "simulation_seed": seed},
    )
    return early, learner.plan.policy, whole


def summary(demo: Demo) -> list[tuple[str, ...]]:
    """Rows for a table: who controlled, what the last tenth of the episodes cost, share of the human, hand-overs, regret."""
    rows: list[tuple[str, ...]] = []
    optimum = next(iter(demo.histories.values())).optimum
    human = demo.mdp.task.agents.index("human")
    for name, h in demo.histories.items():
        tail = slice(-max(1, len(h.cost) // 10), None)
        share = h.control[tail, human].sum() / h.control[tail].sum()
        rows.append(
            (
                name,
                f"{h.expected_cost[tail].mean():.2f}",
                f"{h.expected_cost[tail].mean() / optimum - 1:+.0%}",
                f"{share:.0%}",
                f"{h.switches[tail].mean():.1f}",
                f"{h.regret[-1]:,.0f}",
            )
        )
    rows.append(("best possible", f"{optimum:.2f}", "", "", "", "0"))
    return rows


COLUMNS = ("in control", "cost per episode", "above the best", "human drives", "hand-overs", "total regret")


def draw(demo: Demo, out: Path) -> list[Path]:
    return [*draw_regret(demo, out / "demo-regret"), *draw_drives(demo, out / "demo-drives")]


def draw_regret(demo: Demo, path: Path) -> list[Path]:
    picture, axes = style.figure(1, width=5.2, height=3.4)
    for name, h in demo.histories.items():
        episodes = np.arange(1, len(h.regret) + 1)
        axes.plot(episodes, h.regret, color=style.COLOURS[name], linestyle=style.LINES[name], linewidth=1.8)
        label = name if name == "UCRL2-MC" else f"{name} alone"
        axes.annotate(f" {label}", (episodes[-1], h.regret[-1]), color=style.COLOURS[name], va="center", annotation_clip=False)
    axes.set_xlabel("episode")
    axes.set_ylabel("total regret (exact)")
    axes.set_xlim(1, len(h.regret))
    axes.set_ylim(0, None)
    learned = demo.histories["UCRL2-MC"].settings
    note = (
        f"Lane driving, human control costs {CONTROL_COST}, a hand-over {SWITCH_COST}; machine known. Radii as printed times: "
        f"{learned['scale']} (no guarantee). δ = {learned['delta']}, seed {learned['simulation_seed']}, cede {learned['cede']}."
    )
    style.caption(picture, note)
    return style.save(picture, path)


def draw_drives(demo: Demo, path: Path) -> list[Path]:
    """The same three roads, early and late. The row that the last step leads to is not charged any more."""
    picture, panels = style.figure(6, width=6.6, height=4.4)
    late = len(demo.histories["UCRL2-MC"].cost)
    for i, (when, policy) in enumerate(((EARLY, demo.early), (late, demo.late))):
        for level, traffic in enumerate(road.LEVELS):
            along = road.sample_road(demo.mdp.horizon + 1, traffic, seed=20 + level)
            driven = drive(demo.mdp, policy, along, seed=level)
            draw_drive(panels[3 * i + level], driven, title=f"episode {when:,}\n{traffic}\ncost {driven.cost:.1f}")
    picture.legend(handles=legend_handles(), loc="outside lower center", ncols=6, fontsize=8)
    return style.save(picture, path)
