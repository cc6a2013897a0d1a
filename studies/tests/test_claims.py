"""Claims and verdicts: statistics against slow twins, and tables that were made up so that the verdict is known."""

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from studies.catalogue import FIGURES
from studies.claims import (
    ours_fleets,
    ours_learners,
    ours_people,
    ours_speed,
    paper_lane,
    paper_river,
    paper_theory,
    rules,
    statistics,
)
from studies.claims.finding import (
    BASELINES,
    FAILS,
    HOLDS,
    LATER,
    OPEN,
    OURS,
    PAPER,
    TRIVIAL,
    Finding,
    all_of,
    joined,
)
from studies.claims.main_claims import MAIN, MIXED, WORDS, main_rows
from studies.claims.pages import markdown, rules_markdown, summary, with_verdicts
from studies.claims.statistics import Effect, above, below, effect, often, paired, quotient, quotient_of_spreads, rarely
from studies.claims.verdicts import CLAIMS, OF_OURS, OF_PAPER, all_findings, paper_findings
from studies.figure import Options
from studies.figures import action_why, lane_why, machines, sharing_why
from studies.figures import sharing as sharing_map
from studies.runs import growth as growth_runs
from studies.runs import lane, sharing
from studies.tables import load_table

ROOT = Path(__file__).parent.parent.parent
STORED = load_table(ROOT / "studies" / "results" / "claims.csv", as_text=True)

# ------------------------------------------------------------------------------------------------------------- rules


def test_rules_have_names_of_their_own_and_reasons():
    assert len({rule.name for rule in rules.RULES}) == len(rules.RULES)
    assert all(rule.reason.endswith(".") and len(rule.reason) > 30 for rule in rules.RULES)
    every = {value for value in vars(rules).values() if isinstance(value, rules.Rule)}
    assert every == set(rules.RULES)


def test_no_verdict_has_a_number_of_its_own():
    """Limits stand in rules.py alone: other modules compare with a rule's limit, with 0 or 1 of a count, or with an index."""
    for path in (ROOT / "studies" / "claims").glob("*.py"):
        if path.name != "rules.py":
            assert not re.findall(r"(?:below|above|rarely)\([^)]*, *-?\d", path.read_text()), path
            assert not re.findall(r"(?:HOLDS|FAILS|OPEN) if [^\n]*[<>]=? *\d*\.\d", path.read_text()), path


def test_every_finding_names_its_rule_and_whose_it_is():
    names = {rule.name for rule in rules.RULES}
    for row in STORED:
        assert {part.removesuffix(f" ({LATER})") for part in row["rule"].split("; ")} <= names, row
        assert row["whose"] in (PAPER, OURS)
        assert row["measured"]
        assert row["uncertainty"]
    assert [row["whose"] for row in STORED] == sorted((row["whose"] for row in STORED), reverse=True)  # the paper's come first


def test_one_seed_decides_nothing():
    """Where the uncertainty is a single seed, the verdict is undecided."""
    lonely = [row for row in STORED if "1 seed" in row["uncertainty"]]
    assert all("holds" not in row["verdict"] and FAILS not in row["verdict"] for row in lonely if ";" not in row["uncertainty"])
    one = Effect(0.1, 0.1, 0.1, 1)
    assert (below(one, 1.0), above(one, 0.0), one.interval) == (OPEN, OPEN, "1 seed")


def test_the_summary_counts_verdicts_and_intervals():
    found = [
        ("paper", HOLDS, "± 0.1 (95%, 5 seeds)"),
        ("paper", OPEN, "0.1 to 0.2; -0.3 to -0.1 (95%, 5 seeds)"),
        ("paper", "printed: holds; schedule: undecided", "1.0e-05 to 2; 3 to 4 (95%, 5 seeds)"),
        ("ours", FAILS, "exact"),
        ("ours", TRIVIAL, "6 rows of one run; to be repeated"),
    ]
    lines = summary([{"whose": whose, "verdict": word, "uncertainty": text} for whose, word, text in found]).splitlines()
    assert lines[2:4] == ["| of the paper | 1 | 0 | 0 | 1 | 1 | 3 |", "| ours | 0 | 1 | 1 | 0 | 0 | 2 |"]
    assert lines[-1].endswith("There are 5 intervals of 95%; by chance about 0 of them may miss the truth.")
    every = summary(STORED).splitlines()
    assert sum(int(line.split("|")[-2]) for line in every[2:4]) == len(STORED)


def test_the_page_lists_the_rules_and_what_was_changed_after_a_look():
    text = (ROOT / "docs" / "verdicts.md").read_text()
    assert rules_markdown() in text
    assert with_verdicts(text, STORED) == text
    changed = [row["claim"] for row in STORED if LATER in row["rule"]]
    listed = text.split("## What was changed after a first look")[1]
    assert changed
    for claim in changed:
        assert claim.split(",")[0].removesuffix(" of those with a guarantee") in listed, claim


