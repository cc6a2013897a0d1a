"""What a learner promises beside low cost, while it is at work: prices of limits (budgets.py) and a baseline (caution.py)."""

from dataclasses import replace
from typing import Any

import numpy as np

from cede import _kernels
from cede._base import check
from cede._base.arrays import Ints, Policy
from cede._kernels import Mind, Radii
from cede.learning.settings import Recipe, is_scaled
from cede.learning.state import Memory
from cede.planning.planner import Plan, hands_for, room_for
from cede.problem.task import Task


def promised(task: Task, recipe: Recipe) -> dict[str, Any]:
    """The settings of what it promises."""
    result: dict[str, Any] = {}
    if recipe.limits is not None:
        least, most = recipe.limits
        result["at_least"] = {name: float(x) for name, x in zip(task.members, least, strict=True) if x > 0} or None
        result["at_most"] = {name: float(x) for name, x in zip(task.members, most, strict=True) if x < 1} or None
    if recipe.caution is not None:
        told = "" if recipe.caution.start is None else ", start known"
        result["baseline"] = str(recipe.caution) + told + (" (not guaranteed: radii are scaled)" if is_scaled(recipe) else "")
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


def note_episode(
    task: Task, mind: Mind, plan: Plan | None, states: Ints, prevs: Ints, agents: Ints, actions: Ints, stays_in: int | None = None
) -> None:
    """What the steps of an episode mean for what was promised: new prices; what it cost to deviate from the baseline, or not.
    stays_in: where it has ended for good, if it has.
    """
    least, most = step_costs(mind)
    if mind.limits.most.size:
        control = np.bincount(task.acting[agents], minlength=len(task.members)).astype(np.int64)
        _kernels.update_prices(mind.limits, control, least, most)
    if mind.caution.baseline.size:
        record, longest = mind.caution.record, task.horizon * most
        costs = task.step_cost(states, prevs, agents, actions)
        decided = mind.caution.baseline if record[_kernels.DECIDED] == _kernels.KEEP_TO or plan is None else plan.policy
        total = float(np.cumsum(costs)[-1])  # one by one, as kernels add
        if stays_in is not None:
            total += cost_of_staying(task, decided, len(actions), stays_in, int(agents[-1]))
        total = min(total, longest)  # who took control where that cannot be, cost no more
        followed = np.array_equal(decided[np.arange(len(actions)), states, prevs], agents)
        _kernels.note_episode(record, followed, total, longest)


def cost_of_staying(task: Task, policy: Policy, begin: int, state: int, agent: int) -> float:
    """What the rest of an episode costs, by the task, in a state that nothing leads out of, whatever is done there."""
    total, dearest = 0.0, int(task.env_cost[state].argmax())
    for t in range(begin, task.horizon):
        prev, agent = agent, int(policy[t, state, agent])
        total += float(task.step_cost(state, prev, agent, dearest))
    return total


def plan_changed(mind: Mind, running: bool) -> None:
    """There is another plan. What was decided is open again; in a running episode it stands, and may cost anything."""
    if mind.caution.baseline.size:
        if running:
            mind.caution.record[_kernels.AT_MOST] = mind.caution.baseline.shape[0] * step_costs(mind)[1]
        else:
            mind.caution.record[_kernels.DECIDED] = 0.0


def undecided(memory: Memory) -> Memory:
    """As it is before anything was decided for the next episode."""
    record = memory.record.copy()
    record[_kernels.DECIDED : _kernels.DECIDED + 1] = 0.0  # empty without a baseline
    return replace(memory, record=record)


def check_promises(owner: str, recipe: Recipe) -> None:
    """What learners cannot promise, for lack of what it takes."""
    if recipe.limits is not None:
        if recipe.planning == "greedy":
            check.fail(owner, "planning", "'greedy'", "'full' with at_most or at_least: greedy planning is for costs that stay")
        if recipe.replan == "doubling":
            expected = "'every' or a number with at_most or at_least: a plan that is kept has its shares"
            check.fail(owner, "replan", "'doubling'", expected)
    if recipe.caution is not None:
        if recipe.limits is not None:
            check.fail(owner, "baseline", str(recipe.caution), "left out with at_most or at_least: it may not keep within them")
        if recipe.planning == "greedy":
            check.fail(owner, "planning", "'greedy'", "'full' with a baseline: only of a whole plan it can be proven what it costs")
        if recipe.forget or recipe.forget_environment is not None:
            check.fail(owner, "forget", "given", "left out with a baseline: what was proven would have to be forgotten, too")
        if recipe.radius is None or recipe.flat:
            check.fail(
                owner, "baseline", str(recipe.caution), "left out: it has no confidence sets of both layers to prove anything by"
            )
