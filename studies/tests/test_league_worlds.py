"""The worlds of the league are what they say, and rivals are measured exactly."""

import numpy as np
import pytest

import cede
from studies.runs.league_worlds import WORLDS, about, cost_of_chance
from studies.runs.rivals import RivalCurve, rival_curve, tabulated_policy


@pytest.mark.parametrize("name", WORLDS)
def test_who_is_in_control_matters(name):
    if name in ("DistShift2", "LavaGapS7", "DoorKey-5x5"):
        pytest.importorskip("minigrid")
    found = about(WORLDS[name]())
    alone = [found[place] for place in found if place.endswith("alone")]
    assert found["best"] < found["chance"]
    assert found["best"] <= min(alone)
    if name != "RiverSwim":  # there the better swimmer is best nearly everywhere
        assert min(alone) > found["best"] + 0.05 * abs(found["best"])


def test_chance_by_simulation():
    mdp = WORLDS["support desk"]()
    env, rng, costs = cede.gym.SwitchingEnv(mdp), np.random.default_rng(0), []
    for k in range(3000):
        env.reset(seed=k)
        total, over = 0.0, False
        while not over:
            _, reward, over, _, _ = env.step(rng.integers(3))
            total -= reward
        costs.append(total)
    assert np.mean(costs) == pytest.approx(cost_of_chance(mdp), abs=4 * np.std(costs) / len(costs) ** 0.5)


def test_when_a_curve_is_good_for_good():
    curve = RivalCurve(np.array([1, 2, 3, 4]), np.array([5.0, 1.0, 2.0, 1.0]))
    assert curve.steps_until(1.5) == 4
    assert curve.steps_until(2.0) == 2
    assert curve.steps_until(9.0) == 1
    assert curve.steps_until(0.5) is None


@pytest.mark.parametrize("time", [False, True])
def test_a_policy_is_tabulated_place_by_place(time):
    mdp = WORLDS["RiverSwim"]()

    class Odd:
        """Prefers the second agent where the sum of what it sees is odd."""

        def predict(self, observations, deterministic):
            assert deterministic
            return observations.sum(axis=1) % 2, None

    policy = tabulated_policy(mdp, Odd(), time)
    for t, s, prev in np.ndindex(policy.shape):
        assert policy[t, s, prev] == (t * time + s + prev) % 2


@pytest.mark.slow
@pytest.mark.parametrize("method", ["PPO", "DQN"])
def test_rivals_learn(method):
    pytest.importorskip("stable_baselines3")
    mdp = WORLDS["support desk"]()
    curve = rival_curve(mdp, method, 1500, 0, False, at=[300, 1500])
    assert curve.steps.tolist() == [300, 1500]
    assert curve.cost[-1] < cost_of_chance(mdp)
