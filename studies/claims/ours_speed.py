"""What we claim of speed: what planning less costs and saves, and the goals of the benchmarks, as ratios within one run."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.claims.finding import FAILS, HOLDS, OPEN, OURS, Finding
from studies.claims.rules import (
    DENSE,
    GREEDY,
    MORE,
    NEXT_TO_NOTHING,
    PEER,
    PLAN_LANE,
    PLAN_RANDOM,
    SERVICE_DECIDE,
    SERVICE_STEP,
    TENTH,
    TIMING,
    TWO_WORKERS,
    Rule,
)
from studies.claims.statistics import Effect, above, compared, digits, judged
from studies.figure import Row
from studies.runs.planning_ways import WAYS
from studies.tables import final_rows, select

BENCHMARKS = "benchmarks"  # what stands in the place of a figure
PLACES = {  # by world and radii
    ("RiverSwim", "printed"): "RiverSwim",
    ("lane driving", "schedule"): "lane driving, authors' schedule",
    ("lane driving", "constant"): "lane driving, small radii",
}

# ------------------------------------------------------------------------------------------------------------- planning less


def planning(rows: list[Row]) -> list[Finding]:
    """Judge what docs/speed.md says of planning less: what it costs in regret, and how much less work it is."""
    last, work = final_rows(select(rows, kind="curve")), select(rows, kind="work")
    every, ten, doubling, greedy = WAYS
    lane = [place for place in PLACES if place[0] == "lane driving"]
    after = f"regret after {last[0]['episodes']:,} episodes, against a plan in every episode"

    def cost(way: str, places: Sequence[tuple[str, str]], some: list[Row], column: str = "regret") -> dict[str, Effect]:
        return {
            PLACES[world, radii]: compared([select(some, world=world, radii=radii, way=one) for one in (way, every)], column)
            for world, radii in places
        }

    saved = cost(greedy, lane, work, "outcomes_per_episode")
    return [
        judged(
            "Planning every ten episodes costs next to nothing", "planning", after, cost(ten, list(PLACES), last), NEXT_TO_NOTHING
        ),
        judged("The doubling rule costs nothing in lane driving", "planning", after, cost(doubling, lane, last), NEXT_TO_NOTHING),
        judged(
            "With the authors' schedule greedy planning costs nothing",
            "planning",
            after,
            cost(greedy, lane[:1], last),
            NEXT_TO_NOTHING,
        ),
        judged(
            "With small constant radii greedy planning costs regret", "planning", after, cost(greedy, lane[1:], last), MORE, above
        ),
        judged("Greedy planning reads less than a tenth of the next states", "planning", "next states read", saved, TENTH),
    ]


# ------------------------------------------------------------------------------------------------------------- benchmarks


@dataclass(frozen=True)
class Goal:
    """A goal of the benchmarks: a sentence, which rows of which file it is about, and the rule."""

    claim: str
    file: str  # how its name goes on after the date
    wanted: Callable[[Row], bool]
    rule: Rule
    at_least: bool = True  # otherwise at most
    column: str = "ratio"


GOALS = (
    Goal(
        "An optimistic plan of lane driving takes at most 3 times as long as a plain backup",
        "",
        lambda row: row["section"] == "planner" and row["what"].startswith("lane driving"),
        PLAN_LANE,
        at_least=False,
    ),
    Goal(
        "An optimistic plan of random problems takes at most 5 times as long as a plain backup",
        "",
        lambda row: row["section"] == "planner" and row["what"].startswith("random"),
        PLAN_RANDOM,
        at_least=False,
    ),
    Goal("Two threads plan at least 1.6 times as fast as one", "", lambda row: row["what"].endswith("two threads"), TWO_WORKERS),
    Goal(
        "`solve` is at least 20 times as fast as QuantEcon's backward induction in lane driving",
        "",
        lambda row: row["what"] == "solve, lane driving",
        PEER,
    ),
    Goal(
        "An optimistic plan is at least 100 times as fast as dense NumPy",
        "",
        lambda row: row.get("against") == "dense NumPy transcription",
        DENSE,
    ),
    Goal(
        "An episode with greedy planning is at least 50 times as fast as one with a full plan in lane driving",
        "",
        lambda row: row["what"] == "lane driving, greedy planning, an episode",
        GREEDY,
    ),
    Goal(
        "Two workers of a fleet do at least 1.6 times the work of one, with every engine",
        "-fleets",
        lambda row: row["section"] == "workers" and not row["what"].startswith("the machine"),
        TWO_WORKERS,
        column="speed_up",
    ),
    Goal(
        "A durable step of the service takes at most 3 times the processor time of a bare insert",
        "-service",
        lambda row: row["row"] == "durable",
        SERVICE_STEP,
        at_least=False,
    ),
    Goal(
        "The service decides at least 0.7 times as often as a bare handler answers",
        "-service",
        lambda row: row["row"] == "decides",
        SERVICE_DECIDE,
    ),
)


def benchmarks(folder: Path) -> list[Finding]:
    """Judge the goals of the benchmarks by the newest file of each kind in a folder. Ratios only: seconds depend on the machine.

    One run has no interval; its worst row decides, unless it is close to the goal.
    """
    result = []
    for goal in GOALS:
        path = newest(folder, goal.file)
        if path is not None:
            result += judge_goal(goal, path)
    return result


def newest(folder: Path, ending: str) -> Path | None:
    """Return the newest result in a folder whose name is a date with this ending; None if there is none."""
    day = "[0-9]" * 4 + "-" + "[0-9]" * 2 + "-" + "[0-9]" * 2
    return max(folder.glob(f"{day}{ending}.json"), default=None)


def judge_goal(goal: Goal, path: Path) -> list[Finding]:
    """Judge one goal by a file. Nothing is said of a quick run. Raises ValueError if the file has no row about it."""
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
        rows = [row for row in run["rows"] if goal.wanted({"section": "", "what": "", "row": "", **row})]
        ratios = [float(row[goal.column]) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: cannot be used, must be a result of the benchmarks as it was written ({error!r})") from error
    if run.get("quick"):
        return []
    if not rows:
        raise ValueError(f"{path}: has no rows about {goal.claim!r}, must be a result of the benchmarks as it was written")
    worst, limit = (min(ratios), goal.rule.limit) if goal.at_least else (-max(ratios), -goal.rule.limit)
    verdict = OPEN if abs(worst - limit) < TIMING.limit * abs(limit) else HOLDS if worst > limit else FAILS
    measured = digits(ratios[0]) if len(ratios) == 1 else f"{digits(min(ratios))} to {digits(max(ratios))}"
    spread = (
        f"{len(ratios)} rows of one run, {run['date']}; no interval" if len(ratios) > 1 else f"one run, {run['date']}; no interval"
    )
    statistic = "ratio within one run, medians of repeats; the worst row decides"
    return [Finding(goal.claim, BENCHMARKS, statistic, measured, spread, verdict, f"{goal.rule.name}; {TIMING.name}", OURS)]
