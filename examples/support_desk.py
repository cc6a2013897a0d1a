"""A support desk: a cheap model, an expensive model and a person answer tickets, with a limit on the person's share.

A hand-over costs something, and the person may take at most one step in twenty. A ticket ends when it is solved or when the
customer leaves. The cost of waiting is unknown: it is measured and learned.

    python examples/support_desk.py --episodes 4000 --out support-desk.png
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cede

CAP = 0.05
NAMES = ("small model", "large model", "person")
COLOURS = ("#56B4E9", "#0072B2", "#E69F00")


def main(episodes, out, seed=0):
    mdp = cede.worlds.support_desk()
    task, runs = mdp.task.with_unknown_costs((0.0, 0.5)), {}  # the cost of waiting is unknown
    for label, limits in (("no cap", {}), (f"person at most {CAP:.0%}", {"at_most": {"person": CAP}})):
        learner = cede.posterior_sampling(task, seed=seed, **limits)
        runs[label] = (learner, cede.simulate(mdp, learner, episodes, seed=seed))
        steps = runs[label][1].control[-episodes // 2 :].sum(axis=0)
        share = steps / steps.sum()
        cost = runs[label][1].expected_cost[-episodes // 2 :].mean()
        shares = ", ".join(f"{n} {x:.1%}" for n, x in zip(NAMES, share, strict=True))
        print(f"{label}: cost of a ticket {cost:.3f} (best possible {runs[label][1].optimum:.3f}); {shares}")
    learner = runs[f"person at most {CAP:.0%}"][0]
    print(
        f"to let a nasty ticket wait costs {learner.costs.mean[mdp.environment.state_names.index('nasty, 0 wrong answers'), 0]:.2f}"
    )
    print(cede.explain(learner, t=0, state=mdp.environment.state_names.index("nasty, 0 wrong answers"), prev_agent="small model"))

    picture, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained", width_ratios=(1.3, 1))
    open_states = len(mdp.environment.state_names) - 2
    bottom = np.zeros(2 * open_states)
    rows = [(s, label) for s in range(open_states) for label in runs]
    for agent, name in enumerate(NAMES):
        parts = [np.mean(runs[label][0].plan.policy[:3, s, 0] == agent) for s, label in rows]
        left.barh(range(len(rows)), parts, left=bottom, color=COLOURS[agent], label=name)
        bottom += parts
    names = [f"{mdp.environment.state_names[s]}, {'cap' if i else 'no cap'}" for s in range(open_states) for i in range(2)]
    left.set_yticks(range(len(rows)), names, fontsize=6)
    left.invert_yaxis()
    left.set(title="who gets the ticket from the small model", xlabel="part of the first three steps")
    left.legend(frameon=False, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)
    for (label, (_, history)), line in zip(runs.items(), ("--", "-"), strict=True):
        so_far = np.cumsum(history.control[:, 2]) / np.cumsum(history.control.sum(axis=1))
        right.plot(np.arange(1, episodes + 1), so_far, color=COLOURS[2], linestyle=line, label=label)
    right.axhline(CAP, color="#555555", linewidth=0.8)
    right.set(title="share of the person so far", xlabel="ticket", xscale="log", ylim=(0, None))
    right.legend(frameon=False, fontsize=8)
    picture.savefig(out, dpi=150)
    print(f"picture: {out}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--episodes", type=int, default=4000)
    options.add_argument("--out", type=Path, default=Path("support-desk.png"))
    given = options.parse_args()
    main(given.episodes, given.out)
