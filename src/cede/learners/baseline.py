"""Learners that are never much worse than a baseline: they deviate from it only if a bound on the cost of deviating is proven.

Suppose that n episodes are done, that the learner deviated in e of them, and that the baseline's expected cost is v. Then the total
stays within (1 + alpha) n v as long as those e episodes cost no more than (e + alpha n) v together (Garcelon, Ghavamzadeh, Lazaric
and Pirotta 2020). Their cost is bounded from above, and v from below, in two ways: by observed costs, without a model, and by the
learner's confidence sets.
"""

from typing import TYPE_CHECKING

import numpy as np

from cede._base.arrays import Floats, Policy
from cede.learners import proof as kernels
from cede.problem.task import Task
from cede.steps.cost import cost_of
from cede.steps.step import Steps, wrong_links

if TYPE_CHECKING:
    from cede.learners.compiled import LearnerArrays


def record_episode(task: Task, arrays: "LearnerArrays", policy: Policy | None, steps: Steps) -> None:
    """Record the cost of a finished episode, which deviated from the baseline or kept to it.

    policy: the learner's own plan, (L, S, D); None if there is none. steps: of the episode.
    """
    if not arrays.baseline.policy.size:
        return
    keeps = arrays.baseline.record["decided"][0] == kernels.KEEP_TO
    decided = arrays.baseline.policy if keeps or policy is None else policy
    longest = float(task.layout.left[0]) * task.ends_of_step_cost[1]
    total = min(cost_of(task, steps), longest)  # steps that the task does not allow may cost more
    followed = np.array_equal(decided[np.arange(len(steps)), steps.state, steps.prev_agent], steps.agent)
    followed &= not wrong_links(steps.part(slice(0, -1)), steps.part(slice(1, None)))[1].any()  # else the system was moved
    kernels.record_episode(arrays.baseline, followed, total, longest)


def plan_changed(task: Task, arrays: "LearnerArrays", running: bool) -> None:
    """Reset the decision whether to deviate, after a new plan.

    running: whether an episode is running. Then the decision stays, but the bound on the episode's cost becomes the greatest cost.
    """
    record = arrays.baseline.record
    if record.size and running:
        record["at_most"] = arrays.baseline.policy.shape[0] * task.ends_of_step_cost[1]
    else:
        record["decided"] = kernels.UNDECIDED


def is_kept_to(record: Floats) -> bool:
    """Return whether the learner keeps to the baseline in this episode. record: as in `LearnerState`."""
    return bool(record.size and record.view(kernels.RECORD)["decided"][0] == kernels.KEEP_TO)
