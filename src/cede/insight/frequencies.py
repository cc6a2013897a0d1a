"""What was seen, taken for the truth: frequencies as beliefs of width 0, and the plan that is best if they are right."""

from dataclasses import replace

import numpy as np

from cede._base import check
from cede.learning.endless import new_learner
from cede.learning.learner import Learner
from cede.learning.state import LearnerState
from cede.planning.belief import Belief
from cede.planning.passes import Plan, best_plan
from cede.problem.task import Task


def mean_plan(learner: Learner) -> Plan:
    """Return the plan that is best if the frequencies seen so far are the truth; what was never seen counts as uniform.

    It does not explore, so it is what to deploy where nothing more is to be learned. The plan of a learner itself does: that of
    posterior sampling, for one, is the best for a table that was drawn, and changes with every draw. Prices of limits count.

    learner: any but UCRL2, which has no frequencies of agents and environment.
    """
    owner = "mean_plan"
    check.instance(owner, "learner", learner, Learner)
    if learner.told.flat:
        check.fail(owner, "learner", learner.told.name, "one that tells agents and environment apart")
    priced, _ = with_prices(learner)
    return best_plan(learner.costs.middle(owner, priced), *frequencies(learner), seed=learner.seed)


def frequencies(learner: Learner) -> tuple[Belief, Belief]:
    """Return the frequencies that the learner has seen, as beliefs of width 0, of the agents and of the environment.

    Of UCRL2 it is what it believes itself, of which the centres are frequencies: its agents take their own action for certain.
    """
    if learner.told.flat:
        return learner.beliefs
    told = replace(learner.told, radius=None, agents_radius=None, prior=0.0, planning="full", policy=None, baseline=None)
    plain, state = new_learner(learner.task, told, seed=learner.seed, checked=True), learner.state
    shared = learner.shared_environment
    if shared is not None:
        plain._shared, plain.turn = shared, shared.turn
    start = LearnerState()
    gone = {name: getattr(start, name) for name in ("planned", "policy", "value", "found", "bounds", "record")}
    plain._remember(replace(state, **gone))
    return plain.beliefs


def with_prices(learner: Learner) -> tuple[Task, Task | None]:
    """Return the task with the prices of limits added to its control costs, and a task with nothing but these prices (None: no
    limits).
    """
    task, prices = learner.task, learner.prices
    if not prices:
        return task, None
    extra = np.array([prices[name] for name in task.members])[task.acting]
    return replace(task, control_cost=task.control_cost + extra), task.only_costs(control_cost=extra)
