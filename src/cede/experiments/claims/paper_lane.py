"""The paper's claims about the obstacle task: one team, many teams, the drivers, and who drives in which traffic."""

import numpy as np

from cede.experiments.claims.finding import BASELINES, FAILS, HOLDS, OPEN, SCALED, Finding, all_of, both, by_radii, short
from cede.experiments.claims.rules import COMPARABLE, LINEAR, MORE, NEAR_OPTIMAL, SEEDS, SUBLINEAR, TREND, WELL_BELOW
from cede.experiments.claims.statistics import Effect, above, below, effect, exponents, interval
from cede.experiments.figure import Row
from cede.experiments.runs import lane
from cede.experiments.statistics import ratios
from cede.experiments.tables import final_rows, select, values

LEVELS = ("no-car", "light", "heavy")


def single_team(rows: list[Row]) -> list[Finding]:
    """Judge the claims about one team in the obstacle task."""
    return [*lane_sublinear(rows), lane_linear(rows), comparable(rows)]


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
        verdicts = {radii: all_of([below(one, SUBLINEAR.limit) for one in found]) for radii, found in fitted.items()}
        measured = "; ".join(f"{radii} {found[0].value:.2f}, {found[1].value:.2f}" for radii, found in fitted.items())
        claim = f"{name} has sublinear regret in the obstacle task"
        statistic = "fitted exponent, second half, with and without costs, for each kind of radii"
        spread = widest([one for found in fitted.values() for one in found])
        result.append(Finding(claim, "single-team", statistic, measured, spread, by_radii(verdicts), SUBLINEAR.name))
    return result


def widest(found: list[Effect]) -> str:
    """Return the widest of some intervals as text."""
    return interval(max(one.high - one.value for one in found), min(one.n for one in found))


def lane_ratios(rows: list[Row]) -> dict[str, list[Effect]]:
    """Compare the final regret of UCRL2-MC with that of each baseline: the mean ratio for each pair of costs, by baseline."""
    last = final_rows(rows)
    result: dict[str, list[Effect]] = {}
    for baseline in BASELINES:
        here = [select(last, control_cost=c, switch_cost=x) for c, x in lane.COSTS]
        result[baseline] = [effect(ratios(some, "episodes", baseline)[0]["each"]) for some in here]
    return result


def ratio_text(found: dict[str, list[Effect]]) -> str:
    """Return the ratios of `lane_ratios` as text."""
    return "; ".join(f"{short(name)} {pair[0].value:.2f}, {pair[1].value:.2f}" for name, pair in found.items())


def lane_linear(rows: list[Row]) -> Finding:
    """Judge whether each driver alone has linear regret."""
    found = [exponents(select(rows, learner=name, control_cost=c)).mean() for name in ("human", "machine") for c, _ in lane.COSTS]
    verdict = HOLDS if all(abs(value - 1) < LINEAR.limit for value in found) else FAILS
    text = "fitted exponent of the human's and the machine's regret"
    measured = ", ".join(f"{value:.4f}" for value in found)
    return Finding("Each driver alone has linear regret", "single-team", text, measured, "exact", verdict, LINEAR.name)


def scaled(verdict: str, radii: str) -> str:
    """Return a verdict that was found with these radii: what holds with scaled ones was not shown for the printed ones."""
    return SCALED if verdict == HOLDS and radii != "printed" else verdict


def comparable(rows: list[Row]) -> Finding:
    """Judge whether UCRL2-MC and UCRL2 have similar regret with one team: within a factor COMPARABLE, with their intervals."""
    found = lane_ratios(select(rows, radii="schedule"))
    verdict = both({name: scaled(all_of([near(one) for one in pair]), "schedule") for name, pair in found.items()})
    claim = f"With one team UCRL2-MC and UCRL2 have comparable regret (within a factor {COMPARABLE.limit:g})"
    statistic = "final regret of UCRL2-MC / UCRL2, with and without costs, authors' schedule"
    spread = widest([one for pair in found.values() for one in pair])
    return Finding(claim, "single-team", statistic, ratio_text(found), spread, verdict, COMPARABLE.name)


