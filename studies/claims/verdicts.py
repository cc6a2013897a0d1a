"""All claims: which table each is decided from, in the order of the page, and what comes out for the tables in a directory."""

from collections.abc import Callable
from pathlib import Path

from studies.claims import ours_fleets, ours_learners, ours_people, ours_speed, paper_lane, paper_river, paper_theory
from studies.claims.finding import PAPER, Finding
from studies.figure import Row
from studies.tables import load_table

Judge = Callable[..., list[Finding]]  # from the rows of a table, and of another one if it is in BESIDE, to findings

OF_PAPER: tuple[tuple[str, Judge], ...] = (  # in the order of the paper; some find something of ours beside it
    ("guarantee", paper_river.guarantee),
    ("growth", paper_theory.growth),
    ("single-team", paper_lane.single_team),
    ("many-teams", paper_lane.many_teams),
    ("team-count", paper_river.team_count),
    ("hundred-teams", paper_river.hundred_teams),
    ("sharing", paper_river.sharing_helps),
    ("drivers", paper_lane.drivers),
    ("human-control", paper_lane.human_control),
    ("action-size", paper_river.action_size),
    ("team-size", paper_river.team_size),
    ("newcomer", ours_fleets.newcomer),
)
OF_OURS: tuple[tuple[str, Judge], ...] = (
    ("growth", paper_theory.growth_exponents),
    ("lane-why", ours_fleets.lane_why),
    ("action-why", paper_theory.untaken_actions),
    ("action-why", paper_theory.unused_actions),
    ("action-why", paper_theory.conjecture),
    ("sharing", ours_fleets.falls_when_nested),
    ("sharing", ours_fleets.which_t),
    ("sharing-why", ours_fleets.larger_fleets),
    ("sharing-why", ours_fleets.sharing_pays_for),
    ("sharing-why", ours_fleets.sharing_why),
    ("machines", ours_people.machines),
    ("structure", ours_learners.structure),
    ("promises", ours_learners.promises),
    ("league", ours_learners.league),
    ("league", ours_learners.against_rivals),
    ("limits", ours_people.limits),
    ("never-worse", ours_people.never_worse),
    ("people-change", ours_people.people_change),
    ("joins", ours_fleets.joins),
    ("freshness", ours_fleets.freshness),
    ("endless-river", ours_learners.endless_river),
    ("unknown-costs", ours_learners.unknown_costs),
    ("planning", ours_speed.planning),
)
CLAIMS = (*OF_PAPER, *OF_OURS)
RESULTS = Path(__file__).resolve().parents[1] / "results"  # tables of full runs
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
BESIDE: dict[Judge, str] = {  # tables that are needed beside that of the figure, by who needs them
    ours_learners.against_rivals: "rivals",
}


def paper_findings(out: Path) -> list[Finding]:
    """Return the findings for the claims of the paper whose tables are in the directory."""
    return [finding for finding in findings_of(out, OF_PAPER) if finding.whose == PAPER]


def all_findings(out: Path) -> list[Finding]:
    """Return the findings for all claims whose tables are in the directory: those of the paper, then ours.

    Results of the benchmarks count beside the stored tables alone, which belong to the same checkout.
    """
    found = sorted(findings_of(out, CLAIMS), key=lambda finding: finding.whose != PAPER)
    return [*found, *(ours_speed.benchmarks(BENCHMARKS) if out.resolve() == RESULTS else [])]


def findings_of(out: Path, claims: tuple[tuple[str, Judge], ...]) -> list[Finding]:
    """Return the findings for these claims, as far as their tables are in the directory. Each table is read once."""
    tables: dict[str, list[Row]] = {}
    found: list[Finding] = []
    for figure, make in claims:
        names = [figure, *([BESIDE[make]] if make in BESIDE else [])]
        paths = [out / f"{name}.csv" for name in names]
        if all(path.exists() for path in paths):
            for name, path in zip(names, paths, strict=True):
                if name not in tables:
                    tables[name] = load_table(path)
            found += from_tables(make, paths, [tables[name] for name in names])
    return found


def from_tables(make: Judge, paths: list[Path], tables: list[list[Row]]) -> list[Finding]:
    """Return the findings that a function makes of tables. Raises ValueError if a table is not what it needs."""
    try:
        return make(*tables)
    except Exception as error:  # a table that was changed by hand may be wrong in any way
        where = " or ".join(str(path) for path in paths)
        raise ValueError(f"{where}: cannot be used, must be the table of its figure as it was written ({error!r})") from error


def missing_figures(out: Path) -> list[str]:
    """Return the names of figures that claims need and whose tables are not in the directory."""
    return [figure for figure in dict.fromkeys(name for name, _ in CLAIMS) if not (out / f"{figure}.csv").exists()]
