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

from ctypes import Structure, addressof, c_double, c_int64
from inspect import get_annotations
from itertools import accumulate
from operator import attrgetter
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
        ends = accumulate((words_of(kind) for kind in fields.values()), initial=0)
        self.offset = dict(zip(fields, ends, strict=False))  # in words
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


def words_of(kind: Any) -> int:
    """Return how many words a field takes."""
    return HEAD + 2 * kind.ndim if isinstance(kind, types.Array) else 1


def memory_of(kind: BundleType) -> type[Structure]:
    """Return the layout of a bundle as ctypes reads and writes it."""
    plain = {types.int64: c_int64, types.float64: c_double}
    words = [
        (name, c_int64 * words_of(field) if isinstance(field, types.Array) else plain.get(field, c_int64))
        for name, field in kind.fields.items()
    ]
    return type("Memory", (Structure,), {"_fields_": words})


class Bundle:
    """Base of all bundles. Fields are declared by annotations; numbers that are not given are 0, arrays and bundles are needed."""

    _numba_type_: BundleType
    _memory: Any  # of the type `_layout`
    _next: dict[str, Any]  # arrays and bundles that are being assigned
    _layout: type[Structure]
    _dtypes: dict[str, np.dtype[Any]]  # of its arrays
    _numbers: dict[str, type]  # int or float
    _needed: frozenset[str]

    def __init_subclass__(cls) -> None:
        declared = {name: kind for name, kind in get_annotations(cls).items() if not name.startswith("_")}
        if declared and "_numba_type_" not in cls.__dict__:
            kind = cls._numba_type_ = BundleType(cls.__name__, {name: type_of(of) for name, of in declared.items()})
            add_fields(kind)
            cls._layout = memory_of(kind)
            cls._dtypes = {name: np.dtype(get_args(of)[1]) for name, of in declared.items() if get_origin(of) is Annotated}
            cls._numbers = {name: of for name, of in declared.items() if of in (int, float)}
            cls._needed = frozenset(declared.keys() - cls._numbers.keys())
            for name in cls._numbers:  # kernels may have changed it
                setattr(cls, name, property(attrgetter(f"_memory.{name}")))

    def __init__(self, **values: Any) -> None:
        """Write all fields; called again, some of them. What it points at stays alive: an interrupt may come after any line."""
        own, dtypes, fields = vars(self), self._dtypes, self._numba_type_.fields
        if not own:
            if not self._needed <= values.keys():
                raise TypeError(f"{type(self).__name__}: {min(self._needed - values.keys())} is missing")
            memory = self._layout()
            own.update(_memory=memory, _address=addressof(memory), _next={})
        memory, pending = own["_memory"], own["_next"]
        for name, value in values.items():
            if name in dtypes:
                if value.dtype != dtypes[name] or value.ndim != fields[name].ndim or not value.flags.c_contiguous:
                    owner, found = type(self).__name__, f"{value.dtype} of {value.ndim} axes"
                    raise TypeError(f"{owner}: {name} is {found}, must be {fields[name]}")
                # `value.ctypes.data` calls Python; so does the interface of records, which describes each of their fields
                plain = value if value.dtype.names is None else value.view(np.float64)
                address = plain.__array_interface__["data"][0]
                pending[name] = value
                setattr(memory, name, (0, 0, value.size, value.itemsize, address, *value.shape, *value.strides))
                own[name] = value
            elif name in self._numbers:
                setattr(memory, name, self._numbers[name](value))
            elif name not in fields:
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
            else:
                if value._numba_type_ is not fields[name]:
                    owner, found = type(self).__name__, type(value).__name__
                    raise TypeError(f"{owner}: {name} is a {found}, must be a bundle of type {fields[name].name}")
                pending[name] = value
                setattr(memory, name, value._address)
                own[name] = value

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._numba_type_.fields:
            Bundle.__init__(self, **{name: value})
        else:
            object.__setattr__(self, name, value)

    @classmethod
    def nothing(cls) -> dict[str, NDArray[Any]]:
        """Return empty arrays for all array fields, by name: first axis 1, the others 0."""
        axes = {name: cls._numba_type_.fields[name].ndim for name in cls._dtypes}
        return {name: np.empty((1, *(0,) * (axes[name] - 1)), dtype=dtype) for name, dtype in cls._dtypes.items()}

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} holds addresses of this process and cannot be copied or sent; copy its arrays")


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