def near(found: Effect) -> str:
    """Say whether a ratio lies within a factor COMPARABLE of 1."""
    inverse = Effect(1 / found.value, 1 / found.high, 1 / found.low, found.n)
    return all_of([below(found, COMPARABLE.limit), below(inverse, COMPARABLE.limit)]) if found.low > 0 else OPEN


def many_teams(rows: list[Row]) -> list[Finding]:
    """Judge whether UCRL2-MC has much less regret than UCRL2 with ten teams in the obstacle task."""
    found, radii = lane_ratios(rows), rows[0]["radii"]
    verdict = both({b: scaled(all_of([below(one, WELL_BELOW.limit) for one in pair]), radii) for b, pair in found.items()})
    claim = f"With {rows[0]['teams']} teams UCRL2-MC is well below UCRL2 in the obstacle task (ratio < {WELL_BELOW.limit:g})"
    statistic = f"final total regret of UCRL2-MC / UCRL2, with and without costs, radii: {radii}"
    spread = widest([one for pair in found.values() for one in pair])
    return [Finding(claim, "many-teams", statistic, ratio_text(found), spread, verdict, WELL_BELOW.name)]


def drivers(rows: list[Row]) -> list[Finding]:
    """Judge the claims about each driver alone: the machine without and with cars."""
    cost = {(row["traffic"], row["driver"]): row["cost"] for row in rows}
    empty = cost["no-car", "machine"] / cost["no-car", "best driver"]
    busy = cost["light or heavy", "machine"] / cost["light or heavy", "human"]
    exact = "exact, for this machine"
    return [
        Finding(
            "The machine is near-optimal without cars (within 10%)",
            "drivers",
            "cost of the machine / best driver, no-car",
            f"{empty:.3f}",
            exact,
            HOLDS if empty < NEAR_OPTIMAL.limit else FAILS,
            NEAR_OPTIMAL.name,
        ),
        Finding(
            "The machine is worse than the human with cars",
            "drivers",
            "cost of the machine / human, light or heavy",
            f"{busy:.3f}",
            exact,
            HOLDS if busy > MORE.limit else FAILS,
            MORE.name,
        ),
    ]


def human_control(rows: list[Row]) -> list[Finding]:
    """Judge whether the human drives more where traffic is heavier: every step from level to level must exceed its interval.

    The interval is over seeds, each of which learned a policy of its own; with one seed there is none, however many roads.
    """
    verdicts, texts, ends, n = {}, [], [], len(values(rows, "seed"))
    for radii in lane.RADII:
        steps: list[Effect] = []
        for c, x in lane.COSTS:
            here = select(rows, radii=radii, control_cost=c, switch_cost=x)
            share = np.array([[row["human_share"] for row in select(here, traffic=level)] for level in LEVELS])  # (levels, seeds)
            steps += [effect(step) for step in np.diff(share, axis=0)]
            texts.append(f"{radii} " + " / ".join(f"{mean:.2f}" for mean in share.mean(axis=1)))
        verdicts[radii] = all_of([above(one, TREND.limit) for one in steps])
        ends.append(f"{radii} {min(one.low for one in steps):+.2f}")
    statistic = "human share no-car / light / heavy, with and without costs; each step must exceed its 95% interval"
    roads = f"{rows[0]['roads']} roads per level"
    spread = (
        f"lower ends of the least steps: {', '.join(ends)} (95%, {n} seeds, {roads})" if n >= SEEDS.limit else f"1 seed, {roads}"
    )
    claim = "More human control in heavier traffic"
    return [Finding(claim, "human-control", statistic, "; ".join(texts), spread, by_radii(verdicts), TREND.name)]
