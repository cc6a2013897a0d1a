"""The kinds of encoders. `cede.encode` lists them, and makes them from data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np

from cede._base import check
from cede._base.arrays import Floats, Ints, read_only
from cede.features.encoder import (
    Encoder,
    check_finite,
    check_number_of_states,
    check_whole,
    checked_edges,
    intervals,
    labels_of_traces,
    number_of_bins,
    one_word,
    put,
    shown_names,
)

MOST_AT_ONCE = 10**7  # distances that are computed at once


@dataclass(frozen=True, eq=False, repr=False)
class Grid(Encoder):
    """The encoder of one or several whole numbers: each combination is a state, and the last one varies fastest.

    n_values: how many values each number can have. least: the smallest value of each; None: 0. So Grid([3, 2], [1, 0]) numbers a
    gear from 1 to 3 and a light that is 0 or 1.
    """

    n_values: Any  # (F,) int
    least: Any = None  # (F,) int
    labels: Sequence[str] | None = None  # a name for each number
    name: str | None = None

    def __post_init__(self) -> None:
        sizes = check.integers("Grid", "n_values", self.n_values, 1).tolist()
        least = [0] * len(sizes) if self.least is None else check.integers("Grid", "least", self.least, 1).tolist()
        if not sizes or min(sizes) < 1 or len(least) != len(sizes):
            check.fail("Grid", "n_values", check.show(self.n_values), "at least 1 each, and as many as there are in least")
        check_number_of_states("encode", sizes)
        put(self, "Grid", len(sizes), n_values=tuple(sizes), least=tuple(least))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return how many values each number can have."""
        return tuple(self.n_values)

    @property
    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        values = (tuple(str(least + i) for i in range(size)) for size, least in zip(self.sizes, self.least, strict=True))
        return tuple(zip(self.inputs, values, strict=True))

    @property
    def state_names(self) -> list[str]:
        """Return a name for each state; without labels, its numbers with spaces between them."""
        return super().state_names if self.labels else [" ".join(place) for place in product(*(values for _, values in self.parts))]

    def places(self, rows: Floats) -> Ints:
        offsets = rows - np.array(self.least)
        wrong = (offsets != np.round(offsets)) | (offsets < 0) | (offsets >= np.array(self.sizes))
        if wrong.any():
            i, f = np.argwhere(wrong)[0]
            least = self.least[f]
            check.fail("encode", self.inputs[f], float(rows[i, f]), f"a whole number from {least} to {least + self.sizes[f] - 1}")
        places: Ints = offsets.astype(np.int64)
        return places

    def __call__(self, observation: Any) -> int:
        """Return the state of an observation, an integer or an array of them."""
        if isinstance(observation, Mapping):
            return super().__call__(observation)
        numbers = np.atleast_1d(np.asarray(observation)).ravel()
        whole = numbers.dtype.kind in "iu" and len(numbers) == len(self.sizes)
        places = numbers - self.least if whole else np.full(len(self.sizes), -1)
        if (places < 0).any() or (places >= self.sizes).any():
            check.fail("encode", "the observation", check.show(observation), f"whole numbers below {self.sizes}")
        return int(np.ravel_multi_index(tuple(places), self.sizes))


