"""The working form of a learner: counts that grow in place, the current plan, and the arrays for the kernels."""

import numpy as np

from cede._base.arrays import Floats
from cede._kernels.learner import LearnerArrays
from cede.learning.arrays import new_arrays, new_tally, put_state, radius_sizes, refresh_layer
from cede.learning.counts import EnvironmentTally
from cede.learning.settings import Settings
from cede.learning.state import LearnerState
from cede.problem.task import Task


class Live:
    """The working form of a learner.

    A `Learner` makes it from its packed state when it first needs it, so that learners in a large fleet or in files stay small.
    """

    def __init__(self, task: Task, told: Settings, state: LearnerState, shared: EnvironmentTally | None) -> None:
        self.task, self.told = task, told
        self.tally = new_tally(task, told, state, shared)
        self.plan, self.planned, self.stale = state.plan(task), state.planned, state.stale
        self.sizes = radius_sizes(task, told)
        self._arrays = new_arrays(task, told, self.tally)
        put_state(self._arrays, task, told, state)

    @property
    def arrays(self) -> LearnerArrays:
        """Return the arrays for the kernels, after taking over a table of the fleet that was replaced or became longer."""
        self._arrays.environment.counts = self.tally.environment
        self._arrays.costs.counts = self.tally.costs.counts
        refresh_layer(self._arrays.environment, self.told, self.task.n_states)
        return self._arrays


def no_value(task: Task) -> Floats:
    """Return the value of a plan whose cost is not known: NaN, (L + 1, S, D), or (S, D) without horizon, without using memory for
    it.
    """
    shape = task.policy_shape
    return np.broadcast_to(np.nan, shape if task.horizon is None else (shape[0] + 1, *shape[1:]))
