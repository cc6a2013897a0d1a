"""The least and the most that a step can cost, by loops over every step that can be."""

import numpy as np
import pytest

import cede
from problems import random_mdp


def tasks():
    """Costs of actions, of agents by state, of hand-overs (some impossible), of arriving, unknown or known; ends."""
    rng = np.random.default_rng(5)
    for seed in range(4):
        plain = random_mdp(seed, n_states=4, n_actions=3, n_agents=3, horizon=3, kinds=[None]).task
        switch = rng.random((3, 3)) * (1 - np.eye(3)) * 4
        switch[0, 2] = np.inf
        told = {"agents": plain.agents, "env_cost": plain.env_cost, "horizon": 3, "switch_cost": switch}
        yield cede.Task(**told, control_cost=rng.normal(size=(4, 3)))
        cost = np.array(plain.env_cost)
        cost[2] = -8.0
        ends = {"enter_cost": rng.normal(size=4) * 5, "terminal": [2]}
        yield cede.Task(**{**told, "env_cost": cost}, control_cost=rng.normal(size=3), **ends)
        yield cede.Task(**told, enter_cost=[0.5, np.nan, -0.25, 0.0], enter_cost_range=(-3.0, 7.0))
        yield plain.with_unknown_costs((-4.0, 9.0))
        unknown = {"control_cost_range": (0.5, 3.0), "switch_cost_range": (-1.0, 2.0)}
        yield cede.Task(
            **{**told, "switch_cost": np.where(switch > 2.0, np.nan, switch)}, control_cost=[np.nan, 4.0, 0.0], **unknown
        )


@pytest.mark.parametrize("task", list(tasks()))
def test_ends_of_step_costs(task):
    """Of steps in states where an episode goes on; a step after the end counts as one in the state where it ended."""
    low = np.where(np.isnan(task.env_cost), task.cost_range[0] if task.cost_range else 0.0, task.env_cost)
    high = np.where(np.isnan(task.env_cost), task.cost_range[1] if task.cost_range else 0.0, task.env_cost)
    enter = np.zeros(4) if task.enter_cost is None else np.asarray(task.enter_cost, dtype=float)
    ends = task.enter_cost_range or (0.0, 0.0)
    enter_low, enter_high = np.where(np.isnan(enter), ends[0], enter), np.where(np.isnan(enter), ends[1], enter)
    control, switch = np.broadcast_to(task.control_cost, (4, 3)), np.broadcast_to(task.switch_cost, (4, 3, 3))
    ranges = (task.control_cost_range or (0.0, 0.0)), (task.switch_cost_range or (0.0, 0.0))
    least, most = np.inf, -np.inf
    for s in range(4):
        if s in task.terminal:
            least, most = min(least, low[s, 0]), max(most, high[s, 0])
            continue
        for prev, d in np.ndindex(3, 3):
            holding = [end if np.isnan(control[s, d]) else control[s, d] for end in ranges[0]]
            handing = [end if np.isnan(switch[s, prev, d]) else switch[s, prev, d] for end in ranges[1]]
            if handing[0] < np.inf:
                least = min(least, low[s].min() + holding[0] + handing[0] + enter_low.min())
                most = max(most, high[s].max() + holding[1] + handing[1] + enter_high.max())
    assert task.ends_of_step_cost == pytest.approx((least, most), rel=1e-12)


def test_a_learner_that_never_left_its_baseline_says_so():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, baseline=0)
    assert learner.state.never_left(learner.settings.baseline) == ()
    cede.simulate(mdp, learner, 3, seed=0, progress=False)
    (said,) = learner.state.never_left(learner.settings.baseline)
    assert "in all 3 episodes so far" in said
    assert learner.state.never_left(None) == ()
