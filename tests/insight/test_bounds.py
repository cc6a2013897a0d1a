"""Intervals for the cost of any policy: both ends against linear programming, and coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cede
from problems import play, random_mdp
from reference import follow_slow, least_mean_lp


def random_policy(task, rng):
    return rng.integers(task.n_agents, size=(task.horizon, task.n_states, task.n_agents))


def most_mean_lp(centre, width, values):
    return -least_mean_lp(centre, width, -values)


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.05, 0.3, 1.0]))
@settings(max_examples=15, deadline=None)
def test_both_ends_are_exact(seed, scale):
    mdp = random_mdp(seed)
    task, rng = mdp.task, np.random.default_rng(seed)
    learner = cede.ucrl2_mc(task, scale=scale)
    learner.learn_from(play(mdp, 8, seed))
    policy = random_policy(task, rng)
    found = cede.insight.bounds(learner, policy)
    agents, environment = learner.beliefs

    def dense(belief):
        total = belief.centre.total[:, None]
        rows = belief.centre.matrix().toarray()
        return np.where(total > 0, rows / np.maximum(total, 1), 1 / rows.shape[1])[belief.row], belief.width[belief.row]

    (centre_a, width_a), (centre_e, width_e) = dense(agents), dense(environment)
    parts = [slice(task.layout.slot[d], task.layout.slot[d] + task.layout.n_slots[d]) for d in range(task.n_agents)]
    tables = ([centre_a[part] for part in parts], [width_a[part] for part in parts], centre_e, width_e)
    costs = (task.env_cost, task.control_cost, task.switch_cost, policy, task.varies_with)
    np.testing.assert_allclose(found.low, follow_slow(*tables, *costs, least_mean_lp), atol=1e-8)
    np.testing.assert_allclose(found.high, follow_slow(*tables, *costs, most_mean_lp), atol=1e-8)
    assert found.guaranteed == (scale == 1.0)


@pytest.mark.parametrize("belief", ["printed", "bernstein"])
@pytest.mark.parametrize("structured", [False, True])
def test_the_truth_is_between(belief, structured):
    """Of many policies, from logs alone, with every kind of sets."""
    mdp = cede.worlds.riverswim([0.2, 0.9], switch_cost=0.1)
    rng, widths = np.random.default_rng(0), []
    learner = cede.ucrl2_mc(mdp.task, belief=belief, structure=mdp.structure if structured else None)
    for _ in range(4):
        learner.learn_from([cede.rollout(mdp, random_policy(mdp.task, rng), rng) for _ in range(150)])
        for _ in range(5):
            policy = random_policy(mdp.task, rng)
            found, truth = cede.insight.bounds(learner, policy), cede.evaluate(mdp, policy)
            assert found.guaranteed
            assert (found.low <= truth + 1e-9).all()
            assert (truth <= found.high + 1e-9).all()
        low, high = found.of_episode(mdp.environment.start, mdp.start_agent)
        widths.append(high - low)
    assert widths[-1] < widths[0]


def test_the_plan_itself():
    mdp = cede.worlds.riverswim([0.2, 0.9])
    learner = cede.ucrl2_mc(mdp.task, structure=mdp.structure)
    cede.simulate(mdp, learner, 500, progress=False)
    own, same = cede.insight.bounds(learner), cede.insight.bounds(learner, learner.plan)
    np.testing.assert_array_equal(own.low, same.low)
    np.testing.assert_allclose(own.low, learner.plan.value, atol=1e-12)  # what the plan hopes for
    low, high = own.of_episode(mdp.environment.start)
    assert low < cede.expected_cost(mdp, learner.plan.policy) < high


def test_with_everything_known_there_is_no_doubt():
    mdp = cede.worlds.lane_driving(switch_cost=0.1)
    known = {agent.name: agent.policy for agent in mdp.team.agents}
    learner = cede.ucrl2_mc(mdp.task, known_agents=known, known_environment=mdp.environment)
    policy = random_policy(mdp.task, np.random.default_rng(0))
    found = cede.insight.bounds(learner, policy)
    np.testing.assert_allclose(found.low, found.high, atol=1e-12)
    np.testing.assert_allclose(found.low, cede.evaluate(mdp, policy), atol=1e-12)


def test_what_is_not_guaranteed_says_so():
    task = cede.worlds.riverswim().task
    assert not cede.insight.bounds(cede.ucrl2_mc(task, forget=cede.HalfLife(5))).guaranteed
    assert not cede.insight.bounds(cede.ucrl2_mc(task, scale=cede.Scale.authors(100))).guaranteed
    assert cede.insight.bounds(cede.ucrl2_mc(task, delta=0.03)).delta == 0.03


def test_bad_input():
    task = cede.worlds.riverswim().task
    for text, make in {
        "bounds: learner is 3, must be a Learner": lambda: cede.insight.bounds(3),
        "bounds: learner is greedy, without confidence sets, must be one with": lambda: cede.insight.bounds(cede.greedy(task)),
        r"bounds: learner is ucrl2 \(appendix\), with one table": lambda: cede.insight.bounds(cede.ucrl2(task)),
        "bounds: the shape of policy": lambda: cede.insight.bounds(cede.ucrl2_mc(task), np.zeros((2, 2), dtype=int)),
        r"Bounds.of_episode: start sums to 2": lambda: cede.insight.bounds(cede.ucrl2_mc(task)).of_episode([1, 1, 0, 0, 0, 0]),
    }.items():
        with pytest.raises(ValueError, match=text):
            make()
