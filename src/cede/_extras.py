"""Optional dependencies: imported when needed, with the exact command to get them when missing."""

from importlib import import_module
from typing import Any


def need(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        raise ImportError(f'{package} is needed for this and is not installed: pip install "cede[{extra}]"') from error


def pyplot() -> Any:
    """Matplotlib for files: no window, no display needed."""
    need("matplotlib", "plots").use("Agg", force=False)
    return need("matplotlib.pyplot", "plots")
