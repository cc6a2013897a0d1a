"""Never worse than today: a learner that deviates from a baseline only as far as it can prove what that may cost.

With n episodes done and e of them not by the baseline, whose expected cost is v, the total stays within (1 + alpha) n v as long as
those e cost no more than (e + alpha n) v together (Garcelon, Ghavamzadeh, Lazaric and Pirotta 2020). What they cost at most, and
what v is at least, is bounded by the costs that were seen, whatever the model; and by the learner's confidence sets.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from cede import _kernels
from cede._base import check
from cede._base.arrays import Floats, Policy
from cede.planning.planner import checked_policy, empty_plan, negated, problem_of
from cede.planning.tables import read_only
from cede.problem.task import Task


@dataclass(frozen=True, eq=False)
class Caution:
    """What a learner must never be much worse than."""

    baseline: Policy  # (L, S, D)
    alpha: float  # the part of its cost that may be lost
    start: Floats | None = None  # (S,) probabilities of the first state; None: not known
    name: str = "a policy"

    @property
    def digest(self) -> str:
        given = np.empty(0) if self.start is None else self.start
        return hashlib.sha256(self.baseline.tobytes() + given.tobytes() + repr(self.alpha).encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.name}, alpha {self.alpha:g}"


def checked_caution(owner: str, task: Task, baseline: Any, alpha: Any, start: Any) -> Caution | None:
    """baseline: an agent, by index or name, or a switching policy."""
    if baseline is None:
        if start is not None:
            check.fail(owner, "start", "given", "left out without a baseline")
        return None
    is_agent = check.ndim(baseline) == 0
    policy = (
        task.always(task.agent_index(owner, "baseline", baseline)) if is_agent else checked_policy(owner, task, baseline).copy()
    )
    name = task.agents[task.agent_index(owner, "baseline", baseline)] if is_agent else "a policy"
    added = (task.control_cost + task.switch_cost)[np.isfinite(task.switch_cost)]
    least = float(task.env_cost.min() + added.min())
    if least < 0:
        expected = "at least 0 with a baseline: a part of a negative cost is no allowance"
        check.fail(owner, "the least that a step can cost", least, expected)
    chances = None
    if start is not None:
        chances = check.array(owner, "start", start, (task.n_states,), "(S,)")
        check.distributions(owner, "start", chances)
    return Caution(policy, check.number(owner, "alpha", alpha, least=0.0), chances, name)


def caution_for(task: Task, caution: Caution | None, delta: float) -> _kernels.Caution:
    """Its arrays for the kernels."""
    if caution is None:
        nobody, nothing = np.empty((0, 0, 0), dtype=np.int16), np.empty((0, 0))
        empty = (np.empty(0), nothing, np.empty((0, 0, 0)), np.empty(0))
        return _kernels.Caution(nobody, 0.0, delta, read_only(np.empty(0)), problem_of(task), *empty)
    other = negated(task)
    control_cost, switch_cost = other.control_cost.copy(), other.switch_cost.copy()
    opposite = problem_of(other)._replace(control_cost=read_only(control_cost), switch_cost=read_only(switch_cost))
    start = np.empty(0) if caution.start is None else caution.start
    room = (control_cost, switch_cost, empty_plan(task)[1], np.zeros(_kernels.RECORD))
    return _kernels.Caution(caution.baseline, caution.alpha, delta, read_only(start), opposite, *room)
