"""Read and write tables: CSV files with one row for each point of a curve or measurement, and the version that made them."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cede import __version__
from studies.figure import Outcome, Part, Row
from studies.files import write_whole


def save_table(path: Path, rows: Sequence[Row]) -> None:
    """Write rows to a CSV file, whole or not at all. Its columns are those of all rows; what a row does not have stays empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, *[[row.get(name, "") for name in columns] for row in rows]]

    class Lines(list[str]):
        write = list.append

    text = Lines()
    csv.writer(text, lineterminator="\n").writerows(lines)
    write_whole(path, "".join(text))


def load_table(path: Path, *, as_text: bool = False) -> list[Row]:
    """Read the rows of a CSV file that `save_table` wrote.

    as_text: leave all values as text; otherwise numbers become int or float. Raises ValueError if the file cannot be read, is no
    table of cede, or was made by another version.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            found = [*csv.DictReader(file)]
            rows = [{name: value if as_text else number_or_text(value) for name, value in row.items()} for row in found]
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is no table of cede; delete it and run the figure again") from error
    if not rows or "cede" not in rows[0]:
        raise ValueError(f"{path}: is no table of cede, or was cut off; delete it and run the figure again")
    version = str(rows[0]["cede"])
    if version != __version__:
        raise ValueError(f"{path}: was made by cede {version}, this is {__version__}; run the figure again with --overwrite")
    return rows


def identity_of(path: Path) -> Row:
    """Return what every table of a figure says in its first row: version, base seed, and whether it is of a quick run (0 or 1)."""
    first = load_table(path)[0]
    if "base_seed" not in first or first.get("quick") not in (0, 1):
        raise ValueError(f"{path}: has no columns base_seed and quick, must be the table of a figure as it was written")
    return {name: first[name] for name in ("cede", "base_seed", "quick")}


def number_or_text(value: Any) -> Any:
    """Return a cell as int if it is one, else as float if it is one, else as text; a missing cell as empty text."""
    if not isinstance(value, str):
        return ""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def all_rows(outcomes: Sequence[tuple[Part, Outcome]], kind: str = "curve") -> list[Row]:
    """Make the table of a figure from all rows of one kind, in the order of its parts."""
    return [row for _, outcome in outcomes for row in outcome[kind]]


def final_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the last point of each curve: the rows whose episode is the last one of their run."""
    return [row for row in rows if row["episode"] == row["episodes"]]


def select(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """Return the rows that have these values in these columns."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def values(rows: Sequence[Row], name: str) -> list[Any]:
    """Return the different values of a column, in order of appearance."""
    return list(dict.fromkeys(row[name] for row in rows))