def test_goals_are_those_of_the_benchmarks():
    run = json.loads((ROOT / "benchmarks" / "results" / "2026-11-16.json").read_text())
    for goal in ours_speed.GOALS:
        if goal.file == "":
            rows = [row for row in run["rows"] if goal.wanted(row)]
            sign = ">=" if goal.at_least else "<="
            assert {row["target"] for row in rows} == {f"{sign} {goal.rule.limit:g}"}, goal.claim


# ------------------------------------------------------------------------------------------------------------- statistics


def test_below_and_above():
    assert [below(Effect(1, low, high, 5), 2) for low, high in ((0, 1.9), (0, 2.1), (2.1, 3))] == [HOLDS, OPEN, FAILS]
    assert [above(Effect(1, low, high, 5), 2) for low, high in ((2.1, 3), (1.9, 3), (0, 1.9))] == [HOLDS, OPEN, FAILS]


def test_effect_and_quotient_against_slow_twins():
    sample = [3.0, 4.0, 8.0]
    mean = sum(sample) / 3
    deviation = math.sqrt(sum((x - mean) ** 2 for x in sample) / 2)
    half = 4.302653 * deviation / math.sqrt(3)  # from a table of Student's t
    found = effect(sample)
    assert (found.value, found.low, found.high) == pytest.approx((mean, mean - half, mean + half), rel=1e-5)
    logs = [math.log(a / b) for a, b in zip(sample, (1.0, 2.0, 2.0), strict=True)]
    over = quotient(np.array(sample), np.array([1.0, 2.0, 2.0]))
    assert over.value == pytest.approx((3 * 2 * 4) ** (1 / 3))
    assert math.log(over.high) == pytest.approx(effect(logs).high)
    assert rules.LEVEL.limit == pytest.approx(2 * 0.975 - 1)  # of `half_width`


def test_pairs_go_by_seed_and_not_by_place():
    ours, theirs = [{"seed": s, "regret": r} for s, r in ((0, 1), (1, 2), (2, 3))], [{"seed": s, "regret": s} for s in (2, 1, 0)]
    assert [one.tolist() for one in paired(ours, theirs)] == [[1, 2, 3], [0, 1, 2]]
    for others in ([{"seed": 7, "regret": 1}], theirs[:2], []):
        with pytest.raises(ValueError, match="cannot be paired"):
            paired(ours, others)
    with pytest.raises(ValueError, match="cannot be paired"):
        paired([*ours, ours[0]], theirs)


def test_bounds_of_a_probability_by_search():
    """Clopper and Pearson: the upper bound is the largest p under which so few would still come in 5% of the cases."""
    for times, n in ((0, 60), (3, 20), (20, 20)):
        grid = np.linspace(0, 1, 20_001)
        few = np.array([stats.binom.cdf(times, n, p) for p in grid])
        many = np.array([stats.binom.sf(times - 1, n, p) for p in grid])
        lower, upper = often(times, n)
        assert upper == pytest.approx(grid[few >= 0.05].max(), abs=1e-4)
        assert lower == pytest.approx(grid[many >= 0.05].min() if times else 0.0, abs=1e-4)
    assert [rarely(times, 60, 0.1) for times in (0, 6, 30)] == [HOLDS, OPEN, FAILS]


def test_quotient_of_spreads_covers():
    """By simulation: the interval holds the true quotient of standard deviations in 95% of the cases."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(2000):
        found = quotient_of_spreads(rng.normal(0, 2, 5), rng.normal(0, 1, 6))
        inside += found.low <= 2 <= found.high
    assert inside / 2000 == pytest.approx(0.95, abs=0.015)
    assert above(quotient_of_spreads(np.array([1.0]), np.array([1.0, 2.0])), 1.0) == OPEN


def test_joined_words():
    assert joined({"a": HOLDS, "b": HOLDS}) == HOLDS
    assert joined({"a": HOLDS, "b": OPEN}) == "a: holds; b: undecided"
    for words in itertools.product((HOLDS, FAILS, OPEN), repeat=2):
        assert all_of(words) == (FAILS if FAILS in words else OPEN if OPEN in words else HOLDS)


# ------------------------------------------------------------------------------------------------------------- nested fleets


def nested_table(power, seeds=5, sway=0.0, noise=0.02, teams=(1, 3, 10, 30, 100), episodes=(300, 1000)):
    """Regret of UCRL2-MC: UCRL2's times 0.3 N ** power, with a little luck of each run. sway: by how much seeds differ in power."""
    rng, rows = np.random.default_rng(1), []
    for seed, n, k in itertools.product(range(seeds), teams, episodes):
        theirs = n * k * (1 + 0.1 * seed)
        for radii in (sharing.PRINTED, sharing.SCHEDULE):
            about = {"radii": radii, "teams": n, "episodes": k, "seed": seed}
            rows += [{"learner": b, **about, "regret": theirs} for b in sharing_map.BASELINES]
        for radii in sharing.RADII:
            ours = 0.3 * theirs * n ** (power + sway * (seed - 2)) * float(np.exp(noise * rng.normal()))
            rows.append({"learner": sharing.OURS, "radii": radii, "teams": n, "episodes": k, "seed": seed, "regret": ours})
    return rows


