"""Never worse than today: the promise is checked exactly, and what proves it has slow twins."""

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cede
from cede.learners.proof import RECORD, deviation


def recorded(learner):
    """What a learner has recorded of its baseline, by name."""
    return learner.state.record.view(RECORD)[0]


def swim(**costs):
    return cede.worlds.riverswim(agents=[0.3, 0.7], **costs)


def ratio(mdp, history, baseline):
    """The total expected cost of all policies so far, as a part of the baseline's."""
    cost = cede.expected_cost(mdp, mdp.task.always(mdp.task.agents.index(baseline)))
    return np.cumsum(history.expected_cost) / (cost * np.arange(1, len(history.expected_cost) + 1))


@pytest.mark.parametrize("baseline", ["p=0.3", "p=0.7"])
@pytest.mark.parametrize("alpha", [0.02, 0.2])
def test_no_violation_over_many_seeds(baseline, alpha):
    mdp = swim(switch_cost=0.1)
    explored = 0
    for seed in range(20):
        learner = cede.ucrl2_mc(mdp.task, baseline=baseline, alpha=alpha, seed=seed)
        history = cede.simulate(mdp, learner, 1500, seed=seed)
        assert ratio(mdp, history, baseline).max() <= 1 + alpha
        explored += recorded(learner)["explored"]
    assert explored > 20 * 500  # and it does learn


def test_no_violation_where_the_plan_is_much_worse():
    """A team in which every optimistic plan goes wrong at first: without caution the promise would be broken."""
    rng = np.random.default_rng(0)
    n = 8
    cost = np.ones((n, 2))
    cost[:, 1] = 0.05  # the second action is cheap, but
    transition = np.zeros((n, 2, n))
    transition[:, :, :] = rng.dirichlet(np.ones(n), size=(n, 2))
    environment = cede.Environment(transition, cost, np.ones(n) / n)
    good = cede.Agent("careful", np.tile([0.05, 0.95], (n, 1)))
    bad = [cede.Agent(f"novice {i}", np.tile([0.95, 0.05], (n, 1))) for i in range(3)]
    mdp = cede.TwoLayerMDP(environment, cede.Team([good, *bad]), 10)
    free = cede.simulate(mdp, cede.ucrl2_mc(mdp.task), 300)
    assert ratio(mdp, free, "careful").max() > 3
    for seed in range(10):
        learner = cede.ucrl2_mc(mdp.task, baseline="careful", alpha=0.5, seed=seed)
        history = cede.simulate(mdp, learner, 1500, seed=seed)
        assert ratio(mdp, history, "careful").max() <= 1.5
        assert recorded(learner)["explored"] > 0


def test_what_is_known_needs_no_proof_by_trial():
    """Bounds from the sets: a plan that is known to be better is played from the first episode on, also with alpha = 0."""
    mdp = swim()
    known = {agent.name: agent.policy for agent in mdp.team.agents}
    told = {"known_agents": known, "known_environment": mdp.environment, "start": mdp.environment.start}
    learner = cede.ucrl2_mc(mdp.task, baseline="p=0.3", alpha=0, **told)
    assert cede.simulate(mdp, learner, 5).regret[-1] == pytest.approx(0, abs=1e-9)
    unsure = cede.ucrl2_mc(mdp.task, baseline="p=0.3", alpha=0)
    np.testing.assert_array_equal(unsure.plan.policy, mdp.task.always(0))
    assert np.isnan(unsure.plan.value).all()


def test_a_log_may_prove_it():
    """What was seen under another controller narrows the sets; its costs are not counted as the learner's own."""
    mdp = swim()
    told = {"known_agents": {agent.name: agent.policy for agent in mdp.team.agents}, "start": mdp.environment.start}
    learner = cede.ucrl2_mc(mdp.task, baseline="p=0.3", alpha=0.3, belief="bernstein", **told)
    np.testing.assert_array_equal(learner.plan.policy, mdp.task.always(0))
    rng = np.random.default_rng(0)
    learner.learn_from([cede.rollout(mdp, mdp.task.always(i % 2), rng) for i in range(1000)])
    assert learner.state.record[:6].tolist() == [0] * 6
    assert not np.isnan(learner.plan.value).any()


