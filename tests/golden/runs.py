"""The runs whose results a release has fixed, by name: each returns the arrays that must come out the same, bit for bit.

They use public names alone, so that any version can run them. `python tests/golden/runs.py` writes them to `histories.npz`; do that
only when a release is meant to change results, and say so in the changelog. With names of runs it writes only these.
"""

import platform
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import cede

FILE = Path(__file__).parent / "histories.npz"
RUNS: dict[str, Callable[[], dict[str, np.ndarray]]] = {}


def golden(run):
    RUNS[run.__name__] = run
    return run


def arrays_of(history):
    names = ("regret", "team_regret", "expected_cost", "cost", "control", "switches", "optimum")
    return {name: np.asarray(getattr(history, name)) for name in names if hasattr(history, name)}


def plan_of(learner):
    return {"policy": learner.plan.policy, "value": np.asarray(learner.plan.value)}


def one(mdp, learner, episodes, **options):
    length = {"episodes" if mdp.horizon is not None else "steps": episodes}
    history = cede.simulate(mdp, learner, **length, seed=5, progress=False, **options)
    return arrays_of(history) | plan_of(learner)


def road(**options):
    return cede.worlds.lane_driving(**{"control_cost": 0.2, "switch_cost": 0.1, **options})


def known(mdp):
    return {"machine": mdp.team.agents[0].policy}


@golden
def river_printed():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7], switch_cost=0.05)
    return one(mdp, cede.ucrl2_mc(mdp.task, seed=3), 300)


@golden
def river_authors_doubling():
    mdp = cede.worlds.riverswim(agents=[0.2, 0.5, 0.9])
    return one(mdp, cede.ucrl2_mc(mdp.task, scale=cede.Scale.authors(episodes=200), replan="doubling"), 200, evaluate_every=3)


@golden
def river_greedy_planning():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7], switch_cost=0.1)
    return one(mdp, cede.ucrl2_mc(mdp.task, planning="greedy"), 150)


@golden
def river_bernstein():
    mdp = cede.worlds.riverswim(agents=[0.1, 0.9])
    return one(mdp, cede.ucrl2_mc(mdp.task, belief={"agents": "bernstein", "environment": "printed"}, scale=0.3), 200)


@golden
def river_kl():
    mdp = cede.worlds.riverswim(agents=[0.1, 0.9], switch_cost=0.05)
    found = one(mdp, cede.ucrl2_mc(mdp.task, belief="kl", seed=1), 150)
    optimist = one(mdp, cede.ucrl2_mc(mdp.task, belief={"agents": "kl-value", "environment": "kl"}, structure=mdp.structure), 150)
    return found | {f"value {name}": array for name, array in optimist.items()}


@golden
def recommended():
    """With trial episodes, numbers 1 to 3, 25 to 27 and 193 to 195; and on the road, where rows are long."""
    mdp = cede.worlds.riverswim(agents=[0.2, 0.5, 0.9], switch_cost=0.05)
    found = one(mdp, cede.recommended(mdp.task, seed=2), 200)
    mdp = road()
    return found | {
        f"road {name}": array for name, array in one(mdp, cede.recommended(mdp.task, structure=mdp.structure), 40).items()
    }


@golden
def river_ucrl2_both_radii():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    found = {}
    for radius in ("appendix", "same-form"):
        result = one(mdp, cede.ucrl2(mdp.task, radius=radius, scale=0.2, replan=5), 150)
        found |= {f"{radius} {name}": array for name, array in result.items()}
    return found


@golden
def river_posterior():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    return one(mdp, cede.posterior_sampling(mdp.task, seed=1), 200)


@golden
def river_greedy_forgetting():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    forget = {"p=0.3": cede.HalfLife(40), "p=0.7": cede.Window(25)}
    return one(mdp, cede.greedy(mdp.task, forget=forget, forget_environment=cede.Window(60)), 150)


@golden
def river_forgetting_every_third():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    return one(mdp, cede.ucrl2_mc(mdp.task, forget=cede.HalfLife(30.5), scale=0.2, replan=3), 120)


@golden
def river_limits_and_delays():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    agents = [cede.Agent(a.name, a.policy, takeover_delay=2 * i) for i, a in enumerate(mdp.team.agents)]
    slow = cede.TwoLayerMDP(mdp.environment, cede.Team(agents, 0.05), mdp.horizon)
    return one(slow, cede.ucrl2_mc(slow.task, at_most={"p=0.7": 0.4}, scale=0.3), 150)


@golden
def river_baseline():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    return one(mdp, cede.ucrl2_mc(mdp.task, baseline="p=0.7", alpha=0.05, scale=0.2, start=mdp.environment.start), 400)