@pytest.mark.parametrize(("power", "verdict"), [(-0.2, HOLDS), (0.2, FAILS), (0.0, OPEN)])
def test_the_slope_of_nested_fleets(power, verdict):
    found = ours_fleets.falls_when_nested(nested_table(power, sway=0.0 if power else 0.1))
    assert [(one.verdict, one.whose) for one in found] == [(verdict, OURS)] * 4
    assert [("1 to 10," in one.claim, "10 to 100," in one.claim) for one in found] == [(True, False), (False, True)] * 2
    if power:
        slopes = ours_fleets.nested_slopes(nested_table(power), sharing.PRINTED, BASELINES[0], (1, 3, 10, 30, 100))
        assert slopes[-1].value == pytest.approx(power * math.log(10), abs=0.03)
        lengths = 2 if verdict == HOLDS else 0
        assert f"falls, with its whole interval, at {lengths} of 2 lengths" in found[0].measured


def test_a_ratio_that_stops_falling_is_told_so():
    """It falls up to ten teams, and rises from there."""
    rows = nested_table(0.0)
    bent = [{**row, "regret": row["regret"] * (row["teams"] / 10) ** (-0.3 if row["teams"] < 10 else 0.3)} for row in rows]
    flat = [row if row["learner"] == sharing.OURS else plain for row, plain in zip(bent, rows, strict=True)]
    assert [one.verdict for one in ours_fleets.falls_when_nested(flat)] == [HOLDS, FAILS] * 2


def test_which_t_the_shared_radius_has():
    rows = nested_table(-0.2, noise=0.001)
    ((found),) = ours_fleets.which_t(rows)
    assert found.verdict == HOLDS
    assert "1 teams" not in found.measured
    wider = [{**row, "regret": row["regret"] * (1.2 if row["radii"] == sharing.PRINTED else 1)} for row in rows]
    assert ours_fleets.which_t(wider)[0].verdict == FAILS


def test_the_slope_is_one_for_each_seed():
    """Slow twin: the formula of least squares, seed by seed, then their mean. The order of rows does not matter."""
    rows = nested_table(-0.1, noise=0.2)
    twin = []
    for seed in range(5):
        x, y = [], []
        for n in (1, 3, 10, 30, 100):
            regret = {
                name: next(
                    r["regret"]
                    for r in rows
                    if (r["learner"], r["radii"], r["teams"], r["episodes"], r["seed"]) == (name, sharing.PRINTED, n, 1000, seed)
                )
                for name in (sharing.OURS, BASELINES[1])
            }
            x.append(math.log10(n))
            y.append(math.log(regret[sharing.OURS] / regret[BASELINES[1]]))
        a, b = sum(x) / 5, sum(y) / 5
        twin.append(sum((p - a) * (q - b) for p, q in zip(x, y, strict=True)) / sum((p - a) ** 2 for p in x))
    mixed = [rows[i] for i in np.random.default_rng(3).permutation(len(rows))]
    found = ours_fleets.nested_slopes(mixed, sharing.PRINTED, BASELINES[1], (1, 3, 10, 30, 100))[-1]
    assert found.value == pytest.approx(sum(twin) / 5)
    assert found.high == pytest.approx(effect(twin).high)


def test_the_same_teams_in_a_larger_fleet():
    """Team i loses i + 1, and half of that in a fleet of 10 or more: who else is in a fleet does not matter."""
    rng, rows = np.random.default_rng(0), []
    for seed, radii, n in itertools.product(range(5), sharing_why.RADII, (3, 10, 100)):
        luck = math.exp(0.01 * rng.normal())
        shared = {"learner": sharing.OURS, "radii": radii, "seed": seed, "teams": n}
        rows += [{**shared, "team": i, "regret": (i + 1) * luck * (1.0 if n == 3 else 0.5)} for i in range(n)]
    for found in ours_fleets.larger_fleets(rows):
        assert found.verdict == "3 to 10: does not hold; 10 to 100: holds"
        assert [round(float(x), 1) for x in re.findall(r"to \d+: ([\d.]+)", found.measured)] == [2.0, 1.0]


