"""One planner (Theorem 1) for every question: the best policy under a belief, under the truth, and what a policy costs.

solve             least cost over all policies, with the true tables; with limits of control, over mixtures of policies
evaluate          the same recursion with the policy given instead of chosen
optimistic_plan   least cost over all policies and all tables within the belief
"""

from collections.abc import Mapping
from typing import overload

from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Floats
from cede.planning.belief import Belief, true_beliefs
from cede.planning.control_shares import Mixture, best_mixture, limits_of
from cede.planning.passes import Plan, best_plan, start_cost, true_value
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task, checked_switching_policy


def optimistic_plan(task: Task, agents: Belief, environment: Belief, *, seed: int = 0) -> Plan:
    """Find the policy and tables of least cost, exactly (Theorem 1, Eq. 12). Ties between agents are broken by the seed."""
    owner = "optimistic_plan"
    slots = (int(task.n_slots.sum()), task.n_states)
    for argument, belief, shape, columns in (
        ("agents", agents, slots, task.n_actions),
        ("environment", environment, (task.n_states, task.n_actions), task.n_states),
    ):
        if belief.row.shape != shape or belief.centre.n_columns != columns:
            got = (*belief.row.shape, belief.centre.n_columns)
            check.fail(owner, f"the places and outcomes of {argument}", got, str((*shape, columns)))
    check.integer(owner, "seed", seed, 0, 2**63 - 1)
    return best_plan(task, agents, environment, seed=seed)


@overload
def solve(mdp: TwoLayerMDP, *, seed: int = 0) -> Plan: ...
@overload
def solve(
    mdp: TwoLayerMDP, *, at_most: Mapping[str, float], at_least: Mapping[str, float] | None = None, seed: int = 0
) -> Mixture: ...
@overload
def solve(
    mdp: TwoLayerMDP, *, at_least: Mapping[str, float], at_most: Mapping[str, float] | None = None, seed: int = 0
) -> Mixture: ...
def solve(
    mdp: TwoLayerMDP,
    *,
    at_most: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Plan | Mixture:
    """Find the best switching policy when all is known (Eq. 2).

    at_most, at_least: the share of the steps, in expectation, that an agent may or must hold control, by name, as in
    at_most={"human": 0.3}. The answer is then a `Mixture` of policies, of which one is drawn at the start of an episode.
    """
    if at_most is None and at_least is None:
        return optimistic_plan(mdp.task, *true_beliefs(mdp), seed=seed)
    if not isinstance(mdp, TwoLayerMDP):
        check.fail("solve", "mdp", check.show(mdp), "a TwoLayerMDP")
    return best_mixture(mdp, *limits_of("solve", mdp.task, at_most, at_least), seed=seed)


def evaluate(mdp: TwoLayerMDP, policy: ArrayLike) -> Floats:
    """Return value[t, s, prev_agent] of a switching policy, (L, S, D), under the true model (Eq. 10)."""
    return true_value(mdp, checked_switching_policy("evaluate", mdp.task, policy))


def expected_cost(mdp: TwoLayerMDP, policy: ArrayLike) -> float:
    """Return the expected cost of an episode of a switching policy, (L, S, D), from the problem's start."""
    return start_cost(mdp, evaluate(mdp, policy))
