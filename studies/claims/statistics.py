"""Statistics of claims: exponents of curves, slopes, effects that are paired by seed, and what their intervals decide."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from studies.arrays import Floats
from studies.claims.finding import FAILS, HOLDS, LATER, OPEN, OURS, Finding, joined
from studies.claims.rules import LEVEL, SEEDS, TREND, Rule
from studies.figure import Row
from studies.statistics import half_width
from studies.tables import select, values

CLOSE_TO_1 = (0.95, 1.05)
LEAST = 1e-12  # regrets are raised to that before a logarithm is taken: in a short run they may be 0
ROUNDING = 1e-9  # relative to the largest number


@dataclass(frozen=True)
class Effect:
    """What was measured: a mean over seeds, or what else n says, with the ends of its 95% interval. One seed has no interval."""

    value: float
    low: float
    high: float
    n: int

    @property
    def interval(self) -> str:
        """The interval as text."""
        return f"{digits(self.low)} to {digits(self.high)}" if self.n >= SEEDS.limit else "1 seed"


def digits(value: float) -> str:
    """Return a number as text with three digits, or all that stand before the point; four near 1, the limit of many claims."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.4g}" if CLOSE_TO_1[0] < abs(value) < CLOSE_TO_1[1] else f"{value:#.3g}".rstrip(".")


def effect(sample: Sequence[float] | Floats) -> Effect:
    """Return the mean of a sample, one number for each seed, with its interval."""
    mean, half = mean_and_half(sample)
    return Effect(mean, mean - half, mean + half, len(sample))


def quotient(ours: Floats, theirs: Floats) -> Effect:
    """Return the geometric mean of quotients, seed by seed, with its interval: both of the logarithms. ours, theirs: (seeds,).

    Raises ValueError for numbers below 0, by more than rounding: they have no logarithm.
    """
    for sample in (ours, theirs):
        if np.min(sample) < -ROUNDING * max(1.0, float(np.max(np.abs(sample)))):
            raise ValueError(f"{float(np.min(sample))!r} has no logarithm, must be at least 0")
    found = effect(np.log(np.maximum(ours, LEAST) / np.maximum(theirs, LEAST)))
    return Effect(float(np.exp(found.value)), float(np.exp(found.low)), float(np.exp(found.high)), found.n)


def paired(rows: Sequence[Row], others: Sequence[Row], column: str = "regret") -> tuple[Floats, Floats]:
    """Return a column of two sets of rows, seed by seed: two arrays (seeds,).

    Raises ValueError if a seed occurs twice in one of them, or if only one of them has it.
    """
    known = [{row["seed"]: float(row[column]) for row in some} for some in (rows, others)]
    if not rows or known[0].keys() != known[1].keys() or [len(one) for one in known] != [len(rows), len(others)]:
        raise ValueError(f"{len(rows)} and {len(others)} rows cannot be paired by seed")
    first, second = (np.array([one[seed] for seed in known[0]]) for one in known)
    return first, second


def quotients(each: Sequence[float]) -> Effect:
    """Return the geometric mean of quotients, one of each seed, with its interval."""
    return quotient(np.array(each), np.ones(len(each)))


def compared(pair: Sequence[Sequence[Row]], column: str = "regret") -> Effect:
    """Return the geometric mean of quotients of a column, seed by seed. pair: the rows above, and the rows below the line."""
    ours, theirs = pair
    return quotient(*paired(ours, theirs, column))


def below(found: Effect, limit: float) -> str:
    """Say whether an effect is below a limit, with its whole interval; undecided if the limit is within, or with one seed.

    What is exactly at the limit with every seed is not below it.
    """
    if found.n < SEEDS.limit:
        return OPEN
    return HOLDS if found.high < limit else FAILS if found.low > limit or found.low == found.high else OPEN


def above(found: Effect, limit: float) -> str:
    """Say whether an effect is above a limit, with its whole interval; undecided if the limit is within, or with one seed."""
    return below(Effect(-found.value, -found.high, -found.low, found.n), -limit)


def judged(
    claim: str,
    figure: str,
    statistic: str,
    effects: Mapping[str, Effect],
    rule: Rule,
    decide: Callable[[Effect, float], str] = below,
) -> Finding:
    """Decide a claim of ours by one rule. effects: by what each case is called, "" if there is only one; decide: below or above."""
    measured = "; ".join(f"{name}: {digits(found.value)}".removeprefix(": ") for name, found in effects.items())
    verdict = joined({name: decide(found, rule.limit) for name, found in effects.items()})
    return Finding(claim, figure, statistic, measured, intervals(list(effects.values())), verdict, rule.name, OURS)


