"""PPO and DQN of Stable-Baselines3 as those who decide who is in control, and the exact costs of their policies as they learn.

They act in `SwitchingEnv(mdp)`, whose observations they see as zeros and ones, one input for each state, agent and time step.

How their settings were picked: once for all worlds, for the lowest costs. In three worlds, with seed 0 and 8,000 steps, we tried
the defaults of Stable-Baselines3 without the time step, and the settings "small", for small discrete problems, with and without it.
Steps until the policy stayed within 5% of the best possible cost:

    method, setting             support desk    DoorKey-5x5    LavaGapS7
    PPO, defaults                      6,463          6,463            -
    PPO, small                         6,019          1,559        4,219
    PPO, small, sees time              3,929          3,929        3,929    picked; within 10% it was the fastest in two of three
    DQN, defaults                          -              -            -
    DQN, small                         7,451          4,219        5,222    picked
    DQN, small, sees time                  -          4,529        7,451

`PICKED` has the choice. One seed is little: among the settings "small" the differences are within what seeds make.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cede import TwoLayerMDP, expected_cost
from cede.gym.switching_env import SwitchingEnv
from cede.problem.takeover import next_agent_towards
from studies.arrays import Floats, Ints, Policy

METHODS = ("PPO", "DQN")
# What differs from the defaults of Stable-Baselines3, by method and name of the setting.
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "PPO": {
        "defaults": {},
        "small": {"n_steps": 256, "batch_size": 64, "learning_rate": 1e-3, "gamma": 0.99, "ent_coef": 0.01},
    },
    "DQN": {
        "defaults": {},
        "small": {
            "learning_rate": 1e-3,
            "learning_starts": 500,
            "exploration_fraction": 0.3,
            "train_freq": 1,
            "target_update_interval": 250,
            "batch_size": 64,
            "buffer_size": 60_000,
        },
    },
}
PICKED = {"PPO": ("small", True), "DQN": ("small", False)}  # for each method its setting, and whether it sees the time step
LOOKS = 10  # evaluations in a row after which a good policy is taken to stay good
AT_ONCE = 8192  # observations for which a model is asked in one call


@dataclass(frozen=True, eq=False)
class RivalCurve:
    """What a rival's policy cost while it learned."""

    steps: Ints  # (n,) steps in the environment so far
    cost: Floats  # (n,) expected cost of an episode of the policy at that time, exact

    def steps_until(self, cost: float) -> int | None:
        """Return after how many steps the policy cost no more than that, and stayed so to the end of the curve; None if never."""
        good = self.cost <= cost
        if not good[-1]:
            return None
        last_bad = np.flatnonzero(~good)
        return int(self.steps[last_bad[-1] + 1 if len(last_bad) else 0])


def rival_curve(
    mdp: TwoLayerMDP,
    method: str,
    steps: int,
    seed: int,
    time: bool,
    *,
    setting: str | Mapping[str, Any] = "small",
    at: Sequence[int] | None = None,
    good_enough: float | None = None,
) -> RivalCurve:
    """Train PPO or DQN for so many steps of the environment; return the exact costs of its policy on the way.

    time: whether it sees the time step. setting: a name in SETTINGS, or arguments of the method. at: after how many steps to
    evaluate; by default 40 numbers from 500 to `steps`, each by the same factor larger. good_enough: training ends early if the
    policy cost no more than that in LOOKS evaluations in a row.

    The method is trained in one go, as its schedules want it, and evaluated in between without being disturbed.
    """
    if method not in METHODS:
        raise ValueError(f"rival_curve: method is {method!r}, must be one of {METHODS}")
    import stable_baselines3 as sb3
    import torch

    torch.set_num_threads(1)  # the networks are small: more threads only wait for each other
    wanted = np.unique(np.geomspace(min(500, steps), steps, 40).astype(int)) if at is None else np.unique(at)
    more = SETTINGS[method][setting] if isinstance(setting, str) else setting
    model = getattr(sb3, method)("MlpPolicy", SwitchingEnv(mdp, time=time), seed=seed, device="cpu", **more)
    done: list[int] = []
    costs: list[float] = []

    def look(seen: Any, _: Any) -> bool:
        """Evaluate the policy if it is time to; called after every step."""
        if len(done) < len(wanted) and seen["self"].num_timesteps >= wanted[len(done)]:
            costs.append(expected_cost(mdp, tabulated_policy(mdp, model, time)))
            done.append(int(seen["self"].num_timesteps))
        return good_enough is None or len(costs) < LOOKS or max(costs[-LOOKS:]) > good_enough

    model.learn(steps, callback=look)
    return RivalCurve(np.array(done, dtype=np.int64), np.array(costs))


def tabulated_policy(mdp: TwoLayerMDP, model: Any, time: bool) -> Policy:
    """Return the switching policy of a model's best guesses, (L, S, D), for all places at once."""
    task = mdp.task
    sizes = (task.horizon, task.n_states, task.n_agents) if time else (task.n_states, task.n_agents)
    places = np.indices(sizes).reshape(len(sizes), -1).T
    parts = [places[i : i + AT_ONCE] for i in range(0, len(places), AT_ONCE)]
    members = np.concatenate([model.predict(part, deterministic=True)[0] for part in parts])
    towards = np.array([next_agent_towards(task.can_hand_over, member) for member in range(len(task.members))])
    chosen = towards[members, places[:, -1]].reshape(sizes)
    return np.ascontiguousarray(np.broadcast_to(chosen, task.policy_shape).astype(np.int16))
