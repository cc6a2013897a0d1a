"""Make figures: run the parts that are not stored yet, write one table for each figure, draw it from the table."""

import json
import os
from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path

from cede import __version__
from studies.figure import Figure, Options, Outcome, Row
from studies.files import write_whole
from studies.parallel import TOOK, run_parts
from studies.tables import load_table, save_table

TIMES = "took.json"


def run(figures: Sequence[Figure], options: Options, say: Callable[[str], None] = print) -> list[Path]:
    """Make the tables that are missing in `options.out`, then draw all figures from their tables.

    say: called with lines of text about the progress. Returns the files that were drawn. A part that several figures ask for is
    run once; a figure whose table is there already is only drawn again.
    """
    prepare(options.out)
    missing = [figure for figure in figures if not finished(figure, options)]
    parts_of = {figure.name: list(figure.parts(options)) for figure in missing}
    different = {part.key: part for parts in parts_of.values() for part in parts}
    outcomes = run_parts(list(different.values()), options.out / "parts", options.jobs, say)
    for figure in missing:
        rows = figure.table([(part, outcomes[part.key]) for part in parts_of[figure.name]])
        save_table(options.out / f"{figure.name}.csv", [{**row, **identity(options)} for row in rows])
        note_time(options.out, figure.name, [outcomes[part.key] for part in parts_of[figure.name]])
    pictures = []
    for figure in figures:
        rows = load_table(options.out / f"{figure.name}.csv")
        pictures += figure.draw(rows, options.out / figure.name)
    return pictures


def note_time(out: Path, name: str, outcomes: Sequence[Outcome]) -> None:
    """Write down how much processor time the runs of a figure took, in took.json. Runs that figures share count for each."""
    path = out / TIMES
    known = times_in(out)
    seconds = [row["seconds"] for outcome in outcomes for row in outcome.get(TOOK, [])]
    known[name] = {"runs": len(outcomes), "seconds": round(sum(seconds), 1)}
    write_whole(path, json.dumps(known, indent=1, sort_keys=True) + "\n")


def times_in(out: Path) -> dict[str, dict[str, float]]:
    """Return how many runs the figures in a directory had, and how much processor time they took, by name."""
    try:
        found = json.loads((out / TIMES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def prepare(out: Path) -> None:
    """Make the output directory and check that it can be written to; raise ValueError if not."""
    try:
        (out / "parts").mkdir(parents=True, exist_ok=True)
        probe = out / "parts" / f".probe.{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise ValueError(f"figure: out is {str(out)!r}, must be a directory that can be written ({error.strerror})") from error


def finished(figure: Figure, options: Options) -> bool:
    """Return whether the table of this figure, made with these options, is there already.

    Raises ValueError if the table there was made with other options, unless the user asked to overwrite it.
    """
    path = options.out / f"{figure.name}.csv"
    if not path.exists() or options.overwrite:
        return False
    rows = load_table(path)
    if same_run(rows, options):
        return True
    known = {name: rows[0].get(name, "") for name in identity(options)}
    raise ValueError(f"{path}: holds another run ({known}); choose another --out, or --overwrite")


def same_run(rows: Sequence[Row], options: Options) -> bool:
    """Return whether rows of a table were made by this version with these options."""
    return all(str(rows[0].get(name, "")) == str(value) for name, value in identity(options).items())


def identity(options: Options) -> Row:
    """Return the columns that every row of every table has: the version of cede and what the user asked for."""
    return {
        "cede": __version__,
        "quick": int(options.quick),
        "asked_episodes": options.episodes or "",
        "asked_repeats": options.repeats or "",
        "asked_radii": options.radii or "",
        "base_seed": options.seed,
    }


def difference(path: Path, other: Path) -> str:
    """Say in a few words how a table differs from another one of the same figure: "identical" if no byte does."""
    if not other.exists():
        return "not there"
    if path.read_bytes() == other.read_bytes():
        return "identical"
    try:
        mine, theirs = load_table(path), load_table(other)
    except ValueError:
        return "of another version, or damaged"
    if any(mine[0].get(name) != theirs[0].get(name) for name in identity(Options())):
        return "of a run with other options"
    if [list(row) for row in mine] != [list(row) for row in theirs]:
        return "other rows"
    cells = [(row[name], its[name]) for row, its in zip(mine, theirs, strict=True) for name in row if row[name] != its[name]]
    if not all(isinstance(value, int | float) and isfinite(value) for pair in cells for value in pair):
        return "other rows"
    worst = max((abs(a - b) / max(abs(a), abs(b)) for a, b in cells), default=0.0)
    return f"numbers differ by at most {worst:.0e} of themselves" if cells else "identical numbers"
