"""The least cost when agents may, or must, hold control for a limited share of the steps.

Shares are met in expectation, by a mixture of policies of which one is drawn at the start of an episode: a single deterministic
policy cannot meet most shares exactly. The best mixture solves a linear programme over all policies,

    min sum_i w_i cost_i    such that    at_least_d <= sum_i w_i share_{i, d} <= at_most_d,   sum_i w_i = 1,   w >= 0,

which we solve by column generation (Dantzig and Wolfe 1960). Each round takes the dual prices of the limits, adds them to the
control costs, and lets the planner find the best policy for these costs. If it beats the policies known so far it is added to them;
if not, the mixture is optimal. With m limits at most m + 1 policies have weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Policy
from cede.planning.belief import true_beliefs
from cede.planning.passes import best_plan, start_cost, true_value, value_under
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task, name_index

MOST_ROUNDS = 200
CLOSE = 1e-9  # relative to the size of the costs
DEAR, CLOSE_TO_LIMIT = 1e4, 1e-7  # cost of missing a limit by 1, relative to that size; misses below this are rounding


@dataclass(frozen=True, eq=False)
class Mixture:
    """Policies of which one is drawn at the start of each episode. `solve` returns it if limits of control are given."""

    policies: tuple[Policy, ...]  # each (L, S, D)
    weights: Floats  # (n,) probability of each policy
    cost: float  # expected cost of an episode
    shares: Floats  # (members,) expected share of the steps in which each member acts
    prices: Floats  # (members,) dual price of a step of control, beyond its control cost; 0 where no limit binds

    def draw(self, seed: int | np.random.Generator = 0) -> Policy:
        """Draw the policy of one episode, (L, S, D)."""
        rng = np.random.default_rng(seed)
        return self.policies[int(rng.choice(len(self.policies), p=self.weights))]


def limits_of(owner: str, task: Task, at_most: Any, at_least: Any) -> tuple[Floats, Floats]:
    """Check limits of control given by name, and return the least and the most share of each member, two (members,) arrays.

    owner: who is named in errors. at_most, at_least: shares by name, as in {"human": 0.3}, or None. Members that are not named get
    the limits 0 and 1.
    """
    ends = [np.zeros(len(task.members)), np.ones(len(task.members))]
    for name, given, end in (("at_least", at_least, ends[0]), ("at_most", at_most, ends[1])):
        if given is not None and not isinstance(given, Mapping):
            check.fail(owner, name, check.show(given), "shares by the agents' names, as in {'human': 0.3}")
        for agent, share in (given or {}).items():
            value = check.number(owner, f"{name}[{agent!r}]", share, least=0.0)
            if value > 1.0:
                check.fail(owner, f"{name}[{agent!r}]", value, "a share, at most 1")
            end[name_index(owner, f"an agent of {name}", agent, task.members)] = value
    least, most = ends
    for agent, name in enumerate(task.members):
        if least[agent] > most[agent]:
            check.fail(owner, f"at_least[{name!r}]", least[agent], f"at most {most[agent]}, its at_most")
    if least.sum() > 1.0 + CLOSE:
        check.fail(owner, "the sum of at_least", f"{least.sum():g}", "at most 1: somebody is in control at every step")
    if most.sum() < 1.0 - CLOSE:
        check.fail(owner, "the sum of at_most over all agents", f"{most.sum():g}", "at least 1: somebody must be in control")
    return least, most


def limits_or_none(owner: str, task: Task, at_most: Any, at_least: Any) -> tuple[Floats, Floats] | None:
    """Return `limits_of`, or None if neither at_most nor at_least is given."""
    return None if at_most is None and at_least is None else limits_of(owner, task, at_most, at_least)


def best_mixture(mdp: TwoLayerMDP, least: Floats, most: Floats, *, seed: int = 0) -> Mixture:
    """Find the mixture of least expected cost under the true model.

    least, most: (members,) limits of the expected share of the steps. seed: of ties. Fails if no mixture meets the limits.
    """
    task = mdp.task
    policies = [task.always(agent) for agent in range(len(task.members)) if task.can_reach(agent)]
    costs, shares = [], []  # begin with each agent always: if hand-overs take no time, mixtures of these meet any limits
    for policy in policies:
        costs.append(start_cost(mdp, true_value(mdp, policy)))
        shares.append(shares_of(mdp, policy))
    size = max(1.0, float(np.abs(costs).max()))
    for _ in range(MOST_ROUNDS):
        weights, prices, base, missed = best_weights(np.array(costs), np.array(shares), least, most)
        found, value = priced(mdp, prices / task.horizon, seed)
        if value >= base - CLOSE * size or any(np.array_equal(found, known) for known in policies):
            break
        policies.append(found)
        costs.append(start_cost(mdp, true_value(mdp, found)))
        shares.append(shares_of(mdp, found))
    if missed > CLOSE_TO_LIMIT:
        got = dict(zip(task.members, (weights @ np.array(shares)).round(4).tolist(), strict=True))
        check.fail(
            "solve",
            "the nearest that shares can come to the limits",
            got,
            "within them: hand-overs that take time, or are not possible, leave no way",
        )
    used = np.flatnonzero(weights > CLOSE)
    part = weights[used] / weights[used].sum()
    mixed_cost, mixed_shares = float(part @ np.array(costs)[used]), part @ np.array(shares)[used]
    return Mixture(tuple(policies[i] for i in used), part, mixed_cost, mixed_shares, prices / task.horizon)


def best_weights(costs: Floats, shares: Floats, least: Floats, most: Floats) -> tuple[Floats, Floats, float, float]:
    """Find the best mixture of n known policies: one linear programme.

    costs: (n,) expected cost of each policy. shares: (n, members). least, most: (members,) the limits.

    Return the weights, (n,); the price of each member's share, (members,); the cost, at these prices, below which a new policy
    would improve the mixture; and the total by which limits are missed. Missing a limit is allowed at a high cost, so that there is
    always a solution and prices lead to policies that meet the limits, if there are any.
    """
    from scipy.optimize import linprog  # not at the top: it takes a quarter of a second to load

    n, members = len(costs), len(least)
    miss = np.eye(2 * members)
    limited = np.concatenate([np.concatenate([shares.T, -shares.T]), -miss], axis=1)
    result = linprog(
        np.concatenate([costs, np.full(2 * members, DEAR * max(1.0, float(np.abs(costs).max())))]),
        A_ub=limited,
        b_ub=np.concatenate([most, -least]),
        A_eq=np.concatenate([np.ones((1, n)), np.zeros((1, 2 * members))], axis=1),
        b_eq=[1.0],
        method="highs",
    )
    assert result.status == 0, result.message
    above, below = np.split(-result.ineqlin.marginals, 2)
    return result.x[:n], above - below, float(result.eqlin.marginals[0]), float(result.x[n:].sum())


def priced(mdp: TwoLayerMDP, prices: Floats, seed: int) -> tuple[Policy, float]:
    """Find the best policy when each step of control costs `prices`, (members,), more. Return it and its cost with these prices."""
    dearer = replace(mdp.task, control_cost=mdp.task.control_cost + prices[mdp.task.acting])
    plan = best_plan(dearer, *true_beliefs(mdp), seed=seed)
    return plan.policy, start_cost(mdp, plan.value)


def shares_of(mdp: TwoLayerMDP, policy: Policy) -> Floats:
    """Return the expected share of the steps that each member acts under a policy, (members,).

    The share of a member is what an episode costs if each of its steps costs 1 / L and nothing else costs anything.
    """
    nothing = {"env_cost": np.zeros_like(mdp.task.env_cost), "switch_cost": 0.0}
    acting = (mdp.task.acting == member for member in range(len(mdp.task.members)))
    counting = (replace(mdp.task, control_cost=own / mdp.horizon, **nothing) for own in acting)
    shares = np.array([start_cost(mdp, value_under(task, *true_beliefs(mdp), policy)) for task in counting])
    result: Floats = shares / shares.sum()  # removes rounding: somebody is in control at every step
    return result
