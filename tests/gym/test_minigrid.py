"""MiniGrid as exact problems: every step by the table is a step of the environment."""

import gymnasium
import numpy as np
import pytest

import cede
from cede.planning.planner import best_policy

pytest.importorskip("minigrid")
WALK = ("left", "right", "forward")
OPEN = (*WALK, "pickup", "toggle")
WORLDS = [("DistShift2", WALK), ("LavaGapS5", None), ("DoorKey-5x5", OPEN), ("DoorKey-5x5", None), ("KeyCorridorS3R1", None)]


def states_of(name, actions=None, seed=0):
    return cede.gym.minigrid_states(gymnasium.make(f"MiniGrid-{name}-v0"), seed=seed, actions=actions)


def at_random(states, names=("a", "b"), seed=0):
    rng = np.random.default_rng(seed)
    return [cede.Agent(name, rng.dirichlet(np.ones(len(states.actions)), size=states.n_states)) for name in names]


def anything(states, name="anything"):
    return cede.Agent(name, np.full(states.next_state.shape, 1 / len(states.actions)))


@pytest.mark.parametrize(("name", "actions"), WORLDS)
def test_the_table_takes_the_steps_of_the_environment(name, actions):
    states, rng = states_of(name, actions, seed=3), np.random.default_rng(0)
    env, ends = states.env, 0
    for _ in range(10):
        observation, _ = env.reset()
        state = states(observation, env=env)
        assert state == states.start
        for _ in range(100):
            action = int(rng.integers(len(states.actions)))
            observation, reward, terminated, truncated, _ = env.step(action)
            to = states(observation, env=env, reward=reward, terminated=terminated)
            assert to == states.next_state[state, action]
            assert terminated == (to in states.terminal)
            if terminated:
                assert states.names[to] == ("success" if reward > 0 else "failure")
            ends, state = ends + terminated, to
            if terminated or truncated:
                break
    assert len(set(states.names)) == states.n_states
    assert ends or "Key" in name


def test_states_say_what_decides_the_future():
    states = states_of("DoorKey-5x5", OPEN)
    first = dict(part.split("=") for part in states.names[0].split(", "))
    assert first == {"x": "1", "y": "3", "facing": "west", "door": "locked", "key": "at 1 2"}
    assert {part.split("=")[1] for name in states.names[:-1] for part in name.split(", ") if part.startswith("door")} == {
        "locked",
        "closed",
        "open",
    }
    assert states.names[-1] == "success"  # there is no lava
    assert states_of("DistShift2", WALK).names[-2:] == ("success", "failure")
    assert states_of("DistShift2", WALK).names[0] == "x=1, y=1, facing=east"


@pytest.mark.parametrize(
    ("name", "actions", "horizon"), [("DistShift2", WALK, 50), ("LavaGapS5", None, 30), ("DoorKey-5x5", OPEN, 60)]
)
def test_policies_cost_by_the_table_what_they_cost_in_the_environment(name, actions, horizon):
    states = states_of(name, actions)
    mdp = cede.gym.from_minigrid(states, at_random(states), horizon, switch_cost=0.01)
    policy = np.random.default_rng(1).integers(2, size=mdp.task.policy_shape)
    env = cede.gym.SwitchingEnv(states.env, team=mdp.team, task=mdp.task, encode=states, time=True)
    costs = []
    for k in range(400):
        place, _ = env.reset(seed=k)
        total, over = 0.0, False
        while not over:
            place, reward, over, cut_off, _ = env.step(policy[tuple(place)])
            total -= reward
            assert not cut_off
        costs.append(total)
    assert np.mean(costs) == pytest.approx(cede.expected_cost(mdp, policy), abs=4 * np.std(costs) / len(costs) ** 0.5 + 1e-9)
    always = mdp.task.always(0)
    history = cede.gym.run(states.env, mdp.team, cede.fixed(mdp.task, "a"), encode=states, episodes=3, progress=False)
    assert history.lengths.max() <= states.env.unwrapped.max_steps
    assert cede.evaluate(mdp, always).shape == (horizon + 1, states.n_states, 2)


