"""Statistics of paired repeats: bootstrap intervals of means, the sign-flip permutation test, and Holm's correction.

Regret is skewed: most runs lose little, a few lose much. So nothing here assumes a normal distribution.
"""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from cede._base.arrays import Floats

LEVEL = 0.95
LEAST_REPEATS = 6  # below, no sign-flip test can reach 0.05, and a bootstrap has too little to draw from
RESAMPLES = 3_999  # of a bootstrap
MOST_EXACT = 20  # differences up to which all 2^n patterns of signs are gone through
FLIPS, BLOCKS = 99_990, 10  # random patterns of signs beyond that; drawn in so many blocks
ROUNDING = 1e-9  # relative to the summands: sums that are closer count as equal


def mean_interval(samples: Floats) -> tuple[Floats, Floats]:
    """Return the lower and upper ends of the 95% intervals of the means of columns: the bootstrap with corrections for bias and
    skewness (BCa, Efron 1987), widened to Student's interval where that is wider.

    BCa alone follows the skewness of the data, but is too short with few repeats; docs/compare.md has the coverage of both.

    samples: (n, columns), n at least 2. Returns two arrays, (columns,). Where all values are equal, both ends are that value. The
    resamples are drawn with a fixed seed: the same samples have the same interval.
    """
    n, mean = len(samples), samples.mean(axis=0)
    varies = np.ptp(samples, axis=0) > 0
    around = (samples - mean)[:, varies]
    low, high = samples[0].astype(float), samples[0].astype(float)
    student = stats.t.ppf((1 + LEVEL) / 2, n - 1) * np.sqrt((around**2).sum(axis=0) / (n - 1) / n)
    least, most = bca_ends(around)
    low[varies], high[varies] = mean[varies] + np.minimum(least, -student), mean[varies] + np.maximum(most, student)
    return low, high


def bca_ends(around: Floats) -> list[Floats]:
    """Return the two ends of the BCa intervals of the means of columns whose mean is 0. around: (n, columns), none constant."""
    n = len(around)
    shares = np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=RESAMPLES) / n  # (RESAMPLES, n)
    drawn = np.sort(shares @ around, axis=0)
    drawn[np.abs(drawn) < ROUNDING * np.abs(around).max(axis=0)] = 0.0  # as the mean, up to rounding: counted as half below
    below = ((drawn < 0).mean(axis=0) + (drawn <= 0).mean(axis=0)) / 2
    bias = stats.norm.ppf(below)
    skew = (around**3).sum(axis=0) / (6 * (around**2).sum(axis=0) ** 1.5)  # of a mean the jackknife is known
    ends = []
    for z in stats.norm.ppf([(1 - LEVEL) / 2, (1 + LEVEL) / 2]):
        places = stats.norm.cdf(bias + (bias + z) / (1 - skew * (bias + z))) * (RESAMPLES - 1)
        whole = np.minimum(places.astype(int), RESAMPLES - 2)
        columns = np.arange(around.shape[1])
        ends.append(drawn[whole, columns] + (places - whole) * (drawn[whole + 1, columns] - drawn[whole, columns]))
    return ends


def sign_flip_test(differences: Floats) -> float:
    """Return the two-sided p-value of the sign-flip permutation test of paired differences, (n,).

    If two learners are exchangeable, each difference is equally likely with either sign. The p-value is the fraction of all 2^n
    patterns of signs for which the sum of the differences is at least as far from 0 as the observed sum. It is exact for
    n <= MOST_EXACT; beyond, FLIPS patterns are drawn with a fixed seed, and the observed pattern is added.
    """
    size = abs(differences.sum()) - ROUNDING * np.abs(differences).sum()
    if len(differences) <= MOST_EXACT:
        sums = np.zeros(1)
        for difference in differences:
            sums = np.concatenate([sums + difference, sums - difference])
        return float((np.abs(sums) >= size).mean())
    rng, more = np.random.default_rng(0), 0
    for _ in range(BLOCKS):
        signs = 1 - 2 * rng.integers(0, 2, size=(FLIPS // BLOCKS, len(differences)), dtype=np.int8)
        more += int((np.abs(signs @ differences) >= size).sum())
    return (1 + more) / (1 + FLIPS)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979): the i-th smallest of m is multiplied by m + 1 - i; then all are made
    non-decreasing, and at most 1.
    """
    raw = np.array(p_values, dtype=float)
    order = np.argsort(raw, kind="stable")
    factors = len(raw) - np.arange(len(raw))
    corrected = np.empty(len(raw))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(raw[order] * factors))
    return corrected.tolist()


def repeats_needed(comparisons: int) -> int:
    """Return the least number of repeats for which a corrected p-value can be below 1 - LEVEL, with a number of comparisons.

    With n repeats the smallest p-value is 2 / 2^n, and Holm's correction multiplies it by the number of comparisons.
    """
    n = 1
    while comparisons * 2.0 ** (1 - n) >= 1 - LEVEL:
        n += 1
    return n
