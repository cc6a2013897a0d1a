"""Averages of policies under which parts of a problem have costs of their own: no leap may go where values are all rounding."""

import numpy as np

import cede


def test_bounds_of_an_average_hold_where_control_may_stay_with_anybody():
    """Found by the audit: an extrapolation went to values of 1e15, at which every bound is a rounding."""
    environment = cede.Environment([[[0.4, 0.6]], [[0.05, 0.95]]], [[-1.0], [0.3]], start=[0.0, 1.0])
    agents = [
        cede.Agent("a0", [[1.0]] * 2, control_cost=-1.0, takeover_delay=2, on_takeover=[[1.0]] * 2),
        cede.Agent("a1", [[1.0]] * 2, takeover_delay=2, on_takeover=[[1.0]] * 2),
        cede.Agent("a2", [[1.0]] * 2, control_cost=-5.0),
    ]
    mdp = cede.TwoLayerMDP(environment, cede.Team(agents, 0.0), None)
    learner = cede.ucrl2_mc(mdp.task, belief={"agents": "printed", "environment": "bernstein"})
    stays = np.tile(np.array([0, 1, 2, 4, 0, 6, 1]), (2, 1))  # who has control keeps it
    found = cede.insight.bounds(learner, stays)
    # nothing was seen: the environment may stay in the cheap state for ever, or in the dear one
    np.testing.assert_allclose(found.low, -1.0 - 5.0, rtol=1e-9)
    np.testing.assert_allclose(found.high, 0.3, rtol=1e-9)
