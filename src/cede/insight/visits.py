"""How often each place and each state was visited, read from the counts of a learner."""

from typing import TYPE_CHECKING

import numpy as np

from cede._base.arrays import Floats
from cede.rows.places import Places

if TYPE_CHECKING:
    from cede.learners.learner import Learner


def visits_by_place(learner: "Learner") -> tuple[Floats, Floats]:
    """Return the visits of the row of each place: of the agents, (slots, S), and of the environment, (P * S, A). Not for UCRL2."""
    agents, environment = Places(learner.task, structure=learner.settings.structure).place
    acted, followed = (np.asarray(layer.sum(axis=1)).ravel() for layer in (learner.counts.agents, learner.counts.environment))
    return acted[agents], followed[environment]


def departures(learner: "Learner") -> Floats:
    """Return how many steps began in each state, (S,), of all teams that share the environment. Not for declared outcomes."""
    steps = np.asarray(learner.counts.environment.sum(axis=1), dtype=np.float64)
    return np.asarray(steps.reshape(learner.task.n_periods, learner.task.n_states, -1).sum(axis=(0, 2)))


def state_visits(learner: "Learner") -> Floats | None:
    """Return the number of counted steps in each state, (S,); None if neither layer is counted state by state.

    The agents' counts are the team's own; in a fleet, the environment's are those of all teams.
    """
    structure = learner.settings.structure
    if structure is None or not structure.agents:
        own = np.asarray(learner.counts.agents.sum(axis=1), dtype=np.float64)
        return np.asarray(own.reshape(-1, learner.task.n_states).sum(axis=0))
    return departures(learner) if structure.environment is None else None
