"""Priors from features (`posterior_sampling(features=...)`): which rows are modelled, when models are fitted anew, what is kept.

Layers that are known or declared are not modelled: what is told is stronger than what is guessed. Models are fitted after a tenth
episode or so, and then each time the number of episodes has grown by half. At such a time every model and every strength is first
scored by how well it predicts what was counted since the last time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import scipy.sparse as sp

from cede._base import check
from cede._kernels.tables import Table
from cede.learning.counts import cases_of
from cede.learning.feature_models import environment_model, softmax_model, tree_model
from cede.learning.features import Features
from cede.learning.layer_prior import KINDS, Block, LayerPrior, expected_counts, new_prior, scored, strength
from cede.learning.settings import modelled_agents, models_environment
from cede.learning.state import ARRAYS, Seen, Sizes, check_array, check_seen
from cede.problem.task import Task

FIRST_EPISODES, FIRST_STEPS = 10, 100  # models are fitted first after so many
GROWTH = 1.5  # and then each time after so many times as many
LAYERS = ("agents", "environment")
LEAST_ALPHA = {"agents": 10.0, "environment": 30.0}  # a weaker prior is not used


def next_fit(task: Task, episodes: int) -> int:
    """Return the number of episodes after which models are fitted next, if so many were counted at the last time."""
    due = max(FIRST_EPISODES, ceil(FIRST_STEPS / task.plan_steps))
    while due <= episodes:
        due = ceil(GROWTH * due)
    return due


def blocks_of(layer: str, sizes: Sizes) -> list[Block]:
    """Return the rows of each owner of a layer: of every agent in `task.tables`, or of the environment."""
    task, told = sizes.task, sizes.told
    if layer == "environment":
        return [(0, sizes.layers[1][0] if models_environment(task, told) else 0)]
    own = modelled_agents(task, told)
    rows = [int(n) * cases for n, cases in zip(task.n_slots, cases_of(task, told.structure), strict=True)]
    ends = np.cumsum(rows).tolist()
    return [(end - n, end if name in own else end - n) for name, n, end in zip(task.tables, rows, ends, strict=True)]


def first_prior(layer: str, sizes: Sizes) -> LayerPrior:
    """Return the prior of a layer before anything was seen."""
    return new_prior(sizes.layers[LAYERS.index(layer)], len(blocks_of(layer, sizes)), len(KINDS[layer]))


def refitted(
    layer: str, sizes: Sizes, last: LayerPrior | None, counts: Callable[[], sp.csr_array], episodes: int
) -> LayerPrior | None:
    """Return the prior of a layer after so many episodes: the same as before, unless it is time to fit its models anew.

    last: the prior so far, None: nothing was fitted yet. counts: returns what was counted, (rows, columns).
    """
    features = sizes.told.features
    if features is None or next_fit(sizes.task, 0 if last is None else last.episodes) > episodes:
        return last
    blocks, last = blocks_of(layer, sizes), first_prior(layer, sizes) if last is None else last
    now = sp.csr_array(counts(), dtype=np.float64)
    scores = scored(last, now, blocks, sizes.told.prior)
    return LayerPrior(now, fitted(layer, features, now, blocks, sizes.task.n_actions), scores, episodes)


def fitted(layer: str, features: Features, counts: sp.csr_array, blocks: Sequence[Block], n_actions: int) -> sp.csr_array:
    """Return the bases of a layer: m of every kind of model, one below the other, (kinds * rows, columns)."""
    models: list[Callable[[sp.csr_array], sp.csr_array]] = [
        lambda rows: softmax_model(features, rows),
        lambda rows: tree_model(features, rows),
    ]
    if layer == "environment":
        models = [lambda rows: environment_model(features, rows, n_actions)]
    parts = []
    for model in models:
        end = 0
        for block in [*blocks, (counts.shape[0], counts.shape[0])]:
            parts.append(sp.csr_array((block[0] - end, counts.shape[1])))
            parts.append(model(counts[block[0] : block[1]]) if block[1] > block[0] else parts[-1][:0])
            end = block[1]
    return sp.csr_array(sp.vstack([part for part in parts if part.shape[0]], format="csr"))


def expected_table(layer: str, sizes: Sizes, prior: LayerPrior | None) -> Table:
    """Return the pseudo-counts that kernels add to what was seen of a layer; a table without rows if there are none."""
    if prior is None or not prior.scores.any():
        return Table.empty(0, sizes.layers[LAYERS.index(layer)][1])
    return expected_counts(prior, blocks_of(layer, sizes), LEAST_ALPHA[layer])


def in_force(layer: str, sizes: Sizes, prior: LayerPrior) -> dict[str, tuple[str, float]]:
    """Return (model, alpha) of each owner of a layer that has a prior from features, by the name of the agent or "environment"."""
    names, result = (sizes.task.tables if layer == "agents" else ("environment",)), {}
    for owner, (name, block) in enumerate(zip(names, blocks_of(layer, sizes), strict=True)):
        kind, alpha = strength(prior, owner, block, LEAST_ALPHA[layer])
        if alpha > 0.0 and block[1] > block[0]:
            result[name] = (KINDS[layer][kind], alpha)
    return result


# ------------------------------------------------------------------------------------------------- in a state


def prior_fields(agents: LayerPrior | None, environment: LayerPrior | None) -> dict[str, Any]:
    """Return the priors of both layers as fields of `LearnerState`; what is None is as at the start. `prior_of` is the inverse."""
    result: dict[str, Any] = {"fitted_at": np.zeros(len(LAYERS), dtype=np.int64)}
    for i, (layer, prior) in enumerate(zip(LAYERS, (agents, environment), strict=True)):
        if prior is not None:
            result |= {f"{layer}_fitted": Seen.of(prior.counts), f"{layer}_bases": Seen.of(prior.bases)}
            result[f"{layer}_scores"] = prior.scores
            result["fitted_at"][i] = prior.episodes
    return result


def prior_of(layer: str, sizes: Sizes, found: Mapping[str, Any]) -> LayerPrior:
    """Return the prior of a layer from fields of `LearnerState`, by name; arrays that are empty are as at the start."""
    start = first_prior(layer, sizes)
    scores, at = found[f"{layer}_scores"], found["fitted_at"]
    matrices = {"counts": found[f"{layer}_fitted"], "bases": found[f"{layer}_bases"]}
    result = replace(start, **{name: seen.matrix(getattr(start, name).shape) for name, seen in matrices.items()})
    result = replace(result, scores=np.array(scores)) if scores.size else result
    return replace(result, episodes=int(at[LAYERS.index(layer)])) if at.size else result


def pack_prior(prior: LayerPrior | None) -> dict[str, Any]:
    """Return the prior of a shared environment as arrays by name; none if there is none. `unpack_prior` is the inverse."""
    found = {} if prior is None else prior_fields(None, prior)
    arrays = {name: one for name, one in found.items() if not isinstance(one, Seen)}
    seen = {name: one for name, one in found.items() if isinstance(one, Seen)}
    return arrays | {f"{name}_{part}": getattr(one, part) for name, one in seen.items() for part in ("key", "number")}


def unpack_prior(sizes: Sizes | None, arrays: Mapping[str, Any]) -> LayerPrior | None:
    """Make the prior of a shared environment from arrays of a file, after checks. sizes: of a learner that was told features."""
    if not arrays:
        return None
    if sizes is None:
        check.fail("file", "a prior from features", "there", "left out where no learner was told any")
    found: dict[str, Any] = {}
    for one in ARRAYS:
        if one.name in ("environment_scores", "fitted_at"):
            found[one.name] = arrays[one.name]
            check_array("file", one, arrays[one.name], sizes)
    for name in ("environment_fitted", "environment_bases"):
        found[name] = Seen(arrays[f"{name}_key"], arrays[f"{name}_number"])
        check_seen("file", name, found[name], sizes.seen[name])
    return prior_of("environment", sizes, found)


def same_features(one: Features | None, other: Features | None) -> bool:
    """Return whether two learners were told the same features."""
    if one is None or other is None:
        return one is other
    return one is other or (
        one.names == other.names
        and one.values == other.values
        and one.numeric == other.numeric
        and bool(np.array_equal(one.codes, other.codes))
    )
