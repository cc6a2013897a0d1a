"""Public functions of the planner (Theorem 1): the best policy under a belief or the true model, and the cost of a policy.

solve             least cost over all policies under the true model; with limits of control, over mixtures of policies
evaluate          the value of a given policy under the true model
expected_cost     the expected cost of an episode of a given policy under the true model
best_policy       the best policy of a single agent: an expert
optimistic_plan   least cost over all policies and all tables within beliefs
"""

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Floats
from cede.beliefs.belief import Belief, CostBelief
from cede.beliefs.truth import true_beliefs
from cede.planning.chains import chain_of, reachable, recurrent_classes
from cede.planning.control_shares import Mixture, best_mixture
from cede.planning.passes import Plan, best_plan, start_cost, true_value
from cede.problem.control_limits import limits_of
from cede.problem.model import Environment, TwoLayerMDP, solo
from cede.problem.policies import checked_switching_policy
from cede.problem.task import Task


def optimistic_plan(task: Task, agents: Belief, environment: Belief, *, costs: CostBelief | None = None, seed: int = 0) -> Plan:
    """Find the policy and the tables within beliefs that together have the least cost, exactly (Theorem 1, Eq. 12).

    agents: a belief with places (slots, S) and A outcomes. environment: a belief with places (S, A) and S outcomes; (P * S, A) if
    the environment has P tables. costs: intervals of the unknown costs of the task. seed: breaks ties between agents. Return a
    `Plan` whose value is the optimistic one, a lower bound if the truth lies within the beliefs.
    """
    owner = "optimistic_plan"
    check.instance(owner, "task", task, Task, ", as in mdp.task")
    slots = (int(task.layout.n_slots.sum()), task.n_states)
    for argument, belief, shape, columns in (
        ("agents", agents, slots, task.n_actions),
        ("environment", environment, (task.n_periods * task.n_states, task.n_actions), task.n_states),
    ):
        check.instance(owner, argument, belief, Belief)
        if belief.row.shape != shape or belief.centre.n_columns != columns:
            got = (*belief.row.shape, belief.centre.n_columns)
            check.fail(owner, f"the places and outcomes of {argument}", got, str((*shape, columns)))
    if costs is not None:
        task = check.instance(owner, "costs", costs, CostBelief).least(owner, task)
    elif task.learns_costs:
        check.fail(owner, "costs", "missing", "a CostBelief: the task does not state all costs")
    return best_plan(task, agents, environment, seed=checked_seed(owner, seed))


def checked_seed(owner: str, seed: Any) -> int:
    """Check the seed of ties, and return it as the int that kernels are compiled for."""
    return check.integer(owner, "seed", seed, 0, 2**63 - 1)


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
    """Find the best switching policy when the model is known (Eq. 2).

    Without a horizon it is the policy of least discounted cost, or of least long-run average cost of a step, over the places that
    can be reached from the start; `error` of the plan is its accuracy.

    mdp: the problem. at_most, at_least: limits, by name, of the share of the steps in which an agent holds control, as in
    at_most={"human": 0.3}: its expected steps divided by those of all agents. Steps are discounted only if there is a discount and
    no horizon. seed: breaks ties between agents.

    Return a `Plan`; with limits a `Mixture` of policies, of which one is drawn at the start of each episode.
    """
    check.instance("solve", "mdp", mdp, TwoLayerMDP)
    seed = checked_seed("solve", seed)
    if mdp.task.horizon is None and mdp.task.discount is None:
        check_connected("solve", mdp)
    if at_most is None and at_least is None:
        return best_plan(mdp.task, *true_beliefs(mdp), seed=seed, start=mdp.environment.start)
    return best_mixture(mdp, *limits_of("solve", mdp.task, at_most, at_least), seed=seed)


def evaluate(mdp: TwoLayerMDP, policy: ArrayLike | Plan) -> Floats:
    """Return value[t, s, prev_agent], (L + 1, S, D), of a switching policy under the true model (Eq. 10).

    Without a horizon it is value[s, prev_agent], (S, D): the total discounted cost; for averages, the long-run cost of a step from
    each place.

    mdp: the problem. policy: (L, S, D), the agent to put in control at time t in state s after prev_agent, or (S, D) without a
    horizon; or a Plan, as in `solve(mdp)`.
    """
    value = value_of("evaluate", mdp, policy)
    return value if mdp.task.horizon is not None else value[0]


