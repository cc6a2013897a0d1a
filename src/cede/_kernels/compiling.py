"""How kernels are compiled, kept on disk, and called by one another."""

import ctypes
import hashlib
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache, cached_property, partial
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

from cede._base.interrupts import interrupts_later, raise_soon
from cede._kernels.cache import CodeCache

Function = Any  # a Python function, or what Numba makes of it

HERE = Path(__file__).parent
TRIES = 3  # to compile a unit
PATIENCE = 2.0  # seconds of compiling before a line says so
_config: Any = numba.config
_jit = threading.Lock()  # of Numba's setting DISABLE_JIT


@cache
def imported_by(path: Path) -> tuple[Path, ...]:
    """Return the kernel files that a kernel file imports."""
    found = re.findall(r"^from cede\._kernels\.(\w+) import", path.read_text(encoding="utf-8"), re.MULTILINE)
    return tuple(HERE / f"{name}.py" for name in dict.fromkeys(found))


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


def compiled(function: Function, **extra: Any) -> Function:
    """Let Numba compile a function on first use, keep the result on disk where a directory can be written, and release the GIL.

    Kernels allocate nothing: what they need is passed in. So Numba need not count references to arrays, which in small functions
    costs more than the work itself. They are compiled for each type of argument, and a constant is a type of its own: where one
    kernel calls another, constants are wrapped as in np.int64(0).
    """
    options = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True, **extra}
    with _jit:
        disabled, _config.DISABLE_JIT = _config.DISABLE_JIT, 0  # NUMBA_DISABLE_JIT is for functions that users debug
        try:
            result = numba.njit(**options)(function)
        finally:
            _config.DISABLE_JIT = disabled
    with suppress(Exception):  # no directory can be written, or its name is no text
        result._cache = CodeCache(function)
    return result


def renamed(function: Any, qualname: str) -> Any:
    """Return the same function under another name: Numba's cache tells kernels apart by name, not by how they are compiled."""
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__module__, copy.__qualname__, copy.__doc__ = function.__module__, qualname, function.__doc__
    return copy


class Kernel:
    """A compiled function. Kernels call it without the wrapper that Python needs, which takes as long to compile as the rest."""

    def __init__(self, function: Function, **extra: Any) -> None:
        self.py_func, self.extra, self.__doc__ = function, extra, function.__doc__
        self.is_warm = False  # whether it was called from Python before
        self.qualname = f"{function.__qualname__}_{digest_of(Path(function.__code__.co_filename))}"

    @cached_property
    def entry(self) -> Any:
        """The function for Python, compiled when it is first called from there."""
        return compiled(renamed(self.py_func, f"{self.qualname}_entry"), **self.extra)

    @cached_property
    def inner(self) -> Any:
        """The function for other kernels."""
        return compiled(renamed(self.py_func, self.qualname), no_cpython_wrapper=True, **self.extra)

    @cached_property
    def _numba_type_(self) -> Any:
        return self.inner._numba_type_

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.is_warm:
            return self.entry(*arguments, **named)
        with interrupts_later():
            result = self.entry(*arguments, **named)
        self.is_warm = True
        return result


def kernel(function: Function) -> Kernel:
    """Make a kernel of a function."""
    return Kernel(function)


def vector_kernel(function: Function) -> Kernel:
    """Make a kernel in which a minimum or maximum may be taken in any order, which lets it run in vector registers.

    Not for sums: their last bits would depend on the processor; `vectors.sums_over_blocks` is for them.
    """
    return Kernel(function, fastmath={"reassoc", "nsz", "nnan"})


def inlined(function: Function) -> Function:
    """Paste a function into its callers; for a few lines that are called from one or two places."""
    digest = digest_of(Path(function.__code__.co_filename))
    return compiled(renamed(function, f"{function.__qualname__}_{digest}"), no_cpython_wrapper=True, inline="always")


# ------------------------------------------------------------------------------------------------- units


class Unit(Kernel):
    """A kernel that is compiled by itself, once, for one list of types; other kernels call it by address.

    Numba copies all that a kernel calls into it, and optimises and emits it again, at every level. A unit is compiled when it is
    first called: what a learner does not need (sampling, say) is never compiled for it. A call costs a few nanoseconds more.
    """

    def __init__(self, function: Function, result: Any, kinds: tuple[Any, ...]) -> None:
        super().__init__(function)
        self.kinds = kinds
        self.slot = np.zeros(1, dtype=np.int64)  # the address of the machine code; 0: not compiled yet
        name = f"cede.{function.__module__}.{self.qualname}"
        llvm.add_symbol(name, self.slot.ctypes.data)
        template = type("UnitTemplate", (ConcreteTemplate,), {"key": name, "cases": [signature(result, *kinds)]})
        self.__dict__["_numba_type_"] = types.Function(template)
        lower_builtin(name, *kinds)(partial(generate_call, name))
        _units[self.slot.ctypes.data] = self