@golden
def river_fixed_and_oracle():
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    first = one(mdp, cede.fixed(mdp.task, "p=0.3"), 50)
    return first | {f"oracle {name}": array for name, array in one(mdp, cede.oracle(mdp), 50).items()}


@golden
def road_structured():
    mdp = road()
    return one(mdp, cede.ucrl2_mc(mdp.task, structure=mdp.structure, known_agents=known(mdp)), 60)


@golden
def road_schedule():
    mdp = road()
    return one(mdp, cede.ucrl2_mc(mdp.task, scale=cede.Scale.authors(episodes=40), known_agents=known(mdp)), 40)


@golden
def road_posterior_limits():
    mdp = road()
    told = {"structure": mdp.structure, "known_agents": known(mdp)}
    return one(mdp, cede.posterior_sampling(mdp.task, at_least={"human": 0.3}, **told), 40)


@golden
def road_bernstein_structured():
    mdp = road()
    return one(mdp, cede.ucrl2_mc(mdp.task, belief="bernstein", structure=mdp.structure), 15)


@golden
def road_posterior_plain():
    mdp = road(control_cost=0.0)
    return one(mdp, cede.posterior_sampling(mdp.task, known_environment=None, known_agents=known(mdp), replan=4), 20)


@golden
def fleet_of_rivers():
    mdps = cede.worlds.riverswim_teams(9, seed=2)
    learners = [cede.ucrl2_mc(m.task, seed=i) for i, m in enumerate(mdps[:4])]
    learners += [cede.posterior_sampling(m.task, seed=i) for i, m in enumerate(mdps[4:6])]
    learners += [cede.ucrl2(mdps[6].task), cede.greedy(mdps[7].task), cede.ucrl2_mc(mdps[8].task, replan="doubling")]
    fleet = cede.Fleet(learners)
    history = cede.simulate_fleet(mdps, fleet, 60, seed=3, jobs=2, sync_every=4, progress=False)
    return arrays_of(history) | {"environment": fleet.environment.toarray()}


@golden
def fleet_of_roads():
    mdps = cede.worlds.lane_driving_teams(3, seed=1, control_cost=0.2, switch_cost=0.1)
    fleet = cede.Fleet([cede.ucrl2_mc(m.task, known_agents=known(m), scale=0.1, seed=i) for i, m in enumerate(mdps)])
    history = cede.simulate_fleet(mdps, fleet, 12, seed=3, jobs=1, progress=False)
    newcomer = fleet.welcome(mdps[0].task, known_agents=known(mdps[0]))
    return arrays_of(history) | plan_of(newcomer)


@golden
def by_hand():
    """A learner in somebody's own loop: choose, observe, end; from a log; merged into a fleet."""
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7], switch_cost=0.05)
    learner, rng = cede.ucrl2_mc(mdp.task, seed=4), np.random.default_rng(9)
    for _ in range(20):
        episode = cede.rollout(mdp, learner.plan, rng)
        for t in range(mdp.horizon):
            assert learner.choose(t, episode.states[t], episode.prev_agents[t]) == episode.agents[t]
            step = (episode.states[t], episode.prev_agents[t], episode.agents[t], episode.actions[t], episode.states[t + 1])
            learner.observe(t, *step)
        learner.end_episode()
    other = cede.ucrl2_mc(mdp.task, seed=5)
    other.learn_from([cede.rollout(mdp, learner.plan, rng) for _ in range(7)], progress=False)
    low_high = cede.insight.bounds(learner)
    fleet = cede.Fleet([learner, other])
    return plan_of(fleet.learners[1]) | {"low": low_high.low, "high": low_high.high, "environment": fleet.environment.toarray()}


@golden
def limits_solved():
    mdp = road()
    mixture = cede.solve(mdp, at_most={"human": 0.1})
    return {
        "cost": np.asarray(mixture.cost),
        "shares": mixture.shares,
        "weights": mixture.weights,
        "solved": cede.solve(mdp).policy,
    }


# ------------------------------------------------------------- added before the core was redrawn around rows and places


def small_world(seed=0, n_states=5, n_actions=3, horizon=7, *, terminal=(), varies=None, discount=None, periods=None, **options):
    """A random problem with two agents; varies: what the second agent's policy varies with."""
    rng = np.random.default_rng(seed)

    def rows(*shape):
        weights = rng.random(shape)
        weights = weights * weights * weights  # not ** 3, which differs from processor to processor
        return weights / weights.sum(axis=-1, keepdims=True)

    tables = () if periods is None else (max(periods) + 1,)
    transition, cost = rows(*tables, n_states, n_actions, n_states), rng.integers(0, 9, (n_states, n_actions)) / 8
    cost[list(terminal)] = 0.0
    env = cede.Environment(
        transition,
        cost,
        [1.0] + [0.0] * (n_states - 1),
        terminal=terminal,
        periods=periods,
        **options,
    )
    first = {None: (), "time": (horizon,), "prev_agent": (2,)}[varies]
    agents = [
        cede.Agent("machine", rows(n_states, n_actions)),
        cede.Agent("person", rows(*first, n_states, n_actions), 0.125, varies_with=varies),
    ]
    return cede.TwoLayerMDP(env, cede.Team(agents, 0.25), horizon, discount=discount)


