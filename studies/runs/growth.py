"""Run UCRL2-MC with the printed radii on random problems of several sizes, to see how regret grows beside its bound."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from cede import Agent, Environment, Fleet, Team, TwoLayerMDP, simulate, simulate_fleet, ucrl2_mc
from studies.figure import Outcome, Part, Row, report_work
from studies.runs.curves import learner_settings
from studies.runs.river import DELTA, theorem_2
from studies.runs.sharing import corollary

USUAL = {"S": 8, "A": 3, "D": 3, "L": 10, "N": 1}  # sizes, as in the paper; one at a time is another
CONTROL, SWITCH = 0.1, 0.05  # the most that a step of control, and a hand-over, cost; with the environment less than 1 in sum


def problems(size: Mapping[str, int], seed: int) -> list[TwoLayerMDP]:
    """Return N random problems in one environment, each with agents of its own.

    Rows of the environment have a few likely outcomes (Dirichlet, 0.3), those of agents a few likely actions (Dirichlet, 0.5).
    Costs of the environment are uniform, those of control and of hand-overs small. Every step costs less than 1 in sum, as
    Theorem 2 needs.
    """
    S, A, D, L, N = (size[name] for name in USUAL)
    rng = np.random.default_rng([seed, S, A, D, L])
    most = 1.0 - CONTROL - SWITCH
    transition, cost = rng.dirichlet(np.full(S, 0.3), (S, A)), most * rng.uniform(size=(S, A))
    environment = Environment(transition=transition, cost=cost, start=np.full(S, 1 / S))
    result = []
    for _ in range(N):
        policies, prices = rng.dirichlet(np.full(A, 0.5), (D, S)), CONTROL * rng.uniform(size=D)
        agents = [Agent(f"agent {d}", policies[d], control_cost=float(prices[d])) for d in range(D)]
        result.append(TwoLayerMDP(environment, Team(agents, SWITCH), L))
    return result


def part(axis: str, size: Mapping[str, int], steps: int, points: Sequence[int], seed: int) -> Part:
    """Return the part that runs `random_problem` with these arguments."""
    arguments = {"axis": axis, "size": dict(size), "steps": steps, "points": list(points), "seed": seed}
    work = size["N"] * steps * size["S"] * size["D"] // 24
    return Part("runs.growth:random_problem", arguments, work, f"{axis} = {size.get(axis, steps)}")


def random_problem(
    axis: str, size: Mapping[str, int], steps: int, points: Sequence[int], seed: int, progress: Callable[[int], None]
) -> Outcome:
    """Run the teams of a random problem for so many steps each; return regret and bound after some of them, "point" by point.

    axis: which size is looked at, for the table; points: numbers of steps, the last of which is `steps`.
    """
    mdps, each = problems(size, seed), size["S"] * size["D"] // 24 or 1
    L, episodes = size["L"], steps // size["L"]
    learners = [ucrl2_mc(mdp.task, delta=DELTA, seed=seed + 7919 * i) for i, mdp in enumerate(mdps)]
    report = partial(report_work, progress, L * each * len(mdps), 0)
    if len(mdps) == 1:
        regret = simulate(mdps[0], learners[0], episodes, seed=seed, progress=report).regret
    else:
        regret = simulate_fleet(mdps, Fleet(learners), episodes, seed=seed, jobs=1, progress=report).regret
    about: Row = {"learner": "UCRL2-MC", "axis": axis, **size, "seed": seed, **learner_settings(learners[0])}
    rows = []
    for t in points:
        task, k = mdps[0].task, t // L
        bound = theorem_2(task, k, DELTA) if len(mdps) == 1 else sum(corollary(task, len(mdps), k, DELTA))
        rows.append({**about, "T": t, "episodes": episodes, "episode": k, "regret": float(regret[k - 1]), "bound": bound})
    return {"point": rows}
