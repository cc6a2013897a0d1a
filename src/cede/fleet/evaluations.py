"""The episodes of a run that are evaluated, if not all are: one of every n, drawn at random, so that regret is unbiased.

Evaluating the first of every n would be biased: the regret of a learner that improves would be too high.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cede.fleet.history import Ledger


class Evaluations:
    """The episodes of a run whose policies are evaluated: one of each block of n; the last block may be shorter.

    stream: the random stream of the first team before the run. It seeds the draws here, and stays as it is. A longer run has the
    same blocks; in the last block of the shorter run, it has the same episode or a later one.
    """

    def __init__(self, stream: Sequence[int] | NDArray[np.uint64], episodes: int, every: int) -> None:
        self.every = every
        first = np.arange(0, episodes, every)
        size, place = np.minimum(every, episodes - first), np.ones(len(first))  # of each block; place: from 1 on
        goes_on, words, n = size > 1, [int(word) for word in stream], 0
        while goes_on.any():  # the m-th of a block replaces an earlier one with probability 1/m, so each is equally likely
            later = np.floor(place / (1.0 - np.random.default_rng([*words, n]).random(len(first)))) + 1.0
            goes_on &= later <= size
            place, n = np.where(goes_on, later, place), n + 1
        self.chosen = first + place.astype(np.int64) - 1  # (blocks,) numbers from 0 on
        self.is_chosen = np.zeros(episodes, dtype=np.bool_)  # (episodes,)
        self.is_chosen[self.chosen] = True

    def carry(self, ledger: Ledger) -> None:
        """Copy expected cost and regret of the evaluated episode to all episodes of its block."""
        if self.every > 1:
            source = self.chosen[np.arange(len(self.is_chosen)) // self.every]
            for column in (ledger.expected_cost, ledger.regret):
                column[...] = column[:, source]
