"""The reproduction of the paper on one page: its figures in its order, ours in their place, verdicts, errata, and digests.

The paper's own pictures are not shown: they are the authors'. What each shows is said in a sentence, ours stands beside it.
"""

import hashlib
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path

from studies.catalogue import FIGURES
from studies.claims.finding import Finding
from studies.claims.verdicts import all_findings
from studies.figure import Figure, Options
from studies.files import write_whole
from studies.parallel import load_outcome
from studies.report import claims_table, document, is_quick, section
from studies.run import difference, note_time, run, times_in
from studies.tables import identity_of, load_table, values

PACKAGES = ("cede", "numpy", "scipy", "numba", "matplotlib")
TOGETHER = "paper"  # the name under which the time of all runs is noted, those that figures share once
POINT = re.compile(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", re.MULTILINE | re.DOTALL)  # of the numbered list of errata


@dataclass(frozen=True)
class Place:
    """A figure of the paper, and what we show in its place."""

    number: str  # in the paper
    shows: str  # what the paper shows and says of it, in our words
    ours: tuple[str, ...]  # names of our figures, the paper's own design first


PLACES = (
    Place("2", "Three roads of the obstacle task, with no cars, light and heavy traffic at the start.", ("roads",)),
    Place("3", "Who drives early and late: with time, the human is called where it pays.", ("trajectories",)),
    Place(
        "4",
        "One team in the obstacle task. UCRL2-MC and UCRL2 have comparable, sublinear regret; each driver alone has linear regret.",
        ("single-team", "machines"),
    ),
    Place(
        "5", "Ten teams in the obstacle task, with and without costs: UCRL2-MC stays well below UCRL2.", ("many-teams", "lane-why")
    ),
    Place("6", "The river: left with the current always succeeds, right against it only sometimes.", ("riverswim",)),
    Place(
        "7a",
        "UCRL2-MC's regret over UCRL2's with 3 to 10 teams: the advantage of sharing.",
        ("team-count", "sharing", "sharing-why"),
    ),
    Place("7b", "A hundred teams: UCRL2-MC's regret is much lower.", ("hundred-teams",)),
    Place("Section 4", "What was learned of an environment can be reused for another team in it.", ("newcomer",)),
    Place("8", "The machine is nearly as good as possible without cars, and worse than humans with them.", ("drivers",)),
    Place("9", "The heavier the traffic, the more the human drives.", ("human-control",)),
    Place("10a", "UCRL2-MC gets worse as actions are added, within the same scale.", ("action-size", "action-why")),
    Place("10b", "UCRL2-MC outperforms UCRL2 in larger teams.", ("team-size",)),
    Place("Theorem 2", "Regret is at most a bound that grows with the square root of the steps.", ("guarantee", "growth")),
)


def figures_of_paper() -> list[Figure]:
    """Return the figures that stand in the place of the paper's."""
    return [FIGURES[name] for place in PLACES for name in place.ours]


def run_paper(options: Options, say: Callable[[str], None] = print) -> None:
    """Make the tables of the paper's figures that are missing in `options.out`, draw all figures, and note what all runs took."""
    figures = figures_of_paper()
    run(figures, options, say)
    keys = {part.key for figure in figures for part in figure.parts(options)}
    outcomes = [outcome for key in keys if (outcome := load_outcome(options.out / "parts" / f"{key}.json")) is not None]
    if len(outcomes) == len(keys):
        note_time(options.out, TOGETHER, outcomes)


def compare_tables(out: Path, before: Path) -> dict[str, str]:
    """Return how each table of the paper's figures differs from that in another directory, by name: "identical" if no byte does."""
    return {figure.name: difference(out / f"{figure.name}.csv", before / f"{figure.name}.csv") for figure in figures_of_paper()}


def write_paper(out: Path, errata: Path | None = None, before: Path | None = None) -> Path:
    """Write paper.html into the directory of the figures; return its path.

    errata: a Markdown page with a numbered list of them; before: a directory with tables of an earlier run, which are compared.
    """
    missing = [figure.name for figure in figures_of_paper() if not (out / f"{figure.name}.csv").exists()]
    if missing:
        raise ValueError(f"paper: out is {str(out)!r}, must hold all figures of the paper; missing: {', '.join(missing)}")
    identity = identity_of(out / f"{PLACES[0].ours[0]}.csv")
    quick = is_quick(out, [figure.name for figure in figures_of_paper()])
    found = [] if quick else all_findings(out)
    body = f"""
<h1>Learning to switch among agents, run again</h1>
<p class="lead">The figures of <em>Learning to Switch Among Agents in a Team via 2-Layer Markov Decision Processes</em> (Balazadeh,
De, Singla, Gomez Rodriguez; TMLR 2022) in their order, recomputed from scratch by cede. First what the paper shows, then what
came out here{"" if quick else ", with a verdict on each claim by a written rule"}. Figure 1 is a drawing of the method, without
data.</p>
<p class="small">cede {escape(str(identity["cede"]))}, base seed {escape(str(identity["base_seed"]))}. Regret is exact.</p>
{'<p class="note">Quick runs with few episodes: they show that everything runs, and decide no claim.</p>' if quick else ""}
{"".join(place_section(out, place, found) for place in PLACES)}
<h2 id="errata">Errata and silent points</h2>
{errata_list(errata)}
<h2 id="tables">Versions, seeds and digests of tables</h2>
{tables_list(out, {} if before is None else compare_tables(out, before))}
"""
    path = out / "paper.html"
    write_whole(path, document("cede: the paper, run again", body))
    return path


def place_section(out: Path, place: Place, found: Sequence[Finding]) -> str:
    """Return the part of the page about one figure of the paper."""
    name = f"Figure {place.number}" if place.number[0].isdigit() else place.number
    words = f"<blockquote>What the paper shows or says, in our words: {escape(place.shows)}</blockquote>"
    mine = [one for one in found if one.figure in place.ours]
    table = claims_table(mine, [figure for other in PLACES for figure in other.ours]) if mine else ""
    shown = "".join(section(out, FIGURES[one], level=3) for one in place.ours)
    return f"<h2>{escape(name)} of the paper</h2>{words}{shown}{table}"


def errata_list(path: Path | None) -> str:
    """Return the errata of a page as a list of HTML; each a number and its text."""
    if path is None:
        return "<p>In the documentation: <em>From the paper to the code</em>.</p>"
    expected = "a page with a part '## Errata' and a numbered list"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):  # not there, no text, or no path at all
        raise ValueError(f"paper: errata is {str(path)!r}, must be {expected}; it cannot be read") from None
    points = POINT.findall(text.partition("## Errata")[2])
    if not points:
        raise ValueError(f"paper: errata is {str(path)!r}, must be {expected}")
    items = "".join(f"<li>{marked(' '.join(text.split()))}</li>" for _, text in points)
    return f"<ol>{items}</ol>"