def test_the_first_teams_of_all_fleets():
    """The table of `team-count` has what they lose in each."""
    parts = list(FIGURES["team-count"].parts(Options(quick=True, episodes=5, repeats=2)))
    rows = FIGURES["team-count"].table([(part, part.run(lambda done: None)) for part in parts])
    for row in rows:
        runs = [part for part in parts if part.arguments["learner"] == row["learner"] and part.arguments["seed"] == row["seed"]]
        ran = row["teams"] if row["learner"] == sharing.OURS else 10
        (run,) = [part for part in runs if part.arguments["teams"] == ran]
        assert row["first"] == pytest.approx(sum(one["regret"] for one in run.run(lambda done: None)["team"] if one["team"] < 3))
    (found,) = paper_river.in_a_larger_fleet(rows)
    assert found.claim == "The same 3 teams lose less in a fleet of 10 than in one of 3"


@pytest.mark.parametrize(("power", "verdict"), [(0.0, HOLDS), (0.2, FAILS)])
def test_whether_a_hundred_teams_benefit(power, verdict):
    """They lose 0.3 times as much, or 0.3 * 100 ** 0.2 = 0.75 times."""
    found = paper_river.sharing_helps(nested_table(power))
    assert [(one.verdict, one.whose) for one in found] == [(verdict, PAPER)] * 2
    shown = [float(x) for x in re.findall(r"episodes: ([\d.]+)", found[0].measured)]
    assert shown == pytest.approx([0.3 * 100**power] * 2, rel=0.05)


def test_nested_fleets_with_one_seed_are_undecided():
    rows = nested_table(-0.5, seeds=1)
    found = [*ours_fleets.falls_when_nested(rows), *paper_river.sharing_helps(rows), *ours_fleets.which_t(rows)]
    assert {one.verdict for one in found} == {OPEN}
    assert {one.uncertainty for one in found} == {"1 seed"}


@pytest.mark.parametrize(
    ("a", "b", "river", "rest"), [(20.0, 80.0, HOLDS, FAILS), (80.0, 20.0, FAILS, HOLDS), (50.0, 50.0, OPEN, FAILS)]
)
def test_what_sharing_can_save(a, b, river, rest):
    """A team that knows the river loses a, one alone a + b, in a fleet of N a + b / sqrt(N): with a hundred 1.4, 1.03, 1.1 a."""
    rng, rows, sizes = np.random.default_rng(0), [], (1, 3, 10, 30, 100)
    for seed, radii in itertools.product(range(5), sharing_why.RADII):
        mine = a * (1 + 0.05 * rng.normal()), b * (1 + 0.05 * rng.normal())
        shared = {"radii": radii, "seed": seed, "episodes": 10}
        for learner, regret in ((sharing.ALONE, sum(mine)), (sharing.KNOWN, mine[0])):
            rows += [{**shared, "learner": learner, "teams": 100, "team": i, "regret": regret} for i in range(100)]
        for n in sizes:
            regret = mine[0] + mine[1] / math.sqrt(n)
            rows += [{**shared, "learner": sharing.OURS, "teams": n, "team": i, "regret": regret} for i in range(n)]
    found = ours_fleets.sharing_why(rows)
    assert [one.verdict for one in found] == [river, rest, HOLDS]
    assert "misses by 0%; the mean over seeds by 0% (a = " in found[2].measured
    bent = [{**row, "regret": row["regret"] * (3 if row["teams"] == 10 and row["learner"] == sharing.OURS else 1)} for row in rows]
    assert ours_fleets.shape(bent).verdict == FAILS


@pytest.mark.parametrize(("factor", "verdict"), [(0.5, HOLDS), (2.0, FAILS)])
def test_for_whom_sharing_pays(factor, verdict):
    """Teams that share lose `factor` times as much; in those of like agents, p from 0.4 to 0.6, the inverse of it."""
    rng, each = np.random.default_rng(0), []
    for seed, radii, learner in itertools.product(range(5), sharing_why.RADII, (sharing.OURS, sharing.ALONE)):
        about, ours = {"radii": radii, "seed": seed, "learner": learner, "teams": 100}, learner == sharing.OURS
        luck = math.exp(0.02 * rng.normal())
        for i in range(100):
            p = (i + 0.5) / 100
            mine = 1 / factor if 0.4 <= p < 0.6 else factor
            each.append({**about, "episodes": 1000, "team": i, "p": p, "regret": (mine if ours else 1) * luck})
    other = FAILS if verdict == HOLDS else HOLDS
    for one in ours_fleets.sharing_pays_for(each):
        cases = [f"p in 0.{i} to 0.{i + 1}: {other if i == 4 else verdict}" for i in range(5)]
        assert one.verdict == "; ".join(cases).replace("0.0 ", "0 ")


# ------------------------------------------------------------------------------------------------------------- machines


