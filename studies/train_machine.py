"""Train the machine of lane driving, as the paper does: UCRL2 on roads that start without cars.

`python -m studies.train_machine` trains it and writes machine.npy, which `drivers.machine_policy` reads. Do so only if the
training itself is to change: every result in lane driving depends on that file.
"""

from importlib import resources
from pathlib import Path

import numpy as np

from cede import Scale, ucrl2
from cede.beliefs.scale import StepDown
from cede.fleet.simulate import play
from cede.worlds.drivers import MACHINE_FILE, solo
from studies.arrays import Floats
from studies.files import replace_whole

EPISODES = 5000
SEED = 2
REPLAN_EVERY = 10  # episodes that share one plan


def train(episodes: int = EPISODES, seed: int = SEED) -> Floats:
    """Train a machine and return its policy, (10, S, 3), deterministic: what UCRL2 has learned after `episodes` episodes.

    Radii are scaled as in the authors' code; the last plan, which is the policy, is made with the scale 0.01. Machines of other
    seeds differ: they cost 1.08 to 1.10 times as much as the best driver without cars, and 1.7 to 2.1 times as much as the human
    with them. Takes a second or two.
    """
    mdp = solo((1.0, 0.0, 0.0))
    scale = Scale(environment=StepDown(0.1, 0.01, episodes / 10, 0.01))
    learner = ucrl2(mdp.task, radius="same-form", scale=scale, replan=REPLAN_EVERY, seed=seed)
    play(mdp, learner, episodes, np.random.default_rng(seed), evaluate_every=episodes)
    learner.replan()
    actions = learner.plan.policy[:, :, 0]  # hand-overs are free in `solo`: the previous agent does not matter
    policy: Floats = np.eye(mdp.task.n_actions)[actions]
    return policy


def write_machine(path: Path, policy: Floats) -> None:
    """Write the actions of a deterministic policy (10, S, 3) to a .npy file of uint8, (10, S), whole or not at all."""
    actions = policy.argmax(axis=2).astype(np.uint8)
    replace_whole(path, lambda file: np.save(file, actions, allow_pickle=False))


if __name__ == "__main__":
    target = Path(str(resources.files("cede.worlds") / MACHINE_FILE))
    write_machine(target, train())
    print(f"wrote {target}")
