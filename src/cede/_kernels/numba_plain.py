"""Kernels without Numba's private names: slower to compile than with numba_private.py, the same bits.

Both modules define `NAME`, `options`, `keep`, `add_fields` and `add_unit`.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numba
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic, lower_setattr_generic, overload_attribute

NAME = "plain"  # part of the names under which compiled code is kept
SHAPE = 5  # words of an array in a bundle before its shape; the last of them is the address of its elements


def options(for_python: bool) -> dict[str, Any]:
    """Return the options with which a kernel is compiled: none, Numba compiles the wrapper for Python in any case."""
    return {}


def keep(dispatcher: Any, function: Any) -> None:
    """Keep the compiled code of a function on disk where a directory can be written."""
    with suppress(RuntimeError):  # Numba finds no directory
        dispatcher.enable_caching()


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
