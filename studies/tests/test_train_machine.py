"""Training gives exactly the machine of lane driving that the package holds as data."""

from importlib import resources

import numpy as np

from cede.worlds.drivers import MACHINE_FILE, machine_policy
from studies import train_machine


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
