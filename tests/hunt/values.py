"""Wrong values for each kind of argument, and the same value in another form."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
from pandas import DataFrame


class Rude:
    """An object that fails whatever is done with it."""

    def __repr__(self):
        raise RuntimeError("no repr")

    __len__ = __iter__ = __float__ = __bool__ = __array__ = __index__ = __fspath__ = __repr__


def anything(rng):
    """Objects that hardly any argument may be."""
    things = [
        object,
        Rude,
        lambda: 1 + 2j,
        lambda: np.complex128(1 + 2j),
        lambda: b"bytes",
        lambda: np.datetime64("2020-01-01"),
        lambda: np.array("text"),
        lambda: [[1.0], [1.0, 2.0]],
        lambda: {1, 2},
        lambda: float("nan"),
        lambda: np.ma.masked,
        lambda: np.ma.masked_array([1.0, 2.0], mask=[True, False]),
        lambda: (i for i in range(3)),
        lambda: np.array([{}, None], dtype=object),
        lambda: "\x1b[2J",
        lambda: 10**30,
        lambda: -(10**30),
        lambda: Decimal("nan"),
        lambda: type,
        lambda: NotImplemented,
        lambda: np.empty((0, 3)),
        lambda: memoryview(b"abc"),
    ]
    return things[rng.integers(len(things))]()


class Kind:
    """What an argument may be: `bad` gives a value that must be refused, `same` the valid value in another form, or None."""

    optional = False

    def bad(self, value, rng):
        own = self.own_bad(value, rng)
        choices = [*own, *((None,) if not self.optional else ()), *(anything(rng) for _ in range(max(2, len(own) // 2)))]
        chosen = choices[rng.integers(len(choices))]
        fine = self.allows(chosen) or (chosen is None and self.optional)
        return chosen if not fine else own[rng.integers(len(own))] if own else object()

    def own_bad(self, value, rng):
        return []

    def same(self, value, rng):
        return None

    def allows(self, value):
        """Whether a value, made for any argument, is fine for this one."""
        return False


def optional(kind):
    kind.optional = True
    return kind


class Integer(Kind):
    def __init__(self, least=0, most=None):
        self.least, self.most = least, most

    def own_bad(self, value, rng):
        found = [
            True,
            np.True_,
            1.5,
            float(value),
            "1",
            [value],
            np.array([value]),
            self.least - 1,
            np.float64(value),
            Decimal(value),
        ]
        return [*found, *((self.most + 1, 2**63, 2**64) if self.most is not None else ())]

    def same(self, value, rng):
        return [np.int64(value), np.int16(value), np.uint32(value)][rng.integers(3)] if 0 <= value < 2**15 else np.int64(value)

    def allows(self, value):
        return self.most is None and isinstance(value, int) and not isinstance(value, bool) and value >= self.least


class Number(Kind):
    def __init__(self, least=-np.inf, most=np.inf, open_end=False):
        self.least, self.most, self.open = least, most, open_end

    def own_bad(self, value, rng):
        found = [True, "0.1", [0.1], np.nan, np.inf, -np.inf, np.array([0.1, 0.2]), np.complex64(1)]
        found += [self.least - 0.5] if np.isfinite(self.least) else []
        found += [self.most + 0.5] if np.isfinite(self.most) else []
        return [*found, *((self.least, self.most) if self.open else ())]

    def same(self, value, rng):
        forms = [
            np.float64(value),
            np.array(value),
            Fraction(value),
            *((np.float32(value),) if float(np.float32(value)) == value else ()),
        ]
        return forms[rng.integers(len(forms))]

    def allows(self, value):
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most and abs(value) < 1e90


class Array(Kind):
    """of: "numbers", "values" (NaN where not known), "chances" (last axis sums to 1), "indices" (below `size`)."""

    def __init__(self, of="numbers", size=None, shaped=True, least=0):
        self.of, self.size, self.shaped, self.least = of, size, shaped, least

    def own_bad(self, value, rng):
        array = np.array(value)
        found = [
            "text",
            np.array(value, dtype=object).astype(str),
            array + 1j,
            np.ma.masked_array(array, mask=np.ones(array.shape)),
        ]
        found += [np.full(array.shape, None), array.astype(str).astype(bytes), np.zeros(array.shape, dtype="datetime64[s]")]
        if self.shaped:
            found += [array[None], array[..., :0], array.ravel()[: max(1, array.size - 1)] if array.size > 1 else array[None]]
            found += [np.concatenate([array, array[:1]]), array[:-1]]
        place = tuple(int(rng.integers(n)) for n in array.shape)

        def changed(to):
            result = array.astype(float if self.of != "indices" else array.dtype)
            result[place] = to
            return result

        if self.of == "indices":
            found += [array.astype(float), array.astype(bool), *(() if self.size is None else (changed(self.size), changed(2**14)))]
            found += [changed(-1)] if self.least == 0 else []
        else:
            found += [changed(np.inf), changed(-np.inf), *(() if self.of == "values" else (changed(np.nan),))]
        if self.of == "chances":
            found += [changed(-0.25), array * 0.93, array * 0]
        return found

    def allows(self, value):
        return isinstance(value, memoryview)  # an array of small integers

    def same(self, value, rng):
        array = np.array(value)
        wide = np.repeat(array, 2, axis=0)[::2]  # every second row of another array
        fixed = array.copy()
        fixed.setflags(write=False)
        forms = [array.tolist(), np.asfortranarray(array), wide, fixed, array.astype(array.dtype.newbyteorder())]
        if self.of == "indices":
            forms += [array.astype(np.int8), array.astype(np.uint32)] if array.max() < 100 else []
        elif (array.astype(np.float32) == array).all():
            forms.append(array.astype(np.float32))
        forms.append(np.ma.masked_array(array, mask=False))
        if array.ndim == 2:
            forms += [DataFrame(array), array.view(np.matrix), [list(row) for row in array]]
        return forms[rng.integers(len(forms))]


class Instance(Kind):
    def own_bad(self, value, rng):
        return [3, "x", type(value), [value], {"x": value}]


class Name(Kind):
    def own_bad(self, value, rng):
        return ["", 3, b"name", ["x"], None]

    def allows(self, value):
        return isinstance(value, str)


class Choice(Kind):
    def __init__(self, *options):
        self.options = options

    def own_bad(self, value, rng):
        return ["nonsense", 3.5, ["x"], {"x": 1}]


class Flag(Kind):
    def own_bad(self, value, rng):
        return [1, 0, "yes", np.array([True, False]), 2.5, []]

    def same(self, value, rng):
        return np.bool_(value)


class FilePath(Kind):
    def own_bad(self, value, rng):
        return [3, True, "", "a\0b", ["x"], b"name", 2.5, Path("/nowhere/at/all/x"), Path("/")]

    def same(self, value, rng):
        return None if value is None else str(value)

    def allows(self, value):
        return isinstance(value, str) and "\0" not in value and value != ""


class Source(FilePath):
    """A path, or the bytes of a file."""

    def own_bad(self, value, rng):
        return [bad for bad in super().own_bad(value, rng) if not isinstance(bad, bytes)]

    def allows(self, value):
        return super().allows(value) or isinstance(value, bytes)


class AnyText(Kind):
    def own_bad(self, value, rng):
        return [3, b"x", ["x"], 2.5, None]

    def allows(self, value):
        return isinstance(value, str)


class Factor(Number):
    """A factor for radii, or a function that returns one."""

    def allows(self, value):
        return callable(value) or super().allows(value)


class Seed(Kind):
    """An integer of at least 0, or a generator."""

    def own_bad(self, value, rng):
        return [-1, 1.0, "1", [1], True, np.random.RandomState(1)]

    def same(self, value, rng):
        return [np.int64(value), np.uint8(value), np.int8(value)][rng.integers(3)]

    def allows(self, value):
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class Delay(Integer):
    """Steps, or the probabilities of 0, 1, 2, ... steps."""

    def own_bad(self, value, rng):
        return ["soon", True, 1.5, -1, self.most + 1, [0.7, 0.7], [-0.1, 0.5], [0.0], [], [[0.5]], np.array([np.nan])]

    def allows(self, value):
        try:
            chances = np.asarray(value, dtype=float)
        except (TypeError, ValueError, OverflowError):
            return False
        good = chances.ndim == 1 and 0 < len(chances) <= self.most + 1 and bool((chances >= 0).all()) and 0 < chances.sum() <= 1
        return good or super().allows(value)


class ByName(Kind):
    """A mapping from names; wrong ones have another name, or another value."""

    def __init__(self, free=False):
        self.free = free  # any name will do

    def own_bad(self, value, rng):
        name = next(iter(value))
        wrong = [[("a", 1)], "x", 3, {name: object()}, {name: "text"}, {3: value[name]}, [value], {name: None}]
        return wrong if self.free else [*wrong, {"nobody": value[name]}]


class Function(Kind):
    def own_bad(self, value, rng):
        return [3, "x", [value], 2.5]

    def allows(self, value):
        return callable(value)


class Sequence(Kind):
    """A sequence of objects of one class."""

    def own_bad(self, value, rng):
        return [3, [None], [*value, 3], [object()], {"x": 1}, [], value[0] if len(value) else 3]

    def same(self, value, rng):
        return tuple(value)


class Names(Sequence):
    """free: there may be any number of them."""

    def __init__(self, free=False):
        self.free = free

    def own_bad(self, value, rng):
        lengths = [] if self.free else [[*value, "x"], value[:-1]]
        return [3, [b"x"] * len(value), [1] * len(value), "ab", *lengths]


class Listed(Sequence):
    """All states or all actions: anything that can be hashed."""

    def own_bad(self, value, rng):
        return [3, 2.5, [[1], [2]], [0, 0], "ab", [{}]]

    def allows(self, value):
        return not isinstance(value, int | float | complex | str | bytes | np.generic) and hasattr(value, "__iter__")
