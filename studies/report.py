"""Write one self-contained HTML page with the claims and figures whose tables and pictures are in a directory."""

import base64
import struct
from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path

from studies.catalogue import figures_in
from studies.claims.finding import FAILS, HOLDS, OPEN, TRIVIAL, Finding
from studies.claims.pages import COLUMNS, HEADINGS, as_text, between, folded, save_findings
from studies.claims.verdicts import all_findings, missing_figures
from studies.figure import Figure, Row
from studies.files import write_whole
from studies.style import GLOSSARY, settings_of
from studies.tables import identity_of

COLOUR = {HOLDS: "#1B7F5C", FAILS: "#B00020", TRIVIAL: "#666666", OPEN: "#666666"}

WIDE = 1000  # pixels: a picture of several panels

STYLE = """
:root { color-scheme: light; }
body { font: 17px/1.55 system-ui, sans-serif; color: #222; background: #fff; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 2rem; line-height: 1.2; margin-bottom: .3rem; }
h2 { margin-top: 2.8rem; border-top: 1px solid #ddd; padding-top: 1.2rem; line-height: 1.25; }
p.lead { font-size: 1.15rem; color: #444; }
figure { margin: 1rem 0; overflow-x: auto; }
img { max-width: 100%; max-height: 60rem; height: auto; display: block; margin: auto; }
figcaption, .small { color: #666; font-size: .85rem; }
blockquote { margin: 1rem 0; padding: .6rem 1rem; border-left: .3rem solid #E69F00; background: #FBF6EA; }
pre { background: #F5F5F5; padding: .8rem 1rem; overflow-x: auto; font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; }
td, th { border-bottom: 1px solid #e5e5e5; padding: .4rem .5rem; text-align: left; vertical-align: top; }
.verdict { font-weight: 600; }
.note { background: #F0F4F8; padding: .6rem .9rem; border-radius: .3rem; }
.scroll { overflow-x: auto; }
code { overflow-wrap: anywhere; }
nav a { margin-right: .8rem; white-space: nowrap; }
@media (max-width: 40rem) {
  body { font-size: 16px; margin: 1rem auto; }
  h1 { font-size: 1.5rem; }
  figure.wide img { max-width: none; width: 44rem; }
  figure.wide::before { content: "wide picture: swipe"; display: block; font-size: .75rem; color: #888; }
}
@media print { h2 { break-after: avoid; } figure, blockquote, tr { break-inside: avoid; } nav { display: none; } }
"""


def write_report(out: Path, findings: Sequence[Finding] | None = None) -> Path:
    """Write report.html into the directory of the figures, and claims.csv, which says if it is of quick runs; return the path of
    the page.

    findings: what came of the claims; by default decided here. Raises ValueError if the directory holds no figure.
    """
    present = figures_in(out)
    if not present:
        raise ValueError(f"report: out is {str(out)!r}, must hold at least one figure; run python -m studies figure first")
    identity = {**identity_of(out / f"{next(iter(present))}.csv"), "quick": int(is_quick(out, list(present)))}
    found = all_findings(out) if findings is None else findings
    if found:
        save_findings(out, found, identity)
    path = out / "report.html"
    write_whole(path, page(out, present, found, identity))
    return path


def is_quick(out: Path, names: Sequence[str]) -> bool:
    """Is one of these figures in a directory of a quick run? Then nothing there decides a claim."""
    return any(identity_of(out / f"{name}.csv")["quick"] for name in names)


def page(out: Path, present: Mapping[str, Figure], found: Sequence[Finding], identity: Row) -> str:
    """Return the whole page. present: figures by name; found: claims with verdicts; identity: version, seed, if it is quick."""
    links = " ".join(link(name) for name in ["claims", *present])
    body = f"""
<h1>Learning who should be in control</h1>
<p class="lead">A team of agents shares one system, and at each step one of them acts. UCRL2-MC learns online to whom to hand
control. It keeps separate beliefs about every agent and about the environment, so that many teams can share what they learn of
the environment. This page shows experiments, of the paper that introduced it and our own, and says which of its claims they
confirm.</p>
<p class="small">cede {escape(str(identity["cede"]))}, base seed {escape(str(identity["base_seed"]))}.
Regret is the paper's: the expected cost of every episode's policy minus that of the best policy, both computed exactly.
Each picture is drawn from the table of its name (<code>NAME.csv</code>).</p>
<nav>{links}</nav>
<h2 id="claims">What the paper claims, what we claim, and what we measured</h2>
{verdicts(out, present, found, quick=bool(identity["quick"]))}
{"".join(section(out, figure) for figure in present.values())}
"""
    return document("cede: learning who should be in control", body)


