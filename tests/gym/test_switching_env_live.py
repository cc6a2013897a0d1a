"""SwitchingEnv around other environments: a team of actors in them, and who acts is the action."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cede


def lake(**options):
    env = gymnasium.make("FrozenLake-v1")
    task = cede.gym.task_for(env, ["down", "right"], 30, control_cost={"right": 0.01}, switch_cost=0.02)
    team = [cede.gym.actor("down", lambda s: 1), cede.gym.actor("right", lambda s: [0.0, 0.1, 0.9, 0.0])]
    return cede.gym.SwitchingEnv(env, team=team, task=task, **options)


def pole(**options):
    env = gymnasium.make("CartPole-v1", max_episode_steps=40)
    bins = cede.gym.uniform_bins([-2.4, -2, -0.2, -2], [2.4, 2, 0.2, 2], [1, 1, 4, 4])
    task = cede.gym.task_for(env, ["coin", "expert"], 50, encode=bins, control_cost={"expert": 0.02})
    expert = cede.gym.actor("expert", lambda o: int(o[2] + 0.25 * o[3] > 0), sees="observation")
    return cede.gym.SwitchingEnv(
        env, team=[cede.gym.actor("coin", lambda s: [0.5, 0.5]), expert], task=task, encode=bins, **options
    )


def grid(**options):
    pytest.importorskip("minigrid")
    states = cede.gym.minigrid_states(gymnasium.make("MiniGrid-LavaGapS5-v0"))
    team = {"turns": lambda s: 0, "any": lambda s: np.full(7, 1 / 7)}
    task = cede.gym.task_for(states.env, list(team), 20, encode=states, cost=0.05, terminal=states.terminal)
    return cede.gym.SwitchingEnv(states.env, team=team, task=task, encode=states, **options)


@pytest.mark.parametrize("options", [{}, {"time": True}, {"raw": True}, {"raw": True, "time": True}], ids=str)
@pytest.mark.parametrize("make", [lake, pole, grid])
@pytest.mark.filterwarnings("ignore:.*observation space m..imum value:UserWarning")  # CartPole's own
def test_gymnasium_is_content(make, options):
    check_env(make(**options), skip_render_check=True)


def test_it_is_the_problem_of_its_table():
    """The same policy costs the same by the table of FrozenLake and in the environment itself."""
    env = lake(time=True)
    walkers = [cede.Agent("down", np.tile([0, 1.0, 0, 0], (16, 1))), cede.Agent("right", np.tile([0, 0.1, 0.9, 0], (16, 1)), 0.01)]
    mdp = cede.gym.from_toy_text(gymnasium.make("FrozenLake-v1"), walkers, 30, switch_cost=0.02)
    policy, costs = cede.solve(mdp).policy, []
    for k in range(1500):
        (t, state, agent), _ = env.reset(seed=k)
        total, over = 0.0, False
        while not over:
            (t, state, agent), reward, over, _, info = env.step(policy[t, state, agent])
            assert reward == pytest.approx(-sum(info[name] for name in info if "cost" in name))
            total -= reward
        costs.append(total)
    assert np.mean(costs) == pytest.approx(cede.expected_cost(mdp, policy), abs=4 * np.std(costs) / len(costs) ** 0.5)


def test_ends_and_cut_offs():
    env = pole(time=True)
    observation, _ = env.reset(seed=0)
    assert observation[0] == 0
    ended = cut = False
    while not (ended or cut):
        observation, _, ended, cut, _ = env.step(1)
    assert (ended, cut) == (False, True)  # the environment's own limit of 40 comes before the horizon
    assert observation[0] == 40
    with pytest.raises(ValueError, match="the episode is over, must be begun"):
        env.step(0)
    env.reset(seed=1)
    while not (ended := env.step(0)[2]):
        pass
    assert env.state == env.task.terminal[0]
    assert pole(render_mode="rgb_array").render().ndim == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": None}, r"SwitchingEnv: task is None, must be a Task, as task_for makes one"),
        ({"team": None}, r"SwitchingEnv: team is None, must be a Team, a sequence of actors"),
        ({"mdp": 3}, r"SwitchingEnv: mdp is 3, must be a TwoLayerMDP, or an environment"),
        ({"mdp": cede.worlds.riverswim()}, r"SwitchingEnv: team is .*, must be left out where mdp is a TwoLayerMDP"),
        (
            {"mdp": gymnasium.make("cede/RiverSwim-v0")},
            r"SwitchingEnv: the number of actions of env is 2, must be 4, as in the task",
        ),
    ],
)
def test_what_is_refused(change, message):
    env = gymnasium.make("FrozenLake-v1")
    good = {"mdp": env, "team": {"a": lambda s: 0}, "task": cede.gym.task_for(env, ["a"], 5)}
    with pytest.raises(ValueError, match=message):
        cede.gym.SwitchingEnv(**{**good, **change})
