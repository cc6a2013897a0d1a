"""The paper's claims about the obstacle task: one team, many teams, the drivers, and who drives in which traffic.

UCRL2-MC is told the machine's policy, as in the authors' runs; UCRL2 cannot be.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from studies.arrays import Floats
from studies.claims.finding import BASELINES, FAILS, HOLDS, TRIVIAL, Finding, all_of, both, joined, short
from studies.claims.rules import A_POINT, COMPARABLE, HALF, LESS, LINEAR, MORE, NEAR_OPTIMAL, SUBLINEAR, WELL_BELOW, Rule
from studies.claims.statistics import Effect, above, below, effect, exponents, intervals, quotients
from studies.figure import Row
from studies.figures.drivers_cost import OTHER as OTHER_HUMAN
from studies.figures.drivers_cost import TRAFFIC
from studies.runs import lane
from studies.statistics import ratios
from studies.tables import final_rows, select

LEVELS = ("no-car", "light", "heavy")
RADII = {"printed": "printed radii", "schedule": "authors' schedule", "constant": "radii times 0.1 and 0.01"}


def single_team(rows: list[Row]) -> list[Finding]:
    """Judge the claims about one team in the obstacle task."""
    return [*lane_sublinear(rows), lane_linear(rows), ahead_of_drivers(rows), *comparable(rows)]


def by_costs(verdicts: Mapping[str, Sequence[str]]) -> str:
    """Join verdicts for each kind of radii, with costs and without: one word for both where they agree."""
    cases = {}
    for radii, words in verdicts.items():
        if len(set(words)) == 1:
            cases[radii] = words[0]
        else:
            cases |= {f"{radii}, {costs}": word for costs, word in zip(("with costs", "without costs"), words, strict=True)}
    return joined(cases)


def lane_sublinear(rows: list[Row]) -> list[Finding]:
    """Judge whether each learner has sublinear regret: all fitted exponents, with their intervals, below SUBLINEAR."""
    result = []
    for name in lane.LEARNERS:
        fitted = {
            radii: [
                effect(exponents(select(rows, learner=name, radii=radii, control_cost=c, switch_cost=x))) for c, x in lane.COSTS
            ]
            for radii in lane.RADII
        }
        verdicts = {radii: [below(one, SUBLINEAR.limit) for one in found] for radii, found in fitted.items()}
        measured = "; ".join(f"{radii} {found[0].value:.2f}, {found[1].value:.2f}" for radii, found in fitted.items())
        claim = f"{name} has sublinear regret in the obstacle task"
        statistic = "exponent fitted to the second half of each run, with and without costs, for each kind of radii"
        spread = intervals([one for found in fitted.values() for one in found])
        result.append(Finding(claim, "single-team", statistic, measured, spread, by_costs(verdicts), SUBLINEAR.name))
    return result


def lane_ratios(rows: list[Row]) -> dict[str, list[Effect]]:
    """Compare the final regret of UCRL2-MC with that of each baseline: the mean ratio for each pair of costs, by baseline."""
    last = final_rows(rows)
    result: dict[str, list[Effect]] = {}
    for baseline in BASELINES:
        here = [select(last, control_cost=c, switch_cost=x) for c, x in lane.COSTS]
        result[baseline] = [quotients(ratios(some, "episodes", baseline)[0]["each"]) for some in here]
    return result


def ratio_text(found: dict[str, list[Effect]]) -> str:
    """Return the ratios of `lane_ratios` as text."""
    return "; ".join(f"{short(name)} {pair[0].value:.2f}, {pair[1].value:.2f}" for name, pair in found.items())


def lane_linear(rows: list[Row]) -> Finding:
    """Judge whether each driver alone has linear regret."""
    found = [exponents(select(rows, learner=name, control_cost=c)).mean() for name in ("human", "machine") for c, _ in lane.COSTS]
    verdict = TRIVIAL if all(abs(value - 1) < LINEAR.limit for value in found) else FAILS
    text = "fitted exponent of the human's and the machine's regret: a policy that does not learn loses the same in every episode"
    measured = ", ".join(f"{value:.4f}" for value in found)
    return Finding("Each driver alone has linear regret", "single-team", text, measured, "exact", verdict, LINEAR.name)


def ahead_of_drivers(rows: list[Row]) -> Finding:
    """Judge whether UCRL2-MC has lost less in the end than the better driver alone."""
    last = final_rows(rows)
    found: dict[str, list[Effect]] = {radii: [] for radii in lane.RADII}
    for radii, (c, x) in product(lane.RADII, lane.COSTS):
        here = select(last, control_cost=c, switch_cost=x)
        alone = min(row["regret"] for name in ("human", "machine") for row in select(here, learner=name))
        found[radii].append(quotients([row["regret"] / alone for row in select(here, learner="UCRL2-MC", radii=radii)]))
    verdicts = {radii: [below(one, LESS.limit) for one in pair] for radii, pair in found.items()}
    measured = "; ".join(f"{radii} {pair[0].value:.2f}, {pair[1].value:.2f}" for radii, pair in found.items())
    statistic = f"regret of UCRL2-MC / the better driver alone, after {last[0]['episodes']:,} episodes, with and without costs"
    claim, spread = "UCRL2-MC loses less than each driver alone", intervals([one for pair in found.values() for one in pair])
    return Finding(claim, "single-team", statistic, measured, spread, by_costs(verdicts), LESS.name)


def comparable(rows: list[Row]) -> list[Finding]:
    """Judge whether UCRL2-MC and UCRL2 have similar regret with one team: within a factor COMPARABLE, with their intervals."""
    result = []
    for radii, words in RADII.items():
        found = lane_ratios(select(rows, radii=radii))
        verdict = both({name: all_of([near(one) for one in pair]) for name, pair in found.items()})
        claim = f"With one team UCRL2-MC and UCRL2 have comparable regret (within a factor {COMPARABLE.limit:g}), {words}"
        statistic = "final regret of UCRL2-MC, which knows the machine, / UCRL2; with and without costs"
        spread = intervals([one for pair in found.values() for one in pair])
        result.append(Finding(claim, "single-team", statistic, ratio_text(found), spread, verdict, COMPARABLE.name))
    return result


def near(found: Effect) -> str:
    """Say whether a ratio lies within a factor COMPARABLE of 1."""
    inverse = Effect(1 / found.value, 1 / found.high, 1 / found.low, found.n)
    return all_of([below(found, COMPARABLE.limit), below(inverse, COMPARABLE.limit)])


def many_teams(rows: list[Row]) -> list[Finding]:
    """Judge whether UCRL2-MC has much less regret than UCRL2 with ten teams in the obstacle task."""
    found, words = lane_ratios(rows), RADII[rows[0]["radii"]]
    verdict = both({b: all_of([below(one, WELL_BELOW.limit) for one in pair]) for b, pair in found.items()})
    teams = rows[0]["teams"]
    claim = f"With {teams} teams UCRL2-MC is well below UCRL2 in the obstacle task (ratio < {WELL_BELOW.limit:g}), {words}"
    statistic = "final total regret of UCRL2-MC, which knows the machine, / UCRL2; with and without costs"
    spread = intervals([one for pair in found.values() for one in pair])
    return [Finding(claim, "many-teams", statistic, ratio_text(found), spread, verdict, WELL_BELOW.name)]


def drivers(rows: list[Row]) -> list[Finding]:
    """Judge the claims about each driver alone: the machine without and with cars, beside all humans of the table."""
    empty, busy = ({row["driver"]: row["cost"] for row in select(rows, traffic=traffic)} for traffic in TRAFFIC)
    humans = [
        [row["cost"] for row in select(rows, traffic=traffic) if row["driver"] in ("human", OTHER_HUMAN)] for traffic in TRAFFIC
    ]
    over_best_driver = empty["machine"] / empty["best driver"]
    over_best_human, over_worst_human = empty["machine"] / min(humans[0]), busy["machine"] / max(humans[1])
    exact, among = "exact, for this machine", f"of {len(humans[0])} humans"

    def finding(claim: str, statistic: str, value: float, rule: Rule, *, above: bool = False) -> Finding:
        holds = value > rule.limit if above else value < rule.limit
        return Finding(claim, "drivers", statistic, f"{value:.3f}", exact, HOLDS if holds else FAILS, rule.name)

    return [
        finding(
            "The machine is near-optimal without cars (within 10%)",
            "cost of the machine / best driver, no-car",
            over_best_driver,
            NEAR_OPTIMAL,
        ),
        finding(
            "The machine is more reliable than humans without cars",
            f"cost of the machine / the best {among}, no-car",
            over_best_human,
            LESS,
        ),
        finding(
            "The machine is worse than humans with cars",
            f"cost of the machine / the worst {among}, light or heavy",
            over_worst_human,
            MORE,
            above=True,
        ),
    ]


def human_control(rows: list[Row]) -> list[Finding]:
    """Judge who drives where, once the learner has learned, for each kind of radii. Intervals are over seeds, each of which learned
    a policy of its own; with one seed there is none, however many roads.
    """
    ordered = sorted(rows, key=lambda row: int(row["seed"]))
    shares = {
        radii: [
            np.array([[row["human_share"] for row in select(here, traffic=level)] for level in LEVELS])  # (levels, seeds)
            for here in (select(ordered, radii=radii, control_cost=c, switch_cost=x) for c, x in lane.COSTS)
        ]
        for radii in lane.RADII
    }
    roads = f"{rows[0]['roads']} roads of each level and seed"
    steps = {radii: [[effect(step) for step in np.diff(share, axis=0)] for share in pair] for radii, pair in shares.items()}
    empty = {radii: [effect(share[0]) for share in pair] for radii, pair in shares.items()}
    freer = {radii: effect(free[-1] - paid[-1]) for radii, (paid, free) in shares.items()}
    texts = [f"{radii} " + ", ".join(levels_text(share) for share in pair) for radii, pair in shares.items()]

    def finding(claim: str, statistic: str, measured: str, found: list[Effect], verdict: str, rule: Rule) -> Finding:
        return Finding(claim, "human-control", f"{statistic}; {roads}", measured, intervals(found), verdict, rule.name)

    return [
        finding(
            "More human control in heavier traffic",
            "human share no-car / light / heavy, with costs, without; intervals of the steps from level to level",
            "; ".join(texts),
            [one for pair in steps.values() for some in pair for one in some],
            by_costs(
                {radii: [all_of([above(one, A_POINT.limit) for one in some]) for some in pair] for radii, pair in steps.items()}
            ),
            A_POINT,
        ),
        finding(
            "The machine drives where there are no cars",
            "human share without cars, with costs and without",
            "; ".join(f"{radii} {pair[0].value:.2f}, {pair[1].value:.2f}" for radii, pair in empty.items()),
            [one for pair in empty.values() for one in pair],
            by_costs({radii: [below(one, HALF.limit) for one in pair] for radii, pair in empty.items()}),
            HALF,
        ),
        finding(
            "In heavy traffic the human drives more if control and hand-overs are free",
            "human share in heavy traffic, without costs - with costs",
            "; ".join(f"{radii} {one.value:+.2f}" for radii, one in freer.items()),
            list(freer.values()),
            joined({radii: above(one, A_POINT.limit) for radii, one in freer.items()}),
            A_POINT,
        ),
    ]


def levels_text(share: Floats) -> str:
    """Return the mean shares by level as text. share: (levels, seeds)."""
    return " / ".join(f"{mean:.2f}" for mean in share.mean(axis=1))
