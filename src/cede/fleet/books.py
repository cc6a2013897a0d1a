"""The books of a run of a fleet: what was done, and where it stands."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cede._base.arrays import Floats, Ints
from cede.planning.tables import Table
from cede.problem.model import TwoLayerMDP


@dataclass(frozen=True, eq=False)
class Rounds:
    """What N teams did in K episodes."""

    expected_cost: Floats  # (N, K) exact expected cost of each policy
    cost: Floats  # (N, K) realised
    control: Ints  # (N, K, D of the largest team) steps of each agent
    switches: Ints  # (N, K)
    optimum: Floats  # (N,)


@dataclass(frozen=True, eq=False)
class Books:
    """Where a run stands between two rounds."""

    number: int  # of the last round
    done: int  # episodes of every team
    table: Table | None  # what was seen of the shared environment
    environment_episodes: int  # counted into it


def empty_rounds(mdps: Sequence[TwoLayerMDP], episodes: int) -> Rounds:
    n, most = len(mdps), max(mdp.team.n_agents for mdp in mdps)
    return Rounds(
        expected_cost=np.empty((n, episodes)),
        cost=np.empty((n, episodes)),
        control=np.zeros((n, episodes, most), dtype=np.int64),
        switches=np.empty((n, episodes), dtype=np.int64),
        optimum=np.empty(n),
    )
