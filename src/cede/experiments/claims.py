"""Decide for each claim of the paper whether our tables confirm it; write the table of verdicts."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from cede._base.arrays import Floats
from cede.experiments.figure import Row
from cede.experiments.runs import lane, river
from cede.experiments.statistics import half_width, ratios
from cede.experiments.tables import final_rows, load_table, save_table, select, values

HOLDS, FAILS, SCALED, OPEN = "holds", "does not hold", "holds with scaled radii only", "undecided"
SUBLINEAR = 0.9  # largest fitted exponent over the second half that we call sublinear
COMPARABLE = 2.0  # largest factor between two regrets that we call comparable
IN_SCALE = 5.0  # largest factor over which a ratio may vary and still be "within the same scale"
TURNS = {"actions": 4, "agents": 6}  # where the curves of regret ratios turn, as the figures show
BASELINES = ("UCRL2 (same-form)", "UCRL2 (appendix)")


@dataclass(frozen=True)
class Finding:
    """A claim of the paper, what we measured, and the verdict. All text, ready to be shown."""

    claim: str
    figure: str  # whose table was used
    statistic: str  # what was computed from it
    measured: str
    uncertainty: str
    verdict: str


def all_findings(out: Path) -> list[Finding]:
    """Return the findings for all claims whose tables are in the directory."""
    found: list[Finding] = []
    for figure, make in CLAIMS:
        path = out / f"{figure}.csv"
        if path.exists():
            found += from_tables(make, path)
    hundred, count = out / "hundred-teams.csv", out / "team-count.csv"
    if hundred.exists() and count.exists():
        found += from_tables(much_lower_with_hundred, hundred, count)
    return found


def from_tables(make: Callable[..., list[Finding]], *paths: Path) -> list[Finding]:
    """Return the findings that a function makes of tables. Raises ValueError if a table is not what it needs."""
    tables = [load_table(path) for path in paths]
    try:
        return make(*tables)
    except Exception as error:  # a table that was changed by hand may be wrong in any way
        where = " or ".join(str(path) for path in paths)
        raise ValueError(f"{where}: cannot be used, must be the table of its figure as it was written ({error!r})") from error


def missing_figures(out: Path) -> list[str]:
    """Return the names of figures that claims need and whose tables are not in the directory."""
    return [figure for figure in dict.fromkeys([f for f, _ in CLAIMS]) if not (out / f"{figure}.csv").exists()]


def save_findings(out: Path, found: Sequence[Finding], identity: Row) -> None:
    """Write findings to claims.csv in the directory. identity: columns that every row gets, such as version and seed."""
    save_table(out / "claims.csv", [{**asdict(finding), **identity} for finding in found])


# ------------------------------------------------------------------------------------------------------------- statistics


def exponent(rows: Sequence[Row]) -> float:
    """Fit the growth of one regret curve: the slope of log regret over log episode in its second half. 1 is linear."""
    k, regret = np.array([row["episode"] for row in rows], float), np.array([row["regret"] for row in rows], float)
    half = k > k[-1] / 2
    return float(np.polyfit(np.log(k[half]), np.log(np.maximum(regret[half], 1e-12)), 1)[0])


def exponents(rows: Sequence[Row]) -> Floats:
    """Return the fitted exponent of each seed, (seeds,)."""
    return np.array([exponent(select(rows, seed=seed)) for seed in values(rows, "seed")])


def mean_and_half(sample: Sequence[float]) -> tuple[float, float]:
    """Return the mean of a sample and half the width of its 95% interval."""
    table = np.array([sample], dtype=float)
    return float(table.mean()), float(half_width(table)[0])


def interval(half: float, n: int) -> str:
    """Return half the width of a 95% interval as text. n: number of seeds; one seed has no interval."""
    return f"± {half:.2g} (95%, {n} seeds)" if n > 1 else "1 seed"


def slope(rows: Sequence[Row], x: Callable[[Row], float]) -> tuple[float, float, int]:
    """Fit how the regret ratio changes with x. rows: as `ratios` returns them; x: gives the position of a row.

    Fits one slope for each seed, because the points of one seed are not independent. Returns the mean of the slopes, half the width
    of its 95% interval, and the number of seeds.
    """
    xs = np.array([x(row) for row in rows])
    slopes = [float(np.polyfit(xs, np.array(each), 1)[0]) for each in zip(*[row["each"] for row in rows], strict=True)]
    return (*mean_and_half(slopes), len(slopes))


def sign_verdict(value: float, half: float, n: int, *, negative: bool) -> str:
    """Say whether a slope is surely above zero, or surely below zero with negative=True.

    value, half: the slope and half its 95% interval; n: number of seeds. One seed cannot decide.
    """
    if n < 2:
        return OPEN
    if negative:
        value = -value
    return HOLDS if value - half > 0 else FAILS if value + half < 0 else OPEN


def both(verdicts: dict[str, str]) -> str:
    """Join the verdicts on both radii of UCRL2: one word if they agree, else one for each radius. verdicts: by name of learner."""
    different = set(verdicts.values())
    return different.pop() if len(different) == 1 else "; ".join(f"{short(name)}: {word}" for name, word in verdicts.items())


def short(baseline: str) -> str:
    """Return the radius of a UCRL2 from its name: "UCRL2 (appendix)" gives "appendix"."""
    return baseline.split("(")[1].rstrip(")")


# ------------------------------------------------------------------------------------------------------------- claims


def single_team(rows: list[Row]) -> list[Finding]:
    """Judge the claims about one team in the obstacle task."""
    return [*lane_sublinear(rows), lane_linear(rows), comparable(rows)]


def lane_sublinear(rows: list[Row]) -> list[Finding]:
    """Judge whether each learner has sublinear regret: all fitted exponents, with their intervals, below SUBLINEAR."""
    result = []
    n = len(values(rows, "seed"))
    for name in lane.LEARNERS:
        fitted = {
            radii: [
                mean_and_half(exponents(select(rows, learner=name, radii=radii, control_cost=c, switch_cost=x)).tolist())
                for c, x in lane.COSTS
            ]
            for radii in lane.RADII
        }
        sub = {radii: max(mean + half for mean, half in found) < SUBLINEAR for radii, found in fitted.items()}
        measured = "; ".join(f"{radii} {found[0][0]:.2f}, {found[1][0]:.2f}" for radii, found in fitted.items())
        claim = f"{name} has sublinear regret in the obstacle task"
        statistic = "fitted exponent, second half, with and without costs, for each kind of radii"
        widest = max(half for found in fitted.values() for _, half in found)
        result.append(Finding(claim, "single-team", statistic, measured, interval(widest, n), by_radii(sub)))
    return result


def by_radii(passed: dict[str, bool]) -> str:
    """Return the verdict of a test that was made for each kind of radii. The printed ones decide; if they fail, scaled ones may
    pass.
    """
    if passed["printed"]:
        return HOLDS
    return SCALED if passed["schedule"] or passed["constant"] else FAILS


def lane_ratios(rows: list[Row]) -> tuple[dict[str, list[tuple[float, float]]], int]:
    """Compare the final regret of UCRL2-MC with that of each baseline.

    Returns, by baseline, the mean ratio and half its 95% interval for each pair of costs; and the number of seeds.
    """
    last = final_rows(rows)
    result: dict[str, list[tuple[float, float]]] = {}
    for baseline in BASELINES:
        result[baseline] = []
        for c, x in lane.COSTS:
            here = select(last, control_cost=c, switch_cost=x)
            found = ratios(here, "episodes", baseline)[0]
            result[baseline].append((found["ratio"], found["half_width"]))
    return result, len(values(rows, "seed"))


def ratio_text(found: dict[str, list[tuple[float, float]]]) -> str:
    """Return the ratios of `lane_ratios` as text."""
    return "; ".join(f"{short(name)} {pair[0][0]:.2f}, {pair[1][0]:.2f}" for name, pair in found.items())


def lane_linear(rows: list[Row]) -> Finding:
    """Judge whether each driver alone has linear regret."""
    found = [exponents(select(rows, learner=name, control_cost=c)).mean() for name in ("human", "machine") for c, _ in lane.COSTS]
    verdict = HOLDS if all(abs(value - 1) < 1e-6 for value in found) else FAILS
    text = "fitted exponent of the human's and the machine's regret"
    measured = ", ".join(f"{value:.4f}" for value in found)
    return Finding("Each driver alone has linear regret", "single-team", text, measured, "exact", verdict)


def comparable(rows: list[Row]) -> Finding:
    """Judge whether UCRL2-MC and UCRL2 have similar regret with one team: within a factor COMPARABLE."""
    found, n = lane_ratios(select(rows, radii="schedule"))
    near = {name: all(1 / COMPARABLE < mean < COMPARABLE for mean, _ in pair) for name, pair in found.items()}
    verdict = both({name: SCALED if word else FAILS for name, word in near.items()})
    widest = max(half for pair in found.values() for _, half in pair)
    claim = "With one team UCRL2-MC and UCRL2 have comparable regret (within a factor 2)"
    statistic = "final regret of UCRL2-MC / UCRL2, with and without costs, authors' schedule"
    return Finding(claim, "single-team", statistic, ratio_text(found), interval(widest, n), verdict)


def many_teams(rows: list[Row]) -> list[Finding]:
    """Judge whether UCRL2-MC has much less regret than UCRL2 with ten teams in the obstacle task."""
    found, n = lane_ratios(rows)
    good = HOLDS if rows[0]["radii"] == "printed" else SCALED
    verdict = both({name: good if max(mean + half for mean, half in pair) < 0.8 else FAILS for name, pair in found.items()})
    widest = max(half for pair in found.values() for _, half in pair)
    claim = f"With {rows[0]['teams']} teams UCRL2-MC is well below UCRL2 in the obstacle task (ratio < 0.8)"
    statistic = f"final total regret of UCRL2-MC / UCRL2, with and without costs, radii: {rows[0]['radii']}"
    return [Finding(claim, "many-teams", statistic, ratio_text(found), interval(widest, n), verdict)]


def team_count(rows: list[Row]) -> list[Finding]:
    """Judge whether the regret ratio falls with the number of teams."""
    return [
        trend(
            rows, "teams", "The ratio falls with the number of teams", "team-count", lambda row: row["teams"], "team", negative=True
        )
    ]


def trend(
    rows: list[Row], x: str, claim: str, figure: str, position: Callable[[Row], float], unit: str, *, negative: bool
) -> Finding:
    """Judge whether the regret ratio rises or falls along a column of a table.

    x: the column; position: where a row stands on the axis over which the slope is fitted; unit: of that axis, for the text;
    negative: the claim is that the ratio falls.
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
    return Finding(claim, figure, statistic, "; ".join(texts), "; ".join(dict.fromkeys(halves)), both(verdicts))


