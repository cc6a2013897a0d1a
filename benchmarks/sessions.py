"""Many sessions at once: what they cost beside one after another, how long a choice takes, and that threads lose nothing.

    python benchmarks/sessions.py [--episodes N] [--seeds N] [--at-once N ...] [--open N] [--quick]

Of every choice it adds what it costs more than the best one, in the long run, under the true model: its regret. The problem is the
support desk with a cost of waiting that is learned, the learner `recommended`. Sessions take their steps in a random order. When
one ends, the next begins.
"""

import argparse
import threading
import time
import timeit
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import cede
from cede.planning.passes import start_cost


def values_of_choices(mdp: cede.TwoLayerMDP) -> tuple[np.ndarray, np.ndarray]:
    """Return the least cost from each place on, (L, S, D), and that of each agent that is chosen there, (L, S, D, D)."""
    task, value = mdp.task, cede.solve(mdp).value
    after = task.layout.factor * value[1:] + (0.0 if task.enter_cost is None else task.enter_cost[:, None])
    transition = mdp.environment.transition.toarray().reshape(task.n_states, task.n_actions, -1)
    policies = np.stack([agent.policy for agent in mdp.team.agents])
    ahead = np.einsum("dsa,sa->sd", policies, mdp.environment.cost) + np.einsum("dsa,sax,txd->tsd", policies, transition, after)
    control, switching = task.control_cost + np.zeros(ahead.shape[1:]), task.switch_cost + np.zeros((task.n_states, 1, 1))
    return value[:-1], (control + ahead)[:, :, None, :] + switching


def regret(mdp: cede.TwoLayerMDP, episodes: int, at_once: int, seed: int) -> float:
    """Return the regret of all episodes of a new learner that has so many sessions open at once."""
    task, rng = mdp.task, np.random.default_rng(seed)
    value, choices = values_of_choices(mdp)
    learner = cede.recommended(task.with_unknown_costs((0.0, 0.5)), seed=seed)
    chances = mdp.environment.transition.toarray().reshape(task.n_states, task.n_actions, -1).cumsum(axis=2)
    acts = [agent.policy.cumsum(axis=1) for agent in mdp.team.agents]
    starts, states, opened, total = mdp.environment.start.cumsum(), {}, 0, 0.0
    while opened < episodes or states:
        while opened < episodes and len(states) < at_once:
            states[f"s{opened}"] = int(np.searchsorted(starts, rng.random()))
            opened += 1
        key = list(states)[int(rng.integers(len(states)))]
        session, state = learner.session(key), states[key]
        t, prev, agent = session.t, session.prev_agent, session.choose(state)
        total += float(choices[t, state, prev, agent] - value[t, state, prev])
        action = int(np.searchsorted(acts[agent][state], rng.random()))
        to = int(np.searchsorted(chances[state, action], rng.random()))
        cost = float(mdp.environment.cost[state, action])
        session.observe(action, to, cost if np.isnan(learner.task.env_cost[state, action]) else None)
        states[key] = to
        if session.t == task.horizon or task.is_terminal[to]:
            session.end()
            del states[key]
    return total


def compare(episodes: int, seeds: int, numbers: list[int]) -> None:
    mdp = cede.worlds.support_desk()
    best = episodes * start_cost(mdp, cede.solve(mdp).value)
    print(f"support desk, {episodes} episodes, {seeds} seeds; best possible {best:.1f}")
    alone = np.array([regret(mdp, episodes, 1, seed) for seed in range(seeds)])
    print(f"one after another: {best + alone.mean():.1f}")
    for n in numbers:
        together = np.array([regret(mdp, episodes, n, seed) for seed in range(seeds)])
        more = (together - alone) / (best + alone.mean())
        error = 2 * more.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else float("nan")
        print(f"{n} at once: {best + together.mean():.1f}, {more.mean():+.2%} (+- {error:.2%})")


def choice_time() -> None:
    for name, mdp in (("support desk", cede.worlds.support_desk()), ("riverswim", cede.worlds.riverswim())):
        session = cede.recommended(mdp.task).session("s")
        session.choose(0)
        seconds = min(timeit.repeat(lambda session=session: session.choose(0), number=100, repeat=500)) / 100
        print(f"a choice in the {name}: {seconds * 1e6:.1f} us")


def threads(most: int, number: int = 8) -> None:
    mdp = cede.worlds.riverswim()
    learner, barrier = cede.ucrl2_mc(mdp.task, replan="doubling"), threading.Barrier(number)
    learner.limit_sessions(most=most)
    horizon = mdp.horizon

    def work(thread: int) -> None:
        rng, keys = np.random.default_rng(thread), [f"{thread}/{i}" for i in range(most // number)]
        for key in keys:
            learner.session(key)
        barrier.wait()
        for _ in range(horizon):
            for key in keys:
                session = learner.session(key)
                session.choose(session.state or 0)
                session.observe(int(rng.integers(2)), int(rng.integers(6)), moved=True)
        barrier.wait()
        for key in keys:
            learner.session(key).end()

    begin, many = time.perf_counter(), most // number * number
    with ThreadPoolExecutor(number) as pool:
        list(pool.map(work, range(number)))
    seconds, counts = time.perf_counter() - begin, learner.counts
    assert counts.agents.sum() == counts.environment.sum() == horizon * many
    assert counts.starts.sum() == many == learner.episode - 1
    print(f"{number} threads, {many} open sessions, {horizon * many} steps in {seconds:.1f} s: nothing lost")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--at-once", type=int, nargs="*", default=[50])
    parser.add_argument("--open", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    choice_time()
    threads(800 if given.quick else given.open)
    compare(200 if given.quick else given.episodes, 2 if given.quick else given.seeds, given.at_once)


if __name__ == "__main__":
    main()
