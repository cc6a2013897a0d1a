"""A trained model and an expert with a control cost balance a pole together; cede learns when to call the expert.

    pip install "cede[gym,plots,sb3]"
    python examples/cart_pole.py --episodes 400 --out cart-pole.png

The model is PPO of Stable-Baselines3 after a short training. Without Stable-Baselines3 a simple rule replaces it.
"""

import argparse
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import cede

HORIZON, EXPERT_COST = 25, 0.02


def expert(observation):
    """Push in the direction in which the pole falls, and a little towards the middle."""
    x, speed, angle, turning = observation
    return int(angle + 0.25 * turning + 0.02 * x + 0.05 * speed > 0)


def model(steps, seed):
    """Return a model after a short training."""
    try:
        from stable_baselines3 import PPO
    except ImportError:
        print('Stable-Baselines3 is not installed (pip install "cede[sb3]"): a rule that sees no speeds stands in for the model.')
        return cede.gym.actor("model", lambda observation: int(observation[2] > 0), sees="observation")
    net = PPO("MlpPolicy", "CartPole-v1", seed=seed, n_steps=512, device="cpu").learn(steps)
    return cede.gym.agent_from_sb3(net, name="model")


def main(episodes, out, training=4000, seed=0):
    env = gymnasium.make("CartPole-v1", max_episode_steps=200)
    team = [model(training, seed), cede.gym.actor("expert", expert, sees="observation")]
    labels = ["x", "speed", "angle", "turning"]
    bins = cede.gym.uniform_bins([-2.4, -2, -0.2, -2], [2.4, 2, 0.2, 2], [1, 1, 8, 8], labels=labels)
    task = cede.gym.task_for(
        env,
        ["model", "expert"],
        HORIZON,
        encode=bins,
        cost=0.0,
        over_cost=1.0,
        control_cost=[0.0, EXPERT_COST],
        start_agent="expert",
    )
    told = {"encode": bins, "seed": seed, "progress": False}
    alone = {n: cede.gym.run(env, team, cede.fixed(task, n), episodes=max(5, episodes // 20), **told) for n in task.agents}
    learner, watching = cede.posterior_sampling(task, seed=seed), max(5, episodes // 10)
    runs = [  # as today, the expert in control and the learner watching; then the learner decides
        cede.gym.run(env, team, learner, episodes=watching, override=lambda t, state, prev, chosen: 1, **told),
        cede.gym.run(env, team, learner, episodes=episodes, **{**told, "seed": seed + 1}),
    ]
    returns, lengths = (np.concatenate([getattr(run, name) for run in runs]) for name in ("returns", "lengths"))
    share = np.concatenate([run.control[:, 1] for run in runs]) / lengths
    for name, run in alone.items():
        print(f"{name} alone: {run.returns.mean():.0f} steps")
    for label, part in (("as today", slice(watching)), ("the learner decides, last half", slice(-episodes // 2, None))):
        print(f"{label}: {returns[part].mean():.0f} steps, {share[part].mean():.0%} of them by the expert")

    window = max(1, episodes // 20)
    picture, (upper, lower) = plt.subplots(2, 1, figsize=(6.5, 4.6), sharex=True, layout="constrained")
    upper.plot(smooth(returns, window), color="#D55E00", label="together")
    for (name, run), line in zip(alone.items(), (":", "--"), strict=True):
        upper.axhline(run.returns.mean(), color="#555555", linestyle=line, label=f"{name} alone")
    upper.set(ylabel="return (steps)", ylim=(0, 210))
    upper.legend(frameon=False, fontsize=8)
    lower.plot(smooth(share, window), color="#0072B2")
    lower.axvline(watching, color="#555555", linewidth=0.8)
    lower.annotate("the learner decides from here on", (watching, 0.9), xytext=(5, 0), textcoords="offset points", fontsize=8)
    lower.set(ylabel="share of the expert", xlabel="episode", ylim=(0, 1.02))
    picture.savefig(out, dpi=150)
    print(f"picture: {out}")


def smooth(values, window):
    """Return means over the last episodes."""
    total = np.cumsum(np.concatenate([[0.0], values]))
    begin = np.maximum(np.arange(len(values)) - window + 1, 0)
    return (total[1:] - total[begin]) / (np.arange(len(values)) + 1 - begin)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--episodes", type=int, default=400)
    options.add_argument("--training", type=int, default=4000, help="steps of PPO")
    options.add_argument("--out", type=Path, default=Path("cart-pole.png"))
    given = options.parse_args()
    main(given.episodes, given.out, given.training)