def marked(text: str) -> str:
    """Return Markdown with nothing but bold and code in it as HTML."""
    safe = escape(text)
    return re.sub(r"`(.+?)`", r"<code>\1</code>", re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", safe))


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tables_list(out: Path, differs: Mapping[str, str]) -> str:
    """Return versions, and of each table its seeds, the processor time of its runs, how it differs from that of an earlier run, if
    there is one, and its digest. differs: in what, by name; empty: there is none.
    """
    times, rows = times_in(out), []
    for figure in figures_of_paper():
        name, path = figure.name, out / f"{figure.name}.csv"
        seeds = len(values([row for row in load_table(path) if "seed" in row], "seed")) or 1
        about = {"table": f"{name}.csv", "seeds": str(seeds), "processor time (shared runs count for each)": spent(times.get(name))}
        rows.append({**about, **({"earlier run": differs[name]} if differs else {}), "SHA-256": digest(path)})
    head = "".join(f"<th>{escape(column)}</th>" for column in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row.values())}</tr>" for row in rows)
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    together = f" Of one processor all runs together took: {spent(times[TOGETHER])}." if TOGETHER in times else ""
    return (
        f"<p>Python {escape(platform.python_version())} on {escape(platform.machine())}; {escape(versions)}.{together}</p>"
        f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
    )


def spent(took: Mapping[str, float] | None) -> str:
    """Return a number of runs and their processor time as text; empty if it is not known."""
    return "" if took is None else f"{took['runs']:,} {'run' if took['runs'] == 1 else 'runs'}, {took['seconds'] / 60:.1f} min"