def machine_table(spread, ratio, seeds=5):
    rows = []
    for control, switch in lane.COSTS:
        shared = {"control_cost": control, "switch_cost": switch}
        for i in range(5):
            ours = 1000 * math.exp(spread * (i - 2))
            for way, more in (
                (machines.OTHER_MACHINE, {"machine": i, "seed": 0}),
                (machines.OTHER_SEED, {"seed": i, "machine": ""}),
            ):
                if way == machines.OTHER_SEED and i >= seeds:
                    continue
                mine = ours if way == machines.OTHER_MACHINE else 1000 * math.exp(0.01 * (i - 2))
                each = ratio[i] if way == machines.OTHER_MACHINE else 0.5
                rows += [
                    {**shared, **more, "way": way, "learner": name, "regret": regret}
                    for name, regret in zip(machines.LEARNERS, (mine, mine / each), strict=True)
                ]
    return rows


@pytest.mark.parametrize(
    ("spread", "ratio", "verdicts"),
    [
        (0.3, [0.5, 0.5, 0.6, 0.5, 0.5], [HOLDS, HOLDS]),
        (0.001, [0.5, 0.5, 1.1, 0.5, 0.5], [FAILS, OPEN]),  # one run of one machine refutes nothing
        (0.001, [1.2, 1.3, 1.1, 1.2, 1.2], [FAILS, FAILS]),
        (0.012, [0.9, 0.8, 0.9, 0.85, 0.9], [OPEN, HOLDS]),
        (0.012, [0.9999, 0.9, 0.9999, 0.9999, 0.9999], [OPEN, OPEN]),
    ],
)
def test_machines(spread, ratio, verdicts):
    assert [one.verdict for one in ours_people.machines(machine_table(spread, ratio))] == verdicts


def test_the_spread_over_one_seed_decides_nothing():
    matters, ahead = ours_people.machines(machine_table(0.3, [0.5] * 5, seeds=1))
    assert (matters.verdict, matters.uncertainty) == (OPEN, "1 seed")
    assert ahead.verdict == HOLDS


# ------------------------------------------------------------------------------------------------------------- our tables


def final(seeds, regret, **columns):
    """Make last points of curves. regret: one number for each seed, or one for all."""
    each = [regret] * seeds if isinstance(regret, float | int) else regret
    return [
        {**columns, "seed": s, "episode": 100, "episodes": 100, "regret": float(r)} for s, r in zip(range(seeds), each, strict=True)
    ]


@pytest.mark.parametrize(("welcomed", "verdict"), [([30, 40, 50], HOLDS), ([150, 160, 170], FAILS), ([50, 100, 200], OPEN)])
def test_newcomers(welcomed, verdict):
    rows = []
    for world in ("RiverSwim, agents 0.3 and 0.7", "lane driving"):
        rows += final(3, welcomed, world=world, newcomer=ours_fleets.WITH) + final(3, 100, world=world, newcomer=ours_fleets.ALONE)
    much, little = ours_fleets.newcomer(rows)
    assert much.verdict == verdict
    assert little.verdict == {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}[verdict]


def test_freshness():
    rows = final(5, 100, world="w", sync_every=1) + final(5, [101, 102, 103, 102, 101], world="w", sync_every=10)
    rows += final(5, [130, 140, 150, 140, 130], world="w", sync_every=100)
    assert [one.verdict for one in ours_fleets.freshness(rows)] == [HOLDS, HOLDS]
    rows = final(5, 100, world="w", sync_every=1) + final(5, [111, 112, 113, 112, 111], world="w", sync_every=10)
    rows += final(5, [90, 91, 92, 91, 90], world="w", sync_every=100)
    assert [one.verdict for one in ours_fleets.freshness(rows)] == [FAILS, FAILS]


def people_table(after_never, after_forgetting, before_forgetting=2.0):
    """Straight pieces of regret: 1 an episode before the change, then so much right after it, and so much at the end."""
    rows = []
    for before, after in ours_people.CHANGES:
        for name, seed in itertools.product(ours_people.FORGETTING, range(3)):
            never = name == "never forgets"
            new, late = after_never if never else after_forgetting
            total, luck = 0.0, 1 + 0.01 * seed
            for k in range(10, 1001, 10):
                rate = (1.0 if never else before_forgetting) if k <= 500 else new if k <= 600 else late
                total += 10 * rate * luck
                rows.append(
                    {
                        "before": before,
                        "after": after,
                        "forgetting": name,
                        "seed": seed,
                        "episode": k,
                        "episodes": 1000,
                        "regret": total,
                    }
                )
    return rows


