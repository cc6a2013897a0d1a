"""Priors from features of the teams of a group: what kernels do not read of the stacked states of these teams.

Models are fitted in Python between rounds; before a team plays, the pseudo-counts that follow from them are put into the workspace.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from cede._base.arrays import Ints
from cede._kernels.learner import LearnerArrays
from cede._kernels.tables import Table
from cede.learning.feature_prior import LAYERS, expected_table, prior_fields, prior_of, refitted
from cede.learning.layer_prior import LayerPrior
from cede.learning.state import PRIOR, SEEN, Arrays, Seen, Sizes


class TeamPriors:
    """The priors of n teams that were told features. sizes: task and settings. state: the stacked states. shared: whether these
    teams share the environment, whose prior then comes with every order.
    """

    def __init__(self, sizes: Sizes, state: Arrays, shared: bool) -> None:
        self.sizes, self.shared = sizes, shared
        self.priors = [{layer: prior_of(layer, sizes, found) for layer in LAYERS} for found in unstacked(state)]
        self.tables: dict[tuple[str, int], tuple[LayerPrior | None, Table]] = {}  # pseudo-counts, by layer and team, and whose

    def put(self, i: int, learner: LearnerArrays, common: LayerPrior | None) -> None:
        """Put the pseudo-counts of team i into the arrays of the learner at work. common: the prior of a shared environment."""
        for layer in LAYERS:
            is_common = layer == "environment" and self.shared
            key, prior = (layer, -1 if is_common else i), common if is_common else self.priors[i][layer]
            if key not in self.tables or self.tables[key][0] is not prior:
                self.tables[key] = (prior, expected_table(layer, self.sizes, prior))
            getattr(learner, layer).expected = self.tables[key][1]

    def refit(self, i: int, counts: Callable[[str], sp.csr_array], episodes: int, own: int) -> None:
        """Fit the models of team i anew where it is time. To do so again changes nothing.

        counts: returns those of a layer. episodes, own: how many were counted, and how many into its own environment counts.
        """
        for layer, counted in zip(LAYERS, (episodes, own), strict=True):
            if layer == "agents" or not self.shared:
                found = refitted(layer, self.sizes, self.priors[i][layer], lambda name=layer: counts(name), counted)  # type: ignore[misc]
                self.priors[i][layer] = found or self.priors[i][layer]

    def state(self) -> Arrays:
        """Return the stacked fields of all teams."""
        fields = [prior_fields(one["agents"], one["environment"]) for one in self.priors]
        result: Arrays = {}
        for name in PRIOR:
            given = [one[name] for one in fields]
            if isinstance(given[0], Seen):
                result[f"{name}_size"] = np.array([len(one.key) for one in given], dtype=np.int64)
                result |= {f"{name}_{part}": np.concatenate([getattr(one, part) for one in given]) for part in ("key", "number")}
            else:
                result[name] = np.stack(given)
        return result


def no_priors(n: int) -> Arrays:
    """Return the stacked fields of n teams that have no priors from features."""
    none: Arrays = {}
    for name in [name for name in PRIOR if name in SEEN]:
        none |= {f"{name}_size": np.zeros(n, dtype=np.int64), f"{name}_key": np.empty(0, dtype=np.int64)}
        none[f"{name}_number"] = np.empty(0)
    return none


def unstacked(state: Arrays) -> list[dict[str, object]]:
    """Return the fields of `LearnerState` that belong to priors, by name, for each team of a stack."""
    names = [name for name in PRIOR if f"{name}_size" in state]
    ends: dict[str, Ints] = {name: np.cumsum(state[f"{name}_size"]) for name in names}
    result: list[dict[str, object]] = []
    for i in range(len(state["planned"])):
        found: dict[str, object] = {name: state[name][i] for name in PRIOR if name not in names}
        for name, end in ends.items():
            part = slice(end[i] - state[f"{name}_size"][i], end[i])
            found[name] = Seen(state[f"{name}_key"][part].copy(), state[f"{name}_number"][part].copy())
        result.append(found)
    return result
