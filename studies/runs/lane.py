"""Run learners in the lane driving task: one team with drives on the way, a fleet, a newcomer, ways of planning."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from cede import Fleet, Learner, Scale, TwoLayerMDP, fixed, simulate_fleet, ucrl2, ucrl2_mc
from cede.fleet.simulate import generator, play, roll
from cede.worlds import lane_driving, road
from cede.worlds.lane_driving import HUMAN, drive, lane_driving_teams
from studies.arrays import Floats
from studies.figure import Options, Outcome, Part, Row, report_work
from studies.runs.curves import curve_rows, learner_settings
from studies.runs.newcomer import with_and_without_fleet
from studies.runs.planning_ways import WAYS, regret_and_work
from studies.train_machine import train

DELTA = 0.1
SIGMA = 2.0
COSTS = ((0.2, 0.1), (0.0, 0.0))  # (c_c(H), c_x), as in the paper
RADII = ("printed", "schedule", "constant")
LEARNERS = ("UCRL2-MC", "UCRL2 (appendix)", "UCRL2 (same-form)")
CONSTANT = (0.1, 0.01)  # agents, environment
DRIVES_AT = (5, 500, 3000)  # episodes of the drives in the paper's figure
ROADS = 500  # per level, to measure who drives after learning
REPEATS, QUICK_REPEATS = 5, 1


def scale_of(radii: str, episodes: int) -> Scale:
    """Return the scale of the radii by its name in RADII; the authors' schedule depends on the number of episodes."""
    if radii == "printed":
        return Scale()
    return Scale.authors(episodes) if radii == "schedule" else Scale(*CONSTANT)


def make_learner(name: str, mdp: TwoLayerMDP, radii: str, episodes: int, seed: int, **planning: Any) -> Learner:
    """Make a learner by its name in LEARNERS, or a driver who is always in control ("human", "machine").

    As in the authors' runs UCRL2-MC is told the machine's policy. UCRL2 cannot use it; it learns one table p(s' | s, d) for each
    agent, as in the appendix, though the machine's steering varies with time. planning: more arguments of `ucrl2_mc`.
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
    """Return the parts that run `one_team` for all learners, kinds of radii, pairs of COSTS and repeats.

    full, quick: episodes of a full and of a quick run. A driver alone has no radii and gets one part for each pair of costs.
    """
    episodes = options.choose("episodes", full, quick)
    result = []
    for costs, name in product(COSTS, learners):
        drives = name.startswith("UCRL2")  # a driver alone does not learn: its regret is the same for every seed
        seeds = options.seeds(REPEATS, QUICK_REPEATS) if drives else [options.seed]
        result += [team_part(name, kind, costs, episodes, seed) for kind, seed in product(radii if drives else ["none"], seeds)]
    return result


def team_part(learner: str, radii: str, costs: Sequence[float], episodes: int, seed: int, machine: int | None = None) -> Part:
    """Return the part that runs `one_team` with these arguments."""
    arguments = {"learner": learner, "radii": radii, "costs": list(costs), "episodes": episodes, "seed": seed, "machine": machine}
    with_whom = "" if machine is None else f", machine {machine}"
    return Part("runs.lane:one_team", arguments, episodes * effort(radii), f"{learner}, {radii} radii, costs {costs}{with_whom}")


@cache
def trained(machine: int) -> Floats:
    """Return the policy of a machine, trained with a seed of its own, (10, S, 3)."""
    return train(seed=machine)


def effort(radii: str) -> int:
    """Return roughly how long an episode takes, for the progress bar: 1 for a driver alone, who does not plan, else 40."""
    return 1 if radii == "none" else 40


def drive_episodes(episodes: int) -> tuple[int, ...]:
    """Return the episodes whose drives are recorded: those of the paper's figure, and the last one of a run that ends earlier."""
    reached = tuple(k for k in DRIVES_AT if k <= episodes)
    return reached if len(reached) == len(DRIVES_AT) else (*reached, episodes)