def decided_slowly(record, policy_worst, baseline_least, most, alpha, delta):
    """The condition, as words say it."""

    def off(squares):
        found = []
        for j in range(40):
            x = 2.0 ** -(j + 1)
            found.append(most * (log((j + 1) * (j + 2) / (delta / 2)) + (-log(1 - x) - x) * squares / most**2) / x)
        return min(found)

    e, e_cost, e_squares, b, b_cost, b_squares = record[:6]
    least = max(record[6], (b_cost - off(b_squares)) / b if b else 0, baseline_least)
    spent = min(record[9], e_cost + off(e_squares))
    assert record[9] <= e * most + 1e-9
    return spent + min(most, policy_worst) <= (e + 1 + alpha * (e + b + 1)) * least


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_decisions_slowly(seed):
    """At any moment of a run the decision is that of the words, with bounds from `cede.insight.bounds`."""
    rng = np.random.default_rng(seed)
    mdp, alpha = swim(switch_cost=0.1), float(rng.choice([0.01, 0.05, 0.1]))
    start = mdp.environment.start if rng.random() < 0.5 else None
    known = {agent.name: agent.policy for agent in mdp.team.agents}
    told = {"known_agents": known, "known_environment": mdp.environment} if rng.random() < 0.3 else {}
    told |= {"at_most": {"p=0.3": 0.2}} if rng.random() < 0.5 else {}  # prices must not enter the proofs
    learner = cede.ucrl2_mc(mdp.task, baseline="p=0.7", alpha=alpha, start=start, scale=float(rng.choice([0.01, 1.0])), **told)
    cede.simulate(mdp, learner, int(rng.integers(1, 120)), seed=seed)
    record = learner.state.record.copy()
    own = learner.own_plan.policy
    bounds = [cede.insight.bounds(learner, policy) for policy in (own, mdp.task.always(1))]
    worst, least = bounds[0].high[0, :, 0], bounds[1].low[0, :, 0]
    worst, least = (worst.max(), least.min()) if start is None else (start @ worst, start @ least)
    most = mdp.horizon * (mdp.task.env_cost.max() + 0.1)
    expected = decided_slowly(record, worst, least, most, alpha, 0.1)
    assert np.array_equal(learner.plan.policy, own if expected else mdp.task.always(1))


@pytest.mark.parametrize("spread", [0.05, 0.5, 1.0])
def test_sums_stay_within_the_deviation(spread):
    """Whenever one looks: 400 runs of 3,000 numbers whose means change, both sides, delta = 0.1."""
    rng = np.random.default_rng(1)
    failed = {1: 0, -1: 0}
    for _ in range(400):
        mean = 0.3 + 0.2 * np.sin(np.arange(3000) / 100)
        x = (1 - spread) * mean + spread * (rng.random(3000) < mean)
        noise = np.cumsum(x - mean)
        guess = np.concatenate([[0.0], np.cumsum(x)[:-1] / np.arange(1, 3000)])
        squares = np.cumsum((x - guess) ** 2)
        off = np.array([deviation(s, 1.0, 0.1) for s in squares[::50]])
        for side in failed:
            failed[side] += bool((side * noise[::50] > off).any())
    assert max(failed.values()) <= 0.1 * 400 * 1.5
    assert off[-1] < 3000 * 0.2  # and says something


def test_by_hand_and_from_a_file_as_simulated(tmp_path):
    mdp = swim()
    simulated, by_hand = (cede.ucrl2_mc(mdp.task, baseline="p=0.3", alpha=0.1, seed=2) for _ in range(2))
    rng = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(0,)))
    for k in range(150):
        by_hand.observe_episode(cede.rollout(mdp, by_hand.plan, rng))
        by_hand.end_episode()
        if k in (20, 120):
            by_hand.save(tmp_path / "careful.cede")
            by_hand = cede.load(tmp_path / "careful.cede")
    cede.simulate(mdp, simulated, 150, seed=5)
    np.testing.assert_array_equal(by_hand.state.record, simulated.state.record)
    assert recorded(by_hand)["explored"] > 10
    assert recorded(by_hand)["kept"] > 10
    np.testing.assert_array_equal(by_hand.plan.policy, simulated.plan.policy)
    assert by_hand.about["baseline"] == "p=0.3, alpha 0.1"


