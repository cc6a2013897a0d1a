"""Compare bandits, which route a ticket once, with learners that may hand it on: regret, and cost in the long run.

There are two bandits, UCB1 and Thompson sampling, each with a table for each kind of ticket. They are custom learners: any object
with `choose`, `observe` and `end_episode` runs in `cede.simulate`, and one with a `policy` has an exact regret.

    python examples/routing.py --episodes 5000 --repeats 20 --out routing.png
"""

import argparse
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cede

COLOURS = {"UCB1": "#777777", "Thompson": "#009E73", "recommended": "#D55E00", "posterior sampling": "#0072B2"}
MARKS = (300, 1000, 3000, 5000)


class RoutesOnce:
    """Assign each ticket to one agent, the best one for its kind. Subclasses define which agent is best."""

    def __init__(self, task, seed=0):
        self.task, self.episode, self.rng = task, 1, np.random.default_rng(seed)
        self.tried, self.spent = np.zeros((task.n_states, task.n_agents)), np.zeros((task.n_states, task.n_agents))
        self.first, self.total = None, 0.0
        self.policy = self.next_policy()

    def next_policy(self):
        """(L, S, D): at first the best agent by the data, then the agent that has the ticket."""
        stays = np.tile(np.arange(self.task.n_agents), (*self.task.policy_shape[:2], 1))
        stays[0] = self.looks().argmin(axis=1)[:, None]
        return stays

    def choose(self, t, state, prev_agent):
        return int(self.policy[t, state, prev_agent])

    def observe(self, t, state, prev_agent, agent, action, next_state, *, cost, enter_cost):
        self.first = (state, agent) if t == 0 else self.first
        self.total += self.task.step_cost(state, prev_agent, agent, cost, enter_cost)

    def end_episode(self):
        self.tried[self.first] += 1
        self.spent[self.first] += self.total
        self.total, self.episode = 0.0, self.episode + 1
        self.policy = self.next_policy()


class UCB1(RoutesOnce):
    """UCB1: mean cost so far minus a bonus for rarely tried agents; each agent is tried once first."""

    def looks(self):
        tried = np.maximum(self.tried, 1)
        return np.where(self.tried > 0, self.spent / tried - np.sqrt(0.5 * np.log(self.episode + 1) / tried), -np.inf)


class Thompson(RoutesOnce):
    """Thompson sampling: a mean cost drawn from a normal posterior; prior: one ticket of cost 0. spread: of a ticket's cost."""

    def __init__(self, task, seed=0, spread=0.25):
        self.spread = spread
        super().__init__(task, seed)

    def looks(self):
        return self.rng.normal(self.spent / (self.tried + 1), self.spread / np.sqrt(self.tried + 1))


def best_that_routes_once(mdp):
    """Return the least cost of a ticket if each kind always goes to one agent."""
    task, start = mdp.task, mdp.environment.start
    value = [cede.evaluate(mdp, task.always(agent))[0, :, task.start_agent] for agent in range(task.n_agents)]
    kinds = np.flatnonzero(start)
    return min(
        sum(start[s] * value[a][s] for s, a in zip(kinds, some, strict=True)) for some in product(range(3), repeat=len(kinds))
    )


def main(episodes, repeats, out):
    mdp = cede.worlds.support_desk()
    learners = {
        "UCB1": lambda seed: UCB1(mdp.task),
        "Thompson": lambda seed: Thompson(mdp.task, seed),
        "recommended": lambda seed: cede.recommended(mdp.task, seed=seed),
        "posterior sampling": lambda seed: cede.posterior_sampling(mdp.task, seed=seed),
    }
    for name in mdp.task.members:
        print(f"{name} alone: {cede.expected_cost(mdp, mdp.task.always(name)):.3f} a ticket")
    optimum = cede.expected_cost(mdp, cede.solve(mdp))
    print(f"best that routes once: {best_that_routes_once(mdp):.3f}; best that may hand on: {optimum:.3f}")
    picture, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    ends = {}
    for name, make in learners.items():
        runs = np.array([cede.simulate(mdp, make(s), episodes, seed=s).regret for s in range(repeats)])
        regret, error = runs.mean(axis=0), runs.std(axis=0, ddof=min(1, repeats - 1)) / np.sqrt(repeats)
        marks = [k for k in MARKS if k <= episodes]
        print(f"{name}: regret " + ", ".join(f"{regret[k - 1]:.0f} ± {error[k - 1]:.0f} after {k:,}" for k in marks))
        axes.plot(np.arange(1, episodes + 1), regret, color=COLOURS[name])
        ends[name] = regret[-1]
    apart, height = 0.06 * max(ends.values()), -np.inf
    for name in sorted(ends, key=ends.get):  # labels at the ends of the curves, without overlap
        height = max(ends[name], height + apart)
        axes.text(1.02 * episodes, height, name, va="center", color=COLOURS[name], fontsize=8)
    axes.set(xlabel="tickets", ylabel="total cost above the best possible", xlim=(0, episodes), ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    picture.savefig(out, dpi=150)
    print(f"picture: {out}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--episodes", type=int, default=5000)
    options.add_argument("--repeats", type=int, default=20)
    options.add_argument("--out", type=Path, default=Path("routing.png"))
    main(**vars(options.parse_args()))
