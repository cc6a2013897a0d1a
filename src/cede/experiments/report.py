"""Write one self-contained HTML page with the claims and figures whose tables and pictures are in a directory."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from cede._base.archive import write_whole
from cede.experiments.catalogue import figures_in
from cede.experiments.claims import FAILS, HOLDS, OPEN, SCALED, Finding, all_findings, missing_figures, save_findings
from cede.experiments.figure import Figure, Row
from cede.experiments.tables import identity_of

COLOUR = {HOLDS: "#1B7F5C", FAILS: "#B00020", SCALED: "#B36B00", OPEN: "#666666"}

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; color: #222; background: #fff; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.9rem; margin-bottom: .2rem; }
h2 { margin-top: 2.6rem; border-top: 1px solid #ddd; padding-top: 1.2rem; }
p.lead { font-size: 1.1rem; color: #444; }
figure { margin: 1rem 0; }
img { max-width: 100%; max-height: 60rem; height: auto; display: block; margin: auto; }
figcaption, .small { color: #666; font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; }
td, th { border-bottom: 1px solid #e5e5e5; padding: .4rem .5rem; text-align: left; vertical-align: top; }
.verdict { font-weight: 600; }
.quick { background: #B00020; color: #fff; padding: .5rem .8rem; border-radius: .3rem; }
.scroll { overflow-x: auto; }
nav a { margin-right: .8rem; white-space: nowrap; }
"""


def write_report(out: Path) -> Path:
    """Write report.html and claims.csv into the directory of the figures; return the path of the page.

    Raises ValueError if the directory holds no figure.
    """
    present = figures_in(out)
    if not present:
        raise ValueError(f"report: out is {str(out)!r}, must hold at least one figure; run cede figure first")
    firsts = [identity_of(out / f"{name}.csv") for name in present]
    identity = {**firsts[0], "quick": max(first["quick"] for first in firsts)}  # one quick figure makes it a quick report
    found = all_findings(out)
    if found:
        save_findings(out, found, identity)
    path = out / "report.html"
    write_whole(path, page(out, present, found, identity))
    return path


def page(out: Path, present: Mapping[str, Figure], found: Sequence[Finding], identity: Row) -> str:
    """Return the whole page. present: figures by name; found: claims with verdicts; identity: version, seed, if it is quick."""
    links = "".join(f'<a href="#{name}">{name}</a> ' for name in ["claims", *present])
    quick = '<p class="quick">Quick run: few episodes. The verdicts below say that the machinery works, not what is true.</p>'
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>cede: learning who should be in control</title><style>{STYLE}</style></head><body>
<h1>Learning who should be in control</h1>
<p class="lead">A team of agents shares one system, and at each step one of them acts. UCRL2-MC learns online to whom to hand
control. It keeps separate beliefs about every agent and about the environment, so that many teams can share what they learn of
the environment. This page repeats the experiments of the paper that introduced it and says which of its claims we could
confirm.</p>
{quick if identity["quick"] else ""}
<p class="small">cede {escape(str(identity["cede"]))}, base seed {escape(str(identity["base_seed"]))}.
Regret is the paper's: the expected cost of every episode's policy minus that of the best policy, both computed exactly.
Each picture is drawn from the table of its name (<code>NAME.csv</code>).</p>
<nav>{links}</nav>
<h2 id="claims">What the paper claims, and what we measured</h2>
{claims_table(found) if found else "<p>No figure of this run bears on a claim.</p>"}
{missing_note(out)}
{"".join(section(out, figure) for figure in present.values())}
</body></html>
"""


def claims_table(found: Sequence[Finding]) -> str:
    """Return the claims as an HTML table."""
    rows = "".join(
        f"<tr><td>{escape(f.claim)}</td><td>{escape(f.statistic)}</td><td>{escape(f.measured)}</td><td>{escape(f.uncertainty)}</td>"
        f'<td class="verdict" style="color:{COLOUR.get(f.verdict, "#444")}">{escape(f.verdict)}</td>'
        f'<td><a href="#{f.figure}">{f.figure}</a></td></tr>'
        for f in found
    )
    head = "<tr><th>claim</th><th>statistic</th><th>measured</th><th>uncertainty</th><th>verdict</th><th>figure</th></tr>"
    return f'<div class="scroll"><table>{head}{rows}</table></div>'


def missing_note(out: Path) -> str:
    """Return a sentence about claims whose figures are not in the directory; empty if all are."""
    missing = missing_figures(out)
    return f'<p class="small">Not run here: {", ".join(missing)}.</p>' if missing else ""


def section(out: Path, figure: Figure) -> str:
    """Return the part of the page about one figure, with its picture inside."""
    name = figure.name
    picture = base64.b64encode((out / f"{name}.png").read_bytes()).decode()
    image = f'<img alt="{escape(figure.title)}" src="data:image/png;base64,{picture}">'
    first = identity_of(out / f"{name}.csv")
    about = f"cede {first['cede']}, base seed {first['base_seed']}" + (", quick run" if first["quick"] else "")
    return (
        f'<h2 id="{name}">{escape(figure.title)}</h2><p>{escape(figure.story)}</p>'
        f"<figure>{image}<figcaption>Table: {name}.csv; vector picture: {name}.svg; {escape(about)}</figcaption></figure>"
    )
