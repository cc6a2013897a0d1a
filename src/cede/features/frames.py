"""Encoders of data frames: an encoder for each column, chosen by what the column holds (`cede.encode.from_frame`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats
from cede._base.columns import columns_by_name
from cede._base.reprs import plural
from cede.features.encoder import Encoder, borders_between, intervals
from cede.features.kinds import Bins, Categories, Counter, Flag, Product

RARE = 0.02  # fraction of the rows: rarer names are "other"
NAMES_PER_BIN = 4  # with 4 bins, at most 16 names have a value of their own; others are "other"
FEW_ROWS = 20  # in so few rows, all values may be different without being identifiers
MOSTLY = 0.75  # fraction of the rows in which a number must be below the number of bins to be a count


@dataclass(frozen=True, eq=False, repr=False)
class FrameEncoder(Product):
    """The encoder that `from_frame` chose for the columns of a data frame. `description` says what it chose, and why."""

    notes: Any = ()  # a line for each column of the frame

    def __post_init__(self) -> None:
        super().__post_init__()
        notes = check.items("FrameEncoder", "notes", self.notes, "a sequence of texts")
        self._set(notes=check.names("FrameEncoder", "notes", notes, len(notes)))

    @property
    def description(self) -> str:
        """Return a line for each column of the frame: what became of it."""
        return "\n".join(map(check.printable, self.notes))


def from_frame(
    frame: Any, columns: Sequence[str] | None = None, *, bins: int = 4, most_states: int = 1000, name: str | None = None
) -> FrameEncoder:
    """Choose an encoder for each column of a data frame; print `description` of the result to see what was chosen.

    True and False, or 1 and 0: a `Flag`. Small whole numbers from 0, as of failed calls: a `Counter`. Other numbers: `Bins` that
    hold about equally many rows each. Names: `Categories`, with rare names as "other". Left out are columns that are always the
    same, that differ in every row (numbers of rows, identifiers), and that are neither numbers nor names, such as times.

    frame: a data frame (pandas, polars), an Arrow table or a mapping of columns, with a row for each observation. columns: the
    names of those to use; by default all. A column with missing numbers is refused: fill it, or leave it out. bins: the number of
    values of a feature; fewer if there would be more than `most_states` states. name: of the encoder, for its file.
    """
    owner = "from_frame"
    table = columns_by_name(owner, "frame", frame, "a data frame, an Arrow table or a mapping of columns")
    wanted = list(table) if columns is None else check.items(owner, "columns", columns, "a sequence of names of columns")
    bins, most_states = check.integer(owner, "bins", bins, 2), check.integer(owner, "most_states", most_states, 1)
    values: dict[str, list[Any]] = {}
    for column in wanted:
        if not isinstance(column, str | int) or column not in table:
            check.fail(owner, "a name in columns", check.show(column), check.one_of(list(table), column))
        values[check.name(owner, "the name of a column", column)] = values_of(table[column])
    if not values or {len(rows) for rows in values.values()} == {0}:
        check.fail(owner, "frame", "empty", "at least one column with at least one row")
    for number in range(bins, 1, -1):
        encoders, notes = [], []
        for column, rows in values.items():
            encoder, note = chosen(owner, column, rows, number)
            encoders += [] if encoder is None else [encoder]
            notes.append(f"{column}: {note}")
        states = int(np.prod([encoder.n_states for encoder in encoders], dtype=object))
        if states <= most_states:
            break
    if not encoders:
        check.fail(owner, "the number of columns that can be used", 0, f"at least 1 ({'; '.join(notes)})")
    if states > most_states:
        expected = f"at most {most_states}: name fewer columns, or raise most_states"
        check.fail(owner, "the number of states with 2 bins", states, expected)
    if number < bins:
        notes.append(f"{number} bins instead of {bins}, so that there are at most {most_states:,} states")
    notes.append(f"together: {plural(states, 'state')}")
    return FrameEncoder(tuple(encoders), name=name, notes=tuple(notes))


def values_of(column: Any) -> list[Any]:
    """Return the values of a column as Python's numbers, texts and truth values; times stay NumPy's."""
    array = np.asarray(column)
    values = list(array) if array.dtype.kind in "mM" else array.tolist()
    return [value.item() if isinstance(value, np.generic) and array.dtype.kind not in "mM" else value for value in values]


def chosen(owner: str, column: str, rows: list[Any], bins: int) -> tuple[Encoder | None, str]:
    """Return the encoder for a column, None if it is left out, and a sentence about it. rows: its values."""
    there = [value for value in rows if not check.is_missing(value)]
    kinds = {type(value) for value in there}
    if not there:
        return None, "left out: all values are missing"
    if kinds == {str}:
        return of_names(column, rows, there, bins)
    if kinds == {bool} and len(there) == len(rows):
        return Flag(column), "yes or no"
    if not kinds <= {bool, int, float}:
        kind = " and ".join(sorted(kind.__name__ for kind in kinds))
        return None, f"left out: values are of type {kind}, neither numbers nor names"
    if len(there) < len(rows):
        missing = f"missing in {len(rows) - len(there)} of {plural(len(rows), 'row')}"
        check.fail(owner, f"the column {check.show(column)}", missing, "there in each row: fill it, or leave it out (columns=)")
    numbers = np.array(there, dtype=np.float64)
    if not np.isfinite(numbers).all():
        check.fail(owner, f"the column {check.show(column)}", "infinite in some rows", "finite")
    return of_numbers(column, numbers, bins)


def of_names(column: str, rows: list[Any], there: list[str], bins: int) -> tuple[Encoder | None, str]:
    """Choose the encoder of a column of names. rows: all values; there: those that are not missing."""
    there = [value for value in there if value]  # an empty name is a missing one
    names, counts = np.unique(np.array(there, dtype=object), return_counts=True)
    if len(names) > max(FEW_ROWS, len(there) // 2):
        return None, f"left out: {len(names):,} different names in {plural(len(rows), 'row')}"
    order = np.lexsort((names, -counts))[: NAMES_PER_BIN * bins]
    kept = sorted(str(names[i]) for i in order if counts[i] >= RARE * len(rows))
    rest = len(rows) - sum(int(count) for name, count in zip(names, counts, strict=True) if str(name) in kept)
    if len(kept) + (rest > 0) < 2:
        return None, f"left out: always {check.show(kept[0])}" if kept else "left out: all names are rare"
    values = (*kept, *((None,) if rest else ()))
    encoder = Categories((values,), labels=(column,))
    note = f"{plural(len(values), 'name')}: {', '.join(encoder.parts[0][1])}"
    others = len(names) - len(kept)
    rare = f" ({plural(others, 'further name')}, {plural(rest, 'row')})" if others else f" (missing in {plural(rest, 'row')})"
    return encoder, note + (rare if rest else "; others are refused")


def of_numbers(column: str, numbers: Floats, bins: int) -> tuple[Encoder | None, str]:
    """Choose the encoder of a column of finite numbers."""
    is_whole, different = bool((numbers == np.floor(numbers)).all()), len(np.unique(numbers))
    least, most = float(numbers.min()), float(numbers.max())
    if different == 1:
        return None, f"left out: always {least:g}"
    if is_whole and different == len(numbers) > FEW_ROWS:
        return None, "left out: another whole number in each row"
    if is_whole and (least, most) == (0.0, 1.0):
        return Flag(column), "yes or no (1 or 0)"
    if is_whole and least >= 0 and (numbers < bins).mean() >= MOSTLY:
        encoder: Encoder = Counter(column, most=int(min(most, bins - 1)))
        return encoder, f"a count: {', '.join(encoder.parts[0][1])} (at most {most:g} in {plural(len(numbers), 'row')})"
    edges = borders_between(numbers, bins)
    encoder = Bins((edges,), labels=(column,))
    return encoder, f"{plural(encoder.n_states, 'bin')} of about equally many rows: {', '.join(intervals(edges))}"
