"""Run fleets of nested size in RiverSwim: the teams of a small fleet are the first ones of every larger one, with the same luck.

So fleets of different size, and different learners, differ in nothing but what is compared: the agents' probabilities, the seeds of
ties and the random numbers of a team are the same in all of them. Learners that do not share have one run for all sizes. One of
them is UCRL2-MC itself, every team for itself: what sharing is measured against. Another one is told the river, and learns its
agents only: it has nothing left to share.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import log, sqrt

import numpy as np

from cede import Fleet, Learner, Scale, Task, TwoLayerMDP, simulate_fleet, ucrl2, ucrl2_mc
from cede.worlds.riverswim import riverswim_teams
from studies.figure import Outcome, Part, Row, report_work
from studies.runs.river import DELTA, LEARNERS

PRINTED, OF_TEAM, SCHEDULE = "printed", "printed, t of the team", "schedule"
RADII = (PRINTED, OF_TEAM, SCHEDULE)
OURS, ALONE, KNOWN = LEARNERS[0], "UCRL2-MC, not shared", "UCRL2-MC, river known"


def part(learner: str, radii: str, teams: int, checkpoints: Sequence[int], seed: int) -> Part:
    """Return the part that runs `nested_fleet` with these arguments."""
    arguments = {"learner": learner, "radii": radii, "teams": teams, "checkpoints": list(checkpoints), "seed": seed}
    work = max(checkpoints) * effort(learner, teams)
    return Part("runs.sharing:nested_fleet", arguments, work, f"{teams} teams, {learner}, {radii} radii")


def effort(learner: str, teams: int) -> int:
    """Return roughly how long an episode of all teams takes, for the progress bar: 1 for a team with UCRL2."""
    return teams * (1 if learner.startswith("UCRL2 (") else 3)


def scale_of(radii: str, task: Task, teams: int, episodes: int) -> Scale:
    """Return the scale of the radii by their name in RADII."""
    if radii == SCHEDULE:
        return Scale.authors(episodes)
    return Scale(environment=partial(of_team, task, teams)) if radii == OF_TEAM and teams > 1 else Scale()


def of_team(task: Task, teams: int, k: int) -> float:
    """Return by what the radius of a shared environment must be multiplied to be the one with the t of a single team, in episode k.

    The corollary does not print its radii. With the t_k = (k - 1) L of the text they are narrower than with the steps of all teams,
    N (k - 1) L, which Lemma 3 needs.
    """
    rows, steps = float(task.n_states * task.n_actions), float((k - 1) * task.horizon)
    one, all_teams = (printed_constant(max(1.0, t), rows, task.n_states) for t in (steps, teams * steps))
    return sqrt(one / all_teams)


def printed_constant(steps: float, rows: float, outcomes: int) -> float:
    """Return beta^k of the paper's Section 3: 2 log(steps^7 rows 2^(outcomes + 1) / delta)."""
    return 2 * (7 * log(steps) + log(rows) + (outcomes + 1) * log(2) - log(DELTA))


def make_learner(name: str, mdp: TwoLayerMDP, scale: Scale, seed: int) -> Learner:
    """Make a learner by its name in `river.LEARNERS`, or ALONE, or KNOWN."""
    if name in (OURS, ALONE, KNOWN):
        told = mdp.environment if name == KNOWN else None
        return ucrl2_mc(mdp.task, delta=DELTA, scale=scale, seed=seed, known_environment=told)
    return ucrl2(mdp.task, delta=DELTA, radius=name.split("(")[1].rstrip(")"), scale=scale, seed=seed)


def nested_fleet(
    learner: str, radii: str, teams: int, checkpoints: Sequence[int], seed: int, progress: Callable[[int], None]
) -> Outcome:
    """Run a fleet until the last checkpoint. Return the regret of each "team" after each of the checkpoints.

    learner: a name in `river.LEARNERS`, or ALONE: UCRL2-MC in teams that would exchange what they have seen after the last episode,
    which is never; or KNOWN. radii: a name in RADII; checkpoints: numbers of episodes, ascending.
    """
    mdps, episodes = riverswim_teams(teams, seed=seed), max(checkpoints)
    exchange = episodes if learner == ALONE else 1
    scale = scale_of(radii, mdps[0].task, teams, episodes)
    learners = [make_learner(learner, mdp, scale, seed + 7919 * i) for i, mdp in enumerate(mdps)]
    report = partial(report_work, progress, effort(learner, teams), 0)
    history = simulate_fleet(mdps, Fleet(learners), episodes, seed=seed, jobs=1, sync_every=exchange, progress=report)
    regret = np.cumsum(history.expected_cost - history.optimum[:, None], axis=1)
    about: Row = {"learner": learner, "radii": radii, "teams": teams, "seed": seed, "delta": DELTA}
    rows = []
    for i, mdp in enumerate(mdps):
        p = float(mdp.team.agents[0].policy[0, 1])
        rows += [{**about, "episodes": k, "team": i, "p": p, "regret": float(regret[i, k - 1])} for k in checkpoints]
    return {"team": rows}


def corollary(task: Task, teams: int, episodes: int, delta: float) -> tuple[float, float]:
    """Return the two terms of the corollary's bound of a fleet's total regret, of the agents and of the environment, with the
    constants of the proof of Theorem 2.
    """
    steps, S, A, D, L = episodes * task.horizon, task.n_states, task.n_actions, task.n_agents, task.horizon
    agents = 13 * teams * L * sqrt(A * S * D * steps * log(steps * S * D / delta))
    return agents, 12 * L * S * sqrt(A * teams * steps * log(steps * S * A / delta))
