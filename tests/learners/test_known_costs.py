"""A measured cost that contradicts the task is refused wherever it comes in: it would be lost without a word."""

import numpy as np
import pytest

import cede

COSTS = {"env_cost": [[0.0, 0.1], [1.0, np.nan]], "enter_cost": [0.0, 0.5], "cost_range": (0, 9)}
TASK = cede.Task(**COSTS, agents=["a", "b"], horizon=2)
ENDLESS = cede.Task(**COSTS, agents=["a", "b"], horizon=None, discount=0.9)
WRONG = r"is 7.5, must be 0, as env_cost\[0, 0\] of the task says, or left out; .* declared unknown: NaN there and a cost_range"


def test_observe(tmp_path):
    learner = cede.ucrl2_mc(TASK)
    with learner.record_to(tmp_path / "a.jsonl"):
        with pytest.raises(ValueError, match=rf"observe: cost {WRONG}"):
            learner.observe(0, 0, 0, 0, 0, 1, cost=7.5)
        with pytest.raises(ValueError, match=r"observe: enter_cost is 0.0, must be 0.5, as enter_cost\[1\] .* an enter_cost_range"):
            learner.observe(0, 0, 0, 0, 0, 1, cost=0.0, enter_cost=0.0)
        assert learner.observed == 0
        learner.observe(0, 0, 0, 0, 1, 1, cost=float(np.float32(0.1)), enter_cost=0.5)  # equal but for rounding
        learner.observe(1, 1, 0, 0, 1, 0, cost=7.5)  # the task does not say it
        learner.end_episode()
    assert cede.read_record(tmp_path / "a.jsonl").columns["cost"].tolist() == [0.1, 7.5]


def test_without_horizon():
    learner = cede.ucrl2_mc(ENDLESS)
    with pytest.raises(ValueError, match=rf"observe: cost {WRONG}"):
        learner.observe(0, 0, 0, 0, 1, cost=7.5)
    assert learner.steps == 0
    learner.observe(0, 0, 0, 0, 1, cost=0.0, enter_cost=0.5)


def test_logs():
    log = {"episode": [0, 0], "state": [1, 0], "agent": [0, 0], "action": [1, 0], "next_state": [0, 1], "cost": [2.0, 7.5]}
    learner = cede.ucrl2_mc(TASK)
    with pytest.raises(ValueError, match=rf"learn_from: cost\[1\] {WRONG}"):
        learner.learn_from(log)
    assert learner.learn_from({**log, "cost": [2.0, np.nan]}) == 1
    with pytest.raises(ValueError, match=r"learn_from: enter_cost\[0\] is 3.0, must be 0"):
        learner.learn_from({**log, "cost": [2.0, 0.0], "enter_cost": [3.0, 0.5]})


def test_rollouts_of_random_costs_are_taken():
    """A rollout has the costs that were drawn; a task that says their means stays with these."""
    desk = cede.worlds.support_desk()
    learner = cede.ucrl2_mc(desk.task)
    learner.observe_episode(cede.rollout(desk, desk.task.always(0), 0))
    learner.end_episode()
    assert learner.episode == 2


class Passing:
    """A learner of the protocol that hands on to one of cede, with its task."""

    def __init__(self, learner):
        self.inner, self.task = learner, learner.task
        self.choose, self.observe, self.end_episode = learner.choose, learner.observe, learner.end_episode


def test_random_costs_by_calls():
    """Where costs are random and the task says their means, a learner of the protocol sees the means; without them, the draws."""
    lake = cede.worlds.riverswim()
    draws = lake.environment.cost[..., None] + np.array([-0.1, 0.1])
    world = cede.TwoLayerMDP(cede.Environment(lake.environment.transition, draws, lake.environment.start), lake.team, lake.horizon)
    for task in (world.task, world.task.with_unknown_costs((-0.1, 1.1))):
        inner = cede.ucrl2_mc(task)
        cede.simulate(world, Passing(inner), 3, progress=False)
        assert inner.episode == 4
        assert (inner.counts.costs.sum() > 0) == (task is not world.task)
