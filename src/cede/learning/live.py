"""The working form of a learner: counts that grow in place, the current plan, and the arrays for the kernels."""

import numpy as np

from cede._base.arrays import Floats
from cede._kernels.learner import LearnerArrays
from cede.learning.arrays import new_arrays, new_tally, put_state, radius_sizes, refresh_layer
from cede.learning.counts import EnvironmentTally
from cede.learning.feature_prior import expected_table, prior_of, refitted
from cede.learning.layer_prior import LayerPrior
from cede.learning.settings import Settings
from cede.learning.state import LearnerState, Sizes
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
        self.agents_prior: LayerPrior | None = None  # from features; the environment's is kept where it is counted
        self._expected: dict[str, LayerPrior | None] = {}  # by layer: the prior that the arrays hold
        if told.features is not None:
            self.agents_prior = prior_of("agents", Sizes(task, told), state.__dict__)
            if shared is None:
                self.tally.environment_tally.prior = prior_of("environment", Sizes(task, told), state.__dict__)

    @property
    def arrays(self) -> LearnerArrays:
        """Return the arrays for the kernels, after taking over a table of the fleet that was replaced or became longer."""
        self._arrays.environment.counts = self.tally.environment
        self._arrays.costs.counts = self.tally.costs.counts
        if self.told.features is not None:
            for layer, prior in (("agents", self.agents_prior), ("environment", self.tally.environment_tally.prior)):
                if layer not in self._expected or self._expected[layer] is not prior:
                    getattr(self._arrays, layer).expected = expected_table(layer, Sizes(self.task, self.told), prior)
                    self._expected[layer] = prior
        refresh_layer(self._arrays.environment, self.told, self.task.n_states)
        return self._arrays

    def refit(self) -> None:
        """Fit the models behind priors from features anew, where it is time. An episode was just counted."""
        if self.told.features is None:
            return
        sizes, tally, environment = Sizes(self.task, self.told), self.tally, self.tally.environment_tally
        assert self.agents_prior is not None
        agents = tally.agents
        self.agents_prior = refitted("agents", sizes, self.agents_prior, lambda: agents.seen.matrix(agents.counted), tally.episodes)
        environment.prior = refitted("environment", sizes, environment.prior, lambda: environment.counts, environment.episodes)


def no_value(task: Task) -> Floats:
    """Return the value of a plan whose cost is not known: NaN, (L + 1, S, D), or (S, D) without horizon, without using memory for
    it.
    """
    shape = task.policy_shape
    return np.broadcast_to(np.nan, shape if task.horizon is None else (shape[0] + 1, *shape[1:]))
