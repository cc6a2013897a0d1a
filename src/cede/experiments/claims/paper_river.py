"""The paper's claims about RiverSwim: the guarantee, teams that share a river, more actions, more agents."""

from collections.abc import Callable, Sequence

import numpy as np

from cede.experiments.claims.finding import BASELINES, FAILS, HOLDS, Finding, both, short
from cede.experiments.claims.rules import (
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
from cede.experiments.claims.statistics import (
    Effect,
    below,
    effect,
    exponents,
    interval,
    intervals,
    mean_and_half,
    often,
    paired,
    quotient,
    rarely,
    sign_verdict,
    slope,
    slopes,
)
from cede.experiments.figure import Row
from cede.experiments.figures import sharing as nested
from cede.experiments.runs import river, sharing
from cede.experiments.statistics import ratios
from cede.experiments.tables import final_rows, select, values

TURNS = {"actions": TURN_OF_ACTIONS, "agents": TURN_OF_AGENTS}
RADII = {sharing.PRINTED: "printed radii", sharing.OF_TEAM: "printed radii, t of one team", sharing.SCHEDULE: "authors' schedule"}

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
    verdict = HOLDS if all(abs(value - 1) < LINEAR.limit for value in alone) else FAILS
    claim, text = "Each agent alone has linear regret in RiverSwim", "fitted exponent of each agent's regret"
    return Finding(claim, "guarantee", text, ", ".join(f"{value:.4f}" for value in alone), "exact", verdict, LINEAR.name)


def within_bound(curves: list[Row]) -> Finding:
    """Judge whether the regret of every run was below the bound of Theorem 2 whenever we looked."""
    mine = select(curves, learner="UCRL2-MC")
    worst = [max(row["regret"] / row["bound"] for row in select(mine, seed=seed)) for seed in values(mine, "seed")]
    mean, half = mean_and_half(worst)
    text = "largest regret / bound of a run, at 200 episodes of each"
    verdict = HOLDS if max(worst) < WITHIN_BOUND.limit else FAILS
    claim, spread = "The bound of Theorem 2 is never violated", interval(half, len(worst))
    return Finding(claim, "guarantee", text, f"{mean:.2g}", spread, verdict, WITHIN_BOUND.name)


def covered(looked: Row) -> Finding:
    """Judge whether the confidence sets hold with probability 1 - delta. looked: the row of `river.coverage`.

    The verdict uses one-sided 95% bounds (Clopper and Pearson) on the probability that a run ever leaves the sets.
    """
    left, n = looked["left"], looked["runs"]
    claim = f"The truth lies in the confidence sets in all episodes with probability {1 - COVERAGE.limit:g}"
    text = f"runs of {looked['run_episodes']} episodes in which the truth was ever outside"
    spread, verdict = f"probability below {often(left, n)[1]:.3f} (95%)", rarely(left, n, COVERAGE.limit)
    return Finding(claim, "guarantee", text, f"{left} of {n}", spread, verdict, COVERAGE.name)


# ------------------------------------------------------------------------------------------------------------- many teams


def team_count(rows: list[Row]) -> list[Finding]:
    """Judge whether the regret ratio falls with the number of teams, in the paper's own design."""
    claim = "The ratio falls with the number of teams (the paper's design: from 3 to 10, other teams in each fleet)"
    return [trend(rows, "teams", claim, "team-count", lambda row: float(row["teams"]), "team", negative=True)]


def falls_when_nested(rows: list[Row]) -> list[Finding]:
    """Judge whether the regret ratio falls with the number of teams, for each kind of radii.

    In the nested design fleets differ in nothing but their size. The longest runs decide: the slope of the logarithm of the ratio
    for each factor 10 in teams, one slope for each seed.
    """
    result, teams = [], sorted(values(rows, "teams"))
    for radii, words in RADII.items():
        verdicts, texts, found = {}, [], []
        for baseline in BASELINES:
            by_length = nested_slopes(rows, radii, baseline)
            last = by_length[-1]
            verdicts[baseline] = below(last, TREND.limit)
            sure = sum(below(one, TREND.limit) == HOLDS for one in by_length)
            factor = f"times {np.exp(last.value):.2f} for ten times as many"
            texts.append(f"{short(baseline)} {last.value:+.3f} ({factor}; surely falls at {sure} of {len(by_length)} lengths)")
            found.append(last)
        claim = f"The ratio falls with the number of teams, from {teams[0]} to {teams[-1]}, nested fleets, {words}"
        longest = max(values(rows, "episodes"))
        statistic = f"slope of the log of the regret ratio per factor 10 in teams, one for each seed, after {longest:,} episodes"
        result.append(Finding(claim, "sharing", statistic, "; ".join(texts), intervals(found), both(verdicts), TREND.name))
    return result


def nested_slopes(rows: Sequence[Row], radii: str, baseline: str) -> list[Effect]:
    """Return the slope of log(regret ratio) over log10(teams) after each number of episodes, ascending: means over seeds."""
    found = nested_ratios(rows, radii, baseline)
    result = []
    for k in sorted({episodes for _, episodes in found}):
        points = [{"teams": n, "each": np.log(each).tolist()} for (n, episodes), each in sorted(found.items()) if episodes == k]
        result.append(effect(slopes(points, lambda row: float(np.log10(row["teams"])))))
    return result


def nested_ratios(rows: Sequence[Row], radii: str, baseline: str) -> dict[tuple[int, int], list[float]]:
    """Return the regret ratios by number of teams and of episodes, those of one cell in the order of the seeds."""
    return nested.cells(sorted(rows, key=lambda row: int(row["seed"])), radii, baseline)


def hundred_teams(rows: list[Row]) -> list[Finding]:
    """Judge whether UCRL2-MC has much less regret than UCRL2 with a hundred teams in RiverSwim."""
    last = final_rows(rows)
    found = {b: effect(ratios(last, "teams", b)[0]["each"]) for b in BASELINES}
    verdict = both({b: below(one, WELL_BELOW.limit) for b, one in found.items()})
    measured = "; ".join(f"{short(b)} {one.value:.2f}" for b, one in found.items())
    claim = f"With {rows[0]['teams']} RiverSwim teams UCRL2-MC is well below UCRL2 (ratio < {WELL_BELOW.limit:g})"
    text, spread = "final total regret of UCRL2-MC / UCRL2", intervals(list(found.values()))
    return [Finding(claim, "hundred-teams", text, measured, spread, verdict, WELL_BELOW.name)]


def much_lower_with_hundred(hundred: list[Row], count: list[Row]) -> list[Finding]:
    """Judge whether a hundred teams have less than half the regret ratio of ten, in the paper's own design.

    Both are compared after the episodes of the run with a hundred teams, which is half as long as the others, seed by seed.
    """
    last, found, texts = final_rows(hundred), {}, []
    middle = [{**row, "episodes": row["episode"]} for row in count if row["episode"] != row["episodes"]]
    few = max(values(middle, "teams"))
    for b in BASELINES:
        many, some = by_seed(last, b), by_seed(select(middle, teams=few), b)
        found[b] = quotient(*paired(many, some, "ratio"))
        texts.append(f"{short(b)} {found[b].value:.2f} (ratio {np.mean([row['ratio'] for row in many]):.2f})")
    n = hundred[0]["teams"]
    claim = f"The ratio is much lower with {n} teams than with {few} (the paper's design: other teams in each fleet)"
    statistic = f"ratio with {n} over ratio with {few}, after {hundred[0]['episodes']:,} and {middle[0]['episode']:,} episodes"
    verdict = both({b: below(one, MUCH_LOWER.limit) for b, one in found.items()})
    spread = intervals(list(found.values()))
    return [Finding(claim, "hundred-teams", statistic, "; ".join(texts), spread, verdict, MUCH_LOWER.name)]


def by_seed(rows: Sequence[Row], baseline: str) -> list[Row]:
    """Return the ratio of the regrets of UCRL2-MC and a baseline for each seed: rows with the columns seed and ratio."""
    ours, theirs = (select(rows, learner=name) for name in ("UCRL2-MC", baseline))
    known = {row["seed"]: row["regret"] for row in theirs}
    return [{"seed": row["seed"], "ratio": row["regret"] / known[row["seed"]]} for row in ours]


def much_lower_when_nested(rows: list[Row]) -> list[Finding]:
    """Judge whether the largest fleet has less than half the regret ratio of one a tenth of its size, seed by seed, after the
    longest runs, for each kind of radii.
    """
    result, many, longest = [], max(values(rows, "teams")), max(values(rows, "episodes"))
    few = many // 10
    for radii, words in RADII.items():
        found, texts = {}, []
        for baseline in BASELINES:
            cells = nested_ratios(rows, radii, baseline)
            high, low = np.array(cells[many, longest]), np.array(cells[few, longest])
            found[baseline] = quotient(high, low)
            texts.append(f"{short(baseline)} {found[baseline].value:.2f} ({high.mean():.2g} against {low.mean():.2g})")
        claim = f"The ratio is much lower with {many} teams than with {few} (less than half), nested fleets, {words}"
        statistic = f"ratio with {many} teams over ratio with {few}, seed by seed, after {longest:,} episodes"
        verdict = both({b: below(one, MUCH_LOWER.limit) for b, one in found.items()})
        spread = intervals(list(found.values()))
        result.append(Finding(claim, "sharing", statistic, "; ".join(texts), spread, verdict, MUCH_LOWER.name))
    return result


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
) -> Finding:
    """Judge whether the regret ratio rises or falls along a column of a table.

    x: the column; position: where a row stands on the axis over which the slope is fitted; unit: of that axis, for the text;
    negative: the claim is that the ratio falls; rule: the names of the rules that decide.
    """
    verdicts, texts, halves = {}, [], []
    for baseline in BASELINES:
        found = ratios(rows, x, baseline)
        value, half, n = slope(found, position)
        verdicts[baseline] = sign_verdict(value, half, n, negative=negative)
        ends = f"{found[0]['ratio']:.2f} at {found[0][x]} to {found[-1]['ratio']:.2f} at {found[-1][x]}"
        texts.append(f"{short(baseline)} {value:+.3f} ({ends})")
        halves.append(interval(half, n))
    statistic = f"slope of the regret ratio per {unit}, one slope for each seed"
    spread = "; ".join(dict.fromkeys(halves))
    return Finding(claim, figure, statistic, "; ".join(texts), spread, both(verdicts), rule)


