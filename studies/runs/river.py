"""Run learners in RiverSwim, with the printed radii: one team, a fleet, a newcomer, ways of planning, coverage of the sets."""

from collections.abc import Callable, Sequence
from functools import partial
from math import log, sqrt

import numpy as np

from cede import Fleet, Learner, Task, TwoLayerMDP, fixed, simulate, simulate_fleet, ucrl2, ucrl2_mc
from cede.beliefs.belief import holds
from cede.beliefs.truth import true_beliefs
from cede.fleet.simulate import play
from cede.worlds import riverswim
from cede.worlds.riverswim import riverswim_teams
from studies.figure import Outcome, Part, Row, report_work
from studies.runs.curves import curve_rows, learner_settings
from studies.runs.newcomer import with_and_without_fleet
from studies.runs.planning_ways import WAYS, regret_and_work

DELTA = 0.1
LEARNERS = ("UCRL2-MC", "UCRL2 (appendix)", "UCRL2 (same-form)")


def make_learner(name: str, mdp: TwoLayerMDP, seed: int) -> Learner:
    """Make a learner by its name in LEARNERS, or an agent that is always in control by the agent's name ("p=0.3")."""
    if name == "UCRL2-MC":
        return ucrl2_mc(mdp.task, delta=DELTA, seed=seed)
    if name.startswith("UCRL2"):
        return ucrl2(mdp.task, delta=DELTA, radius=name.split("(")[1].rstrip(")"), seed=seed)
    return fixed(mdp.task, name)


def theorem_2(task: Task, episodes: int, delta: float) -> float:
    """Return the bound on the regret after so many episodes, as at the end of the proof of Theorem 2, with its constants."""
    steps, S, A, D, L = episodes * task.horizon, task.n_states, task.n_actions, task.n_agents, task.horizon
    agents: float = 13 * L * sqrt(A * S * D * steps * log(steps * S * D / delta))
    return agents + float(12 * L * S * sqrt(A * steps * log(steps * S * A / delta)))


def team_part(learner: str, agents: Sequence[float], episodes: int, seed: int, *, macro: int = 1) -> Part:
    """Return the part that runs `one_team` with these arguments."""
    arguments = {"learner": learner, "agents": list(agents), "macro": macro, "episodes": episodes, "seed": seed}
    return Part("runs.river:one_team", arguments, episodes, f"{len(agents)} agents, {2**macro} actions, {learner}")


def fleet_part(learner: str, teams: int, episodes: int, seed: int) -> Part:
    """Return the part that runs `fleet_run` with these arguments."""
    arguments = {"learner": learner, "teams": teams, "episodes": episodes, "seed": seed}
    return Part("runs.river:fleet_run", arguments, teams * episodes, f"{teams} teams, {learner}")


