"""Files: written whole or not at all, and never pickled. Arrays go into NumPy's .npz with a JSON header."""

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

HEADER = "header"  # name of the array that holds it


def write_whole(path: Path, text: str) -> None:
    """Text, as `replace_whole` writes it."""
    replace_whole(path, lambda file: file.write(text.encode()))


def replace_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """To a temporary file, synced, then renamed: a reader sees the old file or the new one, never a piece."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def save_arrays(path: Path, kind: str, schema: int, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Arrays, and what they are: `kind` and `schema` tell whether a reader understands them."""
    text = json.dumps({"kind": kind, "schema": schema, **header})
    everything: dict[str, Any] = {HEADER: np.frombuffer(text.encode(), dtype=np.uint8), **arrays}
    replace_whole(path, lambda file: np.savez(file, **everything))


def load_arrays(path: Path, kind: str, schema: int) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file of this kind."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop(HEADER).tobytes())
        found = (header["kind"], header["schema"])
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: cannot be read, must be a {kind} of cede; it is another file, or damaged") from error
    if found != (kind, schema):
        raise ValueError(f"{path}: is a {found[0]} of schema {found[1]}, must be a {kind} of schema {schema}")
    return header, arrays
