"""The least and the most that a step can cost, by loops over every step that can be."""

import numpy as np
import pytest

import cede
from cede.learners.arrays import load_counts, new_arrays
from cede.learners.baseline import most_step_cost
from cede.learners.limits import ends_of_step_costs
from cede.learners.promises import least_step_cost
from cede.learners.state import Sizes
from problems import random_mdp


def arrays_of(learner):
    return new_arrays(sizes := Sizes(learner.task, learner.settings), load_counts(sizes, learner.state, None))


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


@pytest.mark.parametrize("task", list(tasks()))
def test_ends_of_step_costs(task):
    """Of steps in states where an episode goes on; a step after the end counts as one in the state where it ended."""
    low = np.where(np.isnan(task.env_cost), task.cost_range[0] if task.cost_range else 0.0, task.env_cost)
    high = np.where(np.isnan(task.env_cost), task.cost_range[1] if task.cost_range else 0.0, task.env_cost)
    enter = np.zeros(4) if task.enter_cost is None else np.asarray(task.enter_cost, dtype=float)
    ends = task.enter_cost_range or (0.0, 0.0)
    enter_low, enter_high = np.where(np.isnan(enter), ends[0], enter), np.where(np.isnan(enter), ends[1], enter)
    control = np.broadcast_to(task.control_cost, (4, 3))
    least, most = np.inf, -np.inf
    for s in range(4):
        if s in task.terminal:
            least, most = min(least, low[s, 0]), max(most, high[s, 0])
            continue
        for prev, d in np.ndindex(3, 3):
            more = control[s, d] + np.broadcast_to(task.switch_cost, (4, 3, 3))[s, prev, d]
            if np.isfinite(more):
                least = min(least, low[s].min() + more + enter_low.min())
                most = max(most, high[s].max() + more + enter_high.max())
    learner = cede.ucrl2_mc(task)
    arrays = arrays_of(learner)
    found = ends_of_step_costs(arrays, np.asarray(task.control_cost).reshape(-1, 3))
    assert found == pytest.approx((least, most), rel=1e-12)
    assert most_step_cost(arrays) == pytest.approx(most, rel=1e-12)
    assert least_step_cost(task) == pytest.approx(least, rel=1e-12)


def test_a_learner_that_never_left_its_baseline_says_so():
    mdp = cede.worlds.riverswim([0.3, 0.7])
    learner = cede.ucrl2_mc(mdp.task, baseline=0)
    assert learner.state.never_left(learner.settings.baseline) == ()
    cede.simulate(mdp, learner, 3, seed=0, progress=False)
    (said,) = learner.state.never_left(learner.settings.baseline)
    assert "in all 3 episodes so far" in said
    assert learner.state.never_left(None) == ()
