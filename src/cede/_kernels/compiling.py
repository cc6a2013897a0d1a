"""How kernels are compiled, cached on disk, and called by each other."""

import hashlib
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic, typeof_impl

from cede._base.interrupts import interrupts_later, raise_soon
from cede._kernels.backend import backend, config

Function = Any  # a Python function, or what Numba makes of it

SOURCE = Path(__file__).parent.parent
EVERYWHERE = {Path(__file__).with_name(f"numba_{name}.py") for name in ("plain", "private")}  # files that every kernel rests on
COMPILE_NOTICE_SECONDS = 2.0  # of compiling before a line says so
NOTICE_AGAIN_SECONDS = 600.0  # for which no other process of the same run says so


@cache
def imported_by(path: Path) -> tuple[Path, ...]:
    """Return the files with compiled code that such a file imports."""
    modules = re.findall(r"^from cede\.([\w.]+) import", path.read_text(encoding="utf-8"), re.MULTILINE)
    files = (SOURCE / f"{name.replace('.', '/')}.py" for name in dict.fromkeys(modules))
    return tuple(file for file in files if has_compiled_code(file))


@cache
def has_compiled_code(path: Path) -> bool:
    """Return whether a file of the package holds compiled code: it lies in _kernels/, or imports what compiles."""
    return path.parent.name == "_kernels" or (path.exists() and "\nfrom cede._kernels.compiling import" in path.read_text("utf-8"))


@cache
def digest_of(path: Path) -> str:
    """Return a digest of a file with compiled code and of all such files that it imports.

    Numba's cache on disk notices a change only in the file of the function that it compiles, not in the files of the functions that
    this one calls. So every kernel carries this digest in its name: an edit compiles anew what rests on it, and nothing else.
    """
    files, todo = {path, *EVERYWHERE}, [path]
    while todo:
        new = [file for file in imported_by(todo.pop()) if file not in files]
        files |= {*new}
        todo += new
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def renamed(function: Any, qualname: str) -> Any:
    """Return the same function under another name: Numba's cache tells kernels apart by name, not by how they are compiled."""
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__module__, copy.__qualname__, copy.__doc__ = function.__module__, qualname, function.__doc__
    return copy


def kept_name(function: Function) -> str:
    """Return the name under which the compiled code of a function is cached on disk."""
    return f"{function.__qualname__}_{digest_of(Path(function.__code__.co_filename))}_{backend.NAME}"


_disable_jit = threading.Lock()


def compiled(function: Function, for_python: bool, **options: Any) -> Any:
    """Let Numba compile a function on first use, also if NUMBA_DISABLE_JIT is set, which users set to debug their own functions."""
    with _disable_jit:
        disabled, config.DISABLE_JIT = config.DISABLE_JIT, 0
        try:
            result = numba.njit(error_model="numpy", nogil=True, **backend.options(for_python), **options)(function)
        finally:
            config.DISABLE_JIT = disabled
    backend.keep(result, function)
    return result


class Kernel:
    """A compiled function that releases the GIL. It is compiled on first use and cached on disk if a directory is writable.

    It is compiled for each type of argument, and a constant is a type of its own: where one kernel calls another, constants are
    wrapped as in np.int64(0). Kernels call it without the wrapper that Python needs, which takes as long to compile as the rest.
    """

    def __init__(self, function: Function, **options: Any) -> None:
        self.py_func, self.options, self.__doc__ = function, options, function.__doc__
        self.is_warm = False  # whether it was called from Python before
        self.qualname = kept_name(function)

    @cached_property
    def entry(self) -> Any:
        """The function for Python, compiled when it is first called from there."""
        return compiled(renamed(self.py_func, f"{self.qualname}_entry"), for_python=True, **self.options)

    @cached_property
    def inner(self) -> Any:
        """The compiled function that other kernels call."""
        return compiled(renamed(self.py_func, self.qualname), for_python=False, **self.options)

    @cached_property
    def numba_type(self) -> Any:
        """The type by which other kernels know it."""
        return numba.typeof(self.inner)

    def __call__(self, *arguments: Any) -> Any:
        if self.is_warm:
            return self.entry(*arguments)
        with interrupts_later():
            with compile_notice(self.entry):
                self.entry.compile(tuple(numba.typeof(argument) for argument in arguments))
            result = self.entry(*arguments)
        self.is_warm = True
        return result


