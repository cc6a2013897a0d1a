"""What we claim of fleets: what a newcomer gains, what it costs to share less often, and what sharing can save at all."""

import numpy as np

from cede.experiments.claims.finding import OURS, Finding
from cede.experiments.claims.rules import HALF, LESS, MORE, NEXT_TO_NOTHING
from cede.experiments.claims.statistics import LEAST, above, below, compared, effect, intervals, judged
from cede.experiments.figure import Row
from cede.experiments.figures import sharing_why as two_terms_of
from cede.experiments.figures.newcomer import NEWCOMERS
from cede.experiments.runs import sharing
from cede.experiments.tables import final_rows, select, values

WITH, ALONE = "with the fleet's knowledge", "alone"
WELCOMED = "welcomed by the fleet"
RADII = {sharing.PRINTED: "printed radii", sharing.SCHEDULE: "authors' schedule"}
SHOWN = (1, 10, 100)  # sizes of fleets


def newcomer(rows: list[Row]) -> list[Finding]:
    """Judge what docs/fleets.md says of newcomers: what a fleet knows of the environment helps them, but not everybody."""
    last, found = final_rows(rows), {}
    for world in values(rows, "world"):
        found[world] = compared([select(last, world=world, newcomer=name) for name in (WITH, ALONE)])
    little = "RiverSwim, agents {} and {}".format(*NEWCOMERS[1])
    much = {world: one for world, one in found.items() if world != little}
    statistic = f"regret after {last[0]['episodes']:,} episodes, with it / without it"
    alike = "It is no gift to a newcomer whose agents differ little, who loses more with it"
    return [
        judged("A newcomer loses less with what a fleet knows of the environment", "newcomer", statistic, much, LESS),
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
    claim = "A driver who joins a fleet does not have to learn the road again: it loses less than one who starts alone"
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


def sharing_why(rows: list[Row]) -> list[Finding]:
    """Explain what sharing can save: the part of a team's regret that the environment's term of the corollary, b / sqrt(N),
    explains, by the size of the fleet. What a team that is alone loses is mostly for its own agents, or it is not.
    """
    teams = sorted(values(select(rows, learner=sharing.OURS), "teams"))
    shown, result = [n for n in teams if n in SHOWN], []
    for radii, words in RADII.items():
        each = np.array(
            [parts_of_environment(rows, radii, seed, teams, shown) for seed in values(rows, "seed")]
        ).T  # (shown, seeds)
        found = [effect(some) for some in each]
        measured = "; ".join(f"N = {n} {one.value:.2f}" for n, one in zip(shown, found, strict=True))
        claim = f"Most of what a team loses alone is for its own agents, which sharing cannot save, {words}"
        statistic = (
            f"part of a team's regret that b / sqrt(N) explains, of a + b / sqrt(N) fitted to {len(teams)} sizes, seed by seed"
        )
        verdict = below(found[0], HALF.limit)
        result.append(Finding(claim, "sharing-why", statistic, measured, intervals(found), verdict, HALF.name, OURS))
    return result


def parts_of_environment(rows: list[Row], radii: str, seed: int, teams: list[int], shown: list[int]) -> list[float]:
    """Return the part b / sqrt(N) of a + b / sqrt(N) for the sizes N that are shown, fitted to the runs of one seed."""
    a, b = two_terms_of.two_terms(teams, two_terms_of.per_team(rows, sharing.OURS, radii, seed, teams))
    return [b / np.sqrt(n) / max(a + b / np.sqrt(n), LEAST) for n in shown]
