"""Files: written whole or not at all, and never pickled. Arrays go into NumPy's .npz, uncompressed, with a JSON header.

What is read is checked before it is believed: that the file is whole (a checksum over header and arrays), that it claims no more
than it holds, that it is of the kind and schema that the reader understands. All that is wrong with a file is an `UnreadableFile`.
"""

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

HEADER = "header"  # name of the array that holds it
READABLE = "biuf"  # kinds of numbers; no objects, no text


class UnreadableFile(ValueError):
    """A file that is damaged, of another kind, or of a newer cede."""


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
    about, arrays = {"kind": kind, "schema": schema, **header}, {name: np.ascontiguousarray(a) for name, a in arrays.items()}
    text = json.dumps({**about, "checksum": checksum(about, arrays)})
    everything: dict[str, Any] = {HEADER: np.frombuffer(text.encode(), dtype=np.uint8), **arrays}
    replace_whole(path, lambda file: np.savez(file, **everything))


def checksum(header: Mapping[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def load_arrays(path: Path, kinds: str | tuple[str, ...], schema: int) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file of this kind, or of one of these."""
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    kind = " or ".join(kinds)
    try:
        with path.open("rb") as opened, zipfile.ZipFile(opened) as file:
            arrays = {name.removesuffix(".npy"): read_array(file, name) for name in names_in(file, path.stat().st_size)}
        header = json.loads(arrays.pop(HEADER).tobytes())
        found, promised = (header["kind"], header["schema"]), header.pop("checksum", None)
    except OSError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise UnreadableFile(f"{path}: cannot be read, must be a {kind} of cede; it is another file, or damaged") from error
    if found[0] in kinds and isinstance(found[1], int) and found[1] > schema:
        raise UnreadableFile(f"{path}: is a {found[0]} of schema {found[1]}, must be at most {schema}: it is of a newer cede")
    if found[0] not in kinds or found[1] != schema:
        raise UnreadableFile(f"{path}: is a {found[0]} of schema {found[1]}, must be a {kind} of schema {schema}")
    if checksum(header, arrays) != promised:
        raise UnreadableFile(f"{path}: cannot be read, must be as it was written; its checksum is not that of its contents")
    return header, arrays


def names_in(file: zipfile.ZipFile, size: int) -> list[str]:
    """The members of an archive, none of which claims more bytes than there are."""
    for member in file.infolist():
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size or member.file_size > size:
            raise ValueError(f"{member.filename} claims {member.file_size} bytes")
    names = file.namelist()
    if len(set(names)) < len(names):
        raise ValueError("a name occurs twice")
    return names


def read_array(file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """One array, if its own header claims no more than is there."""
    data = file.read(name)
    with file.open(name) as member:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(member)
        begin = member.tell()
    count = 1
    for side in shape:
        count *= int(side)
    if dtype.kind not in READABLE or fortran or min(shape, default=0) < 0 or count * dtype.itemsize != len(data) - begin:
        raise ValueError(f"{name} claims {shape} of {dtype}")
    return np.frombuffer(data, dtype, count, begin).reshape(shape).copy()