@dataclass(frozen=True, eq=False, repr=False)
class Categories(Encoder):
    """The encoder of one or several names: each combination is a state, and the last one varies fastest.

    values: for each input the names that it may be, in order, or these by label, as in {"weather": ["dry", "wet"], "line": ["A",
    "B", None]}. None stands for all other names, and for missing ones; without it they are refused.
    """

    values: Any  # (F,) tuples of strings, and None for others
    labels: Sequence[str] | None = None  # a name for each input
    name: str | None = None

    def __post_init__(self) -> None:
        values = self.values
        if isinstance(values, Mapping):
            if self.labels is not None:
                check.fail("Categories", "labels", check.show(self.labels), "left out where values are given by label")
            object.__setattr__(self, "labels", tuple(values))
            values = values.values()
        checked = []
        for i, given in enumerate(check.items("Categories", "values", values, "the names that each input may be")):
            names = check.items("Categories", f"values[{i}]", given, "a sequence of names")
            names = [None if name is None else check.name("Categories", f"a name in values[{i}]", name) for name in names]
            if not names or len({one_word(name) for name in shown_names(names)}) < len(names):
                check.fail("Categories", f"values[{i}]", check.show(names), "at least one name, all of them different")
            checked.append(tuple(names))
        if not checked:
            check.fail("Categories", "values", check.show(self.values), "those of at least one input")
        check_number_of_states("Categories", [len(names) for names in checked])
        put(self, "Categories", len(checked), values=tuple(checked))

    @property
    def categories(self) -> tuple[tuple[str | None, ...] | None, ...]:
        return tuple(self.values)

    @property
    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple((name, shown_names(values)) for name, values in zip(self.inputs, self.values, strict=True))

    def places(self, rows: Floats) -> Ints:
        return rows.astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Counter(Encoder):
    """The encoder of one or several counts, such as the failed calls of a trace: 0, 1, and so on up to `most` or more.

    labels: the name of the count, or the names of several. most: where counting stops, one number for all or one for each: with 2,
    the values are 0, 1 and 2+.
    """

    labels: Any  # kept as (F,) strings
    most: Any = 2  # kept as (F,) integers
    name: str | None = None

    def __post_init__(self) -> None:
        self._set(labels=labels_of_traces("Counter", self.labels))
        most = number_of_bins("Counter", self.most, len(self.labels), "most")
        check_number_of_states("Counter", [n + 1 for n in most])
        put(self, "Counter", len(most), most=tuple(most))

    @property
    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple((name, (*map(str, range(n)), f"{n}+")) for name, n in zip(self.inputs, self.most, strict=True))

    def places(self, rows: Floats) -> Ints:
        check_whole(self.inputs, rows, np.inf, "a count: a whole number of at least 0")
        places: Ints = np.minimum(rows, self.most).astype(np.int64)
        return places


