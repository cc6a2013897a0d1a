"""Encoders turn measured numbers and names into a state, an integer from 0.

A learner needs few states with many visits each. An encoder computes the state of a row of numbers, or of names:

uniform_bins, quantile_bins, Bins   divide each number into bins; each combination of bins is a state
Score                               adds up weighted numbers to one score, and divides that at cuts
clusters, Clusters                  finds centres in data; the state is the nearest centre (fitting needs the extra `encode`)
Grid                                numbers the combinations of whole numbers without loss
Categories                          numbers the combinations of names, such as the kind of a request
Product                             combines encoders of different numbers and names

`encoder(x)` returns the state of one row, `encoder.states(rows)` those of many. NaN is an error that names the number.
An encoder is data: `encoder.save(path)` writes it to a file, which `cede.encode.load` and `cede.load` read; nothing is pickled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede._base import archive, check
from cede._base.archive import UnreadableFile, load_arrays
from cede._base.arrays import Floats, Ints, read_only
from cede._base.extras import need
from cede.features.encoder import (
    SCHEMA,
    Encoder,
    borders_between,
    check_finite,
    check_number_of_states,
    checked_data,
    checked_edges,
    intervals,
    labels_of,
    number_of_bins,
    one_word,
    put,
)

__all__ = [
    "Bins",
    "Categories",
    "Clusters",
    "Encoder",
    "Grid",
    "Product",
    "Score",
    "clusters",
    "load",
    "quantile_bins",
    "uniform_bins",
]

MOST_AT_ONCE = 10**7  # distances that are computed at once
OUTSIDE = ("outer", "refuse")  # what to do with numbers outside the range: put them into the outer bins, or refuse them


def load(source: str | Path | bytes) -> Encoder:
    """Read an encoder that was saved with its `save`. source: a path, or the bytes of such a file.

    Raises `UnreadableFile` if anything is wrong with the file.
    """
    where = source if isinstance(source, bytes) else check.path("load", "source", source)
    header, arrays = load_arrays(where, "encoder", SCHEMA)
    try:
        encoder = archive.rebuild(header["encoder"], arrays, CLASSES)
        check.instance("load", "what the file holds", encoder, Encoder)
        if encoder.digest != header["digest"] or encoder.name != header["name"]:
            check.fail("load", "the digest of the encoder", "another one", "that of the file")
    except Exception as error:  # a file from outside may be wrong in any way
        place = "these bytes" if isinstance(where, bytes) else where
        raise UnreadableFile(f"{place}: cannot be read, must be an encoder of cede; it is damaged ({error})") from error
    result: Encoder = encoder
    return result


# ------------------------------------------------------------------------------------------------- the kinds


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
    "B"]}. Other names are refused; add one such as "other" for them, and replace them by it beforehand.
    """

    values: Any  # (F,) tuples of strings
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
            names = [check.name("Categories", f"a name in values[{i}]", name) for name in names]
            if not names or len({one_word(name) for name in names}) < len(names):
                check.fail("Categories", f"values[{i}]", check.show(names), "at least one name, all of them different")
            checked.append(tuple(names))
        if not checked:
            check.fail("Categories", "values", check.show(self.values), "those of at least one input")
        check_number_of_states("Categories", [len(names) for names in checked])
        put(self, "Categories", len(checked), values=tuple(checked))

    @property
    def categories(self) -> tuple[tuple[str, ...] | None, ...]:
        return tuple(self.values)

    @property
    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple(zip(self.inputs, self.values, strict=True))

    def places(self, rows: Floats) -> Ints:
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
    def categories(self) -> tuple[tuple[str, ...] | None, ...]:
        read_as: dict[int, tuple[str, ...] | None] = {}
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


CLASSES: dict[str, Callable[..., Any]] = {cls.__name__: cls for cls in (Grid, Categories, Bins, Score, Clusters, Product)}


# ------------------------------------------------------------------------------------------------- making them


def uniform_bins(
    low: ArrayLike,
    high: ArrayLike,
    bins: int | Sequence[int],
    *,
    labels: Sequence[str] | None = None,
    outside: str = "outer",
    name: str | None = None,
) -> Bins:
    """Return an encoder with bins of equal width for each number.

    low, high: the range of each number, (F,), finite. bins: the number of bins, one for all numbers or one for each. labels: names
    of the numbers. outside: what to do with numbers outside the range: "outer" puts them into the first or last bin, "refuse" is an
    error. name: of the encoder, for its file.
    """
    owner = "uniform_bins"
    ranges = (("low", low), ("high", high))
    ends = [np.atleast_1d(check.copied(owner, name, end, "(dimensions,)")) for name, end in ranges]
    if ends[0].shape != ends[1].shape or ends[0].ndim != 1 or not np.isfinite(ends).all() or (ends[0] >= ends[1]).any():
        expected = "finite numbers, as many of both, low below high; for spaces without ends choose some"
        check.fail(owner, "low and high", check.show((low, high)), expected)
    numbers = number_of_bins(owner, bins, len(ends[0]))
    edges = [np.linspace(a, b, n + 1)[1:-1] for a, b, n in zip(*ends, numbers, strict=True)]
    refused = check.choice(owner, "outside", outside, OUTSIDE) == "refuse"
    return Bins(tuple(edges), labels, np.stack(ends, axis=1) if refused else None, name)  # type: ignore[arg-type]


def quantile_bins(
    observations: ArrayLike, bins: int | Sequence[int], *, labels: Sequence[str] | None = None, name: str | None = None
) -> Bins:
    """Return an encoder with bins that hold about equally many of the given observations, (n, F), or (n,) of one number.

    bins: the number of bins, one for all numbers or one for each; where many observations are equal there may be fewer. No bin is
    empty, and a number with no more different values than bins has a bin for each. labels: names of the numbers; by default the
    columns of a data frame. name: of the encoder, for its file. Numbers below or above all observations are in the outer bins.
    """
    owner = "quantile_bins"
    data = checked_data(owner, observations)
    numbers = number_of_bins(owner, bins, data.shape[1])
    edges = [borders_between(column, n) for column, n in zip(data.T, numbers, strict=True)]
    return Bins(tuple(edges), labels_of(observations, labels), None, name)  # type: ignore[arg-type]


def clusters(
    observations: ArrayLike,
    n: int,
    *,
    seed: int = 0,
    same_scale: bool = False,
    labels: Sequence[str] | None = None,
    name: str | None = None,
) -> Clusters:
    """Find n centres in observations, (rows, F) or (rows,), by k-means, and return the encoder. Needs the extra `encode`.

    same_scale: False divides each number by its standard deviation, so that all have equal weight; True does not. seed: of
    the first centres. labels: names of the numbers; by default the columns of a data frame. name: of the encoder, for its file.
    """
    owner = "clusters"
    data = checked_data(owner, observations)
    n, seed = check.integer(owner, "n", n, 1, len(data)), check.integer(owner, "seed", seed, 0, 2**32 - 1)
    spread = np.ones(data.shape[1]) if check.truth(owner, "same_scale", same_scale) else data.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    different = len(np.unique(data / scale, axis=0))
    if n > different:
        check.fail(owner, "n", n, f"at most {different}, the number of different rows of observations")
    fitted = need("sklearn.cluster", "encode").KMeans(n_clusters=n, n_init=10, random_state=seed).fit(data / scale)
    centres = fitted.cluster_centers_
    order = np.lexsort(centres.T[::-1])  # by the first number, then the second: clusters that are close have close numbers
    return Clusters(centres[order] * scale, scale, labels_of(observations, labels), name)
