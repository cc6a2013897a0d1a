"""Runs of learners that promise something beside low cost: shares of control within limits; never much worse than a baseline."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cede._base.arrays import Floats
from cede.experiments.core import Outcome, Row, report_work
from cede.experiments.curves import curve_rows, learner_settings
from cede.experiments.runs.contest import DELTA, WORLDS, known_in, lane
from cede.fleet.simulate import generator, play
from cede.learning.algorithms import posterior_sampling, ucrl2_mc
from cede.learning.learner import Learner
from cede.planning.control_shares import solve_within
from cede.planning.planner import expected_cost
from cede.problem.model import TwoLayerMDP

METHODS: dict[str, Callable[..., Learner]] = {
    "UCRL2-MC, structured": partial(ucrl2_mc, delta=DELTA),
    "posterior sampling, structured": posterior_sampling,
}


def limited_run(
    learner: str, side: str, share: float, episodes: int, seed: int, progress: Callable[[int], None], costs: tuple[float, float]
) -> Outcome:
    """Lane driving with the human's share of control kept on one side of a limit."""
    mdp = lane(*costs)
    told = {"known_agents": known_in("lane driving", mdp), "structure": mdp.structure, "seed": seed}
    who = METHODS[learner](mdp.task, **{side: {"human": share}}, **told)
    assert who.recipe.limits is not None
    best = solve_within(mdp, *who.recipe.limits)
    rounds = play(mdp, who, episodes, generator("limited", seed), partial(report_work, progress, 1, 0))
    about: Row = {"world": "lane driving", "learner": learner, "side": side, "limit": share, "seed": seed}
    about |= {"control_cost": costs[0], "switch_cost": costs[1], "best_cost": best.cost, "best_share": float(best.shares[1])}
    rows = curve_rows(np.cumsum(rounds.expected_cost[0] - rounds.optimum[0]), {**about, **learner_settings(who)})
    shares = rounds.control[0, :, 1] / mdp.horizon
    return {"curve": with_means(rows, {"share": shares, "cost": rounds.expected_cost[0]})}


CAUTIOUS: dict[str, Callable[[], TwoLayerMDP]] = {"RiverSwim": WORLDS["RiverSwim"], "lane driving": partial(lane, 0.0, 0.0)}


def cautious_run(
    world: str, baseline: str, alpha: float | None, episodes: int, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """UCRL2-MC with structure, which knows no agent. alpha: what it may lose against the baseline, None: it has none."""
    mdp = CAUTIOUS[world]()
    promise: dict[str, Any] = {} if alpha is None else {"baseline": baseline, "alpha": alpha}
    who = ucrl2_mc(mdp.task, delta=DELTA, structure=mdp.structure, seed=seed, **promise)
    each = expected_cost(mdp, mdp.task.always(mdp.task.agents.index(baseline)))
    rounds = play(mdp, who, episodes, generator("cautious", seed), partial(report_work, progress, 1, 0))
    relative = np.cumsum(rounds.expected_cost[0]) / (each * np.arange(1, episodes + 1))
    about: Row = {
        "world": world,
        "learner": "UCRL2-MC, structured",
        "baseline": baseline,
        "alpha": "" if alpha is None else alpha,
        "seed": seed,
    }
    about |= {"baseline_cost": each, "worst": float(relative.max()), **learner_settings(who)}
    rows = curve_rows(np.cumsum(rounds.expected_cost[0] - rounds.optimum[0]), about)
    kept_to = np.isclose(rounds.expected_cost[0], each, rtol=1e-12)
    return {"curve": with_means([{**row, "relative": float(relative[row["episode"] - 1])} for row in rows], {"kept_to": kept_to})}


def with_means(rows: list[Row], columns: dict[str, Any]) -> list[Row]:
    """Means of what happened in the episodes since the point before."""
    result, before = [], 0
    for row in rows:
        here = slice(before, row["episode"])
        means: dict[str, Floats] = {name: values[here].mean() for name, values in columns.items()}
        so_far = {f"{name}_so_far": float(values[: row["episode"]].mean()) for name, values in columns.items()}
        result.append({**row, **{name: float(mean) for name, mean in means.items()}, **so_far})
        before = row["episode"]
    return result
