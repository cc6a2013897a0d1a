"""Runs in the lane driving task, shared by the figures that show them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from cede.experiments.core import Options, Outcome, Part, Row, report_work
from cede.experiments.curves import curve_rows, learner_settings
from cede.experiments.runs import ways
from cede.experiments.runs.river import welcomed
from cede.fleet.fleet import Fleet, simulate_fleet
from cede.fleet.simulate import generator, play, roll
from cede.learning.algorithms import fixed, ucrl2, ucrl2_mc
from cede.learning.learner import Learner
from cede.planning.belief import Scale
from cede.problem.model import TwoLayerMDP
from cede.worlds import lane_driving, lane_driving_teams, road
from cede.worlds.lane_driving import HUMAN, drive

DELTA = 0.1
SIGMA = 2.0
COSTS = ((0.2, 0.1), (0.0, 0.0))  # (c_c(H), c_x), as in the paper
RADII = ("printed", "schedule", "constant")
LEARNERS = ("UCRL2-MC", "UCRL2 (appendix)", "UCRL2 (same-form)")
CONSTANT = (0.1, 0.01)  # agents, environment
DRIVES_AT = (5, 500, 3000)  # episodes of the drives in the paper's figure
ROADS = 500  # per level, to measure who drives after learning


def scale_of(radii: str, episodes: int) -> Scale:
    if radii == "printed":
        return Scale()
    return Scale.authors(episodes) if radii == "schedule" else Scale(*CONSTANT)


def make_learner(name: str, mdp: TwoLayerMDP, radii: str, episodes: int, seed: int, **planning: Any) -> Learner:
    """As in the authors' runs: UCRL2-MC knows the machine; UCRL2 has no use for that, and learns one table p(s' | s, d) for each
    agent, as in the appendix, though the machine's steering varies with time.
    """
    scale = scale_of(radii, episodes)
    if name == "UCRL2-MC":
        machine = {"machine": mdp.team.agents[0].policy}
        return ucrl2_mc(mdp.task, delta=DELTA, scale=scale, known_agents=machine, seed=seed, **planning)
    if name.startswith("UCRL2"):
        pooled = replace(mdp.task, varies_with=None)
        return ucrl2(pooled, delta=DELTA, radius=name.split("(")[1].rstrip(")"), scale=scale, seed=seed)
    return fixed(mdp.task, name)


def team_parts(options: Options, learners: Sequence[str], radii: Sequence[str], full: int, quick: int) -> list[Part]:
    """One team, every learner, both cost settings, every repeat."""
    episodes = options.choose("episodes", full, quick)
    result = []
    for costs, name in product(COSTS, learners):
        for kind, seed in product(radii if name.startswith("UCRL2") else ["none"], options.seeds(1, 1)):
            arguments = {"learner": name, "radii": kind, "costs": list(costs), "episodes": episodes, "seed": seed}
            result.append(Part("runs.lane:one_team", arguments, episodes * effort(kind), f"{name}, {kind} radii, costs {costs}"))
    return result


def effort(radii: str) -> int:
    """Rough price of an episode, for the progress bar: those who plan and those who do not."""
    return 1 if radii == "none" else 40


def drive_episodes(episodes: int) -> tuple[int, ...]:
    """When to look: the paper's episodes, as far as the run goes, and the last one of a short run."""
    reached = tuple(k for k in DRIVES_AT if k <= episodes)
    return reached if len(reached) == len(DRIVES_AT) else (*reached, episodes)


