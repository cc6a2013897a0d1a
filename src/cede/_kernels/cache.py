"""Compiled code on disk: Numba's cache, which a damaged file or a full disk makes slow instead of unusable."""

import sys
from typing import Any

from numba.core.caching import FunctionCache


class CodeCache(FunctionCache):
    """Numba's cache of one function. What cannot be read is compiled and written again; what cannot be written is not kept."""

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
