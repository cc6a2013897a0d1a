"""Where episodes start, and how often each state was visited, as far as a learner can tell.

A learner is not told where episodes start, and its counts have no time. But what leaves a state without having arrived there must
have started there. With N(s, s') the steps from s to s' in K episodes, and w the distribution of the states in which episodes stop,

    start(s) = (sum_s' N(s, s') - sum_s' N(s', s)) / K + w(s).

States in which episodes end are in no w, so if all episodes end in one this is exact. What stops because the horizon is reached is
not counted apart. It is taken for what follows from the start by the plan, or by the chain of all steps that were seen, L times; or
for the least that there must be. Of these, the one is taken under which visits are most like those that were seen; or the last, if
by it all episodes start in one state. That is an estimate, and called so. It is better to give the start where it is known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._base.arrays import Floats
from cede.insight.frequencies import frequencies
from cede.insight.occupancy import Tables, after_step, occupancy
from cede.learning.counts import places_of
from cede.learning.learner import Learner
from cede.problem.task import Task

ROUNDS, CLOSE = 50, 1e-6


@dataclass(frozen=True, eq=False)
class Starts:
    """Where episodes start. `starts_of` returns it."""

    chances: Floats  # (S,) probabilities of the first state
    source: str  # where this is known from, in words
    seen: float | None  # how many starts it rests on; None: it is given, not counted
    exact: bool = True  # whether it is given or counted, and not estimated or a guess


def starts_of(owner: str, learner: Learner, start: Any = None) -> Starts:
    """Return where episodes start: as given, as the learner was told, or as far as it follows from its counts.

    owner: who is named in errors. start: (S,) probabilities of the first state, or None.
    """
    task, told = learner.task, learner.told
    if start is not None:
        return Starts(check.probabilities(owner, "start", start, (task.n_states,), "(S,)"), "as given", None)
    if told.baseline is not None and told.baseline.start is not None:
        return Starts(told.baseline.start, "as the learner was told", None)
    if told.known_environment is not None:
        return Starts(told.known_environment.start, "as in the known environment", None)
    return counted_starts(learner)


def counted_starts(learner: Learner) -> Starts:
    """Return where episodes start by the counts of a learner; see the top of this file."""
    task, told = learner.task, learner.told
    anywhere = np.where(task.is_terminal, 0.0, 1.0)
    visits, episodes = state_visits(learner), learner.episode - 1
    if episodes + learner.environment_episodes == 0:
        return Starts(anywhere / anywhere.sum(), "not known, since nothing was seen: any state alike", 0.0, False)
    if task.horizon is None and not task.terminal and visits is not None:
        return Starts(visits / visits.sum(), "as visited: from a step on that is picked at random", None)
    first, counted = first_steps(learner)
    if first.sum() == episodes and not told.forgets:
        return Starts(first / first.sum(), f"as counted in {episodes:,} episodes", float(episodes))
    if told.outcomes is None and learner.environment_episodes:
        return balanced(learner)
    if first.sum() > 0:
        return completed(learner, first, counted)
    if visits is not None and visits.sum() > 0:
        return Starts(visits / visits.sum(), "not known: as visited", None, False)
    return Starts(anywhere / anywhere.sum(), "not known, since cases are counted and not states: any state alike", 0.0, False)


def completed(learner: Learner, first: Floats, counted: list[int]) -> Starts:
    """Return where episodes start if only some agents' first steps are counted by state.

    The other episodes are taken to start where the plan hands control to other agents at once, in the proportion in which such
    states were first; if none was, all alike.

    first, counted: as `first_steps` returns them.
    """
    task, episodes = learner.task, learner.episode - 1
    chosen = learner.plan.policy.reshape(-1, task.n_states, task.n_agents)[0, :, task.start_agent]
    others = ~np.isin(task.table[chosen], counted) & ~task.is_terminal
    missing = max(0.0, episodes - float(first.sum()))
    whole = first + (missing * normalised(np.where(others, first if first[others].any() else 1.0, 0.0)) if others.any() else 0.0)
    who = " and ".join(check.printable(task.tables[table]) for table in counted)
    source = (
        f"as estimated from {first.sum():,.0f} of {episodes:,} episodes, those that {who} began: only these are counted by state"
    )
    return Starts(whole / whole.sum(), source, float(first.sum()), False)


def first_steps(learner: Learner) -> tuple[Floats, list[int]]:
    """Return how often each state was the first, (S,), as far as first steps are counted apart: of agents that vary with time and
    have no declared structure. And who they are, as indices into `task.tables`.
    """
    task, structure = learner.task, learner.told.structure
    declared = {} if structure is None else structure.agents
    place, visits = places_of(task, structure=structure)[0], learner.counts.agents.sum(axis=1)
    result, counted = np.zeros(task.n_states), []
    for table, name in enumerate(task.tables):
        if task.table_varies[table] == "time" and name not in declared:
            result += visits[place[int(task.first_slot[table])]]
            counted.append(table)
    return result, counted


def state_visits(learner: Learner) -> Floats | None:
    """Return how many real steps were seen in each state, (S,); None if neither layer is counted state by state.

    The agents' counts are the team's own; those of the environment, in a fleet, are of all teams.
    """
    task, told = learner.task, learner.told
    declared = {} if told.structure is None else told.structure.agents
    if not declared:
        own: Floats = np.asarray(learner.counts.agents.sum(axis=1)).reshape(-1, task.n_states).sum(axis=0).astype(np.float64)
        return own
    if told.outcomes is None:
        steps = np.asarray(learner.counts.environment.sum(axis=1)).reshape(task.n_periods, task.n_states, -1)
        every: Floats = steps.sum(axis=(0, 2)).astype(np.float64)
        return every
    return None


Ahead = Callable[[Floats], tuple[Floats, Floats]]  # start, (S,) -> where an episode stops before an end, and visits, (S,) each


def balanced(learner: Learner) -> Starts:
    """Return where episodes start by what left each state and what arrived there; see the top of this file."""
    task, counts = learner.task, learner.counts.environment
    steps, shape = sp.coo_array(counts), (task.n_periods * task.n_states, task.n_states)
    per_state = counts.shape[0] // shape[0]
    chain = sp.csr_array((steps.data.astype(np.float64), (steps.coords[0] // per_state, steps.coords[1])), shape=shape)
    left = np.asarray(chain.sum(axis=1)).reshape(task.n_periods, -1).sum(axis=0)
    more = np.where(task.is_terminal, 0.0, left - np.asarray(chain.sum(axis=0)))
    least = normalised(np.maximum(more, 0.0))
    if task.horizon is None:  # a run goes on until it ends, and all that began have ended but the last
        return Starts(least, "as counted in runs that ended", float(np.maximum(more, 0.0).sum()))
    ended = float(np.asarray(counts.sum(axis=0))[task.is_terminal].sum())
    number = None if learner.told.forget_environment is not None else float(learner.environment_episodes)
    if number is not None and ended == number:
        return Starts(least, f"as counted in {number:,.0f} episodes", number)
    found: list[tuple[float, Floats, float]] = []
    for ahead, rounds in product((by_chain(task, chain), by_plan(learner)), (0,) if np.count_nonzero(least) == 1 else (0, ROUNDS)):
        start = least
        for _ in range(rounds + 1):
            stops, visits = ahead(start)
            total = number or float(left.sum() / max(visits.sum(), 1.0))
            before = start
            if rounds:
                start = normalised(np.maximum(more / total + stops, 0.0))
            if np.abs(start - before).sum() < CLOSE:
                break
        found.append((float(np.abs(visits - left / total).sum()), start, total))
    _, start, total = min(found, key=lambda one: one[0])
    return Starts(start, f"as estimated from the counts of {total:,.0f} episodes", total, False)


def by_chain(task: Task, counts: sp.csr_array) -> Ahead:
    """Return what follows from a start by the chain of all steps that were seen. counts: of these steps, (P * S, S)."""
    chain = sp.csr_array(sp.diags_array(1.0 / np.maximum(np.asarray(counts.sum(axis=1)), 1e-300)) @ counts)
    parts = [chain[p * task.n_states : (p + 1) * task.n_states] for p in range(task.n_periods)]

    def ahead(start: Floats) -> tuple[Floats, Floats]:
        now, visits = start, np.zeros(task.n_states)
        for t in range(task.horizon):
            visits = visits + now
            now = np.where(task.is_terminal, 0.0, now @ parts[0 if task.periods is None else int(task.periods[t])])
        return now, visits

    return ahead


def by_plan(learner: Learner) -> Ahead:
    """Return what follows from a start by the plan of a learner, if the frequencies seen are right."""
    task, beliefs, policy = learner.task, frequencies(learner), learner.plan.policy
    tables = Tables.of(*beliefs)

    def ahead(start: Floats) -> tuple[Floats, Floats]:
        met = occupancy(task, *beliefs, policy, start)
        stops = after_step(task, tables, policy[-1], met[-1], task.horizon - 1)
        return stops.sum(axis=1), met.sum(axis=(0, 2))

    return ahead


def normalised(weights: Floats) -> Floats:
    """Return weights, (n,), as probabilities; all alike if they are all 0."""
    total = float(weights.sum())
    result: Floats = weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights))
    return result