def one_team(
    learner: str, radii: str, costs: Sequence[float], episodes: int, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """A run with its regret, drives on the way, and who drives at the end."""
    mdp = lane_driving(sigma=SIGMA, control_cost=costs[0], switch_cost=costs[1])
    who = make_learner(learner, mdp, radii, episodes, seed)
    rng = generator("one_team", seed)
    about = {"learner": learner, "radii": radii, "control_cost": costs[0], "switch_cost": costs[1], "seed": seed}
    stops = drive_episodes(episodes) if learner == "UCRL2-MC" else ()
    expected: list[float] = []
    outcome: Outcome = {"curve": [], "drive": [], "control": []}
    for end in sorted({k - 1 for k in stops} | {episodes}):
        before = len(expected)
        if end > before:
            report = partial(report_work, progress, effort(radii), before)
            rounds = play(mdp, who, end - before, rng, report)
            expected += rounds.expected_cost[0].tolist()
        if end + 1 in stops:
            outcome["drive"] += drives(mdp, who, end + 1, about, seed)
    optimum = float(rounds.optimum[0])
    outcome["curve"] = curve_rows(np.cumsum(np.array(expected) - optimum), {**about, **learner_settings(who)})
    if learner == "UCRL2-MC":
        outcome["control"] = control_rows(mdp, who, {**about, **learner_settings(who)}, seed)
    return outcome


def planning_run(
    way: str, radii: str, costs: Sequence[float], episodes: int, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """UCRL2-MC, planning in one of the ways of `ways`: its regret, and what planning alone costs."""
    mdp = lane_driving(sigma=SIGMA, control_cost=costs[0], switch_cost=costs[1])

    def make() -> Learner:
        return make_learner("UCRL2-MC", mdp, radii, episodes, seed, **ways.WAYS[way])

    about: Row = {"world": "lane driving", "way": way, "radii": radii, "seed": seed}
    return ways.measured(mdp, make, episodes, about, seed, partial(report_work, progress, effort(radii), 0))


def drives(mdp: TwoLayerMDP, learner: Learner, k: int, about: Row, seed: int) -> list[Row]:
    """The policy of episode k on one road of each level, row by row of the road."""
    rows = []
    for level, traffic in enumerate(road.LEVELS):
        along = road.sample_road(mdp.horizon + 1, traffic, seed=20 + level + 1000 * seed)
        driven = drive(mdp, learner.plan.policy, along, seed=level + 1000 * seed)
        for r in range(len(along.levels)):
            cells = {f"cell_{lane}": int(along.cells[r, lane]) for lane in range(3)}
            agent = int(driven.agents[r]) if r < mdp.horizon else ""
            here = {"row": r, "lane": int(driven.lanes[r]), "agent": agent, "cost": driven.cost}
            rows.append({**about, "episode": k, "traffic": traffic, **here, **cells})
    return rows


def control_rows(mdp: TwoLayerMDP, learner: Learner, about: Row, seed: int) -> list[Row]:
    """Share of steps that the human drives, by initial traffic, on fresh roads with the policy learned last."""
    rows = []
    for level, traffic in enumerate(road.LEVELS):
        busy = TwoLayerMDP(road.environment(road.traffic_mix("lane", traffic)), mdp.team, mdp.horizon, mdp.start_agent)
        rng = np.random.default_rng([seed, level])
        shares = [float((roll(busy, learner.plan.policy, rng).agents == HUMAN).mean()) for _ in range(ROADS)]
        error = float(np.std(shares, ddof=1) / np.sqrt(ROADS))
        rows.append({**about, "traffic": traffic, "roads": ROADS, "human_share": float(np.mean(shares)), "standard_error": error})
    return rows


def fleet_run(
    learner: str,
    radii: str,
    costs: Sequence[float],
    teams: int,
    episodes: int,
    seed: int,
    progress: Callable[[int], None],
    sync_every: int = 1,
) -> Outcome:
    """Many teams with humans of different noise, sigma uniform in (0, 4), one machine, one road."""
    mdps = lane_driving_teams(teams, seed=seed, control_cost=costs[0], switch_cost=costs[1])
    learners = [make_learner(learner, mdp, radii, episodes, seed + 7919 * i) for i, mdp in enumerate(mdps)]
    report = partial(report_work, progress, effort(radii) * teams, 0)
    history = simulate_fleet(mdps, Fleet(learners), episodes, seed=seed, jobs=1, sync_every=sync_every, progress=report)
    about: Row = {"learner": learner, "radii": radii, "control_cost": costs[0], "switch_cost": costs[1], "teams": teams}
    about |= {"sync_every": sync_every, "seed": seed, **learner_settings(learners[0])}
    return {"curve": curve_rows(history.regret, about)}


def newcomer(
    radii: str, costs: Sequence[float], teams: int, before: int, episodes: int, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """A new driver, with what a fleet has learned of the road and without."""
    prices = {"control_cost": costs[0], "switch_cost": costs[1]}
    mdps, mdp = lane_driving_teams(teams, seed=seed, **prices), lane_driving(sigma=SIGMA, **prices)
    fleet = Fleet([make_learner("UCRL2-MC", mdp, radii, before, seed + 7919 * i) for i, mdp in enumerate(mdps)])
    report = partial(report_work, progress, effort(radii) * teams, 0)
    simulate_fleet(mdps, fleet, before, seed=seed, jobs=1, progress=report)
    alone = make_learner("UCRL2-MC", mdp, radii, before, seed)
    known = {"machine": mdp.team.agents[0].policy}
    about: Row = {"world": f"lane driving, human with σ = {SIGMA:g}", "teams": teams, "before": before}
    return welcomed(fleet, mdp, alone, known, episodes, seed, about)


def cost_label(control_cost: Any, switch_cost: Any) -> str:
    return rf"$c_c(\mathbb{{H}}) = {control_cost:g},\ c_x = {switch_cost:g}$"
