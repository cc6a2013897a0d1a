"""Gymnasium's tabular environments: the model against Gymnasium's own rollouts and against value iteration on its table."""

import gymnasium
import numpy as np
import pytest

import cede

NAMES = [("FrozenLake-v1", 30), ("CliffWalking-v1", 25), ("Taxi-v4", 12)]


def uniform(env):
    shape = (int(env.observation_space.n), int(env.action_space.n))
    return np.full(shape, 1 / shape[1])


def make(name, horizon, policies):
    env = gymnasium.make(name)
    agents = [cede.Agent(f"agent {i}", policy(env)) for i, policy in enumerate(policies)]
    return env, cede.gym.from_toy_text(env, agents, horizon)


@pytest.mark.parametrize(("name", "horizon"), NAMES)
def test_costs_are_those_of_gymnasiums_rollouts(name, horizon):
    """An agent that acts at random: mean return of many episodes that Gymnasium plays, against the exact expectation."""
    env, mdp = make(name, horizon, [uniform])
    exact = cede.expected_cost(mdp, np.zeros((horizon, mdp.task.n_states, 1), dtype=int))
    rng, returns = np.random.default_rng(0), []
    for episode in range(1500):
        env.reset(seed=episode)
        total = 0.0
        for _ in range(horizon):
            _, reward, terminated, _, _ = env.step(int(rng.integers(env.action_space.n)))
            total += float(reward)
            if terminated:
                break
        returns.append(total)
    error = np.std(returns) / np.sqrt(len(returns)) + 1e-3
    assert abs(-np.mean(returns) - exact) < 4 * error


@pytest.mark.parametrize(("name", "horizon"), NAMES)
def test_the_best_is_that_of_the_table(name, horizon):
    """One agent for each action: the optimum of the switching problem is that of Gymnasium's table, by plain value iteration."""
    env = gymnasium.make(name)
    n_states, n_actions = int(env.observation_space.n), int(env.action_space.n)
    agents = [cede.Agent(f"action {a}", np.tile(np.eye(n_actions)[a], (n_states, 1))) for a in range(n_actions)]
    mdp = cede.gym.from_toy_text(env, agents, horizon)
    value = np.zeros(n_states)
    for _ in range(horizon):
        value = np.array(
            [
                max(
                    sum(p * (r + (0.0 if over else value[to])) for p, to, r, over in env.unwrapped.P[s][a])
                    for a in range(n_actions)
                )
                for s in range(n_states)
            ]
        )
    best = float(env.unwrapped.initial_state_distrib @ value)
    assert cede.expected_cost(mdp, cede.solve(mdp).policy) == pytest.approx(-best, abs=1e-9)


def test_ends_absorb_at_no_cost():
    _, lake = make("FrozenLake-v1", 5, [uniform])
    assert lake.task.n_states == 16  # holes and goal are entered at the end only
    holes = [5, 7, 11, 12, 15]
    for s in holes:
        assert (lake.environment.cost[s] == 0).all()
        for a in range(4):
            assert lake.environment.transition[4 * s + a, s] == 1


def test_an_end_that_is_no_state_of_its_own():
    """A state that is entered both at the end and before: the end becomes a state."""

    class Loop:
        P = {0: {0: [(0.5, 1, 1.0, True), (0.5, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 2.0, False)]}}  # noqa: RUF012
        initial_state_distrib = np.array([1.0, 0.0])

    mdp = cede.gym.from_toy_text(Loop(), [cede.Agent("one", np.ones((2, 1)))], 3)
    assert mdp.task.state_names == ("0", "1", "done")
    assert cede.expected_cost(mdp, np.zeros((3, 3, 1), dtype=int)) == pytest.approx(-(0.5 + 0.5 * (2 + 0.5)))


def test_an_episode_that_ends_where_it_began():
    """Out and home again: the start is no end."""

    class Round:
        P = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 5.0, True)]}}  # noqa: RUF012
        initial_state_distrib = np.array([1.0, 0.0])

    mdp = cede.gym.from_toy_text(Round(), [cede.Agent("one", np.ones((2, 1)))], 4)
    assert mdp.task.state_names == ("0", "1", "done")
    assert cede.expected_cost(mdp, np.zeros((4, 3, 1), dtype=int)) == -5.0


def test_a_model_with_holes():
    class Odd:
        initial_state_distrib = np.array([1.0, 0.0])

    agent = cede.Agent("one", np.ones((2, 1)))
    for model, text in (
        ({1: {0: [(1.0, 1, 0.0, False)]}, 2: {0: [(1.0, 1, 0.0, False)]}}, "the states of P is .*, must be 0 to 1"),
        ({0: {0: [(1.0, 7, 0.0, False)]}, 1: {0: [(1.0, 1, 0.0, False)]}}, "a next state of .* is 7, must be"),
        ({0: {0: [(1.0, 0, 0.0, False)]}, 1: {}}, r"P\[1\] is \{\}, must be a dictionary of the actions"),
    ):
        Odd.P = model
        with pytest.raises(ValueError, match=text):
            cede.gym.from_toy_text(Odd(), [agent], 3)


def test_bad_input():
    agent = cede.Agent("one", np.full((16, 4), 0.25))
    with pytest.raises(ValueError, match=r"from_toy_text: env is .*, must be an environment with a tabular model P"):
        cede.gym.from_toy_text(gymnasium.make("CartPole-v1"), [agent], 10)
    with pytest.raises(ValueError, match="one of agents is 3, must be an Agent"):
        cede.gym.from_toy_text(gymnasium.make("FrozenLake-v1"), [3], 10)
    with pytest.raises(ValueError, match="Agent 'one': the shape of policy"):
        cede.gym.from_toy_text(gymnasium.make("CliffWalking-v1"), [agent], 10)
