"""The least cost under limits of the share of steps in which each agent is in control.

The share of a member is its expected number of steps, divided by that of all members. Every step counts equally, for any discount.
Only with a discount and without a horizon, steps are discounted for shares as for costs.

Shares are met in expectation, by a mixture of policies of which one is drawn at the start of an episode: a single deterministic
policy cannot meet most shares exactly. The best mixture solves a linear programme over all policies,

    min sum_i w_i cost_i    such that    at_least_d <= sum_i w_i share_{i, d} <= at_most_d,   sum_i w_i = 1,   w >= 0,

which we solve by column generation (Dantzig and Wolfe 1960). Each round takes the dual prices of the limits, adds them to the
control costs, and lets the planner find the best policy for these costs. If it improves the mixture, it is added to the known
policies; if not, the mixture is optimal. With m limits at most m + 1 policies have weight.

This is done twice: first with the violation of the limits as the cost (if its minimum is not 0, no mixture meets the limits), then
with the real cost. No tolerance depends on the unit of costs: the programme is solved with costs relative to their range, and again
for the residuals, until these are rounding (Gleixner, Steffy and Wolter 2012).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Policy
from cede.beliefs.truth import true_beliefs
from cede.planning.chains import chain_of, chain_value, outcomes_of
from cede.planning.passes import best_plan, start_cost, true_value, value_under
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task

MOST_ROUNDS, MOST_REFINEMENTS = 2000, 20
CLOSE_TO_LIMIT = 1e-7  # shares that miss a limit by less are rounding
ROUNDING = 1e-13  # of a sum, relative to its parts
TOLERANCE, FAR = 1e-10, 1e6  # of the solver; and ratio of reduced costs to the worst, above which they are irrelevant


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
        rng = check.generator("Mixture.draw", "seed", seed)
        return self.policies[int(rng.choice(len(self.policies), p=self.weights))]


class Column(NamedTuple):
    """A known policy: a column of the linear programme."""

    policy: Policy  # (L, S, D) as kernels read it
    cost: float  # expected cost of an episode
    shares: Floats  # (members,) expected steps of each member, relative to the most that there can be

    @classmethod
    def of(cls, mdp: TwoLayerMDP, policy: Policy) -> "Column":
        """Evaluate a policy."""
        return cls(policy, start_cost(mdp, true_value(mdp, policy)), shares_of(mdp, policy))


@dataclass(frozen=True, eq=False)
class Weights:
    """The best mixture of known policies."""

    weights: Floats  # (policies,)
    prices: Floats  # (members,) of a share of 1
    base: float  # a new policy improves the mixture if it costs less than this, with prices
    missed: float  # total by which limits are missed
    common: float  # price of a step of any agent, since limits are shares of the steps taken; 0 if all policies take all steps


def best_mixture(mdp: TwoLayerMDP, least: Floats, most: Floats, *, seed: int = 0) -> Mixture:
    """Find the mixture of least expected cost under the true model.

    least, most: (members,) limits of the expected share of the steps. seed: of ties. Fails if no mixture meets the limits.
    """
    task = mdp.task
    alone = [task.always(agent) for agent in range(len(task.members)) if task.can_reach(agent)]
    known = [Column.of(mdp, policy.reshape(-1, task.n_states, task.n_agents)) for policy in alone]  # these meet most limits
    nearest = generate(mdp, known, least, most, seed, nearest_only=True)
    if nearest.missed > CLOSE_TO_LIMIT:
        taken = weighted(nearest.weights, np.array([column.shares for column in known]))
        got = dict(zip(task.members, (taken / taken.sum()).round(4).tolist(), strict=True))
        expected = "within them: hand-overs that take time, or are not possible, leave no way"
        check.fail("solve", "the nearest that shares can come to the limits", got, expected)
    best = generate(mdp, known, least - nearest.missed, most + nearest.missed, seed)
    part = best.weights[best.weights > ROUNDING]
    part = part / part.sum()
    used = [column for column, weight in zip(known, best.weights, strict=True) if weight > ROUNDING]
    cost = weighted(part, np.array([column.cost for column in used]))
    shares = weighted(part, np.array([column.shares for column in used]))
    policies = tuple(column.policy.reshape(task.policy_shape) for column in used)
    return Mixture(policies, part, float(cost), shares / shares.sum(), best.prices / most_steps(task))


def generate(
    mdp: TwoLayerMDP, known: list[Column], least: Floats, most: Floats, seed: int, *, nearest_only: bool = False
) -> Weights:
    """Add policies to the known ones until no other improves the mixture, and return the best weights.

    nearest_only: minimise the violation of the limits instead of the cost.
    """
    for _ in range(MOST_ROUNDS):
        costs = np.array([column.cost for column in known])
        shares = np.array([column.shares for column in known])
        best = best_weights(costs, shares, least, most, nearest_only)
        if nearest_only and best.missed <= ROUNDING:
            return best
        policy = priced(mdp, (best.prices - best.common) / most_steps(mdp.task), seed, nearest_only)
        if any(np.array_equal(policy, column.policy) for column in known):
            return best
        new = Column.of(mdp, policy)
        parts = np.array([0.0 if nearest_only else new.cost, *(best.prices - best.common) * new.shares, -best.base])
        if parts.sum() >= -ROUNDING * np.abs(parts).sum():  # it improves nothing
            return best
        known.append(new)
    raise RuntimeError(f"solve: no best mixture was found in {MOST_ROUNDS} rounds")


def best_weights(costs: Floats, shares: Floats, least: Floats, most: Floats, nearest_only: bool) -> Weights:
    """Find the best mixture of n known policies: one linear programme.

    Limits are shares of the steps taken. Without terminal states, all policies take all steps, and the sum of `shares` is 1 for
    each policy; if it is z, the limit of a member is multiplied by z.

    costs: (n,) expected cost of each policy. shares: (n, members). least, most: (members,) the limits. nearest_only: minimise the
    violation of the limits instead of the cost; else the limits must be feasible.
    """
    n, members = shares.shape
    nothing, each = np.zeros((members, members)), np.eye(members)
    fewer = shares.sum(axis=1) - 1.0  # (n,) steps that are not taken
    if (np.abs(fewer) <= ROUNDING).all():
        fewer = np.zeros(n)
    rows = [
        np.concatenate([np.ones((1, n)), np.zeros((1, 2 * members))], axis=1),  # weights sum to 1
        np.concatenate([shares.T - np.outer(most, fewer), each, nothing], axis=1),  # at most: what is left is at least 0
        np.concatenate([shares.T - np.outer(least, fewer), nothing, -each], axis=1),  # at least: what is more is at least 0
    ]
    price_of = np.concatenate([costs, np.zeros(2 * members)])
    if nearest_only:
        rows[0] = np.concatenate([rows[0], np.zeros((1, 2 * members))], axis=1)
        rows[1] = np.concatenate([rows[1], -each, nothing], axis=1)
        rows[2] = np.concatenate([rows[2], nothing, each], axis=1)
        price_of = np.concatenate([np.zeros(n + 2 * members), np.ones(2 * members)])
    x, dual = minimise(price_of, np.concatenate(rows), np.concatenate([[1.0], most, least]), n)
    above, below = -dual[1 : members + 1], -dual[members + 1 :]
    common = float(weighted(above, most) + weighted(below, least)) if fewer.any() else 0.0
    return Weights(x[:n], above + below, float(dual[0]) - common, float(x[n + 2 * members :].sum()), common)


def weighted(weights: Floats, rows: Floats) -> Floats:
    """Return sum_i weights[i] rows[i], added in this order: the bits of a library's product depend on the processor."""
    result: Floats = (weights.reshape(-1, *[1] * (rows.ndim - 1)) * rows).cumsum(axis=0)[-1]
    return result