def trends(
    rows: list[Row], x: str, claim: str, figure: str, position: Callable[[Row], float], unit: str, *, negative: bool
) -> list[Finding]:
    """Judge a trend on both sides of TURNS[x], because one line through all points would hide that the curve turns there."""
    low, turn, high = min(values(rows, x)), TURNS[x], max(values(rows, x))
    sides = [(low, turn, [row for row in rows if row[x] <= turn]), (turn, high, [row for row in rows if row[x] >= turn])]
    return [
        trend(some, x, f"{claim}, from {start} to {end} {x}", figure, position, unit, negative=negative)
        for start, end, some in sides
    ]


def hundred_teams(rows: list[Row]) -> list[Finding]:
    """Judge whether UCRL2-MC has much less regret than UCRL2 with a hundred teams in RiverSwim."""
    last = final_rows(rows)
    found = {b: ratios(last, "teams", b)[0] for b in BASELINES}
    verdict = both({b: HOLDS if row["ratio"] + row["half_width"] < 0.8 else FAILS for b, row in found.items()})
    measured = "; ".join(f"{short(b)} {row['ratio']:.2f}" for b, row in found.items())
    claim = f"With {rows[0]['teams']} RiverSwim teams UCRL2-MC is well below UCRL2 (ratio < 0.8)"
    spread = interval(max(row["half_width"] for row in found.values()), len(values(rows, "seed")))
    return [Finding(claim, "hundred-teams", "final total regret of UCRL2-MC / UCRL2", measured, spread, verdict)]


