"""Gymnasium out: the switching problem as an environment, and Stable-Baselines3 on it."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cede


def slow_swimmers():
    mdp = cede.worlds.riverswim([0.3, 0.7], switch_cost=0.1)
    first, second = mdp.team.agents
    team = cede.Team([first, replace(second, takeover_delay=2)], mdp.team.switch_cost)
    return cede.TwoLayerMDP(mdp.environment, team, mdp.horizon, mdp.start_agent)


@pytest.mark.parametrize("time", [False, True])
def test_gymnasium_is_content(time):
    check_env(cede.gym.SwitchingEnv(cede.worlds.riverswim([0.3, 0.7]), time=time), skip_render_check=True)
    check_env(gymnasium.make("cede/LaneDriving-v0", time=time, render_mode="rgb_array").unwrapped)
    check_env(cede.gym.SwitchingEnv(slow_swimmers(), time=time), skip_render_check=True)


def test_no_step_before_the_first_reset():
    with pytest.raises(ValueError, match="call reset first"):
        cede.gym.SwitchingEnv(slow_swimmers()).step(0)


def test_rewards_are_minus_costs():
    """The mean return of a policy is minus its exact cost; `info` says what it is made of."""
    mdp = slow_swimmers()
    env, policy = cede.gym.SwitchingEnv(mdp, time=True), cede.solve(mdp).policy
    returns = []
    for k in range(1500):
        (t, state, agent), _ = env.reset(seed=k)
        total, over = 0.0, False
        while not over:
            member = mdp.task.layout.aim[policy[t, state, agent]]
            (t, state, agent), reward, over, cut_off, info = env.step(member)
            assert reward == -(info["env_cost"] + info["control_cost"] + info["switch_cost"])
            assert info["agent"] in mdp.task.members
            assert not cut_off
            total += reward
        returns.append(total)
    expected = -cede.expected_cost(mdp, policy)
    assert np.mean(returns) == pytest.approx(expected, abs=4 * np.std(returns) / len(returns) ** 0.5)
    with pytest.raises(ValueError, match="the episode is over, must be begun: call reset first"):
        env.step(0)


@pytest.mark.parametrize("name", ["cede/LaneDriving-v0", "cede/RiverSwim-v0"])
def test_pictures(name):
    env = gymnasium.make(name, render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    for t in range(5):
        env.step(t % 2)
    frame = env.render()
    assert frame.dtype == np.uint8
    assert frame.ndim == 3
    assert (frame != first).any()


# ------------------------------------------------------------------------------------------------- Stable-Baselines3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["PPO", "DQN"])
def test_stable_baselines_learns_to_switch(method):
    """As it is: near the best policy, and far better than the better agent alone."""
    sb3 = pytest.importorskip("stable_baselines3")
    pytest.importorskip("torch").set_num_threads(1)
    transition = np.array([[[0.9, 0.1], [0.7, 0.3]], [[0.6, 0.4], [0.1, 0.9]]])
    environment = cede.Environment(transition, [0.0, 1.0], [1.0, 0.0])
    program = cede.Agent("program", [[0.9, 0.1], [0.2, 0.8]])
    person = cede.Agent("person", [[0.9, 0.1], [0.95, 0.05]], control_cost=0.1)
    mdp = cede.TwoLayerMDP(environment, cede.Team([program, person], switch_cost=0.05), horizon=10)
    more = {"n_steps": 200, "batch_size": 100}
    if method == "DQN":
        more = {"learning_starts": 500, "exploration_fraction": 0.5, "target_update_interval": 200}
    env = cede.gym.SwitchingEnv(mdp)
    model = getattr(sb3, method)("MlpPolicy", env, seed=0, device="cpu", gamma=0.9, learning_rate=1e-3, **more)
    model.learn(8000)
    policy = np.empty((mdp.horizon, 2, 2), dtype=int)
    for state, agent in np.ndindex(2, 2):
        policy[:, state, agent] = int(model.predict(np.array([state, agent]), deterministic=True)[0])
    alone = min(cede.expected_cost(mdp, mdp.task.always(agent)) for agent in (0, 1))
    best = cede.expected_cost(mdp, cede.solve(mdp).policy)
    assert cede.expected_cost(mdp, policy) < best + 0.25 * (alone - best)


@pytest.mark.slow
def test_a_stable_baselines_model_is_an_agent():
    sb3 = pytest.importorskip("stable_baselines3")
    env = gymnasium.make("CartPole-v1")
    model = sb3.PPO("MlpPolicy", env, seed=0, device="cpu", n_steps=256)
    model.learn(256)
    bins = cede.gym.uniform_bins([-2.4, -3, -0.21, -3], [2.4, 3, 0.21, 3], [1, 1, 4, 4])
    task = cede.gym.task_for(env, ["net", "coin"], 20, encode=bins, over_cost=1.0)
    team = [cede.gym.agent_from_sb3(model, name="net"), cede.gym.actor("coin", lambda state: [0.5, 0.5])]
    history = cede.gym.run(env, team, cede.posterior_sampling(task), encode=bins, episodes=5)
    assert history.control.sum(axis=1).tolist() == history.lengths.tolist()
