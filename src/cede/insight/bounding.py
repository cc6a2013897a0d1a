"""Bounds on the true cost of a switching policy: the least and the most that a learner's confidence sets allow.

The lower end is the recursion of Theorem 1 with the policy given. The upper end is the same with every cost negated, since the
greatest value of a sum is minus the least value of its negative. One kernel computes both.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Floats, Policy
from cede._base.reprs import short_repr
from cede.beliefs.belief import Belief, CostBelief
from cede.learners.learner import Learner
from cede.planning.passes import Plan, gain_under, negated, value_under
from cede.problem.names import name_index
from cede.problem.policies import checked_switching_policy
from cede.problem.task import Task


@dataclass(frozen=True, eq=False)
class Bounds:
    """An interval for the true cost of a policy, from every time, state and previous agent on. `bounds` returns it.

    If the truth lies in the learner's confidence sets, all intervals hold at once. If `guaranteed`, that has probability 1 - delta.
    """

    low: Floats  # (L + 1, S, D); without horizon (S, D), for averages of a step in the long run, the same everywhere
    high: Floats  # the same
    guaranteed: bool  # whether the radii are not scaled down and no counts fade
    delta: float
    agents: tuple[str, ...]  # (D,) names

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            low, high = (end[0] if end.ndim == 3 else end for end in (self.low, self.high))
            promise = f"guaranteed, delta {self.delta:g}" if self.guaranteed else "not guaranteed"
            return f"from {low.min():.4g} to {high.max():.4g}", " x ".join(f"{n:,}" for n in self.low.shape), promise

        return short_repr(self, parts)

    def of_episode(self, start: ArrayLike, start_agent: int | str = 0) -> tuple[float, float]:
        """Return the interval, (low, high), for the expected cost of a whole episode.

        start: (S,) probabilities of the first state. start_agent: the agent in control before the first step, index or name.
        """
        low, high = (end[0] if end.ndim == 3 else end for end in (self.low, self.high))
        chances = check.probabilities("Bounds.of_episode", "start", start, (low.shape[0],), "(S,)")
        agent = name_index("Bounds.of_episode", "start_agent", start_agent, self.agents)
        return float(chances @ low[:, agent]), float(chances @ high[:, agent])


def bounds(learner: Learner, policy: ArrayLike | Plan | None = None) -> Bounds:
    """Return an interval for the true cost of a switching policy, from a learner's confidence sets.

    learner: with confidence sets of both layers (`ucrl2_mc`); it may have learned from a log of another controller. policy: a
    switching policy, (L, S, D), or a Plan; by default the learner's plan.
    """
    owner = "bounds"
    check.instance(owner, "learner", learner, Learner)
    settings = learner.settings
    if not settings.has_sets:
        kind = "without confidence sets" if settings.belief is None else "with one table for agents and environment"
        kind = kind if settings.belief is None or settings.flat else "with sets for optimism only"
        check.fail(owner, "learner", f"{settings.name}, {kind}", "one with sets of both layers that hold the truth (ucrl2_mc)")
    checked = checked_switching_policy(owner, learner.task, learner.plan if policy is None else policy)
    low, high = extremes(learner.task, *learner.beliefs, checked, learner.costs)
    if learner.task.horizon is None:
        low, high = low[0], high[0]
    return Bounds(low, high, not settings.is_scaled and not settings.forgetting.any, settings.delta, tuple(learner.task.agents))


def extremes(task: Task, agents: Belief, environment: Belief, policy: Policy, costs: CostBelief) -> tuple[Floats, Floats]:
    """Return the least and the greatest value of a policy over all tables and costs within beliefs, (L + 1, S, D) each; without
    horizon (1, S, D), for averages the cost of a step in the long run.
    """
    cheapest, dearest = costs.least("bounds", task), negated(costs.most("bounds", task))
    if task.horizon is None and task.discount is None:
        shape = (1, task.n_states, task.n_agents)
        low, high = (np.full(shape, gain_under(priced, agents, environment, policy)) for priced in (cheapest, dearest))
    else:
        low, high = (value_under(priced, agents, environment, policy) for priced in (cheapest, dearest))
    return low, -high + 0.0