def much_lower_with_hundred(hundred: list[Row], count: list[Row]) -> list[Finding]:
    """Judge whether a hundred teams have less than half the regret ratio of ten.

    Both are compared after the episodes of the run with a hundred teams, which is half as long as the others.
    """
    last = final_rows(hundred)
    middle = [{**row, "episodes": row["episode"]} for row in count if row["episode"] != row["episodes"]]
    verdicts, texts, halves = {}, [], []
    for b in BASELINES:
        many, few = ratios(last, "teams", b)[0], ratios(middle, "teams", b)[-1]
        verdicts[b] = HOLDS if many["ratio"] + many["half_width"] < 0.5 * few["ratio"] else FAILS
        texts.append(f"{short(b)} {many['ratio']:.2f} against {few['ratio']:.2f} with {few['teams']}")
        halves.append(f"the latter ± {few['half_width']:.2g} (95%)")
    claim = f"The ratio is much lower with {hundred[0]['teams']} teams (less than half)"
    statistic = f"ratio after {hundred[0]['episodes']:,} and after {middle[0]['episode']:,} episodes"
    return [Finding(claim, "hundred-teams", statistic, "; ".join(texts), "; ".join(halves), both(verdicts))]


def action_size(rows: list[Row]) -> list[Finding]:
    """Judge whether the regret ratio grows with the number of actions, and whether it varies by less than a factor IN_SCALE."""
    claim = "The ratio grows with the action space"
    grows = trends(rows, "actions", claim, "action-size", lambda row: float(np.log2(row["actions"])), "doubling", negative=False)
    spreads = {}
    for b in BASELINES:
        each = np.array([row["each"] for row in ratios(rows, "actions", b)])  # (actions, seeds)
        spreads[b] = mean_and_half((each.max(axis=0) / each.min(axis=0)).tolist())
    verdict = both({b: HOLDS if mean + half < IN_SCALE else FAILS for b, (mean, half) in spreads.items()})
    measured = "; ".join(f"{short(b)} {mean:.1f}" for b, (mean, _) in spreads.items())
    claim = f"The ratio stays in scale as actions are added (varies by less than {IN_SCALE:g})"
    widest = interval(max(half for _, half in spreads.values()), len(values(rows, "seed")))
    return [*grows, Finding(claim, "action-size", "largest / smallest ratio of a seed", measured, widest, verdict)]


