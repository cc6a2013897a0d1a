"""Tables and costs drawn from the counts of any learner, and what a policy costs under each draw.

With one or two visits an even prior is not a valid basis for an interval: it describes an agent that acts at random, and makes the
sum over many rows look well known. So the prior's pseudo-counts are unconstrained (the imprecise Dirichlet model, Walley 1996). A
row with n visits is

    (1 - w) p + w q,    p ~ Dirichlet(counts),    w ~ Beta(prior, n),

where q is the best outcome for the lower end of an interval, and the worst one for the upper end. A row without visits is all q.
Learned costs are drawn in the same way, with q at either end of their range. For the mean q is left out, and a row without visits
is drawn uniformly. Declared structure and known tables are not drawn.

The Bellman operator sums values relative to the best outcome of a row. So weights that sum to less than the row's total tell the
operator that the missing mass is on the best outcome.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from cede._base.arrays import Floats, Ints, Policy
from cede._kernels.random_streams import tie_seed
from cede.beliefs.constants import put_radii
from cede.beliefs.layer import LayerArrays, put_costs
from cede.beliefs.posterior import LEAST_PRIOR
from cede.beliefs.scale import Scale
from cede.insight.frequencies import CountsAlone
from cede.learners import compiled as kernels
from cede.learners.options import Knowledge
from cede.learners.settings import Settings
from cede.learners.state import LearnerState
from cede.learners.working import WorkingLearner
from cede.planning.backup import FOLLOW
from cede.planning.flatten import certain_policies
from cede.planning.model import ModelArrays
from cede.planning.passes import empty_plan, negated, run_endless, run_pass
from cede.problem.arrays import problem_of
from cede.problem.costs import RANGES
from cede.problem.task import Task
from cede.rows.cost_sums import COUNT, REST, SQUARES, SUM, CostLayer
from cede.rows.places import COSTS, ENVIRONMENT, Places
from cede.rows.stored import Counts, LayerCounts

if TYPE_CHECKING:
    from cede.learners.learner import Learner

ANYTHING = 2.0  # the width of a ball that holds every distribution
NEXT_TO_NOTHING = 1e-300  # moves no mass, but makes the operator sum an agent's row relative to its best action
NO_PRIOR = LEAST_PRIOR  # pseudo-counts with which only observed outcomes are drawn


@dataclass(frozen=True, eq=False)
class DrawnCosts:
    """Costs of policies from each state on, after the start agent, under draws: (draws, policies, S) each."""

    mean: Floats
    low: Floats  # with unconstrained fractions at their best
    high: Floats  # at their worst


class Doubt(NamedTuple):
    """Rows of a layer of which a fraction is unconstrained."""

    rows: Ints  # (n,) of the layer's belief
    case: Ints  # (n,) the counted row of each
    visits: Floats  # (counted,) of each counted row


def free_parts(visits: Floats, prior: float, rng: np.random.Generator) -> Floats:
    """Draw the unconstrained fraction of each row, (n,); 1 for rows without visits. visits: (n,)."""
    result: Floats = np.where(visits > 0.0, rng.beta(prior, np.maximum(visits, 1e-9)), 1.0)
    return result


def costs_of_draws(
    learner: "Learner", policies: list[Policy], prior: float, draws: int, seed: int, few: float = np.inf
) -> DrawnCosts:
    """Return the cost of each policy under each draw. All policies are evaluated under the same draws.

    policies: (L, S, D) each, as kernels read them. few: rows with at least this many visits have no unconstrained fraction. For
    averages the cost is that of a step in the long run, the same for all states.
    """
    task, settings, state = sampling_form(learner, NO_PRIOR)
    live = WorkingLearner(task, settings, state, learner.shared_environment)
    arrays, (_, value) = live.arrays, empty_plan(task)
    put_radii(arrays.radii, Scale(), live.sizes, learner.episode, learner.environment_episodes, live.counts.agents_episodes)
    opposite_task = negated(task)
    opposite = ModelArrays(agents=arrays.agents.belief, environment=arrays.environment.belief, problem=problem_of(opposite_task))
    if arrays.costs.least.size:  # learned costs are written into it
        for name in RANGES:
            setattr(opposite.problem, name, getattr(opposite.problem, name).copy())
    layers, costs = (arrays.agents, arrays.environment), np.empty((3, draws, len(policies), task.n_states))
    doubts, rng = [doubt_of(layer, few) for layer in layers], np.random.default_rng([seed, 7])
    seen = costs_seen(arrays.costs) if arrays.costs.least.size else np.empty(0)
    for i in range(draws):
        kernels.believe(arrays, int(tie_seed(seed, i)))
        for j, policy in enumerate(policies):
            costs[:, i, j] = cost_under(task, arrays.model, policy, value)
        if not any(len(doubt.rows) for doubt in doubts) and not np.any(seen < few):
            continue
        for layer, doubt, width in zip(layers, doubts, (NEXT_TO_NOTHING, 0.0), strict=True):
            leave_free(layer, doubt.rows, free_parts(doubt.visits, prior, rng)[doubt.case], width)
        free = np.where(seen < few, free_parts(seen, prior, rng), 0.0)
        for end, model, sign in ((1, arrays.model, 1.0), (2, opposite, -1.0)):
            if seen.size:
                extreme = arrays.costs.least + (arrays.costs.spread if end == 2 else 0.0)
                believed = (1.0 - free) * arrays.costs.low + free * extreme
                put_costs(arrays.costs, model.problem, model.problem.control_cost, believed, sign)
            for j, policy in enumerate(policies):
                costs[end, i, j] = sign * cost_under(task if end == 1 else opposite_task, model, policy, value)
        for layer, doubt in zip(layers, doubts, strict=True):
            layer.belief.width[doubt.rows] = 0.0
    return DrawnCosts(*costs)


def doubt_of(layer: LayerArrays, few: float) -> Doubt:
    """Return the rows of a layer that are learned and have fewer than `few` visits."""
    visits = layer.counts.seen.total[: layer.counts.counted]
    rows = np.flatnonzero(layer.case < layer.counts.counted)
    rows = rows[visits[layer.case[rows]] < few]
    return Doubt(rows, layer.case[rows], visits.copy())


def leave_free(layer: LayerArrays, rows: Ints, parts: Floats, width: float) -> None:
    """Leave a fraction of each of these rows unconstrained. width: of rows with visits."""
    unseen = parts >= 1.0
    layer.belief.table.total[rows] /= np.where(unseen, 1.0, 1.0 - parts)
    layer.belief.width[rows] = np.where(unseen, ANYTHING, width)


def cost_under(task: Task, model: ModelArrays, policy: Policy, value: Floats) -> Floats:
    """Return the least cost of a policy from each state on, (S,), after the start agent.

    For averages it is that of a step in the long run. value: (L + 1, S, D), written.
    """
    value[...] = 0.0
    if task.horizon is None:
        gain = run_endless(task, model, FOLLOW, policy, value, 0).gain
        if task.discount is None:
            return np.full(task.n_states, gain)
    else:
        run_pass(model, FOLLOW, policy, value, 0)
    result: Floats = value[0, :, task.start_agent].copy()
    return result


def costs_seen(costs: CostLayer) -> Floats:
    """Return how often each learned cost was observed, (rows,)."""
    result: Floats = costs.counts.seen.matrix(costs.counts.counted).toarray()[:, COUNT]
    return result


def sampling_form(learner: "Learner", prior: float) -> tuple[Task, Settings, LearnerState]:
    """Return task, settings and state of a learner with the same counts that samples tables with a prior.

    UCRL2 has one table p(s' | s, d). It becomes the environment of the flattened task, whose agents are known.
    """
    state, settings = learner.state, learner.settings
    layers, task, known = dict(state.counts.layers), learner.task, dict(settings.knowledge.agents)
    if settings.flat:
        task, costs = flat_form(learner)
        layers = {name: layer for name, layer in layers.items() if name == ENVIRONMENT} | ({} if costs is None else {COSTS: costs})
        slots, sides = int(learner.task.layout.n_slots.sum()), (-1, task.n_states)
        known = {i: np.ascontiguousarray(p.reshape(*sides, slots)) for i, p in enumerate(certain_policies(learner.task))}
    sampling = CountsAlone(prior, Knowledge(known, settings.knowledge.environment, settings.structure))
    return task, sampling, LearnerState(Counts(layers, state.episodes, state.environment_episodes))


def flat_form(learner: "Learner") -> tuple[Task, LayerCounts | None]:
    """Return the flattened task of UCRL2, with NaN where it learns a cost, and its sums of costs.

    UCRL2 keeps sums relative to the range of costs of each state, a task has one range for all.
    """
    task, where = learner.task, Places(learner.task, flat=True).costs
    slots, (low, high) = int(task.layout.n_slots.sum()), task.extremes_of_env_cost
    known, sums = np.repeat(low[:, None], slots, axis=1), learner.counts.costs.toarray()
    if not where.place.size:
        flat = replace(task, env_cost=known, n_actions=None, action_names=None)
        return flat, LayerCounts.of_matrix(sp.csr_array(sums)) if len(sums) else None
    unknown = where.place >= 0
    least, most = float(low[unknown.any(axis=1)].min()), float(high[unknown.any(axis=1)].max())
    flat = replace(task, env_cost=np.where(unknown, np.nan, known), n_actions=None, action_names=None, cost_range=(least, most))
    rows = len(where.place[unknown])
    n, total, squares = sums[:rows, COUNT], sums[:rows, SUM] + sums[:rows, REST], sums[:rows, SQUARES]
    shift, factor = (where.least[:rows] - least) / (most - least), where.spread[:rows] / (most - least)
    sums[:rows, SUM] = n * shift + factor * total
    sums[:rows, REST] = 0.0
    sums[:rows, SQUARES] = n * shift**2 + 2 * shift * factor * total + factor**2 * squares
    return flat, LayerCounts.of_matrix(sp.csr_array(sums))
