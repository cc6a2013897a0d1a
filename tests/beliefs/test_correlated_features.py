"""Features of the next state that go together: the rule of one may ask for what became of another."""

import numpy as np
import scipy.sparse as sp

import cede
from cede.beliefs.feature_models import environment_model
from cede.problem.features import read_features

NAMES = ["a=0, b=0", "a=0, b=1", "a=1, b=0", "a=1, b=1"]
TASK = cede.Task(agents=["x"], env_cost=np.zeros((4, 1)), horizon=2, state_names=NAMES)


def test_what_goes_together_stays_together():
    """From everywhere a coin decides a, and b becomes what a became: two of the four states, each half of the time."""
    counts = sp.csr_array(np.tile([100, 0, 0, 100], (4, 1)))
    model = environment_model(read_features("x", TASK, None, None), counts).toarray()
    np.testing.assert_allclose(model, np.tile([0.5, 0.0, 0.0, 0.5], (4, 1)), atol=0.02)


def test_what_is_copied_stays():
    """a stays what it was; b becomes 1 with probability 0.75, whatever a is."""
    counts = sp.csr_array(np.array([[50, 150, 0, 0], [50, 150, 0, 0], [0, 0, 50, 150], [0, 0, 50, 150]]))
    model = environment_model(read_features("x", TASK, None, None), counts).toarray()
    np.testing.assert_allclose(model, counts.toarray() / 200, atol=0.02)
