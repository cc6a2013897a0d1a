"""Runs in RiverSwim, shared by the figures that show them. All with the printed radii."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log, sqrt

import numpy as np

from cede._base.arrays import Floats
from cede.experiments.core import Outcome, Part, Row, report_work
from cede.experiments.curves import curve_rows, learner_settings
from cede.experiments.runs import ways
from cede.fleet.fleet import Fleet, simulate_fleet
from cede.fleet.simulate import play, simulate
from cede.learning.algorithms import fixed, ucrl2, ucrl2_mc
from cede.learning.learner import Learner
from cede.planning.belief import holds, true_beliefs
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task
from cede.worlds import riverswim, riverswim_teams

DELTA = 0.1
LEARNERS = ("UCRL2-MC", "UCRL2 (appendix)", "UCRL2 (same-form)")


def make_learner(name: str, mdp: TwoLayerMDP, seed: int) -> Learner:
    if name == "UCRL2-MC":
        return ucrl2_mc(mdp.task, delta=DELTA, seed=seed)
    if name.startswith("UCRL2"):
        return ucrl2(mdp.task, delta=DELTA, radius=name.split("(")[1].rstrip(")"), seed=seed)
    return fixed(mdp.task, name)


def theorem_2(task: Task, episodes: int, delta: float) -> float:
    """The bound on the regret at the end of the proof of Theorem 2, with its constants 13 and 12."""
    steps, S, A, D, L = episodes * task.horizon, task.n_states, task.n_actions, task.n_agents, task.horizon
    agents = 13 * L * sqrt(A * S * D * steps * log(steps * S * D / delta))
    return agents + 12 * L * S * sqrt(A * steps * log(steps * S * A / delta))


def team_part(learner: str, agents: Sequence[float], episodes: int, seed: int, *, macro: int = 1) -> Part:
    arguments = {"learner": learner, "agents": list(agents), "macro": macro, "episodes": episodes, "seed": seed}
    return Part("runs.river:one_team", arguments, episodes, f"{len(agents)} agents, {2**macro} actions, {learner}")


def fleet_part(learner: str, teams: int, episodes: int, seed: int) -> Part:
    arguments = {"learner": learner, "teams": teams, "episodes": episodes, "seed": seed}
    return Part("runs.river:fleet_run", arguments, teams * episodes, f"{teams} teams, {learner}")


def one_team(
    learner: str, agents: Sequence[float], macro: int, episodes: int, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """One team; beside the regret the bound of Theorem 2."""
    mdp = riverswim(agents=agents, macro=macro)
    who = make_learner(learner, mdp, seed)
    regret = simulate(mdp, who, episodes, seed=seed, progress=progress).regret
    about: Row = {"learner": learner, "agents": len(agents), "actions": mdp.task.n_actions, "seed": seed, **learner_settings(who)}
    curve = curve_rows(regret, about)
    return {"curve": [{**row, "bound": theorem_2(mdp.task, row["episode"], DELTA)} for row in curve]}


def planning_run(way: str, agents: Sequence[float], episodes: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """UCRL2-MC, planning in one of the ways of `ways`: its regret, and what planning alone costs."""
    mdp = riverswim(agents=agents)

    def make() -> Learner:
        return ucrl2_mc(mdp.task, delta=DELTA, seed=seed, **ways.WAYS[way])

    return ways.measured(mdp, make, episodes, {"world": "RiverSwim", "way": way, "radii": "printed", "seed": seed}, seed, progress)


def coverage(agents: Sequence[float], runs: int, episodes: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """In how many of many short runs did the truth ever leave UCRL2-MC's sets? Looked at before every episode."""
    mdp = riverswim(agents=agents)
    left = 0
    for run in range(runs):
        who, rng = ucrl2_mc(mdp.task, delta=DELTA, seed=seed + run), np.random.default_rng([seed, run])
        outside = False
        for _ in range(episodes):
            outside = outside or not all(holds(belief, truth) for belief, truth in zip(who.beliefs, true_beliefs(mdp), strict=True))
            play(mdp, who, 1, rng)
        left += outside
        progress((run + 1) * episodes)
    return {"coverage": [{"runs": runs, "run_episodes": episodes, "left": left, "delta": DELTA, "seed": seed}]}


def fleet_run(learner: str, teams: int, episodes: int, seed: int, progress: Callable[[int], None], sync_every: int = 1) -> Outcome:
    """N teams of two agents p and 1 - p, p uniform for each team; the same teams for every learner of one seed."""
    mdps = riverswim_teams(teams, seed=seed)
    learners = [make_learner(learner, mdp, seed + 7919 * i) for i, mdp in enumerate(mdps)]
    report = partial(report_work, progress, teams, 0)
    history = simulate_fleet(mdps, Fleet(learners), episodes, seed=seed, jobs=1, sync_every=sync_every, progress=report)
    about: Row = {"learner": learner, "teams": teams, "sync_every": sync_every, "seed": seed, **learner_settings(learners[0])}
    return {"curve": curve_rows(history.regret, about)}


def newcomer(
    agents: Sequence[float], teams: int, before: int, episodes: int, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """A new team, with what a fleet has learned of the river and without."""
    mdps, mdp = riverswim_teams(teams, seed=seed), riverswim(agents=agents)
    fleet = Fleet([make_learner("UCRL2-MC", mdp, seed + 7919 * i) for i, mdp in enumerate(mdps)])
    simulate_fleet(mdps, fleet, before, seed=seed, jobs=1, progress=partial(report_work, progress, teams, 0))
    alone = make_learner("UCRL2-MC", mdp, seed)
    about: Row = {"world": f"RiverSwim, agents {agents[0]} and {agents[1]}", "teams": teams, "before": before}
    return welcomed(fleet, mdp, alone, {}, episodes, seed, about)


def welcomed(
    fleet: Fleet, mdp: TwoLayerMDP, alone: Learner, known: Mapping[str, Floats], episodes: int, seed: int, about: Row
) -> Outcome:
    """The regret of a newcomer who leaves at once with what the fleet knows, and of one who knows nothing."""
    knowing = fleet.remove(fleet.welcome(mdp.task, known_agents=known, seed=seed))
    curve = []
    for name, learner in (("with the fleet's knowledge", knowing), ("alone", alone)):
        regret = simulate(mdp, learner, episodes, seed=seed, progress=False).regret
        curve += curve_rows(regret, {**about, "newcomer": name, "learner": "UCRL2-MC", "seed": seed, **learner_settings(learner)})
    return {"curve": curve}
