"""Encoders: functions that turn an observation of an environment into a state, an integer from 0.

Any function of the observation can be an encoder. If it has parameters named `env`, `info`, `reward` or `terminated`, it gets these
too: the environment without its wrappers, what the step returned beside the observation, and whether it ended the episode. Some
environments, as those of MiniGrid, show only there what they hide in the observation.

Encoders of this module also have the number of states (`n_states`) and their names (`names`). Discrete and MultiDiscrete
observations are numbered without loss (`Grid`). Numeric observations (Box) are put into bins (`Bins`), which have equal width
(`uniform_bins`) or hold about equally many observations (`quantile_bins`).
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cede._base import check
from cede._base.arrays import Floats
from cede._base.extras import need

MOST_STATES = 10**7
SEEN = ("env", "info", "reward", "terminated")  # what an encoder can see besides the observation, if it has parameters of that name


def check_number_of_states(owner: str, sizes: Sequence[int]) -> None:
    """Check that the product of the sizes of all dimensions, the number of states, is at most MOST_STATES."""
    states = int(np.prod(sizes, dtype=object))
    if states > MOST_STATES:
        check.fail(owner, "the number of states", states, f"at most {MOST_STATES}: use fewer, coarser ones")


@dataclass(frozen=True)
class Grid:
    """The encoder of observations that are one or several integers: each combination is a state, and the last varies fastest."""

    sizes: tuple[int, ...]  # how many values each integer can have
    least: tuple[int, ...]  # the smallest value of each

    def __post_init__(self) -> None:
        check_number_of_states("encode", self.sizes)

    @property
    def n_states(self) -> int:
        return int(np.prod(self.sizes, dtype=np.int64))

    @property
    def names(self) -> list[str]:
        """Return a name for each state: its integers, with spaces between them."""
        values = (range(least, least + size) for size, least in zip(self.sizes, self.least, strict=True))
        return [" ".join(map(str, place)) for place in product(*values)]

    def __call__(self, observation: Any) -> int:
        """Return the state of an observation, an integer or an array of them."""
        given = np.atleast_1d(np.asarray(observation)).ravel()
        whole = given.dtype.kind in "iu" and len(given) == len(self.sizes)
        places = given - self.least if whole else np.full(len(self.sizes), -1)
        if (places < 0).any() or (places >= self.sizes).any():
            check.fail("encode", "the observation", check.show(observation), f"whole numbers below {self.sizes}")
        return int(np.ravel_multi_index(tuple(places), self.sizes))


@dataclass(frozen=True, eq=False)
class Bins:
    """The encoder of numeric observations: each dimension is divided into bins, and each combination of bins is a state.

    Make one with `uniform_bins` or `quantile_bins`, or give the edges yourself.
    """

    edges: tuple[Any, ...]  # for each dimension a (bins - 1,) array: the borders between its bins, ascending
    labels: tuple[str, ...] | None = None  # a name for each dimension, used in the names of states

    def __post_init__(self) -> None:
        given = check.items("Bins", "edges", self.edges, "the borders between the bins of each dimension")
        edges = tuple(check.copied("Bins", f"edges[{i}]", inner, "(bins - 1,)") for i, inner in enumerate(given))
        if not edges:
            check.fail("Bins", "edges", check.show(self.edges), "those of at least one dimension")
        for i, inner in enumerate(edges):
            if inner.ndim != 1:
                check.fail("Bins", f"the shape of edges[{i}]", inner.shape, "(bins - 1,): an array of borders for each dimension")
            if not np.isfinite(inner).all() or (np.diff(inner) <= 0).any():
                check.fail("Bins", f"edges[{i}]", check.show(inner.tolist()), "finite numbers, each above the one before")
            inner.setflags(write=False)
        object.__setattr__(self, "labels", check.names("Bins", "labels", self.labels, len(edges)))
        object.__setattr__(self, "edges", edges)
        check_number_of_states("Bins", self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of bins of each dimension."""
        return tuple(len(inner) + 1 for inner in self.edges)

    @property
    def n_states(self) -> int:
        return int(np.prod(self.sizes, dtype=np.int64))

    @property
    def names(self) -> list[str]:
        """Return a name for each state, such as "angle below -0.1, speed 0 to 1"."""
        labels = self.labels or tuple(f"x{i}" for i in range(len(self.edges)))
        each = [[f"{label} {part}" for part in intervals(inner)] for label, inner in zip(labels, self.edges, strict=True)]
        return [", ".join(place) for place in product(*each)]

    def __call__(self, observation: Any) -> int:
        """Return the state of an observation, an array with one number for each dimension."""
        given = check.unmasked("encode", "the observation", observation)
        x = np.empty(0) if given is None or given.dtype.kind not in "fiub" else given.astype(np.float64).ravel()
        if len(x) != len(self.edges) or np.isnan(x).any():
            check.fail("encode", "the observation", check.show(observation), f"{len(self.edges)} numbers")
        places = [int(np.searchsorted(inner, value, side="right")) for inner, value in zip(self.edges, x, strict=True)]
        return int(np.ravel_multi_index(places, self.sizes))