def one_team(
    learner: str, agents: Sequence[float], macro: int, episodes: int, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """Run one team and return its regret "curve", with the bound of Theorem 2 in the column "bound".

    learner: as for `make_learner`; agents: each agent's probability of swimming right; macro: steps of the river per decision,
    which makes 2 ** macro actions.
    """
    mdp = riverswim(agents=agents, macro=macro)
    player = make_learner(learner, mdp, seed)
    regret = simulate(mdp, player, episodes, seed=seed, progress=progress).regret
    about: Row = {
        "learner": learner,
        "agents": len(agents),
        "actions": mdp.task.n_actions,
        "seed": seed,
        **learner_settings(player),
    }
    curve = curve_rows(regret, about)
    return {"curve": [{**row, "bound": theorem_2(mdp.task, row["episode"], DELTA)} for row in curve]}


def planning_run(way: str, agents: Sequence[float], episodes: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """Run UCRL2-MC, planning in one of the WAYS; return its regret "curve" and the "work" of planning."""
    mdp = riverswim(agents=agents)

    def make() -> Learner:
        return ucrl2_mc(mdp.task, delta=DELTA, seed=seed, **WAYS[way])

    about: Row = {"world": "RiverSwim", "way": way, "radii": "printed", "seed": seed}
    return regret_and_work(mdp, make, episodes, about, seed, progress)


def coverage(agents: Sequence[float], runs: int, episodes: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """Count the runs of UCRL2-MC in which the true model was ever outside of the confidence sets, checked before every episode.

    runs: how many; episodes: of each run. Returns one row "coverage", with the count in the column "left".
    """
    mdp = riverswim(agents=agents)
    left = 0
    for run in range(runs):
        learner, rng = ucrl2_mc(mdp.task, delta=DELTA, seed=seed + run), np.random.default_rng([seed, run])
        outside = False
        for _ in range(episodes):
            pairs = zip(learner.beliefs, true_beliefs(mdp), strict=True)
            outside = outside or not all(holds(belief, truth) for belief, truth in pairs)
            play(mdp, learner, 1, rng)
        left += outside
        progress((run + 1) * episodes)
    return {"coverage": [{"runs": runs, "run_episodes": episodes, "left": left, "delta": DELTA, "seed": seed}]}


def fleet_run(learner: str, teams: int, episodes: int, seed: int, progress: Callable[[int], None], sync_every: int = 1) -> Outcome:
    """Run a fleet and return the "curve" of its total regret.

    A team has two agents, p and 1 - p, with p drawn uniformly for each team; the teams depend on the seed, not on the learner.
    sync_every: episodes between two exchanges of what the teams have seen of the river.
    """
    mdps = riverswim_teams(teams, seed=seed)
    learners = [make_learner(learner, mdp, seed + 7919 * i) for i, mdp in enumerate(mdps)]
    report = partial(report_work, progress, teams, 0)
    history = simulate_fleet(mdps, Fleet(learners), episodes, seed=seed, jobs=1, sync_every=sync_every, progress=report)
    about: Row = {"learner": learner, "teams": teams, "sync_every": sync_every, "seed": seed, **learner_settings(learners[0])}
    return {"curve": curve_rows(history.regret, about)}


def endless(learner: str, agents: Sequence[float], steps: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """Run one team without a horizon and return its regret "curve" against the least average cost, by step instead of episode.

    learner: as for `make_learner`. Rows are spaced evenly on a logarithmic scale.
    """
    mdp = riverswim(agents=list(agents), horizon=None)
    player = make_learner(learner, mdp, seed)
    history = simulate(mdp, player, steps=steps, record_every=steps // 1000, seed=seed, progress=progress)
    about: Row = {
        "learner": learner,
        "agents": str(list(agents)),
        "seed": seed,
        "optimum": history.optimum,
        "episodes": steps,
        "unit": "steps",
    }
    points = np.unique(np.geomspace(1, 1000, 100).astype(int))
    each = steps // 1000
    rows = [{**about, "episode": int(k * each), "regret": float(history.regret[k - 1]), **learner_settings(player)} for k in points]
    return {"curve": rows}


def newcomer(
    agents: Sequence[float], teams: int, before: int, episodes: int, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """Let a fleet learn, then run a new team with and without what the fleet knows of the river; return the "curve" of both.

    agents: of the new team; teams: of the fleet; before: episodes of the fleet; episodes: of the new team.
    """
    mdps, mdp = riverswim_teams(teams, seed=seed), riverswim(agents=agents)
    fleet = Fleet([make_learner("UCRL2-MC", mdp, seed + 7919 * i) for i, mdp in enumerate(mdps)])
    simulate_fleet(mdps, fleet, before, seed=seed, jobs=1, progress=partial(report_work, progress, teams, 0))
    alone = make_learner("UCRL2-MC", mdp, seed)
    about: Row = {"world": f"RiverSwim, agents {agents[0]} and {agents[1]}", "teams": teams, "before": before}
    return with_and_without_fleet(fleet, mdp, alone, {}, episodes, seed, about)
