"""Learners that are never much worse than a baseline: they deviate from it only if they can prove what that may cost.

Suppose that n episodes are done, that the learner deviated in e of them, and that the baseline's expected cost is v. Then the total
stays within (1 + alpha) n v as long as those e episodes cost no more than (e + alpha n) v together (Garcelon, Ghavamzadeh, Lazaric
and Pirotta 2020). Their cost is bounded from above, and v from below, in two ways: by the costs that were seen, whatever the model
is, and by the learner's confidence sets.
"""

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Policy
from cede.learners import proof as kernels
from cede.learners.compiled import LearnerArrays
from cede.learners.limits import ends_of_step_costs
from cede.learners.promises import Baseline
from cede.planning.model import ModelArrays
from cede.planning.passes import empty_plan, negated
from cede.problem.arrays import problem_of
from cede.problem.task import Task
from cede.steps.cost import cost_parts
from cede.steps.step import Steps, wrong_links


def baseline_arrays(task: Task, baseline: Baseline | None, delta: float, model: ModelArrays) -> kernels.BaselineArrays:
    """Return a baseline in the form that kernels read; None gives empty arrays. model: the model that the learner plans with."""
    if baseline is None:
        nobody, nothing = np.empty((0, 0, 0), dtype=np.int16), np.empty((0, 0, 0))
        none = {"policy": nobody, "start": np.empty(0), "value": nothing, "record": np.empty(0, dtype=kernels.RECORD)}
        return kernels.BaselineArrays(**none, opposite=model)
    opposite = problem_of(negated(task))
    for name in ("env_cost", "control_cost", "switch_cost", "enter_cost"):  # kernels write costs into them
        setattr(opposite, name, getattr(opposite, name).copy())
    return kernels.BaselineArrays(
        policy=baseline.policy,
        alpha=baseline.alpha,
        delta=delta,
        start=np.empty(0) if baseline.start is None else baseline.start,
        opposite=ModelArrays(agents=model.agents, environment=model.environment, problem=opposite),
        value=empty_plan(task)[1],
        record=np.zeros(1, dtype=kernels.RECORD),
    )


def record_episode(task: Task, arrays: LearnerArrays, policy: Policy | None, steps: Steps) -> None:
    """Record the cost of a finished episode: as one that deviated from the baseline, or as one that kept to it.

    policy: the learner's own plan, (L, S, D); None if it has none. steps: all that were taken.
    """
    if not arrays.baseline.policy.size:
        return
    keeps = arrays.baseline.record["decided"][0] == kernels.KEEP_TO
    decided = arrays.baseline.policy if keeps or policy is None else policy
    total = float(np.cumsum(cost_parts(task, steps).total)[-1])  # added one by one, as kernels do: the same bits
    longest = float(task.left[0]) * most_step_cost(arrays)
    total = min(total, longest)  # one that was not possible by the task may cost more than any that is
    followed = np.array_equal(decided[np.arange(len(steps)), steps.state, steps.prev_agent], steps.agent)
    followed &= not wrong_links(steps.part(slice(0, -1)), steps.part(slice(1, None)))[1].any()  # else the system was moved
    kernels.record_episode(arrays.baseline, followed, total, longest)


def most_step_cost(arrays: LearnerArrays) -> float:
    """Return the greatest cost that a step can have. Learners with a baseline have no limits, whose prices would be in it."""
    return ends_of_step_costs(arrays, arrays.model.problem.control_cost)[1]


def plan_changed(arrays: LearnerArrays, running: bool) -> None:
    """Note that there is a new plan: whether to deviate must be decided again.

    running: whether an episode is running. Then the decision stays, but the episode may now cost anything, up to the greatest cost.
    """
    record = arrays.baseline.record
    if record.size and running:
        record["at_most"] = arrays.baseline.policy.shape[0] * most_step_cost(arrays)
    else:
        record["decided"] = kernels.UNDECIDED


def is_kept_to(record: Floats) -> bool:
    """Return whether the learner keeps to the baseline in this episode. record: as in `LearnerState`."""
    return bool(record.size and record.view(kernels.RECORD)["decided"][0] == kernels.KEEP_TO)


def never_left(baseline: Baseline | None, record: Floats) -> tuple[str, ...]:
    """Return the sentence that says that a learner has kept to its baseline in all episodes so far, and why; or nothing.

    record: as in `LearnerState`.
    """
    seen = record.view(kernels.RECORD)[0] if record.size else None
    if baseline is None or seen is None or seen["explored"] > 0 or seen["kept"] == 0:
        return ()
    text = f"it has kept to its baseline ({check.printable(baseline.name)}) in all {seen['kept']:,.0f} episodes so far"
    if baseline.start is None:
        text += ": without start= its sets must prove what deviating costs from every first state, which may never happen"
    return (text,)


def undecided(record: Floats) -> Floats:
    """Return a copy of a record, as in `LearnerState`, in which it is not decided yet whether to deviate in the next episode."""
    result = record.copy()
    result.view(kernels.RECORD)["decided"] = kernels.UNDECIDED
    return result
