"""The true tables of a problem as beliefs of width 0."""

from weakref import WeakKeyDictionary

import numpy as np

from cede._base.arrays import distinct_rows
from cede._kernels.tables import Table
from cede.beliefs.belief import Belief
from cede.problem.model import Environment, TwoLayerMDP

_truths: "WeakKeyDictionary[TwoLayerMDP, tuple[Belief, Belief]]" = WeakKeyDictionary()  # made once for each problem
_true_environments: "WeakKeyDictionary[Environment, Belief]" = WeakKeyDictionary()


def true_beliefs(mdp: TwoLayerMDP) -> tuple[Belief, Belief]:
    """Return the true tables of a problem, of the agents and of the environment, as beliefs of width 0."""
    if mdp not in _truths:
        tables = np.concatenate([policy.reshape(-1, mdp.task.n_actions) for policy in mdp.policies])
        slots = len(tables) // mdp.task.n_states
        _truths[mdp] = Belief.of(tables, 0.0, (slots, mdp.task.n_states)), true_environment(mdp.environment)
    return _truths[mdp]


def true_environment(environment: Environment) -> Belief:
    """Return the true table of an environment as a belief of width 0. Equal rows are stored, and planned with, once."""
    if environment not in _true_environments:
        rows, which = distinct_rows(environment.transition)
        places = which.reshape(-1, environment.n_actions)
        _true_environments[environment] = Belief(Table.of(rows), np.zeros(rows.shape[0]), places)
    return _true_environments[environment]