def test_an_episode_in_which_others_decided():
    """It must not depend on how an episode went among which it counts: as one that kept to the baseline for nothing, and as the
    dearest that can be beside it."""
    mdp = swim()
    learner = cede.ucrl2_mc(mdp.task, baseline="p=0.3")
    assert learner.choose(0, 0, 0) == 0
    learner.observe_episode(cede.rollout(mdp, mdp.task.always(1), 0))
    learner.end_episode()
    record, most = learner.state.record, mdp.horizon * mdp.task.env_cost.max()
    assert record[[0, 1, 3, 4, 9]].tolist() == [0, most, 1, 0, most]
    learner.observe_episode(episode := cede.rollout(mdp, mdp.task.always(1), 1))  # nobody asked
    learner.end_episode()
    assert learner.state.record[[0, 3, 9]].tolist() == [1, 1, 2 * most]
    assert learner.state.record[1] == pytest.approx(most + episode.cost)


def test_overruling_proves_nothing():
    """Who keeps to the baseline only where that is cheap must not make it look dear: the proof of what it costs stays a bound."""
    environment = cede.Environment([[[1.0, 0.0]] * 2, [[0.0, 1.0]] * 2], [0.5, 1.5], [0.5, 0.5])
    agents = [cede.Agent(name, np.ones((2, 2)) / 2) for name in ("today", "other")]
    mdp = cede.TwoLayerMDP(environment, cede.Team(agents), 1)
    learner, rng = cede.ucrl2_mc(mdp.task, baseline="today"), np.random.default_rng(0)
    for _ in range(400):
        episode = cede.rollout(mdp, learner.plan, rng)
        if episode.states[0] == 0:
            episode = cede.rollout(mdp, mdp.task.always(1), rng)
        learner.observe_episode(episode)
        learner.end_episode()
    assert recorded(learner)["proven"] <= 1.0


def test_a_plan_on_anothers_proof_is_not_played():
    """What was decided holds for the plan that it was decided for: not after another one was made, or others' knowledge came."""
    mdp = swim()
    learner = cede.ucrl2_mc(mdp.task, baseline=0, alpha=5.0)
    cede.simulate(mdp, learner, 20)
    learner.plan  # noqa: B018 (to decide)
    assert recorded(learner)["decided"] > 0
    cede.Fleet([learner])
    assert recorded(learner)["decided"] == 0
    learner.plan  # noqa: B018
    learner.replan()
    assert recorded(learner)["decided"] == 0


def test_the_baseline_cannot_be_changed():
    learner = cede.ucrl2_mc(swim().task, baseline=0, alpha=0.0)
    with pytest.raises(ValueError, match="read-only"):
        learner.plan.policy[:] = 7


def test_taking_control_where_it_cannot_be_handed(tmp_path):
    """A human who grabs the wheel at once, in a team in which that takes time; the learner can be kept all the same."""
    task = cede.Task(np.ones((3, 2)), ["machine", "human"], 3, takeover_delay={"human": 1})
    learner = cede.ucrl2_mc(task, baseline="machine")
    learner.choose(0, 0, 0)
    for t, (state, prev, to) in enumerate([(0, 0, 1), (1, 1, 2), (2, 1, 0)]):
        learner.observe(t, state, prev, 1, 0, to)
    learner.end_episode()
    assert np.isfinite(learner.state.record).all()
    learner.save(tmp_path / "grabbed.cede")
    np.testing.assert_array_equal(cede.load(tmp_path / "grabbed.cede").state.record, learner.state.record)


