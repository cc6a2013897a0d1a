"""Kernels without Numba's private names: slower to compile than with numba_private.py, the same bits.

Both modules define `NAME`, `compiled`, `add_fields`, `add_unit` and `sums_over_blocks`.
"""

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic, lower_setattr_generic, overload_attribute

NAME = "plain"  # part of the names under which compiled code is kept
SHAPE = 5  # words of an array in a bundle before its shape; the last of them is the address of its elements

_config: Any = numba.config
_disable_jit = threading.Lock()


def njit(function: Any, **options: Any) -> Any:
    """Let Numba compile a function on first use, also where NUMBA_DISABLE_JIT is set: that is for functions that users debug."""
    with _disable_jit:
        disabled, _config.DISABLE_JIT = _config.DISABLE_JIT, 0
        try:
            return numba.njit(error_model="numpy", nogil=True, **options)(function)
        finally:
            _config.DISABLE_JIT = disabled


def compiled(function: Any, for_python: bool, **options: Any) -> Any:
    """Make a kernel; keep its code on disk where a directory can be written."""
    del for_python  # Numba compiles the wrapper for Python in any case
    try:
        return njit(function, cache=True, **options)
    except RuntimeError:  # Numba finds no directory
        return njit(function, **options)


def add_unit(unit: Any) -> Callable[[], Any]:
    """Return a function that compiles a unit for the types that it declares and returns the type by which kernels know it."""

    def find_type() -> Any:
        unit.compile_inner()
        unit.inner.disable_compile()  # for other types: arguments are converted
        return numba.typeof(unit.inner)

    return find_type


# ------------------------------------------------------------------------------------------------- fields of bundles


def place_of(context: Any, builder: Any, bundle: Any, at: int, kind: Any) -> Any:
    """Emit a pointer to word `at` of a bundle, where something of type `kind` is kept."""
    word = context.get_value_type(types.int64)
    return builder.inttoptr(builder.add(builder.ptrtoint(bundle, word), word(8 * at)), context.get_value_type(types.CPointer(kind)))


@cache
def pointer_at(at: int, kind: Any) -> Any:
    """Return a function for kernels that returns a pointer to word `at` of a bundle, where something of type `kind` is kept."""

    @intrinsic
    def pointer(context, bundle):
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return place_of(context, builder, arguments[0], at, kind)

        return types.CPointer(kind)(bundle), generate

    return pointer


def reader(kind: Any, at: int) -> Any:
    """Return the function that reads a field of type `kind` at word `at` of a bundle."""
    if not isinstance(kind, types.Array):
        pointer = pointer_at(at, kind)
        return lambda bundle: pointer(bundle)[0]
    data, shape = pointer_at(at + SHAPE - 1, types.CPointer(kind.dtype)), pointer_at(at + SHAPE, types.int64)
    if kind.ndim == 1:
        return lambda bundle: carray(data(bundle)[0], (shape(bundle)[0],))
    if kind.ndim == 2:
        return lambda bundle: carray(data(bundle)[0], (shape(bundle)[0], shape(bundle)[1]))
    if kind.ndim == 3:
        return lambda bundle: carray(data(bundle)[0], (shape(bundle)[0], shape(bundle)[1], shape(bundle)[2]))
    return lambda bundle: carray(data(bundle)[0], (shape(bundle)[0], shape(bundle)[1], shape(bundle)[2], shape(bundle)[3]))


@cache
def array_writer(at: int) -> Any:
    """Return the function that points a field at word `at` of a bundle at an array."""
    words = pointer_at(at, types.int64)

    def write(bundle, array):
        words(bundle)[SHAPE - 1] = array.ctypes.data
        for axis in range(array.ndim):
            words(bundle)[SHAPE + axis] = array.shape[axis]

    return write


def add_fields(bundle_type: type) -> Callable[[Any], None]:
    """Let kernels read and write the fields of bundles; return a function that is to be called for each kind of bundle."""
    known: set[str] = set()

    @lower_setattr_generic(bundle_type)
    def set_field(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
        (kind, given), (bundle, value) = signature.args, arguments
        field, at = kind.fields[name], kind.offset[name]
        value = context.cast(builder, value, given, field)
        if isinstance(field, types.Array):
            context.compile_internal(builder, array_writer(at), types.none(kind, field), (bundle, value))
        else:
            builder.store(value, place_of(context, builder, bundle, at, field))

    def add_name(name: str) -> None:
        known.add(name)

        @overload_attribute(bundle_type, name)
        def get_field(bundle):
            return reader(bundle.fields[name], bundle.offset[name]) if name in bundle.fields else None

    def add(kind: Any) -> None:
        for name in sorted(kind.fields.keys() - known):
            add_name(name)

    return add


# ------------------------------------------------------------------------------------------------- sums


def sums_over_blocks(terms: Callable[..., Any], n_sums: int, lanes: int) -> Any:
    """As in numba_private.py, with one lane after the other: each lane and their sum have the same bits."""

    def term(which: int) -> Any:
        @intrinsic
        def emit(context, u, p, theta):
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return terms(builder, *arguments, ir.Constant(ir.DoubleType(), 0.0))[which]

            return types.float64(types.float64, types.float64, types.float64), generate

        return emit

    def total(which: int) -> Any:
        one = term(which)

        @njit
        def lane(u, p, n, theta, first):
            result = 0.0
            for j in range(first, n - n % lanes, lanes):
                result += one(u[j], p[j], theta)
            return result

        @njit
        def add_up(u, p, n, theta):
            even, odd = 0.0, 0.0
            for first in range(4):
                quarter = lane(u, p, n, theta, first)
                for j in range(first + 4, lanes, 4):
                    quarter += lane(u, p, n, theta, j)
                if first % 2 == 0:
                    even += quarter
                else:
                    odd += quarter
            return even + odd

        return add_up

    first, second, last = (total(min(which, n_sums - 1)) for which in range(3))
    if n_sums == 2:
        return njit(lambda u, p, n, theta: (first(u, p, n, theta), second(u, p, n, theta)))
    return njit(lambda u, p, n, theta: (first(u, p, n, theta), second(u, p, n, theta), last(u, p, n, theta)))
