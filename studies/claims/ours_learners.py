"""What we claim of learners: declared structure, what guarantees are worth and cost, the default, no horizon, learned costs."""

from collections.abc import Sequence

import numpy as np

from studies.claims.finding import BASELINES, FAILS, HOLDS, OURS, Finding, short
from studies.claims.rules import AS_MUCH_AGAIN, LESS, MORE, NEAR, NEVER, ROOT, STUCK, SUBLINEAR, TENTH, Rule
from studies.claims.statistics import (
    Effect,
    above,
    below,
    compared,
    effect,
    exponents,
    judged,
    later,
    often,
    paired,
    quotient,
    quotients,
    worlds_and_seeds,
)
from studies.figure import Row
from studies.figures import league as table_of_league
from studies.runs import lane
from studies.runs.promises import YES
from studies.tables import final_rows, select, values

MC, STRUCTURED, AGENTS_BERNSTEIN = "UCRL2-MC, printed", "UCRL2-MC, structured", "UCRL2-MC, structured, Bernstein for agents"
SAMPLING, SAMPLING_STRUCTURED = "posterior sampling", "posterior sampling, structured"
COSTS = dict(zip(("with costs", "without costs"), lane.COSTS, strict=True))  # of control and hand-overs

# ------------------------------------------------------------------------------------------------------------- structure


def structure(rows: list[Row]) -> list[Finding]:
    """Judge what docs/structure.md and docs/which-learner.md say of the obstacle task with structure and the printed radii."""
    last = final_rows(rows)
    grows = {
        name: effect(exponents(select(rows, learner=STRUCTURED, control_cost=c, switch_cost=x))) for name, (c, x) in COSTS.items()
    }
    late = {
        name: compared([select(last, learner=one, control_cost=c, switch_cost=x) for one in (AGENTS_BERNSTEIN, STRUCTURED)])
        for name, (c, x) in COSTS.items()
    }
    after = f"after {last[0]['episodes']:,} episodes"
    return [
        judged(
            "With structure declared, UCRL2-MC learns the obstacle task with the printed radii: its regret is sublinear",
            "structure",
            "fitted exponent, second half",
            grows,
            SUBLINEAR,
        ),
        judged(
            "After 20,000 episodes of lane driving Bernstein's intervals for agents are ahead of the printed balls",
            "structure",
            f"final regret of UCRL2-MC, structured, with them / without them, {after}",
            late,
            LESS,
        ),
    ]


def promises(rows: list[Row]) -> list[Finding]:
    """Judge what docs/structure.md and docs/which-learner.md say of learners in three worlds."""
    last = final_rows(rows)
    return [
        worth_of_structure(last),
        *more_than_any_algorithm(last),
        price_of_a_guarantee(last),
        ucrl2_is_last(last),
        *promises_kept(last),
    ]


def against(rows: Sequence[Row], world: str, ours: str, theirs: str) -> Effect:
    """Compare the final regrets of two learners in a world, seed by seed. rows: last points of curves."""
    return compared([select(rows, world=world, learner=name) for name in (ours, theirs)])


def worth_of_structure(last: list[Row]) -> Finding:
    """Judge whether structure cuts the regret of a learner with a guarantee to less than a tenth where it learns little without."""
    found = {
        world: against(last, world, STRUCTURED, MC) for world in ("lane driving", "FrozenLake") if world in values(last, "world")
    }
    claim = "Structure decides everything: with the printed radii UCRL2-MC loses less than a tenth of what it loses without"
    return judged(claim, "promises", "final regret of UCRL2-MC with structure / without, printed radii", found, TENTH)


def more_than_any_algorithm(last: list[Row]) -> list[Finding]:
    """Judge whether UCRL2-MC with structure loses less than every learner that was told nothing: every one with a guarantee, and
    every one. Of each world the effect is shown whose interval reaches highest.
    """
    claim, result = "Structure is worth more than any algorithm", []
    for words, guaranteed in (("with a guarantee", True), ("with or without a guarantee", False)):
        names, found = told_nothing(last, guaranteed=guaranteed), {}
        for world in ("lane driving", "FrozenLake"):
            if world in values(last, "world"):
                found[world] = max((against(last, world, STRUCTURED, name) for name in names), key=lambda one: one.high)
        statistic = f"final regret of UCRL2-MC, structured / the strongest learner {words} without structure"
        result.append(later(judged(f"{claim}, of those {words}", "promises", statistic, found, LESS)))
    return result


