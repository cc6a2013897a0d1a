"""Learners that are never much worse than a baseline: they deviate from it only if they can prove what that may cost.

Suppose that n episodes are done, that the learner deviated in e of them, and that the baseline's expected cost is v. Then the total
stays within (1 + alpha) n v as long as those e episodes cost no more than (e + alpha n) v together (Garcelon, Ghavamzadeh, Lazaric
and Pirotta 2020). Their cost is bounded from above, and v from below, in two ways: by the costs that were seen, whatever the model
is, and by the learner's confidence sets.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Policy
from cede._base.remade import Remade
from cede._kernels.limits import step_costs
from cede.learners import proof as kernels
from cede.learners.compiled import LearnerArrays
from cede.learners.limits import ends_of_step_costs
from cede.planning.model import ModelArrays
from cede.planning.passes import empty_plan, negated
from cede.problem.arrays import problem_of
from cede.problem.task import Task, checked_switching_policy, names_one_agent
from cede.steps.cost import cost_parts
from cede.steps.step import Steps, wrong_links


@dataclass(frozen=True, eq=False)
class Baseline(Remade):
    """What a learner must never be much worse than. `ucrl2_mc` makes it from its arguments `baseline`, `alpha` and `start`."""

    policy: Policy  # (L, S, D)
    alpha: float  # the part of its cost that the learner may lose
    start: Floats | None = None  # (S,) probabilities of the first state; None: not known
    name: str = "a policy"

    def __post_init__(self) -> None:
        if not isinstance(self.policy, np.ndarray) or self.policy.dtype != np.int16 or self.policy.ndim != 3:
            check.fail("Baseline", "policy", check.show(self.policy), "an int16 array of shape (L, S, D)")
        object.__setattr__(self, "policy", check.frozen(np.ascontiguousarray(self.policy)))
        object.__setattr__(self, "alpha", check.number("Baseline", "alpha", self.alpha, least=0.0))
        if self.start is not None:
            object.__setattr__(self, "start", check.array("Baseline", "start", self.start, (None,), "(S,)"))
        check.name("Baseline", "name", self.name)

    def __str__(self) -> str:
        return f"{self.name}, alpha {self.alpha:g}"

    def check_fits(self, owner: str, task: Task) -> None:
        """Check that policy, alpha and start fit a task, and that no step of the task can have a negative cost."""
        checked_switching_policy(owner, task, self.policy)
        least = least_step_cost(task)
        if least < 0:
            expected = "at least 0 with a baseline: a part of a negative cost is no allowance"
            check.fail(owner, "the least that a step can cost", least, expected)
        if self.start is not None:
            check.probabilities(owner, "start", self.start, (task.n_states,), "(S,)")


def checked_baseline(owner: str, task: Task, baseline: Any, alpha: Any, start: Any) -> Baseline | None:
    """Make a Baseline of the arguments of `ucrl2_mc`, after checks; None if there is no baseline.

    baseline: an agent, by index or name, or a switching policy, (L, S, D) or a Plan. start: (S,) probabilities of the first state,
    or None.
    """
    alpha = check.number(owner, "alpha", alpha, least=0.0)
    if baseline is None:
        if start is not None:
            check.fail(owner, "start", "given", "left out without a baseline")
        return None
    if task.horizon is None:
        check.fail(owner, "baseline", check.show(baseline), "left out without a horizon: its proofs count whole episodes")
    if names_one_agent(baseline):
        agent = task.agent_index(owner, "baseline", baseline)
        name, policy = task.agents[agent], task.always(agent)
    else:
        name, policy = "a policy", checked_switching_policy(owner, task, baseline, "baseline").copy()
    chances = None if start is None else check.probabilities(owner, "start", start, (task.n_states,), "(S,)")
    result = Baseline(policy, alpha, chances, name)
    result.check_fits(owner, task)
    return result


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


def least_step_cost(task: Task) -> float:
    """Return the least that a step of a task can cost."""
    n, (least, most) = task.n_agents, task.extremes_of_env_cost
    control, switching = task.control_cost.reshape(-1, n), task.switch_cost.reshape(-1, n, n)
    return float(step_costs(least, most - least, *task.extremes_of_enter_cost, control, switching, task.is_terminal)[0])


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
