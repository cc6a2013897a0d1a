"""Expected visits of each state and previous agent under a policy: the recursion of Theorem 1 forwards, from the first state on.

    x_0(s, d) = start(s) [d = start agent],    x_{t+1}(s', d') = sum_{s, d, a} x_t(s, d) [pi_t(s, d) = d'] p_d'(a | s) p(s' | s, a)

where the choice pi_t(s, d) is an order with a random outcome, [.] is the probability kappa(d' | d, pi_t(s, d)).
Terminal states have no visits. Without a horizon a linear system is solved.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cede._base.arrays import Floats, Ints, Policy
from cede.beliefs.belief import Belief
from cede.planning.chains import chain_of, recurrent_classes, solved
from cede.problem.layout import BY_PREV_AGENT, BY_TIME
from cede.problem.task import Task


@dataclass(frozen=True, eq=False)
class Tables:
    """The centres of two beliefs, as the recursion needs them."""

    actions: Floats  # (slots, S, A)
    row: Ints  # (P * S, A) the row of each place
    rows: sp.csr_array  # (rows, S) distributions; a row without visits is empty
    unseen: Floats  # (rows,) 1 for rows without visits, which count as uniform

    @classmethod
    def of(cls, agents: Belief, environment: Belief) -> "Tables":
        """Take the centres of beliefs."""
        total, table = agents.centre.total[:, None], agents.centre.matrix().toarray()
        acts = np.where(total > 0, table / np.maximum(total, 1e-300), 1.0 / table.shape[1])
        centre = environment.centre
        unseen = (centre.total <= 0).astype(np.float64)
        rows = sp.csr_array(sp.diags_array((1.0 - unseen) / np.maximum(centre.total, 1e-300)) @ centre.matrix())
        return cls(acts[agents.row], environment.row, rows, unseen)


def occupancy(task: Task, agents: Belief, environment: Belief, policy: Policy, start: Floats) -> Floats:
    """Return the expected visits of each time, state and previous agent in an episode, under the centres of beliefs, (L, S, D).

    policy: (L, S, D) as kernels read it. start: (S,) probabilities of the first state. Without horizon the result is (1, S, D):
    discounted visits, or for averages the fraction of all steps in the long run.
    """
    tables = Tables.of(agents, environment)
    now = np.zeros((task.n_states, task.n_agents))
    now[:, task.start_agent] = np.where(task.is_terminal, 0.0, start)
    if task.horizon is not None:
        result = np.empty((task.horizon, *now.shape))
        for t in range(task.horizon):
            result[t] = now
            now = after_step(task, tables, policy[t], now, t)
        return result
    matrix = chain_of(task, agents, environment, policy).matrix
    visits = (
        long_run_visits(matrix, now.ravel()) if task.discount is None else discounted_visits(matrix, now.ravel(), task.discount)
    )
    result = visits.reshape(1, *now.shape)
    result[:, task.is_terminal] = 0.0
    return result


def discounted_visits(matrix: sp.csr_array, start: Floats, discount: float) -> Floats:
    """Return the discounted visits of each state of a chain, (n,): x = start + discount x P."""
    system = sp.eye_array(matrix.shape[0]) - discount * matrix
    return np.maximum(solved(system.T, start[:, None])[:, 0], 0.0)


def long_run_visits(matrix: sp.csr_array, start: Floats) -> Floats:
    """Return the fraction of all steps, in the long run, in each state of a chain, (n,)."""
    result, classes = np.zeros(matrix.shape[0]), recurrent_classes(matrix)
    others = np.setdiff1d(np.arange(matrix.shape[0]), np.concatenate(classes))
    passed = discounted_visits(matrix[others][:, others], start[others], 1.0) if len(others) else np.zeros(0)
    for members in classes:
        comes = float(start[members].sum() + (passed @ matrix[others][:, members]).sum())
        balance = (sp.eye_array(len(members)) - matrix[members][:, members]).T.tocsr()[1:]  # one of them follows from the others
        system = sp.vstack([sp.csr_array(np.ones((1, len(members)))), balance])
        result[members] = comes * np.maximum(solved(system, np.eye(len(members))[:, :1])[:, 0], 0.0)
    return result


def after_step(task: Task, tables: Tables, policy: Policy, now: Floats, t: int) -> Floats:
    """Return the probability of each state and previous agent after a step, (S, D). now: the same before. policy: (S, D)."""
    n_states, n_agents = now.shape
    block = 0 if task.periods is None else int(task.periods[t]) * n_states
    place, result = tables.row[block : block + n_states].ravel(), np.zeros_like(now)
    for d in range(n_agents):
        here = task.roles.orders.chance_of(d, policy) * now
        if not here.any():
            continue
        slot, vary = int(task.layout.slot[d]), int(task.layout.vary[d])
        if vary == BY_PREV_AGENT:
            acts = np.einsum("sp,psa->sa", here, tables.actions[slot : slot + n_agents])
        else:
            acts = here.sum(axis=1)[:, None] * tables.actions[slot + (t if vary == BY_TIME else 0)]
        mass = np.bincount(place, weights=acts.ravel(), minlength=len(tables.unseen))
        result[:, d] = mass @ tables.rows + float(mass @ tables.unseen) / n_states
    result[task.is_terminal] = 0.0
    return result
