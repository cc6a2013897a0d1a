"""The machine of lane driving is data: its script gives exactly this file, and worlds load no learner."""

import hashlib
import subprocess
import sys
from importlib import resources

import numpy as np
import pytest

from cede.worlds import road, train_machine
from cede.worlds.drivers import MACHINE_FILE, machine_policy


def test_the_policy_is_that_of_all_published_results():
    policy = machine_policy()
    assert (policy.shape, policy.dtype) == ((10, len(road.states().level), 3), np.float64)
    assert hashlib.sha256(policy.tobytes()).hexdigest() == "e80e48d29a119f82c0b94cb2618263c408952c102de2ea8a9f4b56a246c9a0b4"
    assert machine_policy() is policy
    with pytest.raises(ValueError, match="read-only"):
        policy[0, 0, 0] = 1.0


def test_training_gives_exactly_the_file_of_the_package(tmp_path):
    policy = train_machine.train()
    np.testing.assert_array_equal(policy, machine_policy())
    train_machine.write_machine(tmp_path / MACHINE_FILE, policy)
    assert [path.name for path in tmp_path.iterdir()] == [MACHINE_FILE]
    assert (tmp_path / MACHINE_FILE).read_bytes() == (resources.files("cede.worlds") / MACHINE_FILE).read_bytes()


def test_other_seeds_give_other_machines():
    """Little training is enough to differ, and the same seed gives the same machine."""
    one, again, other = (train_machine.train(episodes=50, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert set(np.unique(one)) == {0.0, 1.0}


@pytest.mark.parametrize("world", ["lane_driving", "riverswim"])
def test_a_world_loads_no_learner(world):
    code = f"import sys, cede; cede.worlds.{world}(); print(*sys.modules)"
    modules = set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())
    assert f"cede.worlds.{world}" in modules
    assert not {"numba", "cede._kernels", "cede.planning", "cede.learning", "cede.fleet"} & modules