def test_in_a_fleet_with_plans_that_are_kept():
    mdps = [swim(switch_cost=cost) for cost in (0.0, 0.2)]
    mdps = [cede.TwoLayerMDP(mdps[0].environment, mdp.team, mdp.horizon, mdp.start_agent) for mdp in mdps]

    def run(jobs):
        fleet = cede.Fleet([cede.ucrl2_mc(m.task, baseline="p=0.3", replan=3, seed=i) for i, m in enumerate(mdps)])
        return cede.simulate_fleet(mdps, fleet, 200, jobs=jobs), fleet

    (one, fleet), (other, _) = run(1), run(2)
    np.testing.assert_array_equal(one.expected_cost, other.expected_cost)
    for i, mdp in enumerate(mdps):
        cost = cede.expected_cost(mdp, mdp.task.always(0))
        assert (np.cumsum(one.expected_cost[i]) <= 1.1 * cost * np.arange(1, 201)).all()
        assert recorded(fleet.learners[i])["explored"] > 0
    assert fleet.welcome(mdps[0].task).settings.baseline is None


def test_explained():
    mdp = swim()
    learner = cede.ucrl2_mc(mdp.task, baseline="p=0.3")
    assert "keeps to the baseline (p=0.3)" in cede.explain(learner, 0, 0, 0).text


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"baseline": "nobody"}, "ucrl2_mc: baseline is 'nobody', must be one of 'p=0.3', 'p=0.7'"),
        ({"baseline": np.zeros((2, 2))}, "ucrl2_mc: the type of baseline is float64, must be an integer type"),
        ({"baseline": 0, "alpha": -0.1}, "ucrl2_mc: alpha is -0.1, must be a finite number of at least 0"),
        ({"baseline": 0, "start": [1.0]}, r"ucrl2_mc: the shape of start is \(1,\), must be \(S,\)"),
        ({"start": np.ones(6) / 6}, "ucrl2_mc: start is given, must be left out without a baseline"),
        ({"baseline": 0, "planning": "greedy"}, "ucrl2_mc: planning is 'greedy', must be 'full' with a baseline"),
        ({"baseline": 0, "start": np.ones(6) / 6}, "simulate: the start that the learner was told is another, must be that of mdp"),
        ({"baseline": 0, "forget": cede.HalfLife(10)}, "ucrl2_mc: forget is given, must be left out with a baseline"),
    ],
)
def test_bad_baselines(told, message):
    with pytest.raises(ValueError, match=message):
        cede.simulate(swim(), cede.ucrl2_mc(swim().task, **told), 1)


def test_costs_below_zero():
    mdp = swim()
    task = cede.Task(mdp.task.env_cost - 1, mdp.task.agents, mdp.horizon)
    with pytest.raises(ValueError, match=r"the least that a step can cost is -.*, must be at least 0 with a baseline"):
        cede.ucrl2_mc(task, baseline=0)


# ------------------------------------------------------------------------------------------------- a baseline and limits


def danger(price, horizon=10):
    """Every tenth state is a danger, in which the machine costs 10, and elsewhere 1; the person costs the price alone."""
    environment = cede.Environment(np.broadcast_to([0.9, 0.1], (2, 2, 2)), [[0.0, 1.0], [0.0, 10.0]], [0.9, 0.1])
    agents = [cede.Agent("machine", [[0.0, 1.0]] * 2), cede.Agent("person", [[1.0, 0.0]] * 2, control_cost=price)]
    return cede.TwoLayerMDP(environment, cede.Team(agents), horizon)