def told_nothing(rows: Sequence[Row], *, guaranteed: bool) -> list[str]:
    """Return the names of learners that were not told of structure: those with a guarantee, or all."""
    plain = [row for row in learning(rows) if "structured" not in row["learner"]]
    return values([row for row in plain if row["guarantee"] == YES or not guaranteed], "learner")


def learning(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of those who learn: an agent alone does not."""
    return [row for row in rows if not str(row["learner"]).endswith(" alone")]


def price_of_a_guarantee(last: list[Row]) -> Finding:
    """Judge whether the learner with a guarantee loses more than posterior sampling, which has none."""
    pairs = {"RiverSwim": (MC, SAMPLING), "lane driving, structured": (STRUCTURED, SAMPLING_STRUCTURED)}
    found = {name: against(last, name.split(",")[0], *pair) for name, pair in pairs.items()}
    statistic = "final regret of UCRL2-MC, printed radii / posterior sampling"
    return judged("The guarantee costs something", "promises", statistic, found, MORE, above)


def ucrl2_is_last(last: list[Row]) -> Finding:
    """Judge whether UCRL2, with its better radius, loses more than every other learner. The effect shown is the least sure one."""
    found = {}
    for world in ("RiverSwim", "FrozenLake"):
        others = [name for name in values(learning(select(last, world=world)), "learner") if name not in BASELINES]
        found[world] = min((against(last, world, BASELINES[0], name) for name in others), key=lambda one: one.low)
    statistic = "final regret of UCRL2 (same-form) / of the next worst learner"
    return judged(
        "UCRL2 has the highest regret of all learners in RiverSwim and FrozenLake", "promises", statistic, found, MORE, above
    )


def promises_kept(last: list[Row]) -> list[Finding]:
    """Judge whether confidence sets were ever left, by learners with a guarantee and by those with scaled radii."""
    watched = [row for row in last if row["looks"] != ""]
    sure = [row for row in watched if row["guarantee"] == YES]
    scaled = [row for row in watched if row["guarantee"] != YES]
    pairs, broken = worlds_and_seeds(sure), worlds_and_seeds([row for row in sure if row["left"] > 0 or row["above"] > 0])
    tried, inside = worlds_and_seeds(scaled), worlds_and_seeds([row for row in scaled if row["left"] == 0])
    chance = f"probability below {often(broken, pairs)[1]:.3f} (95%, one-sided)"
    never = HOLDS if inside == NEVER.limit else FAILS
    text = f"worlds and seeds in which the truth was outside at some check, in all of {len(scaled)} runs"
    return [
        Finding(
            "With a guarantee the truth never left the sets, and the optimistic value never exceeded the optimum",
            "promises",
            f"worlds and seeds in which either happened in one of {len(sure)} runs, at some check",
            f"{broken} of {pairs}",
            chance,
            HOLDS if broken == NEVER.limit else FAILS,
            NEVER.name,
            OURS,
        ),
        Finding(
            "With scaled radii the truth left the sets in every single run",
            "promises",
            text,
            f"{tried - inside} of {tried}",
            f"probability above {often(tried - inside, tried)[0]:.3f} (95%, one-sided)",
            never,
            NEVER.name,
            OURS,
        ),
    ]


# ------------------------------------------------------------------------------------------------------------- the default


def league(rows: list[Row]) -> list[Finding]:
    """Judge what docs/which-learner.md says of `recommended` among our own learners: stuck in no run, near the best almost
    everywhere.
    """
    standings = {world: {one["learner"]: one for one in table_of_league.standings(rows, world)} for world in values(rows, "world")}
    mine = [found[table_of_league.OURS] for found in standings.values()]
    stuck, runs = sum(one["stuck"] for one in mine), sum(one["runs"] for one in mine)
    missed = {name: sum(np.isinf(found[name]["within 5%"]) for found in standings.values()) for name in values(rows, "learner")}
    others = min(n for name, n in missed.items() if name != table_of_league.OURS)
    only = missed[table_of_league.OURS] <= 1 < others
    text = f"{missed[table_of_league.OURS]} of {len(standings)} worlds; of the others at least {others}"
    return [
        Finding(
            f"`recommended` got stuck in none of {runs} runs",
            "league",
            f"runs whose policy costs more than {STUCK.limit:.0%} above the best at the end",
            f"{stuck} of {runs}",
            f"probability below {often(stuck, runs)[1]:.3f} (95%, one-sided)",
            HOLDS if stuck == NEVER.limit else FAILS,
            f"{STUCK.name}; {NEVER.name}",
            OURS,
        ),
        Finding(
            "`recommended` is the only learner of ours that came within 5% of the best in every world but one",
            "league",
            "worlds in which less than half of the runs came within 5% and stayed so",
            text,
            f"{min(one['runs'] for one in mine)} runs in each world, of the others at least "
            f"{min(one['runs'] for found in standings.values() for one in found.values())}",
            HOLDS if only else FAILS,
            NEAR.name,
            OURS,
        ),
    ]


def against_rivals(rows: list[Row], rivals: list[Row]) -> list[Finding]:
    """Judge whether `recommended` needs fewer steps than the better of PPO and DQN to come within 5% of the best.

    Of each world the medians over runs are compared, and who never came there is counted with all steps of the run. Worlds in which
    nobody came there, or everybody at the first look, say nothing. The interval is over worlds.
    """
    best = {row["world"]: row["optimum"] for row in rows}
    theirs = [{**row, "learner": row["rival"], "optimum": best[row["world"]]} for row in rivals if row["world"] in best]
    found = {}
    for world in values(theirs, "world"):
        mine = table_of_league.standing(select(rows, world=world, learner=table_of_league.OURS))
        every = table_of_league.standings(theirs, world)
        steps, first = min((one["within 5%"], one["first look"]) for one in every)
        if np.isfinite(mine["within 5%"]) and (mine["within 5%"] > mine["first look"] or steps > first):
            found[world] = mine["within 5%"] / min(steps, select(theirs, world=world)[0]["budget"])
    each = np.array(list(found.values()))
    over = quotients(each.tolist())
    most = max(found, key=lambda world: found[world])
    return [
        Finding(
            "`recommended` needs fewer steps than the better of PPO and DQN, in none of the worlds more",
            "league",
            "steps until the policy costs at most 5% more than the best, and stays so, relative to theirs",
            f"{over.value:.2f} (median {np.median(each):.2f}; most {found[most]:.2f}, in {most})",
            f"{over.low:.2f} to {over.high:.2f} (95%, {len(each)} worlds)",
            below(over, LESS.limit) if found[most] < LESS.limit else FAILS,
            LESS.name,
            OURS,
        )
    ]


# ------------------------------------------------------------------------------------------------------------- beyond the paper


def endless_river(rows: list[Row]) -> list[Finding]:
    """Judge our claims about RiverSwim without a horizon."""
    last = final_rows(rows)
    ours = select(last, learner="UCRL2-MC")
    found = {short(name): quotient(*paired(ours, select(last, learner=name))) for name in BASELINES}
    grows = {"": effect(exponents(select(rows, learner="UCRL2-MC")))}
    statistic = f"ratio of the regrets after {int(last[0]['episodes']):,} steps, average cost"
    claim = "Without a horizon its regret grows no faster than the published order, sqrt(T)"
    return [
        judged("Without a horizon UCRL2-MC still loses less than UCRL2 in RiverSwim", "endless-river", statistic, found, LESS),
        judged(claim, "endless-river", "fitted exponent over the second half", grows, ROOT),
    ]


def unknown_costs(rows: list[Row]) -> list[Finding]:
    """Judge our claims about costs that must be learned: each a ratio of final regrets, seed by seed, and a limit of it."""
    declared, fleet = "unknown, alike ones declared", "unknown, shared by a fleet"
    claims: tuple[tuple[str, str, str, str, Rule], ...] = (
        ("In RiverSwim unknown costs at most double the regret", "RiverSwim", "unknown", "known", AS_MUCH_AGAIN),
        (
            "In lane driving unknown costs at most double the regret if equal costs are declared",
            "lane driving",
            declared,
            "known",
            AS_MUCH_AGAIN,
        ),
        (
            "In lane driving unknown costs at most double the regret without that declaration",
            "lane driving",
            "unknown",
            "known",
            AS_MUCH_AGAIN,
        ),
        ("A fleet learns the costs of the road faster than one team", "lane driving", fleet, "unknown", LESS),
    )
    last, result = final_rows(rows), []
    for claim, world, costs, other, rule in claims:
        found = {}
        for learner in values(rows, "learner"):
            here = select(last, world=world, learner=learner)
            found[learner] = quotient(*paired(select(here, costs=costs), select(here, costs=other)))
        statistic = f"final regret relative to the regret with costs {other}; at most {rule.limit:g}"
        result.append(judged(claim, "unknown-costs", statistic, found, rule))
    return result