def later(found: Finding) -> Finding:
    """Mark a finding whose statistic was chosen after the result of another one was seen."""
    return replace(found, rule=f"{found.rule} ({LATER})")


def intervals(effects: Sequence[Effect]) -> str:
    """Return the intervals of effects as text, in their order, with the numbers of seeds."""
    sizes = list(dict.fromkeys(found.n for found in effects))
    if len(sizes) > 1:
        return (
            "; ".join(f"{found.interval} ({found.n} seeds)" if found.n >= SEEDS.limit else "1 seed" for found in effects) + "; 95%"
        )
    return f"{'; '.join(found.interval for found in effects)} (95%, {sizes[0]} seeds)" if sizes[0] >= SEEDS.limit else "1 seed"


def exponent(rows: Sequence[Row]) -> float:
    """Fit the growth of one regret curve: the slope of log regret over log episode in its second half. 1 is linear."""
    k, regret = np.array([row["episode"] for row in rows], float), np.array([row["regret"] for row in rows], float)
    half = k > k[-1] / 2
    return float(np.polyfit(np.log(k[half]), np.log(np.maximum(regret[half], LEAST)), 1)[0])


def exponents(rows: Sequence[Row]) -> Floats:
    """Return the fitted exponent of each seed, (seeds,)."""
    return np.array([exponent(select(rows, seed=seed)) for seed in values(rows, "seed")])


def mean_and_half(sample: Sequence[float] | Floats) -> tuple[float, float]:
    """Return the mean of a sample and half the width of its 95% interval."""
    table = np.array([sample], dtype=float)
    return float(table.mean()), float(half_width(table)[0])


def interval(half: float, n: int) -> str:
    """Return half the width of a 95% interval as text. n: number of seeds; one seed has no interval."""
    return f"± {half:.2g} (95%, {n} seeds)" if n >= SEEDS.limit else "1 seed"


def slopes(rows: Sequence[Row], x: Callable[[Row], float]) -> list[float]:
    """Fit how what is in the column "each", a list with one number for each seed, changes with x: one slope for each seed."""
    xs = np.array([x(row) for row in rows])
    return [float(np.polyfit(xs, np.array(each), 1)[0]) for each in zip(*[row["each"] for row in rows], strict=True)]


def slope(rows: Sequence[Row], x: Callable[[Row], float]) -> tuple[float, float, int]:
    """Fit how the regret ratio changes with x. rows: as `ratios` returns them; x: gives the position of a row.

    Fits one slope for each seed, because the points of one seed are not independent. Returns the mean of the slopes, half the width
    of its 95% interval, and the number of seeds.
    """
    found = slopes(rows, x)
    return (*mean_and_half(found), len(found))


def sign_verdict(value: float, half: float, n: int, *, negative: bool) -> str:
    """Say whether a slope is surely above zero, or surely below zero with negative=True.

    value, half: the slope and half its 95% interval; n: number of seeds. One seed cannot decide.
    """
    found = Effect(value, value - half, value + half, n)
    return below(found, TREND.limit) if negative else above(found, TREND.limit)


def often(times: int, n: int) -> tuple[float, float]:
    """Return one-sided 95% bounds, lower and upper, of a probability (Clopper and Pearson). times: how often it was so, of n."""
    lower = float(stats.beta.ppf(1 - LEVEL.limit, times, n - times + 1)) if times else 0.0
    upper = float(stats.beta.ppf(LEVEL.limit, times + 1, n - times)) if times < n else 1.0
    return lower, upper


def worlds_and_seeds(rows: Sequence[Row]) -> int:
    """Count pairs of world and seed. Runs of one pair see much the same, so they are no independent chances."""
    return len({(row["world"], row["seed"]) for row in rows})


def rarely(times: int, n: int, limit: float) -> str:
    """Say whether the probability of what was so in `times` of n runs is below a limit, by its bounds."""
    lower, upper = often(times, n)
    return HOLDS if upper < limit else FAILS if lower > limit else OPEN


def quotient_of_spreads(one: Floats, other: Floats) -> Effect:
    """Return the standard deviation of a sample over that of another one, with its 95% interval (F). n: of the smaller sample.

    With fewer than two in a sample there is no spread: the value is nan, and nothing is decided.
    """
    sizes = (len(one), len(other))
    if min(sizes) < SEEDS.limit:
        return Effect(float("nan"), float("nan"), float("nan"), 1)
    square = float(np.var(one, ddof=1) / max(float(np.var(other, ddof=1)), LEAST**2))
    tail = (1 - LEVEL.limit) / 2
    low, high = (square / stats.f.ppf(q, sizes[0] - 1, sizes[1] - 1) for q in (1 - tail, tail))
    return Effect(float(np.sqrt(square)), float(np.sqrt(low)), float(np.sqrt(high)), min(sizes))
