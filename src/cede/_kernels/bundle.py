"""Bundles: named arrays and numbers that kernels get by reference.

Numba passes a NamedTuple by value: in every call every array becomes seven values, and each function is typed and optimised with
all of them. A `Bundle` is a block of memory that holds the descriptors of its arrays (pointer, shape, strides) and its numbers;
kernels get its address. Calls are cheap and compile in a fraction of the time, and all holders of the bundle see an array that was
replaced.

    class Table(Bundle):
        start: Int1          # an array of one axis
        end: int             # a number, kept in the bundle: kernels and Python may both change it
        other: OtherBundle   # another bundle, by reference

In kernels `bundle.name` reads a field and `bundle.name = value` writes it. A kernel may point an array field at another array (a
team's own row of a larger one, say): the owner of the bundle must keep that array alive. In Python, an array field returns the
array that Python assigned.

Loads of a field are not moved out of loops by the compiler, because a store could change the bundle: kernels take the arrays of a
bundle into local variables before a loop.
"""

from inspect import get_annotations
from typing import Annotated, Any, get_args, get_origin

import numpy as np
from numba import from_dtype, types
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox
from numpy.typing import NDArray

from cede._kernels.backend import backend

Bool1 = Annotated[NDArray[np.bool_], "bool", 1]
Bool2 = Annotated[NDArray[np.bool_], "bool", 2]
Float1 = Annotated[NDArray[np.float64], "float64", 1]
Float2 = Annotated[NDArray[np.float64], "float64", 2]
Float3 = Annotated[NDArray[np.float64], "float64", 3]
Float4 = Annotated[NDArray[np.float64], "float64", 4]
Int1 = Annotated[NDArray[np.int64], "int64", 1]
Int2 = Annotated[NDArray[np.int64], "int64", 2]
Int3 = Annotated[NDArray[np.int64], "int64", 3]
Int32s1 = Annotated[NDArray[np.int32], "int32", 1]
Int32s2 = Annotated[NDArray[np.int32], "int32", 2]
Int32s3 = Annotated[NDArray[np.int32], "int32", 3]
Int16s2 = Annotated[NDArray[np.int16], "int16", 2]
Int16s3 = Annotated[NDArray[np.int16], "int16", 3]
Int16s4 = Annotated[NDArray[np.int16], "int16", 4]
UInt64s2 = Annotated[NDArray[np.uint64], "uint64", 2]

HEAD = 5  # words of an array before its shape and strides: owner, parent, number of elements, size of one, address of the first


class BundleType(types.Type):
    """The type of a bundle in kernels: a pointer to words of 8 bytes. Its name holds all fields: compiled code fits one layout."""

    dtype = types.int64

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.offset: dict[str, int] = {}
        words = 0
        for field, kind in fields.items():
            self.offset[field] = words
            words += HEAD + 2 * kind.ndim if isinstance(kind, types.Array) else 1
        self.words = words
        arrays = {field: array.dtype for field, array in fields.items() if isinstance(array, types.Array)}
        self.arrays = {field: None if isinstance(x, types.Record) else np.dtype(str(x)) for field, x in arrays.items()}
        self.numbers = {field: np.dtype(str(x)) for field, x in fields.items() if isinstance(x, types.Number)}
        self.needed = fields.keys() - self.numbers.keys()
        inside = ", ".join(f"{field}: {kind.name}" for field, kind in fields.items())
        super().__init__(f"{name}({inside})")


def type_of(annotation: Any) -> Any:
    """Return the type of a field in kernels."""
    if annotation in (int, float):
        return types.int64 if annotation is int else types.float64
    if get_origin(annotation) is Annotated:
        _, dtype, n_axes = get_args(annotation)
        return types.Array(from_dtype(np.dtype(dtype)), n_axes, "C")
    return annotation._numba_type_