def test_people_who_change():
    sooner, costs, worse, late = ours_people.people_change(people_table((9.0, 1.0), (3.0, 0.5)))
    assert [one.verdict for one in (sooner, costs, worse, late)] == [HOLDS, HOLDS, HOLDS, FAILS]
    sooner, costs, worse, late = ours_people.people_change(people_table((9.0, 8.0), (20.0, 19.0), 0.5))
    assert [one.verdict for one in (sooner, costs, worse, late)] == [FAILS, FAILS, FAILS, HOLDS]


def limits_table(beyond, cost):
    """Shares that are beyond their limit by `beyond` at a quarter of the run and at its end."""
    rows = []
    for (side, limit), seed, k in itertools.product((("at_most", 0.1), ("at_least", 0.3)), range(3), (250, 950, 1000)):
        over = beyond[0 if k == 250 else 1] * (1 + 0.01 * seed)
        share = limit + over if side == "at_most" else limit - over
        shared = {"learner": "UCRL2-MC, structured", "side": side, "limit": limit, "seed": seed, "episode": k, "episodes": 1000}
        rows.append({**shared, "share_so_far": share, "cost": cost, "best_cost": 4.0})
    return rows


def test_limits():
    assert [one.verdict for one in ours_people.limits(limits_table((0.02, 0.004), 4.1))] == [HOLDS] * 3
    assert [one.verdict for one in ours_people.limits(limits_table((0.02, 0.019), 4.5))] == [FAILS] * 3


@pytest.mark.parametrize(("broken", "verdict"), [(0, HOLDS), (10, OPEN), (30, FAILS)])
def test_never_worse(broken, verdict):
    rows = [
        {"world": "w", "alpha": 0.1, "worst": 1.2 if i < broken else 1.05, "episode": 9, "episodes": 9, "seed": i}
        for i in range(60)
    ]
    rows += [{"world": "w", "alpha": "", "worst": 1.3, "episode": 9, "episodes": 9, "seed": i} for i in range(4)]
    (found,) = ours_people.never_worse(rows)
    assert found.verdict == verdict
    assert found.measured == f"{broken} of 60; without a baseline 4 of 4"


def test_structure_against_algorithms():
    def table(structured, scaled):
        rows = []
        for world in ("RiverSwim", "lane driving", "FrozenLake"):
            for name, guarantee, regret in (
                (ours_learners.MC, "yes", 1000),
                (ours_learners.STRUCTURED, "yes", structured),
                (ours_learners.SAMPLING, "no", 60),
                (ours_learners.SAMPLING_STRUCTURED, "no", 5),
                ("UCRL2-MC, scaled 0.1, 0.01", "no: radii are scaled", scaled),
                *((baseline, "yes", 2000) for baseline in BASELINES),
                ("human alone", "learns nothing", 1),
            ):
                luck = [regret * (1 + 0.01 * i) for i in range(3)]
                watched = name.startswith("UCRL2-MC")
                seen = (
                    {"looks": 5, "left": int("scaled" in name), "above": 0} if watched else {"looks": "", "left": "", "above": ""}
                )
                rows += final(3, luck, world=world, learner=name, guarantee=guarantee, **seen)
        return rows

    found = ours_learners.promises(table(structured=20, scaled=50))
    assert [one.verdict for one in found] == [HOLDS] * 7
    assert [one.measured for one in found[5:]] == ["0 of 9", "9 of 9"]  # 18 and 9 runs of three worlds and three seeds
    left = [
        {**row, "left": 1} if row["guarantee"] == "yes" and row["seed"] == 1 and row["looks"] != "" else row
        for row in table(20, 50)
    ]
    assert [(one.measured, one.verdict) for one in ours_learners.promises(left)[5:6]] == [("3 of 9", FAILS)]
    worth, sure, every = ours_learners.promises(table(structured=200, scaled=50))[:3]
    assert [worth.verdict, sure.verdict, every.verdict] == [FAILS, HOLDS, FAILS]


@pytest.mark.parametrize(("seeds", "verdict"), [(5, "printed: does not hold; schedule: holds; constant: holds"), (1, "undecided")])
def test_sublinear_in_the_obstacle_task_needs_seeds(seeds, verdict):
    rows = []
    for name, radii, (c, x), seed in itertools.product(lane.LEARNERS, lane.RADII, lane.COSTS, range(seeds)):
        power = (1.0 if radii == "printed" else 0.5) + 0.001 * seed
        shared = {"learner": name, "radii": radii, "control_cost": c, "switch_cost": x, "seed": seed, "episodes": 100}
        rows += [{**shared, "episode": k, "regret": k**power} for k in range(1, 101)]
    assert {one.verdict for one in paper_lane.lane_sublinear(rows)} == {verdict}