def test_what_success_failure_and_wandering_cost():
    """Success after k of L steps costs k / L, everything else 1; with other costs as the docstring says."""
    states = states_of("LavaGapS5", WALK)
    expert = cede.Agent("expert", best_policy(cede.gym.from_minigrid(states, [anything(states)], 40).environment, 40))
    ahead = cede.Agent("ahead", np.tile([0.0, 0.0, 1.0], (states.n_states, 1)))  # walks into the lava, or against a wall
    turns = cede.Agent("turns", np.tile([1.0, 0.0, 0.0], (states.n_states, 1)))
    into_lava = states_of("DistShift2", WALK)
    steps, state = 0, states.start
    while states.names[state] != "success":
        state, steps = states.next_state[state, expert.policy[state].argmax()], steps + 1

    def alone(agent, found=states, **costs):
        mdp = cede.gym.from_minigrid(found, [agent], 40, **costs)
        return cede.expected_cost(mdp, mdp.task.always(0))

    assert alone(expert) == pytest.approx(steps / 40)
    assert alone(expert, step_cost=0.01) == pytest.approx(steps * 0.01)
    assert alone(turns) == pytest.approx(1.0)
    assert alone(turns, step_cost=0.01) == pytest.approx(0.4)
    dead = cede.Agent("ahead", np.tile([0.0, 0.0, 1.0], (into_lava.n_states, 1)))
    assert alone(dead, into_lava) == pytest.approx(1.0)
    assert alone(dead, into_lava, step_cost=0.01, fail_cost=3.0) == pytest.approx(3.0)
    assert alone(ahead, fail_cost=2.0) == pytest.approx(2.0)
    for horizon in (None, 40):  # with a discount, too
        mdp = cede.gym.from_minigrid(into_lava, [dead], horizon, discount=0.9)
        assert cede.expected_cost(mdp, mdp.task.always(0)) == pytest.approx(1.0)


def test_a_team_learns_in_the_environment_itself():
    """An expert who costs and a novice who walks into lava: after some episodes the expert is called where it matters."""
    states = states_of("DistShift2", WALK)
    plain = cede.gym.from_minigrid(states, [anything(states)], 50)
    expert = cede.Agent("expert", best_policy(plain.environment, 50), control_cost=0.02)
    mdp = cede.gym.from_minigrid(states, [anything(states, "novice"), expert], 50)
    learner = cede.posterior_sampling(mdp.task, seed=0)
    history = cede.gym.run(states.env, mdp.team, learner, encode=states, episodes=150, progress=False)
    best = cede.expected_cost(mdp, cede.solve(mdp).policy)
    assert history.cost[-20:].mean() < best + 0.1
    assert history.cost[:5].mean() > best + 0.2


def test_encoders_see_what_they_ask_for():
    class Masked(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 1), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.cell = 0
            return np.zeros(1, dtype=np.float32), {"cell": 0}

        def step(self, action):
            self.cell += 1
            return np.zeros(1, dtype=np.float32), 0.0, self.cell == 3, False, {"cell": self.cell}

    task = cede.Task(np.zeros((4, 2)), ["a"], 5, terminal=[3])
    ways = (
        lambda o, info: info["cell"],
        lambda o, *, env: env.cell,
        lambda info, env, reward=0.0, terminated=False: 3 if terminated else env.cell,
    )
    for encode in ways:
        learner = cede.fixed(task, "a")
        cede.gym.run(Masked(), {"a": lambda s: 0}, learner, encode=encode, episodes=2, progress=False)
        assert learner.counts.environment.sum() == 6
    with pytest.raises(
        ValueError, match=r"run: the parameter 'map' of encode is not known, must be left out, or one of 'env', 'info'"
    ):
        cede.gym.run(Masked(), {"a": lambda s: 0}, learner, encode=lambda o, map: 0, episodes=1, progress=False)


def test_what_is_refused():
    env = gymnasium.make("MiniGrid-LavaGapS5-v0")
    with pytest.raises(ValueError, match=r"a step of env is random, must be decided by state and action"):
        states_of("Dynamic-Obstacles-5x5")
    with pytest.raises(ValueError, match=r"minigrid_states: actions\[0\] is 'jump', must be one of 'left'"):
        cede.gym.minigrid_states(env, actions=["jump"])
    with pytest.raises(ValueError, match=r"minigrid_states: env is .*, must be an environment of MiniGrid"):
        cede.gym.minigrid_states(gymnasium.make("CartPole-v1"))
    states = states_of("LavaGapS7", WALK)
    with pytest.raises(ValueError, match=r"seed or actions is \(1, None\), must be left out"):
        cede.gym.from_minigrid(states, [anything(states)], 5, seed=1)
    other = gymnasium.make("MiniGrid-DistShift2-v0")
    other.reset(seed=0)
    other.unwrapped.agent_pos = (7, 3)
    with pytest.raises(ValueError, match=r"the situation of env is x=7, y=3, facing=east, must be one that was found"):
        states(None, env=other)


def test_missing_minigrid_is_answered_with_the_command(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "minigrid.minigrid_env", None)
    with pytest.raises(ImportError, match=r'pip install "cede\[worlds\]"'):
        cede.gym.minigrid_states(gymnasium.make("FrozenLake-v1"))
