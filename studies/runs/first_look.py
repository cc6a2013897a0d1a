"""Run the recommended learner where a newcomer looks first: two drivers on a road, a support desk, a driver who joins a fleet."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from cede import Fleet, Learner, TwoLayerMDP, expected_cost, explain, recommended, simulate, simulate_fleet
from cede.fleet.simulate import roll
from cede.worlds import lane_driving, road, support_desk
from cede.worlds.lane_driving import HUMAN, drive, lane_driving_teams
from cede.worlds.support_desk import KINDS, TRIES
from studies.arrays import Floats, Ints
from studies.figure import Outcome, Row, report_work
from studies.runs.lane import SIGMA, effort

TRAFFIC, ROADS = "heavy", 99  # of so many roads the one with the median saving is drawn
ROLLS = 2000  # episodes to see who is in control where


def driver(mdp: TwoLayerMDP, seed: int, *, structured: bool) -> Learner:
    """Return the recommended learner of a car, told how the machine steers, and what is alike on the road if structured."""
    return recommended(
        mdp.task,
        known_agents={"machine": mdp.team.agents[0].policy},
        structure=mdp.structure if structured else None,
        seed=seed,
    )


def learner_settings(learner: Learner) -> Row:
    """Return the settings of a learner that tables show: its radii, and their scale."""
    return {name: learner.about[name] or "" for name in ("radius", "scale")}


def together(costs: Sequence[float], episodes: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """Let a machine and a human share a car; return what each episode costs ("cost"), drives along one road by each alone and by
    what was learned ("drive"), who drives where ("place"), and why control changes hands on that road ("why").

    costs: of human control and of a hand-over.
    """
    mdp = lane_driving(sigma=SIGMA, control_cost=costs[0], switch_cost=costs[1])
    learner = driver(mdp, seed, structured=True)
    history = simulate(mdp, learner, episodes, seed=seed, progress=partial(report_work, progress, effort("constant"), 0))
    about: Row = {
        "episodes": episodes,
        "seed": seed,
        "control_cost": costs[0],
        "switch_cost": costs[1],
        **learner_settings(learner),
    }
    alone = {f"{name} alone": mdp.task.always(name) for name in mdp.task.members}
    known = {"best possible": history.optimum} | {name: expected_cost(mdp, policy) for name, policy in alone.items()}
    share = history.control[:, HUMAN] / history.control.sum(axis=1)
    rows = [
        {**about, "learner": "together", "episode": k + 1, "cost": float(history.expected_cost[k]), "human_share": float(share[k])}
        for k in range(episodes)
    ]
    rows += [{**about, "learner": name, "cost": float(cost)} for name, cost in known.items()]
    along = typical_road(mdp, learner, seed)
    drives: list[Row] = []
    for name, policy in {**alone, "together": learner.plan.policy}.items():
        driven = drive(mdp, policy, along, seed=seed)
        for r, level in enumerate(along.levels):
            cells = {f"cell_{lane}": int(along.cells[r, lane]) for lane in range(3)}
            here = {"row": r, "level": int(level), "lane": int(driven.lanes[r]), "cost": driven.cost}
            agent = int(driven.agents[r]) if r < mdp.horizon else ""
            drives.append({**about, "learner": name, "agent": agent, **here, **cells})
    return {
        "cost": rows,
        "drive": drives,
        "place": places(mdp, learner, about),
        "why": dearest_hand_over(mdp, learner, along, seed, about),
    }


def typical_road(mdp: TwoLayerMDP, learner: Learner, seed: int) -> road.Road:
    """Return the road, of ROADS in heavy traffic at first, on which sharing the car saves the median amount against the human."""
    human = mdp.task.always(HUMAN)
    roads = [road.sample_road(mdp.horizon + 1, TRAFFIC, seed=i + 1000 * seed) for i in range(ROADS)]
    saved = [drive(mdp, human, one, seed=seed).cost - drive(mdp, learner.plan.policy, one, seed=seed).cost for one in roads]
    return roads[int(np.argsort(saved, kind="stable")[ROADS // 2])]


def places(mdp: TwoLayerMDP, learner: Learner, about: Row) -> list[Row]:
    """Return who drives where, by traffic and by what lies straight ahead: share of all steps, and the human's share of these."""
    rng, states = np.random.default_rng([learner.seed, 5]), road.states()
    steps = [roll(mdp, learner.plan.policy, rng) for _ in range(ROLLS)]
    state, human = np.concatenate([one.states[:-1] for one in steps]), np.concatenate([one.agents for one in steps])
    group = states.level[state] * len(road.CELLS) + states.ahead[state, 1]
    rows = []
    for level, traffic in enumerate(road.LEVELS):
        for cell, ahead in enumerate(road.CELLS):
            here = group == level * len(road.CELLS) + cell
            share = float((human[here] == HUMAN).mean()) if here.any() else 0.0
            rows.append({**about, "traffic": traffic, "ahead": ahead, "steps": float(here.mean()), "human_share": share})
    return rows


