"""Known tables without horizon: the Markov chain of a policy, solved exactly, and policy iteration (Howard 1960) over such chains.

The value of a policy, with step costs c, transition matrix P and discount g, is kept in two parts, `level` and `relative`:

    value = level / (1 - g) + relative,    level = P level,    level + relative = c + g P relative.

Neither part is large where g is near 1, so neither loses digits. For averages g is 1: `level` is the cost of a step in the long run
from each place, and `relative` is the bias.

Policy iteration solves the chain of a policy and improves the policy where the Bellman operator finds a better agent. It ends after
a few rounds, also where value iteration is slow because choices are nearly equal. iteration.py does the same over sets of tables,
for small problems.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cede._base.arrays import Floats, Ints, Policy
from cede.beliefs.belief import Belief
from cede.problem.layout import BY_PREV_AGENT
from cede.problem.task import Task

MOST_ROUNDS = 200
MOST_PLACES = 50_000  # beyond, a chain takes too much memory to be solved
ROUNDING = 64 * 2.0**-52

Operator = Callable[[Task, Floats], tuple[Floats, NDArray[np.int16]]]  # (task, v) -> T v and the best agents, all (S, D)


@dataclass(frozen=True, eq=False)
class Chain:
    """The chain of a policy over places (s, prev_agent), in the order s * D + prev_agent."""

    matrix: sp.csr_array  # (S*D, S*D)
    cost: Floats  # (S*D,) expected cost of a step


@dataclass(frozen=True, eq=False)
class ChainValue:
    """The value of a chain at each place, in two parts; see the top of the file."""

    level: Floats  # (n,), or (n, m) for m kinds of costs
    relative: Floats

    def total(self, discount: float) -> Floats:
        """Return the total discounted cost from each place."""
        result: Floats = self.level / (1.0 - discount) + self.relative
        return result


def is_point(*beliefs: Belief) -> bool:
    """Return whether each row of beliefs is a single distribution, not a set."""
    return all(not belief.width.any() and (belief.linear == 0.0 or bool(belief.centre.size.all())) for belief in beliefs)


def distributions(belief: Belief) -> sp.csr_array:
    """Return the centre of a belief as a matrix of probabilities; a row without visits is uniform."""
    total, matrix = belief.centre.total, belief.centre.matrix()
    known = sp.csr_array(sp.diags_array(np.where(total > 0, 1.0 / np.maximum(total, 1e-300), 0.0)) @ matrix)
    if (total > 0).all():
        return known
    uniform = np.outer(total <= 0, np.full(matrix.shape[1], 1.0 / matrix.shape[1]))
    return sp.csr_array(known + sp.csr_array(uniform))


def chain_of(task: Task, agents: Belief, environment: Belief, policy: Policy) -> Chain:
    """Return the chain of a policy, (1, S, D), if the centres of beliefs are true. Terminal states are absorbing and cost 0."""
    n_agents, n_states, n_actions = task.n_agents, task.n_states, task.n_actions
    n = n_states * n_agents
    source, who, chance = outcomes_of(task, policy)
    states, prevs = np.divmod(source, n_agents)
    slot = task.layout.slot[who] + np.where(task.layout.vary[who] == BY_PREV_AGENT, prevs, 0)
    acts = distributions(agents)[agents.row[slot, states]].toarray()  # (n, A)
    rows = distributions(environment)
    places = environment.row[:n_states][states]  # (n, A) rows of the environment
    ends_of_rows = np.arange(len(source) + 1) * n_actions
    weights = sp.csr_array((acts.reshape(-1), places.reshape(-1), ends_of_rows), shape=(len(source), rows.shape[0]))
    to_state = sp.coo_array(weights @ rows)
    columns = to_state.coords[1] * n_agents + who[to_state.coords[0]]
    control, switching = task.control_costs(states, prevs, who)
    cost = (acts * task.env_cost[states]).sum(axis=1) + control + switching
    if task.enter_cost is not None:
        cost = cost + np.asarray(sp.csr_array(to_state) @ task.enter_cost)
    goes_on = ~np.repeat(task.is_terminal, n_agents)
    probability, begins = to_state.data, source[to_state.coords[0]]
    if task.has_orders:
        probability, cost = probability * chance[to_state.coords[0]], np.bincount(source, chance * cost, n)
    possible = goes_on[begins] & (probability > 0)
    ends = np.flatnonzero(~goes_on)
    data = np.concatenate([probability[possible], np.ones(len(ends))])
    coords = (np.concatenate([begins[possible], ends]), np.concatenate([columns[possible], ends]))
    return Chain(sp.csr_array((data, coords), shape=(n, n)), np.where(goes_on, cost, 0.0))


def outcomes_of(task: Task, policy: Policy) -> tuple[Ints, Ints, Floats]:
    """Return who gets control next under a policy, (1, S, D): places, next agents and their probabilities, (n,) each, by place."""
    orders, who = task.roles.orders, policy[0].reshape(-1).astype(np.int64)
    if not task.has_orders:
        return np.arange(len(who)), who, np.ones(len(who))
    drawn = [(place, *outcome) for place, u in enumerate(who) for outcome in orders.outcomes(place % task.n_agents, int(u)).items()]
    source, agent, chance = zip(*drawn, strict=True)
    return np.array(source), np.array(agent), np.array(chance)


def recurrent_classes(matrix: sp.csr_array) -> list[list[int]]:
    """Return the recurrent classes of a chain: closed sets of states that all reach each other."""
    from scipy.sparse.csgraph import connected_components  # not at the top: it takes a moment to load

    _, label = connected_components(matrix, directed=True, connection="strong")
    edges = sp.coo_array(matrix)
    left = set(label[edges.coords[0][label[edges.coords[0]] != label[edges.coords[1]]]].tolist())
    order = np.argsort(label, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return [part.tolist() for i, part in enumerate(parts) if i not in left]


def chain_value(matrix: sp.csr_array, costs: Floats, discount: float) -> ChainValue:
    """Return the value of a chain with these costs of a step, (n,), or (n, m) for m kinds of costs. discount: 1 for averages."""
    n = matrix.shape[0]
    table, classes = costs.reshape(n, -1).astype(np.float64), recurrent_classes(matrix)
    level, relative = np.zeros_like(table), np.zeros_like(table)
    alone = np.array([members[0] for members in classes if len(members) == 1], dtype=np.int64)
    level[alone] = table[alone]
    for members in classes:
        if len(members) > 1:  # relative to the first of them
            system = sp.eye_array(len(members), format="csc") - discount * sp.csc_array(matrix[members][:, members])
            ones = sp.csc_array(np.ones((len(members), 1)))
            solution = solved(sp.hstack([ones, system[:, 1:]]), table[members])
            level[members], relative[members[1:]] = solution[0], solution[1:]
    stays = np.concatenate([np.array(members, dtype=np.int64) for members in classes])
    others = np.setdiff1d(np.arange(n), stays)
    if len(others):
        among, onward, eye = matrix[others][:, others], matrix[others][:, stays], sp.eye_array(len(others), format="csc")
        mean = solved(eye - among, onward @ level[stays])  # of the levels of the classes that can be reached
        level[others] = np.clip(mean, level[stays].min(axis=0), level[stays].max(axis=0))
        relative[others] = solved(eye - discount * among, table[others] - level[others] + discount * (onward @ relative[stays]))
    return ChainValue(level.reshape(costs.shape), relative.reshape(costs.shape))


def solved(system: sp.sparray, right: Floats) -> Floats:
    """Solve a sparse system for several right sides, (n, m), with one step of iterative refinement."""
    from scipy.sparse.linalg import splu

    matrix = sp.csc_array(system)
    factors = splu(matrix)
    solution = factors.solve(right)
    result: Floats = solution + factors.solve(right - matrix @ solution)
    return result


def reachable(matrix: sp.csr_array, begin: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return which states of a chain can be reached from the states `begin`, (n,)."""
    reached = np.zeros(matrix.shape[0], dtype=bool)
    reached[np.asarray(begin, dtype=np.int64)] = True
    fresh = reached.copy()
    while fresh.any():
        fresh = (np.asarray(matrix.T @ fresh.astype(np.float64)) > 0) & ~reached
        reached |= fresh
    return reached


