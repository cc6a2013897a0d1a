"""Promises of a learner beside a low cost: limits of control, and a baseline; and trial episodes.

ShareLimits      shares of the steps in which members act, at least and at most (planning by prices, limits.py)
Baseline         a policy that the learner must never be much worse than (proofs, baseline.py)
TrialEpisodes    every member has control in whole episodes, less and less often

With both promises the plan is made with the prices of the limits, and used only in episodes in which it provably keeps the promise
about the baseline.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Ints, Policy
from cede._base.remade import Remade
from cede._kernels.limits import step_costs
from cede.learners.trials import trial_member
from cede.problem.control_limits import limits_of
from cede.problem.policies import checked_switching_policy, names_one_agent
from cede.problem.task import Task


@dataclass(frozen=True, eq=False)
class ShareLimits(Remade):
    """Least and greatest share of the steps in which each member acts. Arguments `at_least` and `at_most` of `ucrl2_mc`."""

    least: Floats  # (members,)
    most: Floats  # (members,)

    def __post_init__(self) -> None:
        for name in ("least", "most"):
            object.__setattr__(self, name, checked_form("limits", name, getattr(self, name), 1))

    def check_fits(self, owner: str, task: Task) -> None:
        """Check that there is a pair of limits for each member of a task, and that shares can meet them."""
        for end in (self.least, self.most):
            if len(end) != len(task.members):
                check.fail(owner, "the number of limits", len(end), f"{len(task.members)}, one for each member")
        least, most = (dict(zip(task.members, end.tolist(), strict=True)) for end in (self.least, self.most))
        limits_of(owner, task, most, least)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments that give these limits, by the number of each member."""
        least, most = ({i: float(x) for i, x in enumerate(end) if x != free} for end, free in ((self.least, 0.0), (self.most, 1.0)))
        return {"at_most": most, **({"at_least": least} if least else {})}


@dataclass(frozen=True, eq=False)
class Baseline(Remade):
    """A policy that the learner must never be much worse than. Arguments `baseline`, `alpha` and `start` of `ucrl2_mc`."""

    policy: Policy  # (L, S, D)
    alpha: float  # the fraction of its cost that the learner may lose
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

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments that give this baseline."""
        start = {} if self.start is None else {"start": self.start}
        return {"baseline": self.name, "alpha": self.alpha, **start}


@dataclass(frozen=True)
class TrialEpisodes(Remade):
    """Every member has control for a whole episode, one after the other, in n episodes from episode 1, 8 n + 1, 64 n + 1, ... on,
    n being the number of members. So every agent is tried again and again. For a member that joins later, the same schedule begins
    when it joins (trials.py).
    """

    since: tuple[int, ...] = ()  # (members,) episodes that were over when each member joined; (): none were

    def __post_init__(self) -> None:
        since = check.items("TrialEpisodes", "since", self.since, "a number of episodes for each member")
        object.__setattr__(self, "since", tuple(check.integer("TrialEpisodes", "since", one, 0) for one in since))

    def check_fits(self, owner: str, task: Task) -> None:
        """Check that there is a number for each member of a task."""
        if len(self.since) not in (0, len(task.members)):
            check.fail(owner, "the length of since", len(self.since), f"{len(task.members)}, one for each member")

    def of_members(self, task: Task) -> tuple[list[int], Ints]:
        """Return the members that control can reach, and how many episodes were over when each of them joined."""
        able = [member for member in range(len(task.members)) if task.can_reach(member)]
        return able, np.array(self.since or (0,) * len(task.members), dtype=np.int64)[able]

    @property
    def arguments(self) -> dict[str, Any]:
        """Return no arguments: `recommended` always has trial episodes where they are possible."""
        return {}


def trial_at(task: Task, trials: TrialEpisodes | None, episode: int) -> str | None:
    """Return the member whose trial episode an episode, 1, 2, ..., is, by name; None if it is none.

    trials: of a learner's settings; None: there are none. `TrialEpisodes` has the rule.
    """
    if trials is None:
        return None
    able, since = trials.of_members(task)
    place = int(trial_member.py_func(since, episode))
    return task.members[able[place]] if place >= 0 else None


def checked_form(owner: str, place: Any, array: Any, axes: int, dtype: Any = np.float64) -> Any:
    """Check that an array has the type and the number of axes that kernels are compiled for; return it read-only, in C order."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != axes:
        check.fail(owner, str(place), check.show(array), f"an array of {np.dtype(dtype)} with {axes} axes")
    return check.frozen(np.ascontiguousarray(array))


def least_step_cost(task: Task) -> float:
    """Return the least cost of a step of a task."""
    n, (least, most) = task.n_agents, task.extremes_of_env_cost
    control, switching = task.control_cost.reshape(-1, n), task.switch_cost.reshape(-1, n, n)
    return float(step_costs(least, most - least, *task.extremes_of_enter_cost, control, switching, task.is_terminal)[0])


def checked_limits(owner: str, task: Task, at_most: Any, at_least: Any) -> ShareLimits | None:
    """Make limits of the arguments `at_most` and `at_least` of `ucrl2_mc`, after checks; None if neither is given."""
    if at_most is None and at_least is None:
        return None
    limits = ShareLimits(*limits_of(owner, task, at_most, at_least))
    if task.horizon is None and task.discount is not None:
        expected = "left out with a discount and no horizon: such a run has no share of steps that could be compared with its costs"
        check.fail(owner, "at_most or at_least", "given", f"{expected}; give a horizon, or no discount")
    return limits


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
