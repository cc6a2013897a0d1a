"""What a learner promises beside low cost, while it is at work: prices of limits (budgets.py) and a baseline (caution.py)."""

from typing import Any

import numpy as np

from cede import _kernels
from cede._kernels import Mind, Radii
from cede.planning import Plan, hands_for, room_for
from cede.recipe import Recipe
from cede.table import Ints
from cede.task import Task


def promised(task: Task, recipe: Recipe) -> dict[str, Any]:
    """The settings of what it promises."""
    result: dict[str, Any] = {}
    if recipe.limits is not None:
        least, most = recipe.limits
        result["at_least"] = {name: float(x) for name, x in zip(task.members, least, strict=True) if x > 0} or None
        result["at_most"] = {name: float(x) for name, x in zip(task.members, most, strict=True) if x < 1} or None
    if recipe.caution is not None:
        result["baseline"] = str(recipe.caution)
    return result


def may_deviate(task: Task, mind: Mind, numbers: Radii, plan: Plan) -> bool:
    """Is it proven that this plan keeps what was promised of the baseline? Decided once an episode."""
    room = room_for(mind.problem, plan.policy.shape, mind.agents, mind.environment)
    hands = hands_for(task.n_states, mind.environment.row.shape[1], task.n_agents)
    most = task.horizon * step_costs(mind)[1]
    return bool(_kernels.decide(mind, numbers, plan.policy, task.start_agent, most, room, hands))


def step_costs(mind: Mind) -> tuple[float, float]:
    """The least and the most that a step can cost."""
    least, most = _kernels.step_costs(mind.least_cost, mind.spread, mind.limits.own, mind.problem.switch_cost)
    return float(least), float(most)


def note_episode(task: Task, mind: Mind, episode: int, states: Ints, prevs: Ints, agents: Ints, actions: Ints) -> None:
    """What the steps of an episode mean for what was promised: new prices; what it cost to deviate from the baseline, or not."""
    if mind.limits.most.size:
        control = np.bincount(task.acting[agents], minlength=len(task.members)).astype(np.int64)
        _kernels.update_prices(mind.limits, control, episode, *step_costs(mind))
    if mind.caution.baseline.size:
        costs = task.env_cost[states, actions] + task.control_cost[agents] + task.switch_cost[prevs, agents]
        followed = np.array_equal(mind.caution.baseline[np.arange(len(actions)), states, prevs], agents)
        kept_to = followed and mind.caution.record[_kernels.DECIDED] == _kernels.KEEP_TO
        total = float(np.cumsum(costs)[-1])  # one by one, as kernels add
        _kernels.note_episode(mind.caution.record, bool(kept_to), total, task.horizon * step_costs(mind)[1])
