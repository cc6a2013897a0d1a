"""Shares of control: the mixture against the linear programme over occupancy measures, and against simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cede
from cede.planning.control_shares import shares_of
from problems import random_mdp
from reference import occupancy_lp


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_the_cost_is_that_of_the_linear_programme(seed):
    mdp = random_mdp(seed, n_agents=int(np.random.default_rng(seed).integers(2, 4)))
    rng = np.random.default_rng(seed)
    n, names = mdp.task.n_agents, mdp.task.agents
    middle = rng.dirichlet(np.ones(n))
    least, most = np.maximum(0, middle - rng.random(n) * 0.3), np.minimum(1, middle + rng.random(n) * 0.3)
    if seed % 3 == 0:
        least[0] = most[0] = middle[0]
    found = cede.solve(mdp, at_most=dict(zip(names, most, strict=True)), at_least=dict(zip(names, least, strict=True)))
    assert found.cost == pytest.approx(occupancy_lp(mdp, least, most), abs=1e-6)
    assert (found.shares >= least - 1e-6).all()
    assert (found.shares <= most + 1e-6).all()
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.cost == pytest.approx(
        sum(w * cede.expected_cost(mdp, p) for w, p in zip(found.weights, found.policies, strict=True)), abs=1e-9
    )


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.77, 1.0])
def test_lane_driving_meets_the_limit(share):
    mdp = cede.worlds.lane_driving(switch_cost=0.1)
    found = cede.solve(mdp, at_most={"human": share}, at_least={"human": share})
    assert found.shares[1] == pytest.approx(share, abs=1e-6)
    assert len(found.policies) <= 2
    assert found.cost >= cede.expected_cost(mdp, cede.solve(mdp).policy) - 1e-9


def test_a_limit_that_does_not_bind_changes_nothing():
    mdp = cede.worlds.lane_driving(switch_cost=0.1)
    best = cede.solve(mdp).policy
    share = shares_of(mdp, best)[1]
    found = cede.solve(mdp, at_most={"human": float(share) + 0.1})
    assert found.cost == pytest.approx(cede.expected_cost(mdp, best), abs=1e-8)
    np.testing.assert_allclose(found.prices, 0.0, atol=1e-9)


def test_the_drawn_policies_meet_it_in_expectation():
    mdp = cede.worlds.riverswim([0.2, 0.9])
    found = cede.solve(mdp, at_most={"p=0.9": 0.4})
    rng, steps = np.random.default_rng(0), np.zeros(2)
    for _ in range(4000):
        episode = cede.rollout(mdp, found.draw(rng), rng)
        steps += np.bincount(episode.agents, minlength=2)
    assert steps[1] / steps.sum() == pytest.approx(0.4, abs=0.02)


def test_shares_add_up():
    mdp = random_mdp(4, n_agents=3)
    policy = np.random.default_rng(0).integers(3, size=(mdp.horizon, mdp.task.n_states, 3)).astype(np.int16)
    shares = shares_of(mdp, policy)
    assert shares.sum() == pytest.approx(1.0)
    steps = np.zeros(3)
    rng = np.random.default_rng(1)
    for _ in range(4000):
        steps += np.bincount(cede.rollout(mdp, policy, rng).agents, minlength=3)
    np.testing.assert_allclose(steps / steps.sum(), shares, atol=0.03)


def test_bad_limits():
    mdp = cede.worlds.lane_driving()
    for text, limits in {
        "solve: at_most is 0.3, must be shares by the agents' names": {"at_most": 0.3},
        r"solve: at_most\['human'\] is 1.2, must be a share, at most 1": {"at_most": {"human": 1.2}},
        r"solve: at_least\['human'\] is -0.1, must be a finite number of at least 0": {"at_least": {"human": -0.1}},
        "solve: an agent of at_most is 'eve', must be one of": {"at_most": {"eve": 0.2}},
        r"solve: at_least\['human'\] is 0.5, must be at most 0.2, its at_most": {
            "at_most": {"human": 0.2},
            "at_least": {"human": 0.5},
        },
        "the sum of at_least is 1.3, must be at most 1": {"at_least": {"human": 0.6, "machine": 0.7}},
        "the sum of at_most over all agents is 0.5, must be at least 1": {"at_most": {"human": 0.3, "machine": 0.2}},
    }.items():
        with pytest.raises(ValueError, match=text):
            cede.solve(mdp, **limits)
    with pytest.raises(ValueError, match="solve: mdp is 3, must be a TwoLayerMDP"):
        cede.solve(3, at_most={"human": 0.3})
