"""How kernels are compiled, kept on disk, and called by one another."""

import _thread
import ast
import ctypes
import hashlib
import sys
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, event
from numba.core.typing.templates import ConcreteTemplate, signature
from numba.extending import lower_builtin

Function = Any  # a Python function, or what Numba makes of it

HERE = Path(__file__).parent
PATIENCE = 2.0  # seconds of compiling before a line says so


@cache
def imported_by(path: Path) -> tuple[Path, ...]:
    """Return the kernel files that a kernel file imports."""
    found = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cede._kernels."):
            found.append(HERE / f"{(node.module or '').removeprefix('cede._kernels.')}.py")
    return tuple(dict.fromkeys(found))


@cache
def digest_of(path: Path) -> str:
    """Return a digest of a kernel file and of all kernel files that it rests on.

    Numba's cache on disk notices a change only in the file of the function that it compiles, not in the files of the functions that
    this one calls. So every kernel carries this digest in its name: an edit compiles anew what rests on it, and nothing else.
    """
    files, todo = {path}, [path]
    while todo:
        new = [file for file in imported_by(todo.pop()) if file not in files]
        files |= {*new}
        todo += new
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def kernel(function: Function, **extra: Any) -> Function:
    """Compile on first call, keep the result on disk where a directory can be written, release the GIL.

    Kernels allocate nothing: what they need is passed in. So Numba need not count references to arrays, which in small functions
    costs more than the work itself. They are compiled for each type of argument, and a constant is a type of its own: where one
    kernel calls another, constants are wrapped as in np.int64(0).
    """
    function.__qualname__ = f"{function.__qualname__}_{digest_of(Path(function.__code__.co_filename))}"
    options = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True, **extra}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # Numba found no directory that it may write to
        return numba.njit(**options)(function)


def inlined(function: Function) -> Function:
    """Paste into its callers; for a few lines that are called from one or two places."""
    return kernel(function, no_cpython_wrapper=True, inline="always")


def vector_inner(function: Function) -> Function:
    """Compile like `inner`; sums may be reordered, which lets them run in vector registers."""
    return kernel(function, no_cpython_wrapper=True, fastmath={"reassoc", "nsz", "nnan"})


def inner(function: Function) -> Function:
    """Compile like `kernel`, for other kernels alone: Python cannot call it, and so it compiles in about half the time."""
    return kernel(function, no_cpython_wrapper=True)


# ------------------------------------------------------------------------------------------------- units


class Unit:
    """A kernel that is compiled by itself, once, for one list of types; other kernels call it by address.

    Numba copies all that a kernel calls into it, and optimises and emits it again, at every level. A unit is compiled when it is
    first called: what a learner does not need (sampling, say) is never compiled for it. A call costs a few nanoseconds more.
    """

    def __init__(self, function: Function, result: Any, kinds: tuple[Any, ...]) -> None:
        self.entry = kernel(copy_of(function, "entry"))  # for Python, compiled if it is ever called from there
        self.dispatcher, self.kinds, self.py_func = inner(function), kinds, function
        self.slot = np.zeros(1, dtype=np.int64)  # the address of the machine code; 0: not compiled yet
        name = f"cede.{function.__module__}.{function.__qualname__}"
        llvm.add_symbol(name, self.slot.ctypes.data)
        template = type("UnitTemplate", (ConcreteTemplate,), {"key": name, "cases": [signature(result, *kinds)]})
        self._numba_type_ = types.Function(template)
        lower_builtin(name, *kinds)(partial(generate_call, name, len(_units)))
        _units.append(self)

    def __call__(self, *arguments: Any) -> Any:
        return self.entry(*arguments)


def copy_of(function: Any, suffix: str) -> Any:
    """Return the same function under another name: Numba's cache on disk tells kernels apart by name, not by how they are
    compiled.
    """
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__module__, copy.__qualname__ = function.__module__, f"{function.__qualname__}_{suffix}"
    return copy


def unit(result: Any, *kinds: Any) -> Callable[[Function], Unit]:
    """Make a `Unit` of a function. result, kinds: types of Numba's, or classes of bundles."""
    result, *arguments = (getattr(kind, "_numba_type_", kind) for kind in (result, *kinds))
    return lambda function: Unit(function, result, tuple(arguments))


_units: list[Unit] = []


def resolve(number: int) -> None:
    """Compile a unit and put its address into its slot. Called by compiled code that finds the slot empty."""
    dispatcher, kinds, slot = _units[number].dispatcher, _units[number].kinds, _units[number].slot
    interrupted = False
    while not slot[0]:
        try:
            if kinds not in dispatcher.overloads:
                dispatcher.compile(kinds)
            compiled = dispatcher.overloads[kinds]
            slot[0] = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        except KeyboardInterrupt:  # compiled code cannot raise it from here: finish, then interrupt
            interrupted = True
    if interrupted:
        _thread.interrupt_main()


_resolve = ctypes.CFUNCTYPE(None, ctypes.c_int64)(resolve)
llvm.add_symbol("cede.resolve", ctypes.cast(_resolve, ctypes.c_void_p).value)


def generate_call(name: str, number: int, context: Any, builder: Any, called: Any, arguments: Any) -> Any:
    """Emit: if the slot of a unit is empty, resolve it; call the address that it holds."""
    word, module, convention = ir.IntType(64), builder.module, context.call_conv
    slot = module.globals.get(name) or ir.GlobalVariable(module, word, name)
    with cgutils.if_unlikely(builder, builder.icmp_signed("==", builder.load(slot), word(0))):
        function_type = ir.FunctionType(ir.VoidType(), [word])
        builder.call(cgutils.get_or_insert_function(module, function_type, "cede.resolve"), [word(number)])
    function_type = convention.get_function_type(called.return_type, called.args)
    pointer = builder.inttoptr(builder.load(slot), function_type.as_pointer())
    status, result = convention.call_function(builder, pointer, called.return_type, called.args, arguments)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return result


# ------------------------------------------------------------------------------------------------- a word to who waits


class Notice(event.Listener):
    """Says once, in one line, that kernels are being compiled, when that takes longer than `PATIENCE` seconds in all."""

    def __init__(self) -> None:
        self.depth = threading.local()
        self.spent = 0.0
        self.said = False
        self.timer: threading.Timer | None = None

    def on_start(self, event: Any) -> None:
        depth = getattr(self.depth, "now", 0)
        self.depth.now = depth + 1
        if depth == 0 and not self.said:
            self.depth.begun = time.monotonic()
            self.timer = threading.Timer(max(PATIENCE - self.spent, 0.0), self.say)
            self.timer.daemon = True
            self.timer.start()

    def on_end(self, event: Any) -> None:
        self.depth.now = max(getattr(self.depth, "now", 1) - 1, 0)
        if self.depth.now == 0 and self.timer is not None:
            self.timer.cancel()
            self.spent += time.monotonic() - getattr(self.depth, "begun", time.monotonic())

    def say(self) -> None:
        if not self.said:
            self.said = True
            print("cede: compiling for this machine, once; some seconds more ...", file=sys.stderr, flush=True)


event.register("numba:compile", Notice())
