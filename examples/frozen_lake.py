"""A careful, a fast and a random walker share one way over FrozenLake, and cede learns who should walk where.

python examples/frozen_lake.py --episodes 3000 --out frozen-lake.png
"""

import argparse
from pathlib import Path

import gymnasium
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import cede

COLOURS = {"careful": "#0072B2", "fast": "#E69F00", "random": "#999999"}
HORIZON = 40


def walkers(env):
    """Return the walkers: the careful one avoids holes and has a control cost, the fast one heads for the goal."""
    model, size = env.unwrapped.P, env.unwrapped.nrow
    n, holes = size * size, set(np.flatnonzero(env.unwrapped.desc.ravel() == b"H").tolist())

    def into_holes(s, a):
        return sum(p for p, to, _, _ in model[s][a] if to in holes)

    def away(s, a):
        """Return the expected remaining distance, along rows and columns."""
        return sum(p * (2 * size - 2 - to // size - to % size) for p, to, _, _ in model[s][a])

    def careful(s):
        return min(range(4), key=lambda a: (into_holes(s, a), away(s, a)))

    def fast(s):
        return min(range(4), key=lambda a: away(s, a))

    return [
        cede.gym.tabulated("careful", careful, n, 4, control_cost=0.002),
        cede.gym.tabulated("fast", fast, n, 4),
        cede.gym.tabulated("random", lambda s: np.full(4, 0.25), n, 4),
    ]


def main(episodes, out, seed=0):
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    mdp = cede.gym.from_toy_text(env, walkers(env), HORIZON, switch_cost=0.005)
    learner = cede.posterior_sampling(mdp.task, seed=seed)
    history = cede.simulate(mdp, learner, episodes, seed=seed)
    for i, name in enumerate(mdp.task.agents):
        print(f"{name} alone: {-cede.expected_cost(mdp, mdp.task.always(i)):.3f} gifts, less costs")
    print(f"together, learned: {-history.expected_cost[-episodes // 10 :].mean():.3f}; the best possible: {-history.optimum:.3f}")
    print(cede.explain(learner, t=0, state=0, prev_agent="fast"))

    letters, size = env.unwrapped.desc.astype(str), env.unwrapped.nrow
    plan = learner.plan.policy[:, : size * size]
    picture, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.8), layout="constrained")
    often = [np.bincount(plan[: HORIZON // 2, s].ravel(), minlength=3).argmax() for s in range(size * size)]
    who = np.array(often).reshape(size, size)
    left.imshow(np.ma.masked_where(np.isin(letters, ["H", "G"]), who), cmap=ListedColormap(list(COLOURS.values())), vmin=0, vmax=2)
    for row, column in np.ndindex(size, size):
        text = {"H": "hole", "G": "gift", "S": "start"}.get(letters[row, column], mdp.task.agents[who[row, column]])
        light = letters[row, column] in "FS" and text != "random"
        left.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if light else "black")
    left.set(title="who walks where, most of the time", xticks=[], yticks=[])
    share = np.cumsum(history.control, axis=0) / np.cumsum(history.control.sum(axis=1))[:, None]
    for name, line in zip(history.agents, share.T, strict=True):
        right.plot(np.arange(1, episodes + 1), line, color=COLOURS[name], label=name)
    right.set(title="share of all steps so far, those after the end too", xlabel="episode", ylim=(0, 1), xscale="log")
    right.legend(frameon=False)
    picture.savefig(out, dpi=150)
    print(f"picture: {out}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--episodes", type=int, default=3000)
    options.add_argument("--out", type=Path, default=Path("frozen-lake.png"))
    given = options.parse_args()
    main(given.episodes, given.out)
