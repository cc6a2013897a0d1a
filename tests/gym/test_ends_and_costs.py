"""Gymnasium environments with ends of their own, costs that are learned from rewards, and no horizon."""

import numpy as np
import pytest

import cede

gymnasium = pytest.importorskip("gymnasium")


class Cliff(gymnasium.Env):
    """A short way to a goal at the right end; the novice falls off at the left one. A reward only at an end."""

    observation_space, action_space = gymnasium.spaces.Discrete(6), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 2
        return self.at, {}

    def step(self, action):
        self.at += 1 if action else -1
        over = self.at in (0, 5)
        return self.at, {0: -1.0, 5: 1.0}.get(self.at, 0.0), over, False, {}


WALKERS = {"novice": lambda state: 0, "expert": lambda state: 1}


def task(**more):
    return cede.gym.task_for(Cliff(), ["novice", "expert"], **{"horizon": 10, "control_cost": {"expert": 0.05}, **more})


def test_costs_are_learned_from_rewards():
    told = task()
    assert told.state_names[-1] == "over"
    assert told.terminal == (6,)
    learner = cede.posterior_sampling(told)
    history = cede.gym.run(Cliff(), WALKERS, learner, episodes=60, progress=False)
    np.testing.assert_allclose(history.cost, -history.returns + 0.05 * history.control[:, 1])
    assert history.returns[-20:].mean() > 0.7
    assert learner.counts.environment.sum() == history.lengths.sum()  # a step that ends an episode counts once, as in a log
    assert learner.costs.mean[1, 0] == pytest.approx(1.0, abs=0.01) or learner.counts.costs.toarray()[2, 0] == 0


def test_ends_that_the_states_tell_apart():
    """A goal and a trap are states of their own, with their own costs; nothing is added, and nothing charged afterwards."""
    told = task(cost=0.0, terminal=[0, 5], enter_cost={0: 1.0, 5: -1.0})
    assert told.n_states == 6
    novice = cede.gym.run(Cliff(), WALKERS, cede.fixed(told, "novice"), episodes=2, progress=False)
    expert = cede.gym.run(Cliff(), WALKERS, cede.fixed(told, "expert"), episodes=2, progress=False)
    assert novice.cost.tolist() == [1.0] * 2  # dying is not rewarded
    assert expert.cost.tolist() == pytest.approx([-1.0 + 3 * 0.05] * 2)
    learner = cede.posterior_sampling(told)
    history = cede.gym.run(Cliff(), WALKERS, learner, episodes=40, progress=False)
    assert history.returns[-10:].tolist() == [1.0] * 10
    with pytest.raises(ValueError, match=r"run: the state in which env terminated is 5, must be one in which an episode ends"):
        cede.gym.run(Cliff(), WALKERS, cede.fixed(task(cost=0.0, terminal=[0]), "expert"), episodes=1, progress=False)
    with pytest.raises(ValueError, match="run: the state in which env went on is 3, must be another one: it is terminal"):
        cede.gym.run(Cliff(), WALKERS, cede.fixed(task(cost=0.0, terminal=[0, 3, 5]), "expert"), episodes=1, progress=False)


def test_rewards_beyond_the_range_are_refused():
    learner = cede.greedy(task(cost_range=(-0.5, 0.5)))
    with pytest.raises(
        ValueError, match=r"run: the reward of env is -1\.0, must be from -0\.5 to 0\.5: give task_for a cost_range"
    ):
        cede.gym.run(Cliff(), WALKERS, learner, episodes=1, progress=False)
    assert learner.counts.environment.sum() == 0


@pytest.mark.parametrize("more", [{"discount": 0.9}, {}], ids=["discount", "average"])
def test_without_a_horizon(more):
    told = task(horizon=None, **more)
    assert told.n_states == (7 if more else 6)
    learner = cede.posterior_sampling(told, replan=5)
    history = cede.gym.run(Cliff(), WALKERS, learner, episodes=150, progress=False)
    assert learner.steps == history.lengths.sum()
    assert history.returns[-30:].mean() > 0.9
    if not more:  # after an end comes the first state of the next episode
        assert learner.counts.environment.toarray().reshape(6, 2, 6)[4, 1, 2] > 50


def test_switching_env_ends_where_the_problem_does():
    mdp = cede.gym.from_toy_text(gymnasium.make("FrozenLake-v1"), [cede.Agent("a", np.full((16, 4), 0.25))], 50)
    assert mdp.task.terminal == (5, 7, 11, 12, 15)
    env = cede.gym.SwitchingEnv(mdp)
    env.reset(seed=0)
    steps, over = 0, False
    while not over:
        observation, reward, over, _, info = env.step(0)
        steps += 1
    assert observation[0] in mdp.task.terminal or steps == 50
    assert reward == pytest.approx(-sum(info[name] for name in info if "cost" in name))
    with pytest.raises(ValueError, match="call reset first"):
        env.step(0)
    endless = cede.gym.SwitchingEnv(cede.worlds.riverswim(horizon=None))
    endless.reset(seed=1)
    assert not any(endless.step(1)[2] for _ in range(100))