def unit(result: Any, *kinds: Any) -> Callable[[Function], Unit]:
    """Make a `Unit` of a function. result, kinds: types of Numba's, or classes of bundles."""
    result, *arguments = (getattr(kind, "_numba_type_", kind) for kind in (result, *kinds))
    return lambda function: Unit(function, result, tuple(arguments))


_units: dict[int, Unit] = {}  # by the address of their slots


def resolve(place: int) -> None:
    """Compile a unit and put its address into its slot. Called by compiled code that finds the slot empty.

    An interrupt (Ctrl-C) cannot be raised through compiled code: the unit is finished, and the interrupt comes a moment later.
    """
    late: list[int] = []
    while True:
        try:
            with interrupts_later() as came:
                unit = _units[place]
                if unit.kinds not in unit.inner.overloads:
                    unit.inner.compile(unit.kinds)
                compiled = unit.inner.overloads[unit.kinds]
                unit.slot[0] = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
                late += came
                came.clear()
            break
        except KeyboardInterrupt:  # in the moment before, or after
            late.append(signal.SIGINT)
    for number in late[:1]:
        raise_soon(number)


_resolve = ctypes.CFUNCTYPE(None, ctypes.c_int64)(resolve)
llvm.add_symbol("cede.resolve", ctypes.cast(_resolve, ctypes.c_void_p).value)


def generate_call(name: str, context: Any, builder: Any, called: Any, arguments: Any) -> Any:
    """Emit: while the slot of a unit is empty, resolve it, TRIES times at most; call the address that it holds."""
    word, module, convention = ir.IntType(64), builder.module, context.call_conv
    slot = module.globals.get(name) or ir.GlobalVariable(module, word, name)
    resolver = cgutils.get_or_insert_function(module, ir.FunctionType(ir.VoidType(), [word]), "cede.resolve")
    with ExitStack() as tries:  # one inside the other: an interrupt that comes as `resolve` is entered ends it before it began
        for _ in range(TRIES):
            tries.enter_context(cgutils.if_unlikely(builder, builder.icmp_signed("==", builder.load(slot), word(0))))
            builder.call(resolver, [builder.ptrtoint(slot, word)])
    address = builder.load(slot)
    with cgutils.if_unlikely(builder, builder.icmp_signed("==", address, word(0))):
        convention.return_user_exc(builder, RuntimeError, ("cede: a kernel could not be compiled; the reason stands above",))
    function_type = convention.get_function_type(called.return_type, called.args)
    pointer = builder.inttoptr(address, function_type.as_pointer())
    status, result = convention.call_function(builder, pointer, called.return_type, called.args, arguments)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return result


# ------------------------------------------------------------------------------------------------- a word to who waits


class Notice(event.Listener):
    """Says once, in one line, that kernels of cede are being compiled, when that takes longer than `PATIENCE` seconds in all."""

    def __init__(self) -> None:
        self.running = threading.local()  # of this thread: how many compilations are inside one another, and when the first began
        self.spent = 0.0
        self.said = False
        self.timer: threading.Timer | None = None

    def on_start(self, event: Any) -> None:
        """Start a timer when a compilation begins that is not part of another one, and is one of ours."""
        depth = getattr(self.running, "depth", 0)
        self.running.depth = depth + 1
        if depth == 0:
            self.running.begun = time.monotonic() if event.data["dispatcher"].py_func.__module__.startswith("cede.") else None
            if self.running.begun is not None and not self.said:
                self.timer = threading.Timer(max(PATIENCE - self.spent, 0.0), self.say)
                self.timer.daemon = True
                self.timer.start()

    def on_end(self, event: Any) -> None:
        """Stop the timer when the compilation is over, and add up the time."""
        self.running.depth = max(getattr(self.running, "depth", 1) - 1, 0)
        if self.running.depth == 0 and getattr(self.running, "begun", None) is not None:
            self.spent += time.monotonic() - self.running.begun
            if self.timer is not None:
                self.timer.cancel()

    def say(self) -> None:
        """Write the line."""
        if not self.said:
            self.said = True
            print("cede: compiling for this machine, once; some seconds more ...", file=sys.stderr, flush=True)


event.register("numba:compile", Notice())