def minimise(costs: Floats, rows: Floats, right: Floats, n: int) -> tuple[Floats, Floats]:
    """Solve min costs x such that rows x = right, x >= 0, for any unit of costs. Return x and the dual prices of the rows.

    n: the first n of x sum to 1, by the first row. A solver's tolerances are absolute. So the programme is first solved with costs
    relative to their range, then repeatedly with the reduced costs relative to the worst of them, without variables whose reduced
    cost is far above the tolerance, until no reduced cost is below 0 except for rounding.
    """
    from scipy.optimize import linprog  # not at the top: it takes a quarter of a second to load

    dual, x = np.zeros(len(right)), np.zeros(len(costs))
    dual[0] = costs[:n].min()
    reduced = costs - weighted(dual, rows)
    unit, solved_for = float(reduced.max()) or 1.0, np.ones(len(costs), dtype=bool)
    for _ in range(MOST_REFINEMENTS):
        options = {"primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE}
        result = linprog(reduced[solved_for] / unit, A_eq=rows[:, solved_for], b_eq=right, method="highs", options=options)
        if result.status != 0:
            raise RuntimeError(f"solve: the linear programme of the limits failed: {result.message}")
        x = np.zeros(len(costs))
        x[solved_for] = np.maximum(result.x, 0.0)
        dual = dual + unit * result.eqlin.marginals
        reduced = costs - weighted(dual, rows)
        if (reduced >= -ROUNDING * (np.abs(costs) + weighted(np.abs(dual), np.abs(rows)))).all():
            break
        unit = -float(reduced.min())
        solved_for = (reduced <= FAR * unit) | (x > 0.0)
    return x, dual


def priced(mdp: TwoLayerMDP, prices: Floats, seed: int, nearest_only: bool) -> Policy:
    """Find the best policy if each step of control costs `prices`, (members,), in addition; if nearest_only, with all other costs
    0.
    """
    task, extra = mdp.task, prices[mdp.task.acting]
    costs = counted_alike(task).only_costs() if nearest_only else task
    plan = best_plan(costs, *true_beliefs(mdp), seed=seed, start=mdp.environment.start, prices=extra)
    return plan.policy.reshape(-1, task.n_states, task.n_agents)


def counted_alike(task: Task) -> Task:
    """Return the task with steps weighted as for shares: without the discount, if there is a horizon."""
    return replace(task, discount=None) if task.weighs_steps else task


def most_steps(task: Task) -> float:
    """Return the greatest number of steps of an episode; without a horizon the sum of all discount factors, and 1 for averages."""
    if task.horizon is not None:
        return float(task.horizon)
    return 1.0 if task.discount is None else 1.0 / (1.0 - task.discount)


def shares_of(mdp: TwoLayerMDP, policy: Policy) -> Floats:
    """Return the expected steps in which each member acts under a policy, (members,), relative to the most that there can be.

    For a member it is the cost of an episode in which each of its steps costs 1 / L and all other costs are 0.
    """
    task, members = mdp.task, range(len(mdp.task.members))
    if task.horizon is None and task.discount is None:
        chain = chain_of(task, *true_beliefs(mdp), policy)
        source, who, chance = outcomes_of(task, policy)
        acts = np.array([np.bincount(source, chance * (task.acting[who] == member)) for member in members]).T
        levels = chain_value(chain.matrix, acts, 1.0).level.reshape(task.n_states, task.n_agents, -1)[:, task.start_agent]
        shares: Floats = weighted(mdp.environment.start, levels)
    else:
        alike, most = counted_alike(task), most_steps(task)
        counting = (alike.only_costs(control_cost=(task.acting == member) / most) for member in members)
        shares = np.array([start_cost(mdp, value_under(task_of_member, *true_beliefs(mdp), policy)) for task_of_member in counting])
    if task.terminal:
        return shares
    result: Floats = shares / shares.sum()  # removes rounding: shares sum to 1
    return result
