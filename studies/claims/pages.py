"""Show findings: as the table claims.csv, and as Markdown for the page of verdicts, with the rules that decided."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from studies.claims.finding import FAILS, HOLDS, OPEN, OURS, PAPER, TRIVIAL, Finding
from studies.claims.main_claims import MIXED, WORDS, main_rows
from studies.claims.rules import LEVEL, RULES
from studies.figure import Row
from studies.tables import save_table

BEGIN, END = "<!-- verdicts: made by `make verdicts`, not by hand -->", "<!-- end of verdicts -->"
BEGIN_RULES, END_RULES = "<!-- rules: made by `make verdicts`, not by hand -->", "<!-- end of rules -->"
COLUMNS = ("claim", "verdict", "measured", "uncertainty", "statistic", "rule", "figure")  # as shown; the first two fit a telephone
HEADINGS = {PAPER: "of the paper", OURS: "ours"}
ALL_ROWS = {PAPER: "All {} rows on claims of the paper", OURS: "All {} rows on our own claims"}
VERDICTS = (HOLDS, TRIVIAL, FAILS, OPEN)  # what is none of them differs from case to case
INTERVAL = re.compile(r"(?<=\d) to (?=-?\d)|± ")  # how the uncertainty of a finding tells one


def save_findings(out: Path, found: Sequence[Finding], identity: Row) -> None:
    """Write findings to claims.csv in the directory. identity: columns that every row gets, such as version and seed."""
    save_table(out / "claims.csv", [{**asdict(finding), **identity} for finding in found])


def first_screen(rows: Sequence[Row]) -> str:
    """Return the paper's main claims as a Markdown table: claim, verdict, one number with its interval, link to the picture."""
    lines = ["| claim of the paper | verdict | one number, with its 95% interval | picture |", "|---|---|---|---|"]
    for sentence, verdict, number, figure in main_rows(rows):
        lines.append(f"| {sentence} | **{verdict}** | {as_text(number)} | [{figure}](../studies/results/{figure}.png) |")
    about = f"*{MIXED}*: the verdict differs between cases; the number is for the case named, which we chose after seeing the "
    about += (
        f"results, and all cases are folded below. *{WORDS[TRIVIAL]}*: no run could have refuted it. *Same-form*, *printed* and "
    )
    about += "*schedule* are kinds of radii, explained [below](#how-to-read-the-tables)."
    return "\n".join([*lines, "", about])


def markdown(rows: Sequence[Row]) -> str:
    """Return the rows of claims.csv as folded Markdown tables: the paper's claims, then ours."""
    marks = {"verdict": "**", "figure": "`"}
    first = rows[0]
    quick = ", quick run" if int(first["quick"]) else ""
    about = f"*cede {as_text(first['cede'])}, base seed {as_text(first['base_seed'])}{quick}; tables in `studies/results/`.*"
    parts = []
    for whose, title in ALL_ROWS.items():
        mine = [row for row in rows if row["whose"] == whose]
        lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
        for row in mine:
            cells = [f"{marks.get(name, '')}{as_text(row[name])}{marks.get(name, '')}" for name in COLUMNS]
            lines.append(f"| {' | '.join(cells)} |")
        parts += [folded(title.format(len(mine)), "\n".join([*lines, "", about]))] if mine else []
    return "\n\n".join(parts)


def folded(title: str, text: str) -> str:
    """Return Markdown that is hidden until the reader opens it, on GitHub as on the site."""
    return f'<details markdown="1">\n<summary>{title}</summary>\n\n{text}\n\n</details>'


def summary(rows: Sequence[Row]) -> str:
    """Return how many claims came to which verdict, as a Markdown table, and on how many intervals that rests."""
    lines = [f"| rows | {' | '.join(VERDICTS)} | differs by case | together |", "|---|" + "---:|" * (len(VERDICTS) + 2)]
    for whose, heading in HEADINGS.items():
        mine = [row["verdict"] for row in rows if row["whose"] == whose]
        counts = [mine.count(word) for word in VERDICTS]
        lines.append(f"| {heading} | {' | '.join(str(n) for n in [*counts, len(mine) - sum(counts), len(mine)])} |")
    n = sum(len(INTERVAL.findall(row["uncertainty"])) for row in rows)
    missed = f"by chance about {round(n * (1 - LEVEL.limit))} of them may miss the truth"
    about = f"A row is a claim, or a part of one: one kind of radii, one side of a turn. There are {n} intervals of 95%; {missed}."
    return "\n".join([*lines, "", about])


def rules_markdown() -> str:
    """Return all rules as a Markdown table."""
    lines = ["| rule | limit | why |", "|---|---:|---|"]
    return "\n".join([*lines, *(f"| {as_text(rule.name)} | {rule.limit:g} | {as_text(rule.reason)} |" for rule in RULES)])


def as_text(cell: object) -> str:
    """Return a cell of a table as Markdown shows it as it is: no column of its own, no tag of HTML."""
    return re.sub(r"<(?=\S)", "&lt;", str(cell)).replace("|", "\\|")


def with_verdicts(text: str, rows: Sequence[Row]) -> str:
    """Return a document in which the text between the marks BEGIN and END is replaced by the main claims and, folded, a summary and
    all claims, and that between BEGIN_RULES and END_RULES, if they are there, by the rules. rows: of claims.csv.
    """
    counts = folded("How many claims came to which verdict", summary(rows))
    text = between(text, BEGIN, END, "\n\n".join([first_screen(rows), counts, markdown(rows)]))
    return between(text, BEGIN_RULES, END_RULES, rules_markdown()) if BEGIN_RULES in text else text


def between(text: str, begin: str, end: str, new: str) -> str:
    """Return a document in which the text between two marks is replaced."""
    head, rest = text.split(begin)
    return f"{head}{begin}\n{new}\n{end}{rest.split(end)[1]}"
