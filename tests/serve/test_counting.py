"""Cells of the database as counts of a learner: by hand."""

import numpy as np

import cede
from cede.serve.planner.work import PlanWork, Served

TASK = cede.Task([[np.nan], [1.0]], ["a", "b"], 2, cost_range=(0, 4))
SERVED = Served(TASK, cede.greedy(TASK).settings)


def test_cells_are_put_into_their_layer():
    """Of layer 0 are steps from one state to another, of layer 1 sums of costs: how many there were, their sum in units of 2^-24,
    its rest in units of 2^-50, and the sum of squares in units of 2^-30.
    """
    agents = [(0, 0, 3), (3, 0, 2)]  # rows: a and b in each of two states
    environment = [(0, 0, 1, 4), (1, 0, 0, 6), (0, 1, 0, 1), (1, 0, 1, 2**24 * 3), (1, 0, 2, 2**49), (1, 0, 3, 2**28 * 5)]
    found = PlanWork(SERVED, 0, np.array(agents), np.array(environment), 7, 5).counts(np.array([6, 1]))
    assert found.agents.toarray().tolist() == [[3], [0], [0], [2]]
    assert found.environment.toarray().tolist() == [[0, 4], [1, 0]]
    assert found.costs.toarray().tolist() == [[6.0, 3.0, 0.5, 1.25]]
    assert (found.episodes, found.environment_episodes, found.starts.tolist()) == (7, 5, [6, 1])


def test_steps_become_cells():
    """Three steps of two teams; a cost of 1 is a quarter of the range, whose square is a sixteenth."""
    steps = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]])  # t, state, before, agent, action, next
    charged = np.array([[1.0, 1.0, np.nan], [np.nan] * 3])
    agents, environment = SERVED.counter.count(np.array([8, 9, 8]), steps, charged)
    assert agents == [(8, 0, 0, 1), (8, 1, 0, 1), (9, 2, 0, 1)]
    assert environment == [(0, 0, 1, 2), (0, 1, 0, 1), (1, 0, 0, 2), (1, 0, 1, 2**23), (1, 0, 3, 2**27)]
