"""Optional dependencies: imported when needed; if one is missing, the error names the exact command that installs it."""

from importlib import import_module
from pathlib import Path
from textwrap import wrap
from typing import Any

from cede._base import check
from cede._base.archive import replace_whole

# Colours of the agents in pictures, which colour-blind people can tell apart.
AGENT_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


def need(module: str, extra: str) -> Any:
    """Import and return a module of an optional dependency; if it is missing, say which extra of cede to install."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        raise ImportError(f'{package} is needed for this and is not installed: pip install "cede[{extra}]"') from error


def pyplot() -> Any:
    """Return matplotlib.pyplot, set up to draw into files: no window and no display are needed."""
    need("matplotlib", "plots").use("Agg", force=False)
    return need("matplotlib.pyplot", "plots")


def label(name: object) -> str:
    """Return a name escaped so that Matplotlib shows it literally: no formula, no escape code, no hidden legend entry."""
    text = check.printable(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def wrapped_label(name: object, width: int = 30) -> str:
    """Return a name as `label` does, in up to four lines of `width` characters; longer names end in dots."""
    lines = wrap(check.printable(name), width, max_lines=4, placeholder=" ...")
    return "\n".join(label(line) for line in lines)


def save_picture(picture: Any, path: Path, **options: Any) -> Path:
    """Write a Matplotlib figure to a file, completely or not at all, and return the path. Its format follows from the file's
    suffix.
    """
    kind = path.suffix.removeprefix(".") or "png"
    replace_whole(path, lambda file: picture.savefig(file, format=kind, dpi=200, **options))
    return path
