"""Write files whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_whole(path: Path, text: str) -> None:
    """Write a text file whole or not at all, as `replace_whole` does."""
    replace_whole(path, lambda file: file.write(text.encode()))


def replace_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Replace a file in one step: a reader sees the old file or the new one, never a part of it.

    write: gets an open file and writes the contents to it. They go to a file of this process beside `path`, which is then renamed.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            write(file)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