@typeof_impl.register(Kernel)
def type_of_kernel(kernel: Kernel, _: Any) -> Any:
    """Return the type of a kernel that another kernel names."""
    return kernel.numba_type


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
    return compiled(renamed(function, kept_name(function)), for_python=False, inline="always")


class Unit(Kernel):
    """A kernel that is compiled by itself, once, for one list of types; other kernels call it by address.

    Numba copies all that a kernel calls into it, and optimises and emits it again, at every level. A unit is compiled when it is
    first called: what a learner does not need (sampling, say) is never compiled for it. A call costs a few nanoseconds more.
    Without Numba's private names it is compiled with the first kernel that calls it, and copied into it.
    """

    def __init__(self, function: Function, result: Any, kinds: tuple[Any, ...]) -> None:
        super().__init__(function)
        self.result, self.kinds = result, kinds
        self.find_type = backend.add_unit(self)

    @cached_property
    def numba_type(self) -> Any:
        """The type by which other kernels know it."""
        return self.find_type()

    def compile_inner(self) -> Any:
        """Compile the function for other kernels, if that was not done yet; return Numba's result."""
        if self.kinds not in self.inner.overloads:
            with compile_notice(self.inner):
                self.inner.compile(self.kinds)
        return self.inner.overloads[self.kinds]

    @staticmethod
    def uninterrupted(action: Callable[[], None]) -> None:
        """Finish an action that compiled code calls. Interrupts (Ctrl-C) cannot pass through compiled code: they are raised a
        moment later.
        """
        late: list[int] = []
        while True:
            try:
                with interrupts_later() as came:
                    action()
                    late += came
                    came.clear()
                break
            except KeyboardInterrupt:  # in the moment before, or after
                late.append(signal.SIGINT)
        for number in late[:1]:
            raise_soon(number)


def unit(result: Any, *kinds: Any) -> Callable[[Function], Unit]:
    """Make a `Unit` of a function. result, kinds: types of Numba's, or classes of bundles."""
    result, *arguments = (getattr(kind, "_numba_type_", kind) for kind in (result, *kinds))
    return lambda function: Unit(function, result, tuple(arguments))


# ------------------------------------------------------------------------------------------------- atomic counters


@intrinsic
def add_at(context, address, amount):
    """Add to the int64 at an address atomically; return the old value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(types.int64)))
        return builder.atomic_rmw("add", place, arguments[1], "seq_cst")

    return types.int64(types.uintp, types.int64), generate


@inlined
def fetch_add(array, index, amount):
    """Add to an element that several threads change, atomically; return the old value. array: (n,) int64."""
    return add_at(array.ctypes.data + 8 * index, amount)


# ------------------------------------------------------------------------------------------------- notice


class CompileTime:
    """How long this process has compiled, and whether the notice was written."""

    seconds = 0.0
    said = False


@contextmanager
def compile_notice(dispatcher: Any) -> Iterator[None]:
    """Write one line when the compilation in this context, with those before, takes longer than COMPILE_NOTICE_SECONDS."""
    timer = threading.Timer(max(COMPILE_NOTICE_SECONDS - CompileTime.seconds, 0.0), say_that_it_compiles)
    timer.daemon = True
    begun, hits = time.monotonic(), sum(dispatcher.stats.cache_hits.values())
    if not CompileTime.said:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if sum(dispatcher.stats.cache_hits.values()) == hits:  # it was not loaded from disk
            CompileTime.seconds += time.monotonic() - begun


def say_that_it_compiles() -> None:
    """Write the line, unless this process or another one of the same run did."""
    if not CompileTime.said:
        CompileTime.said = True
        if is_first_of_run():
            print("cede: compiling for this machine, once; some seconds more ...", file=sys.stderr, flush=True)


def is_first_of_run() -> bool:
    """Return whether no process of this run (its process group) left a mark in the last NOTICE_AGAIN_SECONDS, and leave one."""
    mark = Path(tempfile.gettempdir(), f"cede-compiling-{getattr(os, 'getpgrp', os.getppid)()}")
    with suppress(OSError):
        if time.time() - mark.stat().st_mtime < NOTICE_AGAIN_SECONDS:
            return False
        mark.unlink()
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:  # no place for a mark
        pass
    return True