def trends(
    rows: list[Row], x: str, claim: str, figure: str, position: Callable[[Row], float], unit: str, *, negative: bool
) -> list[Finding]:
    """Judge a trend on both sides of TURNS[x], because one line through all points would hide that the curve turns there."""
    turn: Rule = TURNS[x]
    low, middle, high = min(values(rows, x)), int(turn.limit), max(values(rows, x))
    sides = [(low, middle, [row for row in rows if row[x] <= middle]), (middle, high, [row for row in rows if row[x] >= middle])]
    rule = f"{TREND.name}; {turn.name}"
    return [
        trend(some, x, f"{claim}, from {start} to {end} {x}", figure, position, unit, negative=negative, rule=rule)
        for start, end, some in sides
    ]


def action_size(rows: list[Row]) -> list[Finding]:
    """Judge whether the regret ratio grows with the number of actions, and whether it varies by less than a factor IN_SCALE."""
    claim = "The ratio grows with the action space"
    grows = trends(rows, "actions", claim, "action-size", lambda row: float(np.log2(row["actions"])), "doubling", negative=False)
    spreads = {}
    for b in BASELINES:
        each = np.array([row["each"] for row in ratios(rows, "actions", b)])  # (actions, seeds)
        spreads[b] = effect(each.max(axis=0) / each.min(axis=0))
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
    found = {b: effect(row["each"]) for b, row in largest.items()}
    measured = "; ".join(f"{short(b)} {one.value:.2f}" for b, one in found.items())
    claim, text = "UCRL2-MC outperforms UCRL2 with many agents", f"regret ratio with {largest[BASELINES[0]]['agents']} agents"
    verdict, spread = both({b: below(one, LESS.limit) for b, one in found.items()}), intervals(list(found.values()))
    return [*gains, Finding(claim, "team-size", text, measured, spread, verdict, LESS.name)]
