"""Run learners with a second promise beside low cost: limits of control, or never much worse than a baseline."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cede import Learner, TwoLayerMDP, expected_cost, posterior_sampling, ucrl2_mc
from cede.fleet.simulate import generator, play
from cede.planning.control_shares import best_mixture
from studies.figure import Outcome, Row, report_work
from studies.runs.curves import curve_rows, learner_settings
from studies.runs.promises import DELTA, known_agents, machine_and_human, two_swimmers

# Learners that can keep limits, by name.
METHODS: dict[str, Callable[..., Learner]] = {
    "UCRL2-MC, structured": partial(ucrl2_mc, delta=DELTA),
    "posterior sampling, structured": posterior_sampling,
}
# Worlds of the runs with a baseline, by name; control and hand-overs cost nothing.
BASELINE_WORLDS: dict[str, Callable[[], TwoLayerMDP]] = {
    "RiverSwim": two_swimmers,
    "lane driving": partial(machine_and_human, 0.0, 0.0),
}


def limited_run(
    learner: str, side: str, share: float, episodes: int, seed: int, progress: Callable[[int], None], costs: tuple[float, float]
) -> Outcome:
    """Run a learner in lane driving that must keep the human's share of control on one side of a limit; return its "curve".

    learner: a name in METHODS; side: "at_most" or "at_least"; share: the limit; costs: of human control and of a hand-over. The
    regret is to the best mixture of policies within the limit. Rows also have the human's share and the cost of an episode, since
    the row before and since the start ("_so_far").
    """
    mdp = machine_and_human(*costs)
    told = {"known_agents": known_agents("lane driving", mdp), "structure": mdp.structure, "seed": seed}
    player = METHODS[learner](mdp.task, **{side: {"human": share}}, **told)
    limits = player.settings.limits
    assert limits is not None
    best = best_mixture(mdp, limits.least, limits.most)
    record = play(mdp, player, episodes, generator("limited", seed), partial(report_work, progress, 1, 0))
    about: Row = {"world": "lane driving", "learner": learner, "side": side, "limit": share, "seed": seed}
    about |= {"control_cost": costs[0], "switch_cost": costs[1], "best_cost": best.cost, "best_share": float(best.shares[1])}
    rows = curve_rows(np.cumsum(record.ledger.expected_cost[0] - record.optimum[0]), {**about, **learner_settings(player)})
    shares = record.ledger.control[0, :, 1] / mdp.horizon
    return {"curve": with_means(rows, {"share": shares, "cost": record.ledger.expected_cost[0]})}


def baseline_run(
    world: str, baseline: str, alpha: float | None, episodes: int, seed: int, progress: Callable[[int], None]
) -> Outcome:
    """Run UCRL2-MC, which knows the structure but no agent, with a baseline that it must not be much worse than.

    world: a name in BASELINE_WORLDS; baseline: an agent, who alone is the baseline; alpha: the part of the baseline's cost that may
    be lost, None for a learner without baseline. Returns the regret "curve". Its rows also have "relative" (total cost so far over
    the baseline's), "worst" (the largest of these in the whole run), and how often the learner did as the baseline ("kept_to").
    """
    mdp = BASELINE_WORLDS[world]()
    promise: dict[str, Any] = {} if alpha is None else {"baseline": baseline, "alpha": alpha}
    player = ucrl2_mc(mdp.task, delta=DELTA, structure=mdp.structure, seed=seed, **promise)
    baseline_cost = expected_cost(mdp, mdp.task.always(mdp.task.agents.index(baseline)))
    record = play(mdp, player, episodes, generator("cautious", seed), partial(report_work, progress, 1, 0))
    relative = np.cumsum(record.ledger.expected_cost[0]) / (baseline_cost * np.arange(1, episodes + 1))
    about: Row = {
        "world": world,
        "learner": "UCRL2-MC, structured",
        "baseline": baseline,
        "alpha": "" if alpha is None else alpha,
        "seed": seed,
    }
    about |= {"baseline_cost": baseline_cost, "worst": float(relative.max()), **learner_settings(player)}
    rows = curve_rows(np.cumsum(record.ledger.expected_cost[0] - record.optimum[0]), about)
    kept_to = np.isclose(record.ledger.expected_cost[0], baseline_cost, rtol=1e-12)
    return {"curve": with_means([{**row, "relative": float(relative[row["episode"] - 1])} for row in rows], {"kept_to": kept_to})}


def with_means(rows: list[Row], columns: dict[str, Any]) -> list[Row]:
    """Add means of what happened in the episodes to the rows of a curve.

    columns: one value for each episode, (episodes,), by name. Each row gets the mean since the row before under that name, and the
    mean since the start under the name with "_so_far".
    """
    result, before = [], 0
    for row in rows:
        here = slice(before, row["episode"])
        means = {name: float(values[here].mean()) for name, values in columns.items()}
        so_far = {f"{name}_so_far": float(values[: row["episode"]].mean()) for name, values in columns.items()}
        result.append({**row, **means, **so_far})
        before = row["episode"]
    return result