def team_size(rows: list[Row]) -> list[Finding]:
    """Judge whether UCRL2-MC gains on UCRL2 as the team grows, and is better with the largest team."""
    claim = "UCRL2-MC gains as the team grows"
    gains = trends(rows, "agents", claim, "team-size", lambda row: row["agents"], "agent", negative=True)
    largest = {b: ratios(rows, "agents", b)[-1] for b in BASELINES}
    verdicts = {
        b: HOLDS if row["ratio"] + row["half_width"] < 1 else OPEN if row["ratio"] < 1 else FAILS for b, row in largest.items()
    }
    measured = "; ".join(f"{short(b)} {row['ratio']:.2f}" for b, row in largest.items())
    n = largest[BASELINES[0]]["agents"]
    halves = ", ".join(f"± {row['half_width']:.2g}" for row in largest.values()) + " (95%)"
    claim = "UCRL2-MC outperforms UCRL2 with many agents"
    return [*gains, Finding(claim, "team-size", f"regret ratio with {n} agents", measured, halves, both(verdicts))]


def human_control(rows: list[Row]) -> list[Finding]:
    """Judge whether the human drives more where traffic is heavier."""
    ordered, texts = {}, []
    for radii in lane.RADII:
        steps = []
        for c, x in lane.COSTS:
            here = [
                select(rows, radii=radii, control_cost=c, switch_cost=x, traffic=level) for level in ("no-car", "light", "heavy")
            ]
            share = [np.mean([row["human_share"] for row in level]) for level in here]
            error = [np.sqrt(np.mean([row["standard_error"] ** 2 for row in level]) / len(level)) for level in here]
            steps += [(share[i + 1] - share[i]) - 1.96 * np.hypot(error[i + 1], error[i]) for i in (0, 1)]
            texts.append(f"{radii} {share[0]:.2f} / {share[1]:.2f} / {share[2]:.2f}")
        ordered[radii] = min(steps) > 0
    verdict = by_radii(ordered)
    statistic = "human share no-car / light / heavy, with and without costs; each step must exceed its 95% interval"
    roads = f"{rows[0]['roads']} roads per level"
    return [Finding("More human control in heavier traffic", "human-control", statistic, "; ".join(texts), roads, verdict)]


