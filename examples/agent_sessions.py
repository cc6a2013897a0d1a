"""Route the turns of agents' sessions among models: fifty sessions at once, verdicts that come late, a tool call that must not be
interrupted, a prompt cache that is lost at a hand-over, and a fourth model that joins half-way.

A turn is good or bad; whether the user minds is known later, sometimes much later. Beside the learner: one model always; sticky,
the next larger model after two failures; myopic, which knows all probabilities and prices and minimises the cost of the turn; and a
contextual bandit (UCB1 for each state), which learns the cost of a turn. All prices are in cents; they are made up.

    python examples/agent_sessions.py --sessions 3000 --repeats 3 --out agent_sessions.png
"""

import argparse
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cede

MODELS = ("small", "medium", "large", "newcomer")
PRICE = {"small": 0.2, "medium": 0.8, "large": 3.0, "newcomer": 1.2}  # of a turn with a short context; three times that if long
CACHE = {"small": 0.2, "medium": 1.0, "large": 4.0, "newcomer": 1.5}  # of reading a long context anew; a quarter if short
GOOD = {"small": (0.85, 0.30), "medium": (0.92, 0.60), "large": (0.97, 0.90), "newcomer": (0.95, 0.85)}  # easy tasks, hard ones
BAD_TURN, MINDS = 10.0, (0.02, 0.8)  # cents, if the user minds; how often after a good turn and after a bad one
HORIZON, LATE, DELAY = 12, 0.1, 2000  # turns; the share of late verdicts, and by how many turns of all sessions at most
STATES = [*product(("think", "tool call open"), ("easy", "hard"), (0, 1, 2), ("short", "long")), "done"]
NAMES = [", ".join(map(str, one)) if isinstance(one, tuple) else one for one in STATES]


def environment():
    """Return what follows a good turn (action 0) and a bad one (action 1)."""
    index, n = {state: s for s, state in enumerate(STATES)}, len(STATES)
    transition = np.zeros((n, 2, n))
    transition[-1, :, -1] = 1.0
    for s, (phase, task, failures, context) in enumerate(STATES[:-1]):
        for longer, p in ((context, 0.7), ("long", 0.3)):
            finished, call = (0.3 if phase == "think" else 0.1), (0.4 if phase == "think" else 0.0)
            transition[s, 0, -1] += p * finished
            transition[s, 0, index["tool call open", task, 0, longer]] += p * call
            transition[s, 0, index["think", task, 0, longer]] += p * (1 - finished - call)
            for harder, q in ((task, 0.75), ("hard", 0.25)):  # an attempt shows how difficult a task is
                transition[s, 1, index["think", harder, min(failures + 1, 2), longer]] += p * q
    start = np.zeros(n)
    start[index["think", "easy", 0, "short"]], start[index["think", "hard", 0, "short"]] = 0.7, 0.3
    quantiles = np.arange(50) / 50  # a verdict is random: (S, A, Q)
    costs = np.stack([np.where(quantiles < minds, BAD_TURN, 0.0) for minds in MINDS])
    costs = np.tile(costs, (n, 1, 1))
    costs[-1] = 0.0
    return cede.Environment(transition, costs, start, terminal=["done"], state_names=NAMES, action_names=["good", "bad"])


def of_model(name):
    """Return policy, prices and prices of its cache, by state."""
    policy, price, cache = np.full((len(STATES), 2), 0.5), np.zeros(len(STATES)), np.zeros(len(STATES))
    for s, (_, task, failures, context) in enumerate(STATES[:-1]):
        good = GOOD[name][task == "hard"] - 0.1 * failures * (name == "small")  # the small one repeats its mistakes
        policy[s], price[s] = (good, 1 - good), PRICE[name] * (3 if context == "long" else 1)
        cache[s] = CACHE[name] * (1 if context == "long" else 0.25)
    return policy, price, cache


