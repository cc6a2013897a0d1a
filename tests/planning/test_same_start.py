"""Previous agents from whom every hand-over costs the same: what follows is the same, unless an agent acts by who was before it."""

import numpy as np
import pytest

import cede
from problems import random_rows
from reference import least_mean_evi, plan_slow


@pytest.mark.parametrize("kinds", [["prev_agent"] * 3, [None, "prev_agent", None], [None] * 3, ["time", "prev_agent", "time"]])
@pytest.mark.parametrize("switch", ["none", "two alike"])
def test_plans_are_exact_where_hand_overs_cost_the_same(kinds, switch):
    rng = np.random.default_rng(3)
    n_states, n_actions, horizon, n_agents = 4, 3, 3, 3
    slots = [{None: 1, "time": horizon, "prev_agent": n_agents}[kind] for kind in kinds]
    policies = [random_rows(rng, (n, n_states, n_actions)) for n in slots]
    costs = np.zeros((3, 3)) if switch == "none" else np.array([[0.0, 0.0, 0.7], [0.0, 0.0, 0.7], [0.2, 0.3, 0.0]])
    transition, cost, control = (
        random_rows(rng, (n_states, n_actions, n_states)),
        rng.normal(size=(n_states, n_actions)),
        rng.random(3),
    )
    agents = [
        cede.Agent(f"agent {d}", policy if kind else policy[0], control[d], kind)
        for d, (policy, kind) in enumerate(zip(policies, kinds, strict=True))
    ]
    mdp = cede.TwoLayerMDP(cede.Environment(transition, cost, np.eye(n_states)[0]), cede.Team(agents, costs), horizon)
    nothing = [np.zeros(policy.shape[:-1]) for policy in policies]
    value, q = plan_slow(
        policies, nothing, transition, np.zeros((n_states, n_actions)), cost, control, costs, horizon, kinds, least_mean_evi
    )
    found = cede.solve(mdp)
    np.testing.assert_allclose(found.value, value, atol=1e-12)
    chosen = np.take_along_axis(q, found.policy[..., None].astype(int), axis=-1)[..., 0]
    np.testing.assert_allclose(chosen, q.min(axis=-1), atol=1e-12)