def drivers(rows: list[Row]) -> list[Finding]:
    """Judge the claims about each driver alone: the machine without and with cars."""
    cost = {(row["traffic"], row["driver"]): row["cost"] for row in rows}
    empty = cost["no-car", "machine"] / cost["no-car", "best driver"]
    busy = cost["light or heavy", "machine"] / cost["light or heavy", "human"]
    return [
        Finding(
            "The machine is near-optimal without cars (within 10%)",
            "drivers",
            "cost of the machine / best driver, no-car",
            f"{empty:.3f}",
            "exact, for this machine",
            HOLDS if empty < 1.1 else FAILS,
        ),
        Finding(
            "The machine is worse than the human with cars",
            "drivers",
            "cost of the machine / human, light or heavy",
            f"{busy:.3f}",
            "exact, for this machine",
            HOLDS if busy > 1 else FAILS,
        ),
    ]


def guarantee(rows: list[Row]) -> list[Finding]:
    """Judge the claims about RiverSwim with the printed radii: growth of regret, the bound of Theorem 2, confidence sets."""
    curves, looked = select(rows, kind="curve"), select(rows, kind="coverage")[0]
    result = []
    for name in river.LEARNERS:
        found = exponents(select(curves, learner=name))
        mean, half = mean_and_half(found.tolist())
        verdict = HOLDS if mean + half < SUBLINEAR else FAILS if mean - half > SUBLINEAR else OPEN
        claim = f"{name} has sublinear regret in RiverSwim with the printed radii"
        result.append(
            Finding(claim, "guarantee", "fitted exponent, second half", f"{mean:.2f}", interval(half, len(found)), verdict)
        )
    alone = [float(exponents(select(curves, learner=name)).mean()) for name in ("p=0.3", "p=0.7")]
    verdict = HOLDS if all(abs(value - 1) < 1e-6 for value in alone) else FAILS
    measured = ", ".join(f"{value:.4f}" for value in alone)
    text = "fitted exponent of each agent's regret"
    result.append(Finding("Each agent alone has linear regret in RiverSwim", "guarantee", text, measured, "exact", verdict))
    worst = [
        max(row["regret"] / row["bound"] for row in select(curves, learner="UCRL2-MC", seed=s)) for s in values(curves, "seed")
    ]
    mean, half = mean_and_half(worst)
    text = "largest regret / bound of a run, at 200 episodes of each"
    verdict = HOLDS if max(worst) < 1 else FAILS
    spread = interval(half, len(worst))
    result.append(Finding("The bound of Theorem 2 is never violated", "guarantee", text, f"{mean:.2g}", spread, verdict))
    return [*result, covered(looked)]


def covered(looked: Row) -> Finding:
    """Judge whether the confidence sets hold with probability 1 - delta. looked: the row of `river.coverage`.

    The verdict uses one-sided 95% bounds (Clopper and Pearson) on the probability that a run ever leaves the sets.
    """
    left, n, delta = looked["left"], looked["runs"], float(looked["delta"])
    upper = float(stats.beta.ppf(0.95, left + 1, n - left)) if left < n else 1.0
    lower = float(stats.beta.ppf(0.05, left, n - left + 1)) if left else 0.0
    verdict = HOLDS if upper < delta else FAILS if lower > delta else OPEN
    claim = f"The truth lies in the confidence sets in all episodes with probability {1 - delta:g}"
    text = f"runs of {looked['run_episodes']} episodes in which the truth was ever outside"
    return Finding(claim, "guarantee", text, f"{left} of {n}", f"probability below {upper:.3f} (95%)", verdict)


def endless_river(rows: list[Row]) -> list[Finding]:
    """Judge our claims about RiverSwim without a horizon."""
    last = final_rows(rows)
    n = len(values(rows, "seed"))
    ours = np.array([row["regret"] for row in select(last, learner="UCRL2-MC")])
    found, verdicts = [], {}
    for name in BASELINES:
        each = ours / np.array([row["regret"] for row in select(last, learner=name)])
        mean, half = mean_and_half(each.tolist())
        found.append(f"{short(name)}: {mean:.3f} ± {half:.1g}")
        verdicts[name] = OPEN if n < 2 else HOLDS if mean + half < 1 else FAILS if mean - half > 1 else OPEN
    mean, half = mean_and_half(exponents(select(rows, learner="UCRL2-MC")).tolist())
    steps = f"{int(last[0]['episodes']):,}"
    return [
        Finding(
            "ours: without a horizon UCRL2-MC still loses less than UCRL2 in RiverSwim",
            "endless-river",
            f"ratio of the regrets after {steps} steps, average cost",
            "; ".join(found),
            f"95%, {n} seeds",
            both(verdicts),
        ),
        Finding(
            "ours: without a horizon its regret grows no faster than the published order, sqrt(T)",
            "endless-river",
            "fitted exponent over the second half",
            f"{mean:.2f}",
            interval(half, n),
            OPEN if n < 2 else HOLDS if mean + half <= 0.5 else FAILS if mean - half > 0.5 else OPEN,
        ),
    ]


