"""How kernels are compiled and kept."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

Function = Callable[..., Any]


def digest_of_sources() -> str:
    """Of all kernels. numba's cache on disk notices a change only in the file of the function that it compiles, not in those of
    the functions that this one calls; so every kernel carries this in its name, and an edit anywhere compiles all anew.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


DIGEST = digest_of_sources()


def kernel(function: Function, **extra: Any) -> Function:
    """Compile on first call, cache on disk where a directory can be written, release the GIL.

    Kernels allocate nothing: what they need is passed in. So numba need not count references to arrays, which in small
    functions costs more than the work itself. They are compiled for each type of argument, and a constant is a type of its own:
    where one kernel calls another, constants are wrapped as in np.int64(0).
    """
    function.__qualname__ = f"{function.__qualname__}_{DIGEST}"
    options = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True, **extra}
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba found no directory that it may write to
        return numba.njit(**options)(function)  # type: ignore[no-any-return]


def inlined(function: Function) -> Function:
    """Like `kernel`, pasted into its callers: calls that pass many arrays cost more than what they do."""
    return kernel(function, inline="always")


def vector_kernel(function: Function) -> Function:
    """Like `kernel`; sums may be reordered, which lets them run in vector registers."""
    return kernel(function, fastmath={"reassoc", "nsz", "nnan"})
