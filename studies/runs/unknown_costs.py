"""Run learners that know the costs, that must learn them, and that learn them together in a fleet."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cede import Fleet, Learner, Task, TwoLayerMDP, posterior_sampling, simulate, simulate_fleet, ucrl2_mc
from cede.worlds import lane_driving, riverswim, road
from studies.figure import Outcome, Row
from studies.runs.curves import curve_rows, learner_settings

SCALE = 0.1  # of the radii of UCRL2-MC


def problem(world: str) -> TwoLayerMDP:
    """Return the problem by its name."""
    return riverswim(agents=[0.3, 0.7]) if world == "RiverSwim" else lane_driving()


def make_learner(name: str, mdp: TwoLayerMDP, task: Task, seed: int, *, alike: bool = False) -> Learner:
    """Make a learner by its name; in lane driving it is told the structure and the machine.

    alike: whether it is also told which costs are alike: those of states in which the car is on the same kind of cell.
    """
    told: dict[str, Any] = {}
    if "machine" in task.agents:
        assert mdp.structure is not None
        known = {"machine": next(agent.policy for agent in mdp.team.agents if agent.name == "machine")}
        labels = np.repeat(road.states().cell[:, None], task.n_actions, axis=1) if alike else None
        told = {"structure": replace(mdp.structure, costs=labels), "known_agents": known}
    if name == "UCRL2-MC":
        return ucrl2_mc(task, scale=SCALE, seed=seed, **told)
    return posterior_sampling(task, seed=seed, **told)


def with_and_without(world: str, learner: str, teams: int, episodes: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """Run three learners and return the regret "curve" of each; the column "costs" says what it knows of them.

    world: "RiverSwim" or "lane driving". learner: "UCRL2-MC" or "posterior sampling". teams: of the fleet, which all have the same
    agents; its curve is the mean over teams.
    """
    mdp = problem(world)
    unknown, curve = mdp.task.with_unknown_costs(), []
    about: Row = {"world": world, "learner": learner, "teams": teams, "seed": seed}
    alike = [("unknown, alike ones declared", unknown)] if world == "lane driving" else []
    for costs, task in [("known", mdp.task), ("unknown", unknown), *alike]:
        one = make_learner(learner, mdp, task, seed, alike="declared" in costs)
        regret = simulate(mdp, one, episodes, seed=seed, progress=progress if costs == "known" else False).regret
        curve += curve_rows(regret, {**about, "costs": costs, **learner_settings(one)})
    fleet = Fleet([make_learner(learner, mdp, unknown, 1000 * seed + i) for i in range(teams)])
    history = simulate_fleet([mdp] * teams, fleet, episodes, seed=seed, jobs=1, progress=False)
    settings = learner_settings(fleet.learners[0])
    curve += curve_rows(history.regret / teams, {**about, "costs": "unknown, shared by a fleet", **settings})
    return {"curve": curve}
