"""Costs that are learned: sums that add exactly, intervals that hold, draws from the right posterior, and what is said of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import cede
from cede._kernels.random_streams import stream_at
from cede.beliefs.costs import BERNSTEIN_INTERVALS, NO_INTERVALS, interval_of_mean, sample_mean
from cede.rows.stored import Counts
from cede.rows.working import count
from problems import random_mdp

RIVER = cede.worlds.riverswim(agents=[0.3, 0.7])


def noisy(mdp, n=10, seed=0):
    """The same problem with random costs, of the same means."""
    rng = np.random.default_rng(seed)
    spread = rng.normal(size=(*mdp.environment.cost.shape, n))
    spread -= spread.mean(axis=2, keepdims=True)
    return replace(mdp, environment=replace(mdp.environment, cost=mdp.environment.cost[..., None] + spread, random_cost=None))


def unknown(mdp, **more):
    costs = mdp.environment.cost if mdp.environment.random_cost is None else mdp.environment.random_cost
    return replace(mdp.task.with_unknown_costs((float(costs.min()), float(costs.max()))), **more)


@pytest.mark.parametrize("seed", range(5))
def test_sums_are_exact_and_add_in_any_order(seed):
    mdp = noisy(random_mdp(seed, n_states=3, n_actions=2, kinds=[None]), seed=seed)
    task, rng = unknown(mdp), np.random.default_rng(seed)
    episodes = [cede.rollout(mdp, mdp.task.always(int(rng.integers(mdp.task.n_agents))), rng) for _ in range(40)]
    whole = count(task, episodes)
    rng.shuffle(episodes)
    apart = count(task, episodes[:17]) + count(task, episodes[17:])
    assert (whole.costs != apart.costs).nnz == 0
    costs = np.concatenate([one.env_costs for one in episodes])
    places = np.concatenate([one.states[:-1] * 2 + one.actions for one in episodes])
    least, most = task.cost_range
    n, coarse, rest, squares = whole.costs.toarray().T
    for place in range(6):
        seen = (costs[places == place] - least) / (most - least)
        assert n[place] == len(seen)
        assert coarse[place] + rest[place] == pytest.approx(seen.sum(), abs=1e-12)
        assert squares[place] == pytest.approx((seen**2).sum(), abs=1e-7)


def test_the_interval_is_bernsteins():
    values = np.random.default_rng(0).beta(2, 5, size=50)
    n, total, squares, constant = 50.0, values.sum(), (values**2).sum(), 3.0
    x = constant + np.log(n) + np.log(n + 1)
    half = np.sqrt(2 * values.var() * x / n) + 3 * x / n
    low, high, mean = interval_of_mean(BERNSTEIN_INTERVALS, n, total, squares, constant, 1.0)
    assert (low, high, mean) == pytest.approx((max(0, values.mean() - half), min(1, values.mean() + half), values.mean()))
    narrow = interval_of_mean(BERNSTEIN_INTERVALS, n, total, squares, constant, 0.1)
    assert narrow[1] - narrow[0] == pytest.approx(0.2 * half, rel=1e-9)
    assert interval_of_mean(BERNSTEIN_INTERVALS, 0.0, 0.0, 0.0, constant, 1.0) == (0.0, 1.0, 0.5)
    assert interval_of_mean(NO_INTERVALS, 0.0, 0.0, 0.0, constant, 1.0) == (0.5, 0.5, 0.5)


def test_draws_are_from_the_posterior_where_it_is_known():
    """Of costs that are 0 or 1 the posterior is a Beta distribution; of others its first two moments are those of the process."""
    drawn = [sample_mean(20.0, 7.0, 7.0, 1.0, np.uint64(stream_at(3, i))) for i in range(4000)]
    assert stats.kstest(drawn, stats.beta(7.5, 13.5).cdf).pvalue > 1e-3
    values = np.array([0.4, 0.5, 0.6, 0.5])
    rng = np.random.default_rng(0)
    atoms = np.concatenate([values, [0.0, 1.0]])
    process = rng.dirichlet([1, 1, 1, 1, 0.5, 0.5], size=200_000) @ atoms
    drawn = [sample_mean(4.0, values.sum(), (values**2).sum(), 1.0, np.uint64(stream_at(4, i))) for i in range(20_000)]
    assert np.mean(drawn) == pytest.approx(process.mean(), abs=0.005)
    assert np.std(drawn) == pytest.approx(process.std(), rel=0.03)


@pytest.mark.parametrize("scale", [1.0, 0.2])
def test_coverage(scale):
    """All intervals of a run hold at all times, in nearly all runs; far narrower ones do not."""
    failed = 0
    for seed in range(30):
        mdp = noisy(random_mdp(seed, n_states=3, n_actions=2, n_agents=2, horizon=4, kinds=[None]), n=4, seed=seed)
        learner = cede.ucrl2_mc(unknown(mdp), delta=0.3, scale=scale)
        held = True
        for _ in range(12):
            cede.simulate(mdp, learner, 5, seed=seed, progress=False)
            belief = learner.costs
            held = held and bool(((belief.low <= mdp.environment.cost) & (mdp.environment.cost <= belief.high)).all())
        failed += not held
    assert failed <= 30 * 0.1 if scale == 1.0 else failed > 0


def test_learners_find_the_costs_and_the_policy():
    mdp = noisy(RIVER, n=5)
    for make in (cede.posterior_sampling, cede.greedy):
        learner = make(unknown(mdp), structure=mdp.structure)
        history = cede.simulate(mdp, learner, 3000, progress=False)
        assert history.expected_cost[-1] == pytest.approx(history.optimum, rel=0.02)
        seen = learner.counts.costs.toarray()[:, 0].reshape(6, 2) > 200
        np.testing.assert_allclose(cede.greedy(unknown(mdp)).costs.mean, np.mean(unknown(mdp).cost_range))
        if make is cede.greedy:
            np.testing.assert_allclose(learner.costs.mean[seen], mdp.environment.cost[seen], atol=0.35)


def test_known_and_unknown_costs_together():
    cost = RIVER.task.env_cost.copy()
    cost[2:] = np.nan
    learner = cede.ucrl2_mc(replace(RIVER.task, env_cost=cost, cost_range=(0, 1)))
    cede.simulate(RIVER, learner, 50, progress=False)
    assert learner.counts.costs.shape == (8, 4)
    belief = learner.costs
    np.testing.assert_array_equal(belief.low[:2], RIVER.task.env_cost[:2])
    assert (belief.low[2:] <= belief.mean[2:]).all()


def test_costs_that_are_alike_are_learned_together():
    told = cede.Structure.by(range(6), range(2), costs=lambda state, action: "end" if state in (0, 5) else "middle")
    learner = cede.greedy(unknown(RIVER), structure=told)
    cede.simulate(RIVER, learner, 20, progress=False)
    assert learner.counts.costs.shape == (2, 4)
    assert "costs have 2 cases" in learner.about["structure"]
    assert learner.counts.costs.toarray()[:, 0].sum() == 20 * 20


def test_a_fleet_shares_what_it_learns_of_costs():
    mdps = [noisy(one) for one in cede.worlds.riverswim_teams(3)]
    mdps = [replace(one, environment=mdps[0].environment) for one in mdps]
    fleet = cede.Fleet([cede.ucrl2_mc(unknown(one), seed=i) for i, one in enumerate(mdps)])
    histories = [cede.simulate_fleet(mdps, fleet, 4, jobs=1, progress=False)]
    assert fleet.cost_sums.toarray()[:, 0].sum() == 3 * 4 * 20
    again = cede.Fleet([cede.ucrl2_mc(unknown(one), seed=i) for i, one in enumerate(mdps)])
    histories.append(cede.simulate_fleet(mdps, again, 4, engine="processes", jobs=2, progress=False))
    np.testing.assert_array_equal(histories[0].cost, histories[1].cost)
    assert (fleet.cost_sums != again.cost_sums).nnz == 0
    newcomer = fleet.welcome(unknown(mdps[0]))
    np.testing.assert_array_equal(newcomer.costs.low, fleet.learners[0].costs.low)
    one = fleet.remove(0)
    assert (one.counts.costs != again.cost_sums).nnz == 0
    other = cede.Fleet([cede.ucrl2_mc(unknown(mdps[0]))])
    with pytest.raises(ValueError, match="cost_range of the learner"):
        other.add(cede.ucrl2_mc(replace(unknown(mdps[0]), cost_range=(-100, 100))))


@pytest.mark.parametrize("rule", [cede.HalfLife(3.0), cede.Window(2)])
def test_costs_are_forgotten(rule):
    learner = cede.greedy(unknown(RIVER), forget_environment=rule)
    for cost in (1.0, 1.0, 0.0, 0.0, 0.0, 0.0):
        for t in range(20):
            learner.observe(t, 0, 0 if t == 0 else 1, 1, 1, 0, cost=cost)
        learner.end_episode()
    n, coarse, rest, _ = learner.counts.costs.toarray()[1]
    if isinstance(rule, cede.Window):
        assert (n, coarse + rest) == (2 * 20, 0.0)
    else:
        weights = 2.0 ** (-np.arange(6, 0, -1) / 3)
        assert n == pytest.approx(20 * weights.sum())
        assert coarse + rest == pytest.approx(20 * weights[:2].sum())


@pytest.mark.parametrize("told", [{}, {"forget_environment": cede.Window(3)}, {"planning": "greedy"}, {"at_most": {"p=0.7": 0.5}}])
def test_by_hand_by_log_and_in_a_run_it_is_the_same(told, tmp_path):
    mdp = noisy(RIVER, n=3)
    task = unknown(mdp)
    run, hand = (cede.ucrl2_mc(task, scale=0.1, **told) for _ in range(2))
    episodes = []
    for seed in range(6):
        episode = cede.rollout(mdp, hand.plan, seed)
        if told.get("planning") == "greedy":
            for t, state in enumerate(episode.states[:-1]):
                hand.choose(t, int(state), 0)
        episodes.append(episode)
        agent = int(task.start_agent)
        for t in range(len(episode.actions)):
            prev, agent = agent, int(episode.agents[t])
            step = (int(episode.states[t]), prev, agent, int(episode.actions[t]), int(episode.states[t + 1]))
            hand.observe(t, *step, cost=float(episode.env_costs[t]))
            if seed == 3 and t == 7:
                hand.save(tmp_path / "half.cede")
                hand = cede.load(tmp_path / "half.cede")
        hand.end_episode()
    if told.get("planning") != "greedy" and "at_most" not in told:
        run.learn_from(episodes)
        assert (run.counts.costs != hand.counts.costs).nnz == 0
        np.testing.assert_array_equal(run.plan.policy, hand.plan.policy)
        np.testing.assert_array_equal(run.plan.value, hand.plan.value)
    assert np.isfinite(hand.plan.value).all()


def test_bounds_and_baselines_account_for_it():
    mdp = noisy(random_mdp(1, n_states=3, n_actions=2, n_agents=2, horizon=4, kinds=[None]), n=4)
    shifted = replace(mdp, environment=replace(mdp.environment, cost=mdp.environment.random_cost + 20, random_cost=None))
    task = unknown(shifted)
    learner = cede.ucrl2_mc(task, baseline=0, alpha=0.2)
    cede.simulate(shifted, learner, 300, progress=False)
    found = cede.insight.bounds(learner, shifted.task.always(1))
    low, high = found.of_episode(shifted.environment.start, shifted.task.start_agent)
    assert low <= cede.expected_cost(shifted, shifted.task.always(1)) <= high
    told = cede.insight.bounds(cede.ucrl2_mc(shifted.task), shifted.task.always(1)).of_episode(shifted.environment.start)
    assert low < told[0] + 1e-9 or high > told[1] - 1e-9


def test_costs_of_arriving_are_learned():
    enter = np.array([0.0, np.nan, 2.0])
    task = cede.Task(np.zeros((3, 1)), ["a"], 3, enter_cost=enter, enter_cost_range=(0.0, 4.0))
    learner = cede.ucrl2_mc(task, scale=0.01)
    learner.observe(0, 0, 0, 0, 0, 1, enter_cost=3.0)
    learner.observe(1, 1, 0, 0, 0, 2)
    with pytest.raises(
        ValueError, match=r"observe: enter_cost is missing, must be given: the task does not say what enter_cost\[1\] is"
    ):
        learner.observe(2, 2, 0, 0, 0, 1)
    with pytest.raises(ValueError, match=r"observe: enter_cost is 5\.0, must be from 0 to 4, the enter_cost_range"):
        learner.observe(2, 2, 0, 0, 0, 1, enter_cost=5.0)
    learner.observe(2, 2, 0, 0, 0, 0)
    learner.end_episode()
    assert learner.costs.enter_mean[1] == pytest.approx(3.0)
    assert learner.costs.enter_low[1] < 3.0 < learner.costs.enter_high[1]
    assert learner.costs.enter_mean[2] == 2.0


def test_what_is_wrong_is_refused_and_nothing_is_counted():
    learner = cede.ucrl2_mc(unknown(RIVER))
    for costs, message in (
        ({}, r"observe: cost is missing, must be given: the task does not say what env_cost\[0, 1\] is"),
        ({"cost": 2.0}, "observe: cost is 2.0, must be from 0 to 1, the cost_range of the task"),
        ({"cost": float("nan")}, "observe: cost is nan, must be a finite number"),
        ({"cost": "x"}, "observe: cost is 'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.observe(0, 0, 0, 1, 1, 1, **costs)
    assert learner.observed == 0
    log = {"state": [0], "agent": [1], "action": [1], "next_state": [1], "t": [0]}
    with pytest.raises(ValueError, match=r"learn_from: cost\[0\] is missing"):
        learner.learn_from(log)
    with pytest.raises(ValueError, match=r"cost\[0\] is 9.0, must be from 0 to 1"):
        learner.learn_from({**log, "cost": [9.0]})
    assert learner.learn_from({**log, "cost": [0.5]}) == 1
    with pytest.raises(ValueError, match="Task: cost_range is missing"):
        cede.Task(n_states=2, n_actions=1, agents=["a"], horizon=3)
    with pytest.raises(ValueError, match=r"Task: cost_range is \(1, 0\), must be in order"):
        cede.Task(n_states=2, n_actions=1, agents=["a"], horizon=3, cost_range=(1, 0))
    with pytest.raises(ValueError, match="Task: n_states is missing"):
        cede.Task(n_actions=1, agents=["a"], horizon=3, cost_range=(0, 1))
    none = Counts.zeros(unknown(RIVER))
    with pytest.raises(ValueError, match="Counts: costs"):
        Counts.of(unknown(RIVER), none.agents, none.environment, 0, costs=np.array([[1.0, 2.0, 0.0, 0.0]]) * np.ones((12, 1)))
    high = replace(RIVER, environment=replace(RIVER.environment, cost=RIVER.environment.cost + 5))
    with pytest.raises(ValueError, match="env_cost of mdp, where the learner does not know it, is from 5"):
        cede.simulate(high, learner, 1)
