"""The start distribution of episodes, from an argument, settings or counts.

With a horizon a learner counts starts. Counts without starts (files of older versions, `Counts` made by hand) only bound them: a
step that leaves a state without an arrival there is a start. With N(s, s') the steps from s to s' in K episodes, and w the
distribution of the states in which episodes reach the horizon,

    start(s) = (sum_s' N(s, s') - sum_s' N(s', s)) / K + w(s),    w >= 0, start >= 0.

So at least the fraction max(0, (sum_s' N(s, s') - sum_s' N(s', s)) / K) of the episodes started in s. The rest is unknown, and
intervals allow for that. If all episodes end in terminal states there is no rest.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Floats
from cede.insight.visits import departures, state_visits, visits_by_place

if TYPE_CHECKING:
    from cede.learners.learner import Learner


@dataclass(frozen=True, eq=False)
class Starts:
    """The start distribution of episodes. `starts_of` returns it."""

    chances: Floats  # (S,) probabilities of the first state; guessed for unknown starts
    source: str  # in words
    seen: float | None  # number of counted starts; None: it is given
    anywhere: float = 0.0  # the unknown fraction of the starts
    surely: Floats | None = None  # (S,) the known part, of sum 1 - anywhere; None: all of `chances`

    @property
    def known(self) -> Floats:
        """Return the known part, (S,), of sum 1 - anywhere."""
        return self.chances * (1.0 - self.anywhere) if self.surely is None else self.surely


def starts_of(owner: str, learner: "Learner", start: Any = None) -> Starts:
    """Return the start distribution: from the argument, the settings, or the counts.

    owner: the caller, for errors. start: (S,) probabilities of the first state, or None.
    """
    task, settings = learner.task, learner.settings
    if start is not None:
        return Starts(check.probabilities(owner, "start", start, (task.n_states,), "(S,)"), "as given", None)
    if settings.baseline is not None and settings.baseline.start is not None:
        return Starts(settings.baseline.start, "as the learner was told", None)
    if settings.knowledge.environment is not None:
        return Starts(settings.knowledge.environment.start, "as in the known environment", None)
    return counted_starts(learner)


def counted_starts(learner: "Learner") -> Starts:
    """Return the start distribution by the counts of a learner; see the top of this file."""
    task, counts, visits = learner.task, learner.counts.starts, state_visits(learner)
    number = float(counts.sum())
    if number > 0:
        return Starts(counts / number, f"as counted in {number:,.0f} episodes", number)
    if learner.episode - 1 + learner.environment_episodes == 0:
        return bounded(learner, np.zeros(task.n_states), 0.0, "not known, since nothing was seen")
    if task.horizon is None and not task.terminal and visits is not None:
        return Starts(visits / visits.sum(), "as visited: from a step on that is picked at random", None)
    left = None if learner.settings.outcomes is not None else least_starts(learner)
    if left is not None and task.horizon is None:  # all runs but the last have ended
        return Starts(normalised(left), "as counted in runs that ended", float(left.sum()))
    fades = learner.settings.forgetting.environment is not None
    known = [] if left is None or fades else [(left, learner.environment_episodes)]
    known += [(first_steps(learner), learner.episode - 1)] if not learner.settings.forgetting.any else []
    least, episodes = max(known, key=lambda pair: pair[0].sum() / max(pair[1], 1), default=(np.zeros(task.n_states), 0))
    return bounded(learner, least, float(episodes), "not counted")


def bounded(learner: "Learner", least: Floats, episodes: float, why: str) -> Starts:
    """Return the start distribution if at least `least`, (S,), of the episodes started in each state. why: it is not counted."""
    task, visits = learner.task, state_visits(learner)
    surely = least / max(episodes, float(least.sum()), 1.0)
    anywhere = max(0.0, 1.0 - float(surely.sum()))
    if anywhere * episodes < 0.5 and episodes:  # less than one episode: rounding
        return Starts(normalised(least), f"as counted in {episodes:,.0f} episodes", episodes)
    guess = least if least.any() else np.where(task.is_terminal, 0.0, 1.0 if visits is None or not visits.any() else visits)
    part = "all" if anywhere >= 1.0 else f"{anywhere:.0%}" if anywhere >= 0.005 else "less than 1%"
    return Starts(normalised(guess), f"{why}: {part} of them may start anywhere", episodes, anywhere, surely)


def least_starts(learner: "Learner") -> Floats:
    """Return a lower bound on the episodes that started in each state, (S,): departures minus arrivals."""
    steps = sp.coo_array(learner.counts.environment)
    arrived = np.bincount(steps.coords[1], weights=steps.data, minlength=learner.task.n_states)
    return np.where(learner.task.is_terminal, 0.0, np.maximum(departures(learner) - arrived, 0.0))


def first_steps(learner: "Learner") -> Floats:
    """Return how often each state was the first, (S,), for agents whose first steps are counted separately: those that vary with
    time and have no declared structure.
    """
    task, structure = learner.task, learner.settings.structure
    declared = {} if structure is None else structure.agents
    acted = visits_by_place(learner)[0]
    result = np.zeros(task.n_states)
    for table, name in enumerate(task.tables):
        if task.table_varies[table] == "time" and name not in declared:
            result += acted[task.layout.first_slot[table]]
    return result


def normalised(weights: Floats) -> Floats:
    """Return weights, (n,), as probabilities; uniform if all are 0."""
    total = float(weights.sum())
    result: Floats = weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights))
    return result
