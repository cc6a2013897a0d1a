"""The machine of lane driving is data: worlds load no learner."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from cede.worlds import road
from cede.worlds.drivers import machine_policy


def test_the_policy_is_that_of_all_published_results():
    policy = machine_policy()
    assert (policy.shape, policy.dtype) == ((10, len(road.states().level), 3), np.float64)
    assert hashlib.sha256(policy.tobytes()).hexdigest() == "e80e48d29a119f82c0b94cb2618263c408952c102de2ea8a9f4b56a246c9a0b4"
    assert machine_policy() is policy
    with pytest.raises(ValueError, match="read-only"):
        policy[0, 0, 0] = 1.0


@pytest.mark.parametrize("world", ["lane_driving", "riverswim"])
def test_a_world_loads_no_learner(world):
    code = f"import sys, cede; cede.worlds.{world}(); print(*sys.modules)"
    modules = set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())
    assert f"cede.worlds.{world}" in modules
    assert not {"numba", "cede.planning", "cede.learners", "cede.fleet"} & modules
