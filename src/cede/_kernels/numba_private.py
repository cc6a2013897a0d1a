"""Kernels made with private names of Numba, which may change with any version; docs/numba.md lists them.

They shorten compilation: bundles and units are passed by address, unused wrappers are not compiled, references to arrays are not
counted. Without them numba_plain.py makes the same kernels. Importing this module fails where a name is missing or an array looks
different in memory.
"""

import ctypes
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.cpu import CPUTargetOptions
from numba.core.datamodel import default_manager  # type: ignore[attr-defined]
from numba.core.typing.templates import AttributeTemplate, ConcreteTemplate, signature
from numba.extending import infer_getattr, lower_builtin, lower_getattr_generic, lower_setattr_generic

NAME = "private"
TRIES = 3  # to compile a unit
WORD = ir.IntType(64)

ARRAY = ("meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides")  # as bundle.py writes it
if default_manager.lookup(types.float64[::1])._fields != ARRAY:
    raise ImportError("arrays have another layout")
for option in ("_nrt", "no_cfunc_wrapper", "no_cpython_wrapper"):
    if not hasattr(CPUTargetOptions, option):
        raise ImportError(f"njit has no option {option}")


def options(for_python: bool) -> dict[str, Any]:
    """Return the options with which a kernel is compiled. for_python: whether to compile the wrapper that Python calls.

    Kernels allocate nothing: what they need is passed in. So Numba need not count references to arrays, which in small functions
    costs more than the work itself.
    """
    return {"_nrt": False, "no_cfunc_wrapper": True, "no_cpython_wrapper": not for_python}


def keep(dispatcher: Any, function: Any) -> None:
    """Keep the compiled code of a function on disk where a directory can be written."""
    with suppress(Exception):  # no directory can be written, or its name is no text
        dispatcher._cache = CodeCache(function)


class CodeCache(FunctionCache):
    """Numba's cache of one function. Unreadable code is compiled and written again; code that cannot be written is not cached."""

    said = False  # whether a line said that code is not kept, in this process

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return compiled code for some types of arguments; None: there is none that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # files that are cut, empty or of something else fail in many ways
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write compiled code for some types of arguments."""
        try:
            try:
                super().save_overload(sig, data)
            except OSError:
                raise
            except Exception:  # the index cannot be read: begin a new one
                self.flush()
                super().save_overload(sig, data)
        except Exception as error:
            if not CodeCache.said:
                CodeCache.said = True
                reason = getattr(error, "strerror", None) or error
                hint = "every process compiles it again; NUMBA_CACHE_DIR names another directory"
                print(f"cede: compiled code could not be written ({reason}): {hint}", file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------------------- fields of bundles


def add_fields(bundle_type: type) -> Callable[[Any], None]:
    """Let kernels read and write the fields of bundles; return a function that is to be called for each kind of bundle."""

    def pointer_to(context: Any, builder: Any, kind: Any, bundle: Any, name: str) -> Any:
        place = builder.gep(bundle, [WORD(kind.offset[name])])
        return builder.bitcast(place, context.get_value_type(kind.fields[name]).as_pointer())

    @infer_getattr
    class BundleAttribute(AttributeTemplate):
        key = bundle_type

        def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
            return kind.fields.get(name)

    @lower_getattr_generic(bundle_type)
    def get_field(context: Any, builder: Any, kind: Any, bundle: Any, name: str) -> Any:
        return builder.load(pointer_to(context, builder, kind, bundle, name))

    @lower_setattr_generic(bundle_type)
    def set_field(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
        kind, given = signature.args
        bundle, value = arguments
        builder.store(context.cast(builder, value, given, kind.fields[name]), pointer_to(context, builder, kind, bundle, name))

    return lambda kind: None


# ------------------------------------------------------------------------------------------------- units


def add_unit(unit: Any) -> Callable[[], Any]:
    """Let other kernels call a unit by address; return a function that returns the type by which they know it.

    The unit is compiled when it is first called. Code from disk finds it by name, so it must be added before that code is loaded.
    """
    name = f"cede.{unit.py_func.__module__}.{unit.qualname}"
    slot = np.zeros(1, dtype=np.int64)  # the address of the machine code; 0: not compiled yet
    llvm.add_symbol(name, slot.ctypes.data)
    template = type("UnitTemplate", (ConcreteTemplate,), {"key": name, "cases": [signature(unit.result, *unit.kinds)]})
    lower_builtin(name, *unit.kinds)(partial(generate_call, name))
    _units[slot.ctypes.data] = slot, unit
    return partial(types.Function, template)


_units: dict[int, tuple[Any, Any]] = {}  # slots and units, by the address of the slot


def resolve(place: int) -> None:
    """Compile a unit and put its address into its slot. Called by compiled code that finds the slot empty."""
    slot, unit = _units[place]

    def put_address() -> None:
        done = unit.compile_inner()
        slot[0] = done.library.get_pointer_to_function(done.fndesc.llvm_func_name)

    unit.uninterrupted(put_address)


_resolve = ctypes.CFUNCTYPE(None, ctypes.c_int64)(resolve)
llvm.add_symbol("cede.resolve", ctypes.cast(_resolve, ctypes.c_void_p).value)


def generate_call(name: str, context: Any, builder: Any, called: Any, arguments: Any) -> Any:
    """Emit: while the slot of a unit is empty, resolve it, TRIES times at most; call the address that it holds."""
    module, convention = builder.module, context.call_conv
    slot = module.globals.get(name) or ir.GlobalVariable(module, WORD, name)
    resolver = cgutils.get_or_insert_function(module, ir.FunctionType(ir.VoidType(), [WORD]), "cede.resolve")
    with ExitStack() as tries:  # one inside the other: an interrupt that comes as `resolve` is entered ends it before it began
        for _ in range(TRIES):
            tries.enter_context(cgutils.if_unlikely(builder, builder.icmp_signed("==", builder.load(slot), WORD(0))))
            builder.call(resolver, [builder.ptrtoint(slot, WORD)])
    address = builder.load(slot)
    with cgutils.if_unlikely(builder, builder.icmp_signed("==", address, WORD(0))):
        convention.return_user_exc(builder, RuntimeError, ("cede: a kernel could not be compiled; the reason stands above",))
    function_type = convention.get_function_type(called.return_type, called.args)
    pointer = builder.inttoptr(address, function_type.as_pointer())
    status, result = convention.call_function(builder, pointer, called.return_type, called.args, arguments)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return result
