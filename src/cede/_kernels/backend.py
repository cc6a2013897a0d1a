"""Choose how kernels are made: with private names of Numba (numba_private.py) or without them (numba_plain.py).

The plain way takes longer to compile and gives the same bits. It is chosen if the private names are missing or have changed, or if
the environment variable CEDE_PLAIN_NUMBA is set. docs/numba.md lists the names.
"""

import os
import warnings
from types import ModuleType
from typing import Any

import numba

config: Any = numba.config


def chosen() -> ModuleType:
    """Return numba_private if this version of Numba has what that needs, else numba_plain."""
    if os.environ.get("CEDE_PLAIN_NUMBA", "0") in ("", "0"):
        try:
            from cede._kernels import numba_private
        except (ImportError, AttributeError) as error:
            hint = "kernels take longer to compile; see docs/numba.md"
            warnings.warn(f"cede: Numba {numba.__version__} lacks what cede needs ({error}): {hint}", RuntimeWarning, stacklevel=2)
        else:
            return numba_private
    if config.DISABLE_JIT:  # Numba would not compile the functions that read fields
        raise RuntimeError("cede: NUMBA_DISABLE_JIT is set, must not be set without Numba's private names (docs/numba.md)")
    from cede._kernels import numba_plain

    return numba_plain


backend = chosen()
