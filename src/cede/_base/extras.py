"""Optional dependencies: imported when needed, with the exact command to get them when missing."""

from importlib import import_module
from pathlib import Path
from typing import Any

from cede._base.archive import replace_whole

# One for each agent in pictures, safe for the colour-blind.
AGENT_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


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


def save_picture(picture: Any, path: Path, **options: Any) -> Path:
    """Write a picture, whole or not at all; its kind follows from the ending."""
    kind = path.suffix.removeprefix(".") or "png"
    replace_whole(path, lambda file: picture.savefig(file, format=kind, dpi=200, **options))
    return path
