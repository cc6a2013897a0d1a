"""The results of a comparison: arrays by world, learner, repeat and episode; as columns, as a frame, as a table, as a figure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede._base.columns import data_frame
from cede._base.remade import Remade
from cede._base.reprs import listed, plural, short_repr
from cede.comparison.picture import draw
from cede.comparison.table import ComparisonTable, make_table

MEASURES = ("regret", "cost", "switches")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Remade):
    """The results of N learners in W worlds, R repeats of K episodes each. `compare` returns it.

    In a repeat all learners had the same random numbers, so differences are taken repeat by repeat.
    """

    worlds: tuple[str, ...]  # (W,) names
    learners: tuple[str, ...]  # (N,) names
    seeds: tuple[int, ...]  # (R,) the seed of each repeat: of the world, of the learner and of `simulate`
    reference: str  # the learner that the others are compared with
    agents: tuple[tuple[str, ...], ...]  # (W,) names of the agents in each world
    unit: str  # what an entry on the last axis is: "episodes", or without horizon "blocks of n steps"
    regret: Floats  # (W, N, R, K) cumulative, exact but for the learners in `realised`
    cost: Floats  # (W, N, R, K) realised cost of each episode
    switches: Ints  # (W, N, R, K) hand-overs in each episode
    control: Ints  # (W, N, R, K, D of the largest team) steps in which each agent acted
    optimum: Floats  # (W, N, R) expected cost of the best policy, as in `History`
    settings: Mapping[str, Mapping[str, Mapping[str, str]]]  # by world and learner: settings of the learner, in the first repeat
    realised: tuple[str, ...] = ()  # learners without a policy: their regret is realised cost minus the optimum

    def __post_init__(self) -> None:
        for name in ("regret", "cost", "switches", "control", "optimum"):
            object.__setattr__(self, name, check.frozen(getattr(self, name)))

    def columns(self, points: int | None = None) -> dict[str, NDArray[Any]]:
        """Return the results in long form, without pandas: arrays of equal length, by name.

        world, learner, repeat (its seed), episode (from 1), regret (cumulative), cost, switches, and "share of NAME" for
        each agent, NaN in worlds without it. points: the greatest number of rows for each run, evenly spaced; cost, switches and
        shares are then means over the episodes since the row before.
        """
        worlds, learners, repeats, episodes = self.regret.shape
        most = episodes if points is None else check.integer("Comparison.columns", "points", points, 1)
        ends = np.unique(np.linspace(0, episodes, min(most, episodes) + 1).astype(int))
        lengths, runs = np.diff(ends), (worlds, learners, repeats)

        def mean_of(values: NDArray[Any]) -> Floats:  # over the episodes up to each end, (runs, points)
            return np.asarray(np.add.reduceat(values, ends[:-1], axis=3) / lengths)

        def repeated(values: Any, axis: int) -> NDArray[Any]:
            shape = [1] * 4
            shape[axis] = len(values)
            return np.broadcast_to(np.reshape(values, shape), (*runs, len(lengths))).ravel()

        steps = np.add.reduceat(self.control, ends[:-1], axis=3)  # (W, N, R, points, D)
        shares = steps / np.maximum(steps.sum(axis=4, keepdims=True), 1)
        columns: dict[str, NDArray[Any]] = {
            "world": repeated(np.array(self.worlds, dtype=object), 0),
            "learner": repeated(np.array(self.learners, dtype=object), 1),
            "repeat": repeated(self.seeds, 2),
            "episode": repeated(ends[1:], 3),
            "regret": self.regret[..., ends[1:] - 1].ravel(),
            "cost": mean_of(self.cost).ravel(),
            "switches": mean_of(self.switches).ravel(),
        }
        for agent in dict.fromkeys(name for names in self.agents for name in names):
            share = np.full((*runs, len(lengths)), np.nan)
            for w, names in enumerate(self.agents):
                if agent in names:
                    share[w] = shares[w, ..., names.index(agent)]
            columns[f"share of {agent}"] = share.ravel()
        return columns

    def to_frame(self, points: int | None = None) -> Any:
        """Return the results as a pandas DataFrame with one row for each run and episode. points: as for `columns`."""
        return data_frame(self.columns(points))

    def final(self, measure: str = "regret") -> Floats:
        """Return one number for each run, (W, N, R): the "regret" of all episodes, or the "cost" or "switches" of an episode in the
        mean.
        """
        check.choice("Comparison", "measure", measure, MEASURES)
        values: Floats = self.regret[..., -1] if measure == "regret" else getattr(self, measure).mean(axis=3)
        return values

    def table(self, measure: str = "regret") -> ComparisonTable:
        """Return means with intervals, and paired differences to the reference with intervals and a test.

        measure: "regret", "cost" or "switches", as for `final`. str() of the table is text; its `latex` is a tabular.
        """
        per = "episode" if self.unit == "episodes" else self.unit.replace("blocks", "block")
        what = f"Regret of {self.regret.shape[3]:,} {self.unit}" if measure == "regret" else f"{measure.capitalize()} per {per}"
        realised = self.realised if measure == "regret" else ()
        return make_table(self.final(measure), self.worlds, self.learners, self.reference, what, realised)

    def plot(self) -> Any:
        """Return a Matplotlib figure of the mean regret over episodes, one panel for each world.

        The bands are 95% intervals of the mean; with fewer than 6 repeats, they reach from the least to the greatest of them.
        """
        return draw(self.regret, self.worlds, self.learners, self.seeds, self.unit, self.realised)

    def __repr__(self) -> str:
        def parts() -> tuple[str, ...]:
            length = f"{self.regret.shape[3]:,} {self.unit}"
            return f"worlds: {listed(self.worlds)}", f"learners: {listed(self.learners)}", plural(len(self.seeds), "repeat"), length

        return short_repr(self, parts)