def unknown_costs(rows: list[Row]) -> list[Finding]:
    """Judge our claims about costs that must be learned: each a ratio of final regrets, seed by seed, and a limit of it."""
    declared, fleet = "unknown, alike ones declared", "unknown, shared by a fleet"
    claims = (
        ("ours: in RiverSwim not knowing the costs costs at most as much again", "RiverSwim", "unknown", "known", 2.0),
        ("ours: in lane driving it does if alike costs are declared", "lane driving", declared, "known", 2.0),
        ("ours: in lane driving it does without that", "lane driving", "unknown", "known", 2.0),
        ("ours: a fleet learns the costs of the road faster than one team", "lane driving", fleet, "unknown", 1.0),
    )
    last, result = final_rows(rows), []
    for claim, world, costs, against, limit in claims:
        found, verdicts = [], {}
        for learner in values(rows, "learner"):
            here = select(last, world=world, learner=learner)
            pairs = list(zip(select(here, costs=costs), select(here, costs=against), strict=True))
            mean, half = mean_and_half([one["regret"] / other["regret"] for one, other in pairs])
            found.append(f"{learner}: {mean:.2f} ± {half:.2g}")
            n = len(pairs)
            verdicts[learner] = OPEN if n < 2 else HOLDS if mean + half < limit else FAILS if mean - half > limit else OPEN
        verdict = "; ".join(f"{name}: {word}" for name, word in verdicts.items())
        verdict = verdicts.popitem()[1] if len(set(verdicts.values())) == 1 else verdict
        statistic = f"final regret relative to that with costs {against}; at most {limit:g}"
        result.append(Finding(claim, "unknown-costs", statistic, "; ".join(found), f"95%, {n} seeds", verdict))
    return result


CLAIMS: tuple[tuple[str, Callable[[list[Row]], list[Finding]]], ...] = (
    ("guarantee", guarantee),
    ("single-team", single_team),
    ("many-teams", many_teams),
    ("team-count", team_count),
    ("hundred-teams", hundred_teams),
    ("action-size", action_size),
    ("team-size", team_size),
    ("human-control", human_control),
    ("drivers", drivers),
    ("endless-river", endless_river),
    ("unknown-costs", unknown_costs),
)


# ------------------------------------------------------------------------------------------------------------- pages

BEGIN, END = "<!-- verdicts: made by `make verdicts`, not by hand -->", "<!-- end of verdicts -->"


def markdown(rows: Sequence[Row]) -> str:
    """Return the rows of claims.csv as a Markdown table."""
    lines = ["| claim | measured | uncertainty | verdict | figure |", "|---|---|---|---|---|"]
    for row in rows:
        cells = (row["claim"], row["measured"], row["uncertainty"], f"**{row['verdict']}**", f"`{row['figure']}`")
        lines.append("| " + " | ".join(as_text(cell) for cell in cells) + " |")
    first = rows[0]
    quick = ", quick run" if int(first["quick"]) else ""
    lines += ["", f"*cede {first['cede']}, base seed {as_text(first['base_seed'])}{quick}; tables in `results/`.*"]
    return "\n".join(lines)


def as_text(cell: object) -> str:
    """Return a cell of a table as Markdown shows it as it is: no column of its own, no tag of HTML."""
    return re.sub(r"<(?=\S)", "&lt;", str(cell)).replace("|", "\\|")


def with_verdicts(text: str, rows: Sequence[Row]) -> str:
    """Return a document in which the text between the marks BEGIN and END is replaced by the table. rows: of claims.csv."""
    return between(text, BEGIN, END, markdown(rows))


def between(text: str, begin: str, end: str, new: str) -> str:
    """Return a document in which the text between two marks is replaced."""
    head, rest = text.split(begin)
    return f"{head}{begin}\n{new}\n{end}{rest.split(end)[1]}"
