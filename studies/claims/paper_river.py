"""The paper's claims about RiverSwim: the guarantee, teams that share a river, more actions, more agents."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from studies.claims.finding import BASELINES, FAILS, OURS, PAPER, TRIVIAL, Finding, all_of, both, joined, of_bound, short
from studies.claims.rules import (
    COVERAGE,
    IN_SCALE,
    LESS,
    LINEAR,
    MUCH_LOWER,
    SUBLINEAR,
    TREND,
    TURN_OF_ACTIONS,
    TURN_OF_AGENTS,
    WELL_BELOW,
    WITHIN_BOUND,
    Rule,
)
from studies.claims.statistics import (
    below,
    compared,
    digits,
    effect,
    exponents,
    interval,
    intervals,
    judged,
    often,
    quotients,
    rarely,
    sign_verdict,
    slope,
)
from studies.figure import Row
from studies.figures import sharing as nested
from studies.figures.guarantee import HORIZON
from studies.runs import river, sharing
from studies.statistics import ratios
from studies.tables import final_rows, select, values

TURNS = {"actions": TURN_OF_ACTIONS, "agents": TURN_OF_AGENTS}
RADII = {sharing.PRINTED: "printed radii", sharing.SCHEDULE: "authors' schedule"}

# ------------------------------------------------------------------------------------------------------------- the guarantee


def guarantee(rows: list[Row]) -> list[Finding]:
    """Judge the claims about RiverSwim with the printed radii: growth of regret, the bound of Theorem 2, confidence sets."""
    curves, looked = select(rows, kind="curve"), select(rows, kind="coverage")[0]
    result = []
    for name in river.LEARNERS:
        found = effect(exponents(select(curves, learner=name)))
        claim, text = f"{name} has sublinear regret in RiverSwim with the printed radii", "fitted exponent, second half"
        spread, verdict = interval(found.high - found.value, found.n), below(found, SUBLINEAR.limit)
        result.append(Finding(claim, "guarantee", text, f"{found.value:.2f}", spread, verdict, SUBLINEAR.name))
    return [*result, river_linear(curves), within_bound(curves), covered(looked)]


def river_linear(curves: list[Row]) -> Finding:
    """Judge whether each agent alone has linear regret."""
    alone = [float(exponents(select(curves, learner=name)).mean()) for name in ("p=0.3", "p=0.7")]
    verdict = TRIVIAL if all(abs(value - 1) < LINEAR.limit for value in alone) else FAILS
    claim = "Each agent alone has linear regret in RiverSwim"
    text = "fitted exponent of each agent's regret: a policy that does not learn loses the same in every episode"
    return Finding(claim, "guarantee", text, ", ".join(f"{value:.4f}" for value in alone), "exact", verdict, LINEAR.name, OURS)


def within_bound(curves: list[Row]) -> Finding:
    """Judge whether the regret of every run was below the bound of Theorem 2 whenever we looked. Above all that could be lost, it
    cannot be broken.
    """
    mine = select(curves, learner="UCRL2-MC")
    worst, trivial = (max(row["regret"] / row["bound"] for row in mine), min(row["bound"] / most_lost(row) for row in mine))
    text = "largest regret / bound; in brackets the least bound / number of steps, each of which costs at most 1"
    claim, n = "The bound of Theorem 2 is never violated", len(values(mine, "seed"))
    spread = f"largest of 200 checks in each of {n} runs"
    measured, verdict = f"{digits(worst)} ({digits(trivial)})", of_bound(worst, trivial)
    return Finding(claim, "guarantee", text, measured, spread, verdict, WITHIN_BOUND.name)


def most_lost(row: Row) -> float:
    """Return what could be lost at all until the episode of a row: a step costs at most 1."""
    return float(row["episode"] * HORIZON)


def covered(looked: Row) -> Finding:
    """Judge whether the confidence sets hold with probability 1 - delta. looked: the row of `river.coverage`.

    The verdict uses one-sided 95% bounds (Clopper and Pearson) on the probability that a run ever leaves the sets.
    """
    left, n = looked["left"], looked["runs"]
    during = f"all of the first {looked['run_episodes']} episodes"
    claim = f"The truth lies in the confidence sets in {during} with probability {1 - COVERAGE.limit:g}"
    text = "runs in which the truth was ever outside"
    spread, verdict = f"probability below {often(left, n)[1]:.3f} (95%, one-sided)", rarely(left, n, COVERAGE.limit)
    return Finding(claim, "guarantee", text, f"{left} of {n}", spread, verdict, COVERAGE.name)


# ------------------------------------------------------------------------------------------------------------- many teams


def team_count(rows: list[Row]) -> list[Finding]:
    """Judge whether UCRL2-MC is ahead of UCRL2 with every number of teams, and whether the regret ratio falls with it."""
    teams = sorted(values(rows, "teams"))
    every = {b: [quotients(row["each"]) for row in ratios(rows, "teams", b)] for b in BASELINES}
    most = {b: max(found, key=lambda one: one.value) for b, found in every.items()}
    claim = f"UCRL2-MC has the advantage over UCRL2 with every number of teams, from {teams[0]} to {teams[-1]}"
    measured = "; ".join(f"{short(b)} at most {one.value:.2f}" for b, one in most.items())
    text = "largest ratio of total regrets, a geometric mean over seeds, over numbers of teams; all of them decide"
    verdict = both({b: all_of([below(one, LESS.limit) for one in found]) for b, found in every.items()})
    ahead = Finding(claim, "team-count", text, measured, intervals(list(most.values())), verdict, LESS.name)
    claim = f"The ratio falls with the number of teams, from {teams[0]} to {teams[-1]}"
    falls = trend(
        rows, "teams", claim, "team-count", lambda row: float(row["teams"]), "team", negative=True, baselines=nested.BASELINES
    )
    return [ahead, falls, *in_a_larger_fleet(rows)]


def in_a_larger_fleet(rows: list[Row]) -> list[Finding]:
    """Judge whether the teams of the smallest fleet lose less as part of the largest one. Only who shares with them differs."""
    few, *_, many = sorted(values(rows, "teams"))
    ours = select(rows, learner=sharing.OURS)
    found = {"": compared([select(ours, teams=n) for n in (many, few)], "first")}
    claim = f"The same {few} teams lose less in a fleet of {many} than in one of {few}"
    return [judged(claim, "team-count", f"regret of these {few} teams in a fleet of {many} / of {few}", found, LESS)]


def sharing_helps(rows: list[Row]) -> list[Finding]:
    """Judge whether the largest fleet greatly benefits from sharing, for each kind of radii, after each number of episodes: against
    the very same teams without it.
    """
    teams, result = max(values(rows, "teams")), []
    for radii, words in RADII.items():
        cells = nested.cells(rows, radii, sharing.ALONE)
        found = {f"{k:,} episodes": quotients(each) for (n, k), each in sorted(cells.items()) if n == teams}
        claim = f"{teams} teams greatly benefit from sharing (they lose less than half), {words}"
        one = judged(claim, "sharing", "total regret of UCRL2-MC, shared / not shared", found, MUCH_LOWER)
        result.append(replace(one, whose=PAPER))
    return result


def hundred_teams(rows: list[Row]) -> list[Finding]:
    """Judge whether UCRL2-MC has much less regret than UCRL2 with a hundred teams in RiverSwim."""
    last = final_rows(rows)
    found = {b: quotients(ratios(last, "teams", b)[0]["each"]) for b in BASELINES}
    verdict = both({b: below(one, WELL_BELOW.limit) for b, one in found.items()})
    measured = "; ".join(f"{short(b)} {one.value:.2f}" for b, one in found.items())
    claim = f"With {rows[0]['teams']} RiverSwim teams UCRL2-MC is well below UCRL2 (ratio < {WELL_BELOW.limit:g})"
    text, spread = "final total regret of UCRL2-MC / UCRL2", intervals(list(found.values()))
    return [Finding(claim, "hundred-teams", text, measured, spread, verdict, WELL_BELOW.name)]


# ------------------------------------------------------------------------------------------------------------- actions, agents


def trend(
    rows: list[Row],
    x: str,
    claim: str,
    figure: str,
    position: Callable[[Row], float],
    unit: str,
    *,
    negative: bool,
    rule: str = TREND.name,
    baselines: Sequence[str] = BASELINES,
) -> Finding:
    """Judge whether the regret ratio rises or falls along a column of a table.

    x: the column; position: where a row stands on the axis over which the slope is fitted; unit: of that axis, for the text;
    negative: the claim is that the ratio falls; rule: the names of the rules that decide; baselines: what UCRL2-MC is set against.
    """
    verdicts, texts, halves = {}, [], []
    for baseline in baselines:
        found = ratios(rows, x, baseline)
        value, half, n = slope(found, position)
        verdicts[baseline] = sign_verdict(value, half, n, negative=negative)
        ends = f"{found[0]['ratio']:.2f} at {found[0][x]} to {found[-1]['ratio']:.2f} at {found[-1][x]}"
        texts.append(f"{short(baseline)} {value:+.3f} ({ends})")
        halves.append(interval(half, n))
    statistic = f"slope of the regret ratio per {unit}, one slope for each seed; in brackets arithmetic means at the ends"
    spread = "; ".join(halves)
    return Finding(claim, figure, statistic, "; ".join(texts), spread, both(verdicts), rule)


def trends(
    rows: list[Row], x: str, claim: str, figure: str, position: Callable[[Row], float], unit: str, *, negative: bool
) -> list[Finding]:
    """Judge a trend on both sides of TURNS[x], because one line through all points hides that the curve turns there.

    Returns the line through all points, with what holds on which side as its verdict, and then the lines on both sides.
    """
    turn: Rule = TURNS[x]
    low, middle, high = min(values(rows, x)), int(turn.limit), max(values(rows, x))
    sides = [(low, middle, [row for row in rows if row[x] <= middle]), (middle, high, [row for row in rows if row[x] >= middle])]
    rule = f"{TREND.name}; {turn.name}"
    found = [
        trend(some, x, f"{claim}, from {start} to {end} {x}", figure, position, unit, negative=negative, rule=rule)
        for start, end, some in sides
    ]
    whole = trend(rows, x, claim, figure, position, unit, negative=negative, rule=rule)
    words = {f"{start} to {end}": one.verdict for (start, end, _), one in zip(sides, found, strict=True)}
    told = f"{whole.statistic}; the sides below decide"
    return [replace(whole, verdict=joined(words), statistic=told), *found]


def action_size(rows: list[Row]) -> list[Finding]:
    """Judge whether the regret ratio grows with the number of actions, and whether it varies by less than a factor IN_SCALE."""
    claim = "The ratio grows with the action space"
    grows = trends(rows, "actions", claim, "action-size", lambda row: float(np.log2(row["actions"])), "doubling", negative=False)
    spreads = {}
    for b in BASELINES:
        each = np.array([row["each"] for row in ratios(rows, "actions", b)])  # (actions, seeds)
        spreads[b] = quotients(each.max(axis=0) / each.min(axis=0))
    verdict = both({b: below(one, IN_SCALE.limit) for b, one in spreads.items()})
    measured = "; ".join(f"{short(b)} {one.value:.1f}" for b, one in spreads.items())
    claim = f"The ratio stays in scale as actions are added (varies by less than {IN_SCALE.limit:g})"
    text, spread = "largest / smallest ratio of a seed", intervals(list(spreads.values()))
    return [*grows, Finding(claim, "action-size", text, measured, spread, verdict, IN_SCALE.name)]


def team_size(rows: list[Row]) -> list[Finding]:
    """Judge whether UCRL2-MC gains on UCRL2 as the team grows, and is better with the largest team."""
    claim = "UCRL2-MC gains as the team grows"
    gains = trends(rows, "agents", claim, "team-size", lambda row: float(row["agents"]), "agent", negative=True)
    largest = {b: ratios(rows, "agents", b)[-1] for b in BASELINES}
    found = {b: quotients(row["each"]) for b, row in largest.items()}
    measured = "; ".join(f"{short(b)} {one.value:.2f}" for b, one in found.items())
    claim, text = "UCRL2-MC outperforms UCRL2 with many agents", f"regret ratio with {largest[BASELINES[0]]['agents']} agents"
    verdict, spread = both({b: below(one, LESS.limit) for b, one in found.items()}), intervals(list(found.values()))
    return [*gains, Finding(claim, "team-size", text, measured, spread, verdict, LESS.name)]
