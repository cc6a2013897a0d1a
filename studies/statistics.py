"""Statistics of tables: means over repeats with 95% intervals, and regret ratios of two learners."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from studies.arrays import Floats
from studies.figure import Row
from studies.tables import final_rows, select, values


def over_repeats(rows: Sequence[Row], x: str = "episode", y: str = "regret") -> tuple[Floats, Floats, Floats]:
    """Average a column over repeats. x, y: names of columns; every value of x must occur once for each seed.

    Returns three arrays of shape (number of different x,): the values of x, the mean of y over seeds, and half the width of the
    95% confidence interval of that mean (0 with one seed).
    """
    samples_at: dict[float, list[float]] = {}
    for row in rows:
        samples_at.setdefault(row[x], []).append(row[y])
    samples = np.array(list(samples_at.values()), dtype=float)
    return np.array(list(samples_at), dtype=float), samples.mean(axis=1), half_width(samples)


def half_width(samples: Floats) -> Floats:
    """Return half the width of the 95% t-interval of the mean of each row. samples: (rows, n). Returns (rows,), zeros if n < 2."""
    n = samples.shape[1]
    if n < 2:
        return np.zeros(len(samples))
    widths: Floats = stats.t.ppf(0.975, n - 1) * samples.std(axis=1, ddof=1) / np.sqrt(n)
    return widths


def ratios(rows: Sequence[Row], x: str, baseline: str) -> list[Row]:
    """Divide the final regret of UCRL2-MC by that of a baseline learner, seed by seed, for each value of column x.

    Returns one row for each value of x, in ascending order: x, "ratio" (the mean over seeds), "half_width" (of its 95% interval)
    and "each" (the ratio of every seed).
    """
    last = final_rows(rows)
    result = []
    for value in sorted(values(last, x)):
        each = []
        for seed in values(last, "seed"):
            ours, theirs = (select(last, **{x: value}, seed=seed, learner=name) for name in ("UCRL2-MC", baseline))
            each.append(ours[0]["regret"] / theirs[0]["regret"])
        samples = np.array([each])
        result.append({x: value, "ratio": float(samples.mean()), "half_width": float(half_width(samples)[0]), "each": each})
    return result
