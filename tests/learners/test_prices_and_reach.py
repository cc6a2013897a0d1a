"""What limits add to a step, and which places an average is about: by hand."""

import numpy as np
import pytest

import cede
from cede.learners.limits import prices_by_name, prices_of_steps
from cede.learners.working import WorkingLearner


@pytest.mark.parametrize(("terminal", "expected"), [((), [-2.0, 5.0]), ((1,), [-3.1, 3.9])])
def test_prices_of_a_step(terminal, expected):
    """A step of b counts 5 more, one of a 2 less. Where episodes may end early, every step has its allowance taken off:
    5 * 0.3 - 2 * 0.2 = 1.1.
    """
    task = cede.Task([[1.0], [1.0]], ["a", "b"], 3, terminal=terminal)
    learner = cede.greedy(task, at_most={"b": 0.3}, at_least={"a": 0.2})
    arrays = WorkingLearner(task, learner.settings, learner.state, None).arrays
    arrays.limits.prices["above"], arrays.limits.prices["below"] = [0, 5], [2, 0]
    np.testing.assert_allclose(prices_of_steps(task, arrays), expected)
    assert prices_by_name(task, arrays) == {"a": -2.0, "b": 5.0}


@pytest.mark.parametrize("make", [cede.ucrl2_mc, cede.greedy, cede.posterior_sampling])
@pytest.mark.parametrize(("start", "gain"), [([1, 0], 1.0), ([0, 1], 2.0)])
def test_an_average_is_about_what_the_start_leads_to(make, start, gain):
    """Two states, each for ever: a step costs 1 in the first, and 2 in the second."""
    environment = cede.Environment(np.eye(2)[:, None, :], [[1.0], [2.0]], start=start)
    mdp = cede.TwoLayerMDP(environment, cede.Team([cede.Agent("a", [[1.0], [1.0]])]), None)
    assert make(mdp.task, known_environment=environment).plan.gain == pytest.approx(gain)
