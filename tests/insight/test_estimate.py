"""Estimates of what policies cost: draws against plain NumPy, sets against bounds, coverage, and what is said beside them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import cede
from cede.insight.draws import costs_of_draws
from problems import play, random_rows, random_structured


def random_policy(task, rng):
    return rng.integers(task.n_agents, size=task.policy_shape)


def small(seed, horizon=4):
    """A random problem without zeros, so that everything is seen soon."""
    rng = np.random.default_rng(seed)
    environment = cede.Environment(random_rows(rng, (3, 2, 3), sparse=0.0), rng.random((3, 2)), random_rows(rng, (1, 3))[0])
    agents = [cede.Agent(f"agent {d}", random_rows(rng, (3, 2), sparse=0.0), 0.1 * d) for d in range(2)]
    return cede.TwoLayerMDP(environment, cede.Team(agents, 0.05), horizon)


def value_in_numpy(task, agents, environment, policy, sign=0.0):
    """Backward induction with loops. agents, environment: rows p, by agent (S, A) and (S, A, S), and the part of each that is free.

    What is free is on the best outcome if sign is 1, on the worst if it is -1, and as p if it is 0.
    """

    def mean(p, w, values):
        return p @ values if sign == 0.0 else (1 - w) * (p @ values) + w * sign * min(sign * values)

    value = np.zeros((task.n_states, task.n_agents))
    for t in reversed(range(task.horizon)):
        now = np.zeros_like(value)
        for s, prev in np.ndindex(now.shape):
            d = policy[t, s, prev]
            (table, free), (own, own_free) = environment, agents
            after = [task.env_cost[s, a] + mean(table[s, a], free[s, a], value[:, d]) for a in range(task.n_actions)]
            now[s, prev] = task.control_cost[d] + task.switch_cost[prev, d] + mean(own[d, s], own_free[d, s], np.array(after))
        value = now
    return value


def drawn_in_numpy(rng, counts, prior):
    """Draw rows by what was seen, and which part of each may be anything."""
    rows = counts.reshape(-1, counts.shape[-1])
    drawn = [rng.dirichlet(row + 1e-9) for row in rows]
    free = [rng.beta(prior, row.sum()) if row.sum() else 1.0 for row in rows]
    return np.array(drawn).reshape(counts.shape), np.array(free).reshape(counts.shape[:-1])


@pytest.mark.parametrize("episodes", [3, 60])
def test_draws_against_numpy(episodes):
    """Mean and quantiles of draws of our own, evaluated with loops, the free part of each row on its best and worst outcome."""
    mdp = small(1)
    learner = cede.greedy(mdp.task)
    learner.learn_from(play(mdp, episodes, 1), progress=False)
    rng, task = np.random.default_rng(5), mdp.task
    policy = random_policy(task, rng)
    agents = learner.counts.agents.toarray().reshape(2, 3, 2).astype(float)
    environment = learner.counts.environment.toarray().reshape(3, 2, 3).astype(float)
    slow = []
    for _ in range(800):
        tables = drawn_in_numpy(rng, agents, 2.0), drawn_in_numpy(rng, environment, 2.0)
        values = [value_in_numpy(task, *tables, policy, sign) for sign in (0.0, 1.0, -1.0)]
        slow.append([mdp.environment.start @ value[:, task.start_agent] for value in values])
    found = cede.estimate(learner, policy, start=mdp.environment.start, prior=2.0, draws=800, level=0.8)
    mean, low, high = np.array(slow).T
    assert found.mean == pytest.approx(np.mean(mean), abs=5 * np.std(mean) / np.sqrt(800) * np.sqrt(2))
    np.testing.assert_allclose(found.low, np.quantile(low, 0.1), atol=0.2 * np.std(low))
    np.testing.assert_allclose(found.high, np.quantile(high, 0.9), atol=0.2 * np.std(high))
    assert (found.kind, found.level, found.draws, found.prior) == ("posterior draws", 0.8, 800, 2.0)


def test_differences_are_paired():
    """The interval of a difference is that of differences under the same draws, much narrower than both intervals together."""
    mdp = small(2)
    learner = cede.posterior_sampling(mdp.task)
    learner.learn_from(play(mdp, 200, 1), progress=False)
    rng = np.random.default_rng(0)
    one = random_policy(mdp.task, rng)
    two = one.copy()
    two[-1, 0, 0] = 1 - two[-1, 0, 0]
    start = mdp.environment.start
    costs = costs_of_draws(learner, [one.astype(np.int16), two.astype(np.int16)], 1.0, 50, 0).mean @ start  # all was seen often
    found = cede.estimate(learner, one, against=two, start=start, draws=50)
    assert found.mean == pytest.approx((costs[:, 0] - costs[:, 1]).mean())
    np.testing.assert_allclose([found.low, found.high], np.quantile(costs[:, 0] - costs[:, 1], [0.05, 0.95]))
    alone = cede.estimate(learner, one, start=start, draws=50)
    assert found.high - found.low < 0.5 * (alone.high - alone.low)


@pytest.mark.parametrize("known_start", [True, False])
def test_coverage_of_draws(known_start):
    """Over many runs, the 90% interval holds the true cost in about 90% of them, where data are plenty."""
    runs, hits, differences = 40, 0, 0
    for seed in range(runs):
        mdp = small(seed)
        log, rng = play(mdp, 150, seed + 1000), np.random.default_rng(seed)
        policy = random_policy(mdp.task, rng)
        start = mdp.environment.start if known_start else None
        found = cede.estimate(mdp.task, policy, log=log, start=start, draws=60, seed=seed)
        truth = cede.expected_cost(mdp, policy)
        hits += found.low <= truth <= found.high
        if known_start:
            less = cede.estimate(mdp.task, policy, against="agent 1", log=log, start=start, draws=60, seed=seed)
            differences += less.low <= truth - cede.expected_cost(mdp, mdp.task.always("agent 1")) <= less.high
    assert hits >= binom.ppf(0.005, runs, 0.9)
    if known_start:
        assert differences >= binom.ppf(0.005, runs, 0.9)


@pytest.mark.parametrize(("episodes", "runs"), [(300, 12), (3000, 5)])
def test_coverage_of_savings(episodes, runs):
    """What a plan saves against members who were hardly seen where it does not use them: the interval must hold the truth."""
    mdp, hits, saved = cede.worlds.support_desk(), 0, []
    for seed in range(runs):
        learner = cede.recommended(mdp.task)
        cede.simulate(mdp, learner, episodes, seed=seed, progress=False)
        found = cede.estimate(learner, "plan", against="person", draws=60)
        truth = cede.expected_cost(mdp, learner.plan) - cede.expected_cost(mdp, mdp.task.always("person"))
        hits += found.low <= truth <= found.high
        saved.append(truth - found.mean)
        assert found.warnings[0].startswith("the mean rests on guesses: in ")
        assert f"); {found.warnings[0]}" in repr(found)
    assert hits >= runs - 1
    assert np.mean(saved) < 0.2  # a prior that is spread evenly favours the plan by 0.3 and 0.25


def test_a_policy_against_itself():
    desk = cede.worlds.support_desk()
    learner = cede.recommended(desk.task, baseline="person")
    cede.simulate(desk, learner, 5, progress=False)
    for one, other in (("baseline", "person"), ("plan", "baseline"), (desk.task.always(1), 1)):
        found = cede.estimate(learner, one, against=other, draws=5)
        assert (found.mean, found.low, found.high) == (0.0, 0.0, 0.0)
        assert "are the same policy" in found.warnings[0]
        assert f"costs as much per episode as {found.against}" in repr(found)
    sets = cede.ucrl2_mc(desk.task)
    assert cede.estimate(sets, "person", against="person").high == 0.0


def test_the_plan_of_a_learner_that_keeps_to_its_baseline():
    desk = cede.worlds.support_desk()
    learner = cede.recommended(desk.task, baseline="person")
    cede.simulate(desk, learner, 20, progress=False)
    plan, base, own = (cede.estimate(learner, policy, draws=20) for policy in ("plan", "baseline", "own plan"))
    assert (plan.mean, plan.low, plan.high) == (base.mean, base.low, base.high)
    assert any(text.startswith("the plan is the baseline (person)") for text in plan.warnings)
    assert not any("the plan is" in text for text in base.warnings + own.warnings)
    assert own.mean == cede.estimate(learner, learner.own_plan, draws=20).mean
    assert learner.warnings[0].startswith("it has kept to its baseline (person) in all 20 episodes so far: without start= its sets")
    told = cede.recommended(desk.task, baseline="person", start=desk.environment.start)
    cede.simulate(desk, told, 20, progress=False)
    assert told.warnings[0] == "it has kept to its baseline (person) in all 20 episodes so far"


def test_coverage_of_sets():
    for seed in range(15):
        mdp = small(seed)
        learner = cede.ucrl2_mc(mdp.task, belief="kl")
        learner.learn_from(play(mdp, 100, seed), progress=False)
        policy = random_policy(mdp.task, np.random.default_rng(seed))
        found = cede.estimate(learner, policy, start=mdp.environment.start)
        assert found.kind == "confidence sets"
        assert found.level == pytest.approx(0.9)
        assert found.low <= cede.expected_cost(mdp, policy) <= found.high
        assert (found.low, found.high) == pytest.approx(cede.insight.bounds(learner, policy).of_episode(mdp.environment.start))
        less = cede.estimate(learner, policy, against="agent 0", start=mdp.environment.start)
        assert less.low <= cede.expected_cost(mdp, policy) - cede.expected_cost(mdp, mdp.task.always(0)) <= less.high


def test_the_mean_model_against_rollouts():
    """With sets the mean is the cost if frequencies are right: that of a problem made of them, exactly and by Monte Carlo."""
    mdp = small(3)
    learner = cede.ucrl2_mc(mdp.task)
    learner.learn_from(play(mdp, 50, 0), progress=False)
    counts, policy = learner.counts, random_policy(mdp.task, np.random.default_rng(1))
    tables = [counts.agents.toarray().reshape(2, 3, 2), counts.environment.toarray().reshape(3, 2, 3)]
    acts, table = (one / one.sum(axis=-1, keepdims=True) for one in tables)
    agents = [replace(agent, policy=own) for agent, own in zip(mdp.team.agents, acts, strict=True)]
    imagined = replace(mdp, environment=replace(mdp.environment, transition=table), team=replace(mdp.team, agents=agents))
    found = cede.estimate(learner, policy, start=mdp.environment.start)
    assert found.mean == pytest.approx(cede.expected_cost(imagined, policy))
    rng = np.random.default_rng(2)
    costs = [cede.rollout(imagined, policy, rng).cost for _ in range(4000)]
    assert found.mean == pytest.approx(np.mean(costs), abs=5 * np.std(costs) / np.sqrt(4000))


LEARNERS = {
    "recommended": lambda m: cede.recommended(m.task),
    "structured": lambda m: cede.recommended(m.task, structure=m.structure),
    "known": lambda m: cede.recommended(m.task, known_agents={"agent 0": m.team.agents[0].policy}),
    "known environment": lambda m: cede.ucrl2_mc(m.task, known_environment=m.environment),
    "forgetting": lambda m: cede.ucrl2_mc(m.task, forget=cede.HalfLife(20), forget_environment=cede.Window(30)),
    "limits": lambda m: cede.posterior_sampling(m.task, at_most={"agent 0": 0.5}),
    "ucrl2": lambda m: cede.ucrl2(m.task),
    "greedy planning": lambda m: cede.ucrl2_mc(m.task, planning="greedy", scale=0.2),
    "fixed": lambda m: cede.fixed(m.task, 0),
}


@pytest.mark.parametrize("way", LEARNERS)
def test_every_learner(way):
    mdp = random_structured(11)
    learner = LEARNERS[way](mdp)
    before = cede.estimate(learner, draws=20)
    assert before.warnings
    cede.simulate(mdp, learner, 60, seed=1, progress=False)
    plan = learner.plan.policy.copy()
    found = cede.estimate(learner, draws=20)
    assert found.low <= found.mean <= found.high
    assert found.high - found.low <= before.high - before.low
    assert repr(found).startswith("<Estimate: plan costs ")
    assert cede.estimate(learner, draws=20) == found  # the same seed, the same bits
    np.testing.assert_array_equal(learner.plan.policy, plan)


def test_what_is_known_is_not_in_doubt():
    mdp = small(4)
    known = {agent.name: agent.policy for agent in mdp.team.agents}
    learner = cede.greedy(mdp.task, known_agents=known, known_environment=mdp.environment)
    found = cede.estimate(learner, "agent 1")
    truth = cede.expected_cost(mdp, mdp.task.always("agent 1"))
    np.testing.assert_allclose([found.mean, found.low, found.high], truth)
    assert (found.starts, found.warnings) == ("as in the known environment", ())


def test_ucrl2_learns_costs_of_agents():
    """One table for all: its draws hold the truth, costs and all."""
    mdp = small(5)
    learner = cede.ucrl2(mdp.task)
    learner.learn_from(play(mdp, 3000, 0), progress=False)
    found = cede.estimate(learner, "agent 1", start=mdp.environment.start)
    truth = cede.expected_cost(mdp, mdp.task.always("agent 1"))
    assert abs(found.mean - truth) < 0.05
    assert found.low - 0.03 < truth < found.high + 0.03
    assert found.high - found.low < 0.2


def test_learned_costs_add_to_the_doubt():
    mdp = small(6)
    log = play(mdp, 40, 0)
    told, start = mdp.task.with_unknown_costs((0.0, 1.0)), mdp.environment.start
    sure, unsure = (cede.estimate(task, 1, log=log, start=start) for task in (mdp.task, told))
    assert unsure.high - unsure.low > sure.high - sure.low
    truth = cede.expected_cost(mdp, mdp.task.always(1))
    assert unsure.low <= truth <= unsure.high
    arrives = cede.Task([[1.0], [0.0]], ["a"], 3, enter_cost=[0.0, np.nan], enter_cost_range=(0, 10))
    nothing = cede.estimate(cede.greedy(arrives), start=[1.0, 0.0], draws=20)
    assert (nothing.low, nothing.high) == (1.0, 31.0)  # once there nothing costs anything, or to arrive costs 10, three times


def test_what_was_never_seen_may_be_anything():
    """An agent that was never in control: the interval holds all that it could cost, and the result says so."""
    mdp = small(7)
    learner = cede.fixed(mdp.task, 0)
    cede.simulate(mdp, learner, 500, progress=False)
    seen, unseen = (cede.estimate(learner, d, start=mdp.environment.start) for d in (0, 1))
    assert unseen.high - unseen.low > 5 * (seen.high - seen.low)
    assert unseen.low <= cede.expected_cost(mdp, mdp.task.always(1)) <= unseen.high
    assert seen.warnings == ()
    assert unseen.warnings[0] == "agent 1 was not in control once in 500 episodes: how it acts is not known"
    assert "in 100% of the steps of agent 1 alone" in unseen.warnings[1]
    assert repr(unseen).endswith("how it acts is not known; 1 more warning>")


def test_many_rows_that_are_not_known_do_not_look_like_knowledge():
    """Draws of many unseen rows average out; the interval must not."""
    rng = np.random.default_rng(0)
    n = 200
    environment = cede.Environment(np.full((n, 2, n), 1 / n), np.stack([np.zeros(n), np.ones(n)], axis=1), np.full(n, 1 / n))
    team = cede.Team([cede.Agent("careful", np.tile([1.0, 0.0], (n, 1))), cede.Agent("other", np.tile([0.5, 0.5], (n, 1)))])
    mdp = cede.TwoLayerMDP(environment, team, 10)
    log = [cede.rollout(mdp, mdp.task.always("other"), rng) for _ in range(3)]
    found = cede.estimate(mdp.task, "careful", log=log, draws=50)
    assert found.low <= 0.0 <= found.high


def test_endless():
    mdp = replace(small(8), horizon=None, discount=0.8)
    learner = cede.posterior_sampling(mdp.task)
    cede.simulate(mdp, learner, steps=4000, progress=False)
    found = cede.estimate(learner, 0, start=mdp.environment.start)
    assert found.low <= cede.expected_cost(mdp, mdp.task.always(0)) <= found.high
    assert found.per == "run, discounted"
    average = replace(mdp, discount=None)
    for learner in (cede.posterior_sampling(average.task), cede.ucrl2_mc(average.task)):
        cede.simulate(average, learner, steps=4000, progress=False)
        found = cede.estimate(learner)
        truth = cede.evaluate(average, learner.plan)[0, 0]
        assert found.low - 0.01 <= truth <= found.high + 0.01
        assert repr(found).startswith("<Estimate: plan costs 0.")
        assert "per step in the long run" in repr(found)


def test_ends_count_the_starts_exactly():
    mdp = cede.worlds.support_desk()
    learner = cede.recommended(mdp.task)
    cede.simulate(mdp, learner, 400, seed=3, progress=False)
    log = [cede.rollout(mdp, learner.plan, seed) for seed in range(300)]
    first = np.bincount([one.states[0] for one in log], minlength=mdp.task.n_states) / 300
    reader = cede.greedy(mdp.task)
    reader.learn_from([one for one in log if one.states[-1] in mdp.task.terminal], progress=False)
    assert cede.insight.summarise(reader).starts == f"as counted in {reader.episode - 1} episodes"
    given, counted = cede.estimate(mdp.task, "person", log=log, start=first), cede.estimate(mdp.task, "person", log=log)
    assert counted.starts == "as in 300 logged episodes"
    assert counted.mean == pytest.approx(given.mean, abs=0.05)
    found = cede.estimate(learner)
    assert found.low <= cede.expected_cost(mdp, learner.plan) <= found.high
    assert found.starts == "as counted in 400 episodes"


def test_mixtures_baselines_and_names():
    mdp = small(9)
    learner = cede.ucrl2_mc(mdp.task, baseline="agent 0", start=mdp.environment.start)
    learner.learn_from(play(mdp, 100, 0), progress=False)
    mixture = cede.solve(mdp, at_most={"agent 0": 0.5})
    parts = [cede.estimate(learner, policy, draws=30, interval="draws").mean for policy in mixture.policies]
    whole = cede.estimate(learner, mixture, draws=30, interval="draws")
    assert whole.mean == pytest.approx(mixture.weights @ parts)
    base, alone = cede.estimate(learner, "baseline"), cede.estimate(learner, 0)
    assert (base.mean, base.starts) == (alone.mean, "as the learner was told")
    assert (base.policy, alone.policy) == ("baseline", "agent 0 alone")
    odd = cede.Task([[0.0], [1.0]], ["plan", "[b]x"], 3)
    assert cede.estimate(cede.greedy(odd), "plan", draws=5).policy == "plan alone"  # an agent's name goes first
    assert "[b]x alone" in repr(cede.estimate(cede.greedy(odd), "[b]x", draws=5))


def test_in_a_fleet():
    mdps = cede.worlds.riverswim_teams(2, seed=1)
    fleet = cede.Fleet([cede.posterior_sampling(m.task, seed=i) for i, m in enumerate(mdps)])
    cede.simulate_fleet(mdps, fleet, 200, progress=False)
    found = cede.estimate(fleet.learners[0], start=mdps[0].environment.start)
    assert found.low <= cede.expected_cost(mdps[0], fleet.learners[0].plan) <= found.high
    assert fleet.environment.sum() == 2 * 200 * 20


def test_bad_input():
    task = small(0).task
    learner, sets = cede.greedy(task), cede.ucrl2_mc(task)
    for text, make in {
        "estimate: learner is 3, must be a Learner or a Task": lambda: cede.estimate(3),
        "estimate: log is missing, must be given with a Task": lambda: cede.estimate(task),
        "estimate: log is given, must be left out with a learner": lambda: cede.estimate(learner, log={}),
        "estimate: policy is 'eve', must be 'plan', 'own plan', 'baseline', an array": lambda: cede.estimate(learner, "eve"),
        "estimate: against is 7, must be": lambda: cede.estimate(learner, against=7),
        "estimate: the shape of policy is": lambda: cede.estimate(learner, np.zeros((2, 2), dtype=int)),
        "estimate: policy is 'baseline', must be one that there is: greedy has": lambda: cede.estimate(learner, "baseline"),
        "estimate: interval is 'sets', must be 'draws' with greedy": lambda: cede.estimate(learner, interval="sets"),
        "estimate: interval is 'best', must be": lambda: cede.estimate(learner, interval="best"),
        "estimate: level is 0.9, must be left out with sets": lambda: cede.estimate(sets, level=0.9),
        "estimate: level is 1": lambda: cede.estimate(learner, level=1.0),
        "estimate: prior is 0": lambda: cede.estimate(learner, prior=0),
        "estimate: draws is 1, must be": lambda: cede.estimate(learner, draws=1),
        "estimate: start sums to 2": lambda: cede.estimate(learner, start=[1, 1, 0]),
        "estimate: seed is -1": lambda: cede.estimate(learner, seed=-1),
    }.items():
        with pytest.raises(ValueError, match=text):
            make()