def intervals(edges: Floats) -> list[str]:
    """Return a name for each bin of one dimension, such as "below 0", "0 to 1" and "from 1"; "any" if there is only one."""
    if not len(edges):
        return ["any"]
    digits = next(n for n in range(3, 18) if len({f"{edge:.{n}g}" for edge in edges}) == len(edges))  # enough to tell them apart
    borders = [f"{edge:.{digits}g}" for edge in edges]
    return [f"below {borders[0]}", *(f"{low} to {high}" for low, high in pairwise(borders)), f"from {borders[-1]}"]


def uniform_bins(low: ArrayLike, high: ArrayLike, bins: int | Sequence[int], *, labels: Sequence[str] | None = None) -> Bins:
    """Return an encoder with bins of equal width in each dimension.

    low, high: the range of each dimension, (dimensions,), finite; values outside it are in the first or last bin. bins: the number
    of bins, one for all dimensions or one for each. labels: names of the dimensions.
    """
    owner = "uniform_bins"
    given = (("low", low), ("high", high))
    ends = [np.atleast_1d(check.copied(owner, name, end, "(dimensions,)")) for name, end in given]
    if ends[0].shape != ends[1].shape or ends[0].ndim != 1 or not np.isfinite(ends).all() or (ends[0] >= ends[1]).any():
        expected = "finite numbers, as many of both, low below high; for spaces without ends choose some"
        check.fail(owner, "low and high", check.show((low, high)), expected)
    numbers = number_of_bins(owner, bins, len(ends[0]))
    edges = [np.linspace(a, b, n + 1)[1:-1] for a, b, n in zip(*ends, numbers, strict=True)]
    return Bins(tuple(edges), labels)  # type: ignore[arg-type]


def quantile_bins(observations: ArrayLike, bins: int | Sequence[int], *, labels: Sequence[str] | None = None) -> Bins:
    """Return an encoder with bins that hold about equally many of the given observations, (n, dimensions).

    bins: the number of bins, one for all dimensions or one for each; where many observations are equal there may be fewer. labels:
    names of the dimensions.
    """
    owner = "quantile_bins"
    data = check.copied(owner, "observations", observations, "(n, dimensions)")
    if data.ndim != 2 or not len(data) or not np.isfinite(data).all():
        check.fail(owner, "observations", check.show(observations), "a (n, dimensions) array of finite numbers, n at least 1")
    numbers = number_of_bins(owner, bins, data.shape[1])
    edges = [np.unique(np.quantile(column, np.arange(1, n) / n)) for column, n in zip(data.T, numbers, strict=True)]
    return Bins(tuple(edges), labels)  # type: ignore[arg-type]


def number_of_bins(owner: str, bins: Any, dimensions: int) -> list[int]:
    """Check the number of bins, one for all dimensions or one for each; return one for each."""
    given = [bins] * dimensions if check.ndim(bins) == 0 else check.items(owner, "bins", bins, "the number of bins")
    if len(given) != dimensions:
        check.fail(owner, "the number of bins", check.show(bins), f"one, or one for each of {dimensions} dimensions")
    return [check.integer(owner, f"bins[{i}]", n, 1) for i, n in enumerate(given)]


def encoder_of(owner: str, space: Any) -> Any:
    """Return the encoder of a Discrete or MultiDiscrete space; for any other space it is an error that `encode` was not given."""
    spaces = need("gymnasium.spaces", "gym")
    if isinstance(space, spaces.Discrete):
        return Grid((int(space.n),), (int(space.start),))
    if not isinstance(space, spaces.MultiDiscrete):
        expected = "given: a function from observations to states, as uniform_bins or quantile_bins make one"
        check.fail(owner, "encode", f"None for {check.show(space)}", expected)
    least = np.asarray(getattr(space, "start", np.zeros_like(space.nvec)))
    return Grid(tuple(map(int, np.ravel(space.nvec))), tuple(map(int, np.ravel(least))))


def with_what_it_sees(owner: str, encode: Any) -> Callable[..., int]:
    """Return a function encode(observation, env=, info=, reward=, terminated=) that passes on only those that an encoder asks for.

    Its signature is looked at once. Its first parameter is the observation, whatever its name; functions without a signature, such
    as some that are built in, get the observation alone.
    """
    try:
        parameters = list(inspect.signature(encode).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    asked = [one.name for one in parameters[1:] if one.kind in named and one.name in SEEN]
    for one in parameters[1:]:
        if one.name not in asked and one.default is inspect.Parameter.empty and one.kind in named:
            check.fail(owner, f"the parameter {one.name!r} of encode", "not known", f"left out, or {check.one_of(SEEN)}")

    def encoded(observation: Any, **seen: Any) -> int:
        state: int = encode(observation, **{name: seen[name] for name in asked})
        return state

    return encoded