def dearest_hand_over(mdp: TwoLayerMDP, learner: Learner, along: road.Road, seed: int, about: Row) -> list[Row]:
    """Return of all hand-overs on a road the one that saves most, and what the learner says about it; nothing if there is none."""
    driven, before, found = drive(mdp, learner.plan.policy, along, seed=seed), int(mdp.start_agent), []
    for t, agent in enumerate(driven.agents.tolist()):
        if agent != before:
            state = road.state_on(along, t, int(driven.lanes[t]))
            said = explain(learner, t, state, before)
            cost = {option.index: option.plain for option in said.options}
            here = {"row": t, "prev_agent": mdp.task.members[before], "state": road.states().names[state], "text": str(said)}
            found.append({**about, **here, "saved": cost[before] - cost[agent]})
        before = agent
    return sorted(found, key=lambda row: row["saved"])[-1:]


def desk(episodes: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """Let a support desk begin with a person who answers everything, as the baseline that must not be fallen behind.

    Returns cost and shares of control over tickets ("cost"; `span` tickets before each), each agent alone and the best possible
    ("alone"), and in the end who answers which ticket ("place").
    """
    mdp = support_desk()
    learner = recommended(mdp.task, baseline="person", start=mdp.environment.start, seed=seed)
    history = simulate(mdp, learner, episodes, seed=seed, progress=progress)
    about: Row = {"episodes": episodes, "seed": seed, **learner_settings(learner)}
    rows, first = [], 0
    for end in np.unique(np.geomspace(50, episodes, 30).astype(int)):
        control = history.control[first:end].sum(axis=0)
        shares = {f"share_{i}": float(steps / control.sum()) for i, steps in enumerate(control)}
        mean = float(history.expected_cost[first:end].mean())
        rows.append({**about, "episode": int(end), "span": int(end - first), "cost": mean, **shares})
        first = end
    known = {"best possible": history.optimum}
    known |= {name: expected_cost(mdp, mdp.task.always(name)) for name in mdp.task.members}
    alone = [{**about, "learner": name, "cost": float(cost)} for name, cost in known.items()]
    return {"cost": rows, "alone": alone, "place": who_answers(mdp, learner, about)}


def who_answers(mdp: TwoLayerMDP, learner: Learner, about: Row) -> list[Row]:
    """Return who answers which ticket with the policy learned last: for each state its share of all steps, and each agent's."""
    rng = np.random.default_rng([learner.seed, 6])
    steps = [roll(mdp, learner.plan.policy, rng) for _ in range(ROLLS)]
    seen: Ints = np.zeros((len(KINDS) * TRIES, mdp.team.n_agents), dtype=np.int64)
    for one in steps:
        np.add.at(seen, (one.states[:-1], one.agents), 1)
    total, rows = seen.sum(), []
    for s, held in enumerate(seen):
        shares: Floats = held / max(1, held.sum())
        place = {"ticket": KINDS[s // TRIES], "wrong": s % TRIES, "steps": float(held.sum() / total)}
        rows.append({**about, **place, **{f"share_{i}": float(share) for i, share in enumerate(shares)}})
    return rows


def joins(costs: Sequence[float], teams: int, before: int, episodes: int, seed: int, progress: Callable[[int], None]) -> Outcome:
    """Let a fleet of drivers learn a road of which nobody is told anything, then run a new driver with and without what it knows.

    Returns what each of the new driver's episodes costs ("cost"). teams, before: of the fleet, and its episodes.
    """
    prices = {"control_cost": costs[0], "switch_cost": costs[1]}
    mdps, mdp = lane_driving_teams(teams, seed=seed, **prices), lane_driving(sigma=SIGMA, **prices)
    fleet = Fleet([driver(one, seed + 7919 * i, structured=False) for i, one in enumerate(mdps)])
    report = partial(report_work, progress, effort("constant") * teams, 0)
    simulate_fleet(mdps, fleet, before, seed=seed, jobs=1, progress=report)
    known = {"machine": mdp.team.agents[0].policy}
    welcomed = fleet.remove(fleet.welcome(mdp.task, known_agents=known, seed=seed))
    about: Row = {"episodes": episodes, "seed": seed, "teams": teams, "before": before, **learner_settings(welcomed)}
    rows: list[Row] = []
    for name, learner in (("welcomed by the fleet", welcomed), ("alone", driver(mdp, seed, structured=False))):
        history = simulate(mdp, learner, episodes, seed=seed, progress=False)
        rows += [{**about, "newcomer": name, "episode": k + 1, "cost": float(cost)} for k, cost in enumerate(history.expected_cost)]
    ends = {"best possible": history.optimum} | {
        f"{name} alone": expected_cost(mdp, mdp.task.always(name)) for name in mdp.task.members
    }
    return {"cost": rows + [{**about, "newcomer": name, "cost": float(cost)} for name, cost in ends.items()]}