def both_promises(mdp, learner, episodes, seed):
    """Run a learner; return its history, and the person's share of all steps of the last half."""
    history = cede.simulate(mdp, learner, episodes, seed=seed, progress=False)
    late = history.control[episodes // 2 :]
    return history, late[:, 1].sum() / late.sum()


def test_with_both_promises_the_baseline_comes_first():
    """Of all that keeps within the limit, the best costs far more than the baseline and alpha allow: no learner could keep both."""
    mdp = danger(0.0)
    assert cede.solve(mdp, at_most={"person": 0.3}).cost > 1.1 * cede.expected_cost(mdp, mdp.task.always("person")) + 1.0
    learner = cede.ucrl2_mc(mdp.task, baseline="person", at_most={"person": 0.3}, belief="kl", start=mdp.environment.start)
    history, share = both_promises(mdp, learner, 600, 0)
    assert share == 1.0
    assert history.expected_cost.max() == 0.0  # the price of the limit is not a cost
    assert learner.prices["person"] > 1.0
    assert learner.state.record.view(RECORD)[0]["kept"] == 600


@pytest.mark.parametrize("make", [cede.ucrl2_mc, cede.recommended])
def test_both_promises_are_kept_where_they_can_be(make):
    """The machine is today's rule, and the person may have 5% of the steps: in danger, where the machine costs 10, is 10%."""
    mdp = danger(0.5)
    known = {agent.name: agent.policy for agent in mdp.team.agents}
    told = {"known_agents": known, "start": mdp.environment.start, "baseline": "machine", "alpha": 0.05}
    for seed in range(4):
        free, without = both_promises(mdp, make(mdp.task, **told, seed=seed), 1500, seed)
        history, share = both_promises(mdp, make(mdp.task, **told, at_most={"person": 0.05}, seed=seed), 1500, seed)
        assert ratio(mdp, free, "machine").max() <= 1.05
        assert ratio(mdp, history, "machine").max() <= 1.05
        assert without > 0.5
        assert 0.02 < share < 0.065
        assert cede.expected_cost(mdp, mdp.task.always("machine")) > history.expected_cost[750:].mean()


def test_both_promises_of_teams_of_a_fleet_are_kept_apart():
    """Kernels point their bundles at each team in turn; neither prices nor costs of one team may enter the proofs of another."""
    mdps = [danger(0.2), danger(0.5), danger(1.0)]
    told = {"belief": "kl", "baseline": "machine", "at_most": {"person": 0.3}, "alpha": 0.2}
    known = {agent.name: agent.policy for agent in mdps[0].team.agents}
    settings = {**told, "known_agents": known, "known_environment": mdps[0].environment}  # nothing is shared

    def learner(mdp):
        return cede.ucrl2_mc(mdp.task, **settings, start=mdp.environment.start)

    fleet = cede.Fleet([learner(mdp) for mdp in mdps])
    together = cede.simulate_fleet(mdps, fleet, 60, seed=3, progress=False)
    for i, mdp in enumerate(mdps):
        one, stream = learner(mdp), np.random.default_rng(np.random.SeedSequence(3, spawn_key=(i,)))
        alone = cede.simulate(mdp, one, 60, seed=stream, progress=False)
        np.testing.assert_array_equal(alone.expected_cost, together.expected_cost[i])
        assert fleet.learners[i].prices == one.prices
        total = np.cumsum(together.expected_cost[i]) / np.arange(1, 61)
        assert (total <= 1.2 * cede.expected_cost(mdp, mdp.task.always("machine"))).all()
    assert (together.control[:, :, 1].sum(axis=1) > 0).all()


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_price_and_a_baseline_limit_a_share_from_the_first_episode_on(share):
    """docs/guarantees.md: with c = (1 + alpha) V / (share L), expected shares of all episodes so far are at most `share`. The exact
    share of each policy is what an episode of it costs if only the person's steps cost something."""
    alpha, horizon = 0.1, 10
    price = (1 + alpha) * cede.expected_cost(danger(0.0), danger(0.0).task.always("machine")) / (share * horizon)
    mdp = danger(price)
    known = {agent.name: agent.policy for agent in mdp.team.agents}
    told = {"baseline": "machine", "alpha": alpha, "belief": "kl", "start": mdp.environment.start, "known_agents": known}
    learner, rng, shares = cede.ucrl2_mc(mdp.task, **told), np.random.default_rng(1), []
    counting = cede.TwoLayerMDP(
        cede.Environment(mdp.environment.transition, [0.0, 0.0], mdp.environment.start),
        cede.Team([cede.Agent("machine", known["machine"]), cede.Agent("person", known["person"], control_cost=1 / horizon)]),
        horizon,
    )
    for _ in range(400):
        plan = learner.plan
        shares.append(cede.expected_cost(counting, plan))
        learner.observe_episode(cede.rollout(mdp, plan, rng))
        learner.end_episode()
    average = np.cumsum(shares) / np.arange(1, 401)
    assert (average <= share).all()
    assert max(shares) > 0.05  # it did deviate
    free = cede.ucrl2_mc(danger(0.5).task, **told)  # a price that is too low: then the person is worth it everywhere
    history = cede.simulate(danger(0.5), free, 3000, seed=0, progress=False)
    assert history.control[-500:, 1].mean() / horizon > share
