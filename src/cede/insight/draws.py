"""Tables and costs drawn from the posterior of what any learner has seen, and what a policy costs under each draw.

Every row of every agent and of the environment has a Dirichlet posterior, with a declared prior (`_kernels/sampling.py`). The mean
of every cost that is learned has one, too (`_kernels/costs.py: sample_mean`). It is what `posterior_sampling` plans with, for the
counts of any learner. What is declared, known or forgotten stays so.

A row that was never seen is drawn from its prior for the mean, but for the ends of an interval it may be anything: rows are drawn
apart, and of very many that are not known at all the sum would look as if it were known well.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cede._base.arrays import Floats, Policy
from cede._kernels import learner as kernels
from cede._kernels.backup import FOLLOW
from cede._kernels.costs import COUNT, REST, SQUARES, SUM, CostLayer, put_costs
from cede._kernels.layer import LayerArrays
from cede._kernels.model import ModelArrays
from cede._kernels.random_streams import tie_seed
from cede.learning.arrays import put_radii
from cede.learning.counts import cost_places
from cede.learning.learner import Learner
from cede.learning.live import Live
from cede.learning.settings import Settings
from cede.learning.state import LearnerState, Seen
from cede.planning.flatten import certain_policies
from cede.planning.passes import empty_plan, negated, problem_of, run_endless, run_pass
from cede.planning.scale import Scale
from cede.problem.task import Task

ANYTHING = 2.0  # the width of a ball that holds every distribution


@dataclass(frozen=True, eq=False)
class DrawnCosts:
    """What policies cost from each state on, after the start agent, under draws, (draws, policies, S) each."""

    mean: Floats
    low: Floats  # if all that was never seen is as good as possible
    high: Floats  # if it is as bad as possible


def costs_of_draws(learner: Learner, policies: list[Policy], prior: float, draws: int, seed: int) -> DrawnCosts:
    """Return what each policy costs under each draw. All are evaluated under the same draws.

    policies: (L, S, D) each, as kernels read them. For averages it is the cost of a step in the long run, the same for all states.
    """
    task, told, state = sampling_form(learner, prior)
    live = Live(task, told, state, learner.shared_environment)
    arrays, (_, value) = live.arrays, empty_plan(task)
    put_radii(arrays.radii, Scale(), live.sizes, learner.episode, learner.environment_episodes)
    opposite_task = negated(task)
    opposite = ModelArrays(agents=arrays.agents.belief, environment=arrays.environment.belief, problem=problem_of(opposite_task))
    if arrays.costs.least.size:  # they are written into arrays of its own
        opposite.problem.env_cost = opposite.problem.env_cost.copy()
        opposite.problem.enter_cost = opposite.problem.enter_cost.copy()
    layers, found = (arrays.agents, arrays.environment), np.empty((3, draws, len(policies), task.n_states))
    unseen = [never_seen(layer) for layer in layers]
    new_costs = arrays.costs.least.size > 0 and (costs_seen(arrays.costs) <= 0)
    unsure = any(rows.any() for rows in unseen) or bool(np.any(new_costs))
    for i in range(draws):
        kernels.believe(arrays, int(tie_seed(seed, i)))
        for j, policy in enumerate(policies):
            found[:, i, j] = cost_under(task, arrays.model, policy, value)
        if not unsure:
            continue
        for layer, rows in zip(layers, unseen, strict=True):
            layer.belief.width[rows] = ANYTHING
        for end, model, sign in ((1, arrays.model, 1.0), (2, opposite, -1.0)):
            if arrays.costs.least.size:
                extreme = arrays.costs.least + (arrays.costs.spread if end == 2 else 0.0)
                put_costs(arrays.costs, model.problem, np.where(new_costs, extreme, arrays.costs.low), sign)
            for j, policy in enumerate(policies):
                found[end, i, j] = sign * cost_under(task if end == 1 else opposite_task, model, policy, value)
        for layer, rows in zip(layers, unseen, strict=True):
            layer.belief.width[rows] = 0.0
    return DrawnCosts(*found)


def cost_under(task: Task, model: ModelArrays, policy: Policy, value: Floats) -> Floats:
    """Return what a policy costs from each state on, (S,), after the start agent, at least.

    For averages it is the cost of a step in the long run. value: (L + 1, S, D), written.
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


def never_seen(layer: LayerArrays) -> NDArray[np.bool_]:
    """Return which rows of a layer's belief are learned and were never seen, (rows,)."""
    counted = layer.case < layer.counts.counted
    result: NDArray[np.bool_] = counted & (layer.counts.seen.total[np.minimum(layer.case, layer.counts.counted - 1)] <= 0.0)
    return result


def costs_seen(costs: CostLayer) -> Floats:
    """Return how often each cost that is learned was seen, (rows,)."""
    result: Floats = costs.counts.seen.matrix(costs.counts.counted).toarray()[:, COUNT]
    return result


def sampling_form(learner: Learner, prior: float) -> tuple[Task, Settings, LearnerState]:
    """Return task, settings and state of a learner that has seen the same, and samples tables with a prior.

    UCRL2 has one table p(s' | s, d). It becomes the environment of the flattened task, whose agents are known.
    """
    state, told = learner.state, learner.told
    costs, task, known = state.costs, learner.task, dict(told.known_agents)
    if told.flat:
        task, costs = flat_form(learner)
        slots, sides = int(learner.task.n_slots.sum()), (-1, task.n_states)
        known = {i: np.ascontiguousarray(p.reshape(*sides, slots)) for i, p in enumerate(certain_policies(learner.task))}
    given = Settings(
        "estimate",
        radius=None,
        prior=prior,
        known_agents=known,
        known_environment=told.known_environment,
        structure=told.structure,
    )
    agents = Seen() if told.flat else state.agents
    return (
        task,
        given,
        LearnerState(state.episodes, state.environment_episodes, agents=agents, environment=state.environment, costs=costs),
    )


def flat_form(learner: Learner) -> tuple[Task, Seen]:
    """Return the flattened task of a learner with one table for all, with NaN where it learns a cost, and its sums of costs.

    It keeps sums relative to the range of costs of each state, a task has one range for all.
    """
    task, where = learner.task, cost_places(learner.task, flat=True)
    slots, (low, high) = int(task.n_slots.sum()), task.extremes_of_env_cost
    known = np.repeat(low[:, None], slots, axis=1)
    if not where.place.size:
        return replace(task, env_cost=known, n_actions=None, action_names=None, cost_range=None), learner.state.costs
    unknown = where.place >= 0
    least, most = float(low[unknown.any(axis=1)].min()), float(high[unknown.any(axis=1)].max())
    flat = replace(task, env_cost=np.where(unknown, np.nan, known), n_actions=None, action_names=None, cost_range=(least, most))
    sums = learner.counts.costs.toarray()
    n, total, squares = sums[:, COUNT], sums[:, SUM] + sums[:, REST], sums[:, SQUARES]
    rows = len(where.place[unknown])
    shift, factor = (where.least - least) / (most - least), where.spread / (most - least)
    shift, factor = shift[:rows], factor[:rows]
    new = sums.copy()
    new[:rows, SUM] = n[:rows] * shift + factor * total[:rows]
    new[:rows, REST] = 0.0
    new[:rows, SQUARES] = n[:rows] * shift**2 + 2 * shift * factor * total[:rows] + factor**2 * squares[:rows]
    return flat, Seen.of(sp.csr_array(new))