def document(title: str, body: str) -> str:
    """Return a whole page. body: HTML."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}</style></head><body>
{body}
</body></html>
"""


def verdicts(out: Path, present: Collection[str], found: Sequence[Finding], *, quick: bool) -> str:
    """Return what the page says of claims. A quick run decides nothing, so it shows no verdict."""
    if quick:
        return (
            '<p class="note">These are quick runs with few episodes: they show that everything runs, and decide no claim. '
            "Leave out <code>--quick</code> for runs at full size.</p>"
        )
    return (claims_table(found, present) if found else "<p>No figure of this run bears on a claim.</p>") + missing_note(out)


def claims_table(found: Sequence[Finding], on_page: Collection[str]) -> str:
    """Return the claims as an HTML table. on_page: figures that the page shows; their names become links."""

    def cell(finding: Finding, column: str) -> str:
        text = escape(getattr(finding, column))
        if column == "verdict":
            return f'<td class="verdict" style="color:{COLOUR.get(finding.verdict, "#444")}">{text}</td>'
        return f"<td>{link(finding.figure) if column == 'figure' and finding.figure in on_page else text}</td>"

    rows = ""
    for whose, heading in HEADINGS.items():
        mine = [finding for finding in found if finding.whose == whose]
        rows += f'<tr><th colspan="{len(COLUMNS)}">{heading}</th></tr>' if mine else ""
        rows += "".join(f"<tr>{''.join(cell(finding, column) for column in COLUMNS)}</tr>" for finding in mine)
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    return f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'


GALLERY = ("<!-- figures: made by `make verdicts`, not by hand -->", "<!-- end of figures -->")


def with_gallery(text: str, out: Path) -> str:
    """Return a Markdown page in which the text between the marks GALLERY is replaced by a folded list of terms and by the figures:
    title, story, picture, and folded its settings.

    out: the directory of the figures; those are shown whose table and picture are there.
    """
    parts = [folded("Terms in pictures and settings", "\n".join(f"- {sentence}" for sentence in GLOSSARY.values())) + "\n"]
    for one in figures_in(out).values():
        settings = as_text(without_glossary(settings_of(out / f"{one.name}.png")))
        picture = f"![{one.title}](../studies/results/{one.name}.png)"
        parts.append(f"### `{one.name}`: {one.title}\n\n{one.story}\n\n{picture}\n\n{folded('Settings and seeds', settings)}\n")
    return between(text, *GALLERY, "\n".join(["", *parts]))


def without_glossary(settings: str) -> str:
    """Return the settings of a picture without the sentences that explain terms: the page has them once."""
    for sentence in GLOSSARY.values():
        settings = settings.replace(f" {sentence}", "")
    return settings


def link(name: str) -> str:
    """Return a link to a place on the page."""
    return f'<a href="#{escape(name)}">{escape(name)}</a>'


def missing_note(out: Path) -> str:
    """Return a sentence about claims whose figures are not in the directory; empty if all are."""
    missing = missing_figures(out)
    return f'<p class="small">Not run here: {", ".join(missing)}.</p>' if missing else ""


def section(out: Path, figure: Figure, *, level: int = 2, more: str = "") -> str:
    """Return the part of the page about one figure, with its picture inside. level: of its heading; more: HTML that follows."""
    name, data = figure.name, (out / f"{figure.name}.png").read_bytes()
    picture = f'<img alt="{escape(figure.title)}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'
    first = identity_of(out / f"{name}.csv")
    about = f"cede {first['cede']}, base seed {first['base_seed']}" + (", quick run" if first["quick"] else "")
    return (
        f'<h{level} id="{name}">{escape(figure.title)}</h{level}><p>{escape(figure.story)}</p>'
        f"<figure{' class=wide' * is_wide(data)}>{picture}"
        f"<figcaption>Table: {name}.csv; {escape(about)}</figcaption></figure>{more}"
    )


def is_wide(png: bytes) -> bool:
    """Return whether a picture is so wide that a telephone should scroll it sideways instead of making it small."""
    width, _ = struct.unpack(">II", png[16:24].ljust(8, b"\1"))
    return bool(width > WIDE)
