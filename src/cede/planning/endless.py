"""Plans and evaluations without a horizon: with a discount, or for the average cost of a step in the long run.

`_kernels/endless.py` iterates the Bellman operator to a fixed point. What a given policy costs in the long run is found exactly
from its Markov chain, since it may depend on where it begins.
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Floats, Policy
from cede._kernels.endless import MEMORY, Endless, settle
from cede._kernels.limits import step_costs
from cede._kernels.model import ModelArrays
from cede._kernels.scratch import PassScratch, ThreadScratch
from cede.problem.model import TwoLayerMDP
from cede.problem.task import Task

PATIENCE = (
    1000  # applications of the operator without gain before a search for a fixed point ends; more where there are more states
)
CLOSE = 1e-11  # how exactly values are computed, relative to the largest that there can be
ROUNDING = 64 * 2.0**-52


def new_endless(task: Task) -> Endless:
    """Make the scratch arrays of a fixed point; of a task with a horizon, empty ones."""
    sides = (task.n_states, task.n_agents) if task.horizon is None else (0, 0)
    return Endless(
        points=np.empty((MEMORY, *sides)),
        images=np.empty((MEMORY, *sides)),
        image=np.empty(sides),
        normal=np.empty((MEMORY, MEMORY + 1)),
        patience=PATIENCE + task.n_states,
    )


def largest_step_cost(task: Task) -> float:
    """Return the largest size of the cost of a step."""
    least, most = task.extremes_of_env_cost
    n, enter = task.n_agents, task.extremes_of_enter_cost
    control, switching = task.control_cost.reshape(-1, n), task.switch_cost.reshape(-1, n, n)
    ends = step_costs(least, most - least, *enter, control, switching, task.is_terminal)
    return float(max(abs(end) for end in ends))


def accuracy_for(task: Task) -> float:
    """Return how exact a value without horizon is made: nearly as exact as floating-point numbers allow."""
    largest = largest_step_cost(task)
    if task.discount is None:
        return CLOSE * largest
    left = 1.0 - task.discount
    return largest / left * max(CLOSE, ROUNDING / left)


def fixed_point(
    task: Task, model: ModelArrays, mode: int, policy: Policy, value: Floats, seed: int, scratch: PassScratch, thread: ThreadScratch
) -> Endless:
    """Find the fixed point of the Bellman operator from value[0] on, as exactly as `accuracy_for` says.

    mode: CHOOSE or FOLLOW. policy: (1, S, D), written or read. value: (2, S, D), whose first part is replaced.
    """
    endless = new_endless(task)
    settle(model, mode, policy[0], value, seed, accuracy_for(task), endless, scratch, thread)
    return endless


# ------------------------------------------------------------------------------------------------- the chain of a policy


def chain_of(mdp: TwoLayerMDP, policy: Policy) -> tuple[sp.csr_array, Floats]:
    """Return the Markov chain of a policy, (1, S, D), without horizon: (S*D, S*D) with row s*D + prev_agent; and the probability of
    each action in each of its states, (S*D, A).
    """
    task, n_agents, n_states = mdp.task, mdp.task.n_agents, mdp.task.n_states
    agent = policy[0].astype(np.int64)  # (S, D)
    chances = np.empty((n_states, n_agents, task.n_actions))
    for prev in range(n_agents):
        for d in range(n_agents):
            here = agent[:, prev] == d
            table = mdp.policies[task.table[d]]
            chances[here, prev] = (table if table.ndim == 2 else table[prev])[here]
    rows = np.arange(n_states * n_agents)
    places = (rows // n_agents)[:, None] * task.n_actions + np.arange(task.n_actions)
    weights = sp.csr_array(
        (chances.reshape(-1), places.reshape(-1), np.arange(len(rows) + 1) * task.n_actions),
        shape=(len(rows), n_states * task.n_actions),
    )
    to_state = sp.coo_array(weights @ mdp.environment.transition)
    columns = to_state.coords[1] * n_agents + agent.reshape(-1)[to_state.coords[0]]
    chain = sp.csr_array((to_state.data, (to_state.coords[0], columns)), shape=(len(rows), len(rows)))
    chain.eliminate_zeros()
    return chain, chances.reshape(len(rows), -1)


def step_costs_of(task: Task, mdp: TwoLayerMDP, policy: Policy, chances: Floats) -> Floats:
    """Return the expected cost of a step in each state of the chain of a policy, (S*D,), with the costs of a task.

    chances: (S*D, A) probabilities of the actions there.
    """
    n_states, n_agents = task.n_states, task.n_agents
    states, prevs = np.divmod(np.arange(n_states * n_agents), n_agents)
    charged = task.env_cost[states]
    if task.enter_cost is not None:
        charged = charged + (mdp.environment.transition @ task.enter_cost).reshape(n_states, -1)[states]
    control, switching = task.control_costs(states, prevs, policy[0].reshape(-1))
    result: Floats = (chances * charged).sum(axis=1) + control + switching
    return result


def recurrent_classes(chain: sp.csr_array) -> list[list[int]]:
    """Return the sets of states of a chain that are never left once they are entered, and from which all others in them are
    reached.
    """
    from scipy.sparse.csgraph import connected_components  # not at the top: it takes a moment to load

    _, label = connected_components(chain, directed=True, connection="strong")
    edges = sp.coo_array(chain)
    left = set(label[edges.coords[0][label[edges.coords[0]] != label[edges.coords[1]]]].tolist())
    return [np.flatnonzero(label == one).tolist() for one in range(label.max() + 1) if one not in left]


def long_run(chain: sp.csr_array, costs: Floats) -> Floats:
    """Return the cost of a step in the long run from each state of a chain, (n,). costs: (n,), or (n, m) for m kinds of costs."""
    from scipy.sparse.linalg import spsolve

    n = chain.shape[0]
    table = costs.reshape(n, -1)
    result, classes = np.zeros_like(table, dtype=np.float64), recurrent_classes(chain)
    for members in classes:
        inside = sp.csc_array(chain[members][:, members])
        k = len(members)
        if k == 1:
            share = np.ones(1)
        else:  # the balance of each state but one, and that shares sum to 1
            system = sp.vstack([(sp.eye_array(k, format="csc") - inside).T.tocsr()[: k - 1], sp.csr_array(np.ones((1, k)))])
            share = np.maximum(spsolve(sp.csc_array(system), np.eye(k)[-1]), 0.0)
            share /= share.sum()
        result[members] = share @ table[members]
    stays = np.concatenate([np.array(members, dtype=np.int64) for members in classes])
    others = np.setdiff1d(np.arange(n), stays)
    if len(others):
        system = sp.csc_array(sp.eye_array(len(others)) - chain[others][:, others])
        found = spsolve(system, chain[others][:, stays] @ result[stays])
        result[others] = found.reshape(len(others), -1)
    return result.reshape(costs.shape)


def gains_of(mdp: TwoLayerMDP, policy: Policy) -> Floats:
    """Return what a step of a policy, (1, S, D), costs in the long run from each state and previous agent, (S, D), exactly."""
    chain, chances = chain_of(mdp, policy)
    costs = step_costs_of(mdp.task, mdp, policy, chances)
    return long_run(chain, costs).reshape(mdp.task.n_states, mdp.task.n_agents)


# ------------------------------------------------------------------------------------------------- connected or not


def check_connected(owner: str, mdp: TwoLayerMDP) -> None:
    """Check that the least average cost of a problem does not depend on where a run begins.

    That is so if every place can be reached from every other one, except for places that are left for good whoever is in control.
    (A place: a state and who was in control before.)
    """
    task, n_agents = mdp.task, mdp.task.n_agents
    n = task.n_states * n_agents
    states, prevs = np.divmod(np.arange(n), n_agents)
    steps: list[sp.csr_array] = []  # by agent: where its steps can lead
    for d in range(n_agents):
        allowed = task.can_hand_over[prevs, d]
        policy = np.full((1, task.n_states, n_agents), d, dtype=np.int16)
        chain, _ = chain_of(mdp, policy)
        steps.append(sp.csr_array(sp.diags_array(allowed.astype(np.float64)) @ chain))
    anyhow = steps[0].copy()
    for more in steps[1:]:
        anyhow = sp.csr_array(anyhow + more)
    anyhow.eliminate_zeros()
    reached = reachable(anyhow, np.flatnonzero((mdp.environment.start[states] > 0) & (prevs == task.start_agent)))
    closed = [part for part in recurrent_classes(anyhow) if reached[part[0]]]
    kept = np.ones(n, dtype=bool)  # places that can be kept to for ever outside of the last closed set
    kept[closed[-1]] = False
    kept &= reached
    while True:
        stays = np.zeros(n, dtype=bool)
        for d in range(n_agents):
            inside = np.asarray(steps[d] @ (~kept).astype(np.float64)) == 0.0
            stays |= inside & task.can_hand_over[prevs, d]
        if (kept & stays == kept).all():
            break
        kept &= stays
    if len(closed) > 1 or kept.any():
        part = closed[0] if len(closed) > 1 else np.flatnonzero(kept).tolist()
        one = len({place // n_agents for place in part}) == 1
        what = "never left" if len(closed) > 1 else "such that it can be stayed in for ever, or left for good"
        why = "so the average depends on where a run begins; use a discount"
        expected = f"connected to all others: {places(task, part)} {'is' if one else 'are'} {what}, {why}"
        check.fail(owner, "a part of the problem without horizon", "apart", expected)


def reachable(chain: sp.csr_array, begin: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return which states of a chain can be reached from some states, (n,)."""
    found = np.zeros(chain.shape[0], dtype=bool)
    found[np.asarray(begin, dtype=np.int64)] = True
    fresh = found.copy()
    while fresh.any():
        fresh = (np.asarray(chain.T @ fresh.astype(np.float64)) > 0) & ~found
        found |= fresh
    return found


def places(task: Task, part: Sequence[int]) -> str:
    """Return the states of some places of a chain in words, the first few of them."""
    states = sorted({p // task.n_agents for p in part})
    names = [repr(task.state_names[s]) if task.state_names else str(s) for s in states[:5]]
    more = f" and {len(states) - 5} more" if len(states) > 5 else ""
    return f"state{'s' if len(states) > 1 else ''} {', '.join(names)}{more}"
