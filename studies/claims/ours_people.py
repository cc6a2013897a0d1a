"""What we claim of people and machines: limits of control, never worse than today, people who change, which machine it is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from studies.arrays import Floats
from studies.claims.finding import HOLDS, OPEN, OURS, Finding, joined
from studies.claims.rules import A_POINT, HALVED, LESS, MORE, NEAR, PROMISE, ROOT, SEEDS, SPREAD
from studies.claims.statistics import (
    Effect,
    above,
    below,
    compared,
    digits,
    effect,
    intervals,
    judged,
    later,
    often,
    paired,
    quotient,
    quotient_of_spreads,
    quotients,
    rarely,
    worlds_and_seeds,
)
from studies.figure import Row
from studies.figures import machines as figure_of_machines
from studies.figures.people_change import CHANGES
from studies.runs import lane
from studies.runs.people_change import FORGETTING
from studies.tables import final_rows, select, values

LAST = 0.1  # the last part of a run, as in "the last tenth"
NEW = 0.1  # the part of a run in which a change is new: this decides
SECOND_LOOK = 0.01  # a shorter one, which is shown beside it

# ------------------------------------------------------------------------------------------------------------- limits


def limits(rows: list[Row]) -> list[Finding]:
    """Judge what docs/trust.md and docs/guarantees.md say of limits of control. Of each learner the limit that is kept worst is
    shown.
    """
    share, cost, falls = {}, {}, {}
    quarter = nearest(rows, rows[0]["episodes"] / 4)
    for learner in values(rows, "learner"):
        name, here = learner.split(",")[0], select(rows, learner=learner)
        kept = [select(here, side=side, limit=limit) for side, limit in dict.fromkeys((row["side"], row["limit"]) for row in here)]
        share[name] = worst([effect([excess(row) for row in final_rows(some)]) for some in kept])
        cost[name] = worst([effect([abs(late_cost(some, seed)) for seed in values(some, "seed")]) for some in kept])
        capped = [sum_of_excess(select(here, side="at_most", episode=k)) for k in (rows[0]["episodes"], quarter)]
        falls[name] = quotient(*paired(capped[0], capped[1], "excess"))
    after = f"after {rows[0]['episodes']:,} episodes, worst of {len(values(rows, 'limit'))} limits"
    return [
        judged(
            "Shares of control converge to their limits, on average over episodes (within a point)",
            "limits",
            f"share so far beyond its limit, {after}",
            share,
            A_POINT,
        ),
        judged(
            "Costs converge to those of the best mixture within the limit (within 5%)",
            "limits",
            f"distance of the cost of the last tenth from the cost of the best mixture, {after}",
            cost,
            NEAR,
        ),
        later(
            judged(
                "The excess of shares over their limits falls like 1 / sqrt(K), or faster",
                "limits",
                f"share so far beyond upper limits, after all episodes / after {quarter:,}, seed by seed",
                falls,
                ROOT,
            )
        ),
    ]


def worst(found: Sequence[Effect]) -> Effect:
    """Return the effect whose interval reaches highest."""
    return max(found, key=lambda one: one.high)


def excess(row: Row) -> float:
    """Return by how much the share of control so far is beyond its limit; below 0 if it is within."""
    over: float = row["share_so_far"] - row["limit"]
    return over if row["side"] == "at_most" else -over


def late_cost(rows: Sequence[Row], seed: int) -> float:
    """Return how much more an episode of the last tenth of a run cost than with the best mixture, as a part of the latter."""
    late = [row["cost"] for row in select(rows, seed=seed) if row["episode"] > (1 - LAST) * row["episodes"]]
    return float(np.mean(late)) / float(rows[0]["best_cost"]) - 1


def sum_of_excess(rows: Sequence[Row]) -> list[Row]:
    """Return what shares are beyond their limits, summed over limits, for each seed: rows with the columns seed and excess."""
    return [{"seed": seed, "excess": sum(map(excess, select(rows, seed=seed)))} for seed in values(rows, "seed")]


def nearest(rows: Sequence[Row], episode: float) -> int:
    """Return the episode that is in a table and nearest to this one."""
    return min((int(one) for one in values(rows, "episode")), key=lambda one: abs(one - episode))


# ------------------------------------------------------------------------------------------------------------- a baseline


def never_worse(rows: list[Row]) -> list[Finding]:
    """Judge the promise about a baseline: how often it was broken, and how often it would have been without."""
    last = final_rows(rows)
    promised = [row for row in last if row["alpha"] != ""]
    pairs, broken = worlds_and_seeds(promised), worlds_and_seeds([row for row in promised if row["worst"] > 1 + row["alpha"]])
    strictest = {world: min(row["alpha"] for row in select(promised, world=world)) for world in values(promised, "world")}
    free = [row for row in last if row["alpha"] == ""]
    without = sum(row["worst"] > 1 + strictest[row["world"]] for row in free)
    return [
        Finding(
            "With a baseline, total cost is never above 1 + alpha times the baseline's (with probability 1 - 2 delta)",
            "never-worse",
            f"worlds and seeds in which it ever was above, in one of {len(promised)} runs",
            f"{broken} of {pairs}; without a baseline {without} of {len(free)}",
            f"probability below {often(broken, pairs)[1]:.3f} (95%, one-sided)",
            rarely(broken, pairs, PROMISE.limit),
            PROMISE.name,
            OURS,
        )
    ]


# ------------------------------------------------------------------------------------------------------------- people who change


def people_change(rows: list[Row]) -> list[Finding]:
    """Judge what docs/people.md says of a human who changes halfway, and of learners that forget or do not."""
    (better, tired), never = [select(rows, before=before) for before, _ in CHANGES], next(iter(FORGETTING))
    ways = {name: name.replace(" episodes", "") for name in FORGETTING if name != never}
    found = {}
    for what, some, half in (("pays", better, 1), ("costs", better, 0), ("costs, too", tired, 0)):
        found[what] = {ways[name]: compared([halves(select(some, forgetting=one), half) for one in (name, never)]) for name in ways}
    dear = {
        f"{words}, {name}": one for words, key in (("learns", "costs"), ("tires", "costs, too")) for name, one in found[key].items()
    }
    late = {name: found_out(select(tired, forgetting=name)) for name in FORGETTING}
    second = ", ".join(digits(found_out(select(tired, forgetting=name), SECOND_LOOK).value) for name in FORGETTING)
    late_if_ever = {never: found_out(select(better, forgetting=never))}
    statistic = "regret per episode in the last tenth of the run / in the tenth after the change"
    worse = judged("Every learner notices an agent that gets worse while in control", "people-change", statistic, late, HALVED)
    return [
        judged(
            "A learner that forgets notices sooner that an agent got better while not in control",
            "people-change",
            "regret after the change, forgetting / never forgetting",
            found["pays"],
            LESS,
        ),
        judged(
            "Forgetting costs something all the time",
            "people-change",
            "regret before the change, forgetting / never forgetting",
            dear,
            MORE,
            above,
        ),
        replace(worse, measured=f"{worse.measured} (against the hundredth after it: {second})"),
        judged(
            "Without forgetting, a learner notices late, if ever, that an agent got better",
            "people-change",
            statistic,
            late_if_ever,
            HALVED,
            above,
        ),
    ]


def regret_at(run: Sequence[Row], episode: float) -> float:
    """Return the total regret of one run after an episode, between the rows of its table by a straight line."""
    return float(np.interp(episode, [0, *(row["episode"] for row in run)], [0.0, *(row["regret"] for row in run)]))


def halves(rows: Sequence[Row], half: int) -> list[Row]:
    """Return the regret of each seed in the first (0) or second (1) half of the run: rows with the columns seed and regret."""
    result = []
    for seed in values(rows, "seed"):
        run = select(rows, seed=seed)
        ends = [part * run[0]["episodes"] / 2 for part in (half, half + 1)]
        result.append({"seed": seed, "regret": regret_at(run, ends[1]) - regret_at(run, ends[0])})
    return result


def found_out(rows: Sequence[Row], new: float = NEW) -> Effect:
    """Compare the regret per episode in the last tenth of the run with that after its middle, seed by seed. new: for which part."""
    first, last = [], []
    for seed in values(rows, "seed"):
        run = select(rows, seed=seed)
        k = run[0]["episodes"]
        first.append((regret_at(run, k / 2 + new * k) - regret_at(run, k / 2)) / new)
        last.append((regret_at(run, k) - regret_at(run, k - LAST * k)) / LAST)
    return quotient(np.array(last), np.array(first))


# ------------------------------------------------------------------------------------------------------------- machines


def machines(rows: list[Row]) -> list[Finding]:
    """Say how much of the regret in lane driving depends on which machine was trained, beside luck, and whether UCRL2-MC is ahead
    of UCRL2 with every one.
    """
    spread, ahead, texts, deviations = {}, {}, [], []
    for words, (control, switch) in zip(("with costs", "without costs"), lane.COSTS, strict=True):
        here = select(rows, control_cost=control, switch_cost=switch)
        by_machine, by_seed = (
            final_log(select(here, way=way, learner=figure_of_machines.LEARNERS[0]))
            for way in (figure_of_machines.OTHER_MACHINE, figure_of_machines.OTHER_SEED)
        )
        spread[words] = quotient_of_spreads(by_machine, by_seed)
        deviations.append(f"{words} {deviation(by_machine)} over machines, {deviation(by_seed)} over seeds")
        ratios = machine_ratios(here)
        ahead[words] = quotients(ratios.tolist())
        texts.append(f"{words} {ahead[words].value:.2f} (at most {ratios.max():.2f})")
    verdicts = {
        words: every_machine(select(rows, control_cost=c), ahead[words]) for words, (c, _) in zip(ahead, lane.COSTS, strict=True)
    }
    matters = {words: OPEN if one.n < SEEDS.limit else above(one, SPREAD.limit) for words, one in spread.items()}
    n = len(values(select(rows, way=figure_of_machines.OTHER_MACHINE), "machine"))
    return [
        Finding(
            "The choice of the trained machine matters more than chance",
            "machines",
            "standard deviation of the log of UCRL2-MC's final regret, over machines / over seeds",
            "; ".join(deviations),
            spread_text(spread),
            joined(matters),
            SPREAD.name,
            OURS,
        ),
        Finding(
            "UCRL2-MC loses less than UCRL2 with every machine",
            "machines",
            "final regret of UCRL2-MC / UCRL2 (same-form), machine by machine, one seed each",
            "; ".join(texts),
            intervals(list(ahead.values())).replace("seeds", "machines").replace("1 seed", f"{n} machine"),
            joined(verdicts),
            LESS.name,
            OURS,
        ),
    ]


def final_log(rows: Sequence[Row]) -> Floats:
    """Return the logarithms of the final regrets of some runs."""
    return np.log([row["regret"] for row in rows])


def deviation(sample: Floats) -> str:
    """Return the standard deviation of a sample as text."""
    return f"{np.std(sample, ddof=1):.3f}" if len(sample) >= SEEDS.limit else "unknown"


def spread_text(spread: Mapping[str, Effect]) -> str:
    """Return the quotients of spreads with their intervals as text."""
    known = [f"{one.value:.2g} ({one.interval})" for one in spread.values() if one.n >= SEEDS.limit]
    return f"quotient {'; '.join(known)} (95%, F)" if known else "1 seed"


def machine_ratios(rows: Sequence[Row]) -> Floats:
    """Return the final regret of UCRL2-MC over that of UCRL2 (same-form) for each machine, (machines,)."""
    some = select(rows, way=figure_of_machines.OTHER_MACHINE)
    ours, theirs = ({row["machine"]: row["regret"] for row in select(some, learner=name)} for name in figure_of_machines.LEARNERS)
    return np.array([ours[machine] / theirs[machine] for machine in ours])


def every_machine(rows: Sequence[Row], over: Effect) -> str:
    """Say whether UCRL2-MC lost less with every machine, and surely so on average over them. over: the mean ratio.

    A machine has one run, which alone refutes nothing: luck may have made it.
    """
    verdict = below(over, LESS.limit)
    return OPEN if verdict == HOLDS and machine_ratios(rows).max() >= LESS.limit else verdict
