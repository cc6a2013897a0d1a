"""Run any learner in any of three worlds; measure its regret, and whether its guarantee held."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cede import Learner, Scale, TwoLayerMDP, fixed, greedy, posterior_sampling, ucrl2, ucrl2_mc
from cede.beliefs.belief import holds
from cede.beliefs.truth import true_beliefs
from cede.fleet.simulate import generator, play
from cede.planning.passes import start_cost
from cede.worlds import lane_driving, riverswim
from studies.figure import Outcome, Row, report_work
from studies.runs.curves import curve_rows, learner_settings
from studies.runs.frozen_lake import frozen_lake

DELTA = 0.1
# How often in a run the guarantee is checked: often in runs of many episodes, once in short ones.
CHECKS, FEW_CHECKS, MANY_EPISODES = 20, 1, 1000

YES, SCALED, NONE = "yes", "no: radii are scaled", "no"  # does the learner have a guarantee?


def two_swimmers() -> TwoLayerMDP:
    """Return RiverSwim with the agents p = 0.3 and p = 0.7."""
    return riverswim(agents=[0.3, 0.7])


def machine_and_human(control_cost: float = 0.2, switch_cost: float = 0.1) -> TwoLayerMDP:
    """Return the lane driving task with these costs of a step of human control and of a hand-over."""
    return lane_driving(control_cost=control_cost, switch_cost=switch_cost)


WORLDS: dict[str, Callable[[], TwoLayerMDP]] = {
    "RiverSwim": two_swimmers,
    "lane driving": machine_and_human,
    "FrozenLake": frozen_lake,
}
BOTH = {"agents": "bernstein", "environment": "bernstein"}
MIXED = {"agents": "bernstein", "environment": "printed"}

# Makes a learner from a problem, the policies of agents that are known (by name), the number of episodes, and a seed.
Make = Callable[[TwoLayerMDP, dict[str, Any], int, int], Learner]
# All learners by name: whether it has a guarantee, and how to make it.
LEARNERS: dict[str, tuple[str, Make]] = {
    "UCRL2-MC, printed": (YES, lambda m, known, n, seed: two_layers(m, known, seed)),
    "UCRL2-MC, Bernstein": (YES, lambda m, known, n, seed: two_layers(m, known, seed, belief=BOTH)),
    "UCRL2-MC, structured": (YES, lambda m, known, n, seed: two_layers(m, known, seed, structure=m.structure)),
    "UCRL2-MC, structured, Bernstein": (
        YES,
        lambda m, known, n, seed: two_layers(m, known, seed, belief=BOTH, structure=m.structure),
    ),
    "UCRL2-MC, structured, Bernstein for agents": (
        YES,
        lambda m, known, n, seed: two_layers(m, known, seed, belief=MIXED, structure=m.structure),
    ),
    "UCRL2-MC, authors' schedule": (SCALED, lambda m, known, n, seed: two_layers(m, known, seed, scale=Scale.authors(n))),
    "UCRL2-MC, scaled 0.1, 0.01": (SCALED, lambda m, known, n, seed: two_layers(m, known, seed, scale=Scale(0.1, 0.01))),
    "posterior sampling": (NONE, lambda m, known, n, seed: posterior_sampling(m.task, known_agents=known, seed=seed)),
    "posterior sampling, structured": (
        NONE,
        lambda m, known, n, seed: posterior_sampling(m.task, known_agents=known, structure=m.structure, seed=seed),
    ),
    "greedy": (NONE, lambda m, known, n, seed: greedy(m.task, known_agents=known, seed=seed)),
    "UCRL2 (appendix)": (YES, lambda m, known, n, seed: one_layer(m, known, seed, "appendix")),
    "UCRL2 (same-form)": (YES, lambda m, known, n, seed: one_layer(m, known, seed, "same-form")),
}


def two_layers(mdp: TwoLayerMDP, known: dict[str, Any], seed: int, **settings: Any) -> Learner:
    """Make UCRL2-MC. known: policies of agents that need not be learned; settings: more arguments of `ucrl2_mc`."""
    return ucrl2_mc(mdp.task, delta=DELTA, known_agents=known, seed=seed, **settings)


def one_layer(mdp: TwoLayerMDP, known: dict[str, Any], seed: int, radius: str) -> Learner:
    """Make UCRL2 with one kind of radius. It cannot use the policies of known agents. Where there are any, it learns one table
    p(s' | s, d) for each agent, pooled over time, as in the paper's appendix.
    """
    task = replace(mdp.task, varies_with=None) if known else mdp.task
    return ucrl2(task, delta=DELTA, radius=radius, seed=seed)


def known_agents(world: str, mdp: TwoLayerMDP) -> dict[str, Any]:
    """Return the policies of the agents that learners are told: as in the paper, the machine of lane driving."""
    return {"machine": mdp.team.agents[0].policy} if world == "lane driving" else {}


def competitors(world: str) -> list[str]:
    """Return the names of all that take part in a world: the learners, and each agent alone."""
    return [*LEARNERS, *(f"{name} alone" for name in WORLDS[world]().task.agents)]


def one_run(
    world: str, learner: str, episodes: int, seed: int, progress: Callable[[int], None], costs: tuple[float, float] | None = None
) -> Outcome:
    """Run a learner, or one agent alone ("human alone"), and return its regret "curve".

    costs: of human control and of a hand-over, for lane driving; by default those of the league. Where the learner has confidence
    sets, the rows say in how many checks ("looks") the truth lay outside of them ("left") and the optimistic value was above the
    optimum ("above"). "last_cost" is the mean cost of the last twentieth of the episodes.
    """
    mdp = WORLDS[world]() if costs is None else machine_and_human(*costs)
    if learner in LEARNERS:
        guarantee, make = LEARNERS[learner]
        player = make(mdp, known_agents(world, mdp), episodes, seed)
    else:
        guarantee, player = "learns nothing", fixed(mdp.task, learner.removesuffix(" alone"))
    rng, expected, optimum = generator("league", seed), np.empty(0), 0.0
    has_sets = player.settings.belief is not None and not player.settings.flat
    checks, left, above = CHECKS if episodes >= MANY_EPISODES else FEW_CHECKS, 0, 0
    for stop in np.unique(np.linspace(0, episodes, checks + 1).astype(int))[1:]:
        before = len(expected)
        record = play(mdp, player, int(stop) - before, rng, partial(report_work, progress, 1, before))
        expected, optimum = np.append(expected, record.ledger.expected_cost[0]), float(record.optimum[0])
        if has_sets:
            left += not all(holds(belief, truth) for belief, truth in zip(player.beliefs, true_beliefs(mdp), strict=True))
            above += start_cost(mdp, player.plan.value) > optimum + 1e-9
    about: Row = {"world": world, "learner": learner, "guarantee": guarantee, "seed": seed, **learner_settings(player)}
    if costs is not None:
        about |= {"control_cost": costs[0], "switch_cost": costs[1]}
    about |= {"looks": checks if has_sets else "", "left": left if has_sets else "", "above": above if has_sets else ""}
    about |= {"last_cost": float(expected[-max(1, episodes // 20) :].mean()), "optimum": optimum}
    return {"curve": curve_rows(np.cumsum(expected - optimum), about)}