@dataclass(frozen=True, eq=False, repr=False)
class Flag(Encoder):
    """The encoder of one or several flags, such as "a tool call is open": each is true or false, or 1 or 0.

    labels: the name of the flag, or the names of several. The values are called "no" and "yes".
    """

    labels: Any  # kept as (F,) strings
    name: str | None = None

    def __post_init__(self) -> None:
        self._set(labels=labels_of_traces("Flag", self.labels))
        check_number_of_states("Flag", [2] * len(self.labels))
        put(self, "Flag", len(self.labels))

    @property
    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple((name, ("no", "yes")) for name in self.inputs)

    def places(self, rows: Floats) -> Ints:
        check_whole(self.inputs, rows, 1, "True or False, or 1 or 0")
        return rows.astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Bins(Encoder):
    """The encoder of numbers: each one is divided into bins, and each combination of bins is a state.

    Make one with `uniform_bins` or `quantile_bins`, or give the edges yourself. limits: (F, 2), the least and the greatest value of
    each number; others are refused. None: numbers below the first edge or above the last one are in the outer bins.
    """

    edges: tuple[Any, ...]  # for each number a (bins - 1,) array: the borders between its bins, ascending
    labels: tuple[str, ...] | None = None  # a name for each number, used in the names of states
    limits: Any = None  # (F, 2) float64, or None
    name: str | None = None

    def __post_init__(self) -> None:
        borders = check.items("Bins", "edges", self.edges, "the borders between the bins of each dimension")
        edges = tuple(checked_edges("Bins", f"edges[{i}]", inner) for i, inner in enumerate(borders))
        if not edges:
            check.fail("Bins", "edges", check.show(self.edges), "those of at least one dimension")
        limits = self.limits
        if limits is not None:
            limits = check.array("Bins", "limits", limits, (len(edges), 2), "(F, 2)")
            for f, (low, high) in enumerate(limits):
                if low >= high or (len(edges[f]) and not low < edges[f][0] <= edges[f][-1] < high):
                    check.fail("Bins", f"limits[{f}]", check.show([low, high]), "around all edges, the least below the most")
        check_number_of_states("Bins", [len(inner) + 1 for inner in edges])
        put(self, "Bins", len(edges), edges=edges, limits=limits)

    @property
    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple((name, tuple(intervals(inner))) for name, inner in zip(self.inputs, self.edges, strict=True))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of bins of each number."""
        return tuple(len(inner) + 1 for inner in self.edges)

    def places(self, rows: Floats) -> Ints:
        if self.limits is not None:
            wrong = (rows < self.limits[:, 0]) | (rows > self.limits[:, 1])
            if wrong.any():
                i, f = np.argwhere(wrong)[0]
                low, high = self.limits[f]
                check.fail("encode", check.printable(self.inputs[f]), float(rows[i, f]), f"from {low:g} to {high:g}")
        return np.stack([np.searchsorted(inner, rows[:, f], side="right") for f, inner in enumerate(self.edges)], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class Score(Encoder):
    """The encoder of a score: the sum of weighted numbers, divided at cuts. Its states are the parts of the score between them.

    The score is offset + sum over f of weights[f] * x[f], as of a linear or logistic model that was fitted elsewhere. weights:
    (F,), or by name, as in {"load": 0.5, "trend": -2.0}; the names are the labels then. States are called by the name of the
    encoder, if it has one: "risk=below 0.2".
    """

    weights: Any  # (F,) float64
    cuts: Any  # (parts - 1,) float64, ascending; a score that equals a cut is above it
    offset: float = 0.0
    labels: Sequence[str] | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        weights = self.weights
        if isinstance(weights, Mapping):
            if self.labels is not None:
                check.fail("Score", "labels", check.show(self.labels), "left out where weights are given by name")
            object.__setattr__(self, "labels", tuple(weights))
            weights = [check.number("Score", f"weights[{check.show(label)}]", weight) for label, weight in weights.items()]
        weights = check.array("Score", "weights", weights, (None,), "(F,)")
        cuts, offset = checked_edges("Score", "cuts", self.cuts), check.number("Score", "offset", self.offset)
        check_number_of_states("Score", [len(cuts) + 1])
        put(self, "Score", len(weights), weights=weights, cuts=cuts, offset=offset)

    @property
    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ((self.name or "score", tuple(intervals(self.cuts))),)

    def places(self, rows: Floats) -> Ints:
        check_finite(self.inputs, rows)
        score = np.full(len(rows), self.offset)
        for f, weight in enumerate(self.weights):  # one after the other: many rows give the same bits as one
            score += weight * rows[:, f]
        return np.searchsorted(self.cuts, score, side="right").reshape(-1, 1)


@dataclass(frozen=True, eq=False, repr=False)
class Clusters(Encoder):
    """The encoder of points: the state is the nearest of k centres, after each number was divided by its scale.

    `clusters` fits one. Of several centres that are equally near, the first is the state.
    """

    centres: Any  # (k, F) float64
    scale: Any = None  # (F,) float64, above 0; None: all are 1
    labels: Sequence[str] | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        centres = check.array("Clusters", "centres", self.centres, (None, None), "(k, F)")
        ones = np.ones(centres.shape[1])
        scale = check.array("Clusters", "scale", ones if self.scale is None else self.scale, (centres.shape[1],), "(F,)")
        if (scale <= 0).any():
            check.fail("Clusters", f"scale[{int(np.argmax(scale <= 0))}]", float(scale.min()), "above 0")
        check_number_of_states("Clusters", [len(centres)])
        put(self, "Clusters", centres.shape[1], centres=centres, scale=scale)

    @property
    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        near = [" ".join(f"{name} {value:.3g}" for name, value in zip(self.inputs, centre, strict=True)) for centre in self.centres]
        return (("cluster", tuple(f"{i} near {where}" for i, where in enumerate(near))),)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of clusters."""
        return (len(self.centres),)

    def places(self, rows: Floats) -> Ints:
        check_finite(self.inputs, rows)
        result, n = np.empty((len(rows), 1), dtype=np.int64), max(1, MOST_AT_ONCE // len(self.centres))
        for begin in range(0, len(rows), n):
            part = rows[begin : begin + n]
            distance = np.zeros((len(part), len(self.centres)))
            for f, scale in enumerate(self.scale):  # one after the other: many rows give the same bits as one
                distance += ((part[:, f, None] - self.centres[:, f]) / scale) ** 2
            result[begin : begin + n, 0] = np.argmin(distance, axis=1)
        return result


@dataclass(frozen=True, eq=False, repr=False)
class Product(Encoder):
    """The encoder of several encoders: each combination of their states is a state, and that of the last one varies fastest.

    encoders: at least one. columns: for each of them the indices of the numbers that it reads; None: the first one reads the first
    numbers, the second one those that follow, and so on.
    """

    encoders: tuple[Any, ...]
    columns: Any = None  # for each encoder an (F,) int64 array
    name: str | None = None

    def __post_init__(self) -> None:
        encoders = tuple(check.items("Product", "encoders", self.encoders, "a sequence of encoders"))
        if not encoders:
            check.fail("Product", "encoders", "empty", "at least one")
        for i, encoder in enumerate(encoders):
            check.instance("Product", f"encoders[{i}]", encoder, Encoder)
        ends = [0, *accumulate(len(encoder.inputs) for encoder in encoders)]
        default = [np.arange(begin, end) for begin, end in pairwise(ends)]
        indices = default if self.columns is None else check.items("Product", "columns", self.columns, "indices for each encoder")
        if len(indices) != len(encoders):
            check.fail("Product", "the length of columns", len(indices), f"{len(encoders)}, one entry for each encoder")
        columns = tuple(read_only(check.integers("Product", f"columns[{i}]", read, 1)) for i, read in enumerate(indices))
        for i, (encoder, read) in enumerate(zip(encoders, columns, strict=True)):
            if len(read) != len(encoder.inputs) or read.min(initial=0) < 0:
                check.fail("Product", f"columns[{i}]", check.show(read.tolist()), f"{len(encoder.inputs)} indices from 0 on")
        used = set(np.concatenate(columns).tolist())
        if used != set(range(len(used))):
            check.fail("Product", "columns", check.show(sorted(used)), f"all from 0 to {len(used) - 1}: each number is read")
        check_number_of_states("Product", [encoder.n_states for encoder in encoders])
        put(self, "Product", len(used), encoders=encoders, columns=columns)
        for i, (encoder, read) in enumerate(zip(encoders, columns, strict=True)):
            if tuple(self.categories[column] for column in read) != encoder.categories:
                check.fail(
                    "Product", f"columns[{i}]", check.show(read.tolist()), "names for Categories, numbers for other encoders"
                )

    @property
    def inputs(self) -> tuple[str, ...]:
        names: dict[int, str] = {}
        for encoder, read in zip(self.encoders, self.columns, strict=True):
            for name, column in zip(encoder.inputs, read.tolist(), strict=True):
                is_named = isinstance(encoder, Product) or encoder.labels is not None
                names.setdefault(column, name if is_named else f"x{column}")
        return tuple(names[i] for i in range(len(names)))

    @property
    def categories(self) -> tuple[tuple[str | None, ...] | None, ...]:
        read_as: dict[int, tuple[str | None, ...] | None] = {}
        for encoder, read in zip(self.encoders, self.columns, strict=True):
            read_as |= dict(zip(read.tolist(), encoder.categories, strict=True))
        return tuple(read_as[i] for i in range(self.n_inputs))

    @property
    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        features: list[tuple[str, tuple[str, ...]]] = []
        names = self.inputs
        for encoder, read in zip(self.encoders, self.columns, strict=True):
            shown_as = dict(zip(encoder.inputs, (names[column] for column in read.tolist()), strict=True))
            features += [(shown_as.get(name, name), values) for name, values in encoder.parts]
        again = [sum(other == name for other, _ in features[:i]) for i, (name, _) in enumerate(features)]
        return tuple((name if not n else f"{name} {n + 1}", values) for (name, values), n in zip(features, again, strict=True))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of values of each feature."""
        return tuple(size for encoder in self.encoders for size in encoder.sizes)

    def places(self, rows: Floats) -> Ints:
        pairs = zip(self.encoders, self.columns, strict=True)
        return np.concatenate([encoder.places(rows[:, read]) for encoder, read in pairs], axis=1)