def problem(names):
    """Return the problem with these models; a model with an open tool call keeps control."""
    parts = [of_model(name) for name in names]
    caches = np.stack([np.where(np.arange(len(names)) == d, 0.0, cache[:, None]) for d, (*_, cache) in enumerate(parts)], axis=2)
    agents = [cede.Agent(name, policy, price) for name, (policy, price, _) in zip(names, parts, strict=True)]
    is_open = np.array([state[0] == "tool call open" for state in STATES])
    free = ~is_open[:, None, None] | np.eye(len(names), dtype=bool)
    return cede.TwoLayerMDP(environment(), cede.Team(agents, caches, can_switch=free), HORIZON)


def rules(mdp):
    """Return the simple rivals as policies, by name."""
    task, d = mdp.task, mdp.task.n_agents
    result = {f"always {name}": task.rule(lambda t, s, prev, name=name: name) for name in task.agents}
    larger = dict(zip(("small", "medium", "large", "newcomer"), ("medium", "large", "large", "large"), strict=True))
    result["sticky"] = task.rule(lambda t, s, prev: larger[prev] if ", 2, " in s else prev)
    at_once = np.stack([agent.policy @ (BAD_TURN * np.array(MINDS)) for agent in mdp.team.agents], axis=1)  # (S, D)
    at_once = (task.control_cost + at_once)[:, None, :] + task.switch_cost.reshape(-1, d, d)
    result["myopic, knows all"] = np.broadcast_to(at_once.argmin(axis=2).astype(np.int16), task.policy_shape)
    return result


class Bandit:
    """UCB1 for each state: the cost of a turn, with the verdict when it comes."""

    def __init__(self, task):
        self.task, self.turns = task, 0
        self.n, self.sums = (np.zeros((task.n_states, task.n_agents)) for _ in range(2))

    def choose(self, state, prev):
        switching = self.task.switch_cost[state, prev]
        look = self.task.control_cost[state] + switching
        verdict = self.sums[state] / np.maximum(self.n[state], 1)
        width = BAD_TURN * np.sqrt(0.5 * np.log(self.turns + 2) / np.maximum(self.n[state], 1))
        return int(np.argmin(look + np.where(self.n[state] > 0, np.maximum(verdict - width, 0.0), 0.0)))

    def join(self, task):
        self.task = task
        self.n, self.sums = (np.column_stack([table, np.zeros(task.n_states)]) for table in (self.n, self.sums))


