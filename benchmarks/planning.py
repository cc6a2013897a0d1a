"""The planner beside a plain compiled Bellman backup over the same non-zeros, in one run; and episodes per second.

    python benchmarks/planning.py

Ratios, not seconds, are the result: these machines are noisy. Medians of interleaved repeats.
"""

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

import numba
import numpy as np
import scipy.sparse as sp

import cede
from cede import planning
from cede.belief import Belief, printed_constant, radii
from cede.planning import optimistic_plan, value_of
from cede.simulation import roll
from cede.table import Table

REPEATS = 15


@numba.njit
def plain_backup(indptr, column, p, policy, env_cost, control_cost, switch_cost, horizon, value):
    """Finite-horizon dynamic programming with point estimates and nothing else: no sets, no ties, no reuse."""
    n_states, n_actions = env_cost.shape
    n_agents = policy.shape[0]
    x = np.empty((n_agents, n_states * n_actions))
    for t in range(horizon - 1, -1, -1):
        for d in range(n_agents):
            v = value[t + 1, :, d].copy()
            for r in range(n_states * n_actions):
                total = 0.0
                for j in range(indptr[r], indptr[r + 1]):
                    total += p[j] * v[column[j]]
                x[d, r] = total
        for s in range(n_states):
            for prev in range(n_agents):
                best = np.inf
                for d in range(n_agents):
                    q = control_cost[d] + switch_cost[prev, d]
                    for a in range(n_actions):
                        q += policy[d, s, a] * (env_cost[s, a] + x[d, s * n_actions + a])
                    best = min(best, q)
                value[t, s, prev] = best


def lane_driving_belief(visits: int, scale: cede.Scale) -> tuple[cede.Task, Belief, Belief, sp.csr_array, np.ndarray]:
    """Both agents and the road as if every row had been seen so many times; both unknown, hand-overs cost something."""
    mdp = cede.worlds.lane_driving(control_cost=0.2, switch_cost=0.1)
    human = mdp.team.agents[1].policy
    environment, agents = mdp.environment, [cede.Agent("first", human), cede.Agent("second", human[:, ::-1], control_cost=0.2)]
    task = cede.TwoLayerMDP(environment, cede.Team(agents, 0.1), mdp.horizon).task
    rng = np.random.default_rng(0)
    truth = environment.transition
    seen = sp.lil_array(truth.shape)
    for r in range(truth.shape[0]):
        part = slice(truth.indptr[r], truth.indptr[r + 1])
        n = rng.multinomial(visits, truth.data[part] / truth.data[part].sum())
        seen[[r], truth.indices[part][n > 0]] = n[n > 0]
    seen = sp.csr_array(seen)
    policies = np.stack([rng.multinomial(visits, rows) for rows in (human, human[:, ::-1])]).astype(float)
    steps = 20_000 * task.horizon

    def belief(matrix: sp.csr_array, layer: str, outcomes: int, places: tuple[int, int]) -> Belief:
        table = Table.of(matrix)
        constant = printed_constant(steps=steps, rows=table.n_rows, outcomes=outcomes, delta=0.1)
        width = radii(table.total, constant, scale=scale.at(layer, 1))
        return Belief(table, width, np.arange(table.n_rows).reshape(places))

    both = belief(sp.csr_array(policies.reshape(-1, 3)), "agents", 3, (2, task.n_states))
    road = belief(seen, "environment", task.n_states, (task.n_states, 3))
    return task, both, road, seen, policies / visits


def times(*functions) -> list[float]:
    """Median seconds of each, run in turn so that all see the same machine."""
    for f in functions:
        f()
    taken: list[list[float]] = [[] for _ in functions]
    for _ in range(REPEATS):
        for f, into in zip(functions, taken, strict=True):
            begin = time.perf_counter()
            f()
            into.append(time.perf_counter() - begin)
    return [median(t) for t in taken]


def planner() -> None:
    print("Planning lane driving (1,152 states, 2 unknown agents, switching cost, horizon 10): times a plain backup")
    for name, scale in (
        ("0.1 / 0.01", cede.Scale(0.1, 0.01)),
        ("0.3 / 0.05", cede.Scale(0.3, 0.05)),
        ("0 / 0", cede.Scale(0.0, 0.0)),
    ):
        task, agents, environment, seen, policies = lane_driving_belief(600, scale)
        p = seen.data / np.repeat(environment.centre.total, np.diff(seen.indptr))
        value = np.zeros((task.horizon + 1, task.n_states, task.n_agents))
        arguments = (seen.indptr, seen.indices, p, policies, task.env_cost, task.control_cost, task.switch_cost)
        again, scratch, plain = times(
            lambda task=task, a=agents, e=environment: optimistic_plan(task, a, e),
            lambda task=task, a=agents, e=environment: (forget(), optimistic_plan(task, a, e)),
            lambda arguments=arguments, task=task, value=value: plain_backup(*arguments, task.horizon, value),
        )
        ratios = f"from scratch {scratch / plain:.2f}, again {again / plain:.2f}"
        print(f"  scale {name:<11} {seen.nnz:,} non-zeros, plain {1e3 * plain:.2f} ms: {ratios}")


def forget() -> None:
    """No help from the plan before: where its searches ended is forgotten."""
    planning._kept.__dict__.clear()


def episodes() -> None:
    print("RiverSwim, agents 0.3 and 0.7: microseconds per episode (median of 200-episode blocks)")
    mdp = cede.worlds.riverswim(agents=[0.3, 0.7])
    rng = np.random.default_rng(0)
    for learner in (cede.ucrl2_mc(mdp.task), cede.ucrl2(mdp.task)):
        cede.simulate(mdp, learner, 200, progress=False)
        (whole,) = times(lambda learner=learner: cede.simulate(mdp, learner, 200, progress=False))
        policy = learner.plan.policy
        plan, evaluation, play = times(learner._make_plan, lambda p=policy: value_of(mdp, p), lambda p=policy: roll(mdp, p, rng))
        parts = f"plan {1e6 * plan:.0f}, evaluation {1e6 * evaluation:.0f}, rollout {1e6 * play:.0f}"
        print(f"  {learner.recipe.name:<18} {1e6 * whole / 200:4.0f}   ({parts})")


def compilation() -> None:
    code = "import time, cede; t = time.perf_counter(); m = cede.worlds.riverswim(); "
    code += "cede.simulate(m, cede.ucrl2_mc(m.task), 2); cede.simulate(m, cede.ucrl2(m.task), 2); print(time.perf_counter() - t)"
    with tempfile.TemporaryDirectory() as empty:
        run = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={**os.environ, "NUMBA_CACHE_DIR": empty}
        )
    print(f"First compilation of all kernels, with two short runs: {float(run.stdout):.1f} s")


def start_up() -> None:
    print("Start-up, seconds")
    command = ("import cede", "import cede; cede.solve; cede.ucrl2_mc; cede.worlds.riverswim")
    for code in command:
        (taken,) = times(lambda code=code: subprocess.run([sys.executable, "-c", code], check=True))
        print(f"  {code:<70} {taken:.2f}")
    (taken,) = times(lambda: subprocess.run([sys.executable, "-m", "cede.cli", "--help"], check=True, capture_output=True))
    print(f"  {'cede --help':<70} {taken:.2f}")


if __name__ == "__main__":
    planner()
    episodes()
    start_up()
    compilation()
