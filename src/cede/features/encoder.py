"""The base class of encoders (`Encoder`), and checks of their arguments. The encoders are in encode.py."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from cede import __version__
from cede._base import archive, check
from cede._base.archive import path_to_write, save_arrays
from cede._base.arrays import Floats, Ints
from cede._base.columns import columns_by_name
from cede._base.remade import Remade
from cede._base.reprs import listed, plural, short_repr

MOST_STATES = 10**7
SCHEMA = 1  # of files


class Encoder(Remade):
    """Base class: an encoder reads F numbers (`inputs`) and computes G features (`parts`, `places`), which make up the state."""

    name: str | None
    labels: Sequence[str] | None = None  # a name for each number; None: x0, x1, ...
    n_inputs: int  # F

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the names of the F numbers that it reads."""
        return tuple(f"x{i}" for i in range(self.n_inputs)) if self.labels is None else tuple(self.labels)

    @property
    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the G features of a state: the name of each, and the names of its values."""
        raise NotImplementedError

    @property
    def categories(self) -> tuple[tuple[str | None, ...] | None, ...]:
        """Return, for each of `inputs`, the categories that it may be; None: it is a number. A category is read as its index.

        A category None stands for all names that are not listed, and for missing ones.
        """
        return (None,) * self.n_inputs

    def places(self, rows: Floats) -> Ints:
        """Return the value of each feature, an index, (n, G). rows: (n, F), without NaN."""
        raise NotImplementedError

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of values of each feature, (G,)."""
        return tuple(len(values) for _, values in self.parts)

    @property
    def n_states(self) -> int:
        """Return the number of states."""
        return int(np.prod(self.sizes, dtype=np.int64))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Return the names of the features, (G,)."""
        return tuple(name for name, _ in self.parts)

    @property
    def features(self) -> Ints:
        """Return the features of all states, (S, G), as indices of values: for `suggest_structure(features=)`."""
        return np.stack(np.unravel_index(np.arange(self.n_states), self.sizes), axis=1).astype(np.int64)

    @property
    def state_names(self) -> list[str]:
        """Return a name for each state, such as "angle=below -0.1, speed=0 to 1": for `Task(state_names=)`.

        `suggest_structure` reads features from such names.
        """
        each = [[f"{one_word(name)}={one_word(value)}" for value in values] for name, values in self.parts]
        return [", ".join(place) for place in product(*each)]

    @property
    def names(self) -> list[str]:
        """Return `state_names`."""
        return self.state_names

    @property
    def description(self) -> str:
        """Return a line for each feature: its name, and what its values are."""
        return "\n".join(f"{check.printable(name)}: {'; '.join(map(check.printable, values))}" for name, values in self.parts)

    @property
    def digest(self) -> str:
        """Return the SHA-256, in hexadecimal, of all fields except the name."""
        return archive.digest(replace(self, name=None))  # type: ignore[type-var]

    def __call__(self, observation: Any) -> int:
        """Return the state of one row: F numbers in order, of any shape, or a mapping from the names of `inputs` to numbers."""
        if isinstance(observation, Mapping) or any(self.categories):
            return int(self._states(np.array([self._row(observation)]))[0])
        row = as_numbers(observation)
        if row is None or row.size != len(self.inputs):
            check.fail("encode", "the observation", check.show(observation), plural(len(self.inputs), "number"))
        return int(self._states(row.reshape(1, -1))[0])

    def _row(self, observation: Any, where: str = "") -> list[float]:
        """Return the F numbers of an observation: a mapping by name, or the values in order. where: of which row, for errors."""
        if isinstance(observation, Mapping):
            there = "there: the observation has " + check.show(list(observation))
            for name in self.inputs:
                if name not in observation:
                    check.fail("encode", check.printable(name) + where, "missing", there)
            values = [observation[name] for name in self.inputs]
        else:
            expected = plural(len(self.inputs), "value")
            values = (
                [observation] if isinstance(observation, str) else check.items("encode", "the observation", observation, expected)
            )
            if len(values) != len(self.inputs):
                check.fail("encode", "the observation" + where, check.show(observation), expected)
        numbers = []
        for name, categories, value in zip(self.inputs, self.categories, values, strict=True):
            place = check.printable(name) + where
            is_name, is_truth = isinstance(value, str), isinstance(value, bool | np.bool_)
            if categories is None:
                numbers.append(check.scalar("encode", place, int(value) if is_truth else value, "a number"))
            elif is_name and value in categories:
                numbers.append(float(categories.index(value)))
            elif None in categories and (is_name or check.is_missing(value)):
                numbers.append(float(categories.index(None)))
            else:
                check.fail("encode", place, check.show(value), check.one_of(categories, value))
        return numbers

    def states(self, rows: Any) -> Ints:
        """Return the states of many rows, (n,).

        rows: an array, (n, F), or (n,) for one number; a sequence of observations, as `encoder(...)` takes them; or a data frame,
        an Arrow table or a mapping with a column for each of `inputs`.
        """
        table, wanted = as_numbers(self._rows(rows)), len(self.inputs)
        if table is not None and (table.ndim > 2 or (table.ndim == 1 and wanted == 1)) and table.size == len(table) * wanted:
            table = table.reshape(len(table), wanted)
        if table is None or table.ndim != 2 or table.shape[1] != len(self.inputs):
            shape = "no array of numbers" if table is None else table.shape
            check.fail("encode", "the shape of rows", shape, f"(n, {len(self.inputs)})")
        return self._states(table)

    def _rows(self, rows: Any) -> Any:
        """Return rows of numbers by name as rows of numbers in order; other rows are returned as they are."""
        if isinstance(rows, Mapping) or hasattr(rows, "columns"):
            there = columns_by_name("encode", "rows", rows, "columns by name")
            for name in self.inputs:
                if name not in there:
                    check.fail("encode", f"the column {name!r} of rows", "missing", f"there: it has {check.show(list(there))}")
            columns = [np.asarray(there[name]) for name in self.inputs]
            if not any(self.categories):
                table = as_numbers(columns)
                return None if table is None else table.T
            if len({len(column) for column in columns}) > 1:
                return None
            rows = list(zip(*columns, strict=True))
        if any(self.categories):
            values = [
                self._row(row, f" in row {i}") for i, row in enumerate(check.items("encode", "rows", rows, "a sequence of rows"))
            ]
            return np.array(values).reshape(-1, len(self.inputs))
        if isinstance(rows, list | tuple) and any(isinstance(row, Mapping) for row in rows):
            return [self._row(row, f" in row {i}") if isinstance(row, Mapping) else row for i, row in enumerate(rows)]
        return rows

    def _states(self, rows: Floats) -> Ints:
        """Return the states of rows, (n,), after a check that no number is missing."""
        missing = np.isnan(rows)
        if missing.any():
            i, f = np.argwhere(missing)[0]
            where = f" in row {i}" if len(rows) > 1 else ""
            check.fail("encode", check.printable(self.inputs[f]) + where, "nan", "a number")
        places = self.places(rows)
        states: Ints = np.ravel_multi_index(tuple(places.T), self.sizes).astype(np.int64)
        return states

    def save(self, path: str | Path) -> Path:
        """Write the encoder to a file, completely or not at all, and return its path. The file has its name and its digest."""
        where, arrays = path_to_write("save", "path", path), dict[str, Any]()
        header = {"cede": __version__, "name": self.name, "digest": self.digest, "n_states": self.n_states}
        save_arrays(where, "encoder", SCHEMA, {**header, "encoder": archive.describe(self, "encoder", arrays)}, arrays)
        return where

    def __repr__(self) -> str:
        def parts() -> tuple[str | None, ...]:
            named = f"name {check.printable(self.name)[:40]!r}" if self.name else None
            return named, plural(self.n_states, "state"), f"of {listed(self.inputs)}"

        return short_repr(self, parts)


# ------------------------------------------------------------------------------------------------- checks


def put(encoder: Any, owner: str, n_inputs: int, **checked: Any) -> None:
    """Put checked fields into an encoder, after a check of its labels and its name."""
    if encoder.name is not None:
        check.name(owner, "name", encoder.name)
    labels = check.names(owner, "labels", encoder.labels, n_inputs)
    for field, value in {**checked, "labels": labels, "n_inputs": n_inputs}.items():
        object.__setattr__(encoder, field, value)


def checked_edges(owner: str, place: str, borders: Any) -> Floats:
    """Check borders between bins, finite and ascending, and return them, (bins - 1,), read-only."""
    inner = check.copied(owner, place, borders, "(bins - 1,)")
    if inner.ndim != 1:
        check.fail(owner, f"the shape of {place}", inner.shape, "(bins - 1,): an array of borders")
    if not np.isfinite(inner).all() or (np.diff(inner) <= 0).any():
        check.fail(owner, place, check.show(inner.tolist()), "finite numbers, each above the one before")
    inner.setflags(write=False)
    return inner


def checked_data(owner: str, observations: Any) -> Floats:
    """Check observations, (n, F) finite numbers, or (n,) of one, and return them, (n, F)."""
    data = check.copied(owner, "observations", observations, "(n, dimensions)")
    data = data.reshape(-1, 1) if data.ndim == 1 else data
    if data.ndim != 2 or not data.size or not np.isfinite(data).all():
        check.fail(owner, "observations", check.show(observations), "a (n, dimensions) array of finite numbers, n at least 1")
    return data


def labels_of(observations: Any, labels: Sequence[str] | None) -> Sequence[str] | None:
    """Return the names of numbers: labels, or else the columns of a data frame, or else None."""
    columns = getattr(observations, "columns", None)
    return labels if labels is not None or columns is None else [str(name) for name in columns]


def borders_between(values: Floats, bins: int) -> Floats:
    """Return at most bins - 1 borders, in the middle between values that follow one another, so that no bin is empty.

    If there are no more different values than bins, each value has a bin of its own. Else the borders are those at which the share
    of smaller values is nearest to 1/bins, 2/bins, ...; several of these may coincide.
    """
    different, counts = np.unique(values, return_counts=True)
    share = np.cumsum(counts)[:-1] / len(values)  # of the values below each border
    chosen = np.arange(len(share))
    if len(different) > bins:
        chosen = np.unique([np.argmin(np.abs(share - k / bins)) for k in range(1, bins)]).astype(np.int64)
    low, high = different[chosen], different[chosen + 1]
    middle = low / 2 + high / 2
    result: Floats = np.where((low < middle) & (middle <= high), middle, high)  # no float lies between neighbours
    return result


def check_number_of_states(owner: str, sizes: Sequence[int]) -> None:
    """Check that the product of the sizes of all dimensions, the number of states, is at most MOST_STATES."""
    states = int(np.prod(sizes, dtype=object))
    if states > MOST_STATES:
        check.fail(owner, "the number of states", states, f"at most {MOST_STATES}: use fewer, coarser ones")


def check_finite(inputs: Sequence[str], rows: Floats) -> None:
    """Check that all numbers of rows are finite: sums and distances need that."""
    wrong = ~np.isfinite(rows)
    if wrong.any():
        i, f = np.argwhere(wrong)[0]
        check.fail("encode", check.printable(inputs[f]), float(rows[i, f]), "a finite number")


def check_whole(inputs: Sequence[str], rows: Floats, most: float, expected: str) -> None:
    """Check that all numbers of rows are whole, from 0 to `most`. expected: what they must be, for the error."""
    wrong = (rows != np.floor(rows)) | (rows < 0) | (rows > most)
    if wrong.any():
        i, f = np.argwhere(wrong)[0]
        check.fail("encode", check.printable(inputs[f]), float(rows[i, f]), expected)


def number_of_bins(owner: str, bins: Any, dimensions: int, argument: str = "bins") -> list[int]:
    """Check the number of bins, one for all dimensions or one for each; return one for each. argument: its name, for errors."""
    numbers = [bins] * dimensions if check.ndim(bins) == 0 else check.items(owner, argument, bins, f"the number of {argument}")
    if len(numbers) != dimensions:
        check.fail(owner, f"the number of {argument}", check.show(bins), f"one, or one for each of {dimensions} dimensions")
    return [check.integer(owner, f"{argument}[{i}]", n, 1) for i, n in enumerate(numbers)]


def labels_of_traces(owner: str, labels: Any) -> list[str]:
    """Check the name of an input, or the names of several, and return them."""
    names = [labels] if isinstance(labels, str) else check.items(owner, "labels", labels, "a name, or a sequence of names")
    if not names or len(set(map(check.show, names))) < len(names):
        check.fail(owner, "labels", check.show(labels), "at least one name, all of them different")
    return [check.name(owner, f"labels[{i}]", name) for i, name in enumerate(names)]


def shown_names(names: Sequence[str | None]) -> tuple[str, ...]:
    """Return the names of categories; that of None is "other", or if that is taken "other names"."""
    rest = "other names" if "other" in names else "other"
    return tuple(rest if name is None else name for name in names)


def as_numbers(value: Any) -> Floats | None:
    """Return an array-like value as an array of floats; None if it does not consist of numbers."""
    array = check.unmasked("encode", "the observation", value)
    return None if array is None or array.dtype.kind not in "fiub" else array.astype(np.float64)


def one_word(text: str) -> str:
    """Return a text without the separators of the parts of a state's name."""
    return "".join(" " if c in ",;:=" else c for c in text)


def intervals(edges: Floats) -> list[str]:
    """Return a name for each bin of one dimension, such as "below 0", "0 to 1" and "from 1"; "any" if there is only one."""
    if not len(edges):
        return ["any"]
    digits = next(n for n in range(3, 18) if len({f"{edge:.{n}g}" for edge in edges}) == len(edges))  # enough to tell them apart
    borders = [f"{edge:.{digits}g}" for edge in edges]
    return [f"below {borders[0]}", *(f"{low} to {high}" for low, high in pairwise(borders)), f"from {borders[-1]}"]
