"""What the paper claims, what we measured, and a verdict; everything computed from the figures' tables."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from cede._check import Floats
from cede.experiments import lane, river
from cede.experiments.core import Row, load_table, save_table
from cede.experiments.curves import half_width, ratios, select, values

HOLDS, FAILS, SCALED, OPEN = "holds", "does not hold", "holds with scaled radii only", "undecided"
SUBLINEAR = 0.9  # largest fitted exponent over the second half that we call sublinear
COMPARABLE = 2.0  # largest factor between two regrets that we call comparable
IN_SCALE = 5.0  # largest factor over which a ratio may vary and still be "within the same scale"
BASELINES = ("UCRL2 (same-form)", "UCRL2 (appendix)")


@dataclass(frozen=True)
class Finding:
    claim: str
    figure: str
    statistic: str
    measured: str
    uncertainty: str
    verdict: str


def all_findings(out: Path) -> list[Finding]:
    """Of every claim whose table is in the directory."""
    found: list[Finding] = []
    for figure, make in CLAIMS:
        path = out / f"{figure}.csv"
        if path.exists():
            found += make(load_table(path))
    hundred, count = out / "hundred-teams.csv", out / "team-count.csv"
    if hundred.exists() and count.exists():
        found += much_lower_with_hundred(load_table(hundred), load_table(count))
    return found


def missing_figures(out: Path) -> list[str]:
    return [figure for figure in dict.fromkeys([f for f, _ in CLAIMS]) if not (out / f"{figure}.csv").exists()]


def save_findings(out: Path, found: Sequence[Finding], identity: Row) -> None:
    save_table(out / "claims.csv", [{**asdict(finding), **identity} for finding in found])


# ------------------------------------------------------------------------------------------------------------- statistics


def exponent(rows: Sequence[Row]) -> float:
    """Growth of a regret curve: slope of log regret over log episode in the second half."""
    k, regret = np.array([row["episode"] for row in rows], float), np.array([row["regret"] for row in rows], float)
    half = k > k[-1] / 2
    return float(np.polyfit(np.log(k[half]), np.log(np.maximum(regret[half], 1e-12)), 1)[0])


def exponents(rows: Sequence[Row]) -> Floats:
    """One for each seed."""
    return np.array([exponent(select(rows, seed=seed)) for seed in values(rows, "seed")])


def mean_and_half(sample: Sequence[float]) -> tuple[float, float]:
    table = np.array([sample], dtype=float)
    return float(table.mean()), float(half_width(table)[0])


def interval(half: float, n: int) -> str:
    return f"± {half:.2g} (95%, {n} seeds)" if n > 1 else "1 seed"


def slope(rows: Sequence[Row], x: Callable[[Row], float]) -> tuple[float, float]:
    """Of ratio over x, all seeds as points, with half its 95% interval."""
    points = [(x(row), each) for row in rows for each in row["each"]]
    fit = stats.linregress(*np.array(points).T)
    return float(fit.slope), float(stats.t.ppf(0.975, max(len(points) - 2, 1)) * fit.stderr)


def sign_verdict(value: float, half: float, *, negative: bool) -> str:
    """Is a slope surely below (or above) zero?"""
    if negative:
        value = -value
    return HOLDS if value - half > 0 else FAILS if value + half < 0 else OPEN


def both(verdicts: dict[str, str]) -> str:
    """One word if the verdict is the same for both radii of UCRL2, else one for each."""
    different = set(verdicts.values())
    return different.pop() if len(different) == 1 else "; ".join(f"{short(name)}: {word}" for name, word in verdicts.items())


def short(baseline: str) -> str:
    return baseline.split("(")[1].rstrip(")")


# ------------------------------------------------------------------------------------------------------------- claims


def single_team(rows: list[Row]) -> list[Finding]:
    return [*lane_sublinear(rows), lane_linear(rows), comparable(rows)]


def lane_sublinear(rows: list[Row]) -> list[Finding]:
    result = []
    for name in lane.LEARNERS:
        per_setting = {
            radii: [
                float(exponents(select(rows, learner=name, radii=radii, control_cost=c, switch_cost=x)).mean())
                for c, x in lane.COSTS
            ]
            for radii in lane.RADII
        }
        sub = {radii: max(found) < SUBLINEAR for radii, found in per_setting.items()}
        verdict = HOLDS if all(sub.values()) else SCALED if sub["schedule"] or sub["constant"] else FAILS
        measured = "; ".join(f"{radii} {found[0]:.2f}, {found[1]:.2f}" for radii, found in per_setting.items())
        claim = f"{name} has sublinear regret in the obstacle task"
        statistic = "fitted exponent, second half, with and without costs, for each kind of radii"
        result.append(Finding(claim, "single-team", statistic, measured, interval(0, 1), verdict))
    return result


def lane_linear(rows: list[Row]) -> Finding:
    found = [exponents(select(rows, learner=name, control_cost=c)).mean() for name in ("human", "machine") for c, _ in lane.COSTS]
    verdict = HOLDS if all(abs(value - 1) < 1e-6 for value in found) else FAILS
    text = "fitted exponent of the human's and the machine's regret"
    measured = ", ".join(f"{value:.4f}" for value in found)
    return Finding("Each driver alone has linear regret", "single-team", text, measured, "exact", verdict)


def comparable(rows: list[Row]) -> Finding:
    last = [row for row in rows if row["episode"] == row["episodes"]]
    verdicts, texts = {}, []
    for baseline in BASELINES:
        found = []
        for c, x in lane.COSTS:
            here = select(last, radii="schedule", control_cost=c, switch_cost=x)
            ours, theirs = (np.mean([row["regret"] for row in select(here, learner=name)]) for name in ("UCRL2-MC", baseline))
            found.append(float(ours / theirs))
        verdicts[baseline] = SCALED if all(1 / COMPARABLE < r < COMPARABLE for r in found) else FAILS
        texts.append(f"{short(baseline)} {found[0]:.2f}, {found[1]:.2f}")
    claim = "With one team UCRL2-MC and UCRL2 have comparable regret (within a factor 2)"
    statistic = "final regret of UCRL2-MC / UCRL2, with and without costs, authors' schedule"
    return Finding(claim, "single-team", statistic, "; ".join(texts), interval(0, 1), both(verdicts))


def many_teams(rows: list[Row]) -> list[Finding]:
    last = [row for row in rows if row["episode"] == row["episodes"]]
    verdicts, texts = {}, []
    for baseline in BASELINES:
        found = []
        for c, x in lane.COSTS:
            here = select(last, control_cost=c, switch_cost=x)
            ours, theirs = (np.mean([row["regret"] for row in select(here, learner=name)]) for name in ("UCRL2-MC", baseline))
            found.append(float(ours / theirs))
        verdicts[baseline] = (HOLDS if rows[0]["radii"] == "printed" else SCALED) if max(found) < 0.8 else FAILS
        texts.append(f"{short(baseline)} {found[0]:.2f}, {found[1]:.2f}")
    claim = f"With {rows[0]['teams']} teams UCRL2-MC is well below UCRL2 in the obstacle task (ratio < 0.8)"
    statistic = f"final total regret of UCRL2-MC / UCRL2, with and without costs, radii: {rows[0]['radii']}"
    n = len(values(rows, "seed"))
    return [Finding(claim, "many-teams", statistic, "; ".join(texts), interval(0, 1) if n == 1 else f"{n} seeds", both(verdicts))]


def team_count(rows: list[Row]) -> list[Finding]:
    return [
        trend(
            rows, "teams", "The ratio falls with the number of teams", "team-count", lambda row: row["teams"], "team", negative=True
        )
    ]


def trend(
    rows: list[Row], x: str, claim: str, figure: str, position: Callable[[Row], float], unit: str, *, negative: bool
) -> Finding:
    verdicts, texts, halves = {}, [], []
    for baseline in BASELINES:
        found = ratios(rows, x, baseline)
        value, half = slope(found, position)
        verdicts[baseline] = sign_verdict(value, half, negative=negative)
        ends = f"{found[0]['ratio']:.2f} at {found[0][x]} to {found[-1]['ratio']:.2f} at {found[-1][x]}"
        texts.append(f"{short(baseline)} {value:+.3f} ({ends})")
        halves.append(f"± {half:.2g}")
    statistic = f"slope of the regret ratio per {unit}"
    return Finding(claim, figure, statistic, "; ".join(texts), ", ".join(halves) + " (95%)", both(verdicts))


def hundred_teams(rows: list[Row]) -> list[Finding]:
    last = [row for row in rows if row["episode"] == row["episodes"]]
    found = {b: ratios(last, "teams", b)[0]["ratio"] for b in BASELINES}
    verdict = both({b: HOLDS if ratio < 0.8 else FAILS for b, ratio in found.items()})
    measured = "; ".join(f"{short(b)} {ratio:.2f}" for b, ratio in found.items())
    claim = f"With {rows[0]['teams']} RiverSwim teams UCRL2-MC is well below UCRL2 (ratio < 0.8)"
    seeds = len(values(rows, "seed"))
    return [
        Finding(
            claim,
            "hundred-teams",
            "final total regret of UCRL2-MC / UCRL2",
            measured,
            interval(0, 1) if seeds == 1 else f"{seeds} seeds",
            verdict,
        )
    ]


def much_lower_with_hundred(hundred: list[Row], count: list[Row]) -> list[Finding]:
    last = [row for row in hundred if row["episode"] == row["episodes"]]
    verdicts, texts = {}, []
    for b in BASELINES:
        many, ten = ratios(last, "teams", b)[0]["ratio"], ratios(count, "teams", b)[-1]
        verdicts[b] = HOLDS if many < 0.5 * ten["ratio"] else FAILS
        texts.append(f"{short(b)} {many:.2f} against {ten['ratio']:.2f} at {ten['teams']}")
    claim = f"The ratio is much lower with {hundred[0]['teams']} teams (less than half)"
    statistic = f"ratio after {hundred[0]['episodes']:,} episodes against that of the largest team-count ({count[0]['episodes']:,})"
    return [Finding(claim, "hundred-teams", statistic, "; ".join(texts), "", both(verdicts))]


def action_size(rows: list[Row]) -> list[Finding]:
    grows = trend(
        rows,
        "actions",
        "The ratio grows with the action space",
        "action-size",
        lambda row: float(np.log2(row["actions"])),
        "doubling",
        negative=False,
    )
    spreads = {}
    for b in BASELINES:
        means = [row["ratio"] for row in ratios(rows, "actions", b)]
        spreads[b] = max(means) / min(means)
    verdict = both({b: HOLDS if spread < IN_SCALE else FAILS for b, spread in spreads.items()})
    measured = "; ".join(f"{short(b)} {spread:.1f}" for b, spread in spreads.items())
    claim = f"The ratio stays in scale as actions are added (varies by less than {IN_SCALE:g})"
    return [grows, Finding(claim, "action-size", "largest / smallest mean ratio", measured, "", verdict)]


def team_size(rows: list[Row]) -> list[Finding]:
    gains = trend(
        rows, "agents", "UCRL2-MC gains as the team grows", "team-size", lambda row: row["agents"], "agent", negative=True
    )
    largest = {b: ratios(rows, "agents", b)[-1] for b in BASELINES}
    verdicts = {
        b: HOLDS if row["ratio"] + row["half_width"] < 1 else OPEN if row["ratio"] < 1 else FAILS for b, row in largest.items()
    }
    measured = "; ".join(f"{short(b)} {row['ratio']:.2f}" for b, row in largest.items())
    n = largest[BASELINES[0]]["agents"]
    halves = ", ".join(f"± {row['half_width']:.2g}" for row in largest.values()) + " (95%)"
    claim = "UCRL2-MC outperforms UCRL2 with many agents"
    return [gains, Finding(claim, "team-size", f"regret ratio with {n} agents", measured, halves, both(verdicts))]


def human_control(rows: list[Row]) -> list[Finding]:
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
    verdict = HOLDS if all(ordered.values()) else SCALED if ordered["schedule"] or ordered["constant"] else FAILS
    statistic = "human share no-car / light / heavy, with and without costs; each step must exceed its 95% interval"
    roads = f"{rows[0]['roads']} roads per level"
    return [Finding("More human control in heavier traffic", "human-control", statistic, "; ".join(texts), roads, verdict)]


def drivers(rows: list[Row]) -> list[Finding]:
    cost = {(row["traffic"], row["driver"]): row["cost"] for row in rows}
    empty = cost["no-car", "machine"] / cost["no-car", "best driver"]
    busy = cost["light or heavy", "machine"] / cost["light or heavy", "human"]
    return [
        Finding(
            "The machine is near-optimal without cars (within 10%)",
            "drivers",
            "cost of the machine / best driver, no-car",
            f"{empty:.3f}",
            "exact",
            HOLDS if empty < 1.1 else FAILS,
        ),
        Finding(
            "The machine is worse than the human with cars",
            "drivers",
            "cost of the machine / human, light or heavy",
            f"{busy:.3f}",
            "exact",
            HOLDS if busy > 1 else FAILS,
        ),
    ]


def guarantee(rows: list[Row]) -> list[Finding]:
    result = []
    for name in river.LEARNERS:
        found = exponents(select(rows, learner=name))
        mean, half = mean_and_half(found.tolist())
        verdict = HOLDS if mean + half < SUBLINEAR else FAILS if mean - half > SUBLINEAR else OPEN
        claim = f"{name} has sublinear regret in RiverSwim with the printed radii"
        result.append(
            Finding(claim, "guarantee", "fitted exponent, second half", f"{mean:.2f}", interval(half, len(found)), verdict)
        )
    ours = select(rows, learner="UCRL2-MC")
    worst = max(row["regret"] / row["bound"] for row in ours)
    claim = "The bound of Theorem 2 is never violated"
    result.append(
        Finding(
            claim,
            "guarantee",
            "largest regret / bound over all episodes and seeds",
            f"{worst:.2g}",
            "",
            HOLDS if worst < 1 else FAILS,
        )
    )
    last = [row for row in ours if row["episode"] == row["episodes"]]
    failed, n = sum(row["outside"] > 0 for row in last), len(last)
    delta = float(last[0]["delta"])
    looks = sum(row["looks"] for row in last)
    claim = f"The truth lies in the confidence sets in all episodes with probability {1 - delta:g}"
    measured = f"{failed} of {n} runs left the sets ({looks} looks)"
    result.append(
        Finding(
            claim, "guarantee", "runs in which the truth was ever outside", measured, "", HOLDS if failed <= delta * n else FAILS
        )
    )
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
)


# ------------------------------------------------------------------------------------------------------------- README

BEGIN, END = "<!-- verdicts: made by `make verdicts`, not by hand -->", "<!-- end of verdicts -->"


def markdown(rows: Sequence[Row]) -> str:
    """The table of the README, from a claims table."""
    lines = ["| claim | measured | uncertainty | verdict | figure |", "|---|---|---|---|---|"]
    for row in rows:
        cells = (row["claim"], row["measured"], row["uncertainty"], f"**{row['verdict']}**", f"`{row['figure']}`")
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    first = rows[0]
    quick = ", quick run" if first["quick"] else ""
    lines += ["", f"*cede {first['cede']}, base seed {first['base_seed']}{quick}; tables in `results/`.*"]
    return "\n".join(lines)


def with_verdicts(text: str, rows: Sequence[Row]) -> str:
    """A document with the part between the marks made anew."""
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{markdown(rows)}\n{END}{rest.split(END)[1]}"
