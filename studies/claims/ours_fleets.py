"""What we claim of fleets: what a newcomer gains, what it costs to share less often, and what sharing can save at all."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import numpy as np

from studies.claims.finding import HOLDS, OURS, PAPER, Finding, both, short
from studies.claims.rules import HALF, LESS, MORE, NEXT_TO_NOTHING, SHAPE, TREND, TURN_OF_TEAMS
from studies.claims.statistics import (
    Effect,
    above,
    below,
    compared,
    effect,
    intervals,
    judged,
    quotients,
    slopes,
)
from studies.figure import Row
from studies.figures import lane_why as why
from studies.figures import sharing as map_of_ratios
from studies.figures import sharing_why as two_terms_of
from studies.figures.newcomer import NEWCOMERS
from studies.runs import sharing
from studies.tables import final_rows, select, values

WITH, ALONE = "with the fleet's knowledge", "alone"
WELCOMED = "welcomed by the fleet"
RADII = {sharing.PRINTED: "printed radii", sharing.SCHEDULE: "authors' schedule"}


def newcomer(rows: list[Row]) -> list[Finding]:
    """Judge what docs/fleets.md says of newcomers: what a fleet knows of the environment helps them, but not everybody."""
    last, found = final_rows(rows), {}
    for world in values(rows, "world"):
        found[world] = compared([select(last, world=world, newcomer=name) for name in (WITH, ALONE)])
    little = "RiverSwim, agents {} and {}".format(*NEWCOMERS[1])
    much = {world: one for world, one in found.items() if world != little}
    statistic = f"regret after {last[0]['episodes']:,} episodes, with these counts / without"
    alike = "A new team whose agents differ little loses more with the fleet's counts of the environment"
    reuse = judged("A new team loses less with the fleet's counts of the environment", "newcomer", statistic, much, LESS)
    return [
        replace(reuse, whose=PAPER),
        judged(alike, "newcomer", statistic, {little: found[little]}, MORE, above),
    ]


def joins(rows: list[Row]) -> list[Finding]:
    """Judge whether a driver who joins a fleet is spared to learn the road: costs above the best possible, summed over episodes."""
    best = {row["seed"]: row["cost"] for row in select(rows, newcomer="best possible")}
    above_best = {
        who: [
            {"seed": seed, "cost": sum(row["cost"] - best[seed] for row in select(rows, newcomer=who, seed=seed))} for seed in best
        ]
        for who in (WELCOMED, ALONE)
    }
    found = {"": compared([above_best[WELCOMED], above_best[ALONE]], "cost")}
    claim = "A driver who joins a fleet loses less than a driver who starts alone, because the road is known"
    statistic = f"cost above the best possible in the first {rows[0]['episodes']} episodes, welcomed / alone"
    return [judged(claim, "joins", statistic, found, LESS)]


def freshness(rows: list[Row]) -> list[Finding]:
    """Judge what docs/fleets.md says of sharing only every so many episodes."""
    last = final_rows(rows)
    statistic = f"total regret after {last[0]['episodes']:,} episodes, against sharing after every one"
    claims = (
        (10, "Sharing every 10 episodes costs next to nothing (at most 5%)", NEXT_TO_NOTHING, below),
        (100, "Sharing every 100 episodes costs regret", MORE, above),
    )
    result = []
    for every, claim, rule, decide in claims:
        if every in values(last, "sync_every"):
            found = {
                world: compared([select(last, world=world, sync_every=n) for n in (every, 1)]) for world in values(last, "world")
            }
            result.append(judged(claim, "freshness", statistic, found, rule, decide))
    return result


def falls_when_nested(rows: list[Row]) -> list[Finding]:
    """Judge whether the regret ratio falls with the number of teams, for each kind of radii, up to TURN_OF_TEAMS and from there on.

    In the nested design the teams of a small fleet are among those of a large one. Against the same teams without sharing nothing
    else differs; against UCRL2 the ratio also depends on the agents of the teams that are added, because UCRL2-MC is far ahead of
    UCRL2 for some of them and behind it for others. The longest runs decide: the slope of the logarithm of the ratio for each
    factor 10 in teams, one slope for each seed.
    """
    teams, longest = sorted(values(rows, "teams")), max(values(rows, "episodes"))
    turn = TURN_OF_TEAMS.limit
    sides = [some for some in ([n for n in teams if n <= turn], [n for n in teams if n >= turn]) if len(some) > 1]
    statistic = (
        f"slope of log(regret with sharing / regret of the same teams without it) per factor 10 in teams, one for each "
        f"seed, after {longest:,} episodes"
    )
    result = []
    for (radii, words), some in product(RADII.items(), sides):
        found = {baseline: nested_slopes(rows, radii, baseline, some) for baseline in map_of_ratios.BASELINES}
        last = {baseline: by_length[-1] for baseline, by_length in found.items()}
        texts = [slope_text(short(baseline), by_length) for baseline, by_length in found.items()]
        claim = f"The ratio falls with the number of teams, from {some[0]} to {some[-1]}, {words}"
        verdict, rule = both({name: below(one, TREND.limit) for name, one in last.items()}), f"{TREND.name}; {TURN_OF_TEAMS.name}"
        result.append(Finding(claim, "sharing", statistic, "; ".join(texts), intervals(list(last.values())), verdict, rule, OURS))
    return result


def slope_text(name: str, by_length: Sequence[Effect]) -> str:
    """Return the slope after the longest runs as text, what it means, and after how many lengths of runs the ratio surely falls."""
    last, sure = by_length[-1], sum(below(one, TREND.limit) == HOLDS for one in by_length)
    factor = f"times {np.exp(last.value):.2f} for ten times as many"
    return f"{name} {last.value:+.3f} ({factor}; falls, with its whole interval, at {sure} of {len(by_length)} lengths)"


def nested_slopes(rows: Sequence[Row], radii: str, baseline: str, teams: Sequence[int]) -> list[Effect]:
    """Return the slope of log(regret ratio) over log10(teams) after each number of episodes, ascending: means over seeds."""
    found, result = map_of_ratios.cells(rows, radii, baseline), []
    for k in sorted({episodes for _, episodes in found}):
        points = [{"teams": n, "each": np.log(found[n, k]).tolist()} for n in teams]
        result.append(effect(slopes(points, lambda row: float(np.log10(row["teams"])))))
    return result


def which_t(rows: list[Row]) -> list[Finding]:
    """Judge whether it matters for the radius of a shared environment if t is the number of steps of all teams or of one."""
    longest, found = max(values(rows, "episodes")), {}
    for n in [n for n in sorted(values(rows, "teams")) if n > 1]:
        here = select(rows, learner=sharing.OURS, teams=n, episodes=longest)
        found[f"{n} teams"] = compared([select(here, radii=radii) for radii in (sharing.PRINTED, sharing.OF_TEAM)])
    claim = (
        "Using the t of all teams in the shared radius, as Lemma 3 needs, instead of one team's costs next to nothing (at most 5%)"
    )
    statistic = f"regret of teams that share with t of all teams / of one, after {longest:,} episodes"
    return [judged(claim, "sharing", statistic, found, NEXT_TO_NOTHING)]


def larger_fleets(rows: list[Row]) -> list[Finding]:
    """Judge how much less the very same teams lose in a larger fleet, with the same random numbers: those of the smaller one."""
    sizes, result = sorted(values(select(rows, learner=sharing.OURS), "teams")), []
    for radii, words in RADII.items():
        ours, found = select(rows, learner=sharing.OURS, radii=radii), {}
        for n, m in pairwise(sizes):
            found[f"{n} to {m}"] = compared([summed([row for row in select(ours, teams=k) if row["team"] < n]) for k in (n, m)])
        claim = f"A team gains next to nothing more in a larger fleet (at most 5%), {words}"
        statistic = "regret of the same teams in the smaller fleet / in the larger one, after the last episode"
        result.append(judged(claim, "sharing-why", statistic, found, NEXT_TO_NOTHING))
    return result


def sharing_why(rows: list[Row]) -> list[Finding]:
    """Say what sharing can save, and what it does: a team that is told the river loses what its own agents cost it."""
    most, parts, left = max(values(rows, "teams")), {}, {}
    for radii, words in RADII.items():
        alone, known, ours = (
            summed(select(rows, learner=name, radii=radii, teams=most)) for name in (sharing.ALONE, sharing.KNOWN, sharing.OURS)
        )
        parts[words], left[words] = compared([known, alone]), compared([ours, known])
    claim = (
        "A team that does not share loses most of its regret on learning the river: less than half is left if it knows the river"
    )
    text = f"regret of {most} teams that know the river / that neither know it nor share"
    done = f"{most} teams that share lose hardly more than if they knew the river (at most 5%)"
    return [
        judged(claim, "sharing-why", text, parts, HALF),
        judged(done, "sharing-why", f"regret of {most} teams that share / that know the river", left, NEXT_TO_NOTHING),
        shape(rows),
    ]


def shape(rows: list[Row]) -> Finding:
    """Judge whether the two terms of the corollary describe how the regret of a team falls with the size of its fleet."""
    teams, texts, found = sorted(values(select(rows, learner=sharing.OURS), "teams")), [], {}
    for radii, words in RADII.items():
        each = [two_terms_of.per_team(rows, radii, seed, teams) for seed in values(rows, "seed")]
        found[words] = quotients([two_terms_of.misfit(teams, one) for one in each])
        mean = np.mean(each, axis=0)
        (a, b), miss = two_terms_of.two_terms(teams, mean), two_terms_of.misfit(teams, mean)
        texts.append(f"{words}: misses by {found[words].value:.0%}; the mean over seeds by {miss:.0%} (a = {a:.3g}, b = {b:.3g})")
    claim = "The two terms of the corollary, a + b / sqrt(N), describe the regret of a team in a fleet of N (within a tenth)"
    statistic = f"largest relative miss of the curve fitted to {len(teams)} sizes by relative least squares, seed by seed"
    return replace(judged(claim, "sharing-why", statistic, found, SHAPE), measured="; ".join(texts))


def sharing_pays_for(rows: list[Row]) -> list[Finding]:
    """Judge for which teams sharing pays in the largest fleet: by how much their agents are alike."""
    teams, result = max(values(rows, "teams")), []
    for radii, words in RADII.items():
        here = select(rows, radii=radii, teams=teams)
        found = {}
        for low, high in pairwise(two_terms_of.EDGES):
            some = [row for row in here if low <= two_terms_of.likeness(row) < high]
            if some:
                pair = [summed(select(some, learner=name)) for name in (sharing.OURS, sharing.ALONE)]
                found[f"p in {low:g} to {high:g}"] = compared(pair)
        claim = f"A team loses less if it shares with {teams - 1} others, by the p of its agents, {words}"
        statistic = "regret of UCRL2-MC in teams of such agents after the last episode, shared / not shared"
        result.append(judged(claim, "sharing-why", statistic, found, LESS))
    return result


def summed(rows: list[Row]) -> list[Row]:
    """Return one row for each seed, with the regret of all its rows."""
    return [{"seed": seed, "regret": sum(row["regret"] for row in select(rows, seed=seed))} for seed in values(rows, "seed")]


def lane_why(rows: list[Row]) -> list[Finding]:
    """Take the lead of UCRL2-MC over UCRL2 apart: what sharing the road, being told the machine, and layers alone are worth."""
    last = final_rows(rows)

    def over(ours: str, theirs: str) -> Effect:
        return compared([select(last, learner=ours), select(last, learner=theirs)])

    teams = f"{rows[0]['teams']} teams in lane driving"
    shared = {"machine known": over(why.BOTH, why.ALONE), "machine not known": over(why.UNTOLD, why.NEITHER)}
    told = {"shared": over(why.BOTH, why.UNTOLD), "not shared": over(why.ALONE, why.NEITHER)}
    layers = {"": over(why.NEITHER, why.SAME_FORM)}
    text = "final total regret, with costs, authors' schedule, of UCRL2-MC"
    return [
        judged(f"{teams} lose less if they share the road", "lane-why", f"{text}, shared / not shared", shared, LESS),
        judged(f"{teams} lose less if they know the machine", "lane-why", f"{text}, machine known / not known", told, LESS),
        judged(f"{teams} lose less with two layers alone", "lane-why", f"{text}, neither, / UCRL2 (same-form)", layers, LESS),
    ]