def play(router, sessions, seed, at_once=50):
    """Play all sessions, `at_once` of them interleaved; return the cost of each, (sessions,), in the order in which they begin.

    router: a cede learner or a Bandit. The newcomer joins after half of them.
    """
    rng, mdp, joined = np.random.default_rng(seed), problem(MODELS[:3]), False
    learns = isinstance(router, cede.Learner)
    world, cost, running, late, begun, turn = mdp.environment.transition, np.zeros(sessions), {}, [], 0, 0
    chances = np.cumsum(world.toarray().reshape(-1, 2, len(STATES)) if hasattr(world, "toarray") else world, axis=-1)
    while begun < sessions or running:
        if not joined and begun >= sessions // 2 and not running:  # all sessions of the team of three are over
            joined, mdp = True, problem(MODELS)
            last = mdp.team.agents[3]
            caches = {(name, "newcomer"): mdp.task.switch_cost[:, d, 3] for d, name in enumerate(MODELS[:3])}
            caches |= {("newcomer", name): mdp.task.switch_cost[:, 3, d] for d, name in enumerate(MODELS[:3])}
            if learns:
                router.add_agent("newcomer", control_cost=last.control_cost, switch_cost=caches, like="medium")
            else:
                router.join(mdp.task)
        while len(running) < at_once and begun < (sessions if joined else sessions // 2):
            state = int(rng.choice(len(STATES), p=mdp.environment.start))
            running[begun] = [router.session(f"s-{begun}") if learns else None, state, 0, 0]  # state, previous model, t
            begun += 1
        number = list(running)[int(rng.integers(len(running)))]
        session, state, prev, t = running[number]
        model = int(session.choose(state)) if learns else router.choose(state, prev)
        bad = int(rng.random() > mdp.team.agents[model].policy[state, 0])
        to = int(np.searchsorted(chances[state, bad], rng.random() * chances[state, bad, -1], side="right"))
        verdict = BAD_TURN * (rng.random() < MINDS[bad])
        cost[number] += mdp.task.control_cost[state, model] + mdp.task.switch_cost[state, prev, model] + verdict
        comes, turn = turn + (int(rng.integers(DELAY)) if rng.random() < LATE else 0), turn + 1
        if learns:
            session.observe(bad, to, cost=verdict if comes < turn else None)
        late.append((comes, f"s-{number}", t, state, model, verdict, comes < turn))
        running[number][1:] = [to, model, t + 1]
        if to == len(STATES) - 1 or t + 1 == HORIZON:
            if learns:
                session.end()
            del running[number]
        due, late = [one for one in late if one[0] < turn], [one for one in late if one[0] >= turn]
        for _, key, when, s, d, value, told in due:
            if not learns:
                router.turns, router.n[s, d], router.sums[s, d] = router.turns + 1, router.n[s, d] + 1, router.sums[s, d] + value
            elif not told:
                router.amend(key, when, cost=value)
    return cost


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sessions", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("agent_sessions.png"))
    told = parser.parse_args()
    halves = [problem(MODELS[:3]), problem(MODELS)]
    rows = {name: [] for name in rules(halves[0])}
    for mdp in halves:
        for name, policy in rules(mdp).items():
            rows.setdefault(name, [np.nan]).append(cede.expected_cost(mdp, policy))
    rows["best (knows all)"] = [cede.expected_cost(mdp, cede.solve(mdp)) for mdp in halves]
    curves, errors = {}, {}
    for name in ("bandit", "cede"):
        runs = []
        for seed in range(told.repeats):
            task = problem(MODELS[:3]).task
            router = Bandit(task) if name == "bandit" else cede.recommended(task.with_unknown_costs((0.0, BAD_TURN)), seed=seed)
            runs.append(play(router, told.sessions, seed))
        curves[name] = np.array(runs)
        half, last = told.sessions // 2, told.sessions // 6  # the last third of each half
        ends = curves[name][:, half - last : half], curves[name][:, -last:]
        rows[f"{name}, learns"] = [end.mean() for end in ends]
        errors[f"{name}, learns"] = [end.std() / np.sqrt(end.size) for end in ends]
    print(f"{'cents a session':22s} {'three models':>14s} {'four models':>14s}")
    for name, numbers in sorted(rows.items(), key=lambda row: row[1][1]):
        parts = [f"{x:.2f}" + (f" +- {errors[name][i]:.2f}" if name in errors else "") for i, x in enumerate(numbers)]
        print(f"{name:22s} {parts[0].replace('nan', ''):>14s} {parts[1]:>14s}")
    print("Rules: exact costs. Those that learn: what the last third of their sessions cost, +- its standard error.")
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for (name, runs), colour in zip(curves.items(), ("#777777", "#D55E00"), strict=True):
        window = max(1, told.sessions // 20)
        mean = np.convolve(runs.mean(axis=0), np.ones(window) / window, mode="valid")
        axes.plot(np.arange(len(mean)) + window, mean, color=colour, label=name)
    for name, style in (("best (knows all)", "-"), ("myopic, knows all", "--"), ("sticky", ":")):
        before, after = rows[name]
        axes.plot(
            [0, told.sessions / 2, told.sessions / 2, told.sessions], [before, before, after, after], "k" + style, lw=1, label=name
        )
    axes.set(
        xlabel="session", ylabel="cents a session (moving mean)", title="Fifty sessions at once; a fourth model joins half-way"
    )
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, ncols=2)
    figure.savefig(told.out, dpi=150)
    print(f"{told.out} written")


if __name__ == "__main__":
    main()
