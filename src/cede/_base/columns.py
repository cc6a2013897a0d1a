"""Tables of columns: as a pandas data frame, and as files, CSV, JSON lines or Parquet, written completely or not at all."""

import csv
import gzip
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from cede._base import check
from cede._base.archive import replace_whole
from cede._base.extras import need

Columns = Mapping[str, Any]  # arrays or sequences of one length, by name
SUFFIXES = (".csv", ".jsonl", ".parquet")


def columns_by_name(owner: str, place: str, table: Any, expected: str) -> dict[str, Any]:
    """Return the columns of a table by name: of a mapping, a structured array, a data frame (pandas, polars) or an Arrow table.

    owner, place, expected: for the error if it is no table.
    """
    if isinstance(table, np.ndarray) and table.dtype.names:
        return {name: table[name] for name in table.dtype.names}
    if callable(getattr(table, "to_pydict", None)):  # Arrow
        table = table.to_pydict()
    names = table if isinstance(table, Mapping) else getattr(table, "columns", None)
    if names is None or isinstance(table, type):
        check.fail(owner, place, check.show(table), expected)
    return {name: table[name] for name in names}


def data_frame(columns: Columns) -> Any:
    """Return columns as a pandas DataFrame. Needs the extra `data`."""
    return need("pandas", "data").DataFrame({name: np.asarray(column) for name, column in columns.items()})


def save_columns(owner: str, path: Any, columns: Columns, about: Mapping[str, Any] | None = None) -> Path:
    """Write columns to a file, completely or not at all, and return its path.

    path: its suffix says the format: .csv, .jsonl (one object for each row), or .parquet, which needs the extra `data`. about: what
    a Parquet file holds beside the columns, as JSON under the key "cede"; other formats have no place for it.
    """
    where = check.path(owner, "path", path)
    if where.suffix not in SUFFIXES:
        check.fail(owner, "the suffix of path", repr(where.suffix), check.one_of(SUFFIXES))
    lists = {name: as_list(column) for name, column in columns.items()}
    if where.suffix == ".parquet":
        arrow, parquet = need("pyarrow", "data"), need("pyarrow.parquet", "data")
        table = arrow.table({name: arrow.array(column) for name, column in lists.items()})
        table = table.replace_schema_metadata({"cede": json.dumps(about or {})})
        replace_whole(where, lambda file: parquet.write_table(table, file))
    else:
        write = write_csv if where.suffix == ".csv" else write_json_lines
        replace_whole(where, lambda file: write(file, lists))
    return where


def as_list(column: Any) -> list[Any]:
    """Return a column as a list of Python numbers and texts, None where a number is not finite."""
    array = np.asarray(column)
    values: list[Any] = array.tolist()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return [value if np.isfinite(value) else None for value in values]
    return values


def write_csv(file: IO[bytes], lists: Mapping[str, list[Any]]) -> None:
    """Write columns to an open file as CSV; missing values stay empty."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(lists)
    rows.writerows(zip(*lists.values(), strict=True))
    text.flush()
    text.detach()


def write_json_lines(file: IO[bytes], lists: Mapping[str, list[Any]]) -> None:
    """Write columns to an open file as JSON lines, one object for each row."""
    for row in zip(*lists.values(), strict=True):
        file.write(json.dumps(dict(zip(lists, row, strict=True))).encode() + b"\n")


def read_parquet(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a Parquet file of `save_columns`; return its `about` data, and the columns as arrays by name."""
    table = need("pyarrow.parquet", "data").read_table(path)
    about = json.loads((table.schema.metadata or {})[b"cede"])
    return about, {name: table.column(name).to_numpy() for name in table.column_names}


def read_columns(owner: str, place: str, path: Any) -> dict[str, Any]:
    """Read a table from a file of anybody: .csv (or .csv.gz), .jsonl with an object in each line, or .parquet. Return its columns.

    Cells of CSV are texts, and None where a row is too short. place: the argument, for errors.
    """
    where, suffixes = check.path(owner, place, path), (*SUFFIXES, ".csv.gz")
    suffix = next((suffix for suffix in suffixes if where.name.endswith(suffix)), None)
    if suffix is None:
        check.fail(owner, f"the suffix of {place}", repr(where.suffix), check.one_of(suffixes))
    if suffix == ".parquet":
        parquet, arrow = need("pyarrow.parquet", "data"), need("pyarrow", "data")
        try:
            table = parquet.read_table(where)
        except arrow.ArrowException as error:
            check.fail(owner, place, repr(str(where)), f"a readable table ({error})")
        return {name: table.column(name).to_numpy() for name in table.column_names}
    opened: Any = gzip.open if suffix == ".csv.gz" else open
    with opened(where, "rt", encoding="utf-8-sig", newline="") as file:
        try:
            rows = [json.loads(line) for line in file if line.strip()] if suffix == ".jsonl" else list(csv.DictReader(file))
        except (csv.Error, UnicodeDecodeError, json.JSONDecodeError, EOFError, gzip.BadGzipFile) as error:
            check.fail(owner, place, repr(str(where)), f"a readable table ({error})")
    if not all(isinstance(row, dict) for row in rows):
        check.fail(owner, place, repr(str(where)), "a table with an object in each line")
    names = dict.fromkeys(name for row in rows for name in row if name is not None)
    return {name: object_array([row.get(name) for row in rows]) for name in names}


def object_array(values: list[Any]) -> Any:
    """Return values as an array of objects, (n,)."""
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result
