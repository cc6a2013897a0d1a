"""The results of a run: per episode and team, what it cost, who was in control, and how often control was handed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cede._base import check
from cede._base.arrays import Floats, Ints
from cede.problem.model import TwoLayerMDP


@dataclass(frozen=True, eq=False)
class Ledger:
    """The results of N teams in K episodes: one array for each column."""

    expected_cost: Floats  # (N, K) exact expected cost of each policy
    regret: Floats  # (N, K) exact, of each episode
    cost: Floats  # (N, K) realised cost of each episode
    control: Ints  # (N, K, members of the largest team) steps in which each member acted
    switches: Ints  # (N, K) hand-overs

    @classmethod
    def empty(cls, teams: int, episodes: int, members: int) -> "Ledger":
        """Make a ledger of zeros. members: of the largest team."""
        shape = (teams, episodes)
        counts = {"control": np.zeros((*shape, members), dtype=np.int64), "switches": np.zeros(shape, dtype=np.int64)}
        return cls(expected_cost=np.zeros(shape), regret=np.zeros(shape), cost=np.zeros(shape), **counts)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def enter(self, teams: Ints, episodes: slice, part: "Ledger") -> None:
        """Copy the results of some episodes of some teams, `part`, into the ledger. teams: (n,) indices."""
        for name, column in self.columns.items():
            given = getattr(part, name)
            target = column[:, episodes] if column.ndim == 2 else column[:, episodes, : given.shape[2]]
            target[teams] = given

    def first(self, episodes: int) -> dict[str, NDArray[Any]]:
        """Return the columns of the first episodes, as views, by name."""
        return {name: column[:, :episodes] for name, column in self.columns.items()}


@dataclass(frozen=True, eq=False)
class RunRecord:
    """The results of a run of N teams for K episodes, from which a `History` or a `FleetHistory` is made."""

    ledger: Ledger
    optimum: Floats  # (N,) expected cost of an episode of the best policy; with limits of control, of the best mixture within them

    @classmethod
    def empty(cls, mdps: Sequence[TwoLayerMDP], episodes: int) -> "RunRecord":
        """Make a record without results."""
        return cls(Ledger.empty(len(mdps), episodes, max(mdp.team.n_agents for mdp in mdps)), np.empty(len(mdps)))


@dataclass(frozen=True, eq=False)
class History:
    """The results of a run of one learner for K episodes, with D agents. `simulate` returns it.

    Without a horizon a run consists of K blocks of steps instead, as many as `settings["record_every"]` says. For averages the
    expected cost of a block is that of a step in the long run under the policies in force, and regret counts how much more that is
    than for the best policy, step by step. With a discount the expected cost is that of all that comes from the start on, under the
    policies in force; regret adds up, step by step, how much more the policy in force costs than the best one from where the team
    is.

    What a learner that is not cede's own, and shows no policy, was expected to cost is not known: then regret and expected_cost are
    NaN, and `settings["regret"]` says so.
    """

    regret: Floats  # (K,) cumulative regret after each episode, exact (Eq. 6); NaN if it is not known
    expected_cost: Floats  # (K,) exact expected cost of each episode's policy; NaN if it is not known
    cost: Floats  # (K,) realised cost of each episode
    control: Ints  # (K, D) steps in which each agent of the team acted
    switches: Ints  # (K,) hand-overs in each episode
    optimum: float  # expected cost of the best policy; with limits of control, of the best mixture within them
    agents: tuple[str, ...]  # (D,) names
    settings: Mapping[str, Any]  # what to repeat the run with: learner, radii, scale, delta, seeds, version

    @property
    def realised_regret(self) -> Floats:
        """Return how much more the episodes so far really cost than the best policy is expected to, (K,): regret with the noise of
        what happened, for any learner. Only for tasks with a horizon.
        """
        if "record_every" in self.settings:
            check.fail("History", "realised_regret", "asked for", "asked for where episodes have an end: a task with a horizon")
        return np.cumsum(self.cost - self.optimum)

    @classmethod
    def of(cls, record: RunRecord, agents: tuple[str, ...], settings: Mapping[str, Any]) -> "History":
        """Make the history of a run of one team. agents: names of the members. settings: what to repeat the run with."""
        columns = {name: column[0] for name, column in record.ledger.columns.items()}
        columns["regret"] = np.cumsum(columns["regret"])
        return cls(optimum=float(record.optimum[0]), agents=agents, settings=settings, **columns)


@dataclass(frozen=True, eq=False)
class FleetHistory:
    """The results of a run of a fleet: N teams, K episodes each. `simulate_fleet` returns it."""

    regret: Floats  # (K,) cumulative over episodes, summed over teams (Eq. 15), exact
    team_regret: Floats  # (N,) total regret of each team
    expected_cost: Floats  # (N, K) exact expected cost of each episode's policy
    cost: Floats  # (N, K) realised cost of each episode
    control: Ints  # (N, K, D of the largest team) steps in which each agent acted
    switches: Ints  # (N, K) hand-overs
    optimum: Floats  # (N,) expected cost of the best policy, as in `History`
    settings: Mapping[str, Any]  # of the first learner, with the number of teams and the seed

    @classmethod
    def of(cls, record: RunRecord, settings: Mapping[str, Any]) -> "FleetHistory":
        """Make the history of a run of a fleet. settings: what to repeat the run with."""
        columns, regret = dict(record.ledger.columns), record.ledger.regret
        columns |= {"regret": np.cumsum(regret.sum(axis=0)), "team_regret": regret.sum(axis=1)}
        return cls(optimum=record.optimum, settings=settings, **columns)
