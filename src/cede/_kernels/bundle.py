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

    __slots__ = ("_address", "_memory", "_values")
    _numba_type_: BundleType

    def __init_subclass__(cls) -> None:
        declared = {name: kind for name, kind in get_annotations(cls).items() if not name.startswith("_")}
        if declared and "_numba_type_" not in cls.__dict__:
            cls._numba_type_ = BundleType(cls.__name__, {name: type_of(kind) for name, kind in declared.items()})
            add_fields(cls._numba_type_)
            for name, kind in cls._numba_type_.fields.items():
                setattr(cls, name, field_of(name, kind, cls._numba_type_.offset[name]))

    def __init__(self, **given: Any) -> None:
        fields = self._numba_type_.fields
        self._memory = np.zeros(self._numba_type_.words, dtype=np.int64)
        self._address = int(self._memory.ctypes.data)
        self._values: dict[str, Any] = {}
        for name, kind in fields.items():
            if name in given:
                setattr(self, name, given.pop(name))
            elif isinstance(kind, types.Array | BundleType):
                raise TypeError(f"{type(self).__name__}: {name} is missing")
        if given:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(given))!r}")

    @classmethod
    def nothing(cls) -> dict[str, NDArray[Any]]:
        """Return empty arrays for all array fields, by name: first axis 1, the others 0."""
        declared = {name: get_args(kind) for name, kind in get_annotations(cls).items() if hasattr(kind, "__metadata__")}
        return {name: np.empty((1, *(0,) * (axes - 1)), dtype=dtype) for name, (_, dtype, axes) in declared.items()}

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} holds addresses of this process and cannot be copied or sent; copy its arrays")


def field_of(name: str, kind: Any, at: int) -> property:
    """Return the property by which Python reads and writes a field that begins at word `at`."""
    if isinstance(kind, types.Array):
        return array_field(name, kind, at)
    if isinstance(kind, BundleType):

        def put_bundle(self: Bundle, bundle: Bundle) -> None:
            if bundle._numba_type_ != kind:
                raise TypeError(f"{type(self).__name__}: {name} is a {type(bundle).__name__}, must be a bundle of type {kind.name}")
            self._values[name + " next"] = bundle
            self._memory[at] = bundle._address
            self._values[name] = bundle

        return property(lambda self: self._values[name], put_bundle)
    dtype = np.float64 if kind == types.float64 else np.int64

    def put_number(self: Bundle, value: Any) -> None:
        self._memory[at : at + 1].view(dtype)[0] = value

    return property(lambda self: self._memory[at : at + 1].view(dtype)[0].item(), put_number)


def array_field(name: str, kind: Any, at: int) -> property:
    """Return the property of a field that is an array."""
    dtype, end = None if isinstance(kind.dtype, types.Record) else np.dtype(str(kind.dtype)), at + HEAD + 2 * kind.ndim

    def put_array(self: Bundle, array: NDArray[Any]) -> None:
        fits = array.dtype.itemsize == kind.dtype.size if dtype is None else array.dtype == dtype
        if not fits or array.ndim != kind.ndim or not array.flags.c_contiguous:
            raise TypeError(f"{type(self).__name__}: {name} is {array.dtype} of {array.ndim} axes, must be {kind}")
        self._values[name + " next"] = array  # kept alive before it is pointed at: an interrupt may come after any line
        self._memory[at:end] = (0, 0, array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides)
        self._values[name] = array

    return property(lambda self: self._values[name], put_array)


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