def control_table(shares, seeds=5):
    """Rows of `human-control`: the same shares for all radii, by costs and level, with a little luck."""
    rng, rows = np.random.default_rng(0), []
    for radii, (i, (c, x)), (j, level), seed in itertools.product(
        lane.RADII, enumerate(lane.COSTS), enumerate(paper_lane.LEVELS), range(seeds)
    ):
        share = shares[i][j] + (0.002 * float(rng.normal()) if shares[i][j] else 0.0)
        about = {"radii": radii, "control_cost": c, "switch_cost": x, "traffic": level, "seed": seed, "roads": 500}
        rows.append({**about, "human_share": share})
    return rows


BY_COSTS = "; ".join(f"{radii}, with costs: {FAILS}; {radii}, without costs: {HOLDS}" for radii in lane.RADII)


@pytest.mark.parametrize(
    ("shares", "verdicts"),
    [
        (((0.1, 0.2, 0.4), (0.2, 0.3, 0.6)), [HOLDS, HOLDS, HOLDS]),
        (((0.0, 0.0, 0.4), (0.2, 0.3, 0.3)), [FAILS, HOLDS, FAILS]),  # no step at all, with every seed, is no step up
        (((0.6, 0.7, 0.8), (0.2, 0.3, 0.9)), [HOLDS, BY_COSTS, HOLDS]),
    ],
)
def test_who_drives_where(shares, verdicts):
    assert [one.verdict for one in paper_lane.human_control(control_table(shares))] == verdicts
    assert {one.verdict for one in paper_lane.human_control(control_table(shares, seeds=1))} == {OPEN}


def test_unused_actions_cost_nothing_or_something():
    rows = []
    for n, seed in itertools.product((2, 4, 8), range(5)):
        luck = math.exp(0.01 * seed)
        for name, regret in ((action_why.PRINTED, 100.0 * (1 if n == 2 else 2.5)), (action_why.SAME_FORM, 90.0 + n)):
            about = {"learner": name, "actions": n, "seed": seed, "episodes": 9, "episode": 9}
            rows.append({**about, "regret": regret * luck})
    (found,) = paper_theory.untaken_actions(rows)
    assert (found.verdict, found.whose) == ("from 2 to 4: does not hold; from 4 to 8: holds", OURS)
    shown = [float(x) for x in re.findall(r"to \d: ([\d.]+)", found.measured)]
    assert shown == pytest.approx([2.5 * 92 / 94, 94 / 98], rel=0.01)


def test_against_each_driver_alone():
    """The human is the better driver with costs, the machine without; UCRL2-MC lies below both, or only below the worse one."""
    rows = []
    for (i, (c, x)), (name, regret) in itertools.product(enumerate(lane.COSTS), (("human", (80, 90)), ("machine", (100, 70)))):
        about = {"control_cost": c, "switch_cost": x, "episodes": 9, "episode": 9}
        rows.append({**about, "learner": name, "radii": "none", "seed": 0, "regret": float(regret[i])})
        if name == "human":
            runs = itertools.product(range(5), (("printed", 95.0), ("schedule", 75.0), ("constant", 10.0)))
            rows += [{**about, "learner": "UCRL2-MC", "radii": r, "seed": s, "regret": much + 0.1 * s} for s, (r, much) in runs]
    found = paper_lane.ahead_of_drivers(rows)
    words = f"printed: {FAILS}; schedule, with costs: {HOLDS}; schedule, without costs: {FAILS}; constant: {HOLDS}"
    assert (found.verdict, found.whose) == (words, PAPER)
    assert found.measured.startswith("printed 1.19, 1.36")


def test_where_a_lead_comes_from():
    """Sharing is worth a factor 2, being told the machine costs a tenth, layers alone lose as much as UCRL2, with much luck."""
    rng, rows = np.random.default_rng(0), []
    worth = {lane_why.BOTH: 1.1, lane_why.ALONE: 2.2, lane_why.UNTOLD: 1.0, lane_why.NEITHER: 2.0, lane_why.SAME_FORM: 2.0}
    for (name, regret), seed in itertools.product(worth.items(), range(5)):
        luck = math.exp((0.3 if name == lane_why.SAME_FORM else 0.01) * rng.normal())
        rows.append({"learner": name, "teams": 10, "seed": seed, "episode": 9, "episodes": 9, "regret": regret * luck})
    shared, told, layers = ours_fleets.lane_why(rows)
    assert [one.verdict for one in (shared, told, layers)] == [HOLDS, FAILS, OPEN]
    assert re.findall(r"known: ([\d.]+)", shared.measured)[0].startswith("0.5")


def test_a_bound_that_no_run_could_break_holds_as_it_must():
    rows = [{"seed": 0, "axis": "T", **growth_runs.USUAL, "T": 100, "regret": 5.0, "bound": bound} for bound in (1000.0, 900.0)]
    (found,) = paper_theory.growth(rows)
    assert (found.verdict, found.measured) == (TRIVIAL, "0.00556 (9.00)")
    assert paper_theory.growth([{**rows[0], "bound": 50.0}])[0].verdict == HOLDS
    assert paper_theory.growth([{**rows[0], "bound": 4.0}])[0].verdict == FAILS


