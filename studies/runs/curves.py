"""What a run writes into its outcome: the rows of a regret curve, and the settings of its learner."""

import numpy as np

from cede import Learner
from studies.arrays import Floats
from studies.figure import Row

POINTS = 200  # of a curve that are kept


def curve_rows(regret: Floats, about: Row) -> list[Row]:
    """Thin out a cumulative regret to at most POINTS rows, evenly spaced, the last episode always among them.

    regret: (episodes,); about: columns that every row gets. A row adds "episodes" (length of the run), "episode" (from 1) and
    "regret".
    """
    n = len(regret)
    return [{**about, "episodes": n, "episode": k, "regret": float(regret[k - 1])} for k in shown_episodes(n)]


def shown_episodes(n: int) -> list[int]:
    """Return at most POINTS episodes, evenly spaced from 1 to n."""
    return [int(k) for k in np.unique(np.linspace(1, n, min(n, POINTS)).astype(int))]


def learner_settings(learner: Learner) -> Row:
    """Return the settings of a learner that every table shows: radius, scale and delta, empty where it has none."""
    s = learner.about
    return {name: s[name] if s[name] is not None else "" for name in ("radius", "scale", "delta")}