class Bundle:
    """Base of all bundles. Fields are declared by annotations; numbers that are not given are 0, arrays and bundles are needed."""

    _numba_type_: BundleType
    _memory: NDArray[np.int64]
    _next: dict[str, Any]  # arrays and bundles that are being assigned

    def __init_subclass__(cls) -> None:
        declared = {name: kind for name, kind in get_annotations(cls).items() if not name.startswith("_")}
        if declared and "_numba_type_" not in cls.__dict__:
            kind = cls._numba_type_ = BundleType(cls.__name__, {name: type_of(kind) for name, kind in declared.items()})
            add_fields(kind)
            for name in kind.numbers:
                setattr(cls, name, number_field(name, kind))

    def __init__(self, **given: Any) -> None:
        kind, memory = self._numba_type_, np.zeros(self._numba_type_.words, dtype=np.int64)
        vars(self).update(_memory=memory, _address=int(memory.ctypes.data), _next={})
        if not kind.needed <= given.keys():
            raise TypeError(f"{type(self).__name__}: {min(kind.needed - given.keys())} is missing")
        put_fields(self, given)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._numba_type_.fields:
            put_fields(self, {name: value})
        else:
            object.__setattr__(self, name, value)

    @classmethod
    def nothing(cls) -> dict[str, NDArray[Any]]:
        """Return empty arrays for all array fields, by name: first axis 1, the others 0."""
        declared = {name: get_args(kind) for name, kind in get_annotations(cls).items() if hasattr(kind, "__metadata__")}
        return {name: np.empty((1, *(0,) * (axes - 1)), dtype=dtype) for name, (_, dtype, axes) in declared.items()}

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} holds addresses of this process and cannot be copied or sent; copy its arrays")


def put_fields(bundle: Bundle, values: dict[str, Any]) -> None:
    """Write fields of a bundle, by name. What it points at stays alive: an interrupt may come after any line."""
    layout, memory, alive, pending = bundle._numba_type_, bundle._memory, vars(bundle), bundle._next
    for name, value in values.items():
        if name not in layout.fields:
            raise TypeError(f"{type(bundle).__name__} has no field {name!r}")
        kind, at = layout.fields[name], layout.offset[name]
        if name in layout.arrays:
            dtype = layout.arrays[name]
            fits = value.dtype.itemsize == kind.dtype.size if dtype is None else value.dtype == dtype
            if not fits or value.ndim != kind.ndim or not value.flags.c_contiguous:
                raise TypeError(f"{type(bundle).__name__}: {name} is {value.dtype} of {value.ndim} axes, must be {kind}")
            pending[name] = value
            descriptor = (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
            memory[at : at + len(descriptor)] = descriptor
            alive[name] = value
        elif name in layout.numbers:
            memory[at : at + 1].view(layout.numbers[name])[0] = value
        else:
            if value._numba_type_ != kind:
                owner, found = type(bundle).__name__, type(value).__name__
                raise TypeError(f"{owner}: {name} is a {found}, must be a bundle of type {kind.name}")
            pending[name] = value
            memory[at] = value._address
            alive[name] = value


def number_field(name: str, kind: BundleType) -> property:
    """Return the property by which Python reads a number, which kernels may have changed."""
    at, dtype = kind.offset[name], kind.numbers[name]
    return property(lambda self: self._memory[at : at + 1].view(dtype)[0].item())


# ------------------------------------------------------------------------------------------------- for Numba

register_model(BundleType)(models.PointerModel)
add_fields = backend.add_fields(BundleType)


@typeof_impl.register(Bundle)
def type_of_bundle(bundle: Bundle, _: Any) -> BundleType:
    """Return the type of a bundle that is passed to a kernel."""
    return bundle._numba_type_


@unbox(BundleType)
def unbox_bundle(kind: BundleType, bundle: Any, c: Any) -> Any:
    """Take the address out of a Python object."""
    address = c.pyapi.object_getattr_string(bundle, "_address")
    value = c.builder.inttoptr(c.pyapi.long_as_longlong(address), c.context.get_value_type(kind))
    c.pyapi.decref(address)
    return NativeValue(value)