def test_what_has_no_logarithm_is_refused():
    with pytest.raises(ValueError, match=r"-3\.0 has no logarithm"):
        quotient(np.array([1.0, -3.0]), np.array([1.0, 1.0]))
    assert quotient(np.array([0.0, -1e-15]), np.array([1.0, 1.0])).value < 1e-9


# ------------------------------------------------------------------------------------------------------------- benchmarks


def test_the_newest_benchmark_decides_and_a_missed_goal_is_told(tmp_path):
    def save(day, ratio, **more):
        rows = [{"section": "threads", "what": "lane driving, two threads", "ratio": ratio, "target": ">= 1.6"}]
        (tmp_path / f"{day}-fleets.json").write_text("{}")
        (tmp_path / f"{day}.json").write_text(json.dumps({"date": day, "rows": rows, **more}))

    goal = next(goal for goal in ours_speed.GOALS if goal.claim.startswith("Two threads"))
    save("2026-01-01", 1.9)
    save("2026-02-01", 1.2)
    path = ours_speed.newest(tmp_path, "")
    assert path.name == "2026-02-01.json"
    assert [one.verdict for one in ours_speed.judge_goal(goal, path)] == [FAILS]
    assert [one.verdict for one in ours_speed.judge_goal(goal, tmp_path / "2026-01-01.json")] == [HOLDS]
    for close in (1.5, 1.7):
        save("2026-01-15", close)
        assert [one.verdict for one in ours_speed.judge_goal(goal, tmp_path / "2026-01-15.json")] == [OPEN]
    save("2026-03-01", 1.9, quick=True)
    assert ours_speed.judge_goal(goal, ours_speed.newest(tmp_path, "")) == []
    assert ours_speed.newest(tmp_path, "-service") is None
    with pytest.raises(ValueError, match="cannot be used, must be a result of the benchmarks"):
        ours_speed.judge_goal(goal, tmp_path / "2026-01-01-fleets.json")
    with pytest.raises(ValueError, match="has no rows about"):
        ours_speed.judge_goal(ours_speed.GOALS[0], tmp_path / "2026-01-01.json")


# ------------------------------------------------------------------------------------------------------------- pages


def test_the_papers_claims_come_first_whatever_the_order_of_rows():
    about = {"cede": "1", "base_seed": 0, "quick": 0}
    rows = [{**vars(Finding(f"{whose} | a", "f", "s", "1", "2", HOLDS, "less", whose)), **about} for whose in (OURS, PAPER)]
    lines = [line for line in markdown(rows).splitlines() if line.startswith(("<summary>", "| paper", "| ours"))]
    assert lines == [
        "<summary>All 1 rows on claims of the paper</summary>",
        r"| paper \| a | **holds** | 1 | 2 | s | less | `f` |",
        "<summary>All 1 rows on our own claims</summary>",
        r"| ours \| a | **holds** | 1 | 2 | s | less | `f` |",
    ]


def test_the_first_screen_shows_a_dozen_claims_of_the_paper_as_stored():
    """Every number and every interval stands in the row of the claim, and the word agrees with its verdict."""
    stored = {row["claim"]: row for row in STORED if row["whose"] == PAPER}
    shown = main_rows(STORED)
    assert len(shown) == len(MAIN) == 12
    for one, (_, verdict, number, figure) in zip(MAIN, shown, strict=True):
        row = stored[one.claim]
        value = number.removeprefix(f"{one.number} ").split()[0]
        assert value in re.split(r"[ ,;()]+", row["measured"])
        interval = re.search(r"± \S+?(?=;|$)|[^(: ]+ to [^);]+", number)
        assert (interval[0] if interval else row["uncertainty"]) in row["uncertainty"]
        assert verdict == WORDS.get(row["verdict"], MIXED)
        assert figure == row["figure"]
    page = (ROOT / "docs" / "verdicts.md").read_text().split("<details")[0]
    assert len(page.splitlines()) < 30


def test_the_page_folds_all_but_the_first_screen():
    text = (ROOT / "docs" / "verdicts.md").read_text()
    assert text.count("<details") == text.count("</details>")
    assert len(re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL).split()) < 600


def test_claims_of_the_paper_alone(tmp_path):
    assert paper_findings(tmp_path) == all_findings(tmp_path) == []
    assert (*OF_PAPER, *OF_OURS) == CLAIMS
    assert statistics.digits(1234.5) == "1,234"
    assert [statistics.digits(x) for x in (424.0, 1.0046, 1.3, 0.00396)] == ["424", "1.005", "1.30", "0.00396"]
