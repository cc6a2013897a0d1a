"""Promises of a learner beside a low cost: limits of control, and a baseline; and trial episodes.

ShareLimits      shares of the steps in which members act, at least and at most (planning by prices, limits.py)
Baseline         a policy that the learner must never be much worse than (proofs, baseline.py)
TrialEpisodes    every member has control in whole episodes, less and less often

With both promises the plan is made with the prices of the limits, and used only in episodes in which it provably keeps the promise
about the baseline.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Ints, Policy
from cede._base.remade import Remade
from cede.learners.trials import scheduled_trial
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
        least = task.ends_of_step_cost[0]
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
    """Trial episodes: one member has control, to learn how it acts. Argument `trials` of `recommended`.

    Each of n members has one, one after the other, in the n episodes from episode 1, 8 n + 1, 64 n + 1, ... on. So every agent is
    tried again and again, ever more seldom. A trial is left out if the costs of the member alone, unknown ones at the least that
    is believed of them, are more than the mean cost of an episode so far: such a member cannot be worth control throughout. Where
    it is worth its costs in some states, the plan tries it there. For a member that joins later, the same schedule begins then
    (trials.py).
    """

    steps: int | None = None  # at the beginning of the episode, in which the member has control; None: all
    states: tuple[int, ...] = ()  # in which it has control; empty: all
    members: tuple[int, ...] = ()  # who are tried; empty: all
    approval: bool = False  # whether a trial needs a call of `approve_trial`
    since: tuple[int, ...] = ()  # (team members,) episodes that were over when each joined; (): none were

    def __post_init__(self) -> None:
        if self.steps is not None:
            check.integer("trials", "steps", self.steps, 1)
        for name in ("states", "members", "since"):
            places = check.items("trials", name, getattr(self, name), "indices")
            object.__setattr__(self, name, tuple(check.integer("trials", name, place, 0) for place in places))
        object.__setattr__(self, "approval", check.truth("trials", "approval", self.approval))

    def check_fits(self, owner: str, task: Task) -> None:
        """Check states and members against a task."""
        for name, n in (("states", task.n_states), ("members", len(task.members))):
            for place in getattr(self, name):
                check.index(owner, f"{name} of trials", place, n)

        if len(self.since) not in (0, len(task.members)):
            check.fail(owner, "the length of since", len(self.since), f"{len(task.members)}, one for each member")

    def of_members(self, task: Task) -> tuple[list[int], Ints]:
        """Return the members that are tried, those who can get control at all, and how many episodes were over when each joined."""
        able = [member for member in self.members or range(len(task.members)) if task.can_reach(member)]
        return able, np.array(self.since or (0,) * len(task.members), dtype=np.int64)[able]

    @property
    def is_partial(self) -> bool:
        """Return whether the plan is followed in some steps or states."""
        return self.steps is not None or bool(self.states)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the argument `trials` that gives these; none for the default."""
        given = {"steps": self.steps, "states": self.states, "agents": self.members, "approval": self.approval}
        given = {name: value for name, value in given.items() if value}
        return {"trials": given} if given else {}


def checked_trials(owner: str, task: Task, trials: Any) -> TrialEpisodes | None:
    """Check the argument `trials` of `recommended`, and return the trial episodes; None if there are none."""
    if trials is None or isinstance(trials, bool | np.bool_):
        wanted = trials is None or bool(trials)
        if trials and task.horizon is None:
            check.fail(owner, "trials", True, "left out without a horizon: there are no whole episodes")
        return TrialEpisodes() if wanted and task.horizon is not None else None
    expected = "True, False, a number of steps, or a mapping with some of steps, states, agents, approval"
    if task.horizon is None:
        check.fail(owner, "trials", check.show(trials), "left out without a horizon: there are no whole episodes")
    if not isinstance(trials, Mapping):
        return TrialEpisodes(steps=check.integer(owner, "trials", trials, 1))
    for name in trials:
        check.choice(owner, "a name in trials", name, ("steps", "states", "agents", "approval"))
    states = check.items(owner, "trials['states']", trials.get("states") or (), expected)
    agents = check.items(owner, "trials['agents']", trials.get("agents") or (), expected)
    members = tuple(task.agent_index(owner, f"trials['agents'][{i}]", agent) for i, agent in enumerate(agents))
    if members and max(members) >= len(task.members):
        check.fail(owner, "trials['agents']", check.show(list(agents)), check.one_of(task.members))
    places = tuple(task.state_index(owner, f"trials['states'][{i}]", state) for i, state in enumerate(states))
    return TrialEpisodes(trials.get("steps"), places, members, trials.get("approval", False))


def trial_at(task: Task, trials: TrialEpisodes | None, episode: int) -> str | None:
    """Return the member whose trial episode an episode, 1, 2, ..., is by the schedule, by name; None if it is none.

    trials: of a learner's settings; None: there are none. `TrialEpisodes` has the rule.
    """
    if trials is None:
        return None
    able, since = trials.of_members(task)
    place = int(scheduled_trial.py_func(since, episode))
    return task.members[able[place]] if place >= 0 else None


def trials_from(task: Task, trials: TrialEpisodes, episode: int) -> Iterator[tuple[int, str]]:
    """Yield the next trial episodes by the schedule, from this one on: their numbers and members, two for each member."""
    able, since = trials.of_members(task)
    begins = [0, *(8 * 8**i for i in range(20))]
    groups = {int(joined): int((since == joined).sum()) for joined in since}
    numbers = {joined + begin * m + 1 + i for joined, m in groups.items() for begin in begins for i in range(m)}
    for number in sorted(one for one in numbers if one >= episode)[: 2 * len(able)]:
        name = trial_at(task, trials, number)
        if name is not None:
            yield number, name


def checked_form(owner: str, place: Any, array: Any, axes: int, dtype: Any = np.float64) -> Any:
    """Check that an array has the type and the number of axes that kernels are compiled for; return it read-only, in C order."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != axes:
        check.fail(owner, str(place), check.show(array), f"an array of {np.dtype(dtype)} with {axes} axes")
    return check.frozen(np.ascontiguousarray(array))


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
