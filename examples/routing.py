"""Route a ticket once, as a bandit does, or hand it on while it is answered: what each learns, and what each costs in the long run.

The bandit is UCB1 with a table of its own for each kind of ticket. It is a learner written by hand: anything with `choose`,
`observe` and `end_episode` runs in `cede.simulate`.

    python examples/routing.py --episodes 5000 --repeats 10 --out routing.png
"""

import argparse
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cede

COLOURS = {"bandit": "#777777", "recommended": "#D55E00", "posterior sampling": "#0072B2"}


class RoutesOnce:
    """Gives a ticket to one agent for good: to the one that looks best for its kind, with a bonus for those tried seldom (UCB1)."""

    def __init__(self, task, width=0.5):
        self.task, self.width, self.episode = task, width, 1
        self.tried, self.spent = np.zeros((task.n_states, task.n_agents)), np.zeros((task.n_states, task.n_agents))
        self.first, self.total = None, 0.0

    @property
    def policy(self):
        """(L, S, D): at first the one that looks best, then whoever has it."""
        with np.errstate(divide="ignore", invalid="ignore"):
            looks = self.spent / self.tried - np.sqrt(self.width * np.log(self.episode + 1) / self.tried)
        stays = np.tile(np.arange(self.task.n_agents), (*self.task.policy_shape[:2], 1))
        stays[0] = np.where(self.tried > 0, looks, -np.inf).argmin(axis=1)[:, None]
        return stays

    def choose(self, t, state, prev_agent):
        return int(self.policy[t, state, prev_agent]) if t == 0 else prev_agent

    def observe(self, t, state, prev_agent, agent, action, next_state, *, cost, enter_cost):
        self.first = (state, agent) if t == 0 else self.first
        self.total += self.task.step_cost(state, prev_agent, agent, cost, enter_cost)

    def end_episode(self):
        self.tried[self.first] += 1
        self.spent[self.first] += self.total
        self.total, self.episode = 0.0, self.episode + 1


def best_that_routes_once(mdp):
    """The least cost of a ticket if each kind goes to one agent for good."""
    task, start = mdp.task, mdp.environment.start
    value = [cede.evaluate(mdp, task.always(agent))[0, :, task.start_agent] for agent in range(task.n_agents)]
    kinds = np.flatnonzero(start)
    return min(
        sum(start[s] * value[a][s] for s, a in zip(kinds, some, strict=True)) for some in product(range(3), repeat=len(kinds))
    )


def main(episodes, repeats, out):
    mdp = cede.worlds.support_desk()
    learners = {
        "bandit": lambda seed: RoutesOnce(mdp.task),
        "recommended": lambda seed: cede.recommended(mdp.task, seed=seed),
        "posterior sampling": lambda seed: cede.posterior_sampling(mdp.task, seed=seed),
    }
    for name in mdp.task.members:
        print(f"{name} alone: {cede.expected_cost(mdp, mdp.task.always(name)):.3f} a ticket")
    optimum = cede.expected_cost(mdp, cede.solve(mdp))
    print(f"best that routes once: {best_that_routes_once(mdp):.3f}; best that may hand on: {optimum:.3f}")
    picture, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for name, make in learners.items():
        runs = [cede.simulate(mdp, make(s), episodes, seed=s, evaluate_every=20 if name == "bandit" else 1) for s in range(repeats)]
        regret = np.mean([run.regret for run in runs], axis=0)
        marks = [k for k in (300, 1000, 2000, 5000) if k <= episodes]
        print(f"{name}: regret " + ", ".join(f"{regret[k - 1]:.0f} after {k:,}" for k in marks))
        axes.plot(np.arange(1, episodes + 1), regret, color=COLOURS[name])
        axes.annotate(
            name, (episodes, regret[-1]), (4, 0), textcoords="offset points", va="center", color=COLOURS[name], fontsize=8
        )
    axes.set(xlabel="tickets", ylabel="total cost above the best possible", xlim=(0, 1.25 * episodes), ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    picture.savefig(out, dpi=150)
    print(f"picture: {out}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--episodes", type=int, default=5000)
    options.add_argument("--repeats", type=int, default=10)
    options.add_argument("--out", type=Path, default=Path("routing.png"))
    main(**vars(options.parse_args()))
