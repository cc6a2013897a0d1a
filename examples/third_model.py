"""A third model joins a support desk after half of the tickets: a learner that it joins, and one that begins anew with three.

python examples/third_model.py --episodes 2000 --repeats 12 --out third-model.png
"""

import argparse
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cede

NEW, LIKE = "large model", "small model"
COLOURS = {"begins anew": "#999999", "add_agent": "#56B4E9", f'add_agent(like="{LIKE}")': "#0072B2"}


def desk(names):
    """Return the support desk with these agents, in this order."""
    whole = cede.worlds.support_desk()
    chosen = [whole.task.agents.index(name) for name in names]
    team = cede.Team([whole.team.agents[i] for i in chosen], whole.team.switch_cost[np.ix_(chosen, chosen)])
    return replace(whole, team=team, start_agent=names[0])


def regrets(episodes, seed):
    """Return the regret of each way in the second half of the episodes, cumulative, by its label."""
    before, after = desk(["small model", "person"]), desk(["small model", "person", NEW])
    agent, names = after.team.agents[2], after.task.agents
    hand_overs = {(a, b): after.team.switch_cost[names.index(a), names.index(b)] for a in names for b in names if NEW in (a, b)}
    result = {}
    for label in COLOURS:
        if label == "begins anew":
            learner = cede.recommended(after.task, seed=seed)
        else:
            learner = cede.recommended(before.task, seed=seed)
            cede.simulate(before, learner, episodes // 2, seed=seed, progress=False)
            like = LIKE if "like" in label else None
            learner.add_agent(NEW, control_cost=agent.control_cost, switch_cost=hand_overs, like=like)
        result[label] = cede.simulate(after, learner, episodes // 2, seed=1000 + seed, progress=False).regret
    return result


def main(episodes, repeats, out):
    runs = [regrets(episodes, seed) for seed in range(repeats)]
    means = {label: np.mean([run[label] for run in runs], axis=0) for label in COLOURS}
    for label, mean in means.items():
        print(f"{label}: regret {mean[-1]:.1f} after joining, {mean[-1] / means['begins anew'][-1]:.0%} of beginning anew")
    picture, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    for label, mean in means.items():
        axis.plot(episodes // 2 + np.arange(1, len(mean) + 1), mean, color=COLOURS[label], label=label)
    axis.set(title="A third model joins the support desk", xlabel="ticket", ylabel="regret since it joined")
    axis.legend(frameon=False)
    picture.savefig(out, dpi=150)
    print(f"picture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path("third-model.png"))
    main(**vars(parser.parse_args()))
