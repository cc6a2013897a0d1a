"""The runs of the league: every learner in every world."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cede.experiments.core import Outcome, Row, report_work
from cede.experiments.curves import curve_rows, learner_settings
from cede.experiments.runs.lake import frozen_lake
from cede.fleet.simulate import generator, play
from cede.learning.algorithms import fixed, greedy, posterior_sampling, ucrl2, ucrl2_mc
from cede.learning.forgetting import HalfLife, Window
from cede.learning.learner import Learner
from cede.planning.belief import Scale, holds, true_beliefs
from cede.planning.planner import start_cost
from cede.problem.model import Agent, Team, TwoLayerMDP
from cede.worlds import lane_driving, riverswim
from cede.worlds.drivers import human_policy

DELTA = 0.1
LOOKS, FEW_LOOKS, MANY_EPISODES = 20, 1, 1000  # in a run: do the sets hold the truth, is the optimistic value below the optimum?

YES, SCALED, NONE = "yes", "no: radii are scaled", "no"


def river() -> TwoLayerMDP:
    return riverswim(agents=[0.3, 0.7])


def lane(control_cost: float = 0.2, switch_cost: float = 0.1) -> TwoLayerMDP:
    return lane_driving(control_cost=control_cost, switch_cost=switch_cost)


WORLDS: dict[str, Callable[[], TwoLayerMDP]] = {"RiverSwim": river, "lane driving": lane, "FrozenLake": frozen_lake}
BOTH = {"agents": "bernstein", "environment": "bernstein"}
MIXED = {"agents": "bernstein", "environment": "printed"}

# By name: what is promised, and how to make it from a task, what is known, the structure and the number of episodes.
Make = Callable[[TwoLayerMDP, dict[str, Any], int, int], Learner]
LEARNERS: dict[str, tuple[str, Make]] = {
    "UCRL2-MC, printed": (YES, lambda m, known, n, seed: mc(m, known, seed)),
    "UCRL2-MC, Bernstein": (YES, lambda m, known, n, seed: mc(m, known, seed, belief=BOTH)),
    "UCRL2-MC, structured": (YES, lambda m, known, n, seed: mc(m, known, seed, structure=m.structure)),
    "UCRL2-MC, structured, Bernstein": (YES, lambda m, known, n, seed: mc(m, known, seed, belief=BOTH, structure=m.structure)),
    "UCRL2-MC, structured, Bernstein for agents": (
        YES,
        lambda m, known, n, seed: mc(m, known, seed, belief=MIXED, structure=m.structure),
    ),
    "UCRL2-MC, authors' schedule": (SCALED, lambda m, known, n, seed: mc(m, known, seed, scale=Scale.authors(n))),
    "UCRL2-MC, scaled 0.1, 0.01": (SCALED, lambda m, known, n, seed: mc(m, known, seed, scale=Scale(0.1, 0.01))),
    "posterior sampling": (NONE, lambda m, known, n, seed: posterior_sampling(m.task, known_agents=known, seed=seed)),
    "posterior sampling, structured": (
        NONE,
        lambda m, known, n, seed: posterior_sampling(m.task, known_agents=known, structure=m.structure, seed=seed),
    ),
    "greedy": (NONE, lambda m, known, n, seed: greedy(m.task, known_agents=known, seed=seed)),
    "UCRL2 (appendix)": (YES, lambda m, known, n, seed: flat(m, known, seed, "appendix")),
    "UCRL2 (same-form)": (YES, lambda m, known, n, seed: flat(m, known, seed, "same-form")),
}


def mc(mdp: TwoLayerMDP, known: dict[str, Any], seed: int, **ways: Any) -> Learner:
    return ucrl2_mc(mdp.task, delta=DELTA, known_agents=known, seed=seed, **ways)


def flat(mdp: TwoLayerMDP, known: dict[str, Any], seed: int, radius: str) -> Learner:
    """UCRL2 has no use for what is known; as in the appendix it learns one table for each agent, pooled over time."""
    task = replace(mdp.task, varies_with=None) if known else mdp.task
    return ucrl2(task, delta=DELTA, radius=radius, seed=seed)


def known_in(world: str, mdp: TwoLayerMDP) -> dict[str, Any]:
    """As in the paper: the machine of lane driving is known."""
    return {"machine": mdp.team.agents[0].policy} if world == "lane driving" else {}


def contestants(world: str) -> list[str]:
    return [*LEARNERS, *(f"{name} alone" for name in WORLDS[world]().task.agents)]


def one_run(
    world: str, learner: str, episodes: int, seed: int, progress: Callable[[int], None], costs: tuple[float, float] | None = None
) -> Outcome:
    """A run with its regret, and what became of its promise."""
    mdp = WORLDS[world]() if costs is None else lane(*costs)
    if learner in LEARNERS:
        promise, make = LEARNERS[learner]
        who = make(mdp, known_in(world, mdp), episodes, seed)
    else:
        promise, who = "learns nothing", fixed(mdp.task, learner.removesuffix(" alone"))
    rng, expected, optimum = generator("contest", seed), np.empty(0), 0.0
    watched = who.recipe.radius is not None and not who.recipe.flat
    looks, left, above = LOOKS if episodes >= MANY_EPISODES else FEW_LOOKS, 0, 0
    for stop in np.unique(np.linspace(0, episodes, looks + 1).astype(int))[1:]:
        before = len(expected)
        rounds = play(mdp, who, int(stop) - before, rng, partial(report_work, progress, 1, before))
        expected, optimum = np.append(expected, rounds.expected_cost[0]), float(rounds.optimum[0])
        if watched:
            left += not all(holds(belief, truth) for belief, truth in zip(who.beliefs, true_beliefs(mdp), strict=True))
            above += start_cost(mdp, who.plan.value) > optimum + 1e-9
    about: Row = {"world": world, "learner": learner, "guarantee": promise, "seed": seed, **learner_settings(who)}
    if costs is not None:
        about |= {"control_cost": costs[0], "switch_cost": costs[1]}
    about |= {"looks": looks if watched else "", "left": left if watched else "", "above": above if watched else ""}
    about |= {"last_cost": float(expected[-max(1, episodes // 20) :].mean()), "optimum": optimum}
    return {"curve": curve_rows(np.cumsum(expected - optimum), about)}


FORGETTING = {"never forgets": None, "half-life of 200 episodes": HalfLife(200), "window of 400 episodes": Window(400)}


def human_changes(
    forgetting: str, sigmas: list[float], episodes: int, seed: int, progress: Callable[[int], None], every: int = 20
) -> Outcome:
    """A human of lane driving who drives differently from the middle of the run on; the learner is not told."""
    before = lane_driving(sigma=sigmas[0])
    human = Agent("human", human_policy(sigmas[1]))
    after = TwoLayerMDP(before.environment, Team([before.team.agents[0], human]), before.horizon, before.start_agent)
    known = known_in("lane driving", before)
    rule = FORGETTING[forgetting]
    who = posterior_sampling(before.task, structure=before.structure, known_agents=known, forget=rule, seed=seed)
    rng, regret = generator("human_changes", seed), []
    for mdp, done in ((before, 0), (after, episodes // 2)):
        n = episodes // 2 if mdp is before else episodes - episodes // 2
        rounds = play(mdp, who, n, rng, partial(report_work, progress, 1, done), evaluate_every=every)
        regret.append(rounds.expected_cost[0] - rounds.optimum[0])
    about: Row = {"learner": "posterior sampling, structured", "forgetting": forgetting, "before": sigmas[0], "after": sigmas[1]}
    return {"curve": curve_rows(np.cumsum(np.concatenate(regret)), {**about, "seed": seed, **learner_settings(who)})}
