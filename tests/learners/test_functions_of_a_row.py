"""The set "kl-value" is right about as many functions of a row as places, times and agents use the row."""

import numpy as np
import pytest
from scipy.special import gammaln

import cede

DELTA, N = 0.1, 9


def functions_counted(belief, rows):
    """Solve n rho = log(2 rows F / delta) + log(sqrt(pi) Gamma(n + 1) / Gamma(n + 1/2)) for F, at the first place."""
    rho = belief.width[belief.row[0, 0]]
    return np.exp(rho * N - 0.5 * np.log(np.pi) - gammaln(N + 1) + gammaln(N + 0.5)) * DELTA / (2 * rows)


def after_nine_steps(task, **options):
    learner = cede.ucrl2_mc(task, belief="kl-value", **options)
    same = {"t": [0] * N, "state": [0] * N, "agent": [0] * N, "action": [0] * N, "next_state": [0, 1, 2] * 3}
    learner.learn_from({"episode": np.arange(N), **same}, progress=False)
    return learner.beliefs


def test_one_place_for_each_row():
    agents, environment = after_nine_steps(cede.Task(np.ones((3, 1)), ["a", "b"], 3))
    assert functions_counted(agents, rows=6) == pytest.approx(3)  # times
    assert functions_counted(environment, rows=3) == pytest.approx(2 * 2)  # times, agents


def test_a_row_that_serves_three_places():
    turned = cede.Outcomes.of([[0]] * 3, [[[0, 1, 2]], [[1, 2, 0]], [[2, 0, 1]]])
    structure = cede.Structure({"a": [0, 0, 0]}, turned)
    agents, environment = after_nine_steps(cede.Task(np.ones((3, 1)), ["a", "b"], 3), structure=structure)
    assert functions_counted(agents, rows=1 + 3) == pytest.approx(3 * 3)
    assert functions_counted(environment, rows=1) == pytest.approx(2 * 2 * 3)


def test_a_policy_that_acts_during_hand_overs_too():
    task = cede.Task(np.ones((3, 1)), ["a", "b"], 3, takeover_delay={"b": 2})
    modes = int((task.table == 0).sum())  # "a" itself, and the steps in which it still acts while "b" takes over
    assert modes == 3
    agents, environment = after_nine_steps(task)
    assert functions_counted(agents, rows=6) == pytest.approx(3 * modes)
    assert functions_counted(environment, rows=3) == pytest.approx(2 * task.n_agents)
