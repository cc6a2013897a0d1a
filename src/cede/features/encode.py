"""Encoders turn measured numbers and names into a state, an integer from 0.

A learner needs few states with many visits each. An encoder computes the state of a row of numbers, or of names:

uniform_bins, quantile_bins, Bins   divide each number into bins; each combination of bins is a state
Score                               adds up weighted numbers to one score, and divides that at cuts
clusters, Clusters                  finds centres in data; the state is the nearest centre (fitting needs the extra `encode`)
Grid                                numbers the combinations of whole numbers without loss
Counter, Flag                       numbers counts, such as failed calls (0, 1, 2+), and what is true or not
Categories                          numbers the combinations of names, such as the kind of a request
Product                             combines encoders of different numbers and names
from_frame                          chooses an encoder for each column of a data frame, and says what it chose

`encoder(x)` returns the state of one row, `encoder.states(rows)` those of many. NaN is an error that names the number.
An encoder is data: `encoder.save(path)` writes it to a file, which `cede.encode.load` and `cede.load` read; nothing is pickled.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede._base import archive, check
from cede._base.archive import UnreadableFile, load_arrays
from cede._base.extras import need
from cede.features.encoder import SCHEMA, Encoder, borders_between, checked_data, labels_of, number_of_bins
from cede.features.frames import FrameEncoder, from_frame
from cede.features.kinds import Bins, Categories, Clusters, Counter, Flag, Grid, Product, Score

__all__ = [
    "Bins",
    "Categories",
    "Clusters",
    "Counter",
    "Encoder",
    "Flag",
    "FrameEncoder",
    "Grid",
    "Product",
    "Score",
    "clusters",
    "from_frame",
    "load",
    "quantile_bins",
    "uniform_bins",
]

KINDS = (Grid, Categories, Counter, Flag, Bins, Score, Clusters, Product, FrameEncoder)
CLASSES: dict[str, Callable[..., Any]] = {cls.__name__: cls for cls in KINDS}
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
