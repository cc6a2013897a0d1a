"""The same switching problem for PPO and DQN of Stable-Baselines3 and for cede: the cost of each policy over training steps.

    pip install "cede[gym,plots,sb3]"
    python examples/against_sb3.py --steps 10000 --out against-sb3.png

Every policy is evaluated exactly. Without Stable-Baselines3 only cede's learners run.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cede

COLOURS = {"posterior sampling": "#D55E00", "UCRL2-MC": "#CC79A7", "PPO": "#0072B2", "DQN": "#009E73"}


def problem():
    """Return the problem: a machine runs well or badly; a program or a person looks after it, and the person has a control cost."""
    transition = np.array([[[0.9, 0.1], [0.7, 0.3]], [[0.6, 0.4], [0.1, 0.9]]])
    environment = cede.Environment(transition, cost=[0.0, 1.0], start=[1.0, 0.0])
    program = cede.Agent("program", [[0.9, 0.1], [0.2, 0.8]])
    person = cede.Agent("person", [[0.9, 0.1], [0.95, 0.05]], control_cost=0.1)
    return cede.TwoLayerMDP(environment, cede.Team([program, person], switch_cost=0.05), horizon=10)


def with_cede(mdp, learner, steps):
    """Return the exact cost of each episode's policy."""
    history = cede.simulate(mdp, learner, steps // mdp.horizon, progress=False)
    return mdp.horizon * np.arange(1, len(history.cost) + 1), history.expected_cost


def with_sb3(mdp, method, steps, every):
    """Return the exact cost of the model's policy at intervals of its training."""
    import stable_baselines3

    more = {"n_steps": 200, "batch_size": 100}
    if method == "DQN":
        more = {"learning_starts": 500, "exploration_fraction": 0.5, "target_update_interval": 200}
    env = cede.gym.SwitchingEnv(mdp, time=True)
    model = getattr(stable_baselines3, method)("MlpPolicy", env, seed=0, device="cpu", gamma=0.9, learning_rate=1e-3, **more)
    done, costs = [], []
    while not done or done[-1] < steps:
        model.learn(every, reset_num_timesteps=not done)
        policy = np.empty((mdp.horizon, mdp.task.n_states, mdp.task.n_agents), dtype=int)
        for place in np.ndindex(policy.shape):
            policy[place] = int(model.predict(np.array(place), deterministic=True)[0])
        done.append(model.num_timesteps)
        costs.append(cede.expected_cost(mdp, policy))
    return done, costs


def main(steps, out):
    mdp = problem()
    found = {
        "posterior sampling": with_cede(mdp, cede.posterior_sampling(mdp.task), steps),
        "UCRL2-MC": with_cede(mdp, cede.ucrl2_mc(mdp.task), steps),
    }
    for method in ("PPO", "DQN"):
        try:
            found[method] = with_sb3(mdp, method, steps, max(500, steps // 10))
        except ImportError:
            print(f'{method}: Stable-Baselines3 is not installed: pip install "cede[sb3]"')
    best = cede.expected_cost(mdp, cede.solve(mdp).policy)
    alone = [cede.expected_cost(mdp, mdp.task.always(agent)) for agent in (0, 1)]
    for name, (_, costs) in found.items():
        print(f"{name}: {np.mean(costs[-max(1, len(costs) // 10) :]):.3f}, best {best:.3f}, better agent alone: {min(alone):.3f}")

    picture, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for name, (done, costs) in found.items():
        axes.plot(done, costs, color=COLOURS[name], label=name, linewidth=1.2)
    axes.axhline(best, color="black", linewidth=0.8, label="best switching policy")
    axes.axhline(min(alone), color="#777777", linewidth=0.8, linestyle=":", label="better agent alone")
    axes.set(xlabel="steps in the environment", ylabel="expected cost of an episode, exact", xscale="log")
    axes.legend(frameon=False, fontsize=8)
    picture.savefig(out, dpi=150)
    print(f"picture: {out}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=10_000)
    options.add_argument("--out", type=Path, default=Path("against-sb3.png"))
    given = options.parse_args()
    main(given.steps, given.out)
