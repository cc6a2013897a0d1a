"""Costs of control and hand-overs that are the same in all states may be given state by state: runs are the same."""

from dataclasses import replace

import numpy as np
import pytest

import cede

RIVER = cede.worlds.riverswim(agents=[0.3, 0.7], control_cost=0.2, switch_cost=0.05)


def by_state(task):
    control = np.tile(task.control_cost, (task.n_states, 1))
    return replace(task, control_cost=control, switch_cost=np.tile(task.switch_cost, (task.n_states, 1, 1)))


@pytest.mark.parametrize("options", [{}, {"at_most": {"p=0.7": 0.5}}, {"planning": "greedy"}, {"replan": "doubling"}], ids=str)
def test_either_form(options):
    histories = [
        cede.simulate(RIVER, cede.ucrl2_mc(task, **options), 40, seed=3, progress=False)
        for task in (RIVER.task, by_state(RIVER.task))
    ]
    np.testing.assert_array_equal(histories[0].cost, histories[1].cost)
    np.testing.assert_allclose(histories[0].regret, histories[1].regret, atol=1e-12)


def test_without_a_horizon():
    river = replace(RIVER, horizon=None, discount=0.9)
    found = [cede.simulate(river, cede.fixed(task, 1), steps=20, progress=False) for task in (river.task, by_state(river.task))]
    np.testing.assert_allclose(found[0].regret, found[1].regret, rtol=1e-9)


def test_other_costs_are_still_refused():
    other = replace(by_state(RIVER.task), control_cost=np.arange(12.0).reshape(6, 2))
    with pytest.raises(ValueError, match="the learner's control_cost is another, must be that of mdp"):
        cede.simulate(RIVER, cede.ucrl2_mc(other), 2, progress=False)