def several(mdp, episodes, **learners):
    """The same run with several learners, their arrays under their names."""
    found = {}
    for name, make in learners.items():
        found |= {f"{name} {key}": array for key, array in one(mdp, make(mdp.task), episodes).items()}
    return found


def sampling(task):
    return cede.posterior_sampling(task, seed=2)


@golden
def no_horizon_discounted():
    mdp = small_world(1, horizon=None, discount=0.9, terminal=[4])
    return several(mdp, 300, printed=lambda task: cede.ucrl2_mc(task, scale=0.1, replan=25), sampled=sampling)


@golden
def no_horizon_average():
    mdp = small_world(2, horizon=None)
    return several(mdp, 300, doubling=lambda task: cede.ucrl2_mc(task, scale=0.1, replan="doubling"), recommended=cede.recommended)


@golden
def ends_and_arrivals():
    mdp = small_world(3, terminal=[4], enter_cost={3: 0.5}, discount=0.875)
    return several(mdp, 80, printed=lambda task: cede.ucrl2_mc(task, scale=0.2), flat=cede.ucrl2, recommended=cede.recommended)


@golden
def learned_costs():
    mdp = small_world(4, enter_cost={3: 0.5})
    task = mdp.task.with_unknown_costs((0.0, 2.0))
    found = {}
    for name, learner in (
        ("printed", cede.ucrl2_mc(task, scale=0.2)),
        ("sampled", cede.posterior_sampling(task, seed=2)),
        ("flat", cede.ucrl2(task)),
        ("recommended", cede.recommended(task)),
    ):
        found |= {f"{name} {key}": array for key, array in one(mdp, learner, 60).items()}
        found[f"{name} costs"] = learner.counts.costs.toarray()
    return found


@golden
def person_by_prev_agent():
    mdp = small_world(5, varies="prev_agent")
    return several(mdp, 80, printed=lambda task: cede.ucrl2_mc(task, scale=0.2), sampled=sampling, flat=cede.ucrl2)


@golden
def person_by_time():
    mdp = small_world(6, varies="time")
    return several(mdp, 80, bernstein=lambda task: cede.ucrl2_mc(task, belief="bernstein", scale=0.3), sampled=sampling)


@golden
def environment_by_period():
    mdp = small_world(7, periods=[0, 0, 1, 1, 1, 2, 2])
    return several(mdp, 80, printed=lambda task: cede.ucrl2_mc(task, scale=0.2), sampled=sampling, flat=cede.ucrl2)


@golden
def fleet_with_learned_costs():
    mdps = [small_world(8, terminal=[4]) for _ in range(5)]
    tasks = [mdp.task.with_unknown_costs((0.0, 2.0)) for mdp in mdps]
    fleet = cede.Fleet([cede.ucrl2_mc(task, scale=0.2, seed=i) for i, task in enumerate(tasks)])
    history = cede.simulate_fleet(mdps, fleet, 40, seed=3, jobs=2, sync_every=3, progress=False)
    newcomer = fleet.welcome(tasks[0])
    return arrays_of(history) | plan_of(newcomer) | {"costs": newcomer.counts.costs.toarray()}


@golden
def fleet_without_horizon():
    mdps = [small_world(9, horizon=None, discount=0.9) for _ in range(3)]
    fleet = cede.Fleet([cede.ucrl2_mc(mdp.task, scale=0.1, seed=i, replan=20) for i, mdp in enumerate(mdps)])
    history = cede.simulate_fleet(mdps, fleet, steps=200, seed=3, jobs=1, progress=False)
    return arrays_of(history) | {"environment": fleet.environment.toarray()}


def all_runs(names=()):
    return {f"{name}/{key}": array for name in names or RUNS for key, array in RUNS[name]().items()}


if __name__ == "__main__":
    before = dict(np.load(FILE)) if sys.argv[1:] else {}
    found = before | all_runs(sys.argv[1:])
    np.savez_compressed(FILE, **found)
    print(f"{len(RUNS)} runs, {len(found)} arrays, {FILE.stat().st_size:,} bytes; {platform.processor()}", file=sys.stderr)