def one_team(
    learner: str,
    radii: str,
    costs: Sequence[float],
    episodes: int,
    seed: int,
    progress: Callable[[int], None],
    machine: int | None = None,
) -> Outcome:
    """Run one team and return its regret "curve"; for UCRL2-MC also drives on the way ("drive", see `drive_rows`) and how much the
    human drives in the end ("control", see `control_rows`).

    radii: a name in RADII, or "none"; costs: of human control and of a hand-over. machine: the seed with which it was trained;
    None: the one that comes with cede.
    """
    with_whom = None if machine is None else trained(machine)
    mdp = lane_driving(sigma=SIGMA, control_cost=costs[0], switch_cost=costs[1], machine=with_whom)
    player = make_learner(learner, mdp, radii, episodes, seed)
    rng = generator("one_team", seed)
    about = {"learner": learner, "radii": radii, "control_cost": costs[0], "switch_cost": costs[1], "seed": seed}
    about |= {} if machine is None else {"machine": machine}
    stops = drive_episodes(episodes) if learner == "UCRL2-MC" else ()
    expected: list[float] = []
    outcome: Outcome = {"curve": [], "drive": [], "control": []}
    for end in sorted({k - 1 for k in stops} | {episodes}):
        before = len(expected)
        if end > before:
            report = partial(report_work, progress, effort(radii), before)
            record = play(mdp, player, end - before, rng, report)
            expected += record.ledger.expected_cost[0].tolist()
        if end + 1 in stops:
            outcome["drive"] += drive_rows(mdp, player, end + 1, about, seed)
    optimum = float(record.optimum[0])
    outcome["curve"] = curve_rows(np.cumsum(np.array(expected) - optimum), {**about, **learner_settings(player)})
    if learner == "UCRL2-MC":
        outcome["control"] = control_rows(mdp, player, {**about, **learner_settings(player)}, seed)
    return outcome


def planning_run(
    way: str, radii: str, costs: Sequence[float], episodes: int, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """Run UCRL2-MC, planning in one of the WAYS; return its regret "curve" and the "work" of planning."""
    mdp = lane_driving(sigma=SIGMA, control_cost=costs[0], switch_cost=costs[1])

    def make() -> Learner:
        return make_learner("UCRL2-MC", mdp, radii, episodes, seed, **WAYS[way])

    about: Row = {"world": "lane driving", "way": way, "radii": radii, "seed": seed}
    return regret_and_work(mdp, make, episodes, about, seed, partial(report_work, progress, effort(radii), 0))


def drive_rows(mdp: TwoLayerMDP, learner: Learner, k: int, about: Row, seed: int) -> list[Row]:
    """Drive along one road of each traffic level with the learner's policy of episode k.

    Returns one row for each row of the road: its cells, the car's lane, and the agent that drives on from there.
    """
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
    """Measure how much the human drives with the policy that was learned last, on ROADS new roads of each initial traffic level.

    Returns one row for each level: the mean share of steps and its standard error.
    """
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
    """Run a fleet and return the "curve" of its total regret.

    The humans differ in noise, sigma uniform in (0, 4); all have the same machine and the same road. sync_every: episodes between
    two exchanges of what the teams have seen of the road.
    """
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
    """Let a fleet learn, then run a new team with and without what the fleet knows of the road; return the "curve" of both.

    teams: of the fleet; before: episodes of the fleet; episodes: of the new team.
    """
    prices = {"control_cost": costs[0], "switch_cost": costs[1]}
    mdps, mdp = lane_driving_teams(teams, seed=seed, **prices), lane_driving(sigma=SIGMA, **prices)
    fleet = Fleet([make_learner("UCRL2-MC", mdp, radii, before, seed + 7919 * i) for i, mdp in enumerate(mdps)])
    report = partial(report_work, progress, effort(radii) * teams, 0)
    simulate_fleet(mdps, fleet, before, seed=seed, jobs=1, progress=report)
    alone = make_learner("UCRL2-MC", mdp, radii, before, seed)
    known = {"machine": mdp.team.agents[0].policy}
    about: Row = {"world": f"lane driving, human with σ = {SIGMA:g}", "teams": teams, "before": before}
    return with_and_without_fleet(fleet, mdp, alone, known, episodes, seed, about)