def value_of(owner: str, mdp: TwoLayerMDP, policy: Any) -> Floats:
    """Do the work of `evaluate`. owner: named in errors."""
    check.instance(owner, "mdp", mdp, TwoLayerMDP)
    return true_value(mdp, checked_switching_policy(owner, mdp.task, policy))


def expected_cost(mdp: TwoLayerMDP, policy: ArrayLike | Plan) -> float:
    """Return the expected cost of an episode of a switching policy, (L, S, D) or a Plan, from the start distribution and start
    agent of the problem. Without a horizon: the total discounted cost, or the long-run average cost of a step.
    """
    return start_cost(mdp, value_of("expected_cost", mdp, policy))


def best_policy(environment: Environment, horizon: int | None, *, discount: float | None = None) -> Floats:
    """Return the best policy of a single agent in an environment, (S, A) of 0 and 1: an expert.

    With a horizon it is the policy of the first time step; for a policy for each time step use `solve(solo(environment, horizon))`.
    """
    policy = solve(solo(environment, horizon, discount=discount)).policy
    result: Floats = np.eye(environment.n_actions)[policy[..., 0] if horizon is None else policy[0, :, 0]]
    return result


# ------------------------------------------------------------------------------------------------- connected or not


def check_connected(owner: str, mdp: TwoLayerMDP) -> None:
    """Check that the least average cost of a problem does not depend on where a run begins.

    That is so if all places (s, prev_agent) that can be reached from the start can reach each other, except for places that every
    policy leaves for good.
    """
    task, n_agents = mdp.task, mdp.task.n_agents
    n = task.n_states * n_agents
    states, prevs = np.divmod(np.arange(n), n_agents)
    can_choose = np.broadcast_to(task.can_choose, (task.n_states, n_agents, n_agents))
    steps: list[sp.csr_array] = []  # by agent: where its steps can lead
    for d in range(n_agents):
        allowed = can_choose[states, prevs, d]
        policy = np.full((1, task.n_states, n_agents), d, dtype=np.int16)
        chain = chain_of(task, *true_beliefs(mdp), policy)
        steps.append(sp.csr_array(sp.diags_array(allowed.astype(np.float64)) @ chain.matrix))
    anyhow = steps[0].copy()
    for more in steps[1:]:
        anyhow = sp.csr_array(anyhow + more)
    anyhow.eliminate_zeros()
    reached = reachable(anyhow, np.flatnonzero((mdp.environment.start[states] > 0) & (prevs == task.start_agent)))
    closed = [part for part in recurrent_classes(anyhow) if reached[part[0]]]
    can_stay = np.ones(n, dtype=bool)  # places outside of the last closed set in which some policy stays for ever
    can_stay[closed[-1]] = False
    can_stay &= reached
    while True:
        stays = np.zeros(n, dtype=bool)
        for d in range(n_agents):
            inside = np.asarray(steps[d] @ (~can_stay).astype(np.float64)) == 0.0
            stays |= inside & can_choose[states, prevs, d]
        if (can_stay & stays == can_stay).all():
            break
        can_stay &= stays
    if len(closed) > 1 or can_stay.any():
        part = closed[0] if len(closed) > 1 else np.flatnonzero(can_stay).tolist()
        is_single = len({place // n_agents for place in part}) == 1
        what = "never left" if len(closed) > 1 else "such that it can be stayed in for ever, or left for good"
        why = "so the average depends on where a run begins; use a discount"
        expected = f"connected to all others: {places(task, part, reached)} {'is' if is_single else 'are'} {what}, {why}"
        check.fail(owner, "a part of the problem without horizon", "apart", expected)


def places(task: Task, part: Sequence[int], reached: np.ndarray) -> str:
    """Return the first few states of places in words, with the previous agents if `part` has not all reached places of these
    states.
    """
    states, agents = (sorted(set(side)) for side in np.divmod(np.asarray(part), task.n_agents))
    names = [repr(task.state_names[s]) if task.state_names else str(s) for s in states[:5]]
    more = f" and {len(states) - 5} more" if len(states) > 5 else ""
    others = reached.reshape(-1, task.n_agents)[states].sum() > len(part)
    after = f" after {' or '.join(repr(task.agents[d]) for d in agents)}" if others else ""
    return f"state{'s' if len(states) > 1 else ''} {', '.join(names)}{more}{after}"