@dataclass(frozen=True, eq=False)
class Improved:
    """An optimal policy and its value."""

    policy: Policy  # (1, S, D)
    value: Floats  # (S, D)
    gain: float
    error: float


def improved(
    task: Task, agents: Belief, environment: Belief, policy: Policy, reached: NDArray[np.bool_], operator: Operator
) -> Improved | None:
    """Improve a policy, (1, S, D), until all improvements are rounding.

    agents, environment: known tables. reached: (S, D) the places to optimise. operator: the Bellman operator under these tables.
    Return None if it does not converge, as for averages of a problem with unconnected parts.
    """
    discount, shape = task.layout.factor, policy.shape[1:]
    if policy.size > MOST_PLACES:
        return None
    policy = policy.copy()
    for _ in range(MOST_ROUNDS):
        chain = chain_of(task, agents, environment, policy)
        chain_cost = chain_value(chain.matrix, chain.cost, discount)
        level, relative = chain_cost.level.reshape(shape), chain_cost.relative.reshape(shape)
        base, most = level[reached].min(), np.abs(chain.cost).max()
        if task.discount is not None:
            x = relative + (level - base) / (1.0 - discount)
            image, best = operator(task, x)
            gained = x - (image - base)
        elif level[reached].max() - base > ROUNDING * most:  # the long run depends on where it begins: first improve that
            x = level
            image, best = operator(task.only_costs(), x)
            gained = x - image
            if not (gained[reached] > ROUNDING * most).any():
                return None
        else:
            x = relative
            image, best = operator(task, x)
            gained = x - (image - base)
        noise = ROUNDING * max(most, np.abs(x[reached]).max())
        better = reached & (gained > noise) & (best != policy[0])
        if not better.any():
            least = max(0.0, float(gained[reached].max()))
            if task.discount is None:
                return Improved(policy, x - x[reached][0], float(base), least)
            return Improved(policy, x + base / (1.0 - discount), 0.0, least / (1.0 - discount))
        policy[0][better] = best[better]
    return None
