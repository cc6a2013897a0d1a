"""Rows of the table of counts, and counts of a learner: by hand."""

import numpy as np

import cede
from cede.rows.stored import Counts
from cede.serve.served import PlanWork, Served, stored_layers, unpack_work

TASK = cede.Task([[np.nan], [1.0]], ["a", "b"], 2, cost_range=(0, 4))
SERVED = Served(TASK, cede.greedy(TASK).settings)
SUMS = [("costs", 0, 6), ("costs", 1, 2**24 * 3), ("costs", 2, 2**49), ("costs", 3, 2**28 * 5)]
ROWS = [("agent/a", 0, 3), ("agent/b", 1, 2), *SUMS, ("environment", 1, 4), ("environment", 2, 1), ("start", 0, 6), ("start", 1, 1)]


def counts():
    return Counts(stored_layers(ROWS, SERVED.shapes), 7, 5).completed(SERVED.shapes)


def test_rows_become_counts():
    """Columns of costs: their number, their sum in units of 2^-24, its rest in units of 2^-50, squares in units of 2^-30."""
    found = counts()
    assert found.agents.toarray().tolist() == [[3], [0], [0], [2]]
    assert found.environment.toarray().tolist() == [[0, 4], [1, 0]]
    assert found.costs.toarray().tolist() == [[6.0, 3.0, 0.5, 1.25]]
    assert (found.episodes, found.environment_episodes, found.starts.tolist()) == (7, 5, [6, 1])


def test_a_message_holds_the_stored_counts():
    sent = PlanWork(SERVED, 3, counts())
    found = unpack_work(sent.packed)
    assert (found.seed, found.counts.episodes, found.counts.environment_episodes) == (3, 7, 5)
    assert list(found.counts.layers) == list(sent.counts.layers) == ["agent/a", "agent/b", "environment", "costs", "start"]
    for name, layer in found.counts.layers.items():
        assert layer.shape == sent.counts.layers[name].shape
        assert (layer.key == sent.counts.layers[name].key).all()
        assert (layer.number == sent.counts.layers[name].number).all()


def test_steps_become_rows():
    """Three steps of two teams; a cost of 1 is a quarter of the range, whose square is a sixteenth."""
    steps = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]])  # t, state, before, agent, action, next
    charged = np.array([[1.0, 1.0, np.nan], [np.nan] * 3])
    found = SERVED.counter.count(5, np.array([8, 9, 8]), steps, charged)
    of_teams = [(8, "agent/a", 0, 1), (8, "agent/a", 1, 1), (9, "agent/b", 0, 1), (8, "start", 0, 1), (9, "start", 0, 1)]
    shared = [("environment", 1, 2), ("environment", 2, 1), ("costs", 0, 2), ("costs", 1, 2**23), ("costs", 3, 2**27)]
    assert found == [*((1, *row) for row in of_teams), *((0, 5, *row) for row in shared)]
